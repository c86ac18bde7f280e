"""Delta types as Arrow's, for rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from deltacli.delta.schema import Array, DataType, Map, Struct
from deltacli.errors import Refused

_PLAIN = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "null": pa.null(),
}
# Stored as well-known binary.
_AS_BYTES = ("geometry", "geography")


class NoArrowType(Refused):
    """A type that has no plain Arrow counterpart; Spark may read it."""


def arrow_type(data_type: DataType) -> Any:
    """The Arrow type that holds every value of a Delta type."""
    if isinstance(data_type, Struct):
        return pa.struct([pa.field(one.name, arrow_type(one.type)) for one in data_type.fields])
    if isinstance(data_type, Array):
        return pa.list_(pa.field("element", arrow_type(data_type.element)))
    if isinstance(data_type, Map):
        return pa.map_(arrow_type(data_type.key), arrow_type(data_type.value))
    name = data_type.name
    if name in _PLAIN:
        return _PLAIN[name]
    if data_type.sound_decimal:
        return pa.decimal128(*data_type.sound_decimal)
    if name.startswith(("char(", "varchar(")):
        return pa.string()
    if name.startswith(_AS_BYTES):
        return pa.binary()
    raise NoArrowType(f"columns of type {name} are not read here", hint="name other columns")


_NAMES = {kind: name for name, kind in _PLAIN.items() if name != "null"} | {
    pa.large_string(): "string",
    pa.large_binary(): "binary",
}


# By their names: older Arrows have no such types.
_VIEWS = {"string_view": "string", "binary_view": "binary"}


def type_name(kind: Any) -> str:
    """An Arrow type by the name that Delta has for it; one that Delta has not by its own."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    # How a writer held its values in memory is nothing to the file.
    if pa.types.is_dictionary(kind):
        return type_name(kind.value_type)
    return _VIEWS.get(str(kind)) or _NAMES.get(kind) or str(kind)
