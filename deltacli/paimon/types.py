"""Paimon's data types as values, and as the text that Paimon writes for them (facts 2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace

MAX_LENGTH = 2_147_483_647
TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
# The least and the most that a parameter may be, by what Paimon calls it.
_LENGTHS = {
    "CHAR": "Character string",
    "VARCHAR": "Variable character string",
    "BINARY": "Binary string",
    "VARBINARY": "Variable binary string",
}
_PRECISIONS = {"TIME": "Time", "TIMESTAMP": "Timestamp", TIMESTAMP_LTZ: "Timestamp"}
_MOST_DIGITS = 38
_VECTOR_ELEMENTS = frozenset(("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"))
# Ids from here on are those of system columns.
FIRST_SYSTEM_ID = 1_073_741_823
ALGORITHMS = ("spherical", "vincenty", "thomas", "andoyer", "karney")


_NEEDS_QUOTES = re.compile(r"^[0-9]|[\s<>(),.'`]")
# Python takes these for blanks; Java does not.
_NO_BLANKS = "\u00a0\u2007\u202f\u0085"


# Other programs give up sooner; JSON gets several levels for each of these.
_MOST_DEEP = 64


class BadType(ValueError):
    """No type of Paimon's."""


def _check_range(what: str, value: int | str, least: int, most: int) -> None:
    if not least <= int(value) <= most:
        raise BadType(f"{what} must be between {least} and {most} (both inclusive).")


@dataclass(frozen=True, slots=True)
class Atomic:
    """A type without others in it. `root` is its name; STRING is VARCHAR of the most length."""

    root: str
    parameters: tuple[int | str, ...] = ()
    nullable: bool = True

    def __post_init__(self) -> None:
        if self.root in _LENGTHS:
            _check_range(f"{_LENGTHS[self.root]} length", self.parameters[0], 1, MAX_LENGTH)
        elif self.root in _PRECISIONS:
            _check_range(f"{_PRECISIONS[self.root]} precision", self.parameters[0], 0, 9)
        elif self.root == "DECIMAL":
            precision, scale = self.parameters
            _check_range("Decimal precision", precision, 1, _MOST_DIGITS)
            if not 0 <= int(scale) <= int(precision):
                raise BadType(
                    f"Decimal scale must be between 0 and the precision {precision} "
                    "(both inclusive)."
                )
        elif self.root in ("GEOMETRY", "GEOGRAPHY") and not self.parameters[0]:
            raise BadType("Geospatial CRS must not be empty.")
        elif self.root == "GEOGRAPHY" and self.parameters[1] not in ALGORITHMS:
            raise BadType(f"Invalid edge interpolation algorithm: {self.parameters[1]}")

    @property
    def length(self) -> int:
        """The length of a string or binary, the precision of others."""
        return int(self.parameters[0])

    @property
    def scale(self) -> int:
        return int(self.parameters[1])


@dataclass(frozen=True, slots=True)
class Array:
    element: DataType
    nullable: bool = True
    root = "ARRAY"


@dataclass(frozen=True, slots=True)
class Multiset:
    element: DataType
    nullable: bool = True
    root = "MULTISET"


@dataclass(frozen=True, slots=True)
class Vector:
    element: DataType
    length: int
    nullable: bool = True
    root = "VECTOR"

    def __post_init__(self) -> None:
        _check_range("Vector length", self.length, 1, MAX_LENGTH)
        if self.element.root not in _VECTOR_ELEMENTS:
            raise BadType(f"Invalid element type for vector: {sql_text(self.element)}")


@dataclass(frozen=True, slots=True)
class Map:
    key: DataType
    value: DataType
    nullable: bool = True
    root = "MAP"


@dataclass(frozen=True, slots=True)
class Row:
    fields: tuple[Field, ...]
    nullable: bool = True
    root = "ROW"


DataType = Atomic | Array | Multiset | Vector | Map | Row


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field of a ROW. Its id is its identity: names may change."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None


STRING = Atomic("VARCHAR", (MAX_LENGTH,))
BYTES = Atomic("VARBINARY", (MAX_LENGTH,))


def is_blank(text: str) -> bool:
    """Whether nothing but blanks, as Java knows them, is in a text."""
    return all(one.isspace() and one not in _NO_BLANKS for one in text)


def as_nullable(kind: DataType, nullable: bool = True) -> DataType:
    return kind if kind.nullable == nullable else replace(kind, nullable=nullable)


def sql_text(kind: DataType) -> str:
    """The canonical text of a type."""
    return _bare_text(kind) + ("" if kind.nullable else " NOT NULL")


