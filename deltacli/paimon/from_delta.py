"""A Delta schema as one of Paimon (facts 6): the mapping of Paimon's own Spark integration."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.delta import schema as delta
from deltacli.delta.actions import Metadata
from deltacli.delta.column_mapping import ID, MAX_ID, MODE, PHYSICAL
from deltacli.delta.widening import CHANGES
from deltacli.paimon.default_literals import plain_default
from deltacli.paimon.losses import Losses
from deltacli.paimon.numbering import Numbers
from deltacli.paimon.schema_file import NEWEST_VERSION, TableSchema
from deltacli.paimon.spark_types import bounded_string, parse_lengths
from deltacli.paimon.types import (
    BYTES,
    FIRST_SYSTEM_ID,
    STRING,
    TIMESTAMP_LTZ,
    Array,
    Atomic,
    BadType,
    DataType,
    Field,
    Map,
    Row,
    as_nullable,
    walk_fields,
)

_TYPES: Mapping[str, DataType] = {
    "string": STRING,
    "byte": Atomic("TINYINT"),
    "short": Atomic("SMALLINT"),
    "integer": Atomic("INT"),
    "long": Atomic("BIGINT"),
    "float": Atomic("FLOAT"),
    "double": Atomic("DOUBLE"),
    "boolean": Atomic("BOOLEAN"),
    "date": Atomic("DATE"),
    "binary": BYTES,
    "timestamp": Atomic(TIMESTAMP_LTZ, (6,)),
    "timestamp_ntz": Atomic("TIMESTAMP", (6,)),
    "variant": Atomic("VARIANT"),
}
# What is known of a column and means nothing to Paimon.
_LOST = {
    "delta.generationExpression": "its generation expression",
    "delta.invariants": "its invariant",
    CHANGES: "the history of its type",
    delta.COLLATIONS: "its collation",
    "parquet.field.nested.ids": "the ids of its elements",
}
_QUIET = frozenset(("comment", delta.LENGTHS, delta.DEFAULT, ID, PHYSICAL, "EXISTS_DEFAULT"))
_TABLE = {
    "delta.enablechangedatafeed": "the change data feed",
    "delta.enabledeletionvectors": "deletion vectors",
    "delta.enablerowtracking": "row tracking",
}
_NOTHING: Mapping[str, Any] = {}


@dataclass
class _Conversion:
    """One schema on its way; without column mapping ids are given out in the end."""

    losses: Losses
    keeps_ids: bool

    def fields(
        self, fields: Iterable[delta.Field], above: str = "", lengths: Mapping[str, Any] = _NOTHING
    ) -> tuple[Field, ...]:
        return tuple(
            self._field(one, f"{above}{one.name}", lengths.get(one.name))
            for one in fields
            if not self._is_void(one, f"{above}{one.name}")
        )

    def _field(self, one: delta.Field, place: str, lengths: Any) -> Field:
        self._note_losses(one, place)
        text = one.metadata.get(delta.LENGTHS)
        if isinstance(text, str):
            lengths = parse_lengths(text)
        kind = self.type(one.type, place, lengths)
        comment = one.metadata.get("comment")
        return Field(
            int(one.metadata[ID]) if self.keeps_ids else 0,
            one.name,
            as_nullable(kind, one.nullable),
            comment if isinstance(comment, str) else None,
            self._default(one, kind, place),
        )

    def type(self, kind: delta.DataType, place: str, lengths: Any) -> DataType:
        """`lengths` is the type that Spark remembers, as far as it is of the same shape."""
        match kind:
            case delta.Struct(fields):
                inner = lengths if isinstance(lengths, dict) else {}
                return Row(self.fields(fields, f"{place}.", inner))
            case delta.Array(element, contains_null):
                inner_type = self.type(element, f"{place}.element", _at(lengths, 0))
                return Array(as_nullable(inner_type, contains_null))
            case delta.Map(key, value, contains_null):
                return Map(
                    as_nullable(self.type(key, f"{place}.key", _at(lengths, 0)), False),
                    as_nullable(self.type(value, f"{place}.value", _at(lengths, 1)), contains_null),
                )
            case delta.Primitive(name) if name.startswith("string "):
                self.losses.add(place, f"the collation of {name}")
                return _TYPES["string"]
            case delta.Primitive():
                return self._primitive(kind, place, lengths)

    def _primitive(self, kind: delta.Primitive, place: str, lengths: Any) -> DataType:
        if kind.name == "string" and isinstance(lengths, str):
            bounded = bounded_string(lengths)
            if bounded is not None:
                return bounded
        reason = f"Paimon has no type for {kind.name}"
        try:
            if kind.decimal is not None:
                return Atomic("DECIMAL", kind.decimal)
        except BadType as error:
            reason = str(error)
        if kind.name in _TYPES:
            return _TYPES[kind.name]
        self.losses.refuse(f"{place}: {reason}", "convert a table without it")
        return STRING

    def _is_void(self, one: delta.Field, place: str) -> bool:
        is_void = one.type == delta.Primitive("void")
        if is_void:
            self.losses.add_grave(place, "Paimon has no type for void", "leaves the column out")
        return is_void

    def _note_losses(self, one: delta.Field, place: str) -> None:
        metadata = one.metadata
        for key, what in _LOST.items():
            if metadata.get(key):
                self.losses.add(place, what)
        if any(key.startswith("delta.identity.") for key in metadata):
            self.losses.add(place, "that it is an identity column")
        own_name = metadata.get(PHYSICAL, one.name)
        # One that only tells the id again is no loss.
        if own_name not in (one.name, f"col-{metadata.get(ID)}"):
            self.losses.add(place, f"its physical name {metadata[PHYSICAL]}")
        for key in metadata:
            known = key in _QUIET or key in _LOST or key.startswith("delta.")
            if not known:
                self.losses.add(place, f"its metadata {key}")

    def _default(self, one: delta.Field, kind: DataType, place: str) -> str | None:
        text = one.metadata.get(delta.DEFAULT)
        if not isinstance(text, str):
            return None
        found = plain_default(kind, text)
        if found is None:
            self.losses.add(place, f"its default {text}, which is no literal of its type")
        else:
            self.losses.add(place, f"its default is the text {text}, not an expression")
        return found


def _at(lengths: Any, index: int) -> Any:
    return lengths[index] if isinstance(lengths, list) and index < len(lengths) else None


def from_delta(
    schema: delta.Struct,
    metadata: Metadata,
    clustering: Collection[str],
    losses: Losses,
    now_ms: int,
) -> TableSchema:
    """The first version of a Paimon table for a Delta table.

    Raises Refused for what Paimon cannot hold. Whether the result keeps Paimon's rules is not
    asked here.
    """
    configuration = metadata.configuration
    maps = configuration.get(MODE, "none").lower() != "none"
    has_ids = all(type(one.metadata.get(ID)) is int for _, one in delta.walk(schema))
    conversion = _Conversion(losses, keeps_ids=maps and has_ids)
    fields = conversion.fields(schema.fields)
    losses.check()
    if conversion.keeps_ids:
        known = configuration.get(MAX_ID, "")
        told = int(known) if re.fullmatch(r"[0-9]{1,10}", known) else 0
        used = [one.id for _, one in walk_fields(fields)]
        highest = max([told if told < FIRST_SYSTEM_ID else 0, *used])
    else:
        numbers = Numbers()
        fields = tuple(numbers.column(one) for one in fields)
        highest = numbers.last
    _note_table(configuration, clustering, losses)
    return TableSchema(
        version=NEWEST_VERSION,
        id=0,
        fields=fields,
        highest_field_id=highest,
        partition_keys=metadata.partition_columns,
        primary_keys=(),
        options={},
        comment=metadata.description,
        time_ms=now_ms,
    )


def _note_table(
    configuration: Mapping[str, str], clustering: Collection[str], losses: Losses
) -> None:
    others = []
    for key, value in configuration.items():
        lowered = key.lower()
        if lowered.startswith("delta.constraints."):
            losses.add(None, f"the constraint {key[len('delta.constraints.') :]}: {value}")
        elif lowered in _TABLE:
            if value.lower() == "true":
                losses.add(None, _TABLE[lowered])
        elif not lowered.startswith("delta.columnmapping."):
            others.append(key)
    if clustering:
        losses.add(None, f"clustering by {', '.join(clustering)}")
    if others:
        losses.add(None, f"table properties: {', '.join(others)}")
