"""Rows of a table as Spark DataFrames: Spark's own Parquet reader underneath.

What a file's log entry says of it (partition values, deleted rows, constants) is joined to
its rows by `_metadata.file_path`; the join is a broadcast one, and is left out where no file
needs it.
"""

from __future__ import annotations

import contextlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltacli.delta.actions import parse_lines
from deltacli.delta.arrow_types import arrow_type
from deltacli.delta.column_mapping import MODE
from deltacli.delta.history import file_times, find_action, in_commit_times, stamp_of
from deltacli.delta.predicates import NotSimple, parse_condition
from deltacli.delta.scan import (
    CHANGE_FIELDS,
    Files,
    Rows,
    ScanFile,
    changes_of_commit,
    chosen_columns,
)
from deltacli.delta.schema import Field, Primitive, Struct
from deltacli.delta.segment import list_log
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import NotFound, Refused, UsageError
from deltacli.local.engine import LocalEngine
from deltacli.spark.schema import (
    as_integers,
    grew_from_small_integer,
    is_void,
    logical_type,
    physical_type,
    unlike_names,
)
from deltacli.storage import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LEGAL = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-!.~'()*,;:$&+=/@"
)
# Java encodes control characters and spaces beyond ASCII, and leaves all others.
_ENCODED = ("Cc", "Cs", "Zs", "Zl", "Zp")
_FILE, _ENTRY, _BLOCK, _WORDS, _ROWS = (f"__deltacli_{name}" for name in "febwr")


