"""Vacuum without a listing: candidates are what the log says was removed (V-40 … V-47)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltacli.delta.hidden import HiddenNames
from deltacli.delta.retention import RecentLog, References, removals
from deltacli.delta.segment import LogFile
from deltacli.delta.vacuum_state import read_vacuum_state
from deltacli.errors import Refused
from deltacli.storage import Walked, group_by_folder


@dataclass
class LiteRange:
    """The commits whose removed files are due. `done` is the last one that will be finished."""

    recent: RecentLog
    commits: list[LogFile]
    done: int


def lite_range(recent: RecentLog) -> LiteRange:
    """Raises Refused if a removal before the range could have been missed (V-42)."""
    known = read_vacuum_state(recent.snapshot.store)
    first = recent.commits[0].version if recent.commits else recent.snapshot.version + 1
    if first > 0 and (known is None or known < first):
        raise Refused(
            "the log does not tell all files that were removed since the last vacuum",
            hint="run a full vacuum once; it leaves what --mode lite needs",
            location=recent.snapshot.store.location,
        )
    last = recent.last_old
    after = -1 if known is None else known
    return LiteRange(recent, [one for one in recent.commits if after < one.version <= last], last)


def candidates_of_log(
    lite: LiteRange, references: References, hides: HiddenNames
) -> Iterator[Walked]:
    """Removed files and change data, each once; their sizes are looked up later."""
    store = lite.recent.snapshot.store
    seen: dict[str, int] = {}
    for one in removals(store, lite.commits, lite.recent.times, kinds=("remove", "cdc")):
        if one.removed_ms >= references.delete_before_ms:
            # A clock was ahead: it is not due yet, and must be looked at again.
            lite.done = min(lite.done, one.version - 1)
        for name in references.names_of(one.body):
            seen.setdefault(name, one.removed_ms)
    for walked in group_by_folder(((name, 0, seen[name]) for name in sorted(seen)), hides):
        yield Walked(walked.folder, walked.names, None, walked.modified_ms, walked.pins)
