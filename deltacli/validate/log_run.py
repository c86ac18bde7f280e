"""The log read once, from its oldest file to its newest, and all that rules look at in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from deltacli.checking.model import Failure, Level
from deltacli.checking.tally import Rules
from deltacli.delta.actions import (
    BadAction,
    DomainMetadata,
    parse_domain,
    parse_metadata,
    parse_protocol,
)
from deltacli.delta.paths import LOG
from deltacli.delta.segment import Checkpoint, LogListing, list_log
from deltacli.errors import FileMissing, NoPlainFile, NotFound, StorageError
from deltacli.storage import LogStore, read_all
from deltacli.validate.adds import Adds
from deltacli.validate.checkpoint_reading import MISFITS, read_checkpoint, told
from deltacli.validate.checkpoints import Reading
from deltacli.validate.commits import Commit, Line, parse_lines, paths_in
from deltacli.validate.definition import CLUSTERING, ROW_TRACKING, Definition, Path
from deltacli.validate.log_files import (
    Checksum,
    Compaction,
    LogFolder,
    read_compaction,
)
from deltacli.validate.portions import Portions
from deltacli.validate.replay import State
from deltacli.validate.rules.widening import recorded_changes
from deltacli.validate.stats_structs import ParsedAdds

# A commit; None if it has vanished, an error if it is no file.
Content = bytes | StorageError | None
OnProgress = Callable[[str, int, int], None]
_TXN_RETENTION = "delta.setTransactionRetentionDuration"
_BYTES_AT_ONCE = 1 << 25
_COMMITS_AT_ONCE = 1000
_ADDS_AT_ONCE = 1 << 16


@dataclass
class LogRun:
    """Everything in `_delta_log`, once, from the oldest file to the newest."""

    store: LogStore
    rules: Rules
    now_ms: int
    on_progress: OnProgress | None = None
    listing: LogListing | None = None
    state: State | None = None
    definition: Definition | None = None
    previous: Commit | None = None
    readings: list[Reading] = field(default_factory=list)
    twice_in_base: list[str] = field(default_factory=list)
    recorded: set[tuple[Path, str, str]] = field(default_factory=set)
    clocks: list[tuple[int | None, Any]] = field(default_factory=list)
    coming: frozenset[str] = frozenset()

    @cached_property
    def portions(self) -> Portions:
        return Portions(self.rules, self.now_ms, self.store.location)

    def run(self) -> None:
        try:
            self.listing = list_log(self.store)
        except NotFound:
            if not _is_folder(self.store):
                raise
            self.rules.apply(LogFolder(self.store, None, self.now_ms))
            return
        if self.rules.want(Adds):
            first = next(iter(self._checkpoints.values()), [])
            self.portions.expect(sum(file.size for one in first for file in one.files))
        for block in _blocks(self.store, self.listing, self.on_progress):
            self._take_block(block)
        # What another process found is waited for last: there was enough to do here.
        self.portions.close()
        for file in self.listing.compacted:
            if self.rules.want(Compaction) and file.size:
                self.rules.apply(read_compaction(self.store, self.listing, file))
        self.rules.apply(
            LogFolder(
                self.store, self.listing, self.now_ms, self.definition, self.readings, self.clocks
            )
        )

    def _take_block(self, block: Sequence[tuple[int, Content]]) -> None:
        asked = False
        # What a checkpoint before them says of the same files is looked for in one go; parsed
        # commits are too large to be kept meanwhile.
        if self._checkpoints or (self.state is not None and self.state.base is not None):
            self.coming = frozenset(
                path
                for _, content in block
                if isinstance(content, bytes)
                for path in paths_in(content)
            )
        for version, content in block:
            if isinstance(content, StorageError):
                file = f"{LOG}/{version:020}.json"
                self.rules.apply(Failure("JSN001", content, file, version))
                self.state = None
            elif content is not None:
                if self.state is None or self.state.version != version - 1:
                    self._lose_state(version)
                elif self.state.base is not None and not asked:
                    self._ask()
                    asked = True
                self._take_commit(version, content, parse_lines(content))
            for checkpoint in self._checkpoints.get(version, ()):
                try:
                    if self._take_checkpoint(checkpoint):
                        asked = False
                except MISFITS as error:
                    self._lose_checkpoint(checkpoint, error)
            self._take_checksum(version)

    def _ask(self) -> None:
        """Look up what the state's checkpoint says of the files that come."""
        assert self.state is not None
        assert isinstance(self.state.base, Reading)
        try:
            self.state.ask(self.coming)
        except MISFITS as error:
            self._lose_checkpoint(self.state.base.checkpoint, error)

    def _lose_checkpoint(self, checkpoint: Checkpoint, error: Exception) -> None:
        """A checkpoint turned out to be broken while it was read, or after it."""
        reading = Reading(self.store, checkpoint, None, None, self.now_ms)
        reading.unreadable.append((checkpoint.files[0].path, told(error)))
        self.rules.apply(reading)
        self.state = None

    def _lose_state(self, version: int) -> None:
        """Without the commits before it, nothing is known but at version 0."""
        self.state = State() if version == 0 else None

    def _take_commit(self, version: int, content: bytes, lines: list[Line]) -> None:
        assert self.listing is not None
        commit = Commit(
            version,
            content,
            lines,
            self.definition,
            self._next_definition(version, lines),
            self.state,
            self.previous if self.previous and self.previous.version == version - 1 else None,
            self.listing.commits[version],
            self.now_ms,
        )
        self.rules.apply(commit)
        new = commit.definition
        if new is not None and new is not self.definition and new.is_news:
            self._take_definition(new)
        self.definition = commit.definition
        if self.rules.level > Level.LOG:
            self.clocks.append((commit.file_ms, (commit.info or {}).get("timestamp")))
        # Where the state is not known, the checkpoint that makes it known has the files.
        if self.state is not None or version > self._last_checkpoint_version:
            self._take_adds(commit, [line for _, line in commit.adds])
        self._take_adds(commit, list(commit.sound("cdc")), are_changes=True)
        if self.state is not None:
            if commit.is_whole:
                self.state.is_compared = version <= self._last_checkpoint_version
                self.state.apply(commit)
                self.state.expires_txns |= self.definition is not None and (
                    _TXN_RETENTION in self.definition.configuration
                )
                self.state.definition = self.definition
            else:
                self.state = None
        # Only its commitInfo and its time are asked for later.
        self.previous = replace(
            commit, content=b"", lines=[one for one in lines if one.key == "commitInfo"][:1],
            before=None, state=None, previous=None,
        )  # fmt: skip

    def _take_adds(self, commit: Commit, lines: list[Line], *, are_changes: bool = False) -> None:
        # As columns, and not too many of them at once.
        for start in range(0, len(lines) if self.rules.want(Adds) else 0, _ADDS_AT_ONCE):
            self.rules.apply(
                Adds.of_lines(
                    commit.file,
                    commit.version,
                    self.definition,
                    lines[start : start + _ADDS_AT_ONCE],
                    now_ms=self.now_ms,
                    root=self.store.location,
                    are_changes=are_changes,
                    most=self.rules.tally.keeps,
                )
            )

    def _next_definition(self, version: int, lines: list[Line]) -> Definition | None:
        """What holds after a commit, as far as its actions can be read."""
        old = self.definition
        protocol = old.protocol if old else None
        metadata = old.metadata if old else None
        domains: Mapping[str, DomainMetadata] = old.domains if old else {}
        places: dict[str, int] = {}
        for line in lines:
            try:
                if line.key == "protocol":
                    protocol = parse_protocol(line.body)
                elif line.key == "metaData":
                    metadata = parse_metadata(line.body)
                elif line.key == "domainMetadata":
                    one = parse_domain(line.body)
                    if one.domain not in (CLUSTERING, ROW_TRACKING):
                        continue
                    domains = {**domains, one.domain: one}
                else:
                    continue
            except BadAction:
                continue
            places[line.key] = line.number
        if not places:
            return old
        info = next((line.body for line in lines if line.key == "commitInfo"), {})
        operation, parameters = info.get("operation"), info.get("operationParameters")
        return Definition(
            version,
            f"_delta_log/{version:020}.json",
            protocol,
            metadata,
            domains,
            # Older ones are not asked for.
            replace(old, before=None) if old else None,
            operation if isinstance(operation, str) else None,
            places,
            replaces_all=_replaces_all(parameters) or self._removes_all(lines),
        )

    def _removes_all(self, lines: list[Line]) -> bool:
        """Whether a commit removes every live file, whatever it calls itself."""
        removed = sum(line.key == "remove" for line in lines)
        return self.state is not None and 0 < self.state.sums.files <= removed

    def _take_checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Read a checkpoint; whether it became what the replay stands on."""
        version = checkpoint.version
        known = self.state is not None and self.state.version == version
        is_base = not known
        # What began at a checkpoint of this version says nothing of another one.
        began_here = self.state is not None and self.state.base_version == version
        state = self.state if known and not began_here else None
        reading = read_checkpoint(
            self.store,
            checkpoint,
            state,
            self.now_ms,
            on_adds=self.portions.take if is_base and self.rules.want(Adds) else None,
            on_batch=self._parsed_adds,
            with_sums=not is_base or version != self._last_checkpoint,
            wanted=self.coming if is_base else frozenset(),
        )
        self.readings.append(reading)
        self.rules.apply(reading)
        became_base = is_base and reading.is_readable and reading.metadata and reading.protocol
        if became_base:
            self._begin_at(reading)
        if state is not None and reading.is_readable and reading.written_ms is not None:
            retain_ms = reading.definition.setting("delta.deletedFileRetentionDuration")
            state.forget_tombstones(reading.written_ms - retain_ms)
        # The comparison is done; what it needed may go.
        reading.state = None
        reading.removed.clear()
        return bool(became_base)

    def _parsed_adds(self, reading: Reading, batch: Any) -> None:
        if self.rules.want(ParsedAdds) and ParsedAdds.COLUMNS & set(batch.schema.names):
            self.rules.apply(ParsedAdds(reading, batch))

    @cached_property
    def _checkpoints(self) -> Mapping[int, list[Checkpoint]]:
        found: dict[int, list[Checkpoint]] = {}
        for one in self.listing.checkpoints if self.listing else ():
            found.setdefault(one.version, []).append(one)
        return found

    @property
    def _last_checkpoint_version(self) -> int:
        return max(self._checkpoints, default=-1)

    @property
    def _last_checkpoint(self) -> int:
        assert self.listing is not None
        newest = self.listing.checkpoints[-1].version
        # Two of one version are compared with each other.
        return newest if len(self._checkpoints[newest]) == 1 else -1

    def _begin_at(self, reading: Reading) -> None:
        version = reading.version
        self.state = State(
            version,
            reading,
            version,
            replace(reading.sums),
            domains=dict(reading.domains),
            protocol=reading.protocol,
            metadata=reading.metadata,
        )
        for row in reading.of("txn"):
            self.state.take_txn(row.body)
        self.state.expires_txns = _TXN_RETENTION in reading.definition.configuration
        self.twice_in_base = reading.twice
        old = self.definition
        self.definition = replace(reading.definition, before=None)
        self.state.definition = self.definition
        if old is None or (old.protocol, old.metadata) != (reading.protocol, reading.metadata):
            self._take_definition(self.definition)

    def _take_definition(self, definition: Definition) -> None:
        self.rules.apply(definition)
        self.recorded.update(recorded_changes(definition))

    def _take_checksum(self, version: int) -> None:
        assert self.listing is not None
        file = self.listing.checksums.get(version)
        if file is None or not self.rules.want(Checksum):
            return
        try:
            content = self.store.read(file.path)
        except FileMissing:
            return
        except StorageError as error:
            if not isinstance(error, NoPlainFile):
                raise
            self.rules.apply(Failure("CRC001", error, file.path, version))
            return
        state = self.state if self.state and self.state.version == version else None
        commit = self.previous if self.previous and self.previous.version == version else None
        has_commit = version in self.listing.commits or version in self._checkpoints
        self.rules.apply(Checksum(version, content, self.definition, state, commit, has_commit))


def _replaces_all(parameters: object) -> bool:
    return isinstance(parameters, dict) and (
        parameters.get("mode") == "Overwrite" or parameters.get("outputMode") == "Complete"
    )


def _is_folder(store: LogStore) -> bool:
    try:
        return next(store.list_from(""), None) is not None
    except FileMissing:
        return False


def _blocks(
    store: LogStore, listing: LogListing, on_progress: OnProgress | None
) -> Iterator[list[tuple[int, Content]]]:
    """Versions in order with their commits, some at a time.

    A checkpoint or checksum without a commit is a version too.
    """
    versions = sorted(
        {*listing.commits, *(one.version for one in listing.checkpoints), *listing.checksums}
    )
    contents = _contents(store, listing, on_progress)
    block: list[tuple[int, Content]] = []
    size = 0
    for version in versions:
        content = next(contents) if version in listing.commits else None
        block.append((version, content))
        size += len(content) if isinstance(content, bytes) else 0
        if size > _BYTES_AT_ONCE or len(block) >= _COMMITS_AT_ONCE:
            yield block
            block, size = [], 0
    if block:
        yield block


def _contents(
    store: LogStore, listing: LogListing, on_progress: OnProgress | None
) -> Iterator[Content]:
    on_read = (lambda d, n: on_progress("reading commits", d, n)) if on_progress else None
    paths = [one.path for one in listing.commits.values()]
    for _, content in read_all(store, paths, on_read=on_read):
        if isinstance(content, FileMissing):
            yield None
        elif isinstance(content, StorageError) and not isinstance(content, NoPlainFile):
            raise content
        else:
            yield content
