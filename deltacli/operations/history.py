"""`history`: commits, newest first, with all that their commitInfo says (facts 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.actions import BadAction, parse_protocol
from deltacli.delta.features import check_readable
from deltacli.delta.history import (
    FROM_COMMIT,
    FROM_FILE,
    commit_info_of,
    file_times,
    looks_copied,
    read_in_commit_timestamp,
    stamp_of,
)
from deltacli.delta.paths import commit_name
from deltacli.delta.segment import LogListing
from deltacli.errors import CorruptLog, DeltaCliError, FileMissing, UsageError
from deltacli.operations.records import Listing, Row
from deltacli.storage import LogStore, read_all
from deltacli.units import iso_time

# commitInfo keys that become fields of their own, in the order of DESCRIBE HISTORY.
_INFO_FIELDS = (
    "userId",
    "userName",
    "operation",
    "operationParameters",
    "job",
    "notebook",
    "clusterId",
    "readVersion",
    "isolationLevel",
    "isBlindAppend",
    "operationMetrics",
    "userMetadata",
    "engineInfo",
    "txnId",
    "tags",
    "inCommitTimestamp",
)
HISTORY_FIELDS = (
    "version",
    "timestamp",
    "timestampMs",
    "timestampSource",
    *_INFO_FIELDS,
    "recreatable",
    "extra",
    "commitInfoTimestamp",
    "error",
)
_SHOWN = ("version", "timestamp", "operation", "userName", "operationParameters", "operationMetrics")


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """Which commits are asked for; None is no bound."""

    limit: int | None = None
    first: int | None = None
    last: int | None = None
    operation: str | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError("--limit must be at least 1")
        if self.first is not None and self.last is not None and self.first > self.last:
            raise UsageError(f"--from {self.first} is after --to {self.last}")

    def versions(self, listing: LogListing) -> list[int]:
        """The existing commits in the range, ascending; a filter on operations comes later."""
        first = 0 if self.first is None else self.first
        last = listing.latest if self.last is None else self.last
        chosen = [version for version in listing.commits if first <= version <= last]
        return chosen if self.limit is None or self.operation else chosen[-self.limit :]


@dataclass(slots=True)
class History:
    """The rows, and what was noticed while they were read."""

    rows: list[Row]
    notes: list[str]
    warnings: list[str]
    failure: DeltaCliError | None = None

    def listing(self) -> Listing:
        fields = HISTORY_FIELDS
        if any("numFiles" in row for row in self.rows):
            fields = (*fields, "numFiles", "sizeInBytes")
        return Listing(self.rows, fields, _SHOWN, "history", self.notes)


def describe_history(store: LogStore, listing: LogListing, wanted: HistoryRange) -> History:
    """The commits of the range, newest first.

    No checkpoint is opened: whether commits carry their own time shows in the newest one,
    for writers must add it exactly while the table uses it. A commit that cannot be read
    gives a row with `error`, and the first such error as `failure`.
    """
    versions = wanted.versions(listing)
    history = History([], [], list(listing.warnings))
    times = file_times(listing)
    recreatable = listing.rebuildable()
    in_commit = read_in_commit_timestamp(store, listing, max(listing.commits, default=-1))
    protocol_seen = False
    for version, info, content, error in _read_infos(store, versions, history):
        row = _row(version, info, times, in_commit is not None)
        row["recreatable"] = recreatable.get(version, False)
        row["error"] = error
        if content and not protocol_seen:
            protocol_seen = _warn_of_features(content, history.warnings)
        if wanted.operation and not _is_operation(info, wanted.operation):
            continue
        history.rows.append(row)
        if wanted.limit is not None and len(history.rows) == wanted.limit:
            break
    _add_notes(history, listing, wanted, times)
    return history


def _read_infos(
    store: LogStore, versions: list[int], history: History
) -> Iterator[tuple[int, Mapping[str, Any] | None, bytes | None, str | None]]:
    paths = [f"_delta_log/{commit_name(version)}" for version in versions]
    contents: Iterable[Any] = read_all(store, paths, reverse=True)
    for version, (path, content) in zip(reversed(versions), contents, strict=True):
        if isinstance(content, FileMissing):
            history.notes.append(f"commit {version} was cleaned up while the history was read")
            continue
        if isinstance(content, DeltaCliError):
            raise content
        try:
            yield version, commit_info_of(content), content, None
        except ValueError as error:
            message = f"{path} cannot be read: {error}"
            history.failure = history.failure or CorruptLog(
                message, hint="restore the file from a backup", location=path
            )
            yield version, None, None, str(error)


def _row(
    version: int, info: Mapping[str, Any] | None, times: Mapping[int, int], in_commit: bool
) -> dict[str, Any]:
    info = info or {}
    stamp, source = times.get(version), FROM_FILE
    own = stamp_of(info)
    if in_commit and own is not None:
        stamp, source = own, FROM_COMMIT
    row: dict[str, Any] = {
        "version": version,
        "timestamp": iso_time(stamp),
        "timestampMs": stamp,
        "timestampSource": source,
    }
    for name in _INFO_FIELDS:
        row[name] = info.get(name)
    extra = {key: value for key, value in info.items() if key not in _KNOWN}
    row["recreatable"] = False
    row["extra"] = extra or None
    writer = info.get("timestamp")
    row["commitInfoTimestamp"] = writer if type(writer) is int else None
    return row


_KNOWN = {*_INFO_FIELDS, "timestamp"}


def _is_operation(info: Mapping[str, Any] | None, name: str) -> bool:
    return str((info or {}).get("operation")).casefold() == name.casefold()


def _warn_of_features(content: bytes, warnings: list[str]) -> bool:
    """Look for the newest protocol among the commits read; history itself needs none (H-9)."""
    found = content.find(b'"protocol"')
    if found < 0:
        return False
    begin = content.rfind(b"\n", 0, found) + 1
    end = content.find(b"\n", found)
    try:
        action = json_text.load(content[begin : end if end > 0 else len(content)])
        warnings += check_readable(parse_protocol(action["protocol"]), allow_catalog_managed=True)
    except DeltaCliError as error:
        warnings.append(f"{error.message}; the history is shown all the same")
    except (ValueError, KeyError, TypeError, BadAction):
        return False
    return True


def _add_notes(
    history: History, listing: LogListing, wanted: HistoryRange, times: Mapping[int, int]
) -> None:
    commits = list(listing.commits)
    if commits and commits[0] > 0 and not wanted.first:
        history.notes.append(
            f"history starts at version {commits[0]}: older log files were cleaned up"
        )
    if not commits and listing.latest >= 0:
        history.notes.append("the log holds checkpoints only: the history of its commits is gone")
    gaps = [later for earlier, later in zip(commits, commits[1:], strict=False) if later > earlier + 1]
    if gaps:
        history.warnings.append(f"commits are missing before version {gaps[0]}")
    pairs = (
        (times.get(row["version"]), row["commitInfoTimestamp"])
        for row in history.rows
        if row["timestampSource"] == FROM_FILE
    )
    if looks_copied(pairs):
        history.warnings.append(
            "most commit files are not as old as their writers say: the table was probably "
            "copied, and times (also for time travel) are those of the copy; "
            "commitInfoTimestamp has the writers' times"
        )
