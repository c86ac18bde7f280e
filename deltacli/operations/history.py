"""`history`: commits, newest first, with all that their commitInfo says (facts 4.1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from deltacli.delta.actions import BadAction, Protocol, parse_protocol
from deltacli.delta.checksum import read_checksum
from deltacli.delta.features import CatalogManaged, check_readable, supported_features
from deltacli.delta.history import (
    COPIED,
    FROM_COMMIT,
    FROM_FILE,
    commit_info_of,
    file_times,
    find_action,
    looks_copied,
    read_in_commit_timestamp,
    stamp_of,
)
from deltacli.delta.paths import Kind, commit_name
from deltacli.delta.segment import LogListing
from deltacli.errors import CorruptLog, DeltaCliError, FileMissing, NotFound, UsageError
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
_SHOWN = (
    "version",
    "timestamp",
    "operation",
    "userName",
    "operationParameters",
    "operationMetrics",
    "error",
)


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """Which commits are asked for; None is no bound."""

    limit: int | None = None
    first: int | None = None
    last: int | None = None
    operation: str | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise UsageError("--limit must be at least 1", hint="leave it out for all commits")
        if self.first is not None and self.last is not None and self.first > self.last:
            raise UsageError(f"--from {self.first} is after --to {self.last}", hint="swap them")

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

    def listing(self, footer: Sequence[str] = ()) -> Listing:
        sizes = ("numFiles", "sizeInBytes") if any("numFiles" in row for row in self.rows) else ()
        fields, shown = (*HISTORY_FIELDS, *sizes), (*_SHOWN, *sizes)
        return Listing(self.rows, fields, shown, "commits", tuple(footer))


def describe_history(
    store: LogStore,
    listing: LogListing,
    wanted: HistoryRange,
    *,
    allow_catalog_managed: bool = False,
) -> History:
    """The commits of the range, newest first.

    No checkpoint is opened. Whether commits carry their own time shows in the commits
    themselves, for writers must add it exactly while the table uses it: it counts from the
    newest commit back to the first one without. A commit that cannot be read gives a row
    with `error`, and the first such error as `failure`.
    """
    if wanted.last is not None and wanted.last > listing.latest:
        raise NotFound(
            f"version {wanted.last} does not exist: the newest is {listing.latest}",
            hint="leave --to out for the newest",
        )
    versions = wanted.versions(listing)
    history = History([], [], list(listing.warnings))
    times = file_times(listing)
    recreatable = listing.rebuildable()
    newest = max(listing.commits, default=-1)
    own_times = read_in_commit_timestamp(store, listing, newest) is not None
    protocol: Protocol | None = None
    for version, info, content, error in _read_infos(store, versions, history):
        own_times = own_times and (error is not None or stamp_of(info or {}) is not None)
        row = _row(version, info, times, own_times)
        row["recreatable"] = recreatable.get(version, False)
        row["error"] = error
        if content and protocol is None:
            protocol = _protocol_in(content)
        if wanted.operation and not _is_operation(info, wanted.operation):
            continue
        history.rows.append(row)
        if wanted.limit is not None and len(history.rows) == wanted.limit:
            break
    _mark_unreadable(history.rows, {one.version for one in listing.checkpoints})
    protocol = protocol or _protocol_elsewhere(store, listing)
    if protocol and "inCommitTimestamp" not in supported_features(protocol):
        _take_file_times(history.rows, times)
    if protocol:
        _check_features(protocol, history.warnings, allow_catalog_managed)
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
    version: int, info: Mapping[str, Any] | None, times: Mapping[int, int], own_times: bool
) -> dict[str, Any]:
    info = info or {}
    stamp, source = times.get(version), FROM_FILE
    if own_times:
        stamp, source = stamp_of(info), FROM_COMMIT
    row: dict[str, Any] = {
        "version": version,
        "timestamp": iso_time(stamp),
        "timestampMs": stamp,
        "timestampSource": source,
    }
    for name in _INFO_FIELDS:
        row[name] = info.get(name)
    extra = {key: value for key, value in info.items() if key not in _KNOWN}
    writer = info.get("timestamp")
    if writer is not None and type(writer) is not int:
        extra["timestamp"], writer = writer, None
    row["recreatable"] = False
    row["extra"] = extra or None
    row["commitInfoTimestamp"] = writer
    return row


_KNOWN = {*_INFO_FIELDS, "timestamp"}


def _is_operation(info: Mapping[str, Any] | None, name: str) -> bool:
    return str((info or {}).get("operation")).casefold() == name.casefold()


def _take_file_times(rows: list[Row], times: Mapping[int, int]) -> None:
    """Without the feature, a commit's own time is only something that its writer says."""
    for position, row in enumerate(rows):
        if row["timestampSource"] == FROM_FILE:
            continue
        stamp = times.get(row["version"])
        rows[position] = {
            **row,
            "timestamp": iso_time(stamp),
            "timestampMs": stamp,
            "timestampSource": FROM_FILE,
        }


