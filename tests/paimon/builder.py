"""Makes the Paimon table that a test talks about: schema files, snapshots, manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro

from deltacli.paimon.schema_file import TableSchema, parse_schema
from deltacli.paimon.type_text import SqlTypeParser, Tokens, whole_type
from deltacli.paimon.types import DataType
from deltacli.storage.local import LocalStore

Entry = tuple[int, int]
ADD, DELETE = 0, 1

_STATS = [
    {"name": "_MIN_VALUES", "type": "bytes"},
    {"name": "_MAX_VALUES", "type": "bytes"},
    {
        "name": "_NULL_COUNTS",
        "type": ["null", {"type": "array", "items": ["null", "long"]}],
        "default": None,
    },
]


def _record(name: str, fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": f"org.apache.paimon.avro.generated.{name}", "fields": fields}


LIST_SCHEMA = _record(
    "record",
    [
        {"name": "_VERSION", "type": "int"},
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_NUM_ADDED_FILES", "type": "long"},
        {"name": "_NUM_DELETED_FILES", "type": "long"},
        {"name": "_PARTITION_STATS", "type": _record("record__PARTITION_STATS", _STATS)},
        {"name": "_SCHEMA_ID", "type": "long"},
        {"name": "_MIN_BUCKET", "type": ["null", "int"], "default": None},
    ],
)
ENTRY_SCHEMA = _record(
    "record",
    [
        {"name": "_VERSION", "type": "int"},
        {"name": "_KIND", "type": "int"},
        {"name": "_PARTITION", "type": "bytes"},
        {"name": "_BUCKET", "type": "int"},
        {"name": "_TOTAL_BUCKETS", "type": "int"},
        {
            "name": "_FILE",
            "type": _record(
                "record__FILE",
                [
                    {"name": "_FILE_NAME", "type": "string"},
                    {"name": "_FILE_SIZE", "type": "long"},
                    {"name": "_ROW_COUNT", "type": "long"},
                    {"name": "_MIN_KEY", "type": "bytes"},
                    {"name": "_MAX_KEY", "type": "bytes"},
                    {"name": "_KEY_STATS", "type": _record("record__FILE__KEY_STATS", _STATS)},
                    {"name": "_VALUE_STATS", "type": _record("record__FILE__VALUE_STATS", _STATS)},
                    {"name": "_MIN_SEQUENCE_NUMBER", "type": "long"},
                    {"name": "_MAX_SEQUENCE_NUMBER", "type": "long"},
                    {"name": "_SCHEMA_ID", "type": "long"},
                    {"name": "_LEVEL", "type": "int"},
                    {"name": "_EXTRA_FILES", "type": {"type": "array", "items": "string"}},
                    {
                        "name": "_CREATION_TIME",
                        "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
                        "default": None,
                    },
                ],
            ),
        },
    ],
)
_EMPTY_STATS = {"_MIN_VALUES": b"\0" * 32, "_MAX_VALUES": b"\xff" * 32, "_NULL_COUNTS": [0, None]}


def schema(schema_id: int = 0, **members: Any) -> dict[str, Any]:
    """A schema file's tree: a table of two columns, unless members say otherwise."""
    fields = members.pop("fields", [column(0, "k", "BIGINT NOT NULL"), column(1, "v", "STRING")])
    ids = [one["id"] for one in fields]
    return {
        "version": 3,
        "id": schema_id,
        "fields": fields,
        "highestFieldId": max(ids, default=-1),
        "partitionKeys": [],
        "primaryKeys": [],
        "options": {},
        "timeMillis": 1_700_000_000_000 + schema_id,
        **members,
    }


def column(field_id: int, name: str, kind: Any, **members: Any) -> dict[str, Any]:
    return {"id": field_id, "name": name, "type": kind, **members}


def parsed(tree: Mapping[str, Any]) -> TableSchema:
    return parse_schema(json.dumps(tree).encode())


def parse_sql(text: str) -> DataType:
    """A type as people write it."""
    return whole_type(SqlTypeParser(Tokens(text)))


