"""`share shares`, `schemas`, `tables`, `version`, `metadata`, `files`, `changes`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltacli.delta.predicates import Condition, NotSimple, parse_condition
from deltacli.delta.scan import Files
from deltacli.delta.schema import Struct, type_tree
from deltacli.delta.skipping import may_match
from deltacli.errors import UsageError
from deltacli.operations.describe import schema_lines
from deltacli.operations.file_names import FileNames
from deltacli.operations.files import statistics
from deltacli.operations.head import condition_of
from deltacli.operations.records import Document, Listing, Row
from deltacli.sharing.client.address import TableAddress
from deltacli.sharing.client.messages import FileLine
from deltacli.sharing.client.rows import (
    SameCommits,
    SharedVersion,
    as_version,
    open_changes,
    open_version,
    schema_of,
)
from deltacli.sharing.client.server import At, Query, Range, SharingServer
from deltacli.sharing.hint_trees import json_hint
from deltacli.sharing.hints import BadHint, check_json_hint
from deltacli.units import iso_time

SHARE_FIELDS = ("name", "id", "displayName", "comment")
SCHEMA_FIELDS = ("share", "name")
TABLE_FIELDS = ("share", "schema", "name", "id", "shareId", "accessModes", "location")
VERSION_FIELDS = ("table", "version")
METADATA_FIELDS = (
    "table",
    "version",
    "responseFormat",
    "id",
    "name",
    "description",
    "partitionColumns",
    "numFiles",
    "sizeInBytes",
    "properties",
    "minReaderVersion",
    "readerFeatures",
    "schema",
)
FILE_FIELDS = (
    "id",
    "action",
    "version",
    "timestamp",
    "timestampMs",
    "partitionValues",
    "size",
    "numRecords",
    "stats",
    "deletionVector",
    "url",
    "expiresAt",
)
OnFiles = Callable[[str, int, int], None]
_SHOWN = ("id", "size", "numRecords", "partitionValues", "expiresAt")
_SHOWN_CHANGES = ("version", "timestamp", "action", "id", "size", "numRecords", "partitionValues")


def list_shares(server: SharingServer) -> Listing:
    return Listing(_chosen(server.shares(), SHARE_FIELDS), SHARE_FIELDS, SHARE_FIELDS, "shares")


def list_schemas(server: SharingServer, share: str) -> Listing:
    rows = _chosen(server.schemas(share), SCHEMA_FIELDS)
    return Listing(rows, SCHEMA_FIELDS, SCHEMA_FIELDS, "schemas")


def list_tables(server: SharingServer, share: str | None, schema: str | None) -> Listing:
    """The tables of a schema, of a share, or of all shares."""

    def items() -> Iterator[Mapping[str, Any]]:
        shares = [share] if share is not None else [one["name"] for one in server.shares()]
        for one in shares:
            yield from server.tables(one, schema)

    shown = ("share", "schema", "name", "id")
    return Listing(_chosen(items(), TABLE_FIELDS), TABLE_FIELDS, shown, "tables")


def _chosen(items: Iterable[Mapping[str, Any]], fields: tuple[str, ...]) -> Iterator[Row]:
    for one in items:
        yield {name: one.get(name) for name in fields}


def show_version(server: SharingServer, table: TableAddress, since: str | None) -> Document:
    return Document({"table": str(table), "version": server.version(table, since)}, "version")


def show_metadata(server: SharingServer, table: TableAddress, at: At) -> Document:
    page = server.metadata(table, at)
    told, definition = page.head
    metadata = definition.metadata
    schema = schema_of(metadata)
    values = {
        "table": str(table),
        "version": page.version,
        "responseFormat": told.response_format,
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "partitionColumns": list(metadata.partition_columns),
        "numFiles": definition.num_files,
        "sizeInBytes": definition.size,
        "properties": dict(metadata.configuration),
        "minReaderVersion": told.protocol.min_reader_version,
        "readerFeatures": sorted(told.protocol.reader_features or ()) or None,
        "schema": type_tree(schema),
    }
    return Document(values, "metadata", tuple(schema_lines(schema)))


@dataclass(frozen=True)
class Wish:
    """The rows that are wanted: a condition, or hints as a server takes them."""

    where: str | None = None
    limit: int | None = None
    json_hint: str | None = None
    sql_hints: tuple[str, ...] = ()


def open_wished(
    server: SharingServer, table: TableAddress, at: At, wish: Wish
) -> tuple[SharedVersion, Condition | None]:
    """A version of which the server is told what is wanted, and the condition as parsed here.

    A condition that takes a whole SQL engine is no hint.
    """
    query = Query(at, limit=wish.limit, sql_hints=wish.sql_hints, json_hint=wish.json_hint)
    if wish.where is None and wish.json_hint is None:
        return open_version(server, table, query), None
    page = server.metadata(table, at)
    schema = schema_of(page.head[1].metadata)
    condition = None
    if wish.json_hint is not None:
        try:
            check_json_hint(wish.json_hint, schema)
        except BadHint as error:
            raise UsageError(
                f"--json-hint would be passed over: {error}",
                hint="a tree of op, children, name, value and valueType; or use --where",
            ) from None
    if wish.where is not None:
        # A limit counts rows of files, which a condition may take away.
        query = replace(query, limit=None)
        try:
            condition = parse_condition(wish.where)
        except NotSimple:
            pass
        else:
            query = replace(query, json_hint=wish.json_hint or json_hint(condition, schema))
    return open_version(server, table, query), condition


def list_files(
    server: SharingServer,
    table: TableAddress,
    at: At,
    wish: Wish,
    on_files: OnFiles | None = None,
) -> tuple[Listing, SharedVersion]:
    """The files of a version; those that cannot match a condition are left out once more."""
    if wish.where is not None and wish.limit is not None:
        raise UsageError(
            "--limit counts rows before --where takes some away", hint="use one of them"
        )
    version, condition = open_wished(server, table, at, wish)
    files = Files(version)
    if wish.where is not None:
        try:
            condition_of(files.schema, Struct(()), wish.where)
        except NotSimple as error:
            raise not_simple(wish.where, error) from None
    names = FileNames.of(version)

    def rows() -> Iterator[Row]:
        for line in version.lines():
            if line.action == "add" and _may_match(files, line, condition):
                yield _file_row(line, names, version.version)

    return Listing(_counted(rows(), on_files), FILE_FIELDS, _SHOWN, "files"), version


def not_simple(where: str, error: NotSimple) -> UsageError:
    """A condition where there is no SQL engine to decide it."""
    return UsageError(
        f"--where {where!r} cannot be decided here: {error}",
        hint="compare columns with values of their types, joined by AND and OR",
    )


def _may_match(files: Files, line: FileLine, condition: Condition | None) -> bool:
    if condition is None:
        return True
    one = files.of_action(line.body)
    is_mapped = files.snapshot.mapped_schema is not None
    return may_match(condition, files.schema, one.partition, one.stats, is_mapped=is_mapped)


def _file_row(line: FileLine, names: FileNames, version: int | None) -> Row:
    records, stats = statistics(line.body, names)
    vector = line.body.get("deletionVector")
    if vector is not None and line.vector is not None:
        vector = {**vector, "pathOrInlineDv": line.vector.url}
    return {
        "id": line.id,
        "action": line.action,
        "version": version if line.version is None else line.version,
        "timestamp": iso_time(line.timestamp_ms),
        "timestampMs": line.timestamp_ms,
        "partitionValues": names.partition_values(line.body.get("partitionValues")),
        "size": line.data.size,
        "numRecords": records,
        "stats": stats,
        "deletionVector": vector,
        "url": line.data.url,
        "expiresAt": iso_time(line.expires_ms),
    }


def list_added(
    server: SharingServer,
    table: TableAddress,
    first: int,
    last: int | None,
    on_files: OnFiles | None = None,
) -> Listing:
    """The files that commits added and removed, as a stream reads them."""
    query = Query(starting_version=first, ending_version=last)
    answer = server.query(table, query)
    version = as_version(answer, SameCommits(server, table, query))
    names = FileNames.of(version)

    def rows() -> Iterator[Row]:
        for line in answer.files():
            # The end of the range is a hint only.
            if last is None or line.version is None or line.version <= last:
                yield _file_row(line, names, None)

    return Listing(_counted(rows(), on_files), FILE_FIELDS, _SHOWN_CHANGES, "files")


def list_changes(
    server: SharingServer, table: TableAddress, asked: Range, on_files: OnFiles | None = None
) -> Listing:
    """The files that hold what commits changed."""
    changes = open_changes(server, table, asked)
    names = FileNames.of(changes.as_version(changes.answer.version))

    def rows() -> Iterator[Row]:
        for commit in changes.commits():
            for line in commit.lines:
                yield _file_row(line, names, None)

    return Listing(_counted(rows(), on_files), FILE_FIELDS, _SHOWN_CHANGES, "changes")


def _counted(rows: Iterable[Row], on_files: OnFiles | None) -> Iterator[Row]:
    """The rows, with a word now and then about how many there were."""
    for number, row in enumerate(rows, 1):
        yield row
        if on_files and number % 1024 == 0:
            on_files("files", number, 0)
