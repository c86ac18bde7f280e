"""A version of a shared table: its files, and what they need."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.replay import FileKey
from deltacli.delta.schema import Struct
from deltacli.delta.segment import LogListing
from deltacli.delta.snapshot import Snapshot
from deltacli.sharing.needs import needs_of
from deltacli.sharing.server.explain import LOCK_SECONDS, busy, explained, strangers
from deltacli.sharing.server.failures import unsupported
from deltacli.sharing.server.once import once
from deltacli.sharing.server.rows import (
    CHEAP_FIELDS,
    FileRow,
    advanced,
    changes_since,
    live_batches,
    odd_paths,
    rows_of,
    vectors_of,
)
from deltacli.sharing.server.sieve import Filter, Partitions

if TYPE_CHECKING:
    from deltacli.sharing.server.tables import SharedTable


# A version that is made from the one before takes the time of what changed.
_MOST_COMMITS, _MOST_BATCHES, _MOST_BYTES = 100, 500, 32 << 20
# How much larger a checkpoint is in memory than in its file.
_UNPACKED = 5


@dataclass(frozen=True, slots=True)
class Sums:
    """What one look at all shared files of a version finds."""

    files: int
    bytes: int
    has_vectors: bool
    has_strangers: bool


class Version:
    """A version of a shared table."""

    def __init__(self, table: SharedTable, snapshot: Snapshot, before: Version | None = None):
        self.table = table
        self.snapshot = snapshot
        # A version that nobody has looked at hands on the one that it came from.
        self._before: Version | None = before
        if before is not None and before._sums is None:
            self._before = before._before
        self.stamp = stamp_of(snapshot.listing, snapshot.version)
        # Its rows, while there is room for them.
        self.kept: list[Any] | None = None
        self._fits = False
        self._sums: Sums | None = None
        self._lock = threading.Lock()

    @property
    def number(self) -> int:
        return self.snapshot.version

    @once
    def schema(self) -> Struct:
        with explained(self.table.name):
            schema = self.snapshot.schema
        if schema is None:
            raise unsupported("the table has no schema")
        return schema

    @once
    def partitions(self) -> Partitions:
        is_mapped = self.snapshot.mapped_schema is not None
        columns = self.snapshot.metadata.partition_columns
        return Partitions(self.schema, columns, is_mapped=is_mapped)

    @once
    def filter(self) -> Filter | None:
        text = self.table.entry.partition_filter
        with explained(self.table.name):
            return None if text is None else Filter(text, self.partitions)

    def rows(self) -> Iterator[FileRow]:
        """The files that are shared."""
        with explained(self.table.name):
            kept = self.kept
            for batch in self._batches() if kept is None else kept:
                yield from rows_of(batch)

    def _batches(self) -> Iterator[Any]:
        """The files that are shared, as columns."""
        return self._shared(live_batches(self.snapshot, self.partitions.keys.values()))

    def _shared(self, batches: Iterable[Any]) -> Iterator[Any]:
        """What the provider's filter leaves of some batches."""
        filter_ = self.filter
        for batch in batches:
            if filter_ is not None:
                shared = map(filter_.shares, batch.column("partition").to_pylist())
                batch = batch.filter(pa.array(shared, pa.bool_()))
            yield batch

    def _changed_batches(self) -> Iterator[Any] | None:
        """The same from those of the version before, if they are kept and only files changed."""
        before, self._before = self._before, None
        kept = before.kept if before else None
        if before is None or kept is None or len(kept) > _MOST_BATCHES:
            return None
        commits = self.snapshot.listing.commits
        numbers = range(before.number + 1, self.number + 1)
        if not 0 < len(numbers) <= _MOST_COMMITS or not all(one in commits for one in numbers):
            return None
        if sum(commits[one].size for one in numbers) > _MOST_BYTES:
            return None
        names = {key: key for key in self.partitions.keys.values()}
        changes: dict[FileKey, FileRow | None] = {}
        for number in numbers:
            with self.table.store.open(commits[number].path) as lines:
                if not changes_since(lines, names, changes):
                    return None
        return self._shared(advanced(kept, changes))

    def _cheap_batches(self) -> Iterator[Any] | None:
        """The same without statistics, where all of them would be too much to keep."""
        checkpoint = self.snapshot.segment.checkpoint
        files = checkpoint.files if checkpoint else ()
        stored = sum(file.size for file in files)
        stored += sum(one.size_in_bytes for one in self.snapshot.state.sidecars)
        if stored * _UNPACKED <= self.table.shelf.most_bytes:
            return None
        keys = self.partitions.keys.values()
        return self._shared(live_batches(self.snapshot, keys, fields=CHEAP_FIELDS))

    def keep(self) -> bool:
        """Keep its rows in memory, for all who ask together; whether there is room for them."""
        if self.kept is None and self._fits:
            with self._one_at_a_time():
                if self.kept is None:
                    self._look()
        self.table.shelf.touch(self)
        return self.kept is not None

    @property
    def sums(self) -> Sums:
        if self._sums is None:
            # Many may ask for a version that is new; one looks.
            with self._one_at_a_time():
                if self._sums is None:
                    self._sums = self._look()
        return self._sums

    @contextlib.contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """Wait for another thread, but not for storage that hangs."""
        if not self._lock.acquire(timeout=LOCK_SECONDS):
            raise busy(self.table.name)
        try:
            with explained(self.table.name):
                yield
        finally:
            self._lock.release()

    def _look(self) -> Sums:
        """Look at all files, and keep them if there is room."""
        files = size = 0
        has_vectors = has_strangers = False
        left = self.table.shelf.most_bytes
        changed, cheap = self._changed_batches(), self._cheap_batches()
        kept: list[Any] | None = None if cheap else []
        for batch in cheap or changed or self._batches():
            files += batch.num_rows
            size += pc.sum(batch.column("size")).as_py() or 0
            vectors = vectors_of(batch)
            has_vectors = has_vectors or bool(vectors)
            has_strangers = has_strangers or self.table.has_strangers(odd_paths(batch), vectors)
            left -= batch.nbytes
            if kept is not None and left >= 0:
                kept.append(batch)
            else:
                kept = None
        self._fits = kept is not None
        if kept is not None:
            self.kept = kept
            self.table.shelf.put(self, sum(batch.nbytes for batch in kept))
        return Sums(files, size, has_vectors, has_strangers)

    @once
    def needs(self) -> frozenset[str]:
        metadata, protocol = self.snapshot.metadata, self.snapshot.protocol
        return needs_of(protocol, metadata, self.schema, has_vectors=self.sums.has_vectors)

    @once
    def may_get_vectors(self) -> bool:
        return bool(self.snapshot.setting("delta.enableDeletionVectors"))

    @once
    def has_changes(self) -> bool:
        """Whether its change data is shared."""
        entry = self.table.entry
        recorded = self.snapshot.setting("delta.enableChangeDataFeed")
        return bool(recorded) and entry.history_shared and entry.change_data

    def check_places(self) -> None:
        """Raise Failure if files lie where the provider did not allow it."""
        if self.sums.has_strangers:
            raise strangers()

    def check_filter(self) -> None:
        """Raise Failure if the provider's filter does not go with this version."""
        _ = self.filter

    def is_intact(self, listing: LogListing) -> bool:
        """Whether it is the same table still, and the log has what it is read from."""
        checkpoint = self.snapshot.segment.checkpoint
        if self.stamp != stamp_of(listing, self.number):
            return False
        there = {file.path for one in listing.checkpoints for file in one.files}
        return checkpoint is None or all(file.path in there for file in checkpoint.files)


def stamp_of(listing: LogListing, number: int) -> tuple[int, int | None] | None:
    """Size and time of a version's commit file as they are now: another table has others."""
    file = listing.commits.get(number)
    return None if file is None else (file.size, file.modified_ms)
