"""A Paimon schema as one of Delta (facts 6): the mapping of Paimon's own Spark integration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltacli.delta import schema as delta
from deltacli.delta.actions import Protocol
from deltacli.delta.column_mapping import ID, MAX_ID, MODE, PHYSICAL, SPECIAL, ColumnMapping
from deltacli.delta.features import TYPE_FEATURES, with_features
from deltacli.delta.widening import CHANGES
from deltacli.delta.widening import PROPERTY as WIDENING_PROPERTY
from deltacli.delta.widening import STABLE as WIDENING
from deltacli.paimon.default_literals import literal_of
from deltacli.paimon.losses import Losses
from deltacli.paimon.schema_file import TableSchema
from deltacli.paimon.spark_types import delta_name, has_lengths, spark_text
from deltacli.paimon.type_history import type_history
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
    sql_text,
    walk_fields,
)


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
        if is_top and has_lengths(one.type):
            metadata[delta.LENGTHS] = spark_text(one.type)
        if one.default is not None:
            self._default(one, place, metadata)
        if self.mapping is not ColumnMapping.NONE:
            own_id = one.id + self.shift
            metadata |= {ID: own_id, PHYSICAL: f"col-{own_id}"}
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
        name = delta_name(kind)
        if name is None:
            self.losses.refuse(
                f"{place}: Delta has no type for {sql_text(kind)}",
                "leave the column out: drop it in a branch, and convert that",
            )
            return "string"
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
            self.losses.add(place, f"the precision {kind.length}: timestamps have 6 digits{cut}")
        if name in TYPE_FEATURES:
            self.features.add(TYPE_FEATURES[name][0])
        return name

    def _default(self, one: Field, place: str, metadata: dict[str, Any]) -> None:
        literal = literal_of(one.type, one.default or "")
        if literal is None:
            self.losses.add(place, f"the default {one.default!r} has no literal in SQL")
            return
        metadata[delta.DEFAULT] = literal
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
    _check_names(schema, losses)
    if mapping is ColumnMapping.NONE:
        _check_unmapped(schema, older, losses)
    ids = [one.id for _, one in walk_fields(schema.fields)]
    # Delta counts from 1.
    shift = 1 if 0 in ids else 0
    history = type_history([*older, schema], losses)
    conversion = _Conversion(losses, mapping, shift, history)
    fields = tuple(conversion.column(one, one.name, is_top=True) for one in schema.fields)
    configuration: dict[str, str] = {}
    if mapping is not ColumnMapping.NONE:
        highest = max([schema.highest_field_id, *ids])
        configuration = {MODE: mapping.value, MAX_ID: str(highest + shift)}
        conversion.features.add("columnMapping")
    if WIDENING in conversion.features:
        configuration[WIDENING_PROPERTY] = "true"
    _table_losses(schema, losses)
    losses.check()
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


def _check_names(schema: TableSchema, losses: Losses) -> None:
    by_case: dict[tuple[str, ...], tuple[str, ...]] = {}
    for path, _ in walk_fields(schema.fields):
        other = by_case.setdefault(tuple(one.lower() for one in path), path)
        if other != path:
            losses.refuse(
                f"the names {'.'.join(other)} and {'.'.join(path)} differ only by case, and are "
                "one name in Delta",
                "rename one of them first",
            )
    if set(schema.names) <= set(schema.partition_keys):
        losses.refuse(
            "every column is a partition key: Delta needs another one"
            if schema.names
            else "the table has no columns",
            "add a column first",
        )


def _check_unmapped(schema: TableSchema, older: Sequence[TableSchema], losses: Losses) -> None:
    """Refuse columns that can be found by their ids only."""
    hint = "--column-mapping name or id"
    names = {one.id: one.name for _, one in walk_fields(schema.fields)}
    last_seen = {
        path: (one, before.id) for before in older for path, one in walk_fields(before.fields)
    }
    for path, (one, schema_id) in last_seen.items():
        if names.get(one.id) != one.name:
            losses.refuse(
                f"{'.'.join(path)} was renamed or dropped since schema {schema_id}: columns have "
                "to be found by their ids",
                hint,
            )
    for path, one in walk_fields(schema.fields):
        if SPECIAL.search(one.name):
            losses.refuse(
                f"the name {'.'.join(path)!r} has characters that need column mapping", hint
            )


def _table_losses(schema: TableSchema, losses: Losses) -> None:
    if schema.primary_keys:
        losses.add(None, f"the primary key ({', '.join(schema.primary_keys)}): Delta has none")
    for key, value in schema.effective_options.items():
        losses.add(None, f"the option {key} = {value}")
