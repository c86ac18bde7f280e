"""The state of a table at one version, answered from as few bytes as the question needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.actions import DomainMetadata, Json, Metadata, Protocol, parse_protocol
from deltacli.delta.checksum import read_checksum
from deltacli.delta.column_mapping import MODE
from deltacli.delta.engine import (
    ADD_FIELDS,
    REMOVE_FIELDS,
    CheckpointReader,
    Engine,
    FileActions,
    FileBatch,
    Totals,
    Want,
)
from deltacli.delta.features import check_readable, supported_features
from deltacli.delta.history import (
    COPIED,
    FROM_COMMIT,
    FROM_FILE,
    CommitTime,
    file_times,
    find_action,
    in_commit_times,
    looks_copied,
    read_in_commit_timestamp,
    stamp_of,
)
from deltacli.delta.paths import Kind
from deltacli.delta.properties import read_tolerantly
from deltacli.delta.replay import FileKey, Reconciled, key_of, replay_commits, replay_lines
from deltacli.delta.schema import BadSchema, Struct, parse_schema
from deltacli.delta.segment import (
    Checkpoint,
    LogListing,
    LogSegment,
    list_for_latest,
    list_log,
    segments,
)
from deltacli.delta.stats import num_records
from deltacli.delta.tolerance import Remark
from deltacli.delta.widening import unknown_changes
from deltacli.errors import CorruptLog, FileMissing, Refused, UnreadableCheckpoint
from deltacli.storage import LogStore

OnRead = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Snapshot:
    """A version of a table.

    `state` is what the JSON files of the segment say; `reader` answers for the Parquet
    files of its checkpoint, if there are any; `rebuild` gives the same version without that
    checkpoint, or raises. `warnings` tells what was tolerated.
    """

    store: LogStore
    listing: LogListing
    segment: LogSegment
    protocol: Protocol
    metadata: Metadata
    state: Reconciled
    reader: CheckpointReader | None
    rebuild: Callable[[], Snapshot]
    on_read: OnRead | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def version(self) -> int:
        return self.segment.version

    @cached_property
    def schema(self) -> Struct | None:
        """The schema; None where the metadata has none (tables of the first Delta versions)."""
        text = self.metadata.schema_string
        if text is None:
            return None
        try:
            return parse_schema(text)
        except BadSchema as error:
            raise CorruptLog(
                f"metaData.schemaString: {error}", hint="the newest metaData action is broken"
            ) from None

    @property
    def features(self) -> tuple[str, ...]:
        return supported_features(self.protocol)

    @property
    def mapped_schema(self) -> Struct | None:
        """The schema if its physical names count: column mapping is on."""
        return self.schema if self.setting(MODE) != "none" else None

    def setting(self, key: str) -> Any:
        """A table property as a value; an unreadable one warns and gives its default."""
        return read_tolerantly(self.metadata.configuration, key, self.warnings)

    @property
    def domains(self) -> dict[str, DomainMetadata]:
        return {name: one for name, one in self.state.domains.items() if not one.removed}

    @cached_property
    def whole_listing(self) -> LogListing:
        """The log from its very beginning; on object stores a snapshot needs only its end."""
        return list_log(self.store) if self.listing.start else self.listing

    @property
    def _has_own_time(self) -> bool:
        """Whether the commit's own time counts: as long as the newest commits carry one (T-6)."""
        if not in_commit_times(self.metadata.configuration, self.warnings).cover(self.version):
            return False
        newest = self.listing.latest
        return (
            self.version == newest
            or newest not in self.listing.commits
            or read_in_commit_timestamp(self.store, self.listing, newest) is not None
        )

    @cached_property
    def time(self) -> CommitTime:
        """When this version was committed (facts 4.2)."""
        listing, version = self.whole_listing, self.version
        if not self._has_own_time:
            stamp = file_times(listing).get(version)
            writer = (self.state.commit_info or {}).get("timestamp")
            if stamp is not None and looks_copied([(stamp, writer)]):
                self.warnings.append(Remark(COPIED))
            if stamp is None:
                self.warnings.append(f"the time of version {version} is unknown: no commit file")
            return CommitTime(stamp, FROM_FILE)
        stamp = stamp_of(self.state.commit_info or {})
        if stamp is None:
            stamp = read_in_commit_timestamp(self.store, listing, version)
        if stamp is None:
            checksum = read_checksum(self.store, version)
            stamp = checksum.in_commit_timestamp if checksum else None
        if stamp is None:
            self.warnings.append(
                f"version {version} has no inCommitTimestamp, which the table requires"
            )
        return CommitTime(stamp, FROM_COMMIT)

    def totals(self, wanted: frozenset[Want], now_ms: int) -> Totals:
        """Sums over the live files and unexpired tombstones."""
        removed_after_ms = now_ms - self.setting("delta.deletedFileRetentionDuration")
        total = _totals_of_lines(self.state, wanted, removed_after_ms)
        if self.reader and wanted:
            progress = self.on_read
            on_read = (lambda d, n: progress("reading the checkpoint", d, n)) if progress else None
            try:
                total.add(self.reader.totals(self.state, wanted, removed_after_ms, on_read))
            except UnreadableCheckpoint as error:
                return self.without_checkpoint(error).totals(wanted, now_ms)
        return total

    def without_checkpoint(self, error: UnreadableCheckpoint) -> Snapshot:
        """The same version by another way; its rows turned out to be broken (rule LE-7)."""
        try:
            other = self._other_way
        except CorruptLog:
            raise error from None
        remark = Remark(f"{error.message}; an earlier state of the log is used")
        if remark not in self.warnings:
            self.warnings.append(remark)
        return other

    @cached_property
    def _other_way(self) -> Snapshot:
        return self.rebuild()

    @property
    def sound(self) -> Snapshot:
        """The snapshot that answers in the end, where this one's checkpoint proved broken."""
        return self._other_way.sound if "_other_way" in self.__dict__ else self

    def files(
        self, action: str, fields: Sequence[str], rows: int = 0
    ) -> Iterator[Mapping[str, Any] | FileBatch]:
        """The live `add` or held `remove` actions: checkpoint rows as batches, newer ones whole."""
        items = iter(self.file_actions(action, fields, rows))
        try:
            first = next(items, None)
            if isinstance(first, FileBatch):
                _ = first.columns  # broken pages show here, while there is another way
        except UnreadableCheckpoint as error:
            yield from self.without_checkpoint(error).files(action, fields, rows)
            return
        if first is not None:
            yield first
            yield from items

    def file_actions(self, action: str, fields: Sequence[str], rows: int = 0) -> FileActions:
        """The same for an engine to take apart; that a checkpoint is broken is the taker's."""
        return FileActions(self.reader, self.state, action, fields, rows)

    def all_live(self) -> dict[FileKey, tuple[str, int]]:
        """Every live file: path as in the log, and size. For where nothing cheaper answers."""
        found: dict[FileKey, tuple[str, int]] = {}
        for item in self.files("add", _KEY_FIELDS):
            for body in item.columns.to_pylist() if isinstance(item, FileBatch) else (item,):
                found[key_of(body)] = body["path"], body["size"]
        return found

    def live_among(self, paths: Collection[str]) -> dict[FileKey, tuple[str, int]]:
        """Which files with these canonical paths are live: path as in the log, and size."""
        found: dict[FileKey, tuple[str, int]] = {}
        if not paths:
            return found
        try:
            for batch in self.reader.find(paths, _KEY_FIELDS) if self.reader else ():
                for body in batch.columns.to_pylist():
                    key = key_of(body)
                    if key not in self.state.removes:
                        found[key] = body["path"], body["size"]
        except UnreadableCheckpoint as error:
            return self.without_checkpoint(error).live_among(paths)
        for key, line in self.state.adds.items():
            if (key if isinstance(key, str) else key[0]) in paths:
                body = json_text.load(line)["add"]
                found[key] = body["path"], body["size"]
        return found


