"""Rows of `snapshot --files` for a whole Arrow batch at once, without an object a file.

The result equals `files.file_row` of each row; what columns cannot do exactly (mapped
column names, statistics as structs) is left to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta import json_text
from deltacli.delta.columns import contains_any, partition_objects, record_counts
from deltacli.delta.engine import FileBatch
from deltacli.delta.paths import file_location
from deltacli.delta.stats import parse_stats
from deltacli.operations.file_names import FileNames, vector_row
from deltacli.operations.records import Columns
from deltacli.units import iso_time


def file_columns(batch: FileBatch, names: FileNames, wanted: tuple[str, ...]) -> Columns | None:
    """The batch's rows as text columns, or None if it takes `file_row` to be exact."""
    columns = batch.columns
    have = set(columns.schema.names)
    if names.are_mapped or "stats_parsed" in have or not _is_plain(columns, "path"):
        return None
    if not _has_only(columns, names.physical):
        return None
    count = columns.num_rows
    text: dict[str, Any] = {}
    json: dict[str, Any] = {}
    for name in wanted:
        if name in ("path", "clusteringProvider"):
            text[name] = columns.column(name) if name in have else pa.nulls(count, pa.string())
        elif name == "location":
            text[name] = _locations(columns.column("path"), names.location)
        elif name == "modificationTime":
            text[name] = time_texts(columns.column(name)) if name in have else _nulls(count)
        elif name == "partitionValues":
            json[name] = _partition_texts(columns, names)
        elif name == "numRecords":
            json[name] = record_counts(columns).cast(pa.string())
        elif name == "stats":
            json[name] = _stats_texts(columns.column("stats")) if name in have else _nulls(count)
        elif name == "deletionVector":
            json[name] = _vector_texts(columns, names.location)
        elif name == "tags":
            json[name] = _objects(columns.column(name)) if name in have else _nulls(count)
        else:
            json[name] = columns.column(name).cast(pa.string()) if name in have else _nulls(count)
    return Columns(count, text, json)


def partition_sums(
    batch: FileBatch, names: FileNames
) -> Iterator[tuple[str, int, int, int | None]]:
    """Each partition of the batch: its values as JSON, files, bytes and live rows."""
    columns = batch.columns
    records = record_counts(columns)
    if "deletionVector" in columns.schema.names:
        deleted = pc.struct_field(columns.column("deletionVector"), ["cardinality"])
        records = pc.subtract(records, pc.fill_null(deleted, 0))
    table = pa.table(
        {
            "partition": _partition_texts(columns, names),
            "size": columns.column("size"),
            "records": records,
            "unknown": pc.is_null(records),
        }
    )
    sums = table.group_by("partition").aggregate(
        [("size", "count"), ("size", "sum"), ("records", "sum"), ("unknown", "any")]
    )
    for row in sums.to_pylist():
        known = None if row["unknown_any"] else row["records_sum"]
        yield row["partition"], row["size_count"], row["size_sum"], known


def _has_only(columns: Any, physical: Mapping[str, str]) -> bool:
    """Whether the partition values have no other keys than the table's."""
    if "partitionValues" not in columns.schema.names:
        return True
    keys = columns.column("partitionValues").keys
    known = pc.is_in(keys, value_set=pa.array(list(physical.values()), pa.string()))
    return bool(pc.all(known, min_count=0).as_py())


def _nulls(count: int) -> Any:
    return pa.nulls(count, pa.string())


def _is_plain(columns: Any, name: str) -> bool:
    return name in columns.schema.names and columns.column(name).type == pa.string()


def _locations(paths: Any, location: str) -> Any:
    # Encoded and absolute paths take a decision each; plain ones are a prefix.
    if contains_any(paths, b"%", b":") or pc.any(pc.starts_with(paths, "/")).as_py():
        return pa.array([file_location(location, path) for path in paths.to_pylist()], pa.string())
    return pc.binary_join_element_wise(f"{location}/", paths, "")


def time_texts(stamps: Any) -> Any:
    bounds = pc.min_max(stamps).as_py()
    if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < _YEAR_10000_MS:
        return pa.array([iso_time(stamp) for stamp in stamps.to_pylist()], pa.string())
    moments = stamps.cast(pa.timestamp("ms")).cast(pa.string())
    return pc.binary_join_element_wise(pc.utf8_replace_slice(moments, 10, 11, "T"), "Z", "")


_YEAR_10000_MS = 253_402_300_800_000


def _partition_texts(columns: Any, names: FileNames) -> Any:
    """partitionValues as JSON objects, in the table's column order."""
    return partition_objects(columns, names.physical if names.partition_columns else {})


def _stats_texts(texts: Any) -> Any:
    """Statistics that are sound JSON as they stand; others parsed, or null."""
    sound = pc.fill_null(pc.match_substring_regex(texts, _JSON_OBJECT), False)
    if sound.true_count == len(texts) - texts.null_count:
        return texts
    odd = pc.and_(pc.invert(sound), pc.is_valid(texts))
    parsed = [parse_stats(text) for text in texts.filter(odd).to_pylist()]
    dumped = [None if one is None else json_text.dump(one).decode() for one in parsed]
    return pc.replace_with_mask(texts, odd, pa.array(dumped, pa.string()))


def _vector_texts(columns: Any, location: str) -> Any:
    count = columns.num_rows
    if "deletionVector" not in columns.schema.names:
        return _nulls(count)
    vectors = columns.column("deletionVector")
    kinds = pc.struct_field(vectors, ["storageType"])
    if kinds.null_count == count:
        return _nulls(count)
    rows = [vector_row(one, location) for one in vectors.to_pylist()]
    return pa.array(
        [None if one is None else json_text.dump(one).decode() for one in rows], pa.string()
    )


def _objects(maps: Any) -> Any:
    """A column of maps as JSON objects."""
    if maps.null_count == len(maps):
        return _nulls(len(maps))
    return pa.array(
        [None if one is None else json_text.dump(dict(one)).decode() for one in maps.to_pylist()],
        pa.string(),
    )


def _json_object_pattern(depth: int) -> str:
    """A regular expression for one-line JSON objects of scalars, nested to a depth.

    RE2 checks a million of them in half a second on one core, several times faster than
    parsing, and outside of the interpreter's lock.
    """
    string = r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
    number = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
    scalar = f"{string}|{number}|true|false|null"
    space = r"[ \t]*"
    value = f"(?:{scalar})"
    for _ in range(depth):
        member = f"{space}{string}{space}:{space}{value}{space}"
        whole = rf"\{{(?:{member}(?:,{member})*|{space})\}}"
        value = f"(?:{scalar}|{whole})"
    return f"^{space}{whole}{space}$"


_JSON_OBJECT = _json_object_pattern(3)
