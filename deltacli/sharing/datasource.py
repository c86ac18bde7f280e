"""Shared tables in Spark, in batches and streams, by Python alone: no jar is needed.

    from deltacli.sharing import datasource

    datasource.register(spark)
    spark.read.format("deltacli_sharing").load("me.share#sales.eu.orders")
    spark.readStream.format("deltacli_sharing").option("startingVersion", 0).load(…)

Options are those of the connector for the JVM; `docs/shared.md` has them all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
    Not,
)

from deltacli.delta import predicates
from deltacli.delta.arrow_types import arrow_type
from deltacli.delta.scan import chosen_columns
from deltacli.delta.schema import Struct, parse_schema
from deltacli.errors import DeltaCliError, UsageError
from deltacli.sharing.client.rows import (
    Renewal,
    SameChanges,
    SharedVersion,
    open_version,
    read_commits,
    schema_of,
)
from deltacli.sharing.client.server import NEWEST, At, Query, Range
from deltacli.sharing.hint_trees import json_hint
from deltacli.sharing.source.offsets import parse_offset
from deltacli.sharing.source.options import (
    INTERVAL_CONF,
    BatchOptions,
    StreamOptions,
    parse_batch,
    parse_place,
    parse_seconds,
    parse_stream,
)
from deltacli.sharing.source.parts import (
    Group,
    Part,
    parts_of,
    read_part,
    telling,
    with_changes,
)
from deltacli.sharing.source.stream import Stream
from deltacli.spark.package import ship
from deltacli.spark.schema import logical_type
from deltacli.spark.session import is_local

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # PySpark before 4.2 cannot say how much a batch may take
    SupportsTriggerAvailableNow = object

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NAME = "deltacli_sharing"
_OPENED = f"{NAME}_opened"
_PART_BYTES = 128 << 20
_HAS_LIMITS = SupportsTriggerAvailableNow is not object


def register(spark: SparkSession) -> None:
    """Make the format known to a session, and this package to its executors.

    The session's interval between questions for new versions becomes that of its streams.
    """
    interval = spark.conf.get(INTERVAL_CONF, None)
    own = type(NAME, (SharedTables,), {"usual_interval": parse_seconds(interval, INTERVAL_CONF)})
    spark.dataSource.register(own)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    with contextlib.suppress(AttributeError):  # a session of Spark Connect has no context
        if not is_local(spark.sparkContext.master):
            ship(spark.sparkContext)


def read_version(spark: SparkSession, version: SharedVersion, wanted: Struct) -> DataFrame:
    """These columns of all rows of a version that is open already."""
    schema = logical_type(wanted)
    group = Group(version.protocol, version.metadata, tuple(version.lines()))
    parts = list(parts_of(version.renewal, [group], _PART_BYTES))
    own = type(_OPENED, (_Opened,), {"opened": (parts, schema)})
    spark.dataSource.register(own)
    return spark.read.format(_OPENED).load()


class _Opened(DataSource):  # type: ignore[misc]
    """A version whose files are known: it is registered anew for each."""

    opened: tuple[list[Part], StructType]

    @classmethod
    def name(cls) -> str:
        return _OPENED

    def schema(self) -> StructType:
        return self.opened[1]

    def reader(self, schema: StructType) -> DataSourceReader:
        return _OpenedReader(*self.opened)


class _OpenedReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, parts: list[Part], schema: StructType):
        self._parts = parts
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [SharedPart(one) for one in self._parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows(partition, self._schema)


class SharedTables(DataSource):  # type: ignore[misc]
    """The data source of a format; options are checked when a schema or a reader is made."""

    usual_interval: int | None = None

    def __init__(self, options: Mapping[str, str]):
        super().__init__(options)
        self._options = dict(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        with _told():
            place = parse_place(self._options)
            at = NEWEST
            if "versionasof" in self._names or "timestampasof" in self._names:
                at = parse_batch(self._options).at
            page = place.server().metadata(place.table, at)
            schema = chosen_columns(schema_of(page.head[1].metadata), place.columns)
            for field in schema.fields:
                arrow_type(field.type)
            return logical_type(with_changes(schema) if place.reads_changes else schema)

    @property
    def _names(self) -> set[str]:
        return {one.lower() for one in self._options}

    def reader(self, schema: StructType) -> DataSourceReader:
        with _told():
            _check_nulls(schema)
            options = parse_batch(self._options)
            kind = _PushingReader if options.pushes_down else SharedReader
            return kind(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        with _told():
            if not _HAS_LIMITS:
                raise UsageError(
                    "streams of shared tables need PySpark 4.2", hint="pip install 'pyspark>=4.2'"
                )
            _check_nulls(schema)
            return SharedStreamReader(parse_stream(self._options, self.usual_interval), schema)


def _check_nulls(schema: StructType) -> None:
    for one in schema:
        if not one.nullable:
            raise UsageError(
                f"the column {one.name} is said to be without nulls, which nobody can promise",
                hint="leave NOT NULL out",
            )


class SharedPart(InputPartition):  # type: ignore[misc]
    def __init__(self, part: Part):
        super().__init__(None)
        self.part = part


class SharedReader(DataSourceReader):  # type: ignore[misc]
    """A version, or the changes of a range of them."""

    def __init__(self, options: BatchOptions, schema: StructType):
        self._options = options
        self._schema = schema
        self._conditions: tuple[predicates.Condition, ...] = ()

    def partitions(self) -> list[InputPartition]:
        with _told():
            renewal, groups = self._changes() if self._place.reads_changes else self._version()
            size = self._place.partition_bytes
            return [SharedPart(one) for one in parts_of(renewal, groups, size)]

    @property
    def _place(self) -> Any:
        return self._options.place

    def _version(self) -> tuple[Renewal, list[Group]]:
        server, table = self._place.server(), self._place.table
        query = Query(self._options.at)
        if self._conditions:
            page = server.metadata(table, self._options.at)
            condition = predicates.Both(True, self._conditions)
            hint = json_hint(condition, schema_of(page.head[1].metadata))
            query = Query(self._options.at, json_hint=hint)
        version = open_version(server, table, query)
        self._check_columns(version.schema)
        return version.renewal, [Group(version.protocol, version.metadata, tuple(version.lines()))]

    def _check_columns(self, schema: Struct) -> None:
        """Whether a schema that somebody gave is one of the table's columns."""
        chosen_columns(schema, [one.name for one in self._schema])

    def _changes(self) -> tuple[Renewal, list[Group]]:
        server, table = self._place.server(), self._place.table
        asked = Range(self._options.start, self._options.end)
        answer = server.changes(table, asked)
        self._check_columns(with_changes(schema_of(answer.definition.metadata)))
        groups = [
            Group(
                answer.protocol.protocol,
                answer.definition.metadata,
                telling(one.lines),
                one.version,
            )
            for one in read_commits(answer).commits
        ]
        pinned = Range(At(version=answer.version), self._options.end)
        return SameChanges(server.asking_in(answer.ids_of), table, pinned), groups

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows(partition, self._schema)


