"""Small pieces of Arrow that every room with columns needs."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta import json_text
from deltacli.delta.paths import canonical_path
from deltacli.delta.stats import NUM_RECORDS, num_records
from deltacli.errors import CorruptLog


def string_array(texts: Sequence[bytes]) -> Any:
    """A string column from bytes; `pa.array` would import pandas where that is installed."""
    offsets = array("i", accumulate((len(text) for text in texts), initial=0))
    return pa.StringArray.from_buffers(
        len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(texts))
    )


def path_array(paths: Collection[str]) -> Any:
    return string_array([path.encode("utf-8", "surrogatepass") for path in paths])


def texts_of(names: Any) -> list[str]:
    """A column of `path_array` as texts again; names need not be UTF-8."""
    return [one.decode("utf-8", "surrogatepass") for one in names.view(pa.binary()).to_pylist()]


def concat(arrays: Sequence[Any]) -> Any:
    """String columns as one."""
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.string())


def contains_any(texts: Any, *needles: bytes) -> bool:
    """Whether any of these byte strings stands in a string column's data."""
    buffer = texts.buffers()[2]
    if buffer is None:
        return False
    content = buffer.to_pybytes()
    return any(needle in content for needle in needles)


def canonical_paths(paths: Any) -> Any:
    """A path column in canonical form; only encoded or absolute paths cost more than a look."""
    if not contains_any(paths, b"%", b":") and not pc.any(pc.starts_with(paths, "/")).as_py():
        return paths
    texts = paths.to_pylist()
    canonical = path_array([canonical_path(path) if path else "" for path in texts])
    return pc.if_else(pc.is_valid(paths), canonical, None) if paths.null_count else canonical


def record_counts(batch: Any) -> Any:
    """numRecords of each add row, from the parsed statistics or else their text; or null."""
    names = batch.schema.names
    texts = batch.column("stats") if "stats" in names else None
    if (
        "stats_parsed" in names
        and batch.column("stats_parsed").type.get_field_index("numRecords") >= 0
    ):
        parsed = pc.struct_field(batch.column("stats_parsed"), ["numRecords"]).cast(pa.int64())
        if texts is None or not parsed.null_count:
            return parsed
        return pc.coalesce(parsed, _records_of(texts))
    return pa.nulls(batch.num_rows, pa.int64()) if texts is None else _records_of(texts)


def _records_of(texts: Any) -> Any:
    found = pc.struct_field(pc.extract_regex(texts, NUM_RECORDS), ["n"]).cast(pa.int64())
    if found.null_count == texts.null_count:
        return found
    odd = pc.and_(pc.is_null(found), pc.is_valid(texts))
    parsed = [num_records(text) for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(found, odd, pa.array(parsed, pa.int64()))


_NULL = pa.scalar(None, pa.string())
_CONTROLS = bytes(range(32)) + b"\x7f"
_MUST_ESCAPE = b'"\\' + _CONTROLS


def needs_escape(texts: Any, characters: bytes = _MUST_ESCAPE) -> bool:
    """Whether a string column holds what JSON strings must escape."""
    buffer = texts.buffers()[2]
    if buffer is None:
        return False
    content = buffer.to_pybytes()
    return len(content.translate(None, characters)) != len(content)


def json_strings(texts: Any) -> Any:
    """A string column as JSON strings; null stays null."""
    if needs_escape(texts, _CONTROLS):
        quoted = [
            None if one is None else json_text.dump(one).decode() for one in texts.to_pylist()
        ]
        return pa.array(quoted, pa.string())
    if needs_escape(texts):
        texts = pc.replace_substring(texts, "\\", "\\\\")
        texts = pc.replace_substring(texts, '"', '\\"')
    return pc.binary_join_element_wise('"', texts, '"', "")


def partition_objects(columns: Any, keys: Mapping[str, str]) -> Any:
    """The partition values of add rows as JSON objects: names in them -> keys in the log."""
    count = columns.num_rows
    if not keys:
        return pc.if_else(pa.nulls(count, pa.bool_()).fill_null(True), "{}", _NULL)
    if "partitionValues" not in columns.schema.names:
        raise CorruptLog("a checkpoint has no partitionValues, and the table is partitioned")
    values = columns.column("partitionValues")
    # With one value a row, the values lie in one column already.
    single = len(keys) == 1 and not values.null_count and len(values.items) == count
    pieces: list[Any] = []
    for position, (name, key) in enumerate(keys.items()):
        one = values.items if single else pc.map_lookup(values, key, "first")
        if pc.any(pc.equal(one, "")).as_py():
            one = pc.if_else(pc.equal(one, ""), _NULL, one)
        comma = "{" if position == 0 else ","
        pieces += [
            f"{comma}{json_text.dump(name).decode()}:",
            pc.fill_null(json_strings(one), "null"),
        ]
    return pc.binary_join_element_wise(*pieces, "}", "")


def fit(column: Any, kind: Any, *, is_optional: bool = False) -> Any:
    """A column as a type: structs by the names of their fields, the rest cast (K-17, K-28).

    What cannot be cast is null where it is optional. Raises pa.ArrowException elsewhere.
    """
    if column.type == kind:
        return column
    if not (pa.types.is_struct(kind) and pa.types.is_struct(column.type)):
        try:
            return column.cast(kind, safe=False)
        except pa.ArrowException:
            if not is_optional:
                raise
            return pa.nulls(len(column), kind)
    names = [one.name for one in column.type]
    children = dict(zip(names, column.flatten(), strict=True))
    fitted = [
        fit(children[one.name], one.type, is_optional=is_optional)
        if one.name in children
        else pa.nulls(len(column), one.type)
        for one in kind
    ]
    return pa.StructArray.from_arrays(fitted, fields=list(kind), mask=column.is_null())
