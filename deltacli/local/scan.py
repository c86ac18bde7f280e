"""Rows of data files by pyarrow: for answers small enough to need no Spark.

A file's columns are found by physical name or field id, missing ones are null, narrow types
are widened; deleted rows are masked out, partition values come from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltacli.delta.arrow_types import arrow_type
from deltacli.delta.bitmaps import BLOCK_ROWS, RowSet
from deltacli.delta.column_mapping import ID, MODE
from deltacli.delta.scan import Files, Rows, ScanFile
from deltacli.delta.schema import Array, DataType, Field, Map, Struct
from deltacli.errors import CorruptLog, FileMissing, StorageError
from deltacli.storage import DataStore, parquet_source

_FILE_ID = b"PARQUET:field_id"
BATCH_ROWS = 8192


def read_rows(
    files: Files, chosen: Iterable[ScanFile], wanted: Struct, batch_rows: int = BATCH_ROWS
) -> Iterator[Any]:
    """The rows of the chosen files as record batches of the wanted columns."""
    mode = files.snapshot.setting(MODE)
    partitions = set(files.snapshot.metadata.partition_columns)
    schema = arrow_schema(wanted)
    for one in chosen:
        for batch in _file_rows(files, one, wanted, partitions, mode, batch_rows):
            yield pa.RecordBatch.from_arrays(batch, schema=schema)


def arrow_schema(schema: Struct) -> Any:
    return pa.schema([pa.field(one.name, arrow_type(one.type)) for one in schema.fields])


def _file_rows(
    files: Files,
    one: ScanFile,
    wanted: Struct,
    partitions: set[str],
    mode: str,
    batch_rows: int,
) -> Iterator[list[Any]]:
    store, path = files.places.of(one.location)
    try:
        with open_data_file(store, path) as file:
            stored = {
                field.name: find_column(file.schema_arrow, field, mode)
                for field in wanted.fields
                if field.name not in partitions and field.name not in one.constants
            }
            names = [found.name for found in stored.values() if found is not None]
            for rows in rows_that_count(file, one, names, batch_rows):
                yield [
                    _column(rows, field, stored.get(field.name), one, partitions, mode)
                    for field in wanted.fields
                ]
    except (pa.ArrowException, FileNotFoundError, FileMissing, *_MISFITS) as error:
        raise _broken(one, error) from error
    except OSError as error:
        if error.errno is None:
            # Arrow's own, of bytes that are no Parquet.
            raise _broken(one, error) from error
        raise StorageError(
            f"the data file {one.path or one.location} cannot be reached: {error}",
            location=one.location,
        ) from error


def _broken(one: ScanFile, error: Exception) -> CorruptLog:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return CorruptLog(
        f"the data file {one.path or one.location} cannot be read: {reason}",
        hint="restore the file, or read a version without it",
        location=one.location,
    )


def open_data_file(store: DataStore, path: str) -> Any:
    return pq.ParquetFile(
        parquet_source(store, path),
        pre_buffer=False,
        coerce_int96_timestamp_unit="us",
    )


def rows_that_count(file: Any, one: ScanFile, names: list[str], size: int) -> Iterator[Any]:
    """Batches of an open file's columns, without the rows that are none of the table's."""
    selected = one.select()
    start = 0
    # Without a column to read, a file still has its rows.
    columns = names or [file.schema_arrow.names[0]]
    for batch in file.iter_batches(size, columns=columns, use_threads=False):
        keep = _mask(one, selected, start, batch.num_rows)
        start += batch.num_rows
        rows = batch if keep is None else batch.filter(keep)
        if rows.num_rows:
            yield rows


# How Arrow answers where a file's columns are not what the table says.
_MISFITS = (AttributeError, TypeError, KeyError, IndexError, ValueError)


def _column(
    rows: Any, field: Field, found: Any, one: ScanFile, partitions: set[str], mode: str
) -> Any:
    kind = arrow_type(field.type)
    own = one.constants if field.name in one.constants else one.partition
    if own is one.constants or field.name in partitions:
        return pa.repeat(pa.scalar(own[field.name], kind), rows.num_rows)
    if found is None:
        return pa.nulls(rows.num_rows, kind)
    return shaped(rows.column(found.name), field.type, mode)


def find_column(schema: Any, field: Field, mode: str) -> Any:
    """A field of a file (or of a struct in it) by physical name or id; None if it is not there."""
    if mode == "id" and ID in field.metadata:
        own = str(field.metadata[ID]).encode()
        return next((one for one in schema if (one.metadata or {}).get(_FILE_ID) == own), None)
    name = field.physical_name if mode != "none" else field.name
    exact = [one for one in schema if one.name == name]
    # Names of columns do not differ by case alone.
    return next(iter(exact or [one for one in schema if one.name.lower() == name.lower()]), None)


def shaped(column: Any, data_type: DataType, mode: str) -> Any:
    """A file's column as the table's type, with logical names at every depth."""
    kind = arrow_type(data_type)
    if isinstance(data_type, Struct):
        children = dict(zip((one.name for one in column.type), column.flatten(), strict=True))
        inner = []
        for field in data_type.fields:
            found = find_column(column.type, field, mode)
            inner.append(
                pa.nulls(len(column), arrow_type(field.type))
                if found is None
                else shaped(children[found.name], field.type, mode)
            )
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=column.is_null())
    if isinstance(data_type, Array):
        column = _compact(_plain_list(column))
        values = shaped(column.values, data_type.element, mode)
        return pa.ListArray.from_arrays(
            column.offsets, values, type=kind, mask=column.is_null() if column.null_count else None
        )
    if isinstance(data_type, Map):
        column = _compact(column)
        keys = shaped(column.keys, data_type.key, mode)
        items = shaped(column.items, data_type.value, mode)
        whole = pa.MapArray.from_arrays(column.offsets, keys, items, type=kind)
        return pc.if_else(column.is_valid(), whole, None) if column.null_count else whole
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(column.type):
        # A time without a zone is one in UTC; what is finer than microseconds is cut off.
        if column.type.unit == "ns":
            column = pc.floor_temporal(column, unit="microsecond")
        return column.cast(pa.timestamp(column.type.unit, kind.tz), safe=False).cast(
            kind, safe=False
        )
    _check_widening(column.type, kind)
    return column.cast(kind)


def _check_widening(stored: Any, kind: Any) -> None:
    """Raise TypeError for a conversion that Arrow knows and the protocol does not."""
    numbers = pa.types.is_integer(stored) or pa.types.is_floating(stored)
    into_time = pa.types.is_temporal(kind) and not pa.types.is_date(stored)
    shrinks = (
        pa.types.is_floating(kind)
        and pa.types.is_floating(stored)
        and (stored.bit_width > kind.bit_width)
    )
    truncates = pa.types.is_floating(stored) and not pa.types.is_floating(kind)
    from_text = pa.types.is_string(stored) and not (
        pa.types.is_string(kind) or pa.types.is_binary(kind)
    )
    into_text = pa.types.is_string(kind) and (numbers or pa.types.is_temporal(stored))
    if stored != kind and (into_time or shrinks or truncates or from_text or into_text):
        raise TypeError(f"it has {stored} where the table has {kind}")


def _plain_list(column: Any) -> Any:
    if pa.types.is_list(column.type):
        return column
    return column.cast(pa.list_(column.type.value_field))


def _compact(column: Any) -> Any:
    """A list or map whose offsets begin at 0 (a slice's may not)."""
    return pa.concat_arrays([column]) if column.offset else column


def _mask(one: ScanFile, selected: RowSet, start: int, count: int) -> Any:
    """Which of the rows from `start` on count; None if all do."""
    if one.rows is Rows.ALL:
        return None
    first = start // 8 * 8
    bits = _bits(selected, first, start + count - first)
    chosen = pa.BooleanArray.from_buffers(
        pa.bool_(), count, [None, pa.py_buffer(bits)], offset=start - first
    )
    return chosen if one.rows is Rows.ONLY else pc.invert(chosen)


def _bits(rows: RowSet, start: int, count: int) -> bytes:
    """The bits of `count` rows from `start` on, which lies on a whole byte."""
    out = bytearray()
    position = start
    while position < start + count:
        block = rows.blocks.get(position // BLOCK_ROWS)
        offset = position % BLOCK_ROWS
        length = min(BLOCK_ROWS - offset, start + count - position)
        size = -(-length // 8)
        out += block[offset // 8 : offset // 8 + size] if block else bytes(size)
        position += length
    return bytes(out)
