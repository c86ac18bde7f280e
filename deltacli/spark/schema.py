"""Delta schemas as Spark's: what to read from files, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltacli.delta.column_mapping import ID
from deltacli.delta.schema import Array, DataType, Field, Map, Primitive, Struct, type_tree, walk
from deltacli.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_AS_BYTES = ("geometry", "geography")
_UNREADABLE = ("timestamp_nanos", "timestamp_ntz_nanos")


def logical_type(schema: Struct) -> StructType:
    """The table's schema; every column may be null, as Spark's readers have it."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(type_tree(_plain(schema, mode="none")))


def plain_types(schema: Struct) -> Struct:
    """The same as a schema of Delta's: the types that Spark has for the columns."""
    return _plain(schema, mode="none")  # type: ignore[no-any-return]


def physical_type(schema: Struct, mode: str) -> StructType:
    """The columns to be asked of Parquet files, by physical name or by field id."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(type_tree(_plain(schema, mode=mode)))


def is_void(data_type: DataType) -> bool:
    """Whether a column holds nothing but nulls, and no file has it."""
    return isinstance(data_type, Primitive) and data_type.name in ("void", "null")


def _plain(data_type: Any, *, mode: str) -> Any:
    if isinstance(data_type, Struct):
        return Struct(tuple(_field(one, mode) for one in data_type.fields))
    if isinstance(data_type, Array):
        return Array(_plain(data_type.element, mode=mode), True)
    if isinstance(data_type, Map):
        key, value = _plain(data_type.key, mode=mode), _plain(data_type.value, mode=mode)
        return Map(key, value, True)
    if data_type.name.startswith(_AS_BYTES):
        return Primitive("binary")
    if data_type.name.startswith(_UNREADABLE):
        raise Refused(
            f"Spark cannot read columns of type {data_type.name}",
            hint="name the columns that you want",
        )
    return data_type


def _field(field: Field, mode: str) -> Field:
    own = _plain(field.type, mode=mode)
    if mode == "none":
        return Field(field.name, own, True)
    # The columns of the change data feed have no ids.
    has_id = mode == "id" and ID in field.metadata
    metadata = {"parquet.field.id": field.metadata[ID]} if has_id else {}
    return Field(field.physical_name, own, True, metadata)


def grew_from_small_integer(field: Field) -> bool:
    """Whether older files may hold a byte or short where the table has a decimal by now."""
    if not isinstance(field.type, Primitive) or field.type.decimal is None:
        return False
    changes = field.metadata.get("delta.typeChanges") or []
    return any(one.get("fromType") in ("byte", "short") for one in changes if isinstance(one, dict))


def as_integers(schema: StructType, names: frozenset[str]) -> StructType:
    """The schema with some columns as integers."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    return StructType(
        [
            StructField(one.name, IntegerType(), True, one.metadata) if one.name in names else one
            for one in schema
        ]
    )


def unlike_names(schema: Struct) -> Iterator[str]:
    """The columns whose files call a nested field by another name."""
    for field in schema.fields:
        if any(one.name != one.physical_name for _, one in walk(field.type)):
            yield field.name
