"""A shared table as the server holds it: its newest snapshot, older versions, and times."""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.actions import BadAction
from deltacli.delta.features import CatalogManaged
from deltacli.delta.history import (
    InCommitTimes,
    file_times,
    in_commit_times,
    read_in_commit_timestamp,
    version_at,
)
from deltacli.delta.replay import FileKey
from deltacli.delta.root import Root
from deltacli.delta.schema import Struct
from deltacli.delta.segment import LogListing, list_log
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import DeltaCliError, FileMissing, NotFound, Refused, StorageError
from deltacli.local.engine import LocalEngine
from deltacli.sharing.server.catalog import TableName
from deltacli.sharing.server.config import TableEntry
from deltacli.sharing.server.failures import Failure, invalid, missing, unsupported
from deltacli.sharing.server.needs import needs_of
from deltacli.sharing.server.rows import (
    CHEAP_FIELDS,
    FileRow,
    Shelf,
    advanced,
    changes_since,
    live_batches,
    odd_paths,
    rows_of,
    vectors_of,
)
from deltacli.sharing.server.sieve import Filter, Partitions
from deltacli.storage import LogStore, open_store
from deltacli.units import iso_time

_OLD_VERSIONS = 4
# A version that is made from the one before takes the time of what changed.
_MOST_COMMITS, _MOST_BATCHES = 100, 500
# How much larger a checkpoint is in memory than in its file.
_UNPACKED = 5
_LOCK_SECONDS = 25


def is_servable(name: str) -> bool:
    """Whether a name can be that of a data file: not in the log, hidden, or outside."""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    parts = name.split("/")
    return "\0" not in name and not any(
        part in ("", "_delta_log") or part.startswith(".") for part in parts
    )


class Place:
    """A file below one of a table's roots: which root, and its name there."""

    __slots__ = ("name", "root")

    def __init__(self, root: int, name: str):
        self.root = root
        self.name = name


class SharedTable:
    """One table of the catalog. All methods may be called from many threads.

    `roots` are the stores in which its files may lie: the table's own, then those that the
    provider allows.
    """

    def __init__(
        self,
        name: TableName,
        entry: TableEntry,
        staleness_s: float = 0,
        shelf: Shelf | None = None,
    ):
        self.name = name
        self.entry = entry
        stores = [open_store(one, entry.storage_options) for one in (entry.location, *entry.roots)]
        self.roots: Sequence[LogStore] = tuple(stores)
        self._grounds = tuple(Root(one) for one in stores)
        self.shelf = shelf or Shelf(0)
        # Which roots sign URLs themselves, as far as it was tried.
        self.signs: dict[int, bool] = {}
        self._staleness_s = staleness_s
        self._lock = threading.Lock()
        self._old_lock = threading.Lock()
        self._newest: Version | None = None
        self._looked = float("-inf")
        self._old: OrderedDict[int, Version] = OrderedDict()

    @property
    def store(self) -> LogStore:
        return self.roots[0]

    def newest(self) -> Version:
        """The newest version. A listing that began after the call does for many callers."""
        asked = time.monotonic()
        if not self._lock.acquire(timeout=_LOCK_SECONDS):
            # Storage that hangs must not take all threads with it.
            raise Failure(
                503, "UNAVAILABLE", f"the table {self.name} is busy", {"retry-after": "5"}
            )
        try:
            if self._newest is None or self._looked < asked - self._staleness_s:
                began = time.monotonic()
                known, self._newest = self._newest, None
                with explained(self.name):
                    self._newest = self._refreshed(known)
                self._looked = began
            found = self._newest
        finally:
            self._lock.release()
        if found.number < self.entry.start_version:
            raise invalid(f"You can only query table data since version {self.entry.start_version}")
        return found

    def _refreshed(self, known: Version | None) -> Version:
        if known is not None:
            checkpoint = known.snapshot.segment.checkpoint
            since = list_log(self.store, checkpoint.version if checkpoint else known.number)
            if since.latest == known.number and known.is_intact(since):
                return known
        return Version(self, load_snapshot(self.store, LocalEngine), known)

    def at(self, number: int) -> Version:
        """A version that is shared. Raises Failure if it cannot be had."""
        self.check_shared(number)
        return self.at_any(number)

    def at_any(self, number: int) -> Version:
        """The same for a version that recipients may not be told of."""
        newest = self.newest()
        if number == newest.number:
            return newest
        if number > newest.number:
            raise invalid(f"there is no version {number}: the newest is {newest.number}")
        history = self.history()
        with self._old_lock:
            known = self._old.get(number)
            if known is not None and known.is_intact(history.listing):
                self._old.move_to_end(number)
                return known
        if not history.rebuildable.get(number):
            raise invalid(f"version {number} is not available any more; {history.oldest_text}")
        with explained(self.name):
            snapshot = load_snapshot(
                self.store, LocalEngine, version=number, listing=history.listing
            )
        found = Version(self, snapshot)
        with self._old_lock:
            self._old[number] = found
            while len(self._old) > _OLD_VERSIONS:
                self._old.popitem(last=False)
        return found

    def history(self) -> History:
        """The versions that there are now: a log is cleaned up while its newest version stays."""
        newest = self.newest()
        with explained(self.name):
            return History(self, newest, list_log(self.store))

    def check_shared(self, number: int) -> None:
        """Raise Failure for a version that the provider does not share."""
        if number < self.entry.start_version:
            raise invalid(f"You can only query table data since version {self.entry.start_version}")

    def place_of(self, path: str) -> Place | None:
        """Where a path of the log lies, if that is below one of the roots and not hidden."""
        for number, ground in enumerate(self._grounds):
            name = ground.own_name(path)
            if name is not None:
                return Place(number, name) if is_servable(name) else None
        return None

    def has_strangers(self, odd_paths: Sequence[str], vectors: Sequence[Any]) -> bool:
        """Whether any file or deletion vector of these lies elsewhere."""
        return any(self.place_of(path) is None for path in odd_paths) or any(
            one.get("storageType") != "i" and self.vector_place(one) is None for one in vectors
        )

    def vector_place(self, descriptor: object) -> Place | None:
        """The same for the file of a deletion vector."""
        if not isinstance(descriptor, dict):
            return None
        for number, ground in enumerate(self._grounds):
            with contextlib.suppress(ValueError):
                name = ground.own_vector_name(descriptor)
                # A relative name is the table's own.
                if name is not None and (number == 0 or descriptor.get("storageType") == "p"):
                    return Place(number, name)
        return None


