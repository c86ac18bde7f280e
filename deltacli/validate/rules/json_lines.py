"""The lines of commits as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from deltacli.checking.model import ERROR, INFO, WARNING, Finding, rule
from deltacli.validate.commits import BOM, Body, Commit, has_double_keys


def _flaws(commit: Commit, kind: str) -> Iterator[Finding]:
    for line in commit.lines:
        if line.flaw and line.flaw[0] == kind:
            yield Finding(line.flaw[1], line=line.number)


@rule("JSN001", ERROR, "Each line is JSON", of=Commit)
def each_line_is_json(commit: Commit) -> Iterator[Finding]:
    """Each line of a commit is a whole JSON document.

    Why: a line that is cut off or garbled makes the whole commit unreadable.
    Fix: restore the file from a backup.
    """
    yield from _flaws(commit, "json")


@rule("JSN002", ERROR, "Each line is an object", of=Commit)
def each_line_is_an_object(commit: Commit) -> Iterator[Finding]:
    """Each line is a JSON object, and so is the body of its action.

    Why: anything else is no action.
    Fix: restore the file from a backup.
    """
    yield from _flaws(commit, "object")


@rule("JSN003", ERROR, "Each line has one action", of=Commit)
def each_line_has_one_action(commit: Commit) -> Iterator[Finding]:
    """A line has exactly one of the protocol's actions.

    Why: readers take one of them and lose the others, and not all take the same.
    Fix: write each action on a line of its own.
    """
    yield from _flaws(commit, "many")


@rule("JSN004", INFO, "Every action is known", of=Commit)
def every_action_is_known(commit: Commit) -> Iterator[Finding]:
    """A line has no action that this program does not know.

    Why: readers pass over it; a newer protocol may mean something by it.
    Fix: none is needed, if whoever wrote it knows.
    """
    for line in commit.lines:
        for key in line.unknown:
            yield Finding(f"the action {key!r} is unknown", line=line.number)


@rule("JSN005", WARNING, "No key comes twice", of=Commit)
def no_key_comes_twice(commit: Commit) -> Iterator[Finding]:
    """No object of a line has one key twice.

    Why: JSON leaves open which of them counts, and readers differ.
    Fix: restore the file from a backup, or mend its writer.
    """
    for line in commit.lines:
        # Only where there are more keys in the text than in what was read is it worth a look.
        if line.flaw is None or line.flaw[0] == "many":
            keys, raw = _num_keys(line.body) + 1, line.raw
            # Without blanks before colons, which are rare, counting is quick.
            is_plain = raw.count(b'":') - raw.count(b'\\":') == keys and b'" ' not in raw
            if not is_plain and (len(_KEY_END.findall(raw)) != keys or line.unknown or line.flaw):
                key = has_double_keys(line.raw)
                if key is not None:
                    yield Finding(f"the key {key!r} comes twice", line=line.number)


_KEY_END = re.compile(rb'(?<!\\)"\s*:')


def _num_keys(value: Body) -> int:
    count = 0
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        inner = one.values() if isinstance(one, dict) else one
        count += len(one) if isinstance(one, dict) else 0
        waiting += [part for part in inner if type(part) in (dict, list)]
    return count


@rule("JSN006", WARNING, "Lines are plain", of=Commit)
def lines_are_plain(commit: Commit) -> Iterator[Finding]:
    """A commit has no byte order mark, no carriage returns and no blank lines.

    Why: the protocol asks for newline-delimited JSON; stricter readers refuse the rest.
    Fix: mend the writer; do not edit commits of a table in use.
    """
    content = commit.content
    if content.startswith(BOM):
        yield Finding("the file begins with a byte order mark", line=1)
    if b"\r" in content:
        yield Finding(
            "a line ends with a carriage return",
            line=content[: content.index(b"\r")].count(b"\n") + 1,
        )
    lines = (
        content.removesuffix(b"\n").split(b"\n")
        if b"\n\n" in content or (content[:1].isspace())
        else []
    )
    for number, line in enumerate(lines, 1):
        if not line.strip():
            yield Finding("a line is blank", line=number)
            return


@rule("JSN007", ERROR, "Text is UTF-8", of=Commit)
def text_is_utf8(commit: Commit) -> Iterator[Finding]:
    """Every text is valid UTF-8 and has no half of a surrogate pair.

    Why: readers refuse it, or turn it into other text: paths then name no file.
    Fix: restore the file from a backup.
    """
    yield from _flaws(commit, "text")


@rule("JSN008", ERROR, "Numbers are in range", of=Commit)
def numbers_are_in_range(commit: Commit) -> Iterator[Finding]:
    """Numbers are those of JSON, and fit the type of their field.

    Why: NaN, Infinity and longer integers are errors, or other numbers, to readers.
    Fix: restore the file from a backup, or mend its writer.
    """
    yield from _flaws(commit, "number")
    for line, one in commit.misfits:
        if one.what == "beyond":
            yield Finding(
                f"{line.key}.{one.name} is no {one.expected.removeprefix('a ')}: {one.value}",
                line=line.number,
            )


@rule("JSN009", INFO, "Every field is known", of=Commit)
def every_field_is_known(commit: Commit) -> Iterator[Finding]:
    """An action has no field that this program does not know.

    Why: readers pass over it; a newer protocol may mean something by it.
    Fix: none is needed, if whoever wrote it knows.
    """
    seen: set[tuple[str, str]] = set()
    for line, one in commit.misfits:
        if one.what == "unknown" and (line.key, one.name) not in seen:
            seen.add((line.key, one.name))
            yield Finding(f"the field {line.key}.{one.name} is unknown", line=line.number)