_KEY_FIELDS = ("path", "size", "deletionVector")


def load_snapshot(
    store: LogStore,
    engine: Callable[[], Engine],
    *,
    version: int | None = None,
    listing: LogListing | None = None,
    allow_catalog_managed: bool = False,
    on_read: OnRead | None = None,
) -> Snapshot:
    """The newest snapshot, or that of a version.

    An unreadable checkpoint is a warning as long as another way to the version exists
    (rule LE-7).
    """
    if listing is None:
        listing = list_for_latest(store) if version is None else list_log(store)
    loader = _Loader(store, engine, allow_catalog_managed, on_read, list(listing.warnings))
    return loader.load(listing, version)


@dataclass(frozen=True)
class _Loader:
    """What all attempts to rebuild one version share."""

    store: LogStore
    engine: Callable[[], Engine]
    allow_catalog_managed: bool
    on_read: OnRead | None
    warnings: list[str]

    def load(self, listing: LogListing, version: int | None) -> Snapshot:
        return self._first(listing, segments(listing, version), version)

    def _first(
        self,
        listing: LogListing,
        ways: Iterator[LogSegment],
        version: int | None,
    ) -> Snapshot:
        """The snapshot by the first of the remaining ways that works."""
        failure: UnreadableCheckpoint | None = None
        for segment in ways:
            try:
                return self._attempt(listing, segment, lambda: self._first(listing, ways, version))
            except UnreadableCheckpoint as error:
                failure = failure or error
                self.warnings.append(
                    Remark(f"{error.message}; an earlier state of the log is used")
                )
        if listing.start:
            # Only the end of the log was listed: an older checkpoint may still serve.
            return self.load(list_log(self.store), version)
        raise failure or CorruptLog("there is no other way to rebuild this version")

    def _attempt(
        self, listing: LogListing, segment: LogSegment, rebuild: Callable[[], Snapshot]
    ) -> Snapshot:
        state, reader = self._reconcile(segment)
        if state.protocol is None or state.metadata is None:
            missing = "protocol" if state.protocol is None else "metadata (metaData)"
            raise CorruptLog(
                f"no {missing} action found in the log up to version {segment.version}",
                hint="a table's first commit must hold protocol and metaData; "
                "restore it from a backup",
            )
        warnings = [
            *self.warnings,
            *check_readable(state.protocol, allow_catalog_managed=self.allow_catalog_managed),
        ]
        if state.metadata.schema_string is None:
            warnings.append("metaData has no schemaString (a table of the first Delta versions)")
        if segment.version not in listing.commits:
            warnings.append(f"commit {segment.version} is missing; its checkpoint gives the state")
        snapshot = Snapshot(
            self.store,
            listing,
            segment,
            state.protocol,
            state.metadata,
            state,
            reader,
            rebuild,
            self.on_read,
            warnings,
        )
        _refuse_unknown_changes(snapshot)
        return snapshot

    def _reconcile(self, segment: LogSegment) -> tuple[Reconciled, CheckpointReader | None]:
        on_read = self.on_read
        try:
            state = replay_commits(
                self.store,
                segment.commits,
                on_read=(lambda d, n: on_read("reading commits", d, n)) if on_read else None,
            )
        except FileMissing as error:
            raise CorruptLog(
                f"{error.message}, but it was listed a moment ago",
                hint="the log is being cleaned up or the store is inconsistent; try again",
            ) from error
        except CorruptLog:
            # What looks broken may be of a protocol that must not be read at all (L-12).
            self._check_protocol_first(segment)
            raise
        return state, _open_checkpoint(self.store, self.engine, segment, state)

    def _check_protocol_first(self, segment: LogSegment) -> None:
        for commit in reversed(segment.commits):
            try:
                body = find_action(self.store.read(commit.path), "protocol")
                protocol = parse_protocol(body) if body else None
            except (ValueError, FileMissing):
                return
            if protocol:
                check_readable(protocol, allow_catalog_managed=self.allow_catalog_managed)
                return


