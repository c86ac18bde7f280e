"""Vacuum without a listing: candidates are what the log says was removed (V-40 … V-47)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltacli.delta.actions import Json
from deltacli.delta.columns import texts_of
from deltacli.delta.engine import Unreferenced
from deltacli.delta.hidden import HiddenNames
from deltacli.delta.retention import RecentLog, References, Removal, removals
from deltacli.delta.segment import LogFile
from deltacli.delta.vacuum_state import read_vacuum_state
from deltacli.errors import Refused
from deltacli.storage import Walked, group_by_folder


@dataclass(frozen=True)
class LiteRange:
    """The commits whose removed files are due, up to version `last`."""

    recent: RecentLog
    commits: list[LogFile]
    last: int

    def done(self, found: Unreferenced, references: References) -> int:
        """The version up to which nothing removed is left once the found files are gone."""
        spared = set(texts_of(found.spared))
        for one in reversed(list(_removals(self))):
            name = _own_names(one.body, references)
            if one.removed_ms >= references.delete_before_ms or spared.intersection(name):
                # Too young yet, by the log's clock or the storage's.
                return one.version - 1
        return self.last


def lite_range(recent: RecentLog) -> LiteRange:
    """Raises Refused if a removal before the range could have been missed (V-42)."""
    snapshot = recent.snapshot
    known = read_vacuum_state(snapshot.store, snapshot.version)
    first = recent.commits[0].version if recent.commits else snapshot.version + 1
    if first > 0 and (known is None or known < first):
        raise Refused(
            "the log does not tell all files that were removed since the last vacuum",
            hint="run a full vacuum once; it leaves what --mode lite needs",
            location=snapshot.store.location,
        )
    return commits_due(recent, known)


def commits_due(recent: RecentLog, known: int | None) -> LiteRange:
    """The commits between what was vacuumed before and the threshold."""
    last = recent.last_before(recent.delete_before_ms)
    after = -1 if known is None else known
    return LiteRange(recent, [one for one in recent.commits if after < one.version <= last], last)


def candidates_of_log(
    lite: LiteRange, references: References, hides: HiddenNames
) -> Iterator[Walked]:
    """Removed files and change data, each once; size and age are looked up later."""
    names = {name for one in _removals(lite) for name in _own_names(one.body, references)}
    for walked in group_by_folder(((name, 0, None) for name in sorted(names)), hides):
        yield Walked(walked.folder, walked.names, pins=walked.pins)


def _removals(lite: LiteRange) -> Iterator[Removal]:
    store = lite.recent.snapshot.store
    return removals(store, lite.commits, lite.recent.times, kinds=("remove", "cdc"))


def _own_names(body: Json, references: References) -> list[str]:
    """What exactly a removal means: a candidate is not to be guessed at."""
    root, vector = references.root, body.get("deletionVector")
    names = [root.own_name(body["path"]), root.own_vector_name(vector) if vector else None]
    return [name for name in names if name is not None]
