"""The schema's JSON as values, both ways without loss (PROTOCOL "Schema Serialization Format").

Type names that a later protocol brings are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.column_mapping import PHYSICAL

# Keys in the metadata of a field that more than one part goes by.
DEFAULT = "CURRENT_DEFAULT"
LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"
COLLATIONS = "__COLLATIONS"
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,9})\s*,\s*(-?\d{1,9})\s*\)")


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type written as one word, such as `long` or `decimal(10,2)`."""

    name: str

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale of a decimal type."""
        match = _DECIMAL.fullmatch(self.name)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def sound_decimal(self) -> tuple[int, int] | None:
        """The same, if there can be such a type: of at most 38 digits, the scale among them."""
        own = self.decimal
        return own if own and 0 <= own[1] <= own[0] and 1 <= own[0] <= 38 else None


@dataclass(frozen=True, slots=True)
class Array:
    element: DataType
    contains_null: bool
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Map:
    key: DataType
    value: DataType
    value_contains_null: bool
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: DataType
    nullable: bool
    metadata: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def physical_name(self) -> str:
        """The name that data files, partition values and statistics use."""
        name = self.metadata.get(PHYSICAL)
        return name if isinstance(name, str) else self.name


@dataclass(frozen=True, slots=True)
class Struct:
    fields: tuple[Field, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Field:
        for one in self.fields:
            if one.name == name:
                return one
        raise KeyError(name)


DataType = Primitive | Array | Map | Struct


class BadSchema(ValueError):
    """The schema's JSON breaks the protocol."""


def parse_schema(text: str) -> Struct:
    """The schema of a `schemaString`. Raises BadSchema."""
    try:
        tree = json_text.load_faithful(text.encode("utf-8", "surrogatepass"))
        schema = parse_type(tree)
    except RecursionError:
        raise BadSchema("the schema is nested too deeply") from None
    except BadSchema:
        raise
    except ValueError as error:
        raise BadSchema(f"the schema is not JSON: {error}") from None
    if not isinstance(schema, Struct):
        raise BadSchema("the schema is not a struct")
    return schema


def parse_type(tree: Any) -> DataType:
    if isinstance(tree, str):
        return Primitive(tree)
    if not isinstance(tree, dict):
        raise BadSchema(f"a type is neither a name nor an object: {str(tree)[:80]}")
    kind = tree.get("type")
    if kind == "struct":
        fields = tree.get("fields")
        if not isinstance(fields, list):
            raise BadSchema("a struct has no list of fields")
        return Struct(tuple(map(_parse_field, fields)), _rest(tree, "type", "fields"))
    if kind == "array":
        return Array(
            parse_type(tree.get("elementType")),
            bool(tree.get("containsNull", True)),
            _rest(tree, "type", "elementType", "containsNull"),
        )
    if kind == "map":
        return Map(
            parse_type(tree.get("keyType")),
            parse_type(tree.get("valueType")),
            bool(tree.get("valueContainsNull", True)),
            _rest(tree, "type", "keyType", "valueType", "valueContainsNull"),
        )
    if kind == "udt":
        # User-defined types of Spark: what is stored is their SQL type.
        return parse_type(tree.get("sqlType"))
    raise BadSchema(f"unknown type {str(kind)[:80]!r}")


def _parse_field(tree: Any) -> Field:
    if not isinstance(tree, dict) or not isinstance(tree.get("name"), str):
        raise BadSchema("a field has no name")
    metadata = tree.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise BadSchema(f"the metadata of field {tree['name']!r} is not an object")
    return Field(
        tree["name"],
        parse_type(tree.get("type")),
        bool(tree.get("nullable", True)),
        metadata,
        _rest(tree, "name", "type", "nullable", "metadata"),
    )


def _rest(tree: dict[str, Any], *known: str) -> dict[str, Any]:
    return {key: value for key, value in tree.items() if key not in known}


def type_tree(data_type: DataType) -> Any:
    """The JSON tree of a type, as `parse_type` reads it."""
    if isinstance(data_type, Primitive):
        return data_type.name
    if isinstance(data_type, Struct):
        fields = [
            {
                "name": one.name,
                "type": type_tree(one.type),
                "nullable": one.nullable,
                "metadata": dict(one.metadata),
                **one.extra,
            }
            for one in data_type.fields
        ]
        return {"type": "struct", "fields": fields, **data_type.extra}
    if isinstance(data_type, Array):
        return {
            "type": "array",
            "elementType": type_tree(data_type.element),
            "containsNull": data_type.contains_null,
            **data_type.extra,
        }
    return {
        "type": "map",
        "keyType": type_tree(data_type.key),
        "valueType": type_tree(data_type.value),
        "valueContainsNull": data_type.value_contains_null,
        **data_type.extra,
    }


def type_text(data_type: DataType) -> str:
    """A type as people read it: `array<long>`, `struct<a: int>`."""
    if isinstance(data_type, Primitive):
        return data_type.name
    if isinstance(data_type, Array):
        return f"array<{type_text(data_type.element)}>"
    if isinstance(data_type, Map):
        return f"map<{type_text(data_type.key)}, {type_text(data_type.value)}>"
    inner = ", ".join(f"{one.name}: {type_text(one.type)}" for one in data_type.fields)
    return f"struct<{inner}>"


def walk(
    data_type: DataType, prefix: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Every field with its path, parents first; `element`, `key` and `value` name the insides."""
    if isinstance(data_type, Struct):
        for one in data_type.fields:
            yield (*prefix, one.name), one
            yield from walk(one.type, (*prefix, one.name))
    elif isinstance(data_type, Array):
        yield from walk(data_type.element, (*prefix, "element"))
    elif isinstance(data_type, Map):
        yield from walk(data_type.key, (*prefix, "key"))
        yield from walk(data_type.value, (*prefix, "value"))


def logical_names(data_type: DataType, tree: Any) -> Any:
    """A tree keyed by physical names (statistics, say) keyed by logical names instead."""
    if not isinstance(data_type, Struct) or not isinstance(tree, dict):
        return tree
    by_physical = {one.physical_name: one for one in data_type.fields}
    renamed = {}
    for key, value in tree.items():
        one = by_physical.get(key)
        renamed[one.name if one else key] = logical_names(one.type, value) if one else value
    return renamed


def unmapped(schema: Struct) -> Struct:
    """A schema whose physical names do not count: column mapping is off."""
    return Struct(
        tuple(
            Field(
                one.name,
                unmapped(one.type) if isinstance(one.type, Struct) else one.type,
                one.nullable,
            )
            for one in schema.fields
        )
    )


def maps_columns(schema: Struct | None) -> bool:
    """Whether any field has another physical name, so that names must be translated."""
    return schema is not None and any(one.physical_name != one.name for _, one in walk(schema))
