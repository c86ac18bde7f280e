"""Conditions as JSON hints: what of them any server can be told without losing rows.

A hint may let through more than the condition, never less. Widespread servers evaluate `not`
and `isNull` wrongly (they pass over files that have both nulls and values, or no statistics),
so a hint is built of comparisons, `and` and `or` alone; what else a condition says is decided
after reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.predicates import Both, Compare, Condition, In, Literal, Not
from deltacli.delta.schema import Primitive, Struct
from deltacli.sharing.hints import field_at

_OPS = {
    "=": "equal",
    "<=>": "equal",
    "<": "lessThan",
    "<=": "lessThanOrEqual",
    ">": "greaterThan",
    ">=": "greaterThanOrEqual",
}
_INVERTED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "!=": "="}
_VALUE_TYPES = {
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "string": "string",
    "boolean": "bool",
    "date": "date",
    "timestamp": "timestamp",
    "float": "float",
    "double": "double",
}
_MOST_VALUES = 20
# Statistics of timestamps are cut to milliseconds.
_CUT = timedelta(milliseconds=1)


def json_hint(condition: Condition, schema: Struct) -> str | None:
    """The hint of a condition; None if no part of it can be told."""
    tree = _tree(condition, schema, is_not=False)
    return None if tree is None else json_text.dump(tree).decode()


def _tree(condition: Condition, schema: Struct, *, is_not: bool) -> dict[str, Any] | None:
    """What holds wherever the condition (or its opposite) does; None is anything."""
    if isinstance(condition, Not):
        return _tree(condition.inner, schema, is_not=not is_not)
    if isinstance(condition, Both):
        parts = [_tree(one, schema, is_not=is_not) for one in condition.parts]
        return _joined("and" if condition.is_and != is_not else "or", parts)
    if isinstance(condition, Compare):
        sign = _INVERTED.get(condition.sign) if is_not else condition.sign
        if sign is None or not isinstance(condition.right, Literal):
            return None
        return _comparison(sign, condition.left.path, condition.right.value, schema)
    if isinstance(condition, In) and not is_not and len(condition.values) <= _MOST_VALUES:
        path = condition.left.path
        return _joined("or", [_comparison("=", path, one, schema) for one in condition.values])
    return None


def _joined(op: str, parts: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    known = [one for one in parts if one is not None]
    if not known or (op == "or" and len(known) < len(parts)):
        return None
    return known[0] if len(known) == 1 else {"op": op, "children": known}


def _comparison(
    sign: str, path: tuple[str, ...], value: Any, schema: Struct
) -> dict[str, Any] | None:
    field = field_at(schema, path)
    if field is None or not isinstance(field.type, Primitive) or sign not in _OPS:
        return None
    if "__COLLATIONS" in field.metadata:
        return None
    kind = _VALUE_TYPES.get(field.type.name)
    # A name with a dot in it could be taken for a path.
    if kind is None or value is None or any("." in one for one in path):
        return None
    name = ".".join(_own_names(schema, path))
    if kind in ("float", "double") and sign in (">", ">="):
        # NaN is greater than all, and in no statistics.
        return None
    if kind == "timestamp":
        return _instant(sign, name, value)
    text = _literal(value, kind)
    return None if text is None else _leaf(sign, name, text, kind)


def _own_names(schema: Struct, path: tuple[str, ...]) -> Iterator[str]:
    """The names as the schema has them: not every server looks for them in any case."""
    for count in range(1, len(path) + 1):
        field = field_at(schema, path[:count])
        yield field.name if field else path[count - 1]


def _instant(sign: str, name: str, value: Any) -> dict[str, Any] | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    try:
        early, value = (value - _CUT).astimezone(UTC), value.astimezone(UTC)
    except OverflowError:
        return None
    least = _leaf(">=", name, _instant_text(early), "timestamp")
    if sign in (">", ">="):
        return least
    most = _leaf("<=" if sign in ("=", "<=>") else sign, name, _instant_text(value), "timestamp")
    return {"op": "and", "children": [least, most]} if sign in ("=", "<=>") else most


def _instant_text(value: datetime) -> str:
    return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _literal(value: Any, kind: str) -> str | None:
    """A value's text in a hint, if it is of the column's own type."""
    if isinstance(value, bool):
        return str(value).lower() if kind == "bool" else None
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        fits = isinstance(value, int) and -(2**bits) <= value < 2**bits
        return str(value) if fits else None
    if kind in ("float", "double"):
        return _real(value, kind)
    if kind == "date":
        return value.isoformat() if type(value) is date else None
    return value if kind == "string" and isinstance(value, str) else None


def _real(value: Any, kind: str) -> str | None:
    """A number that is exactly a float of 32 or 64 bits."""
    if kind == "float" or not isinstance(value, int | float | Decimal):
        # Spark compares floats as doubles, others the other way round.
        return None
    number = float(value)
    return repr(number) if number == value and abs(number) < float("inf") else None


def _leaf(sign: str, name: str, text: str, kind: str) -> dict[str, Any]:
    return {
        "op": _OPS[sign],
        "children": [
            {"op": "column", "name": name, "valueType": kind},
            {"op": "literal", "value": text, "valueType": kind},
        ],
    }


__all__ = ["json_hint"]
