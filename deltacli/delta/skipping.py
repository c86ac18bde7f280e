"""Whether a file can hold a row for which a condition is true, by what the log says of it.

Each condition is given the set of its possible outcomes: true, false, null. A file is left
out only if true is not among them, so what is not known never loses a row (facts 9.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from deltacli.delta.predicates import (
    Both,
    Column,
    Compare,
    Condition,
    In,
    IsNull,
    Like,
    Literal,
    Not,
)
from deltacli.delta.schema import COLLATIONS, LENGTHS, DataType, Field, Primitive, Struct

_TRUE, _FALSE, _NULL = 1, 2, 4
_ANY = _TRUE | _FALSE | _NULL
_INTEGERS = ("byte", "short", "integer", "long")
# Collated texts, and those padded or cut to a length, do not compare as their characters do.
_OWN_ORDER = {COLLATIONS, LENGTHS}
# Statistics of times are cut to milliseconds, and a condition's time without a zone is in
# that of whoever decides it (ST-2).
_SLACK = timedelta(hours=26)
# Some writers keep decimals as doubles; floats are kept as the shortest text that gives them.
_DOUBLE, _FLOAT, _LEAST_FLOAT = Decimal(2) ** -50, 2.0**-22, 2.0**-149


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one column of a file; None is not known."""

    kind: str
    low: Any = None
    high: Any = None
    can_be_null: bool = True
    can_be_value: bool = True
    has_nan: bool = False


@dataclass(frozen=True)
class FileFacts:
    """A file's statistics and partition values, ready to be asked."""

    schema: Struct
    partition: Mapping[str, Any]
    stats: Mapping[str, Any] | None
    is_mapped: bool

    def of(self, column: Column) -> Facts | None:
        """The facts of a column of simple type; None if there is nothing to go by."""
        field, physical = self._find(column)
        if field is None or not isinstance(field.type, Primitive):
            return None
        kind = _kind_of(field, field.type)
        if len(column.path) == 1 and field.name in self.partition:
            return _of_partition(self.partition[field.name], kind)
        if self.stats is None:
            return None
        low = _inside(self.stats.get("minValues"), physical)
        high = _inside(self.stats.get("maxValues"), physical)
        nulls = _inside(self.stats.get("nullCount"), physical)
        rows = self.stats.get("numRecords")
        is_tight = self.stats.get("tightBounds", True) is not False
        can_be_null = nulls != 0 or type(nulls) is not int
        all_null = type(nulls) is int and type(rows) is int and nulls == rows and is_tight
        low, high = _bounds(_typed(low, kind), _typed(high, kind), kind)
        if kind == "string" and high is not None:
            # Some writers cut the greatest text and do not raise what is left (ST-1).
            high += "\U0010ffff"
        return Facts(
            kind,
            low,
            high,
            can_be_null,
            not all_null,
            kind in ("float", "double"),
        )

    def _find(self, column: Column) -> tuple[Field | None, list[str]]:
        inside: DataType = self.schema
        physical: list[str] = []
        field = None
        for name in column.path:
            if not isinstance(inside, Struct):
                return None, []
            fields = [one for one in inside.fields if one.name == name] or [
                one for one in inside.fields if one.name.lower() == name.lower()
            ]
            if len(fields) != 1:
                return None, []
            field = fields[0]
            physical.append(field.physical_name if self.is_mapped else field.name)
            inside = field.type
        return field, physical


def may_match(
    condition: Condition,
    schema: Struct,
    partition: Mapping[str, Any],
    stats: Mapping[str, Any] | None,
    *,
    is_mapped: bool,
) -> bool:
    """Whether some row of the file may make the condition true."""
    facts = FileFacts(schema, partition, stats, is_mapped)
    return bool(_outcomes(condition, facts) & _TRUE)


def always_matches(condition: Condition, schema: Struct, partition: Mapping[str, Any]) -> bool:
    """Whether every row with these partition values makes the condition true."""
    facts = FileFacts(schema, partition, None, is_mapped=False)
    return _outcomes(condition, facts) == _TRUE


def _outcomes(condition: Condition, facts: FileFacts) -> int:
    if isinstance(condition, Not):
        return _swapped(_outcomes(condition.inner, facts))
    if isinstance(condition, Both):
        parts = [_outcomes(part, facts) for part in condition.parts]
        return _all_of(parts) if condition.is_and else _swapped(_all_of(map(_swapped, parts)))
    if isinstance(condition, Column | Like):
        return _ANY
    known = facts.of(condition.left)
    if known is None:
        return _ANY
    if isinstance(condition, IsNull):
        return (_TRUE if known.can_be_null else 0) | (_FALSE if known.can_be_value else 0)
    if isinstance(condition, In):
        parts = [_compared("=", known, one) for one in condition.values]
        return _swapped(_all_of(map(_swapped, parts)))
    return _of_compare(condition, known)