def _stamp(listing: LogListing, number: int) -> tuple[int, int | None] | None:
    """Size and time of a version's commit file as they are now: another table has others."""
    file = listing.commits.get(number)
    return None if file is None else (file.size, file.modified_ms)


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
        self.stamp = _stamp(snapshot.listing, snapshot.version)
        self._sums: Sums | None = None
        self._sums_lock = threading.Lock()

    @property
    def number(self) -> int:
        return self.snapshot.version

    @cached_property
    def schema(self) -> Struct:
        with explained(self.table.name):
            schema = self.snapshot.schema
        if schema is None:
            raise unsupported("the table has no schema")
        return schema

    @cached_property
    def partitions(self) -> Partitions:
        is_mapped = self.snapshot.mapped_schema is not None
        columns = self.snapshot.metadata.partition_columns
        return Partitions(self.schema, columns, is_mapped=is_mapped)

    @cached_property
    def filter(self) -> Filter | None:
        text = self.table.entry.partition_filter
        with explained(self.table.name):
            return None if text is None else Filter(text, self.partitions)

    def rows(self) -> Iterator[FileRow]:
        """The files that are shared."""
        with explained(self.table.name):
            for batch in self.table.shelf.get(id(self)) or self._batches():
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
        kept = self.table.shelf.get(id(before)) if before else None
        if before is None or kept is None or len(kept) > _MOST_BATCHES:
            return None
        commits = self.snapshot.listing.commits
        numbers = range(before.number + 1, self.number + 1)
        if not 0 < len(numbers) <= _MOST_COMMITS or not all(one in commits for one in numbers):
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

    @property
    def is_kept(self) -> bool:
        """Whether its rows are in memory, for all who ask together."""
        return self.table.shelf.get(id(self)) is not None

    @property
    def sums(self) -> Sums:
        # Many may ask for a version that is new; one looks.
        with self._sums_lock:
            if self._sums is None:
                with explained(self.table.name):
                    self._sums = self._look()
            return self._sums

    def _look(self) -> Sums:
        """Look at all files, and keep them if there is room."""
        files = size = 0
        has_vectors = has_strangers = False
        left = self.table.shelf.most_bytes
        cheap = self._cheap_batches()
        kept: list[Any] | None = None if cheap else []
        for batch in cheap or self._changed_batches() or self._batches():
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
        if kept is not None:
            self.table.shelf.put(id(self), kept)
            weakref.finalize(self, self.table.shelf.drop, id(self))
        return Sums(files, size, has_vectors, has_strangers)

    @cached_property
    def needs(self) -> frozenset[str]:
        metadata, protocol = self.snapshot.metadata, self.snapshot.protocol
        return needs_of(protocol, metadata, self.schema, has_vectors=self.sums.has_vectors)

    @property
    def may_get_vectors(self) -> bool:
        return bool(self.snapshot.setting("delta.enableDeletionVectors"))

    @property
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
        if self.stamp != _stamp(listing, self.number):
            return False
        there = {file.path for one in listing.checkpoints for file in one.files}
        return checkpoint is None or all(file.path in there for file in checkpoint.files)


