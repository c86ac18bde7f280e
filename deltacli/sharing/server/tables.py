"""A shared table as the server holds it: its newest version, and older ones."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from deltacli.delta.root import Root
from deltacli.delta.segment import list_log
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.local.engine import LocalEngine
from deltacli.sharing.server.catalog import TableName
from deltacli.sharing.server.config import TableEntry
from deltacli.sharing.server.explain import LOCK_SECONDS, busy, explained
from deltacli.sharing.server.failures import invalid
from deltacli.sharing.server.history import History
from deltacli.sharing.server.places import Place, is_servable
from deltacli.sharing.server.rows import (
    Shelf,
)
from deltacli.sharing.server.versions import Version, stamp_of
from deltacli.storage import LogStore, open_store

_OLD_VERSIONS = 4


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
        if not self._lock.acquire(timeout=LOCK_SECONDS):
            # Storage that hangs must not take all threads with it.
            raise busy(self.name)
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
        snapshot = load_snapshot(self.store, LocalEngine)
        if known is not None and not _goes_on(known, snapshot):
            known = None
        return Version(self, snapshot, known)

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


def _goes_on(known: Version, snapshot: Snapshot) -> bool:
    """Whether a snapshot is of the same table as a version before it."""
    same_id = known.snapshot.metadata.id == snapshot.metadata.id
    return same_id and known.stamp == stamp_of(snapshot.listing, known.number)


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
