"""`snapshot`: the state of a version as one document (design: DESCRIBE DETAIL and more)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.checksum import read_checksum
from deltacli.delta.column_mapping import ID
from deltacli.delta.engine import Totals, Want
from deltacli.delta.schema import Array, DataType, Map, Struct, type_text, type_tree
from deltacli.delta.segment import earliest_rebuildable
from deltacli.delta.snapshot import Snapshot, checkpoint_kind
from deltacli.operations.records import Document, Listing, Row, check_fields
from deltacli.units import iso_time


@dataclass(frozen=True)
class _Facts:
    """A snapshot with the totals that the chosen fields need."""

    snapshot: Snapshot
    wanted: frozenset[Want]
    now_ms: int

    @cached_property
    def totals(self) -> Totals:
        return self.snapshot.totals(self.wanted, self.now_ms)


Value = Callable[[_Facts], Any]
_NOTHING: frozenset[Want] = frozenset()
_FILES = frozenset({Want.FILES})
_RECORDS = frozenset({Want.FILES, Want.RECORDS})
_VECTORS = frozenset({Want.FILES, Want.VECTORS})
_TOMBSTONES = frozenset({Want.TOMBSTONES})

# Each field with what it needs to be read: a count never decodes statistics.
_FIELDS: dict[str, tuple[frozenset[Want], Value]] = {
    "location": (_NOTHING, lambda f: f.snapshot.store.location),
    "format": (_NOTHING, lambda f: "delta"),
    "version": (_NOTHING, lambda f: f.snapshot.version),
    "timestamp": (_NOTHING, lambda f: iso_time(f.snapshot.time.timestamp_ms)),
    "timestampMs": (_NOTHING, lambda f: f.snapshot.time.timestamp_ms),
    "timestampSource": (_NOTHING, lambda f: f.snapshot.time.source),
    "id": (_NOTHING, lambda f: f.snapshot.metadata.id),
    "name": (_NOTHING, lambda f: f.snapshot.metadata.name),
    "description": (_NOTHING, lambda f: f.snapshot.metadata.description),
    "createdAt": (_NOTHING, lambda f: iso_time(f.snapshot.metadata.created_time)),
    "lastModified": (_NOTHING, lambda f: iso_time(_last_modified(f.snapshot))),
    "partitionColumns": (_NOTHING, lambda f: list(f.snapshot.metadata.partition_columns)),
    "clusteringColumns": (_NOTHING, lambda f: clustering_columns(f.snapshot)),
    "numFiles": (_FILES, lambda f: f.totals.files),
    "sizeInBytes": (_FILES, lambda f: f.totals.bytes),
    "numRecords": (_RECORDS, lambda f: _live_records(f.totals)),
    "numFilesWithoutStats": (_RECORDS, lambda f: f.totals.without_records),
    "numDeletionVectors": (_VECTORS, lambda f: f.totals.vectors),
    "numDeletedRecords": (_VECTORS, lambda f: f.totals.deleted_records),
    "numTombstones": (_TOMBSTONES, lambda f: f.totals.tombstones),
    "tombstoneBytes": (_TOMBSTONES, lambda f: f.totals.tombstone_bytes),
    "properties": (_NOTHING, lambda f: dict(f.snapshot.metadata.configuration)),
    "minReaderVersion": (_NOTHING, lambda f: f.snapshot.protocol.min_reader_version),
    "minWriterVersion": (_NOTHING, lambda f: f.snapshot.protocol.min_writer_version),
    "readerFeatures": (_NOTHING, lambda f: _names(f.snapshot.protocol.reader_features)),
    "writerFeatures": (_NOTHING, lambda f: _names(f.snapshot.protocol.writer_features)),
    "tableFeatures": (_NOTHING, lambda f: list(f.snapshot.features)),
    "checkpoint": (_NOTHING, lambda f: _checkpoint(f.snapshot)),
    "commitsSinceCheckpoint": (_NOTHING, lambda f: len(f.snapshot.segment.commits)),
    "earliestVersion": (_NOTHING, lambda f: earliest_rebuildable(f.snapshot.whole_listing)),
    "numLogFiles": (_NOTHING, lambda f: sum(1 for _ in f.snapshot.whole_listing.files())),
    "logSizeInBytes": (_NOTHING, lambda f: _log_size(f.snapshot)),
    "transactions": (_NOTHING, lambda f: _transactions(f.snapshot)),
    "domains": (_NOTHING, lambda f: _domains(f.snapshot)),
    "schema": (_NOTHING, lambda f: type_tree(f.snapshot.schema) if f.snapshot.schema else None),
    "warnings": (_NOTHING, lambda f: list(f.snapshot.warnings)),
}
FIELDS = tuple(_FIELDS)


def describe_snapshot(
    snapshot: Snapshot, *, now_ms: int, fields: Sequence[str] | None = None
) -> Document:
    """The fields asked for, or all; only what they need is read."""
    chosen = tuple(fields) if fields else FIELDS
    check_fields(chosen, FIELDS)
    wanted = frozenset().union(*(_FIELDS[name][0] for name in chosen))
    facts = _Facts(snapshot, wanted, now_ms)
    values = {name: _FIELDS[name][1](facts) for name in chosen if name != "warnings"}
    if Want.FILES in wanted:
        _compare_checksum(snapshot, facts.totals)
    if "warnings" in chosen:
        # Last, for computing the other fields may have added some.
        values["warnings"] = list(snapshot.warnings)
    tree = schema_lines(snapshot.schema) if fields is None and snapshot.schema else ()
    values = {name: values[name] for name in chosen}
    return Document(values, "snapshot", tuple(tree), is_chosen=fields is not None)


def _compare_checksum(snapshot: Snapshot, totals: Totals) -> None:
    checksum = read_checksum(snapshot.store, snapshot.version)
    if checksum is None:
        return
    said = (checksum.num_files, checksum.table_size_bytes)
    if said != (totals.files, totals.bytes):
        snapshot.warnings.append(
            f"the version checksum {snapshot.version}.crc says {said[0]} files and {said[1]} "
            f"bytes, the log {totals.files} and {totals.bytes}"
        )


def _live_records(totals: Totals) -> int | None:
    return None if totals.without_records else totals.records - totals.deleted_records


def _names(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _last_modified(snapshot: Snapshot) -> int | None:
    file = snapshot.listing.commits.get(snapshot.version)
    return file.modified_ms if file else None


def _log_size(snapshot: Snapshot) -> int:
    return sum(file.size for file in snapshot.whole_listing.files() if not file.entry.is_folder)


def _checkpoint(snapshot: Snapshot) -> dict[str, Any] | None:
    checkpoint = snapshot.segment.checkpoint
    if checkpoint is None:
        return None
    return {
        "version": checkpoint.version,
        "kind": checkpoint_kind(snapshot),
        "parts": len(checkpoint.files),
        "sidecars": len(snapshot.state.sidecars),
    }


def _transactions(snapshot: Snapshot) -> dict[str, Any]:
    return {
        txn.app_id: {"version": txn.version, "lastUpdated": iso_time(txn.last_updated)}
        for txn in sorted(snapshot.state.txns.values(), key=lambda one: one.app_id)
    }


def _domains(snapshot: Snapshot) -> dict[str, str]:
    return {name: one.configuration for name, one in sorted(snapshot.domains.items())}


def clustering_columns(snapshot: Snapshot) -> list[str]:
    """The clustering columns by logical, dotted name; the domain holds physical paths."""
    domain = snapshot.domains.get("delta.clustering")
    if domain is None:
        return []
    try:
        columns = json_text.load(domain.configuration)["clusteringColumns"]
        return [_logical_path(snapshot.schema, tuple(column)) for column in columns]
    except (ValueError, KeyError, TypeError):
        snapshot.warnings.append("the domain delta.clustering cannot be read")
        return []


def _logical_path(schema: DataType | None, physical: tuple[str, ...]) -> str:
    names = []
    for step in physical:
        found = None
        if isinstance(schema, Struct):
            found = next((one for one in schema.fields if one.physical_name == step), None)
        names.append(found.name if found else step)
        schema = found.type if found else None
    return ".".join(names)


def list_transactions(snapshot: Snapshot, *, now_ms: int) -> Listing:
    """All txn actions that the log holds; `expired` ones do not count any more (rule R-23)."""
    retain_ms = snapshot.setting("delta.setTransactionRetentionDuration")

    def expired(last_updated: int | None) -> bool:
        return retain_ms is not None and (
            last_updated is None or last_updated <= now_ms - retain_ms
        )

    rows: list[Row] = [
        {
            "appId": txn.app_id,
            "version": txn.version,
            "lastUpdated": iso_time(txn.last_updated),
            "expired": expired(txn.last_updated),
        }
        for txn in sorted(snapshot.state.txns.values(), key=lambda one: one.app_id)
    ]
    fields = ("appId", "version", "lastUpdated", "expired")
    return Listing(rows, fields, fields, "transactions")


def list_domains(snapshot: Snapshot) -> Listing:
    rows: list[Row] = [
        {
            "domain": name,
            "configuration": configuration,
            "systemControlled": name.startswith("delta."),
        }
        for name, configuration in _domains(snapshot).items()
    ]
    fields = ("domain", "configuration", "systemControlled")
    return Listing(rows, fields, fields, "domains")


def list_columns(snapshot: Snapshot) -> Listing:
    """The schema, one row a column or nested field."""
    rows: list[Row] = []
    schema = snapshot.schema
    partitions = set(snapshot.metadata.partition_columns)

    def visit(data_type: DataType, path: tuple[str, ...]) -> None:
        if isinstance(data_type, Struct):
            for one in data_type.fields:
                own = (*path, one.name)
                rows.append(
                    {
                        "column": ".".join(own),
                        "type": type_text(one.type),
                        "nullable": one.nullable,
                        "partition": len(own) == 1 and one.name in partitions,
                        "comment": one.metadata.get("comment"),
                        "columnId": one.metadata.get(ID),
                        "physicalName": one.physical_name,
                        "metadata": dict(one.metadata),
                    }
                )
                visit(one.type, own)
        elif isinstance(data_type, Array):
            visit(data_type.element, (*path, "element"))
        elif isinstance(data_type, Map):
            visit(data_type.key, (*path, "key"))
            visit(data_type.value, (*path, "value"))

    if schema:
        visit(schema, ())
    fields = (
        "column",
        "type",
        "nullable",
        "partition",
        "comment",
        "columnId",
        "physicalName",
        "metadata",
    )
    return Listing(rows, fields, ("column", "type", "nullable", "partition", "comment"), "schema")


def schema_lines(schema: DataType, indent: str = "") -> list[str]:
    """The schema as an indented tree, as people know it from printSchema."""
    lines: list[str] = []
    if isinstance(schema, Struct):
        for one in schema.fields:
            notes = "" if one.nullable else " not null"
            notes += _metadata_note(one.metadata)
            lines.append(f"{indent}{one.name}: {_short(one.type)}{notes}")
            lines += schema_lines(one.type, indent + "  ")
    elif isinstance(schema, Array):
        lines += _inside("element", schema.element, indent)
    elif isinstance(schema, Map):
        lines += _inside("key", schema.key, indent) + _inside("value", schema.value, indent)
    return lines


def _inside(word: str, data_type: DataType, indent: str) -> list[str]:
    nested = schema_lines(data_type, indent + "  ")
    return [f"{indent}{word}: {_short(data_type)}", *nested] if nested else []


def _short(data_type: DataType) -> str:
    text = type_text(data_type)
    return text if len(text) <= 60 else type_text(data_type).split("<", 1)[0]


def _metadata_note(metadata: Mapping[str, Any]) -> str:
    notes = []
    if ID in metadata:
        notes.append(f"id {metadata[ID]}")
    changes = metadata.get("delta.typeChanges")
    for change in changes if isinstance(changes, list) else ():
        if isinstance(change, Mapping):
            where = f" at {change['fieldPath']}" if "fieldPath" in change else ""
            notes.append(f"was {change.get('fromType')}{where}")
    if metadata.get("comment"):
        notes.append(str(metadata["comment"]))
    return f"  ({'; '.join(notes)})" if notes else ""
