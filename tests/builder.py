"""Writes the table that a test talks about, sound or broken, into any store.

    table = TableBuilder(MemoryStore())
    table.commit(protocol(), metadata(), add("a"))
    table.commit(remove("a"), add("b"))

Bodies are plain dictionaries, so that a test can make any of them wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from deltacli.storage import LogStore

Action = dict[str, Any]
NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


def protocol(
    reader: int = 1,
    writer: int = 2,
    reader_features: Sequence[str] | None = None,
    writer_features: Sequence[str] | None = None,
) -> Action:
    body: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    if reader_features is not None:
        body["readerFeatures"] = list(reader_features)
    if writer_features is not None:
        body["writerFeatures"] = list(writer_features)
    return {"protocol": body}


def features(*names: str) -> Action:
    """A protocol with reader-writer features."""
    return protocol(3, 7, names, names)


def column(
    name: str, type_: Any = "long", nullable: bool = True, **metadata: Any
) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": nullable, "metadata": metadata}


def metadata(
    *columns: dict[str, Any],
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    **more: Any,
) -> Action:
    schema = {"type": "struct", "fields": list(columns or (column("id"),))}
    body = {
        "id": "11111111-2222-3333-4444-555555555555",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": list(partition_by),
        "configuration": dict(configuration or {}),
        "createdTime": NOW_MS - 90 * DAY_MS,
    }
    return {"metaData": {**body, **more}}


def add(path: str, size: int = 100, rows: int | None = 10, **more: Any) -> Action:
    body: dict[str, Any] = {
        "path": path,
        "partitionValues": {},
        "size": size,
        "modificationTime": NOW_MS,
        "dataChange": True,
    }
    if rows is not None:
        body["stats"] = json.dumps({"numRecords": rows})
    return {"add": {**body, **more}}


def remove(
    path: str, deleted_ms: int | None = NOW_MS, size: int | None = 100, **more: Any
) -> Action:
    body: dict[str, Any] = {"path": path, "dataChange": True}
    if deleted_ms is not None:
        body["deletionTimestamp"] = deleted_ms
    if size is not None:
        body["size"] = size
    return {"remove": {**body, **more}}


def vector(
    name: str = "ab^-aqEH.-t@S}K{vb[*k^", offset: int | None = 4, cardinality: int = 3
) -> Action:
    """A deletion vector descriptor (to be passed as `deletionVector`)."""
    body = {
        "storageType": "u",
        "pathOrInlineDv": name,
        "sizeInBytes": 40,
        "cardinality": cardinality,
    }
    return body if offset is None else {**body, "offset": offset}


def commit_info(operation: str = "WRITE", **more: Any) -> Action:
    return {"commitInfo": {"timestamp": NOW_MS, "operation": operation, **more}}


def txn(app: str, version: int, updated_ms: int | None = None) -> Action:
    body: dict[str, Any] = {"appId": app, "version": version}
    return {"txn": body if updated_ms is None else {**body, "lastUpdated": updated_ms}}


def domain(name: str, configuration: str = "{}", removed: bool = False) -> Action:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


def lines(actions: Sequence[Action]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in actions)


class TableBuilder:
    """Commits and checkpoints, one call each."""

    def __init__(self, store: LogStore):
        self.store = store
        self.next_version = 0

    def commit(self, *actions: Action, at_ms: int | None = None, version: int | None = None) -> int:
        return self.commit_bytes(lines(actions), at_ms=at_ms, version=version)

    def commit_bytes(
        self, content: bytes, *, at_ms: int | None = None, version: int | None = None
    ) -> int:
        version = self.next_version if version is None else version
        self.put(f"{version:020}.json", content, at_ms=at_ms)
        self.next_version = version + 1
        return version

    def start(self, *more: Action, at_ms: int | None = None, **table: Any) -> int:
        """Commit 0 with a plain protocol and metadata, and more."""
        head = [commit_info("CREATE TABLE"), protocol(), metadata(**table)]
        return self.commit(*head, *more, at_ms=at_ms)

    def put(self, name: str, content: bytes, *, at_ms: int | None = None) -> None:
        """Any file of the log, as it stands."""
        path = f"_delta_log/{name}"
        if hasattr(self.store, "now_ms"):
            self.store.now_ms = NOW_MS if at_ms is None else at_ms
        self.store.put(path, content)
        whole = self.store.file_path(path)
        if whole and at_ms is not None:
            os.utime(whole, (at_ms / 1000, at_ms / 1000))

    def hint(self, version: int, **more: Any) -> None:
        self.put("_last_checkpoint", json.dumps({"version": version, "size": 1, **more}).encode())

    def checkpoint(
        self,
        version: int,
        actions: Sequence[Action],
        name: str | None = None,
        **parquet: Any,
    ) -> None:
        """A Parquet checkpoint (or sidecar) with these actions as rows."""
        self.put(name or f"{version:020}.checkpoint.parquet", parquet_rows(actions, **parquet))


def parquet_rows(actions: Sequence[Action], *, row_group_size: int = 1000) -> bytes:
    """Actions as a checkpoint's Parquet bytes, with the columns of the protocol."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    string_map = pa.map_(pa.string(), pa.string())
    vector_type = pa.struct(
        [
            ("storageType", pa.string()),
            ("pathOrInlineDv", pa.string()),
            ("offset", pa.int32()),
            ("sizeInBytes", pa.int32()),
            ("cardinality", pa.int64()),
        ]
    )
    file_fields = [
        ("path", pa.string()),
        ("partitionValues", string_map),
        ("size", pa.int64()),
        ("dataChange", pa.bool_()),
        ("tags", string_map),
        ("deletionVector", vector_type),
    ]
    names = pa.list_(pa.string())
    schema = pa.schema(
        [
            (
                "txn",
                pa.struct(
                    [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
                ),
            ),
            (
                "add",
                pa.struct(
                    [
                        *file_fields,
                        ("modificationTime", pa.int64()),
                        ("stats", pa.string()),
                        ("baseRowId", pa.int64()),
                        ("defaultRowCommitVersion", pa.int64()),
                        ("clusteringProvider", pa.string()),
                    ]
                ),
            ),
            ("remove", pa.struct([*file_fields, ("deletionTimestamp", pa.int64())])),
            (
                "metaData",
                pa.struct(
                    [
                        ("id", pa.string()),
                        ("name", pa.string()),
                        ("description", pa.string()),
                        ("format", pa.struct([("provider", pa.string()), ("options", string_map)])),
                        ("schemaString", pa.string()),
                        ("partitionColumns", names),
                        ("configuration", string_map),
                        ("createdTime", pa.int64()),
                    ]
                ),
            ),
            (
                "protocol",
                pa.struct(
                    [
                        ("minReaderVersion", pa.int32()),
                        ("minWriterVersion", pa.int32()),
                        ("readerFeatures", names),
                        ("writerFeatures", names),
                    ]
                ),
            ),
            (
                "domainMetadata",
                pa.struct(
                    [
                        ("domain", pa.string()),
                        ("configuration", pa.string()),
                        ("removed", pa.bool_()),
                    ]
                ),
            ),
            (
                "sidecar",
                pa.struct(
                    [
                        ("path", pa.string()),
                        ("sizeInBytes", pa.int64()),
                        ("modificationTime", pa.int64()),
                        ("tags", string_map),
                    ]
                ),
            ),
            ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", string_map)])),
        ]
    )
    rows = [{key: _pairs(body) for key, body in action.items()} for action in actions]
    table = pa.Table.from_pylist(
        [{field.name: row.get(field.name) for field in schema} for row in rows], schema=schema
    )
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=row_group_size)
    return sink.getvalue()


def _pairs(body: Any) -> Any:
    """Maps as pyarrow wants them: lists of pairs."""
    maps = ("partitionValues", "tags", "configuration", "options")
    if not isinstance(body, dict):
        return body
    return {
        key: list(value.items()) if key in maps and isinstance(value, dict) else _pairs(value)
        for key, value in body.items()
    }
