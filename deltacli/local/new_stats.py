"""Statistics of a file that is being written, in the form that the log has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta import json_text
from deltacli.delta.schema import Field, Struct
from deltacli.delta.stats_schema import has_min_max

_MOST_LETTERS = 32
_LAST_LETTER = "\U0010ffff"
_MILLISECOND = timedelta(milliseconds=1)
_LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, 998_999)


class NewStats:
    """Counts and bounds of the indexed leaves, over all batches of a file."""

    def __init__(self, indexed: Struct, *, has_tight_bounds: bool):
        self._leaves = [_Leaf(path, one) for path, one in _leaves(indexed, ())]
        self._has_tight_bounds = has_tight_bounds
        self.rows = 0

    def take(self, batch: Any) -> None:
        """A batch or table with the file's own column names."""
        self.rows += batch.num_rows
        for leaf in self._leaves:
            if leaf.path[0] in batch.schema.names:
                leaf.take(_inside(batch.column(leaf.path[0]), leaf.path[1:]))
            else:
                leaf.nulls += batch.num_rows

    def text(self) -> str:
        body: dict[str, Any] = {"numRecords": self.rows}
        lows: dict[str, Any] = {}
        highs: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        for leaf in self._leaves:
            _put(nulls, leaf.path, leaf.nulls)
            bounds = leaf.bounds()
            if bounds is not None:
                _put(lows, leaf.path, bounds[0])
                _put(highs, leaf.path, bounds[1])
        body.update(minValues=lows, maxValues=highs, nullCount=nulls)
        if self._has_tight_bounds:
            body["tightBounds"] = True
        return json_text.dump(body).decode()


class _Leaf:
    def __init__(self, path: tuple[str, ...], field: Field):
        self.path = path
        self.nulls = 0
        self._has_bounds = has_min_max(field.type)
        self._low: Any = None
        self._high: Any = None

    def take(self, values: Any) -> None:
        self.nulls += values.null_count
        if not self._has_bounds or values.null_count == len(values):
            return
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            # JSON has no NaN, and bounds that leave it out would be wrong.
            self._has_bounds = False
            return
        ends = pc.min_max(values)
        try:
            low, high = (_value(ends[side]) for side in ("min", "max"))
        except (OverflowError, ValueError):
            # Python knows no year 10000, and neither do the texts of statistics.
            self._has_bounds = False
            return
        self._low = low if self._low is None or low < self._low else self._low
        self._high = high if self._high is None or high > self._high else self._high

    def bounds(self) -> tuple[Any, Any] | None:
        if not self._has_bounds or self._low is None:
            return None
        low, high = _text_of(self._low, up=False), _text_of(self._high, up=True)
        return None if low is None or high is None else (low, high)


def _leaves(schema: Struct, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Field]]:
    for one in schema.fields:
        path = (*above, one.physical_name)
        if isinstance(one.type, Struct):
            yield from _leaves(one.type, path)
        else:
            yield path, one


def _inside(column: Any, path: tuple[str, ...]) -> Any:
    """A nested field, null where what it lies in is null."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    for name in path:
        if column.type.get_field_index(name) < 0:
            return pa.nulls(len(column))
        column = pc.struct_field(column, [name])
    return column


def _value(scalar: Any) -> Any:
    """Instants as counts of microseconds: Python's own need a time zone database."""
    if pa.types.is_timestamp(scalar.type):
        moment = datetime(1970, 1, 1, tzinfo=UTC if scalar.type.tz else None)
        return moment + timedelta(microseconds=scalar.value)
    return scalar.as_py()


def _text_of(value: Any, *, up: bool) -> Any:
    """A bound as JSON has it, never narrower than the value; None if there is none."""
    if isinstance(value, str):
        return _cut(value, up=up)
    if isinstance(value, datetime):
        cut = value.replace(microsecond=value.microsecond // 1000 * 1000)
        if up and cut != value:
            if cut.year == 9999 and cut.replace(tzinfo=None) > _LAST_MOMENT:
                return None
            cut += _MILLISECOND
        text = cut.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return f"{text}Z" if value.tzinfo else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and math.isinf(value):
        return None
    return json_text.Verbatim(str(value)) if isinstance(value, Decimal) else value


def _cut(text: str, *, up: bool) -> str | None:
    if len(text) <= _MOST_LETTERS:
        return text
    # The greatest letter sorts behind whatever was cut off, but for itself.
    if not up:
        return text[:_MOST_LETTERS]
    rest = text[_MOST_LETTERS:]
    return None if rest[0] == _LAST_LETTER else text[:_MOST_LETTERS] + _LAST_LETTER


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value
