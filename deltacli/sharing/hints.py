"""Predicate hints of a query as conditions: JSON trees, and SQL in a small part of it.

A hint only saves files. What is not understood, or would not compare as the client means
it, says nothing: it becomes a condition that anything may be (reference 2.3).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.predicates import (
    DATE,
    Both,
    Column,
    Compare,
    Condition,
    In,
    IsNull,
    Literal,
    Not,
    NotSimple,
    columns_of,
    parse_condition,
)
from deltacli.delta.schema import Field, Primitive, Struct

_MOST_CHARACTERS = 1 << 20
_MOST_SQL = 1 << 16
_MOST_DEPTH = 100
_MOST_NODES = 1000
# No column of a table: nobody knows whether it is true.
_UNKNOWN = Column(())

_SIGNS = {
    "equal": "=",
    "lessThan": "<",
    "lessThanOrEqual": "<=",
    "greaterThan": ">",
    "greaterThanOrEqual": ">=",
}
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_VALUE_TYPES = ("bool", "int", "long", "string", "date", "float", "double", "timestamp")
# The column types that keep all their values and their order as a value type.
_KEPT = {
    "bool": ("boolean",),
    "int": ("byte", "short", "integer"),
    "long": ("byte", "short", "integer", "long"),
    "string": ("string",),
    "date": ("date",),
    "float": ("float",),
    "double": ("float", "double"),
    "timestamp": ("timestamp",),
}


_NO_TREE = (TypeError, ValueError, ArithmeticError)
_NO_TREE_TEXT = "the JSON is no tree of operations"


class BadHint(ValueError):
    """A hint that is not used; the message says why."""


@dataclass(frozen=True, slots=True)
class Hints:
    """The conditions that all rows a client wants fulfil, and why hints were passed over."""

    conditions: tuple[Condition, ...] = ()
    skipped: tuple[str, ...] = ()


def read_hints(sql: Sequence[str], tree: Any, schema: Struct) -> Hints:
    """The hints of a query, as far as they can be used. `tree` is the JSON text, or None."""
    conditions: list[Condition] = []
    skipped: list[str] = []
    left = _MOST_SQL
    for text in sql:
        left -= len(text)
        if left < 0:
            skipped.append("there are too many hints")
            break
        try:
            conditions.append(_of_sql(text, schema))
        except BadHint as error:
            skipped.append(str(error))
    if tree is not None:
        try:
            conditions.append(_of_json(tree, schema))
        except BadHint as error:
            skipped.append(str(error))
        except _NO_TREE:
            # Whatever somebody sends as a hint, it is no reason to fail.
            skipped.append(_NO_TREE_TEXT)
    try:
        _check_size(Both(True, tuple(conditions)))
    except BadHint as error:
        return Hints((), (*skipped, str(error)))
    return Hints(tuple(conditions), tuple(skipped))


def check_json_hint(text: str, schema: Struct) -> None:
    """Raise BadHint for a JSON hint that servers would pass over."""
    try:
        condition = _of_json(text, schema)
    except BadHint:
        raise
    except _NO_TREE:
        raise BadHint(_NO_TREE_TEXT) from None
    if condition == _UNKNOWN:
        raise BadHint("it compares nothing that a server knows of: check names and value types")


def _of_sql(text: str, schema: Struct) -> Condition:
    try:
        condition = parse_condition(text)
    except NotSimple as error:
        raise BadHint(f"the SQL is not understood: {error}") from None
    _check_size(condition)
    for column in columns_of(condition):
        if field_at(schema, column.path) is None:
            raise BadHint("the SQL names no column of the table")
    return _certain(condition)


def _certain(condition: Condition) -> Condition:
    """The condition without comparisons with NULL: many who write them mean IS NULL."""
    if isinstance(condition, Both):
        return Both(condition.is_and, tuple(map(_certain, condition.parts)))
    if isinstance(condition, Not):
        return Not(_certain(condition.inner))
    if isinstance(condition, Compare) and condition.right == Literal(None):
        return IsNull(condition.left) if condition.sign == "<=>" else _UNKNOWN
    return condition


def _check_size(condition: Condition) -> None:
    """Raise BadHint for a condition that would take more time than it saves."""
    nodes, waiting = 0, [(condition, 1)]
    while waiting:
        one, depth = waiting.pop()
        nodes += len(one.values) if isinstance(one, In) else 1
        if depth > _MOST_DEPTH or nodes > _MOST_NODES:
            raise BadHint("a hint is too large")
        if isinstance(one, Not):
            waiting.append((one.inner, depth + 1))
        elif isinstance(one, Both):
            waiting += [(part, depth + 1) for part in one.parts]


def _of_json(text: Any, schema: Struct) -> Condition:
    if not isinstance(text, str):
        raise BadHint("the JSON is not in a string")
    if len(text) > _MOST_CHARACTERS:
        raise BadHint("the JSON is too long")
    try:
        tree = json_text.load(text)
    except ValueError:
        raise BadHint("the JSON cannot be read") from None
    condition = _Reader(schema).condition(tree, 1)
    _check_size(condition)
    return condition


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the nodes of a JSON tree. Raises BadHint for what is no such tree."""

    schema: Struct

    def condition(self, node: Any, depth: int) -> Condition:
        if depth > _MOST_DEPTH:
            raise BadHint("the JSON is nested too deeply")
        op = _op_of(node)
        if op in ("column", "literal"):
            # A bare boolean is a condition, of which the log says nothing.
            self.leaf(node)
            if node["valueType"] != "bool":
                raise BadHint("a column or literal is no condition")
            return _UNKNOWN
        children = node.get("children") if isinstance(node, Mapping) else None
        if not isinstance(children, list):
            raise BadHint("an operation has no children")
        if op in ("and", "or"):
            if len(children) < 2:
                raise BadHint(f"{op} has less than two children")
            return Both(op == "and", tuple(self.condition(one, depth + 1) for one in children))
        if op == "not":
            (child,) = _exactly(children, 1)
            return Not(self.condition(child, depth + 1))
        if op == "isNull":
            (child,) = _exactly(children, 1)
            if _op_of(child) != "column":
                raise BadHint("isNull asks a column")
            name, _ = self.leaf(child)
            column = self.column(name)
            return _UNKNOWN if column is None else IsNull(column[0])
        if op not in _SIGNS:
            raise BadHint("an operation is unknown")
        left, right = _exactly(children, 2)
        return self.comparison(_SIGNS[op], left, right)

    def comparison(self, sign: str, left: Any, right: Any) -> Condition:
        leaves = [self.leaf(left), self.leaf(right)]
        kind = left["valueType"]
        if right["valueType"] != kind:
            raise BadHint("two value types are compared")
        if left["op"] == right["op"]:
            return _UNKNOWN
        if left["op"] == "literal":
            leaves.reverse()
            sign = _MIRRORED[sign]
        column = self.column(leaves[0][0])
        if column is None or column[1] not in _KEPT[kind]:
            return _UNKNOWN
        return Compare(sign, column[0], Literal(leaves[1][1]))

    def leaf(self, node: Any) -> tuple[str, Any]:
        """The name of a column, or the value of a literal, each with nothing in the other."""
        op = _op_of(node)
        if op not in ("column", "literal"):
            raise BadHint("a comparison is between columns and literals")
        kind = node.get("valueType")
        if not isinstance(kind, str) or kind not in _VALUE_TYPES:
            raise BadHint("a value type is unknown")
        if op == "literal":
            return "", _literal(node.get("value"), kind)
        name = node.get("name")
        if not isinstance(name, str):
            raise BadHint("a column has no name")
        return name, None

    def column(self, name: str) -> tuple[Column, str] | None:
        """The one column that a name can mean, with its type; None if there is none such."""
        paths = [(name,)] + ([tuple(name.split("."))] if "." in name else [])
        found = [(path, field_at(self.schema, path)) for path in paths]
        known = [(path, field) for path, field in found if field is not None]
        if len(known) != 1:
            return None
        path, field = known[0]
        return (Column(path), field.type.name) if isinstance(field.type, Primitive) else None


