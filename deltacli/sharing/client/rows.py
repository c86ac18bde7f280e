"""Shared tables as versions whose rows can be read, the way that those of a log are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from deltacli.delta.actions import Json, Metadata, Protocol
from deltacli.delta.column_mapping import MODE
from deltacli.delta.features import check_readable
from deltacli.delta.properties import read_tolerantly
from deltacli.delta.scan import Files, ScanFile, changes_of_commit
from deltacli.delta.schema import BadSchema, Struct, parse_schema
from deltacli.errors import Refused, StorageError
from deltacli.sharing.client.address import TableAddress
from deltacli.sharing.client.answer import Answer
from deltacli.sharing.client.http import BadAnswer
from deltacli.sharing.client.messages import Definition, FileLine
from deltacli.sharing.client.server import NEWEST, At, Query, Range, SharingServer
from deltacli.sharing.client.store import SharedStore


@dataclass(frozen=True)
class SharedVersion:
    """A version of a shared table; `lines` are its files."""

    store: SharedStore
    protocol: Protocol
    metadata: Metadata
    version: int
    lines: Callable[[], Iterable[FileLine]]
    renewal: Renewal
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.warnings.extend(check_readable(self.protocol))

    @cached_property
    def schema(self) -> Struct:
        return schema_of(self.metadata)

    @property
    def mapped_schema(self) -> Struct | None:
        return self.schema if self.setting(MODE) != "none" else None

    def setting(self, key: str) -> Any:
        return read_tolerantly(self.metadata.configuration, key, self.warnings)

    def files(
        self, action: str, fields: Sequence[str], rows: int = 0
    ) -> Iterator[Mapping[str, Any]]:
        for line in self.lines():
            if line.action == action:
                self.store.take(line)
                yield line.body


def schema_of(metadata: Metadata) -> Struct:
    """Raises BadAnswer where a server tells no schema that can be read."""
    try:
        text = metadata.schema_string or ""
        text.encode()
        return parse_schema(text)
    except (BadSchema, UnicodeEncodeError) as error:
        raise BadAnswer(f"the schemaString of the answer is wrong: {error}") from None


def open_version(server: SharingServer, table: TableAddress, query: Query) -> SharedVersion:
    """A version whose files are asked for once, and once more when their URLs have ended."""
    query = replace(query, wants_refresh=query.at == NEWEST)
    answer = server.query(table, query)
    same = server.asking_in(answer.ids_of)
    renewal = SameVersion(same, table, query, answer.version, answer.refresh_token)
    return as_version(answer, renewal)


def as_version(answer: Answer, renewal: Renewal) -> SharedVersion:
    return SharedVersion(
        SharedStore(renewal.server.http, renewal),
        answer.protocol.protocol,
        answer.definition.metadata,
        answer.version,
        answer.live_files,
        renewal,
    )


@dataclass(frozen=True)
class SameVersion:
    """Asks for the same files of the same version."""

    server: SharingServer
    table: TableAddress
    query: Query
    version: int
    refresh_token: str | None = None

    def __call__(self) -> Iterable[FileLine]:
        if self.query.at != NEWEST:
            return self.server.query(self.table, self.query).files()
        query = replace(self.query, wants_refresh=False)
        pinned = [replace(query, at=At(version=self.version))]
        if self.refresh_token is not None:
            pinned.insert(0, replace(query, refresh_token=self.refresh_token))
        for one in pinned:
            # A token may have ended, and history may not be shared.
            with contextlib.suppress(Refused):
                return self.server.query(self.table, one).files()
        answer = self.server.query(self.table, query)
        if answer.version != self.version:
            raise StorageError(
                f"the URLs of version {self.version} have ended, and the table is at "
                f"{answer.version} by now",
                hint="begin again; where history is shared, name a version",
            )
        return answer.files()


@dataclass(frozen=True)
class SameCommits:
    """Asks for the same files that commits added and removed."""

    server: SharingServer
    table: TableAddress
    query: Query

    def __call__(self) -> Iterable[FileLine]:
        return self.server.query(self.table, self.query).files()


@dataclass(frozen=True)
class SameChanges:
    """Asks for the same changes."""

    server: SharingServer
    table: TableAddress
    asked: Range

    def __call__(self) -> Iterable[FileLine]:
        return self.server.changes(self.table, self.asked).files()


Renewal = SameVersion | SameCommits | SameChanges


@dataclass(frozen=True)
class SharedChanges:
    """What commits changed: for each, in order, the definition in force and its files."""

    answer: Answer
    renewal: Renewal
    store: SharedStore

    @property
    def schema(self) -> Struct:
        return schema_of(self.answer.definition.metadata)

    def commits(self) -> list[Commit]:
        return read_commits(self.answer).commits

    def scan(self) -> Iterator[tuple[Files, ScanFile]]:
        """The rows that changed, as parts of files, each with how, when and by which commit."""
        for commit in self.commits():
            files = Files(self.as_version(commit.version))
            for line in commit.lines:
                self.store.take(line)
            for one in changed_files(files, commit.version, commit.lines):
                yield files, one

    def as_version(self, version: int) -> SharedVersion:
        """The newest definition, for the files of any of the commits."""
        told = self.answer
        protocol, metadata = told.protocol.protocol, told.definition.metadata
        return SharedVersion(self.store, protocol, metadata, version, tuple, self.renewal)


def changed_files(files: Files, version: int, lines: Sequence[FileLine]) -> list[ScanFile]:
    """The rows that lines about one commit stand for; the store knows their files."""
    stamp = next((one.timestamp_ms for one in lines if one.timestamp_ms is not None), None)
    actions: Iterable[tuple[str, Json]] = ((one.action, one.body) for one in lines)
    feed, changed = changes_of_commit(files, version, stamp, actions)
    return [*feed, *changed]


@dataclass(frozen=True)
class Commit:
    """The files of one version, by their ids, and the definition that was in force."""

    version: int
    definition: Definition
    lines: list[FileLine]


@dataclass(frozen=True)
class Commits:
    """An answer about several versions, ascending; `definitions` has those of the lines too."""

    definitions: list[Definition]
    commits: list[Commit]


def read_commits(answer: Answer, last: int | None = None) -> Commits:
    """What an answer tells, up to a version: the end of a range is only a hint to a server."""
    lines: list[FileLine] = []
    later: list[tuple[int, Definition]] = []
    for line in answer.lines():
        if line.version is None:
            raise BadAnswer("a line among changes has no version")
        if last is None or line.version <= last:
            if isinstance(line, Definition):
                later.append((line.version, line))
            elif line.action == "cdc" or line.body.get("dataChange", True):
                lines.append(line)
    later.sort(key=lambda one: one[0])
    lines.sort(key=lambda one: (one.version or 0, one.id))
    found = Commits([answer.definition, *(one for _, one in later)], [])
    definition = answer.definition
    for version, group in groupby(lines, key=lambda one: one.version or 0):
        while later and later[0][0] <= version:
            definition = later.pop(0)[1]
        found.commits.append(Commit(version, definition, list(group)))
    return found


def open_changes(server: SharingServer, table: TableAddress, asked: Range) -> SharedChanges:
    """The changes of a range by the newest definition, as change data is read."""
    answer = server.changes(table, asked)
    check_readable(answer.protocol.protocol)
    same = server.asking_in(answer.ids_of)
    renewal = SameChanges(same, table, replace(asked, start=At(version=answer.version)))
    return SharedChanges(answer, renewal, SharedStore(server.http, renewal))


__all__ = [
    "Commit",
    "Commits",
    "Renewal",
    "SameChanges",
    "SameCommits",
    "SameVersion",
    "SharedChanges",
    "SharedVersion",
    "as_version",
    "changed_files",
    "open_changes",
    "open_version",
    "read_commits",
    "schema_of",
]