@dataclass
class PaimonTable:
    """A table in a folder, written piece by piece."""

    root: Path
    codec: str = "zstandard"
    _count: int = 0
    _live: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def store(self) -> LocalStore:
        return LocalStore(str(self.root))

    def put(self, path: str, content: bytes | str | Mapping[str, Any]) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Mapping):
            content = json.dumps(content)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def add_schema(self, tree: Mapping[str, Any], branch: str = "") -> None:
        self.put(f"{_of(branch)}schema/schema-{tree['id']}", tree)

    def add_schemas(self, count: int, branch: str = "") -> None:
        """Versions that differ by an option."""
        for schema_id in range(count):
            self.add_schema(schema(schema_id, options={"note": str(schema_id)}), branch)

    def manifest(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """Write a manifest of (kind, schema id) entries; the record that a list has of it."""
        self._count += 1
        name = f"manifest-{self._count:06}"
        records = (_entry(number, *one) for number, one in enumerate(entries))
        path = self._write(f"manifest/{name}", ENTRY_SCHEMA, records)
        return {
            "_VERSION": 2,
            "_FILE_NAME": name,
            "_FILE_SIZE": path.stat().st_size,
            "_NUM_ADDED_FILES": sum(kind == ADD for kind, _ in entries),
            "_NUM_DELETED_FILES": sum(kind == DELETE for kind, _ in entries),
            "_PARTITION_STATS": _EMPTY_STATS,
            "_SCHEMA_ID": max((schema_id for _, schema_id in entries), default=0),
            "_MIN_BUCKET": 0,
        }

    def manifest_list(self, records: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
        self._count += 1
        name = f"manifest-list-{self._count:06}"
        path = self._write(f"manifest/{name}", LIST_SCHEMA, records)
        return name, path.stat().st_size

    def snapshot(
        self,
        snapshot_id: int,
        schema_id: int,
        entries: Sequence[Entry] = ((ADD, 0),),
        *,
        branch: str = "",
        statistics: str | None = None,
        changelog: Sequence[Entry] | None = None,
    ) -> dict[str, Any]:
        """Write a snapshot with its entries after those of the one before; its JSON."""
        live = self._live.setdefault(branch, [])
        base, base_size = self.manifest_list(live)
        delta_records = [self.manifest(entries)] if entries else []
        delta, delta_size = self.manifest_list(delta_records)
        live += delta_records
        tree: dict[str, Any] = {
            "version": 3,
            "id": snapshot_id,
            "schemaId": schema_id,
            "baseManifestList": base,
            "baseManifestListSize": base_size,
            "deltaManifestList": delta,
            "deltaManifestListSize": delta_size,
            "changelogManifestList": None,
            "commitUser": "test",
            "commitIdentifier": snapshot_id,
            "commitKind": "APPEND",
            "timeMillis": 1_700_000_000_000,
            "totalRecordCount": 1,
            "deltaRecordCount": 1,
        }
        if statistics is not None:
            tree["statistics"] = statistics
        if changelog is not None:
            name, size = self.manifest_list([self.manifest(changelog)])
            tree |= {"changelogManifestList": name, "changelogManifestListSize": size}
        self.put(f"{_of(branch)}snapshot/snapshot-{snapshot_id}", tree)
        self.put(f"{_of(branch)}snapshot/LATEST", str(snapshot_id))
        return tree

    def _write(self, path: str, avro: Mapping[str, Any], records: Any) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            fastavro.writer(file, avro, records, codec=self.codec)
        return target

    @property
    def schema_ids(self) -> list[int]:
        names = (one.name for one in (self.root / "schema").iterdir())
        return sorted(int(name.removeprefix("schema-")) for name in names if name[0] == "s")


def _of(branch: str) -> str:
    return f"branch/branch-{branch}/" if branch else ""


def _entry(number: int, kind: int, schema_id: int) -> dict[str, Any]:
    return {
        "_VERSION": 2,
        "_KIND": kind,
        "_PARTITION": b"\0" * 12,
        "_BUCKET": 0,
        "_TOTAL_BUCKETS": 1,
        "_FILE": {
            "_FILE_NAME": f"data-{schema_id}-{number}.parquet",
            "_FILE_SIZE": 1000 + number,
            "_ROW_COUNT": 1,
            "_MIN_KEY": b"\0" * 16,
            "_MAX_KEY": b"\1" * 16,
            "_KEY_STATS": _EMPTY_STATS,
            "_VALUE_STATS": _EMPTY_STATS,
            "_MIN_SEQUENCE_NUMBER": number,
            "_MAX_SEQUENCE_NUMBER": number,
            "_SCHEMA_ID": schema_id,
            "_LEVEL": 0,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": None,
        },
    }
