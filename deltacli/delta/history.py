"""Commits as history: their commitInfo and their times (facts 4.1, 4.2, S-1 … S-12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.properties import read_tolerantly
from deltacli.delta.segment import LogListing
from deltacli.errors import FileMissing
from deltacli.storage import LogStore

FROM_COMMIT = "inCommitTimestamp"
FROM_FILE = "fileModificationTime"


@dataclass(frozen=True, slots=True)
class CommitTime:
    timestamp_ms: int | None
    source: str


@dataclass(frozen=True, slots=True)
class InCommitTimes:
    """From which version on commits carry their own time; None if the table does not use it."""

    since: int | None

    def cover(self, version: int) -> bool:
        return self.since is not None and version >= self.since


def in_commit_times(configuration: Mapping[str, str], warnings: list[str]) -> InCommitTimes:
    """As the newest metadata says (rules T-3, T-4, T-6)."""
    if not read_tolerantly(configuration, "delta.enableInCommitTimestamps", warnings):
        return InCommitTimes(None)
    since = read_tolerantly(configuration, "delta.inCommitTimestampEnablementVersion", warnings)
    return InCommitTimes(since or 0)


def file_times(listing: LogListing) -> dict[int, int]:
    """The modification time of each commit file, made strictly ascending (rule T-2)."""
    times: dict[int, int] = {}
    previous: int | None = None
    for version, file in listing.commits.items():
        stamp = file.modified_ms
        if stamp is None:
            continue
        if previous is not None and stamp <= previous:
            stamp = previous + 1
        times[version] = previous = stamp
    return times


def find_action(content: bytes, key: str) -> dict[str, Any] | None:
    """The body of a commit's first action of this kind, without parsing the others.

    Numbers stay as they are in the text. Raises ValueError if the line is not JSON.
    """
    start, needle = 0, f'"{key}"'.encode()
    while (found := content.find(needle, start)) >= 0:
        begin = content.rfind(b"\n", 0, found) + 1
        end = content.find(b"\n", found)
        end = len(content) if end < 0 else end
        action = json_text.load_faithful(content[begin:end])
        if isinstance(action, dict) and isinstance(action.get(key), dict):
            return dict(action[key])
        start = end
    return None


def commit_info_of(content: bytes) -> dict[str, Any] | None:
    """The first commitInfo of a commit (rules H-6, H-10, H-11).

    Raises ValueError if its line is not JSON or the file's end is cut off.
    """
    if not content.rstrip().endswith(b"}"):
        raise ValueError("the last line is cut off" if content.strip() else "the file is empty")
    return find_action(content, "commitInfo")


def read_in_commit_timestamp(store: LogStore, listing: LogListing, version: int) -> int | None:
    """The inCommitTimestamp of a version's commit, or None."""
    file = listing.commits.get(version)
    if file is None:
        return None
    try:
        info = commit_info_of(store.read(file.path)) or {}
    except (FileMissing, ValueError):
        return None
    return stamp_of(info)


def stamp_of(info: Mapping[str, Any]) -> int | None:
    stamp = info.get("inCommitTimestamp")
    return stamp if type(stamp) is int else None


def version_at(
    timestamp_ms: int,
    store: LogStore,
    listing: LogListing,
    times: InCommitTimes,
    candidates: Iterable[int],
) -> tuple[int | None, int | None, int | None]:
    """The newest candidate not newer than the time, and the times of the oldest and newest.

    Candidates are the versions that can be rebuilt. In-commit times rise strictly, so only
    a few of those commits are read.
    """
    versions = sorted(version for version in candidates if version in listing.commits)
    if not versions:
        return None, None, None
    by_file = file_times(listing)

    def time_of(version: int) -> int | None:
        if times.cover(version):
            return read_in_commit_timestamp(store, listing, version)
        return by_file.get(version)

    own = [version for version in versions if times.cover(version)]
    plain = [version for version in versions if not times.cover(version)]
    oldest, newest = time_of(versions[0]), time_of(versions[-1])
    enabled_at = time_of(own[0]) if own else None
    if own and enabled_at is not None and timestamp_ms >= enabled_at:
        return _last_not_after(own, timestamp_ms, time_of), oldest, newest
    if own and not plain and (times.since or 0) > 0:
        # All commits before the first own time are gone: the oldest that is left (S-8).
        return own[0], oldest, newest
    found = _last_not_after(plain, timestamp_ms, time_of) if plain else None
    return found, oldest, newest


def _last_not_after(versions: list[int], timestamp_ms: int, time_of: Any) -> int | None:
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        stamp = time_of(versions[middle])
        if stamp is not None and stamp <= timestamp_ms:
            low = middle + 1
        else:
            high = middle
    return versions[low - 1] if low else None


COPIED = (
    "the commit files are not as old as their writers say: the table was probably copied, and "
    "times (also for time travel) are those of the copy; commitInfoTimestamp in the history "
    "has the writers' times"
)


def looks_copied(pairs: Iterable[tuple[Any, Any]]) -> bool:
    """Whether most file times are more than an hour from their writers' clocks (rule T-8)."""
    seen = apart = 0
    for file_ms, writer_ms in pairs:
        if type(file_ms) is int and type(writer_ms) is int:
            seen += 1
            apart += abs(file_ms - writer_ms) > 3_600_000
    return seen > 0 and apart * 2 > seen