def _bare_text(kind: DataType) -> str:
    match kind:
        case Array(element) | Multiset(element):
            return f"{kind.root}<{sql_text(element)}>"
        case Vector(element, length):
            return f"VECTOR<{sql_text(element)}, {length}>"
        case Map(key, value):
            return f"MAP<{sql_text(key)}, {sql_text(value)}>"
        case Row(fields):
            return f"ROW<{', '.join(_field_text(one) for one in fields)}>"
        case Atomic():
            return _atomic_text(kind)


def _atomic_text(kind: Atomic) -> str:
    if kind.root in ("VARCHAR", "VARBINARY") and kind.length == MAX_LENGTH:
        return "STRING" if kind.root == "VARCHAR" else "BYTES"
    if kind.root == TIMESTAMP_LTZ:
        return f"TIMESTAMP({kind.length}) WITH LOCAL TIME ZONE"
    if not kind.parameters:
        return kind.root
    parameters = [_parameter_text(one) for one in kind.parameters]
    return f"{kind.root}({', '.join(parameters)})"


def _parameter_text(parameter: int | str) -> str:
    text = str(parameter)
    if isinstance(parameter, int) or not _NEEDS_QUOTES.search(text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _field_text(field: Field) -> str:
    text = f"{quoted(field.name)} {sql_text(field.type)}"
    if field.description:
        text += " COMMENT '" + field.description.replace("'", "''") + "'"
    if field.default is not None:
        text += f" DEFAULT {field.default}"
    return text


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


# -- going through types -----------------------------------------------------------------


def inner_types(kind: DataType) -> Iterator[tuple[str, DataType]]:
    """The types right within one, each with the step that leads to it."""
    match kind:
        case Row(fields):
            for one in fields:
                yield one.name, one.type
        case Map(key, value):
            yield "key", key
            yield "value", value
        case Array(element) | Multiset(element) | Vector(element):
            yield "element", element
        case _:
            pass


def with_inner(kind: DataType, edit: Callable[[DataType], DataType]) -> DataType:
    """A type with those right within it changed."""
    match kind:
        case Row(fields):
            inner = tuple(replace(one, type=edit(one.type)) for one in fields)
            return replace(kind, fields=inner)
        case Map(key, value):
            return replace(kind, key=edit(key), value=edit(value))
        case Array(element):
            return replace(kind, element=edit(element))
        case Multiset(element):
            return replace(kind, element=edit(element))
        case Atomic() | Vector():
            # What is in a VECTOR has nothing in it.
            return kind


def walk_types(fields: tuple[Field, ...]) -> Iterator[tuple[tuple[str, ...], DataType]]:
    """Every type of a schema with its path, outer ones first."""
    waiting: list[tuple[tuple[str, ...], DataType]] = [
        ((one.name,), one.type) for one in reversed(fields)
    ]
    while waiting:
        path, kind = waiting.pop()
        yield path, kind
        inner = [((*path, step), one) for step, one in inner_types(kind)]
        waiting += reversed(inner)


def walk_fields(
    fields: tuple[Field, ...], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Every column and nested field with its path, outer ones first."""
    for one in fields:
        path = (*above, one.name)
        yield path, one
        yield from _fields_within(one.type, path)


def _fields_within(
    kind: DataType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Field]]:
    if isinstance(kind, Row):
        yield from walk_fields(kind.fields, path)
        return
    for step, inner in inner_types(kind):
        yield from _fields_within(inner, (*path, step))


def outermost(
    fields: tuple[Field, ...], known: Container[int]
) -> Iterator[tuple[tuple[str, ...], Field]]:
    """The fields with ids that are not known, without those within one of them."""
    above: tuple[str, ...] | None = None
    for path, one in walk_fields(fields):
        if above is not None and path[: len(above)] == above:
            continue
        if one.id not in known:
            above = path
            yield path, one


def check_depth(kind: DataType) -> DataType:
    """The type itself. Raises BadType for one with too many others in it."""
    level: list[DataType] = [kind]
    for _ in range(_MOST_DEEP):
        level = [inner for one in level for _, inner in inner_types(one)]
        if not level:
            return kind
    raise BadType("the type is nested too deeply")


def holds_blobs(kind: DataType) -> bool:
    """Whether the values of a column are BLOBs, alone or in an ARRAY or the values of a MAP."""
    match kind:
        case Array(inner) | Map(_, inner):
            return inner.root == "BLOB"
    return kind.root == "BLOB"


def contains_root(kind: DataType, *roots: str) -> bool:
    """Whether a type is one of these, or has one in it."""
    return kind.root in roots or any(contains_root(one, *roots) for _, one in inner_types(kind))