def _mark_unreadable(rows: list[Row], checkpoints: set[int]) -> None:
    """A broken commit spoils its version and all later ones up to the next checkpoint."""
    spoiled = False
    for position in range(len(rows) - 1, -1, -1):
        row = rows[position]
        spoiled = (spoiled or row["error"] is not None) and row["version"] not in checkpoints
        if spoiled:
            rows[position] = {**row, "recreatable": False}


def _protocol_in(content: bytes) -> Protocol | None:
    try:
        body = find_action(content, "protocol")
        return parse_protocol(body) if body else None
    except ValueError:
        return None


def _protocol_elsewhere(store: LogStore, listing: LogListing) -> Protocol | None:
    """The protocol as the newest version checksum has it; cheaper than a checkpoint."""
    checksum = read_checksum(store, listing.latest) if listing.latest in listing.checksums else None
    body = checksum.body.get("protocol") if checksum else None
    if not isinstance(body, Mapping) and listing.has_folder(Kind.STAGED_COMMITS):
        # A sign of a catalog: then it is worth to look through the oldest commits.
        for file in list(listing.commits.values())[:1]:
            return _protocol_in(store.read(file.path))
    try:
        return parse_protocol(body) if isinstance(body, Mapping) else None
    except BadAction:
        return None


def _check_features(protocol: Protocol, warnings: list[str], allow_catalog_managed: bool) -> None:
    """History itself needs no feature, but a catalog may know newer commits (rule H-9)."""
    try:
        warnings += check_readable(protocol, allow_catalog_managed=allow_catalog_managed)
    except CatalogManaged:
        raise
    except DeltaCliError as error:
        warnings.append(f"{error.message}; the history is shown all the same")


def _add_notes(
    history: History, listing: LogListing, wanted: HistoryRange, times: Mapping[int, int]
) -> None:
    commits = list(listing.commits)
    if wanted.operation and not history.rows and commits:
        history.notes.append(f"no commit of this range has the operation {wanted.operation!r}")
    elif not history.rows and commits:
        history.notes.append(f"the log holds the commits {commits[0]} to {commits[-1]}")
    if commits and commits[0] > 0 and not wanted.first:
        history.notes.append(
            f"history starts at version {commits[0]}: older log files were cleaned up"
        )
    if not commits and listing.latest >= 0:
        history.notes.append("the log holds checkpoints only: the history of its commits is gone")
    gaps = [later for earlier, later in pairwise(commits) if later > earlier + 1]
    if gaps:
        history.warnings.append(f"commits are missing before version {gaps[0]}")
    pairs = (
        (times.get(row["version"]), row["commitInfoTimestamp"])
        for row in history.rows
        if row["timestampSource"] == FROM_FILE
    )
    if looks_copied(pairs):
        history.warnings.append(COPIED)
