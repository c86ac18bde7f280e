"""Shared tables as versions whose rows can be read, the way that those of a log are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

from deltacli.delta.actions import Json, Metadata, Protocol
from deltacli.delta.features import check_readable
from deltacli.delta.properties import read_tolerantly
from deltacli.delta.scan import Files, ScanFile, changes_of_commit
from deltacli.delta.schema import BadSchema, Struct, parse_schema
from deltacli.errors import Refused, StorageError
from deltacli.sharing.client.address import TableAddress
from deltacli.sharing.client.answer import Answer
from deltacli.sharing.client.http import BadAnswer
from deltacli.sharing.client.messages import Definition, FileLine
from deltacli.sharing.client.server import At, Query, Range, SharingServer
from deltacli.sharing.client.store import Renew, SharedStore


@dataclass(frozen=True)
class SharedVersion:
    """A version of a shared table; `lines` are its files."""

    store: SharedStore
    protocol: Protocol
    metadata: Metadata
    version: int
    lines: Callable[[], Iterable[FileLine]]
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.warnings.extend(check_readable(self.protocol))

    @cached_property
    def schema(self) -> Struct:
        return schema_of(self.metadata)

    @property
    def mapped_schema(self) -> Struct | None:
        return self.schema if self.setting("delta.columnMapping.mode") != "none" else None

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
        return parse_schema(metadata.schema_string or "")
    except BadSchema as error:
        raise BadAnswer(f"the schemaString of the answer is wrong: {error}") from None


def open_version(server: SharingServer, table: TableAddress, query: Query) -> SharedVersion:
    """A version whose files are asked for once, and once more when their URLs have ended."""
    query = replace(query, wants_refresh=query.at == At())
    answer = server.query(table, query)
    again = _Again(server, table, query, answer.version, answer.refresh_token)
    return as_version(server, answer, again)


def as_version(server: SharingServer, answer: Answer, again: Renew | None = None) -> SharedVersion:
    return SharedVersion(
        SharedStore(server.http, again),
        answer.protocol.protocol,
        answer.definition.metadata,
        answer.version,
        answer.files,
    )


@dataclass(frozen=True)
class _Again:
    """Asks for the same files of the same version."""

    server: SharingServer
    table: TableAddress
    query: Query
    version: int
    refresh_token: str | None

    def __call__(self) -> Iterable[FileLine]:
        if self.query.at != At():
            return self.server.query(self.table, self.query).files()
        query = replace(self.query, wants_refresh=False)
        pinned = replace(query, at=At(version=self.version))
        if self.refresh_token is not None:
            pinned = replace(query, refresh_token=self.refresh_token)
        try:
            return self.server.query(self.table, pinned).files()
        except Refused:
            # Neither refresh tokens nor history: the newest version may still be the same.
            answer = self.server.query(self.table, query)
        if answer.version != self.version:
            raise StorageError(
                f"the URLs of version {self.version} have ended, and the table is at "
                f"{answer.version} by now",
                hint="begin again; where history is shared, name a version",
            )
        return answer.files()


@dataclass(frozen=True)
class SharedChanges:
    """What commits changed: for each, in order, the definition in force and its files."""

    store: SharedStore
    protocol: Protocol
    newest: Definition
    answer: Answer

    @property
    def schema(self) -> Struct:
        return schema_of(self.newest.metadata)

    def commits(self) -> Iterator[tuple[Definition, int, list[FileLine]]]:
        yield from commits_of(self.answer)

    def scan(self) -> Iterator[tuple[Files, ScanFile]]:
        """The rows that changed, as parts of files, each with how, when and by which commit."""
        for _, version, lines in self.commits():
            yield from self.scan_commit(version, lines)

    def scan_commit(self, version: int, lines: Sequence[FileLine]) -> Iterator[Any]:
        """The same for some files of one commit."""
        for line in lines:
            self.store.take(line)
        files = Files(self.as_version(version))
        stamp = next((one.timestamp_ms for one in lines if one.timestamp_ms is not None), None)
        actions: Iterable[tuple[str, Json]] = ((one.action, one.body) for one in lines)
        feed, changed = changes_of_commit(files, version, stamp, actions)
        for one in (*feed, *changed):
            yield files, one

    def as_version(self, version: int) -> SharedVersion:
        return SharedVersion(self.store, self.protocol, self.newest.metadata, version, lambda: ())


def commits_of(answer: Answer) -> Iterator[tuple[Definition, int, list[FileLine]]]:
    """Files by their versions, ascending, each with the definition that was in force."""
    definition = answer.definition
    lines: list[FileLine] = []
    definitions: list[tuple[int, Definition]] = []
    for line in answer.lines():
        if isinstance(line, Definition):
            if line.version is None:
                raise BadAnswer("a metaData line among changes has no version")
            definitions.append((line.version, line))
        elif line.version is None:
            raise BadAnswer("a file among changes has no version")
        else:
            lines.append(line)
    definitions.sort(key=lambda one: one[0])
    lines.sort(key=lambda one: (one.version or 0, one.id))
    for version, group in groupby(lines, key=lambda one: one.version or 0):
        while definitions and definitions[0][0] <= version:
            definition = definitions.pop(0)[1]
        yield definition, version, list(group)


def open_changes(server: SharingServer, table: TableAddress, asked: Range) -> SharedChanges:
    """The changes of a range by the newest definition, as change data is read."""
    answer = server.changes(table, asked)
    check_readable(answer.protocol.protocol)
    pinned = replace(asked, start=At(version=answer.version))

    def again() -> Iterable[FileLine]:
        return server.changes(table, pinned).files()

    return SharedChanges(
        SharedStore(server.http, again), answer.protocol.protocol, answer.definition, answer
    )


__all__ = [
    "SharedChanges",
    "SharedVersion",
    "as_version",
    "commits_of",
    "open_changes",
    "open_version",
    "schema_of",
]
