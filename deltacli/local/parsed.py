"""Statistics and partition values as typed structs: `stats_parsed`, `partitionValues_parsed`.

Names are physical, types are the table's current ones (rules K-14 … K-19, W-70 … W-72).
What cannot be read as its type is null.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.columns import fit
from deltacli.delta.partitions import partition_value
from deltacli.delta.schema import DataType, Primitive, Struct
from deltacli.delta.stats import parse_stats
from deltacli.delta.stats_schema import has_min_max

_TYPES = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_INTEGERS = {"byte": 8, "short": 16, "integer": 32, "long": 64}


def arrow_type(data_type: DataType) -> Any:
    """The Arrow type of a primitive Delta type; text for types of a later protocol."""
    if isinstance(data_type, Primitive):
        if data_type.sound_decimal:
            return pa.decimal128(*data_type.sound_decimal)
        return _TYPES.get(data_type.name, pa.string())
    return pa.string()


def stats_type(schema: Struct) -> Any:
    """The type of stats_parsed for the columns that have statistics."""
    values = _values_type(schema)
    counts = _counts_type(schema)
    fields = [("numRecords", pa.int64())]
    if values is not None:
        fields += [("minValues", values), ("maxValues", values)]
    if counts is not None:
        fields.append(("nullCount", counts))
    if schema.extra.get("tightBounds"):
        fields.append(("tightBounds", pa.bool_()))
    return pa.struct(fields)


def _values_type(schema: Struct) -> Any:
    fields = []
    for one in schema.fields:
        if isinstance(one.type, Struct):
            inner = _values_type(one.type)
            if inner is not None:
                fields.append((one.name, inner))
        elif has_min_max(one.type):
            fields.append((one.name, arrow_type(one.type)))
    return pa.struct(fields) if fields else None


def _counts_type(schema: Struct) -> Any:
    fields = []
    for one in schema.fields:
        inner = _counts_type(one.type) if isinstance(one.type, Struct) else pa.int64()
        if inner is not None:
            fields.append((one.name, inner))
    return pa.struct(fields) if fields else None


def parsed_stats(batch: Any, schema: Struct, kind: Any) -> Any:
    """stats_parsed of a batch: what its source has as a struct, else read from the text."""
    count, names = batch.num_rows, batch.schema.names
    parsed, whole = None, pa.repeat(pa.scalar(False), count)
    if "stats_parsed" in names:
        source = batch.column("stats_parsed")
        parsed = fit(source, kind, is_optional=True)
        if _has_all(source.type, kind):
            # A struct of nothing but nulls says less than the text may say.
            whole = pc.is_valid(pc.struct_field(parsed, ["numRecords"]))
    if "stats" not in names or whole.true_count == count:
        return pa.nulls(count, kind) if parsed is None else parsed
    rows = [
        None if done or text is None else _stats_row(text, schema, kind)
        for text, done in zip(batch.column("stats").to_pylist(), whole.to_pylist(), strict=True)
    ]
    made = pa.array(rows, kind)
    if parsed is None:
        return made
    return pc.if_else(pc.or_(whole, pc.is_null(made)), parsed, made)


def _has_all(source: Any, kind: Any) -> bool:
    """Whether a struct type has all the fields of another, at every depth."""
    if not pa.types.is_struct(kind):
        return True
    if not pa.types.is_struct(source):
        return False
    fields = {one.name: one.type for one in source}
    return all(one.name in fields and _has_all(fields[one.name], one.type) for one in kind)


def _stats_row(text: str | None, schema: Struct, kind: Any) -> dict[str, Any] | None:
    stats = parse_stats(text)
    if stats is None:
        return None
    row: dict[str, Any] = {"numRecords": _integer(stats.get("numRecords"), 64)}
    for name in ("minValues", "maxValues"):
        row[name] = _values_row(stats.get(name), schema)
    row["nullCount"] = _counts_row(stats.get("nullCount"), schema)
    tight = stats.get("tightBounds")
    row["tightBounds"] = tight if isinstance(tight, bool) else None
    return {one.name: row[one.name] for one in kind}


def _values_row(values: Any, schema: Struct) -> dict[str, Any] | None:
    if not isinstance(values, Mapping):
        return None
    row = {}
    for one in schema.fields:
        value = values.get(one.name)
        if isinstance(one.type, Struct):
            row[one.name] = _values_row(value, one.type)
        elif value is not None and has_min_max(one.type) and isinstance(one.type, Primitive):
            row[one.name] = stats_value(value, one.type)
    return row


def _counts_row(counts: Any, schema: Struct) -> dict[str, Any] | None:
    if not isinstance(counts, Mapping):
        return None
    return {
        one.name: _counts_row(counts.get(one.name), one.type)
        if isinstance(one.type, Struct)
        else _integer(counts.get(one.name), 64)
        for one in schema.fields
    }


def stats_value(value: Any, kind: Primitive) -> Any:
    """A value of the statistics' JSON as its column's current type; None if it is not one."""
    try:
        if kind.name in _INTEGERS:
            return _integer(value, _INTEGERS[kind.name])
        if kind.name in ("float", "double"):
            return float(value) if not isinstance(value, bool) else None
        if kind.decimal:
            return _decimal(value, *kind.decimal) if kind.sound_decimal else None
        if not isinstance(value, str):
            return None
        if kind.name == "date":
            return date.fromisoformat(value)
        if kind.name == "timestamp":
            return _instant(value)
        if kind.name == "timestamp_ntz":
            return datetime.fromisoformat(value).replace(tzinfo=None)
        value.encode("utf-8")  # a lone surrogate is no text
        return value
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        return None


def _integer(value: Any, bits: int) -> int | None:
    if isinstance(value, Decimal):
        # A made-up exponent would give a number of a billion digits.
        if value.adjusted() > 20 or value != value.to_integral_value():
            return None
        value = int(value)
    if type(value) is not int:
        return None
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def _decimal(value: Any, precision: int, scale: int) -> Decimal | None:
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    exact = Decimal(value if isinstance(value, int | str | Decimal) else repr(value))
    fitted = exact.quantize(Decimal(1).scaleb(-scale), context=Context(prec=precision + 1))
    return fitted if fitted == exact and abs(fitted) < 10 ** (precision - scale) else None


def _instant(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC)


def parsed_partition_values(maps: Any, columns: Mapping[str, DataType], kind: Any) -> Any:
    """partitionValues_parsed: each text read as its column's type, once per distinct text."""
    arrays = []
    for name, data_type in columns.items():
        texts = pc.map_lookup(maps, name, "first").dictionary_encode()
        values = [_partition(text, data_type) for text in texts.dictionary.to_pylist()]
        typed = pa.array(values, kind.field(name).type)
        arrays.append(typed.take(texts.indices))
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _partition(text: str | None, data_type: DataType) -> Any:
    try:
        value = partition_value(text, data_type)
        if value is None or not isinstance(data_type, Primitive):
            return value
        if data_type.name in _INTEGERS:
            return _integer(value, _INTEGERS[data_type.name])
        if data_type.decimal:
            return _decimal(value, *data_type.decimal) if data_type.sound_decimal else None
        if data_type.name == "timestamp":
            return value.astimezone(UTC)
        if data_type.name == "timestamp_ntz":
            return value.replace(tzinfo=None)
        return value
    except (ValueError, OverflowError, InvalidOperation):
        return None
