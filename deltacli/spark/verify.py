"""What the rows of data files really are: counted and bounded by Spark, a row of truth a file.

Nothing but these rows comes to the driver. Callers say which rows count: those of the table,
or all that a file has, deleted or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from deltacli.delta.scan import Files, ScanFile
from deltacli.delta.schema import DataType, Field, Primitive, Struct
from deltacli.delta.stats_schema import has_min_max
from deltacli.errors import DeltaCliError
from deltacli.spark.scan import scan
from deltacli.spark.schema import is_void
from deltacli.spark.session import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, Row, SparkSession

_NUMBER = "__deltacli_number"
Leaf = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One column of one file. Bounds leave NaN out, and are None where there is no order."""

    nulls: int
    low: Any = None
    high: Any = None
    nans: int = 0


@dataclass(frozen=True, slots=True)
class Broken:
    """How many rows an expression is false for, and how many it is null for."""

    false: int
    null: int


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The truth about the rows of one file; columns by the table's names, at every depth."""

    file: ScanFile
    rows: int
    columns: Mapping[Leaf, ColumnFacts] = field(default_factory=dict)
    broken: Mapping[str, Broken] = field(default_factory=dict)


def look_into_rows(
    spark: SparkSession,
    files: Files,
    chosen: Sequence[ScanFile],
    *,
    columns: Sequence[Leaf] | None = None,
    expressions: Mapping[str, str] | None = None,
) -> Iterator[FileFacts]:
    """One entry a file, in order. Without `columns`, all that are no lists, maps or variants.

    `expressions` are conditions in SQL on the table's columns, by a name of the caller's.
    """
    from pyspark.sql import functions as F  # noqa: N812

    leaves = dict(leaves_of(files.schema))
    wanted = list(leaves) if columns is None else list(columns)
    tests = dict(expressions or {})
    numbered = [
        replace(one, constants={**one.constants, _NUMBER: number})
        for number, one in enumerate(chosen)
    ]
    number = Field(_NUMBER, Primitive("integer"), True)
    with spark_errors():
        rows = scan(spark, files, numbered, constants=(number,))
        sums: list[Column] = [F.count(F.lit(1)).alias("rows")]
        for position, path in enumerate(wanted):
            sums += _facts(position, path, leaves[path])
        for position, text in enumerate(tests.values()):
            holds = F.expr(text).cast("boolean")
            sums.append(F.count_if(~holds).alias(f"false{position}"))
            sums.append(F.count_if(holds.isNull()).alias(f"null{position}"))
        found = {row[_NUMBER]: row for row in rows.groupBy(_NUMBER).agg(*sums).collect()}
    for place, one in enumerate(chosen):
        row = found.get(place)
        if row is None:  # a file without rows
            none = {path: ColumnFacts(0) for path in wanted}
            yield FileFacts(one, 0, none, {name: Broken(0, 0) for name in tests})
            continue
        yield FileFacts(
            one,
            row["rows"],
            {path: _of_row(row, number, leaves[path]) for number, path in enumerate(wanted)},
            {name: Broken(row[f"false{n}"], row[f"null{n}"]) for n, name in enumerate(tests)},
        )


def is_condition(spark: SparkSession, files: Files, text: str) -> str | None:
    """None if Spark understands an expression on the table's columns, else why not."""
    from pyspark.sql import functions as F  # noqa: N812

    try:
        with spark_errors():
            _ = scan(spark, files, []).select(F.expr(text).cast("boolean")).schema
    except DeltaCliError as error:
        return error.message
    return None


def leaves_of(schema: Struct, above: Leaf = ()) -> Iterator[tuple[Leaf, DataType]]:
    """The columns that hold one value a row, by the table's names."""
    for one in schema.fields:
        path = (*above, one.name)
        if isinstance(one.type, Struct):
            yield from leaves_of(one.type, path)
        elif isinstance(one.type, Primitive) and one.type.name != "variant":
            yield path, one.type


def _column(path: Leaf) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(".".join(f"`{name.replace('`', '``')}`" for name in path))


def _facts(position: int, path: Leaf, kind: DataType) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    value = _column(path)
    columns = [F.count_if(value.isNull()).alias(f"nulls{position}")]
    if is_void(kind) or not has_min_max(kind) or not isinstance(kind, Primitive):
        return columns
    if kind.name in ("float", "double"):
        columns.append(F.count_if(F.isnan(value)).alias(f"nans{position}"))
        value = F.when(~F.isnan(value), value)
    elif kind.name == "timestamp":
        # Python's own times would be those of this machine's zone.
        value = F.unix_micros(value)
    columns += [F.min(value).alias(f"low{position}"), F.max(value).alias(f"high{position}")]
    return columns


def _of_row(row: Row, position: int, kind: DataType) -> ColumnFacts:
    known = row.asDict()
    low, high = known.get(f"low{position}"), known.get(f"high{position}")
    if isinstance(kind, Primitive) and kind.name == "timestamp":
        low, high = _instant(low), _instant(high)
    nulls = known[f"nulls{position}"]
    return ColumnFacts(nulls, low, high, known.get(f"nans{position}") or 0)


def _instant(micros: int | None) -> datetime | None:
    if micros is None:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
