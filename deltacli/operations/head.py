"""`head`: some rows of a version, read here or by Spark; the answer is the same."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta import json_text
from deltacli.delta.arrow_types import NoArrowType, arrow_type
from deltacli.delta.json_text import Verbatim
from deltacli.delta.predicates import (
    Condition,
    NotSimple,
    columns_of,
    parse_condition,
)
from deltacli.delta.scan import Files, ScanFile
from deltacli.delta.schema import DataType, Field, Struct, type_tree
from deltacli.delta.snapshot import Snapshot
from deltacli.errors import NotFound, StorageError, UsageError
from deltacli.local.filters import holds
from deltacli.local.scan import read_rows
from deltacli.operations.records import Listing, Row

if TYPE_CHECKING:
    from deltacli.spark.session import SparkSettings

# Above this many bytes to be searched, reading on one machine takes longer than a Spark start.
_MOST_BYTES = 2 << 30


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
    chosen: tuple[ScanFile, ...]
    condition: Condition | None
    engine: str
    reason: str


def plan_head(
    snapshot: Snapshot, request: HeadRequest, engine: str, options: Mapping[str, str]
) -> HeadPlan:
    """Decide who reads; files whose partition values rule them out are left alone."""
    files = Files(snapshot, options)
    wanted = _wanted(files.schema, request.columns)
    chosen = tuple(files.live())
    try:
        condition = _condition(files.schema, wanted, request.where)
    except (NotSimple, NoArrowType) as error:
        if engine == "local":
            raise UsageError(
                f"this takes Spark: {error}", hint="leave --engine out, or use --engine spark"
            ) from None
        return HeadPlan(files, request, wanted, chosen, None, "spark", str(error))
    if condition is not None:
        chosen = tuple(files.matching(chosen, condition))
    searched = sum(one.size for one in chosen)
    if engine == "spark":
        return HeadPlan(files, request, wanted, chosen, condition, "spark", "asked for")
    is_large = condition is not None and searched > _MOST_BYTES
    if engine == "auto" and is_large and _has_spark():
        reason = f"{searched:,} bytes are to be searched"
        return HeadPlan(files, request, wanted, chosen, condition, "spark", reason)
    return HeadPlan(files, request, wanted, chosen, condition, "local", "no Spark is needed")


def show_head(plan: HeadPlan, settings: Callable[[], SparkSettings]) -> Listing:
    """The rows, read as they are asked for."""
    names = tuple(one.name for one in plan.wanted.fields)
    rows = _by_spark(plan, settings()) if plan.engine == "spark" else _rows(_locally(plan))
    return Listing(rows, names, names, "rows")


def _wanted(schema: Struct, columns: Sequence[str] | None) -> Struct:
    if columns is None:
        return schema
    found: list[Field] = []
    for name in columns:
        same = [one for one in schema.fields if one.name == name] or [
            one for one in schema.fields if one.name.lower() == name.lower()
        ]
        if not same:
            known = ", ".join(one.name for one in schema.fields)
            raise NotFound(f"there is no column {name!r}", hint=f"the columns are {known}")
        found.append(same[0])
    return Struct(tuple(found))


def _condition(schema: Struct, wanted: Struct, text: str | None) -> Condition | None:
    """The condition if it can be decided here, tried on no rows. Raises NotSimple, NoArrowType."""
    for field in wanted.fields:
        arrow_type(field.type)
    if text is None:
        return None
    condition = parse_condition(text)
    holds(condition, _no_rows(_searched(schema, wanted, condition)))
    return condition


def _searched(schema: Struct, wanted: Struct, condition: Condition) -> Struct:
    """The wanted columns and those that the condition looks at."""
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
    searched = plan.wanted
    if plan.condition is not None:
        searched = _searched(plan.files.schema, plan.wanted, plan.condition)
    for batch in read_rows(plan.files, plan.chosen, searched):
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


def _by_spark(plan: HeadPlan, settings: SparkSettings) -> Iterator[Row]:
    from deltacli.spark.scan import scan
    from deltacli.spark.session import open_session, spark_errors

    spark = open_session(settings)
    with spark_errors():
        frame = scan(spark, plan.files, plan.chosen)
        if plan.request.where is not None:
            frame = frame.where(plan.request.where)
        chosen = [_selected(one) for one in plan.wanted.fields]
        rows = frame.selectExpr(*chosen).limit(plan.request.limit).toArrow()
    variants = [one.name for one in plan.wanted.fields if _has_variant(one.type)]
    for row in rows.to_pylist():
        told = {name: Verbatim(row[name]) for name in variants if row[name] is not None}
        yield {name: told.get(name, shown(value)) for name, value in row.items()}


def _selected(field: Field) -> str:
    """A column as SQL; variants have no Arrow type, but they have a text."""
    name = f"`{field.name.replace('`', '``')}`"
    return f"to_json({name}) as {name}" if _has_variant(field.type) else name


def _has_variant(data_type: DataType) -> bool:
    return '"variant"' in json_text.dump({"type": type_tree(data_type)}).decode()


def _rows(batches: Iterator[Any]) -> Iterator[Row]:
    for batch in batches:
        for row in batch.to_pylist():
            yield {name: shown(value) for name, value in row.items()}


def shown(value: Any) -> Any:
    """A value as JSON can hold it, exactly: bytes in base 64, times in ISO-8601."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return (
            value
            if value - value == 0
            else str(value).replace("inf", "Infinity").replace("nan", "NaN")
        )
    if isinstance(value, Decimal):
        return Verbatim(format(value, "f"))
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return f"{text}Z" if value.tzinfo else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        # A map: an object if its keys are texts.
        if all(isinstance(key, str) for key, _ in value):
            return {key: shown(one) for key, one in value}
        return [{"key": shown(key), "value": shown(one)} for key, one in value]
    if isinstance(value, list):
        return [shown(one) for one in value]
    raise StorageError(f"a value of type {type(value).__name__} cannot be shown")
