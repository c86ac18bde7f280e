"""`snapshot --files`, `--tombstones`, `--partitions`: what a version is made of, file by file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.engine import ADD_FIELDS, REMOVE_FIELDS, FileBatch
from deltacli.delta.partitions import sort_key
from deltacli.delta.paths import file_location
from deltacli.delta.schema import logical_names
from deltacli.delta.snapshot import Snapshot, is_unexpired
from deltacli.delta.stats import (
    is_stats_line,
    num_records,
    parse_stats,
    rename_columns,
    stats_of_struct,
)
from deltacli.operations.file_names import FileNames, vector_row
from deltacli.operations.records import Columns, Listing, Pending, Row
from deltacli.units import iso_time

FILE_FIELDS = (
    "path",
    "location",
    "partitionValues",
    "size",
    "modificationTime",
    "numRecords",
    "stats",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
    "tags",
)
_SHOWN = ("path", "size", "modificationTime", "numRecords", "partitionValues")

# Which fields of an add action each field of a row is made from.
_SOURCES: Mapping[str, tuple[str, ...]] = {
    "location": ("path",),
    "numRecords": ("stats", "stats_parsed"),
    "stats": ("stats", "stats_parsed"),
}


def list_files(snapshot: Snapshot, fields: tuple[str, ...] | None = None) -> Listing:
    """The live files, streamed."""
    wanted = fields or FILE_FIELDS
    sources = {source for name in wanted for source in _SOURCES.get(name, (name,))} | {"path"}
    columns = tuple(name for name in ADD_FIELDS if name in sources)
    names = FileNames.of(snapshot)

    def rows() -> Iterator[Row | Pending]:
        for item in snapshot.files("add", columns):
            if isinstance(item, FileBatch):
                yield Pending(partial(_batch_rows, item, names, wanted))
            else:
                yield file_row(item, names)

    return Listing(rows(), FILE_FIELDS, _SHOWN, "files")


def _batch_rows(batch: FileBatch, names: FileNames, wanted: tuple[str, ...]) -> Columns | list[Row]:
    from deltacli.operations.file_columns import file_columns

    columns = file_columns(batch, names, wanted)
    if columns is not None:
        return columns
    return [file_row(body, names) for body in batch.columns.to_pylist()]


def file_row(body: Mapping[str, Any], names: FileNames) -> Row:
    """One add action as a row."""
    records, stats = statistics(body, names)
    return {
        "path": body["path"],
        "location": file_location(names.location, body["path"]),
        "partitionValues": names.partition_values(body.get("partitionValues")),
        "size": body.get("size"),
        "modificationTime": iso_time(body.get("modificationTime")),
        "numRecords": records,
        "stats": stats,
        "deletionVector": vector_row(body.get("deletionVector"), names.location),
        "baseRowId": body.get("baseRowId"),
        "defaultRowCommitVersion": body.get("defaultRowCommitVersion"),
        "clusteringProvider": body.get("clusteringProvider"),
        "tags": dict(body["tags"]) if body.get("tags") is not None else None,
    }


def statistics(body: Mapping[str, Any], names: FileNames) -> tuple[int | None, Any]:
    """numRecords and the statistics by logical names, every number as it stands in the log."""
    text, schema = body.get("stats"), names.mapped_schema
    if not isinstance(text, str):
        stats = stats_of_struct(body.get("stats_parsed"))
        records = stats.get("numRecords") if stats else None
    elif not names.are_mapped and is_stats_line(text):
        return num_records(text), json_text.Verbatim(text)
    else:
        stats, records = parse_stats(text), num_records(text)
    if stats and schema and names.are_mapped:
        stats = rename_columns(stats, lambda tree: logical_names(schema, tree))
    return records, stats


def list_tombstones(snapshot: Snapshot, *, now_ms: int) -> Listing:
    """All removes that the log still holds; an expired one protects its file no more."""
    removed_after_ms = now_ms - snapshot.setting("delta.deletedFileRetentionDuration")
    names = FileNames.of(snapshot)

    def rows() -> Iterator[Row]:
        for item in snapshot.files("remove", REMOVE_FIELDS):
            for body in item.columns.to_pylist() if isinstance(item, FileBatch) else (item,):
                yield {
                    "path": body["path"],
                    "location": file_location(names.location, body["path"]),
                    "deletionTimestamp": iso_time(body.get("deletionTimestamp")),
                    "expired": not is_unexpired(body, removed_after_ms),
                    "size": body.get("size"),
                    "partitionValues": names.partition_values(body["partitionValues"])
                    if body.get("partitionValues") is not None
                    else None,
                    "deletionVector": vector_row(body.get("deletionVector"), names.location),
                }

    fields = (
        "path",
        "location",
        "deletionTimestamp",
        "expired",
        "size",
        "partitionValues",
        "deletionVector",
    )
    return Listing(rows(), fields, ("path", "size", "deletionTimestamp", "expired"), "tombstones")


@dataclass(slots=True)
class _Share:
    files: int = 0
    bytes: int = 0
    records: int | None = 0


def list_partitions(snapshot: Snapshot) -> Listing:
    """Files, bytes and rows of each partition; `skew` is its bytes over the average."""
    names = FileNames.of(snapshot)
    shares: dict[str, _Share] = {}
    columns = ("path", "partitionValues", "size", "stats", "stats_parsed", "deletionVector")
    for item in snapshot.files("add", columns):
        if isinstance(item, FileBatch):
            from deltacli.operations.file_columns import partition_sums

            for text, files, size, records in partition_sums(item, names):
                _add_share(shares, text, files, size, records)
        else:
            row = file_row(item, names)
            text = json_text.dump(row["partitionValues"]).decode()
            _add_share(shares, text, 1, row["size"], _live_rows(row))
    listing = _partition_rows(shares, names)
    return Listing(listing, _PARTITION_FIELDS, _PARTITION_FIELDS, "partitions")


_PARTITION_FIELDS = ("partitionValues", "numFiles", "sizeInBytes", "numRecords", "share", "skew")


def _live_rows(row: Row) -> int | None:
    if row["numRecords"] is None:
        return None
    return int(row["numRecords"]) - int((row["deletionVector"] or {}).get("cardinality") or 0)


def _add_share(
    shares: dict[str, _Share], text: str, files: int, size: int, records: int | None
) -> None:
    share = shares.setdefault(text, _Share())
    share.files += files
    share.bytes += size
    known = share.records is not None and records is not None
    share.records = (share.records or 0) + (records or 0) if known else None


def _partition_rows(shares: Mapping[str, _Share], names: FileNames) -> list[Row]:
    total = sum(share.bytes for share in shares.values())
    average = total / len(shares) if shares else 0
    types = {one.name: one.type for one in names.schema.fields} if names.schema else {}
    parsed = [(json_text.load(text), share) for text, share in shares.items()]
    order: Callable[[Any], Any] = lambda pair: sort_key(pair[0], types)  # noqa: E731
    return [
        {
            "partitionValues": values,
            "numFiles": share.files,
            "sizeInBytes": share.bytes,
            "numRecords": share.records,
            "share": round(share.bytes / total, 4) if total else 0.0,
            "skew": round(share.bytes / average, 2) if average else 0.0,
        }
        for values, share in sorted(parsed, key=order)
    ]