def read(
    spark: SparkSession,
    table: str | Snapshot,
    *,
    at: int | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of a table at a version, the newest without one.

    With `where`, a condition in SQL, files that cannot hold such rows are left alone.
    """
    options = storage_options or {}
    snapshot = table if isinstance(table, Snapshot) else _load(table, at, options)
    files = Files(snapshot, options)
    chosen = list(files.live())
    if where is None:
        return scan(spark, files, chosen, columns=columns)
    with contextlib.suppress(NotSimple):
        chosen = list(files.matching(chosen, parse_condition(where)))
    quoted = [f"`{_escaped(one.name)}`" for one in chosen_columns(files.schema, columns).fields]
    return scan(spark, files, chosen).where(where).select(*quoted)


def read_changes(
    spark: SparkSession,
    table: str,
    start: int,
    end: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows that the commits from `start` to `end` changed, each with how and when.

    Columns `_change_type` (insert, delete, update_preimage, update_postimage),
    `_commit_version` and `_commit_timestamp` come after those of the table at `end`.
    """
    options = storage_options or {}
    snapshot = _load(table, end, options)
    if not 0 <= start <= snapshot.version:
        raise UsageError(
            f"the changes from {start} to {snapshot.version} are no range",
            hint="begin at or before the last version",
        )
    files = Files(snapshot, options)
    feed: list[ScanFile] = []
    changed: list[ScanFile] = []
    listing = list_log(snapshot.store)
    by_file = file_times(listing)
    own_times = in_commit_times(snapshot.metadata.configuration, [])
    for version in range(start, snapshot.version + 1):
        commit = listing.commits.get(version)
        if commit is None:
            raise NotFound(
                f"commit {version} is not in the log any more",
                hint=f"the changes can be read from version {min(listing.commits, default=0)} on",
            )
        content = snapshot.store.read(commit.path)
        stamp = by_file.get(version)
        if own_times.cover(version):
            stamp = stamp_of(find_action(content, "commitInfo") or {}) or stamp
        own_feed, own = changes_of_commit(files, version, stamp, parse_lines(content))
        feed += own_feed
        changed += own
    rows = scan(spark, files, changed, constants=CHANGE_FIELDS)
    if not feed:
        return rows
    # Change data files say themselves what happened to each row.
    own_type = Struct((*files.schema.fields, CHANGE_FIELDS[0]))
    told = scan(spark, files, feed, schema=own_type, constants=CHANGE_FIELDS[1:])
    return rows.unionByName(told)


def _load(table: str, at: int | None, options: Mapping[str, str]) -> Snapshot:
    return load_snapshot(open_store(table, options), LocalEngine, version=at)


def scan(
    spark: SparkSession,
    files: Files,
    chosen: Sequence[ScanFile],
    *,
    schema: Struct | None = None,
    columns: Sequence[str] | None = None,
    constants: Sequence[Field] = (),
) -> DataFrame:
    """The chosen rows of some files, by the table's logical schema."""
    from pyspark.sql import functions as F  # noqa: N812

    schema = schema or files.schema
    wanted = chosen_columns(schema, columns)
    partitions = set(files.snapshot.metadata.partition_columns)
    stored = [one for one in wanted.fields if one.name not in partitions and not is_void(one.type)]
    result = Struct((*wanted.fields, *constants))
    if not chosen:
        return spark.createDataFrame([], logical_type(result))
    mode = files.snapshot.setting(MODE)
    own = [one for one in wanted.fields if one.name in partitions] + list(constants)
    frame = _parquet(spark, files, chosen, Struct(tuple(stored)), mode)
    joined = _with_entries(spark, frame, chosen, own)
    renamed = set(unlike_names(Struct(tuple(stored))))
    shapes = {one.name: one.dataType for one in logical_type(result)}
    output = []
    for field in result.fields:
        if is_void(field.type):
            column = F.lit(None)
        elif field in own:
            column = F.col(f"`{_own(field.name)}`")
        else:
            column = F.col(f"`{_escaped(_physical(field, mode))}`")
            if isinstance(field.type, Primitive) and field.type.name in ("float", "double"):
                # Footers of many writers leave NaN out of the greatest value. Spark would pass
                # over such rows if it handed conditions down; this is one that it cannot.
                column = F.nanvl(column, F.lit(float("nan")).cast(field.type.name))
            if field.name in renamed and mode != "none":
                column = column.cast(shapes[field.name])
        output.append(column.alias(field.name))
    return joined.select(*output)


def _own(name: str) -> str:
    return f"__deltacli_own_{name}".replace("`", "``")


def _escaped(name: str) -> str:
    return name.replace("`", "``")


def _parquet(
    spark: SparkSession, files: Files, chosen: Sequence[ScanFile], stored: Struct, mode: str
) -> DataFrame:
    """The files as Spark reads them: exactly these, by physical names or field ids."""
    from pyspark.sql import functions as F  # noqa: N812

    if mode == "id":
        # Only the session can be told; without ids in a schema it changes nothing.
        spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
        spark.conf.set("spark.sql.parquet.fieldId.read.ignoreMissing", "true")
    final = physical_type(stored, mode)
    narrow = {_physical(one, mode) for one in stored.fields if grew_from_small_integer(one)}
    if not narrow:
        return _read_files(spark, chosen, final)
    # Spark reads all widened types but this one: such files are read as what they are.
    targets = {one.name: one.dataType for one in final}
    groups: dict[frozenset[str], list[ScanFile]] = {}
    for one in chosen:
        groups.setdefault(_integers_among(files, one, narrow), []).append(one)
    frames = []
    for integers, group in groups.items():
        frame = _read_files(spark, group, as_integers(final, integers))
        columns = [
            F.col(f"`{_escaped(name)}`").cast(kind).alias(name) for name, kind in targets.items()
        ]
        frames.append(frame.select(*columns, F.col("_metadata").alias("_metadata")))
    return reduce(lambda one, other: one.unionByName(other), frames)


def _integers_among(files: Files, one: ScanFile, names: set[str]) -> frozenset[str]:
    """Which of these columns are integers in a file's footer."""
    from pyarrow import parquet

    store, path = files.places.of(one.location)
    with store.open(path) as file:
        schema = parquet.read_schema(file)
    return frozenset(
        name
        for name in names
        if name in schema.names and pa.types.is_integer(schema.field(name).type)
    )


def _physical(field: Field, mode: str) -> str:
    return field.physical_name if mode != "none" else field.name


def _read_files(spark: SparkSession, chosen: Sequence[ScanFile], schema: StructType) -> DataFrame:
    locations = list(dict.fromkeys(hadoop_location(one.location) for one in chosen))
    for location in locations:
        name = location.rsplit("/", 1)[-1]
        if name.startswith(("_", ".")) or ":" in name:
            raise Refused(
                f"Spark cannot read {name}: it begins with _ or ., or has a colon",
                hint="--engine local reads it; or rewrite the file under another name",
            )
    reader = (
        spark.read.schema(schema)
        # No globs, no partition values from folders: the log knows better.
        .option("__globPaths__", "false")
        .option("recursiveFileLookup", "true")
        .option("mergeSchema", "false")
    )
    return reader.parquet(*locations)


def _with_entries(
    spark: SparkSession, frame: DataFrame, chosen: Sequence[ScanFile], own: Sequence[Field]
) -> DataFrame:
    """Each row with what its file's entry says, and only the rows that count."""
    from pyspark.sql import functions as F  # noqa: N812

    selects = any(one.rows is not Rows.ALL for one in chosen)
    if not own and not selects:
        return frame
    entries = spark.createDataFrame(_entry_table(chosen, own), _entry_type(own))
    # Not by name: a table may have a column of that name.
    told = frame.metadataColumn("_metadata")
    path = F.regexp_replace(told["file_path"], "^file:/+", "file:/")
    with_path = frame.withColumn(_FILE, path)
    if selects:
        with_path = with_path.withColumn("__deltacli_row", told["row_index"])
    keyed = entries.withColumnRenamed("file", "__deltacli_entry_file")
    joined = with_path.join(
        F.broadcast(keyed), F.col(_FILE) == F.col("__deltacli_entry_file"), "left"
    )
    # A row of a file that nobody asked for would be a wrong answer.
    lost = F.raise_error(F.concat(F.lit("deltacli: an unexpected file "), F.col(_FILE)))
    known = F.coalesce(F.col(_ENTRY), lost.cast("int"))
    joined = joined.withColumn(_ENTRY, known)
    if not selects:
        return joined.where(F.col(_ENTRY) >= 0)
    blocks = spark.createDataFrame(_block_table(chosen)).withColumnRenamed(
        _ENTRY, "__deltacli_block_entry"
    )
    row = F.col("__deltacli_row")
    same = (F.col(_ENTRY) == F.col("__deltacli_block_entry")) & (
        F.shiftright(row, 16) == F.col(_BLOCK)
    )
    marked = joined.join(F.broadcast(blocks), same, "left")
    word = F.element_at(F.col(_WORDS), (F.shiftright(row, 6) % 1024 + 1).cast("int"))
    is_selected = F.coalesce(F.getbit(word, (row % 64).cast("int")) == 1, F.lit(False))
    rows = F.col(_ROWS)
    return marked.where(
        (rows == Rows.ALL.value)
        | ((rows == Rows.WITHOUT.value) & ~is_selected)
        | ((rows == Rows.ONLY.value) & is_selected)
    )


def _entry_type(own: Sequence[Field]) -> StructType:
    """The entries' columns as Spark has them: Arrow alone loses the kind of a time."""
    fields = [
        Field("file", Primitive("string"), True),
        Field(_ENTRY, Primitive("integer"), True),
        Field(_ROWS, Primitive("integer"), True),
        *(Field(f"__deltacli_own_{one.name}", one.type, True) for one in own),
    ]
    return logical_type(Struct(tuple(fields)))


def _entry_table(chosen: Sequence[ScanFile], own: Sequence[Field]) -> Any:
    """One row a chosen file: its path as Spark tells it, its number, and its own columns."""
    columns: dict[str, Any] = {
        "file": pa.array([spark_path(one.location) for one in chosen], pa.string()),
        _ENTRY: pa.array(range(len(chosen)), pa.int32()),
        _ROWS: pa.array([one.rows.value for one in chosen], pa.int32()),
    }
    for field in own:
        values = [
            one.constants[field.name] if field.name in one.constants else one.partition[field.name]
            for one in chosen
        ]
        columns[f"__deltacli_own_{field.name}"] = pa.array(values, arrow_type(field.type))
    return pa.table(columns)


def _block_table(chosen: Sequence[ScanFile]) -> Any:
    """The selected rows: a row for each 65,536 rows of a file, as 1024 longs of bits."""
    entries: list[int] = []
    numbers: list[int] = []
    bits: list[bytes] = []
    for entry, one in enumerate(chosen):
        for number, block in one.select().blocks.items():
            entries.append(entry)
            numbers.append(number)
            bits.append(bytes(block))
    words = pa.Int64Array.from_buffers(
        pa.int64(), 1024 * len(bits), [None, pa.py_buffer(b"".join(bits))]
    )
    offsets = pa.array(range(0, 1024 * len(bits) + 1, 1024), pa.int32())
    return pa.table(
        {
            _ENTRY: pa.array(entries, pa.int32()),
            _BLOCK: pa.array(numbers, pa.int64()),
            _WORDS: pa.ListArray.from_arrays(offsets, words),
        }
    )


def hadoop_location(location: str) -> str:
    """A file's URL as Hadoop wants it: `s3a` is what it calls S3."""
    return re.sub(r"^s3:", "s3a:", location)


def spark_path(location: str) -> str:
    """A file's URL as `_metadata.file_path` tells it: as Java encodes it, `file:/` short."""
    text = re.sub(r"^file:/+", "file:/", hadoop_location(location))
    return "".join(
        one
        if one in _LEGAL or (one > "\x7f" and unicodedata.category(one) not in _ENCODED)
        else "".join(f"%{byte:02X}" for byte in one.encode("utf-8", "surrogateescape"))
        for one in text
    )


__all__ = ["read", "read_changes", "scan"]
