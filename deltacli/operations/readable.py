"""Which versions can still be read after files are gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow.compute as pc

from deltacli.delta.columns import path_array
from deltacli.delta.engine import Unreferenced
from deltacli.delta.retention import RecentLog, References, removals

# Looking at single files is for the few that a listing does not decide.
_MOST_LOOKS = 1000


@dataclass(frozen=True, slots=True)
class Readable:
    """From `earliest` on every version has its files; `lost` can be rebuilt but not be read.

    None if finding it out would take too many requests.
    """

    earliest: int | None
    lost: tuple[int, ...]


def readable_after(recent: RecentLog, references: References, found: Unreferenced) -> Readable:
    """Follow the log back to the newest commit that removed a file which is or will be gone."""
    snapshot = recent.snapshot
    rebuildable = [v for v, is_so in snapshot.whole_listing.rebuildable().items() if is_so]
    try:
        loss = _newest_loss(recent, references, found)
    except _TooManyLooks:
        return Readable(None, ())
    kept = [version for version in rebuildable if loss is None or version >= loss]
    return Readable(
        min(kept, default=snapshot.version), tuple(v for v in rebuildable if v not in kept)
    )


class _TooManyLooks(Exception):
    """Whether many single files are there is for a listing to say."""


def _newest_loss(recent: RecentLog, references: References, found: Unreferenced) -> int | None:
    """The newest version whose commit removed a file that is gone, or that will be."""
    looks = 0
    store = recent.snapshot.store
    due: Iterator[tuple[str, int]] = (
        (name, one.version)
        for one in removals(store, recent.commits, recent.times)
        if one.removed_ms < references.delete_before_ms
        for name in references.names_of(one.body)
    )
    rows = 1
    while block := list(islice(due, rows)):
        names = path_array([name for name, _ in block])
        goes = pc.is_in(names, value_set=found.names)
        lost: list[int] = [block[position][1] for position in pc.indices_nonzero(goes).to_pylist()]
        unsure: list[int] = []
        if len(lost) < len(block):
            stays = pc.or_(pc.is_in(names, value_set=found.spared), found.is_protected(names))
            unsure = pc.indices_nonzero(pc.invert(pc.or_(goes, stays))).to_pylist()
        looks += len(unsure)
        if looks > _MOST_LOOKS:
            unsure = unsure[:_MOST_LOOKS]
        looked = store.look_at_files([block[position][0] for position in unsure])
        lost += [
            block[position][1]
            for position, there in zip(unsure, looked, strict=True)
            if there is None
        ]
        if lost:
            return max(lost)
        if looks > _MOST_LOOKS:
            raise _TooManyLooks
        # Mostly the first one decides; if not, larger blocks cost less a name.
        rows = min(rows * 64, 1 << 16)
    return None
