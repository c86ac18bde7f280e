"""Which versions can still be read after files are gone."""

from __future__ import annotations

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
    """From `earliest` on every version has its files; `lost` can be rebuilt but not be read."""

    earliest: int
    lost: tuple[int, ...]


def readable_after(recent: RecentLog, references: References, found: Unreferenced) -> Readable:
    """Follow the log back to the newest commit that removed a file which is or will be gone."""
    snapshot = recent.snapshot
    rebuildable = [v for v, is_so in snapshot.whole_listing.rebuildable().items() if is_so]
    oldest = min((v for v in rebuildable if v <= snapshot.version), default=snapshot.version)
    earliest = _newest_loss(recent, references, found)
    if earliest is None:
        return Readable(oldest, ())
    return Readable(earliest, tuple(v for v in rebuildable if v < earliest))


def _newest_loss(recent: RecentLog, references: References, found: Unreferenced) -> int | None:
    """The newest version whose commit removed a file that is gone, or that will be."""
    looks = _MOST_LOOKS
    store = recent.snapshot.store
    due = (
        (name, one.version)
        for one in removals(store, recent.commits, recent.times)
        if one.removed_ms < references.delete_before_ms
        for name in references.names_of(one.body)
    )
    rows = 1
    while block := list(islice(due, rows)):
        names = path_array([name for name, _ in block])
        goes = pc.is_in(names, value_set=found.names).to_pylist()
        stays = pc.is_in(names, value_set=found.spared).to_pylist()
        for position, (name, version) in enumerate(block):
            if goes[position]:
                return version
            if not stays[position]:
                looks -= 1
                if looks < 0 or store.look(name) is None:
                    return version
        # Mostly the first one decides; if not, larger blocks cost less a name.
        rows = min(rows * 64, 1 << 16)
    return None