def _refuse_unknown_changes(snapshot: Snapshot) -> None:
    if not {"typeWidening", "typeWidening-preview"} & set(snapshot.features) or not snapshot.schema:
        return
    for change in unknown_changes(snapshot.schema):
        raise Refused(
            f"unsupported type change of {change}",
            hint="the feature typeWidening has no such change; a newer deltacli may know it",
        )


def _open_checkpoint(
    store: LogStore, engine: Callable[[], Engine], segment: LogSegment, state: Reconciled
) -> CheckpointReader | None:
    checkpoint = segment.checkpoint
    if checkpoint is None:
        return None
    paths = [file.path for file in checkpoint.files]
    if paths[0].endswith(".json"):
        try:
            replay_lines(state, store.read(paths[0]), paths[0])
        except (CorruptLog, FileMissing) as error:
            raise UnreadableCheckpoint(
                f"checkpoint file {paths[0]} cannot be read: {error.message}", hint=error.hint
            ) from error
        if not state.sidecars:
            return None
        paths = []
    return engine().open_checkpoint(store, paths, state)


def verify_checkpoint(
    store: LogStore, engine: Callable[[], Engine], checkpoint: Checkpoint
) -> None:
    """Read a whole checkpoint: every page of every part. Raises UnreadableCheckpoint."""
    state = Reconciled()
    reader = _open_checkpoint(store, engine, LogSegment(checkpoint.version, checkpoint, ()), state)
    if state.protocol is None or state.metadata is None:
        raise UnreadableCheckpoint(
            f"the checkpoint at version {checkpoint.version} has no protocol or metadata"
        )
    for action, fields in (("add", ADD_FIELDS), ("remove", REMOVE_FIELDS)):
        for batch in reader.files(state, action, fields) if reader else ():
            _ = batch.columns


