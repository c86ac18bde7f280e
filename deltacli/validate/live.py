"""The newest version as a whole: what only shows across all its files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.columns import record_counts
from deltacli.delta.engine import FileBatch
from deltacli.delta.paths import LOG
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.stats import num_records
from deltacli.validate.adds import LiveAdds
from deltacli.validate.commits import Line
from deltacli.validate.definition import ROW_TRACKING, Definition
from deltacli.validate.replay import State, path_of


@dataclass(frozen=True)
class Live:
    """The newest version: its snapshot and, where the log reaches, its replayed state."""

    snapshot: Snapshot
    definition: Definition
    state: State | None
    twice_in_base: Sequence[str] = field(default_factory=tuple)

    file: None = None

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def has_row_ids(self) -> bool:
        return "rowTracking" in self.definition.features

    @property
    def double_spellings(self) -> Sequence[str]:
        return sorted(map(path_of, self.state.double_spellings)) if self.state else ()

    @property
    def high_water_mark(self) -> int | None:
        mark = (self.definition.domain(ROW_TRACKING) or {}).get("rowIdHighWaterMark")
        return mark if type(mark) is int else None

    @cached_property
    def row_ids(self) -> tuple[Any, Any, Any]:
        """Paths, first row ids and row counts of live files that have both."""
        paths, bases, counts = [], [], []
        for item in self.snapshot.files("add", ("path", "baseRowId", "stats", "stats_parsed")):
            if isinstance(item, FileBatch):
                batch = item.columns
                if "baseRowId" not in batch.schema.names:
                    continue
                paths.append(batch.column("path"))
                bases.append(batch.column("baseRowId").cast(pa.int64()))
                counts.append(record_counts(batch))
            else:
                base, stats = item.get("baseRowId"), item.get("stats")
                rows = num_records(stats) if isinstance(stats, str) else None
                paths.append(pa.array([item["path"]], pa.string()))
                bases.append(pa.array([base if type(base) is int else None], pa.int64()))
                counts.append(pa.array([rows], pa.int64()))
        kinds = (pa.string(), pa.int64(), pa.int64())
        columns = [
            pa.chunked_array(parts, kind)
            for parts, kind in zip((paths, bases, counts), kinds, strict=True)
        ]
        known = pc.and_(pc.is_valid(columns[1]), pc.is_valid(columns[2]))
        return tuple(one.filter(known) for one in columns)

    def overlaps(self) -> Iterator[tuple[str, str, int]]:
        """Pairs of files that share row ids, with the first that they share."""
        paths, bases, counts = self.row_ids
        if len(bases) < 2:
            return
        order = pc.sort_indices(bases)
        starts, sizes = bases.take(order), counts.take(order)
        ends = pc.add(starts, sizes)
        # Compared with the furthest end so far, so that a long file hides none.
        furthest = pc.cumulative_max(ends)
        clash = pc.greater(furthest[:-1], starts[1:])
        for position in pc.indices_nonzero(clash).to_pylist():
            first, second = order[position].as_py(), order[position + 1].as_py()
            yield paths[first].as_py(), paths[second].as_py(), starts[position + 1].as_py()

    @property
    def greatest_row_id(self) -> int | None:
        _, bases, counts = self.row_ids
        if not len(bases):
            return None
        greatest: int | None = pc.max(pc.add(bases, counts)).as_py()
        return None if greatest is None else greatest - 1


_FIELDS = (
    "path", "baseRowId", "defaultRowCommitVersion", "deletionVector", "stats", "stats_parsed",
    "clusteringProvider",
)  # fmt: skip
_ROWS = 1 << 13


def live_batches(snapshot: Snapshot, definition: Definition, now_ms: int) -> Iterator[LiveAdds]:
    """The live files of a snapshot, some at a time."""
    root = snapshot.store.location

    def of_batch(batch: Any) -> LiveAdds:
        return LiveAdds.of_batch(LOG, snapshot.version, definition, batch, now_ms=now_ms, root=root)

    def of_lines(lines: list[Line]) -> LiveAdds:
        return LiveAdds.of_lines(LOG, snapshot.version, definition, lines, now_ms=now_ms, root=root)

    lines: list[Line] = []
    for item in snapshot.files("add", _FIELDS):
        if isinstance(item, FileBatch):
            batch = item.columns
            for start in range(0, batch.num_rows, _ROWS):
                yield of_batch(batch.slice(start, _ROWS))
        else:
            lines.append(Line(0, b"", "add", item))
            if len(lines) == _ROWS:
                yield of_lines(lines)
                lines = []
    if lines:
        yield of_lines(lines)
