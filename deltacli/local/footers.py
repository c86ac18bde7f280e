"""Footers of checkpoint files: their columns, checked once, and what their statistics tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltacli.errors import UnreadableCheckpoint
from deltacli.local.chunks import check_chunks


@dataclass(frozen=True, slots=True)
class Footer:
    path: str
    metadata: Any
    leaves: frozenset[str]
    int96: frozenset[str]


def read_footer(path: str, file: Any) -> Footer:
    """The footer of an open Parquet file. Raises UnreadableCheckpoint for wrong columns."""
    metadata = file.metadata
    check_chunks(metadata)
    _check_schema(path, file.schema_arrow)
    _check_null_counts(path, metadata)
    schema = metadata.schema
    columns = [schema.column(i) for i in range(len(schema))]
    return Footer(
        path,
        metadata,
        frozenset(column.path for column in columns),
        frozenset(column.path for column in columns if column.physical_type == "INT96"),
    )


def groups_with(metadata: Any, leaf: str) -> list[int]:
    """The row groups in which a column is not known to be all null."""
    return [
        group
        for group in range(metadata.num_row_groups)
        if not all_null(metadata, group, leaf, absent=True)
    ]


def all_null(metadata: Any, group: int, leaf: str, *, absent: bool = False) -> bool:
    if _position(metadata.schema, leaf) is None:
        return absent
    return _null_count(metadata, group, leaf) == int(metadata.row_group(group).num_rows)


def _null_count(metadata: Any, group: int, leaf: str) -> int | None:
    """How many rows of a column are null, if the footer tells."""
    position = _position(metadata.schema, leaf)
    if position is None:
        return None
    column = metadata.row_group(group).column(position)
    if column.physical_type != metadata.schema.column(position).physical_type:
        return None  # Arrow ends the process where it is asked for such statistics
    statistics = column.statistics
    return statistics.null_count if statistics and statistics.has_null_count else None


def _position(schema: Any, leaf: str) -> int | None:
    return next((i for i in range(len(schema)) if schema.column(i).path == leaf), None)


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _is_text_map(kind: Any) -> bool:
    return bool(pa.types.is_map(kind) and _is_text(kind.key_type) and _is_text(kind.item_type))


# What all that follows relies on; columns that are not named here are kept as they are.
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "path": _is_text,
    "partitionValues": _is_text_map,
    "size": pa.types.is_integer,
    "modificationTime": pa.types.is_integer,
    "deletionTimestamp": pa.types.is_integer,
    "stats": _is_text,
    "stats_parsed": pa.types.is_struct,
    "numRecords": pa.types.is_integer,
    "tags": _is_text_map,
    "deletionVector": pa.types.is_struct,
    "storageType": _is_text,
    "pathOrInlineDv": _is_text,
    "offset": pa.types.is_integer,
    "cardinality": pa.types.is_integer,
    "baseRowId": pa.types.is_integer,
    "defaultRowCommitVersion": pa.types.is_integer,
    "clusteringProvider": _is_text,
}
_REQUIRED = {
    "add": ("path", "size"),
    "remove": ("path",),
    "deletionVector": ("storageType", "cardinality"),
}


def _check_schema(path: str, schema: Any) -> None:
    """Raise UnreadableCheckpoint if a column is not of the protocol's type."""
    for action in ("add", "remove"):
        if action in schema.names:
            _check_struct(path, action, schema.field(action).type)


def _check_struct(path: str, name: str, kind: Any) -> None:
    if not pa.types.is_struct(kind):
        raise _bad_column(path, name, kind)
    fields = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)}
    for required in _REQUIRED.get(name, ()):
        if required not in fields:
            raise _bad_column(path, f"{name}.{required}", "absent")
    for field, own in fields.items():
        if field in _TYPES and not _TYPES[field](own):
            raise _bad_column(path, f"{name}.{field}", own)
        if field in ("deletionVector", "stats_parsed"):
            known = own if field == "deletionVector" else _only(own, "numRecords")
            _check_struct(path, field, known)


def _only(kind: Any, name: str) -> Any:
    """A struct type cut down to one field: columns of the table may have any names."""
    position = kind.get_field_index(name)
    return pa.struct([kind.field(position)] if position >= 0 else [])


def _check_null_counts(path: str, metadata: Any) -> None:
    """Raise UnreadableCheckpoint if the footer tells of files without a size."""
    for group in range(metadata.num_row_groups):
        paths, sizes = (_null_count(metadata, group, f"add.{name}") for name in ("path", "size"))
        if paths is not None and sizes is not None and paths != sizes:
            raise _bad_column(path, "add.size", "null for some files")


def _bad_column(path: str, column: str, what: Any) -> UnreadableCheckpoint:
    return UnreadableCheckpoint(
        f"checkpoint file {path}: the column {column} is {what}",
        hint="write a new one with `deltacli checkpoint`, or restore the file",
        location=path,
    )
