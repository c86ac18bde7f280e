"""`head`: some rows of a version, read here or by Spark; the answer is the same."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.arrow_types import NoArrowType, arrow_type
from deltacli.delta.json_text import Verbatim
from deltacli.delta.predicates import (
    Condition,
    NotSimple,
    columns_of,
    parse_condition,
)
from deltacli.delta.scan import Files, ScanFile, TableVersion, chosen_columns
from deltacli.delta.schema import Array, DataType, Field, Map, Struct
from deltacli.errors import StorageError, UsageError
from deltacli.local.filters import holds
from deltacli.local.scan import BATCH_ROWS, read_rows
from deltacli.operations.records import Instant, Listing, Row
from deltacli.units import is_text

if TYPE_CHECKING:
    from deltacli.spark.session import SparkSettings

# Above this many bytes to be searched, reading on one machine takes longer than a Spark start.
_MOST_BYTES = 2 << 30


# What looks like a column, and is a function to SQL where there is no such column.
_SQL_WORDS = {
    "current_date", "current_time", "current_timestamp", "current_user", "session_user", "user",
}  # fmt: skip


@dataclass(frozen=True)
class HeadRequest:
    """Which rows: at most `limit`, those where the condition holds, with these columns."""

    limit: int
    columns: tuple[str, ...] | None = None
    where: str | None = None


@dataclass(frozen=True)
class HeadPlan:
    """What is read, by which engine and why. `condition` is None where Spark decides it."""

    files: Files
    request: HeadRequest
    wanted: Struct
    chosen: Iterable[ScanFile]
    condition: Condition | None
    engine: str
    reason: str


# All rows of a plan's files, by a session.
FrameOf = Callable[[Any, HeadPlan], Any]


def plan_head(
    snapshot: TableVersion, request: HeadRequest, engine: str, options: Mapping[str, str]
) -> HeadPlan:
    """Decide who reads; files whose partition values rule them out are left alone."""
    if request.where is not None and not (request.where.strip() and is_text(request.where)):
        raise UsageError("--where is no condition", hint="write it as SQL: \"country = 'DE'\"")
    files = Files(snapshot, options)
    wanted = chosen_columns(files.schema, request.columns)
    try:
        condition = condition_of(files.schema, wanted, request.where)
    except (NotSimple, NoArrowType) as error:
        if engine == "local":
            raise UsageError(
                f"this takes Spark: {error}", hint="leave --engine out, or use --engine spark"
            ) from None
        if not _has_spark():
            raise StorageError(
                f"this takes Spark, which is not installed: {error}",
                hint="write a simpler condition, or pip install 'deltacli[spark]'",
            ) from None
        return HeadPlan(files, request, wanted, files.live(), None, "spark", str(error))
    if condition is None:
        chosen = files.live(with_stats=False)
        chooses_spark = engine == "spark"
        reason = "asked for" if chooses_spark else "no Spark is needed"
        by = "spark" if chooses_spark else "local"
        return HeadPlan(files, request, wanted, chosen, None, by, reason)
    matching = tuple(files.matching(files.live(), condition))
    searched = sum(one.size for one in matching)
    if engine == "spark":
        return HeadPlan(files, request, wanted, matching, condition, "spark", "asked for")
    if engine == "auto" and searched > _MOST_BYTES and _has_spark():
        reason = f"{searched:,} bytes are to be searched"
        return HeadPlan(files, request, wanted, matching, condition, "spark", reason)
    return HeadPlan(files, request, wanted, matching, condition, "local", "no Spark is needed")


def show_head(
    plan: HeadPlan, settings: Callable[[], SparkSettings], frame: FrameOf | None = None
) -> Listing:
    """The rows, read as they are asked for. `frame` makes all of them for Spark."""
    names = tuple(one.name for one in plan.wanted.fields)
    rows = _by_spark(plan, settings(), frame) if plan.engine == "spark" else rows_of(_locally(plan))
    return Listing(rows, names, names, "rows", is_data=True)


def condition_of(schema: Struct, wanted: Struct, text: str | None) -> Condition | None:
    """The condition if it can be decided here, tried on no rows.

    Raises NotSimple, NoArrowType, and NotFound for a column that nobody knows.
    """
    for field in wanted.fields:
        arrow_type(field.type)
    if text is None:
        return None
    condition = parse_condition(text)
    names = {column.path[0].lower(): column.path[0] for column in columns_of(condition)}
    known = {one.name.lower() for one in schema.fields}
    if functions := _SQL_WORDS & names.keys() - known:
        raise NotSimple(f"{min(functions)} is a function")
    chosen_columns(schema, list(names.values()))
    holds(condition, _no_rows(searched_columns(schema, wanted, condition)))
    return condition


def searched_columns(schema: Struct, wanted: Struct, condition: Condition | None) -> Struct:
    """The wanted columns and those that the condition looks at."""
    if condition is None:
        return wanted
    asked = {column.path[0].lower() for column in columns_of(condition)}
    names = {one.name for one in wanted.fields}
    more = [one for one in schema.fields if one.name.lower() in asked and one.name not in names]
    return Struct((*wanted.fields, *more))


def _no_rows(schema: Struct) -> Any:
    return pa.RecordBatch.from_arrays(
        [pa.array([], arrow_type(one.type)) for one in schema.fields],
        names=[one.name for one in schema.fields],
    )


def _locally(plan: HeadPlan) -> Iterator[Any]:
    left = plan.request.limit
    if left <= 0:
        return
    names = [one.name for one in plan.wanted.fields]
    searched = searched_columns(plan.files.schema, plan.wanted, plan.condition)
    # A few rows take little memory, however large their values are.
    batch_rows = BATCH_ROWS if plan.condition is not None else min(left, BATCH_ROWS)
    for batch in read_rows(plan.files, plan.chosen, searched, batch_rows):
        rows = batch
        if plan.condition is not None:
            rows = batch.filter(pc.fill_null(holds(plan.condition, batch), False))
        rows = rows.select(names).slice(0, left)
        left -= rows.num_rows
        if rows.num_rows:
            yield rows
        if not left:
            return


def _has_spark() -> bool:
    from importlib.util import find_spec

    return find_spec("pyspark") is not None


def _by_spark(plan: HeadPlan, settings: SparkSettings, frame_of: FrameOf | None) -> Iterator[Row]:
    from deltacli.spark.progress import watched
    from deltacli.spark.scan import scan
    from deltacli.spark.session import open_session, spark_errors

    spark = open_session(settings)
    with watched(spark.sparkContext, settings.on_tasks), spark_errors():
        if frame_of is None:
            frame = scan(spark, plan.files, list(plan.chosen))
        else:
            frame = frame_of(spark, plan)
        if plan.request.where is not None:
            frame = frame.where(plan.request.where)
        chosen = [_selected(one) for one in plan.wanted.fields]
        rows = frame.selectExpr(*chosen).limit(plan.request.limit).toArrow()
    variants = [one.name for one in plan.wanted.fields if _has_variant(one.type)]
    for row in rows_of(iter(rows.to_batches())):
        told = {name: Verbatim(row[name]) for name in variants if row[name] is not None}
        yield {**row, **told}


def _selected(field: Field) -> str:
    """A column as SQL; variants have no Arrow type, but they have a text."""
    name = f"`{field.name.replace('`', '``')}`"
    with_nulls = "map('ignoreNullFields', 'false')"
    return f"to_json({name}, {with_nulls}) as {name}" if _has_variant(field.type) else name


def _has_variant(data_type: DataType) -> bool:
    if isinstance(data_type, Struct):
        return any(_has_variant(one.type) for one in data_type.fields)
    if isinstance(data_type, Array):
        return _has_variant(data_type.element)
    if isinstance(data_type, Map):
        return _has_variant(data_type.value)
    return data_type.name == "variant"


def rows_of(batches: Iterator[Any]) -> Iterator[Row]:
    for batch in batches:
        names = batch.schema.names
        columns = [_values(column) for column in batch.columns]
        kinds = [column.type for column in batch.columns]
        for values in zip(*columns, strict=True):
            yield {
                name: shown(value, kind)
                for name, value, kind in zip(names, values, kinds, strict=True)
            }


def _as_short(value: float) -> float:
    """The double whose text is the shortest that means this 32-bit value."""
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if struct.unpack("f", struct.pack("f", short))[0] == value:
            return short
    return float(f"{value:.9g}")


def _values(column: Any) -> list[Any]:
    """A column as Python values, or as texts where Python has no such dates or characters."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        raw = column.cast(pa.binary()).to_pylist()
        return [None if one is None else one.decode("utf-8", "replace") for one in raw]
    except (OverflowError, ValueError):
        return list(column.cast(pa.string()).to_pylist())


def shown(value: Any, kind: Any) -> Any:
    """A value as JSON can hold it, exactly: bytes in base 64, times in ISO-8601."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if value - value == 0:
            return _as_short(value) if pa.types.is_float32(kind) else value
        return str(value).replace("inf", "Infinity").replace("nan", "NaN")
    if isinstance(value, Decimal):
        return Verbatim(format(value, "f"))
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return Instant(f"{text}Z") if value.tzinfo else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {one.name: shown(value[one.name], one.type) for one in kind}
    if pa.types.is_map(kind):
        pairs = [(shown(k, kind.key_type), shown(v, kind.item_type)) for k, v in value]
        if pa.types.is_string(kind.key_type):
            return dict(pairs)
        return [{"key": key, "value": one} for key, one in pairs]
    return [shown(one, kind.value_type) for one in value]