@dataclass(frozen=True)
class History:
    """The versions of a shared table, as its log is now."""

    table: SharedTable
    newest: Version
    listing: LogListing

    @cached_property
    def rebuildable(self) -> dict[int, bool]:
        return self.listing.rebuildable()

    @cached_property
    def oldest_text(self) -> str:
        first = self.table.entry.start_version
        able = [one for one, is_able in self.rebuildable.items() if is_able and one >= first]
        return f"the earliest is {min(able)}" if able else "no version is"

    @cached_property
    def _file_times(self) -> dict[int, int]:
        return file_times(self.listing)

    @cached_property
    def _own_times(self) -> InCommitTimes:
        return in_commit_times(self.newest.snapshot.metadata.configuration, [])

    def time_of(self, number: int) -> int | None:
        """When a version was committed: the same value in every answer."""
        if self._own_times.cover(number):
            with explained(self.table.name):
                return read_in_commit_timestamp(self.table.store, self.listing, number)
        return self._file_times.get(number)

    def last_until(self, timestamp_ms: int, *, is_state: bool = False) -> int | None:
        """The newest commit that was there at a time; of a state, it must be rebuildable."""
        candidates = [
            one for one in self.listing.commits if not is_state or self.rebuildable.get(one)
        ]
        with explained(self.table.name):
            found, *_ = version_at(
                timestamp_ms, self.table.store, self.listing, self._own_times, candidates
            )
        return found

    def first_from(self, timestamp_ms: int) -> int:
        """The first commit at or after a time. Raises Failure if there is none."""
        commits = list(self.listing.commits)
        first_ms = self.time_of(commits[0]) if commits else None
        before = None
        if first_ms is not None and timestamp_ms > first_ms:
            before = self.last_until(timestamp_ms - 1)
        found = next((one for one in commits if before is None or one > before), None)
        if found is None:
            last = iso_time(self.time_of(self.newest.number))
            raise invalid(f"{iso_time(timestamp_ms)} is after the last commit, which is of {last}")
        return found

    def at_time(self, timestamp_ms: int) -> int:
        """The version as of a time. Raises Failure outside of the shared history."""
        found = self.last_until(timestamp_ms, is_state=True)
        if found is None or found < self.table.entry.start_version:
            raise invalid(f"no shared version is as old as {iso_time(timestamp_ms)}")
        last_ms = self.time_of(self.newest.number)
        if found == self.newest.number and last_ms is not None and timestamp_ms > last_ms:
            raise invalid(
                f"{iso_time(timestamp_ms)} is after the last commit, which is of "
                f"{iso_time(last_ms)}"
            )
        return found


def strangers() -> Failure:
    return unsupported(
        "the table has files outside of its folder, which its provider has not allowed to share"
    )


@contextlib.contextmanager
def explained(name: TableName) -> Iterator[None]:
    """Errors of a table as answers that tell recipients nothing about where it lies.

    The error itself stays the cause, for the server's own log.
    """
    try:
        yield
    except (DeltaCliError, BadAction, pa.ArrowException) as error:
        raise failure_of(error, name) from error


def failure_of(error: Exception, name: TableName) -> Failure:
    """What recipients are told of an error."""
    if isinstance(error, NotFound | FileMissing):
        return missing(f"the files of table {name} are missing")
    if isinstance(error, CatalogManaged):
        return unsupported(f"the table {name} is managed by a catalog")
    if isinstance(error, Refused):
        said = "" if "/" in error.message else f": {error.message}"
        return unsupported(f"the table {name} cannot be shared{said}")
    if isinstance(error, StorageError) and not (error.location or "/").startswith("/"):
        # What fails on a network may work again; what fails on a disk does not by itself.
        message = f"the storage of table {name} does not answer"
        return Failure(503, "UNAVAILABLE", message, {"retry-after": "5"})
    return unsupported(f"the table {name} cannot be read; its provider has to mend it")


class Tables:
    """The shared tables that are open, the least used closed first."""

    def __init__(self, most: int, staleness_s: float, shelf: Shelf):
        self._most = most
        self._shelf = shelf
        self._staleness_s = staleness_s
        self._open: OrderedDict[tuple[str, str, str], SharedTable] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, name: TableName, entry: TableEntry) -> SharedTable:
        with self._lock:
            known = self._open.get(name.key)
            if known is None or known.entry != entry or known.name != name:
                with explained(name):
                    known = self._open[name.key] = SharedTable(
                        name, entry, self._staleness_s, self._shelf
                    )
            self._open.move_to_end(name.key)
            while len(self._open) > self._most:
                self._open.popitem(last=False)
            return known