def _op_of(node: Any) -> str:
    op = node.get("op") if isinstance(node, Mapping) else None
    return op if isinstance(op, str) else ""


def _exactly(children: list[Any], count: int) -> list[Any]:
    if len(children) != count:
        raise BadHint("an operation has the wrong number of children")
    return children


def field_at(schema: Struct, path: tuple[str, ...]) -> Field | None:
    """The field at a path of names, in any case; None if there is not exactly one."""
    field = None
    inside: Any = schema
    for name in path:
        if not isinstance(inside, Struct):
            return None
        same = [one for one in inside.fields if one.name == name] or [
            one for one in inside.fields if one.name.lower() == name.lower()
        ]
        if len(same) != 1:
            return None
        field = same[0]
        inside = field.type
    return field


_BITS = {"int": 31, "long": 63}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_REAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


def _literal(text: Any, kind: str) -> Any:
    """A literal's value. Raises BadHint."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise BadHint("a literal has no text")
    text = str(text)
    try:
        if kind == "bool":
            return {"true": True, "false": False}[text.lower()]
        if kind in _BITS:
            number = int(text) if _WHOLE.fullmatch(text) else 2**64
            if not -(2 ** _BITS[kind]) <= number < 2 ** _BITS[kind]:
                raise ValueError
            return number
        if kind in ("float", "double"):
            if not _REAL.fullmatch(text):
                raise ValueError
            return float(text)
        if kind == "date":
            if not DATE.fullmatch(text):
                raise ValueError
            return date.fromisoformat(text)
        if kind == "timestamp":
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                raise ValueError
            return moment
    except (ValueError, KeyError):
        raise BadHint(f"a literal is no {kind}") from None
    return text


__all__ = ["BadHint", "Hints", "check_json_hint", "field_at", "read_hints"]
