"""One commit as its lines, each read as far as it can be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from deltacli.delta.actions import ACTION_KEYS
from deltacli.delta.paths import canonical_path, commit_path
from deltacli.delta.replay import FileKey, key_of
from deltacli.delta.segment import LogFile
from deltacli.validate.definition import Definition
from deltacli.validate.shapes import Misfit, misfits

if TYPE_CHECKING:
    from deltacli.validate.replay import State

BOM = b"\xef\xbb\xbf"
Body = Mapping[str, Any]
_CONSTANT = re.compile(rb"[:\[,]\s*-?(?:NaN|Infinity)\s*[,}\]]")


@dataclass(frozen=True, slots=True)
class Line:
    """A line with its action; `flaw` is why it has none, as a kind and a text.

    Kinds are `json`, `text`, `number`, `object` and `many`; of many actions the first counts.
    """

    number: int
    raw: bytes
    key: str = ""
    body: Body = field(default_factory=dict)
    flaw: tuple[str, str] | None = None
    unknown: tuple[str, ...] = ()


def parse_lines(content: bytes) -> list[Line]:
    """The lines of a commit that are not blank."""
    content = content.removeprefix(BOM)
    return [
        parse_line(number, raw)
        for number, raw in enumerate(content.split(b"\n"), 1)
        if raw and not raw.isspace()
    ]


def parse_line(number: int, raw: bytes) -> Line:
    try:
        action = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        return _odd_line(number, raw, str(error))
    return _line_of(number, raw, action)


def _line_of(number: int, raw: bytes, action: Any) -> Line:
    if type(action) is not dict:
        kind = type(action).__name__
        return Line(number, raw, flaw=("object", f"the line is no JSON object but {kind}"))
    if len(action) == 1:
        ((key, body),) = action.items()
        if key in _KEYS and type(body) is dict:
            return Line(number, raw, key, body)
    known = [key for key in ACTION_KEYS if action.get(key) is not None]
    unknown = tuple(sorted(action.keys() - _KEYS))
    if not known:
        flaw = None if unknown else ("object", "the line has no action")
        return Line(number, raw, flaw=flaw, unknown=unknown)
    flaw = None
    if len(known) > 1:
        flaw = ("many", f"the line has several actions: {', '.join(known)}")
    body = action[known[0]]
    if type(body) is not dict:
        return Line(number, raw, flaw=("object", f"{known[0]} is no JSON object"))
    return Line(number, raw, known[0], body, flaw, unknown)


_KEYS = frozenset(ACTION_KEYS)


def _odd_line(number: int, raw: bytes, reason: str) -> Line:
    """A line that the strict parser refuses: why, and what a lenient one makes of it."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return Line(number, raw, flaw=("text", f"the line is not UTF-8: byte {error.start + 1}"))
    try:
        action = json.loads(text)
    except (ValueError, RecursionError):
        cut = not raw.rstrip().endswith(b"}")
        return Line(number, raw, flaw=("json", "the line is cut off" if cut else reason))
    line = _line_of(number, raw, action)
    if line.flaw:
        return line
    if _CONSTANT.search(raw):
        flaw = ("number", "NaN and Infinity are no numbers of JSON")
    elif any(0xD800 <= ord(one) < 0xE000 for one in json.dumps(action, ensure_ascii=False)):
        flaw = ("text", "a text has half of a surrogate pair")
    else:
        flaw = ("number", f"a number is out of range ({reason})")
    return Line(number, raw, line.key, line.body, flaw, line.unknown)


def has_double_keys(raw: bytes) -> str | None:
    """A key that stands twice in one object of a line, if there is one."""
    doubled: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            names = [name for name, _ in items]
            doubled.extend(name for name in found if names.count(name) > 1)
        return found

    try:
        json.loads(raw, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return None
    return doubled[0] if doubled else None


@dataclass(frozen=True)
class Commit:
    """A commit between the state before it and the definition that it leaves.

    Without `state` it is not known which files were live: older commits are missing.
    """

    version: int
    content: bytes
    lines: list[Line]
    before: Definition | None
    definition: Definition | None
    state: State | None
    previous: Commit | None = None
    log_file: LogFile | None = None
    now_ms: int = 0

    @property
    def file(self) -> str:
        return commit_path(self.version)

    @property
    def file_ms(self) -> int | None:
        return self.log_file.modified_ms if self.log_file else None

    def actions(self, *keys: str) -> Iterator[Line]:
        for line in self.lines:
            if line.key in keys:
                yield line

    @cached_property
    def info(self) -> Body | None:
        """The commitInfo, the first if there are several."""
        return next((line.body for line in self.actions("commitInfo")), None)

    @property
    def operation(self) -> str | None:
        operation = (self.info or {}).get("operation")
        return operation if isinstance(operation, str) else None

    @property
    def is_first_action_info(self) -> bool:
        return bool(self.lines) and self.lines[0].key == "commitInfo"

    @cached_property
    def stamp(self) -> int | None:
        """The commit's own time."""
        stamp = (self.info or {}).get("inCommitTimestamp")
        return stamp if type(stamp) is int else None

    @cached_property
    def misfits(self) -> list[tuple[Line, Misfit]]:
        return [
            (line, one) for line in self.lines if line.key for one in misfits(line.key, line.body)
        ]

    @cached_property
    def broken(self) -> frozenset[int]:
        """The numbers of lines whose action cannot be taken at its word."""
        return frozenset(line.number for line, one in self.misfits if one.what != "unknown")

    def sound(self, *keys: str) -> Iterator[Line]:
        """The actions whose fields are all of the right type."""
        for line in self.lines:
            if line.key in keys and line.number not in self.broken:
                yield line

    @cached_property
    def adds(self) -> list[tuple[FileKey, Line]]:
        return self._keyed("add")

    @cached_property
    def removes(self) -> list[tuple[FileKey, Line]]:
        return self._keyed("remove")

    def _keyed(self, key: str) -> list[tuple[FileKey, Line]]:
        found = []
        for line in self.sound(key):
            try:
                found.append((key_of(line.body), line))
            except ValueError:
                continue
        return found

    @cached_property
    def is_whole(self) -> bool:
        """Whether every line could be taken at its word, so that what follows is certain."""
        return bool(self.lines) and not any(
            line.flaw or line.number in self.broken for line in self.lines
        )


_PATH = re.compile(rb'"path"\s*:\s*"((?:[^"\\]|\\.)*)"')


def paths_in(content: bytes) -> Iterator[str]:
    """The canonical paths that a commit may speak of, without parsing it; rather too many."""
    for text in _PATH.findall(content):
        path = text.decode("utf-8", "surrogateescape")
        if "\\" in path:
            with suppress(ValueError):
                path = json.loads(f'"{path}"')
        yield canonical_path(path)
