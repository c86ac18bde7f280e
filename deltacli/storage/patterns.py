"""What a table is known by, and tables by a pattern such as `s3://bucket/sales/*`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from deltacli.errors import FileMissing, NotFound, StorageError
from deltacli.storage import LogStore, open_store

_WILD = re.compile(r"[*?\[]")
# How a table is known: a folder in it, and how a name in that folder begins.
Mark = tuple[str, str]
DELTA: Mark = ("_delta_log", "")
PAIMON: Mark = ("schema", "schema-")
_PAIMON_FOLDERS = frozenset(
    ("schema", "snapshot", "tag", "changelog", "manifest", "statistics", "index", "branch")
)


def bears(store: LogStore, mark: Mark) -> bool:
    """Whether a place has the mark of a table of some kind."""
    folder, start = mark
    try:
        return any(one.name.startswith(start) for one in store.list_from(folder, start))
    except StorageError as error:
        # What cannot be looked into is told when it is looked into.
        return not isinstance(error, FileMissing)


def is_paimon_table(store: LogStore) -> bool:
    """Whether a place is a Paimon table; one with a Delta log is a Delta table.

    That of Paimon is looked for first: hardly a Delta table has it, and its log may be long.
    """
    return bears(store, PAIMON) and not bears(store, DELTA)


def is_of_table(path: str) -> bool:
    """Whether a local file is one that a table's metadata lies in."""
    parts = os.path.realpath(path).split(os.sep)
    return DELTA[0] in parts or any(
        part in _PAIMON_FOLDERS and is_paimon_table(open_store(os.sep.join(parts[:at]) or os.sep))
        for at, part in enumerate(parts[:-1])
    )


def is_there(store: LogStore) -> bool:
    """Whether there is such a place; one that cannot be looked into is taken to be there."""
    try:
        next(iter(store.list_from("")), None)
    except StorageError as error:
        return not isinstance(error, FileMissing)
    return True


def is_pattern(table: str) -> bool:
    return _WILD.search(table) is not None


def matching_tables(
    pattern: str, options: Mapping[str, str] | None = None, marks: Sequence[Mark] = (DELTA,)
) -> list[str]:
    """The tables whose path or URL matches, in order; each wildcard stays within one folder.

    A folder that is really called so is itself. Raises NotFound if there is none.
    """
    if not is_pattern(pattern) or _is_table(pattern, options, marks):
        return [pattern]
    steps = pattern.rstrip("/").split("/")
    first = next(number for number, one in enumerate(steps) if is_pattern(one))
    root = "/".join(steps[:first])
    start = root if root or not pattern.startswith("/") else "/"
    folders = _below(start or ".", steps[first:], options)
    found = [one for one in folders if _is_table(one, options, marks)]
    if not found:
        raise NotFound(f"no table matches {pattern!r}", hint="check the pattern")
    return [one.removeprefix("./") if not root and start != "/" else one for one in found]


def _below(folder: str, steps: list[str], options: Mapping[str, str] | None) -> Iterator[str]:
    if not steps:
        yield folder
        return
    step, *rest = steps
    if not is_pattern(step):
        yield from _below(f"{folder.rstrip('/')}/{step}", rest, options)
        return
    try:
        entries = list(open_store(folder, options).list_from(""))
    except FileMissing:
        return
    for entry in entries:
        hidden = entry.name.startswith(".") and not step.startswith(".")
        if entry.is_folder and not hidden and fnmatchcase(entry.name, step):
            yield from _below(f"{folder.rstrip('/')}/{entry.name}", rest, options)


def _is_table(place: str, options: Mapping[str, str] | None, marks: Sequence[Mark]) -> bool:
    store = open_store(place, options)
    return any(bears(store, one) for one in marks)
