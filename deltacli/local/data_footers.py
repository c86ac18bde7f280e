"""Footers of data files: which types their columns have, and how many rows there are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.arrow_types import type_name
from deltacli.delta.data_files import DataColumn, DataFooter
from deltacli.delta.scan import Places
from deltacli.errors import DeltaCliError

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_FILE_ID = b"PARQUET:field_id"


def read_data_footers(places: Places, locations: Sequence[str]) -> Iterator[DataFooter]:
    """One footer a file, in order; a file that cannot be read is told as such."""
    work = partial(read_data_footer, places)
    # Opening a local file is bound by the interpreter; elsewhere it waits for the network.
    threads = 16 if places.store.reads_are_remote else min(os.cpu_count() or 1, 4)
    if len(locations) == 1:
        yield work(locations[0])
        return
    with ThreadPoolExecutor(threads) as pool:
        for start in range(0, len(locations), 1024):
            yield from pool.map(work, locations[start : start + 1024])


def read_data_footer(places: Places, location: str) -> DataFooter:
    try:
        store, path = places.of(location)
        size = store.stat(path).size
        with pq.ParquetFile(store.file_path(path) or store.open(path), pre_buffer=False) as file:
            rows = int(file.metadata.num_rows)
            columns, odd = _KNOWN.of(file)
            return DataFooter(location, rows, size, columns, odd=odd + _odd_codec(file.metadata))
    except (DeltaCliError, OSError, pa.ArrowException, ValueError) as error:
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
# What every reader knows.
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4", "LZ4_RAW", "BROTLI")


def _old_times(schema: Any) -> tuple[str, ...]:
    names = [
        schema.column(number).path
        for number in range(len(schema))
        if schema.column(number).physical_type == "INT96"
    ]
    return (f"INT96 in {', '.join(names)}",) if names else ()


def _odd_codec(metadata: Any) -> tuple[str, ...]:
    if not metadata.num_row_groups or not metadata.num_columns:
        return ()
    codec = metadata.row_group(0).column(0).compression
    return () if codec in _CODECS else (f"the codec {codec}",)


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
