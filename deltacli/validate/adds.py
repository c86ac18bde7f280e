"""Many `add` actions as columns: those of a commit, or some rows of a checkpoint.

A rule goes over a whole column at once, so that a million files are a matter of seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import repeat
from typing import Any, Self

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from deltacli.checking.model import Finding
from deltacli.delta.schema import Field, Primitive, Struct, unmapped
from deltacli.delta.stats import stats_of_struct
from deltacli.validate.commits import Body, Line
from deltacli.validate.definition import Definition, Path

_ODD_PATH = r'[\x00-\x20"<>\\^`{|}\x7f%]|//|(^|/)[._]|^/|^[A-Za-z][A-Za-z0-9+.-]*:'


_ODD_BYTES = bytes(one for one in range(33) if one != 10) + b'"<>\\^`{|}\x7f%:'
_ODD_STEPS = (b"\n/", b"\n.", b"\n_", b"//", b"/.", b"/_")


@dataclass(frozen=True)
class Adds:
    """Adds that stand in one file, under one definition if that is known.

    `column` gives the values of a field, row by row; `numbers` the lines, in a commit. What
    cdc actions say of their files is told in the same way: then they `are_changes`. Of one
    finding for many files, `most` are told one by one.
    """

    file: str
    version: int
    definition: Definition | None
    size: int
    column: Callable[[str], Sequence[Any]]
    numbers: Sequence[int] | None = None
    now_ms: int = 0
    root: str = ""
    are_changes: bool = False
    most: int | None = None

    @classmethod
    def of_lines(
        cls,
        file: str,
        version: int,
        definition: Definition | None,
        lines: Sequence[Line],
        **more: Any,
    ) -> Self:
        bodies = [line.body for line in lines]

        def column(name: str) -> list[Any]:
            return [body.get(name) for body in bodies]

        return cls(
            file, version, definition, len(lines), column, [one.number for one in lines], **more
        )

    @classmethod
    def of_batch(
        cls, file: str, version: int, definition: Definition | None, batch: Any, **more: Any
    ) -> Self:
        names = batch.schema.names

        def column(name: str) -> Any:
            if name not in names:
                return Nones(batch.num_rows)
            if name == "partitionValues":
                return columns_of_map(batch.column(name))
            return batch.column(name).to_pylist()

        return cls(file, version, definition, batch.num_rows, column, **more)

    def finding(self, position: int, message: str) -> Finding:
        line = (self.numbers[position] if self.numbers else None) or None
        return Finding(message, self.paths[position], None, line)

    def findings(self, positions: Sequence[int], message: str) -> Iterator[Finding]:
        """The same of many files."""
        told = positions if self.most is None else positions[: self.most]
        for n in told:
            yield self.finding(n, message)
        if len(told) < len(positions):
            last = self.finding(positions[-1], message)
            yield last._replace(times=len(positions) - len(told))

    @cached_property
    def paths(self) -> Sequence[str]:
        return self.column("path")

    @cached_property
    def path_column(self) -> Any:
        return pa.array(self.paths, pa.string())

    @cached_property
    def odd_paths(self) -> list[tuple[int, str]]:
        """Those with a character or a beginning that a rule may have to look at."""
        # Mostly there is none, which one look at all paths together tells.
        whole = "\n".join(["", *(path or "" for path in self.paths)]).encode("utf-8", "replace")
        is_plain = len(whole.translate(None, _ODD_BYTES)) == len(whole)
        if is_plain and not any(one in whole for one in _ODD_STEPS):
            return []
        odd = pc.match_substring_regex(self.path_column, _ODD_PATH)
        return [(n, self.paths[n]) for n in pc.indices_nonzero(odd).to_pylist()]

    @cached_property
    def vectors(self) -> list[tuple[int, Body]]:
        """The deletion vectors that there are."""
        column = self.column("deletionVector")
        if isinstance(column, Nones):
            return []
        return [(n, one) for n, one in enumerate(column) if one]

    # -- partition values ----------------------------------------------------------------

    @cached_property
    def partition_values(self) -> Objects:
        found = self.column("partitionValues")
        return found if isinstance(found, Objects) else Objects(found)

    @cached_property
    def _texts(self) -> dict[str, Mapping[str | None, int]]:
        return {}

    def partition_texts(self, key: str) -> Mapping[str | None, int]:
        """Each text of a partition column, with the first row that has it."""
        if key not in self._texts:
            values = self.partition_values.get(key, ABSENT)
            # The last one that is put in counts: backwards, that is the first.
            found = dict(zip(reversed(values), range(len(values) - 1, -1, -1), strict=True))
            found.pop(ABSENT, None)
            self._texts[key] = dict(sorted(found.items(), key=lambda pair: pair[1]))
        return self._texts[key]

    # -- statistics ----------------------------------------------------------------------

    @cached_property
    def _parsed(self) -> tuple[list[dict[str, Any] | None], list[int]]:
        """The statistics of each row, and the rows whose text is no JSON object."""
        texts = self.column("stats")
        bad: list[int] = []
        loads = orjson.loads
        try:
            found = [loads(text) if text else None for text in texts]
        except (orjson.JSONDecodeError, TypeError):
            found = [_object_of(text) for text in texts]
        if not set(map(type, found)) <= {dict, type(None)}:
            found = [one if type(one) is dict else None for one in found]
        if None in found:
            bad = [n for n, one in enumerate(found) if one is None and texts[n]]
        structs = self.column("stats_parsed")
        if not isinstance(structs, Nones):
            for n, struct in enumerate(structs):
                if struct is not None and not texts[n]:
                    found[n] = stats_of_struct(struct)
        return found, bad

    @property
    def stats(self) -> list[dict[str, Any] | None]:
        return self._parsed[0]

    @property
    def bad_stats(self) -> list[int]:
        return self._parsed[1]

    @cached_property
    def records(self) -> Sequence[Any]:
        """numRecords as it stands, or None."""
        return self.values(("numRecords",))

    def records_of(self, position: int) -> int | None:
        found = self.records[position]
        return found if type(found) is int and found >= 0 else None

    @cached_property
    def _known(self) -> dict[Path, Objects]:
        return {(): Objects(self.stats)}

    def _objects(self, path: Path) -> Objects:
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = Objects(self.values(path))
        return found

    def values(self, path: Path) -> Sequence[Any]:
        """What stands at a path in the statistics of each row, such as (minValues, a, b)."""
        return self._objects(path[:-1]).get(path[-1])

    def names(self, path: Path) -> frozenset[str]:
        """All names that stand at a path in any row."""
        return self._objects(path).names

    def first_with(self, path: Path) -> int:
        return next((n for n, one in enumerate(self.values(path)) if one is not None), 0)

    @cached_property
    def schema(self) -> Struct | None:
        """The table's columns by the names that statistics use, partition columns apart."""
        definition = self.definition
        if definition is None or definition.schema is None:
            return None
        schema = definition.schema if definition.is_mapped else unmapped(definition.schema)
        own = definition.partition_columns
        named = zip(definition.schema.fields, schema.fields, strict=True)
        return Struct(tuple(one for logical, one in named if logical.name not in own))

    @cached_property
    def leaves(self) -> list[Leaf]:
        """The columns whose statistics any row has, with the values of all."""
        if self.schema is None:
            return []
        tops = {kind: self.names((kind,)) for kind in STATISTICS}
        return list(self._leaves(self.schema, (), tops))

    def _leaves(
        self, schema: Struct, above: Path, names: Mapping[str, frozenset[str]]
    ) -> Iterator[Leaf]:
        for one in schema.fields:
            path = (*above, one.physical_name)
            holders = [kind for kind in STATISTICS if path[-1] in names[kind]]
            if not holders:
                continue
            if isinstance(one.type, Struct):
                inner = {
                    kind: self.names((kind, *path)) if kind in holders else frozenset()
                    for kind in STATISTICS
                }
                yield from self._leaves(one.type, path, inner)
            else:
                yield Leaf(path, one, *(self.values((kind, *path)) for kind in STATISTICS))


