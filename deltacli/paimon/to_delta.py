"""A Paimon schema as one of Delta (facts 6): the mapping of Paimon's own Spark integration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

from deltacli.delta import schema as delta
from deltacli.delta.actions import Protocol
from deltacli.delta.features import with_features
from deltacli.delta.widening import CHANGES, is_allowed
from deltacli.delta.widening import PROPERTY as WIDENING_PROPERTY
from deltacli.delta.widening import STABLE as WIDENING
from deltacli.errors import Refused
from deltacli.paimon.losses import Losses
from deltacli.paimon.schema_file import TableSchema
from deltacli.paimon.types import (
    MAX_LENGTH,
    TIMESTAMP_LTZ,
    Array,
    Atomic,
    DataType,
    Field,
    Map,
    Multiset,
    Row,
    Vector,
    inner_types,
    sql_text,
    walk_fields,
)

LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"
DEFAULT = "CURRENT_DEFAULT"
MAPPING_MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"
FIELD_ID = "delta.columnMapping.id"
PHYSICAL = "delta.columnMapping.physicalName"
_SPECIAL = re.compile(r"[ ,;{}()\n\t=]")
_NAMES: Mapping[str, str] = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "DATE": "date",
    "TIME": "integer",
    "TIMESTAMP": "timestamp_ntz",
    TIMESTAMP_LTZ: "timestamp",
    "VARIANT": "variant",
    "BLOB": "binary",
}
_FEATURES = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}


class ColumnMapping(StrEnum):
    """How Delta finds columns in files."""

    NAME = "name"
    ID = "id"
    NONE = "none"


@dataclass(frozen=True)
class DeltaTable:
    """What a new Delta table has to say of itself."""

    schema: delta.Struct
    partition_columns: tuple[str, ...]
    description: str | None
    configuration: Mapping[str, str]
    protocol: Protocol


@dataclass
class _Conversion:
    """One schema on its way."""

    losses: Losses
    mapping: ColumnMapping
    shift: int
    history: Mapping[int, list[dict[str, str]]]
    features: set[str] = field(default_factory=set)

    def column(self, one: Field, place: str, *, is_top: bool) -> delta.Field:
        metadata: dict[str, Any] = {}
        if one.description is not None:
            metadata["comment"] = one.description
        kind = self.type(one.type, place)
        if is_top and _has_lengths(one.type):
            metadata[LENGTHS] = _spark_text(one.type)
        if one.default is not None:
            self._default(one, place, metadata)
        if self.mapping is not ColumnMapping.NONE:
            own_id = one.id + self.shift
            metadata |= {FIELD_ID: own_id, PHYSICAL: f"col-{own_id}"}
        if one.id in self.history:
            metadata[CHANGES] = self.history[one.id]
            self.features.add(WIDENING)
        return delta.Field(one.name, kind, one.type.nullable, metadata)

    def type(self, kind: DataType, place: str) -> delta.DataType:
        match kind:
            case Row(fields):
                inner = (self.column(one, f"{place}.{one.name}", is_top=False) for one in fields)
                return delta.Struct(tuple(inner))
            case Array(element):
                return delta.Array(self.type(element, f"{place}.element"), element.nullable)
            case Map(key, value):
                if key.nullable:
                    self.losses.add(place, "the key may be null, and a key in Delta never is")
                return delta.Map(
                    self.type(key, f"{place}.key"),
                    self.type(value, f"{place}.value"),
                    value.nullable,
                )
            case Multiset(element):
                self.losses.add(place, "MULTISET becomes a map of elements to their counts")
                return delta.Map(
                    self.type(element, f"{place}.element"), delta.Primitive("integer"), False
                )
            case Vector(element, length):
                self.losses.add(place, f"the length {length} of a VECTOR")
                return delta.Array(self.type(element, f"{place}.element"), False)
            case Atomic():
                return delta.Primitive(self._atomic(kind, place))

    def _atomic(self, kind: Atomic, place: str) -> str:
        if kind.root == "DECIMAL":
            return delta_name(kind) or ""
        name = _NAMES.get(kind.root)
        if name is None:
            raise Refused(
                f"{place}: Delta has no type for {sql_text(kind)}",
                hint="leave the column out: drop it in a branch, and convert that",
            )
        if kind.root == "TIME":
            self.losses.add_grave(
                place, "TIME becomes an integer: milliseconds of the day", "takes it so"
            )
        elif kind.root == "BLOB":
            self.losses.add(place, "BLOB becomes binary, without files of its own")
        elif kind.root in ("BINARY", "VARBINARY") and kind.length != MAX_LENGTH:
            self.losses.add(place, f"the length of {sql_text(kind)}")
        elif kind.root in ("CHAR", "VARCHAR") and kind.length != MAX_LENGTH:
            self.losses.add(place, f"{sql_text(kind)} is a string, its length only metadata")
        elif kind.root in ("TIMESTAMP", TIMESTAMP_LTZ) and kind.length != 6:
            cut = "; digits after the sixth are cut" if kind.length > 6 else ""
            self.losses.add(place, f"the precision {kind.length} of a timestamp is 6{cut}")
        if name in _FEATURES:
            self.features.add(_FEATURES[name])
        return name

    def _default(self, one: Field, place: str, metadata: dict[str, Any]) -> None:
        literal = _literal(one.type, one.default or "")
        if literal is None:
            self.losses.add(place, f"the default {one.default!r} has no literal in SQL")
            return
        metadata[DEFAULT] = literal
        self.features.add("allowColumnDefaults")


def to_delta(
    schema: TableSchema,
    older: Sequence[TableSchema],
    losses: Losses,
    mapping: ColumnMapping = ColumnMapping.NAME,
) -> DeltaTable:
    """The Delta table for a version; `older` are those before it, ascending.

    Raises Refused for what Delta cannot hold.
    """
    _check_names(schema)
    if mapping is ColumnMapping.NONE:
        _check_unmapped(schema, older)
    ids = [one.id for _, one in walk_fields(schema.fields)]
    # Delta counts from 1.
    shift = 1 if 0 in ids else 0
    history = _type_history([*older, schema], losses)
    conversion = _Conversion(losses, mapping, shift, history)
    fields = tuple(conversion.column(one, one.name, is_top=True) for one in schema.fields)
    configuration: dict[str, str] = {}
    if mapping is not ColumnMapping.NONE:
        highest = max([schema.highest_field_id, *ids])
        configuration = {MAPPING_MODE: mapping.value, MAX_ID: str(highest + shift)}
        conversion.features.add("columnMapping")
    if WIDENING in conversion.features:
        configuration[WIDENING_PROPERTY] = "true"
    _table_losses(schema, losses)
    return DeltaTable(
        delta.Struct(fields),
        schema.partition_keys,
        schema.comment,
        configuration,
        _protocol(conversion.features),
    )


def _protocol(features: set[str]) -> Protocol:
    if not features:
        return Protocol(1, 2)
    if features == {"columnMapping"}:
        return Protocol(2, 5)
    return with_features(Protocol(1, 2), sorted(features))


def _check_names(schema: TableSchema) -> None:
    by_case: dict[str, str] = {}
    for path, _ in walk_fields(schema.fields):
        place = ".".join(path)
        other = by_case.setdefault(place.lower(), place)
        if other != place:
            raise Refused(
                f"the names {other} and {place} differ only by case, and are one name in Delta",
                hint="rename one of them first",
            )


def _check_unmapped(schema: TableSchema, older: Sequence[TableSchema]) -> None:
    """Raise Refused where columns can be found by their ids only."""
    names = {one.id: one.name for _, one in walk_fields(schema.fields)}
    for before in older:
        for path, one in walk_fields(before.fields):
            if names.get(one.id) != one.name:
                raise Refused(
                    f"{'.'.join(path)} was renamed or dropped since schema {before.id}: columns "
                    "have to be found by their ids",
                    hint="--column-mapping name or id",
                )
    for path, one in walk_fields(schema.fields):
        if _SPECIAL.search(one.name):
            raise Refused(
                f"the name {'.'.join(path)!r} has characters that need column mapping",
                hint="--column-mapping name or id",
            )


def _table_losses(schema: TableSchema, losses: Losses) -> None:
    if schema.primary_keys:
        losses.add(None, f"the primary key ({', '.join(schema.primary_keys)}): Delta has none")
    for key, value in schema.effective_options.items():
        losses.add(None, f"the option {key} = {value}")


# -- texts of Spark ----------------------------------------------------------------------


def delta_name(kind: Atomic) -> str | None:
    """The name that Delta has for a type; None if it has none."""
    if kind.root == "DECIMAL":
        return f"decimal({kind.length},{kind.scale})"
    return _NAMES.get(kind.root)


def _has_lengths(kind: DataType) -> bool:
    if isinstance(kind, Atomic):
        return kind.root in ("CHAR", "VARCHAR") and kind.length != MAX_LENGTH
    return any(_has_lengths(one) for _, one in inner_types(kind))


_SPARK = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def _spark_text(kind: DataType) -> str:
    """A type as Spark writes it where it keeps the lengths of strings."""
    match kind:
        case Row(fields):
            return f"struct<{','.join(f'{one.name}:{_spark_text(one.type)}' for one in fields)}>"
        case Array(element) | Vector(element):
            return f"array<{_spark_text(element)}>"
        case Map(key, value):
            return f"map<{_spark_text(key)},{_spark_text(value)}>"
        case Multiset(element):
            return f"map<{_spark_text(element)},int>"
        case Atomic() if _has_lengths(kind):
            return f"{kind.root.lower()}({kind.length})"
        case Atomic():
            name = delta_name(kind) or ""
            return _SPARK.get(name, name)


def _literal(kind: DataType, default: str) -> str | None:
    """A default as SQL; None if it is not one value."""
    if len(default) > 1 and default[0] == default[-1] == "'":
        default = default[1:-1]
    text = "'" + default.replace("\\", "\\\\").replace("'", "\\'") + "'"
    root = kind.root
    if root in ("CHAR", "VARCHAR"):
        return text
    if root == "BOOLEAN":
        return "true" if default.lower() in ("t", "true", "y", "yes", "1") else "false"
    if root in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        return default.partition(".")[0].lstrip("+") or None
    if root in ("FLOAT", "DOUBLE", "DECIMAL"):
        number = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", default)
        return default.lstrip("+") if number else None
    if default.isdecimal():
        return None
    prefix = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP_NTZ", TIMESTAMP_LTZ: "TIMESTAMP"}.get(root)
    return f"{prefix} {text}" if prefix else None


# -- type history ------------------------------------------------------------------------


def _type_history(
    versions: Sequence[TableSchema], losses: Losses
) -> dict[int, list[dict[str, str]]]:
    """The changes of types that Delta can tell, by the field that they are of.

    A change that it cannot tell hides those before it: nobody could read so old a file.
    """
    found: dict[tuple[int, str], list[dict[str, str]]] = {}
    for before, after in pairwise(versions):
        older = {one.id: one.type for one in before.fields}
        for one in after.fields:
            if one.id not in older:
                continue
            for key, old, new in _changes_within(older[one.id], one.type, (), one.id):
                source, target = delta_name(old), delta_name(new)
                if source == target:
                    continue
                if source and target and is_allowed(source, target):
                    entry = {"fromType": source, "toType": target}
                    found.setdefault(key, []).append(entry)
                else:
                    found[key] = []
                    losses.add(
                        one.name,
                        f"that it was {sql_text(old)} before schema {after.id}: files of then "
                        "have to be rewritten for Delta",
                    )
    ids = {one.id for _, one in walk_fields(versions[-1].fields)}
    history: dict[int, list[dict[str, str]]] = {}
    for (field_id, path), entries in found.items():
        for entry in entries if field_id in ids else ():
            told = {**entry, "fieldPath": path} if path else entry
            history.setdefault(field_id, []).append(told)
    return history


def _changes_within(
    old: DataType, new: DataType, path: tuple[str, ...], field_id: int
) -> Iterator[tuple[tuple[int, str], Atomic, Atomic]]:
    """Atomic types that differ: the field and the path within it, with both types."""
    if isinstance(old, Row) and isinstance(new, Row):
        known = {one.id: one.type for one in old.fields}
        for one in new.fields:
            if one.id in known:
                yield from _changes_within(known[one.id], one.type, (), one.id)
    elif isinstance(old, Atomic) and isinstance(new, Atomic):
        if replace(old, nullable=True) != replace(new, nullable=True):
            yield (field_id, ".".join(path)), old, new
    elif old.root == new.root:
        for (step, before), (_, after) in zip(inner_types(old), inner_types(new), strict=True):
            # A MULTISET is a map from its elements.
            step = "key" if isinstance(old, Multiset) else step
            yield from _changes_within(before, after, (*path, step), field_id)
