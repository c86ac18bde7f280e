"""A schema file: its JSON as a value, and back in the layout of Paimon's Java (facts 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from deltacli.delta import json_text
from deltacli.paimon.type_text import check_names, parse_atomic
from deltacli.paimon.types import (
    Array,
    Atomic,
    BadType,
    DataType,
    Field,
    Map,
    Multiset,
    Row,
    Vector,
    check_depth,
    sql_text,
    walk_fields,
)

# What this program writes, and the newest that it knows.
NEWEST_VERSION = 3
# What schemas were before the files said so (Paimon up to 0.7).
_FIRST_VERSION = 1
_REQUIRED = ("id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options")
_INT = 2**31


class BadSchema(ValueError):
    """A schema file breaks the specification; `place` is the column or member."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema.

    `version` is that of the file's format, `id` the version of the schema. `options` are
    those in the file.
    """

    version: int
    id: int
    fields: tuple[Field, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None
    time_ms: int
    # What the file holds, as it stands there.
    tree: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @cached_property
    def effective_options(self) -> Mapping[str, str]:
        """The options with those that hold for old versions where the file is silent."""
        options = dict(self.options)
        if self.version <= 1:
            options.setdefault("bucket", "1")
        if self.version <= 2:
            options.setdefault("file.format", "orc")
        return options

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.fields)

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        return {one.name: one for one in self.fields}

    @cached_property
    def by_id(self) -> Mapping[int, tuple[str, Field]]:
        """Nested fields too, each with its path."""
        return {one.id: (".".join(path), one) for path, one in walk_fields(self.fields)}


# -- reading -----------------------------------------------------------------------------


def parse_schema(content: bytes) -> TableSchema:
    """The schema of a file. Raises BadSchema; members that nobody knows are passed over."""
    try:
        tree = json_text.load(content)
        return _schema(tree)
    except BadSchema:
        raise
    except RecursionError:
        raise BadSchema("it is nested too deeply") from None
    except ValueError as error:
        what = "it is empty" if not content.strip() else f"it is not JSON: {error}"
        raise BadSchema(what) from None


def _schema(tree: Any) -> TableSchema:
    if not isinstance(tree, dict):
        raise BadSchema("it is not a JSON object")
    for name in _REQUIRED:
        if tree.get(name) is None:
            raise BadSchema(f"member {name} is missing")
    fields = tree["fields"]
    if not isinstance(fields, list):
        raise BadSchema("it is not a list", "fields")
    comment = tree.get("comment")
    return TableSchema(
        version=_integer(tree, "version") if tree.get("version") is not None else _FIRST_VERSION,
        id=_integer(tree, "id", 2**63),
        fields=tuple(_field(one, "") for one in fields),
        highest_field_id=_integer(tree, "highestFieldId"),
        partition_keys=_texts(tree, "partitionKeys"),
        primary_keys=_texts(tree, "primaryKeys"),
        options=_options(tree["options"]),
        comment=None if comment is None else _plain(comment),
        time_ms=_integer(tree, "timeMillis", 2**63) if tree.get("timeMillis") is not None else 0,
        tree=tree,
    )


def _integer(tree: Mapping[str, Any], name: str, bound: int = _INT, place: str = "") -> int:
    value = tree.get(name)
    if type(value) is not int or not -bound <= value < bound:
        raise BadSchema(f"{_cut(value)} is no integer", f"{place}.{name}" if place else name)
    return value


def _texts(tree: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = tree[name]
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadSchema("it is not a list of names", name)
    return tuple(value)


def _options(tree: Any) -> dict[str, str]:
    if not isinstance(tree, dict):
        raise BadSchema("it is not an object", "options")
    return {key: _plain(value) for key, value in tree.items()}


def _plain(value: Any) -> str:
    """A value as the text that Paimon takes it for."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return ""
    return json_text.dump(value).decode()


def _cut(value: Any) -> str:
    text = _plain(value) or type(value).__name__
    return text if len(text) <= 60 else text[:60] + "…"


def _field(tree: Any, above: str) -> Field:
    place = _place(tree, above)
    if tree.get("id") is None:
        raise BadSchema("it has no id", place)
    try:
        kind = parse_type(tree.get("type"), lambda one: _field(one, place))
        if not above:
            check_depth(kind)
    except BadType as error:
        raise BadSchema(f"bad type of {place}: {error}") from None
    return _field_of(tree, _integer(tree, "id", place=place), kind)


def _place(tree: Any, above: str) -> str:
    if not isinstance(tree, dict):
        raise BadSchema("a field is not an object", above)
    name = tree.get("name")
    if not isinstance(name, str):
        raise BadSchema("a field has no name", above)
    return f"{above}.{name}" if above else name


def _field_of(tree: Mapping[str, Any], own_id: int, kind: DataType) -> Field:
    description, default = tree.get("description"), tree.get("defaultValue")
    return Field(
        own_id,
        tree["name"],
        kind,
        None if description is None else _plain(description),
        None if default is None else _plain(default),
    )