def _object_of(text: Any) -> Any:
    try:
        return orjson.loads(text) if text else None
    except (orjson.JSONDecodeError, TypeError):
        return None


class LiveAdds(Adds):
    """Live files under the newest definition, for what must hold of them as they are now."""


STATISTICS = ("minValues", "maxValues", "nullCount")


@dataclass(frozen=True)
class Leaf:
    """The statistics of one column, row by row, as they stand.

    It does not know its rows: they go as soon as nobody asks for them.
    """

    path: Path
    field: Field
    low_values: Sequence[Any]
    high_values: Sequence[Any]
    nulls: Sequence[Any]

    @property
    def type(self) -> str:
        return self.field.type.name if isinstance(self.field.type, Primitive) else ""

    @cached_property
    def lows(self) -> Bounds:
        return bounds(self.low_values, self.type)

    @cached_property
    def highs(self) -> Bounds:
        return bounds(self.high_values, self.type)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Values that compare, or None; `bad` are the positions of what is none of the type."""

    values: Sequence[Any]
    bad: Sequence[int] = ()

    @property
    def has_gaps(self) -> bool:
        """Whether a row has none."""
        return isinstance(self.values, Nones) or None in self.values


_BITS = {"byte": 7, "short": 15, "integer": 31, "long": 63}
_NOT_FINITE = {"NaN": float("inf"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def bounds(values: Sequence[Any], kind: str) -> Bounds:
    """Minima or maxima of a column as what compares (ST-1 … ST-6)."""
    types = set(map(type, values))
    types.discard(type(None))
    if not types:
        return Bounds(Nones(len(values)))
    if kind in _BITS:
        if types == {int} and _within(values, 2 ** _BITS[kind]):
            return Bounds(values)
    elif kind in ("float", "double"):
        if types <= {int, float}:
            return Bounds(values)
    elif kind.startswith("decimal"):
        # All of one kind: an integer may lie between two that are rounded.
        if types <= {int, float}:
            return Bounds([None if one is None else float(one) for one in values])
    elif kind == "string":
        if types == {str}:
            return Bounds(values)
    elif kind in ("date", "timestamp", "timestamp_ntz"):
        if types == {str}:
            times = _times(values, kind)
            if times is not None:
                return Bounds(times)
    else:
        return Bounds(Nones(len(values)))
    return _one_by_one(values, kind)


def _within(values: Sequence[Any], limit: int) -> bool:
    given = [one for one in values if one is not None]
    return bool(-limit <= min(given) and max(given) < limit)


def _times(values: Sequence[Any], kind: str) -> Sequence[Any] | None:
    """All at once by Arrow; None where it does not know one of the forms."""
    target = pa.date32() if kind == "date" else pa.timestamp("us", "UTC")
    if kind == "timestamp_ntz":
        target = pa.timestamp("us")
    try:
        found = pa.array(values, pa.string()).cast(target)
    except (pa.ArrowException, ValueError):
        return None
    whole = found.cast(pa.int32()) if kind == "date" else found.cast(pa.int64())
    ints: list[Any] = whole.to_pylist()
    return ints


def _one_by_one(values: Sequence[Any], kind: str) -> Bounds:
    found: list[Any] = []
    bad: list[int] = []
    for n, value in enumerate(values):
        try:
            found.append(None if value is None else _comparable(value, kind))
        except (ValueError, InvalidOperation, OverflowError):
            found.append(None)
            bad.append(n)
    return Bounds(found, bad)


def _comparable(value: Any, kind: str) -> Any:
    """A bound as a number or text. Raises ValueError if it is none of the type."""
    if kind in _BITS:
        if type(value) is int and -(2 ** _BITS[kind]) <= value < 2 ** _BITS[kind]:
            return value
    elif kind in ("float", "double"):
        if type(value) in (int, float):
            return value
        if type(value) is str and value in _NOT_FINITE:
            return _NOT_FINITE[value]
    elif kind.startswith("decimal"):
        # Some writers put decimals into texts, so that no digit gets lost.
        if type(value) in (int, float, str, Decimal):
            return float(Decimal(str(value)))
    elif kind == "string":
        if type(value) is str:
            return value
    elif type(value) is str:
        return _time(value, kind)
    raise ValueError


_EPOCH = datetime(1970, 1, 1)
_DATE_OF = re.compile(r"(.{10})(?:[T ]00:00:00(?:\.0+)?Z?)?")
_FAR = re.compile(r"(?:[+-][0-9]{4,6}|[0-9]{5,6}|0000)-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+.{0,6})?")


def _time(text: str, kind: str) -> int | None:
    """Days or microseconds since 1970; None for a year that Python does not know."""
    plain = text.removesuffix(" UTC")
    if _FAR.fullmatch(plain):
        return None
    if kind == "date":
        match = _DATE_OF.fullmatch(plain)
        return (date.fromisoformat(match[1] if match else plain) - _EPOCH.date()).days
    moment = datetime.fromisoformat(plain)
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - _EPOCH) // timedelta(microseconds=1)


ABSENT: Any = object()


class Objects:
    """JSON objects of many rows, taken apart by key.

    Mostly all rows have the same keys in the same order: then all is done at once.
    """

    def __init__(self, rows: Sequence[Any], columns: Mapping[str, Sequence[Any]] | None = None):
        self._rows = rows
        self._columns = _columns_of(rows) if columns is None else columns

    @cached_property
    def names(self) -> frozenset[str]:
        if self._columns is not None:
            return frozenset(self._columns)
        return frozenset(name for one in self._rows if type(one) is dict for name in one)

    def get(self, name: str, absent: Any = None) -> Sequence[Any]:
        """The value of a key in each row."""
        if self._columns is not None and name in self._columns:
            return self._columns[name]
        if name not in self.names:
            return [absent] * len(self._rows)
        return [one.get(name, absent) if type(one) is dict else absent for one in self._rows]


def _columns_of(rows: Sequence[Any]) -> dict[str, Sequence[Any]] | None:
    """The values by key where all rows have the same keys; that is told by their number."""
    if set(map(type, rows)) != {dict} or len(set(map(len, rows))) != 1:
        return None
    try:
        return {name: [one[name] for one in rows] for name in rows[0]}
    except KeyError:
        return None


def _items_of(column: Any, name: str | None) -> Any:
    return column.items if name is None else column.items.filter(pc.equal(column.keys, name))


def columns_of_map(column: Any) -> Objects:
    """A Parquet map of texts, such as partitionValues."""
    if column.offset:
        column = pa.concat_arrays([column])
    rows = len(column)
    names = pc.unique(column.keys).to_pylist() if rows else []
    if not column.null_count and len(column.keys) == rows * len(names):
        columns = {
            name: _items_of(column, name if len(names) > 1 else None).to_pylist() for name in names
        }
        if all(len(values) == rows for values in columns.values()):
            return Objects(range(rows), columns)
    return Objects([dict(one or ()) for one in column.to_pylist()])


class Nones(Sequence[Any]):
    """A column that is not there."""

    def __init__(self, size: int):
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, position: Any) -> Any:
        return None

    def __iter__(self) -> Iterator[Any]:
        return repeat(None, self._size)
