"""Conditions over record batches, with SQL's three-valued logic and Spark's order of values."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.predicates import (
    DATE,
    TIMESTAMP,
    Both,
    Column,
    Compare,
    Condition,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    NotSimple,
)

_FUNCTIONS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def holds(condition: Condition, batch: Any) -> Any:
    """For each row whether the condition holds: true, false or null. Raises NotSimple."""
    if isinstance(condition, Column):
        values = _values(condition, batch)
        if not pa.types.is_boolean(values.type):
            raise NotSimple(f"{'.'.join(condition.path)} is no condition")
        return values
    if isinstance(condition, Not):
        return pc.invert(holds(condition.inner, batch))
    if isinstance(condition, Both):
        parts = [holds(part, batch) for part in condition.parts]
        combine = pc.and_kleene if condition.is_and else pc.or_kleene
        result = parts[0]
        for part in parts[1:]:
            result = combine(result, part)
        return result
    values = _values(condition.left, batch)
    if isinstance(condition, IsNull):
        return pc.is_null(values)
    if isinstance(condition, Like):
        if not pa.types.is_string(values.type):
            raise NotSimple("LIKE of what is no text")
        return pc.match_like(values, condition.pattern)
    if isinstance(condition, In):
        parts = [_compare("=", values, _literal(one, values.type)) for one in condition.values]
        result = parts[0]
        for part in parts[1:]:
            result = pc.or_kleene(result, part)
        return result
    return _compare_with(condition, values, batch)


def _compare_with(condition: Compare, values: Any, batch: Any) -> Any:
    right = condition.right
    if isinstance(right, Literal):
        other = _literal(right.value, values.type)
    else:
        other = _values(right, batch)
        if other.type != values.type or pa.types.is_floating(values.type):
            raise NotSimple("columns of different types, or of floating point")
    if condition.sign != "<=>":
        return _compare(condition.sign, values, other)
    both_null = pc.and_(pc.is_null(values), pc.is_null(other))
    return pc.or_(both_null, pc.fill_null(_compare("=", values, other), False))


def _compare(sign: str, values: Any, other: Any) -> Any:
    try:
        result = _FUNCTIONS[sign](values, other)
    except pa.ArrowException as error:
        raise NotSimple(str(error).splitlines()[0]) from None
    if pa.types.is_floating(values.type) and sign in (">", ">="):
        # Spark takes NaN for greater than any number.
        return pc.if_else(pc.is_null(result), None, pc.or_(result, pc.is_nan(values)))
    return result


def _values(column: Column, batch: Any) -> Any:
    values = _child(column.path[0], batch.schema.names, batch.column)
    for name in column.path[1:]:
        if not pa.types.is_struct(values.type):
            raise NotSimple(f"{'.'.join(column.path)} is no field")
        names = [one.name for one in values.type]
        values = _child(name, names, lambda own, inside=values: pc.struct_field(inside, [own]))
    return values


def _child(name: str, names: list[str], get: Any) -> Any:
    exact = [one for one in names if one == name] or [
        one for one in names if one.lower() == name.lower()
    ]
    if len(exact) != 1:
        raise NotSimple(f"there is no column {name!r}")
    return get(exact[0])


def _literal(value: Any, kind: Any) -> Any:
    """A literal to be compared with values of a type. Raises NotSimple where SQL would convert."""
    try:
        return _converted(value, kind)
    except (pa.ArrowException, OverflowError) as error:
        raise NotSimple(str(error).splitlines()[0]) from None


def _converted(value: Any, kind: Any) -> Any:
    if value is None:
        return pa.scalar(None, kind)
    if isinstance(value, bool):
        fits = pa.types.is_boolean(kind)
    elif isinstance(value, int):
        if pa.types.is_integer(kind) and -(2**63) <= value < 2**63:
            return pa.scalar(value, pa.int64())
        if pa.types.is_decimal(kind):
            value = Decimal(value)
        fits = pa.types.is_decimal(kind) or (pa.types.is_float64(kind) and abs(value) < 2**53)
        if pa.types.is_float64(kind):
            value = float(value)
    elif isinstance(value, Decimal):
        if pa.types.is_decimal(kind):
            return pa.scalar(value)
        fits = pa.types.is_float64(kind)
        value = float(value)
    elif isinstance(value, float):
        fits = pa.types.is_float64(kind)
    elif isinstance(value, str):
        return _literal_text(value, kind)
    else:
        fits = pa.types.is_date(kind) if type(value) is date else pa.types.is_timestamp(kind)
        if isinstance(value, datetime) and fits and kind.tz is None:
            raise NotSimple("a time with a zone and one without")
    if not fits:
        raise NotSimple(f"{value!r} is compared with a {kind}")
    return pa.scalar(Decimal(value) if pa.types.is_decimal(kind) else value)


def _literal_text(value: str, kind: Any) -> Any:
    if pa.types.is_string(kind):
        return pa.scalar(value)
    try:
        if pa.types.is_date(kind) and DATE.fullmatch(value):
            return pa.scalar(date.fromisoformat(value))
        if pa.types.is_timestamp(kind) and TIMESTAMP.fullmatch(value):
            moment = datetime.fromisoformat(value)
            if kind.tz is None and moment.tzinfo is None:
                return pa.scalar(moment, kind)
            if kind.tz is not None:
                return pa.scalar(moment if moment.tzinfo else moment.replace(tzinfo=UTC), kind)
    except ValueError:
        pass
    raise NotSimple(f"{value!r} is compared with a {kind}")
