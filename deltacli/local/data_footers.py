"""Footers of data files: which types their columns have, and how many rows there are."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.arrow_types import type_name
from deltacli.delta.data_files import DataColumn, DataFooter
from deltacli.delta.scan import Places
from deltacli.errors import DeltaCliError, FileMissing, NoPlainFile, StorageError
from deltacli.local.helper import Helper, pays_off
from deltacli.local.raw_footer import FirstCodecs, read_raw_footer

_THREADS = 16
_AT_ONCE = 1024
# Fewer are read before another process has begun.
_LEAST_BLOCKS = 8
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_FILE_ID = b"PARQUET:field_id"


def read_data_footers(places: Places, locations: Sequence[str]) -> Iterator[DataFooter]:
    """One footer a file, in order; a file that cannot be read is told as such."""
    task = ReadFooters(places)
    blocks = [locations[start : start + _AT_ONCE] for start in range(0, len(locations), _AT_ONCE)]
    if places.store.reads_are_remote or len(blocks) < _LEAST_BLOCKS or not pays_off():
        for block in blocks:
            yield from task(block)
        return
    helper = Helper(task)
    try:
        for number in range(0, len(blocks), 2):
            if number + 1 < len(blocks):
                helper.give(blocks[number + 1])
            yield from task(blocks[number])
            if number + 1 < len(blocks):
                yield from helper.answer()
    finally:
        helper.close()


@dataclass(frozen=True)
class ReadFooters:
    """Reads some footers."""

    places: Places

    def __call__(self, locations: Sequence[str]) -> list[DataFooter]:
        work = partial(read_data_footer, self.places)
        # Opening a local file is bound by the interpreter: threads only make it slower.
        if self.places.store.reads_are_remote and len(locations) > 1:
            with ThreadPoolExecutor(_THREADS) as pool:
                found = list(pool.map(work, locations))
        else:
            found = [work(one) for one in locations]
        # Arrow's footers hold on to themselves in circles, and to much memory.
        gc.collect(1)
        return found


def read_data_footer(places: Places, location: str) -> DataFooter:
    try:
        store, path = places.of(location)
        size, tail = read_raw_footer(store, path)
        with pq.ParquetFile(pa.BufferReader(tail), pre_buffer=False) as file:
            rows = int(file.metadata.num_rows)
            columns, odd = _KNOWN.of(file)
        return DataFooter(location, rows, size, columns, odd=odd + _odd_codec(tail))
    except PermissionError as error:
        raise StorageError(f"no permission for {location}", location=location) from error
    except (DeltaCliError, OSError, pa.ArrowException, ValueError) as error:
        if isinstance(error, StorageError) and not isinstance(error, FileMissing | NoPlainFile):
            raise
        text = error.message if isinstance(error, DeltaCliError) else str(error)
        return DataFooter(location, error=text.splitlines()[0] if text else type(error).__name__)


_Known = tuple[tuple[DataColumn, ...], tuple[str, ...]]


class _Schemas:
    """The last schema taken apart: files of one table mostly have the same."""

    def __init__(self) -> None:
        self._last: tuple[bytes | None, Any, _Known] | None = None

    def of(self, file: Any) -> _Known:
        # What a writer tells of its types in memory counts for Arrow's reading too.
        own = (file.metadata.metadata or {}).get(b"ARROW:schema")
        last = self._last
        if last is not None and last[0] == own and last[1].equals(file.schema):
            return last[2]
        found = tuple(_leaves(file.schema_arrow, ())), _old_times(file.schema)
        self._last = own, file.schema, found
        return found


_KNOWN = _Schemas()
_FIRST_CODECS = FirstCodecs()
# What every reader knows.
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4", "LZ4_RAW", "BROTLI")


def _old_times(schema: Any) -> tuple[str, ...]:
    names = [
        schema.column(number).path
        for number in range(len(schema))
        if schema.column(number).physical_type == "INT96"
    ]
    return (f"INT96 in {', '.join(names)}",) if names else ()


def _odd_codec(tail: bytes) -> tuple[str, ...]:
    codec = _FIRST_CODECS.of(tail)
    return () if codec is None or codec in _CODECS else (f"the codec {codec}",)


def _leaves(fields: Any, above: tuple[str, ...]) -> Iterator[DataColumn]:
    """The leaves, by names as a table's schema has them: `element`, `key` and `value`."""
    for one in fields:
        path = (*above, one.name)
        yield from _leaf(one, one.type, path)


def _leaf(field: Any, kind: Any, path: tuple[str, ...]) -> Iterator[DataColumn]:
    if pa.types.is_struct(kind):
        yield from _leaves(kind, path)
    elif any(is_kind(kind) for is_kind in _LISTS):
        yield from _leaf(kind.value_field, kind.value_type, (*path, "element"))
    elif pa.types.is_map(kind):
        yield from _leaf(kind.key_field, kind.key_type, (*path, "key"))
        yield from _leaf(kind.item_field, kind.item_type, (*path, "value"))
    else:
        own = (field.metadata or {}).get(_FILE_ID)
        yield DataColumn(path, type_name(kind), int(own) if own is not None else None)