def _of_compare(condition: Compare, known: Facts) -> int:
    if not isinstance(condition.right, Literal):
        return _ANY
    value = condition.right.value
    if condition.sign != "<=>":
        return _compared(condition.sign, known, value)
    if value is None:
        return (_TRUE if known.can_be_null else 0) | (_FALSE if known.can_be_value else 0)
    equal = _compared("=", known, value)
    # Null is not null-safe-equal to a value: that is false, not unknown.
    return equal & ~_NULL | (_FALSE if equal & _NULL else 0)


def _all_of(parts: Any) -> int:
    every, false, null = _TRUE, 0, 0
    for part in parts:
        every &= part
        false |= part & _FALSE
        null |= part & _NULL
    return every | false | null


def _swapped(outcomes: int) -> int:
    """True and false in each other's place."""
    return (
        outcomes & _NULL | (_FALSE if outcomes & _TRUE else 0) | (_TRUE if outcomes & _FALSE else 0)
    )


def _compared(sign: str, known: Facts, value: Any) -> int:
    """The outcomes of comparing a column's values with a literal."""
    if value is None:
        return _NULL
    null = _NULL if known.can_be_null else 0
    if not known.can_be_value:
        return _NULL
    other = _typed(value, known.kind)
    if other is None or isinstance(value, bool) != (known.kind == "boolean"):
        return _ANY
    low, high = known.low, known.high
    may_be_less = low is None or low < other
    may_be_more = high is None or high > other or known.has_nan
    may_be_equal = (low is None or low <= other) and (high is None or high >= other)
    true = {
        "=": may_be_equal,
        "!=": may_be_less or may_be_more,
        "<": may_be_less,
        "<=": may_be_less or may_be_equal,
        ">": may_be_more,
        ">=": may_be_more or may_be_equal,
    }[sign]
    false = {
        "=": may_be_less or may_be_more,
        "!=": may_be_equal,
        "<": may_be_more or may_be_equal,
        "<=": may_be_more,
        ">": may_be_less or may_be_equal,
        ">=": may_be_less,
    }[sign]
    return null | (_TRUE if true else 0) | (_FALSE if false else 0)


def _inside(tree: Any, path: list[str]) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree


def _typed(value: Any, kind: str) -> Any:
    """A literal or statistic as a value that compares; None if it is not of the type."""
    try:
        if value is None:
            return None
        if kind in _INTEGERS or kind == "decimal":
            if (isinstance(value, str) and type(value) is str) or isinstance(value, float | date):
                return None
            exact = Decimal(str(value))
            return exact if exact.is_finite() and abs(exact.adjusted()) < 100 else None
        if kind in ("float", "double"):
            number = None if isinstance(value, date) or type(value) is str else float(str(value))
            return None if number is None or number != number else number
        if kind == "string":
            return value if type(value) is str else None
        if kind == "boolean":
            return value if isinstance(value, bool) else None
        if kind == "date":
            if isinstance(value, datetime):
                return None
            return value if isinstance(value, date) else date.fromisoformat(str(value))
        if kind in ("timestamp", "timestamp_ntz"):
            return _moment(value)
    except (ValueError, InvalidOperation, OverflowError):
        return None
    return None


def _moment(value: Any) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _kind_of(field: Field, data_type: Primitive) -> str:
    """What the column's values compare as."""
    if _OWN_ORDER & field.metadata.keys():
        return "text in an order of its own"
    if data_type.decimal:
        return "decimal"
    return "float" if data_type.name == "double" and _was_float(field) else data_type.name


def _of_partition(own: Any, kind: str) -> Facts | None:
    """The facts of a partition column: one value, or null for all rows."""
    if own is None:
        return Facts(kind, can_be_value=False)
    if isinstance(own, float) and own != own:
        return Facts(kind, can_be_null=False, has_nan=True)
    value = _typed(own, kind)
    if value is None:
        return None
    low, high = _bounds(value, value, kind)
    return Facts(kind, low, high, can_be_null=False)


def _was_float(field: Field) -> bool:
    changes = field.metadata.get("delta.typeChanges") or []
    return any(one.get("fromType") == "float" for one in changes if isinstance(one, dict))


def _bounds(low: Any, high: Any, kind: str) -> tuple[Any, Any]:
    """Bounds that hold whatever rounding or cutting a writer did."""
    if kind == "string":
        # Cut texts of older writers end in a sign that is not the greatest (ST-1).
        return (None if _is_odd(low) else low), (None if _is_odd(high) else high)
    if kind.startswith("timestamp"):
        return _moved(low, -_SLACK), _moved(high, _SLACK)
    if kind == "decimal":
        return (
            None if low is None else low - abs(low) * _DOUBLE,
            None if high is None else high + abs(high) * _DOUBLE,
        )
    if kind == "float":
        return (
            None if low is None else low - abs(low) * _FLOAT - _LEAST_FLOAT,
            None if high is None else high + abs(high) * _FLOAT + _LEAST_FLOAT,
        )
    return low, high


def _is_odd(text: str | None) -> bool:
    return text is not None and (
        text.endswith("\ufffd") or any("\ud800" <= one <= "\udfff" for one in text)
    )


def _moved(value: Any, by: timedelta) -> Any:
    try:
        return None if value is None else value + by
    except OverflowError:
        return None
