"""A shared table as the server holds it: its newest snapshot, older versions, and times."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from deltacli.delta.features import CatalogManaged
from deltacli.delta.history import (
    file_times,
    in_commit_times,
    read_in_commit_timestamp,
    version_at,
)
from deltacli.delta.root import Root
from deltacli.delta.schema import Struct
from deltacli.delta.segment import LogListing, list_log
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import CorruptLog, DeltaCliError, FileMissing, NotFound, Refused, StorageError
from deltacli.local.engine import LocalEngine
from deltacli.sharing.server.catalog import TableName
from deltacli.sharing.server.config import TableEntry
from deltacli.sharing.server.failures import Failure, invalid, missing, unsupported
from deltacli.sharing.server.needs import needs_of
from deltacli.sharing.server.rows import FileRow, is_odd, live_rows, sums_of
from deltacli.sharing.server.sieve import Filter, Partitions
from deltacli.storage import LogStore, open_store
from deltacli.units import iso_time

_OLD_VERSIONS = 4


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

    def __init__(self, name: TableName, entry: TableEntry, staleness_s: float = 0):
        self.name = name
        self.entry = entry
        stores = [open_store(one, entry.storage_options) for one in (entry.location, *entry.roots)]
        self.roots: Sequence[LogStore] = tuple(stores)
        self._grounds = tuple(Root(one) for one in stores)
        self._staleness_s = staleness_s
        self._lock = threading.Lock()
        self._newest: Version | None = None
        self._looked = float("-inf")
        self._old: OrderedDict[int, Version] = OrderedDict()

    @property
    def store(self) -> LogStore:
        return self.roots[0]

    def newest(self) -> Version:
        """The newest version. A listing that began after the call does for many callers."""
        asked = time.monotonic()
        with self._lock:
            if self._newest is None or self._looked < asked - self._staleness_s:
                began = time.monotonic()
                known, self._newest = self._newest, None
                with explained(self.name):
                    self._newest = self._refreshed(known)
                self._looked = began
            found = self._newest
        if found.number < self.entry.start_version:
            raise invalid(f"You can only query table data since version {self.entry.start_version}")
        return found

    def _refreshed(self, known: Version | None) -> Version:
        if known is not None:
            since = list_log(self.store, known.number)
            if since.latest == known.number and _stamp(since, known.number) == known.stamp:
                return known
        return Version(self, load_snapshot(self.store, LocalEngine))

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
        with self._lock:
            known = self._old.get(number)
            # A table made anew has other versions of the same numbers.
            if known is not None and known.stamp == _stamp(newest.listing, number):
                self._old.move_to_end(number)
                return known
        if not newest.rebuildable.get(number):
            raise invalid(f"version {number} is not available any more; {newest.oldest_text}")
        with explained(self.name):
            snapshot = load_snapshot(
                self.store, LocalEngine, version=number, listing=newest.listing
            )
        found = Version(self, snapshot)
        with self._lock:
            self._old[number] = found
            while len(self._old) > _OLD_VERSIONS:
                self._old.popitem(last=False)
        return found

    def check_shared(self, number: int) -> None:
        """Raise Failure for a version that the provider does not share."""
        if number < self.entry.start_version:
            raise invalid(f"You can only query table data since version {self.entry.start_version}")

    def place_of(self, path: str) -> Place | None:
        """Where a path of the log lies, if that is below one of the roots and no file of a log."""
        for number, ground in enumerate(self._grounds):
            name = ground.own_name(path)
            if name is not None:
                return Place(number, name) if "_delta_log" not in name.split("/") else None
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

    def __init__(self, table: SharedTable, snapshot: Snapshot):
        self.table = table
        self.snapshot = snapshot
        self.stamp = _stamp(snapshot.listing, snapshot.version)

    @property
    def number(self) -> int:
        return self.snapshot.version

    @cached_property
    def schema(self) -> Struct:
        if self.snapshot.schema is None:
            raise unsupported("the table has no schema")
        return self.snapshot.schema

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

    def rows(self, *, with_stats: bool = True) -> Iterator[FileRow]:
        """The files that are shared."""
        filter_ = self.filter
        with explained(self.table.name):
            for row in live_rows(self.snapshot, self.partitions.keys, with_stats=with_stats):
                if filter_ is None or filter_.shares(row.partition):
                    yield row

    @cached_property
    def sums(self) -> Sums:
        files = size = 0
        has_vectors = has_strangers = False
        for number, own_size, odd_paths, vectors in self._sums():
            files += number
            size += own_size
            has_vectors = has_vectors or bool(vectors)
            has_strangers = has_strangers or self.table.has_strangers(odd_paths, vectors)
        return Sums(files, size, has_vectors, has_strangers)

    def _sums(self) -> Iterator[tuple[int, int, list[str], list[Any]]]:
        if self.filter is None:
            with explained(self.table.name):
                yield from sums_of(self.snapshot)
            return
        for row in self.rows(with_stats=False):
            odd_paths = [row.path] if is_odd(row.path) else []
            yield 1, row.size, odd_paths, [row.vector] if row.vector else []

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

    # -- times and other versions --------------------------------------------------------

    @property
    def listing(self) -> LogListing:
        """The whole log as it was when this version was the newest."""
        with explained(self.table.name):
            return self.snapshot.whole_listing

    @cached_property
    def rebuildable(self) -> dict[int, bool]:
        return self.listing.rebuildable()

    @property
    def oldest_text(self) -> str:
        first = self.table.entry.start_version
        able = [one for one, is_able in self.rebuildable.items() if is_able and one >= first]
        return f"the earliest is {min(able)}" if able else "no version is"

    @cached_property
    def _file_times(self) -> dict[int, int]:
        return file_times(self.listing)

    def time_of(self, number: int) -> int | None:
        """When a version was committed: the same value in every answer."""
        with explained(self.table.name):
            times = in_commit_times(self.snapshot.metadata.configuration, [])
            if times.cover(number):
                return read_in_commit_timestamp(self.table.store, self.listing, number)
            return self._file_times.get(number)

    def last_until(self, timestamp_ms: int, candidates: Sequence[int]) -> int | None:
        """The newest of the candidates that was there at a time."""
        with explained(self.table.name):
            times = in_commit_times(self.snapshot.metadata.configuration, [])
            found, *_ = version_at(timestamp_ms, self.table.store, self.listing, times, candidates)
        return found

    def first_from(self, timestamp_ms: int, candidates: Sequence[int]) -> int | None:
        """The oldest of the candidates that was committed at or after a time."""
        if not candidates:
            return None
        first_ms = self.time_of(candidates[0])
        if first_ms is None or timestamp_ms <= first_ms:
            return candidates[0]
        before = self.last_until(timestamp_ms - 1, candidates)
        return next((one for one in candidates if before is None or one > before), None)

    @property
    def shared_commits(self) -> list[int]:
        """The versions from the first shared one on that still have a commit file."""
        return [one for one in self.listing.commits if one >= self.table.entry.start_version]

    @property
    def shared_versions(self) -> list[int]:
        """The versions from the first shared one on whose state can be rebuilt."""
        return [one for one in self.shared_commits if self.rebuildable.get(one)]

    def at_time(self, timestamp_ms: int) -> int:
        """The version as of a time. Raises Failure outside of the shared history."""
        candidates = self.shared_versions
        found = self.last_until(timestamp_ms, candidates)
        if found is None:
            first = self.time_of(candidates[0]) if candidates else None
            raise invalid(
                f"no shared version is as old as {iso_time(timestamp_ms)}; "
                f"the earliest is of {iso_time(first)}"
            )
        last_ms = self.time_of(candidates[-1])
        if found == candidates[-1] and last_ms is not None and timestamp_ms > last_ms:
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
    except (NotFound, FileMissing) as error:
        raise missing(f"the files of table {name} are missing") from error
    except CatalogManaged as error:
        raise unsupported(f"the table {name} is managed by a catalog") from error
    except Refused as error:
        said = "" if "/" in error.message else f": {error.message}"
        raise unsupported(f"the table {name} cannot be shared{said}") from error
    except CorruptLog as error:
        raise unsupported(f"the table {name} is damaged; its provider has to mend it") from error
    except StorageError as error:
        raise Failure(
            503, "UNAVAILABLE", f"the storage of table {name} does not answer", {"retry-after": "5"}
        ) from error
    except (DeltaCliError, pa.ArrowException) as error:
        raise unsupported(f"the table {name} cannot be read") from error


class Tables:
    """The shared tables that are open, the least used closed first."""

    def __init__(self, most: int, staleness_s: float):
        self._most = most
        self._staleness_s = staleness_s
        self._open: OrderedDict[tuple[str, str, str], SharedTable] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, name: TableName, entry: TableEntry) -> SharedTable:
        with self._lock:
            known = self._open.get(name.key)
            if known is None or known.entry != entry or known.name != name:
                with explained(name):
                    known = self._open[name.key] = SharedTable(name, entry, self._staleness_s)
            self._open.move_to_end(name.key)
            while len(self._open) > self._most:
                self._open.popitem(last=False)
            return known


Clock = Callable[[], int]
