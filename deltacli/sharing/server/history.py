"""The versions of a shared table and their times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.delta.history import (
    InCommitTimes,
    file_times,
    in_commit_times,
    read_in_commit_timestamp,
    version_at,
)
from deltacli.delta.segment import LogListing
from deltacli.sharing.server.explain import explained
from deltacli.sharing.server.failures import invalid
from deltacli.sharing.server.once import once
from deltacli.units import iso_time

if TYPE_CHECKING:
    from deltacli.sharing.server.tables import SharedTable
    from deltacli.sharing.server.versions import Version


@dataclass(frozen=True)
class History:
    """The versions of a shared table, as its log is now."""

    table: SharedTable
    newest: Version
    listing: LogListing

    @once
    def rebuildable(self) -> dict[int, bool]:
        return self.listing.rebuildable()

    @once
    def oldest_text(self) -> str:
        first = self.table.entry.start_version
        able = [one for one, is_able in self.rebuildable.items() if is_able and one >= first]
        return f"the earliest is {min(able)}" if able else "no version is"

    @once
    def _file_times(self) -> dict[int, int]:
        return file_times(self.listing)

    @once
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