def parse_type(tree: Any, parse_field: Callable[[Any], Field] | None = None) -> DataType:
    """The type of a JSON value. Raises BadType.

    Without a `parse_field`, fields of a ROW may leave out their ids: then they are numbered.
    """
    if parse_field is None:
        parse_field = _Numbering().field
    if isinstance(tree, str):
        return parse_atomic(tree)
    text = tree.get("type") if isinstance(tree, dict) else None
    if not isinstance(text, str):
        raise BadType(f"Can not parse: {_json(tree)}")
    nullable = tree.get("nullable")
    if not isinstance(nullable, bool):
        nullable = not text.endswith(" NOT NULL")

    def inner(name: str) -> DataType:
        if tree.get(name) is None:
            raise BadType(f"{text} has no {name}")
        return parse_type(tree[name], parse_field)

    if text.startswith("ARRAY"):
        return Array(inner("element"), nullable)
    if text.startswith("VECTOR"):
        length = tree.get("length")
        if type(length) is not int:
            raise BadType(f"{text} has no length")
        return Vector(inner("element"), length, nullable)
    if text.startswith("MULTISET"):
        return Multiset(inner("element"), nullable)
    if text.startswith("MAP"):
        return Map(inner("key"), inner("value"), nullable)
    if text.startswith("ROW"):
        fields = tree.get("fields")
        if not isinstance(fields, list):
            raise BadType(f"{text} has no fields")
        row = Row(tuple(parse_field(one) for one in fields), nullable)
        check_names(list(row.fields))
        return row
    raise BadType(f"Can not parse: {_json(tree)}")


class _Numbering:
    """Fields whose ids are left out are numbered as they come; all have ids, or none."""

    def __init__(self) -> None:
        self._last = -1

    def field(self, tree: Any) -> Field:
        try:
            _place(tree, "")
            if tree.get("id") is None:
                self._last += 1
                own_id = self._last
            elif self._last < 0:
                own_id = _integer(tree, "id")
            else:
                raise BadType("Partial field id is not allowed.")
        except BadSchema as error:
            raise BadType(str(error)) from None
        return _field_of(tree, own_id, parse_type(tree.get("type"), self.field))


def _json(tree: Any) -> str:
    text = json_text.dump(tree).decode()
    return text if len(text) <= 200 else text[:200] + "…"


# -- writing -----------------------------------------------------------------------------


def type_tree(kind: DataType) -> Any:
    """A type as Paimon's Java writes it."""
    if isinstance(kind, Atomic):
        return sql_text(kind)
    text = kind.root + ("" if kind.nullable else " NOT NULL")
    match kind:
        case Map(key, value):
            return {"type": text, "key": type_tree(key), "value": type_tree(value)}
        case Row(fields):
            return {"type": text, "fields": [field_tree(one) for one in fields]}
        case Vector(element, length):
            return {"type": text, "element": type_tree(element), "length": length}
        case Array(element) | Multiset(element):
            return {"type": text, "element": type_tree(element)}


def field_tree(one: Field) -> dict[str, Any]:
    tree: dict[str, Any] = {"id": one.id, "name": one.name, "type": type_tree(one.type)}
    if one.description is not None:
        tree["description"] = one.description
    if one.default is not None:
        tree["defaultValue"] = one.default
    return tree


def schema_tree(schema: TableSchema) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "version": schema.version,
        "id": schema.id,
        "fields": [field_tree(one) for one in schema.fields],
        "highestFieldId": schema.highest_field_id,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "options": dict(schema.options),
    }
    if schema.comment is not None:
        tree["comment"] = schema.comment
    tree["timeMillis"] = schema.time_ms
    return tree


def schema_text(schema: TableSchema) -> bytes:
    """The content of a file for a schema, laid out as Paimon's Java does.

    Raises BadSchema for one that nobody could read.
    """
    try:
        content = "".join(_lines(schema_tree(schema), 0)).encode()
    except UnicodeEncodeError:
        raise BadSchema("a name or text in it has characters that are none") from None
    if parse_schema(content) != schema:
        raise BadSchema("what would be read is not what was written")
    return content


def _lines(tree: Any, depth: int) -> Iterator[str]:
    if isinstance(tree, dict):
        if not tree:
            yield "{ }"
            return
        indent = "\n" + "  " * (depth + 1)
        for position, (key, value) in enumerate(tree.items()):
            yield f"{',' if position else '{'}{indent}{_text(key)} : "
            yield from _lines(value, depth + 1)
        yield "\n" + "  " * depth + "}"
    elif isinstance(tree, list):
        for position, value in enumerate(tree):
            yield ", " if position else "[ "
            # Lists stand on one line, so what is in them is not moved in.
            yield from _lines(value, depth)
        yield " ]" if tree else "[ ]"
    else:
        yield _text(tree) if isinstance(tree, str) else str(tree)


_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _text(text: str) -> str:
    escaped = "".join(
        _SHORT.get(one) or (one if one >= " " else f"\\u{ord(one):04X}") for one in text
    )
    return f'"{escaped}"'