class _PushingReader(SharedReader):
    """Tells the server what rows are wanted; Spark decides itself once more."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        found = (_condition(one) for one in filters)
        self._conditions = tuple(one for one in found if one is not None)
        return filters


class SharedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A stream, planned in the driver's worker; files are read anywhere."""

    def __init__(self, options: StreamOptions, schema: StructType):
        self._options = options
        self._schema = schema

    @cached_property
    def _stream(self) -> Stream:
        return Stream(self._options.place.server(), self._options, _wanted(self._schema))

    def __getstate__(self) -> dict[str, Any]:
        # What the stream holds is of no use to those who read.
        return {"_options": self._options, "_schema": self._schema}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        with _told():
            return self._stream.beginning().json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with _told():
            takes_all = isinstance(limit, ReadAllAvailable)
            return self._stream.latest(parse_offset(start), takes_all=takes_all).json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_files is not None:
            return ReadMaxFiles(self._options.max_files)
        return ReadMaxBytes(self._options.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with _told():
            self._stream.freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        with _told():
            parts = self._stream.parts(parse_offset(start), parse_offset(end))
            return [SharedPart(one) for one in parts]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows(partition, self._schema)


def _wanted(schema: StructType) -> Struct:
    return parse_schema(schema.json())


def _rows(partition: InputPartition, schema: StructType) -> Iterator[Any]:
    """The rows in exactly the types that Spark expects."""
    if not isinstance(partition, SharedPart):
        # Without a file there is one partition with nothing in it.
        return
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        exact = to_arrow_schema(schema, timezone="UTC")
    except TypeError:  # PySpark before 4.2
        exact = to_arrow_schema(schema)
    with _told():
        for batch in read_part(partition.part, _wanted(schema)):
            columns = [
                column.cast(field.type) for column, field in zip(batch.columns, exact, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=exact)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Errors with their hints: Spark shows only the message."""
    try:
        yield
    except DeltaCliError as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise SharedTableError(f"{error.message}{hint}") from error


class SharedTableError(Exception):
    """Why a shared table cannot be read."""


_SIGNS = {
    EqualTo: "=",
    EqualNullSafe: "<=>",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def _condition(one: Filter) -> predicates.Condition | None:
    """A filter of Spark's as a condition; None for one that no hint can tell."""
    if isinstance(one, Not):
        inner = _condition(one.child)
        return None if inner is None else predicates.Not(inner)
    if isinstance(one, In):
        return predicates.In(predicates.Column(tuple(one.attribute)), tuple(one.value))
    sign = _SIGNS.get(type(one))
    if sign is None:
        return None
    column = predicates.Column(tuple(one.attribute))
    return predicates.Compare(sign, column, predicates.Literal(one.value))


__all__ = ["NAME", "SharedTables", "read_version", "register"]