def checkpoint_kind(snapshot: Snapshot) -> str | None:
    """`classic`, `multi-part` or `v2`: the form of the checkpoint the state came from."""
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is None:
        return None
    if checkpoint.kind is Kind.MULTIPART_CHECKPOINT:
        return "multi-part"
    # A V2 checkpoint may have the classic name; its sidecars give it away (V2-11).
    is_v2 = checkpoint.kind is Kind.UUID_CHECKPOINT or snapshot.state.sidecars
    return "v2" if is_v2 else "classic"


def _totals_of_lines(state: Reconciled, wanted: frozenset[Want], removed_after_ms: int) -> Totals:
    total = Totals()
    if wanted & {Want.FILES, Want.RECORDS, Want.VECTORS}:
        for line in state.adds.values():
            _count_add(json_text.load(line)["add"], wanted, total)
    if Want.TOMBSTONES in wanted:
        for line in state.removes.values():
            body = json_text.load(line)["remove"]
            if is_unexpired(body, removed_after_ms):
                total.tombstones += 1
                total.tombstone_bytes += _size(body)
    return total


def _count_add(body: Json, wanted: frozenset[Want], total: Totals) -> None:
    total.files += 1
    total.bytes += body["size"]
    vector = body.get("deletionVector")
    if vector:
        total.vectors += 1
        cardinality = vector.get("cardinality")
        total.deleted_records += cardinality if type(cardinality) is int else 0
    if Want.RECORDS in wanted:
        stats = body.get("stats")
        records = num_records(stats) if isinstance(stats, str) else None
        if records is None:
            total.without_records += 1
        else:
            total.records += records


def _size(body: Json) -> int:
    size = body.get("size")
    return size if type(size) is int else 0


def is_unexpired(remove: Mapping[str, Any], removed_after_ms: int) -> bool:
    """Whether a tombstone still protects its file; without a time it does not (R-20, R-22)."""
    stamp = remove.get("deletionTimestamp")
    return type(stamp) is int and stamp > removed_after_ms
