"""One data file written anew, with the types that the table has by now.

Rows keep their order; deleted ones are left out. Columns keep their physical names and
field ids. What the table does not know any more is left out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.actions import Json
from deltacli.delta.arrow_types import arrow_type, type_name
from deltacli.delta.column_mapping import ID
from deltacli.delta.data_files import NewFile, Target, new_names
from deltacli.delta.paths import file_location
from deltacli.delta.scan import Places, Rows, ScanFile
from deltacli.delta.schema import Array, DataType, Map, Struct
from deltacli.delta.widening import is_readable_change
from deltacli.errors import CorruptLog, FileMissing, StorageError
from deltacli.local.chunks import check_chunks
from deltacli.local.new_stats import NewStats
from deltacli.local.scan import find_column, open_data_file, rows_that_count, shaped
from deltacli.storage import LogStore

_FILE_ID = b"PARQUET:field_id"
_GROUP_BYTES = 128 << 20
_BATCH = 16_384


def rewrite_files(
    store: LogStore, places: Places, target: Target, adds: Sequence[Json]
) -> list[NewFile | None]:
    """A new file for each `add`. If one cannot be made, none is left behind."""
    jobs = list(zip(adds, new_names(store, [one["path"] for one in adds]), strict=True))
    work = partial(rewrite_file, store, places, target)
    try:
        with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
            return list(pool.map(work, jobs))
    except BaseException:
        discard(store, [name for _, name in jobs])
        raise


def discard(store: LogStore, names: Sequence[str]) -> None:
    """Delete new files that nothing refers to."""
    for name in names:
        with contextlib.suppress(StorageError):
            store.delete(name)


def rewrite_file(
    store: LogStore, places: Places, target: Target, job: tuple[Json, str]
) -> NewFile | None:
    """Write the rows of an `add` into a new file; None if they are all deleted."""
    old, name = job
    location = file_location(places.store.location, old["path"])
    vector = old.get("deletionVector")
    one = ScanFile(location, old["size"], {}, Rows.WITHOUT if vector else Rows.ALL)
    deleted = places.deleted_rows(vector) if vector else None
    if deleted is not None:
        one = replace(one, select=lambda: deleted)
    source, path = places.of(location)
    try:
        with open_data_file(source, path) as file:
            expected = file.metadata.num_rows - (vector or {}).get("cardinality", 0)
            if not expected:
                return None
            return _write(store, name, file, one, target, expected)
    except (pa.ArrowException, FileNotFoundError, FileMissing, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CorruptLog(
            f"the data file {old['path']} cannot be rewritten: {reason}",
            hint="restore the file; nothing was changed",
            location=location,
        ) from error


def _write(
    store: LogStore, name: str, file: Any, one: ScanFile, target: Target, expected: int
) -> NewFile:
    fields = [
        (found, field)
        for field in target.schema.fields
        if (found := find_column(file.schema_arrow, field, target.mode)) is not None
    ]
    schema = pa.schema([_arrow_field(field, target.mode) for _, field in fields])
    by_id = target.mode == "id"
    if by_id and not any(_FILE_ID in (one.metadata or {}) for one in file.schema_arrow):
        raise TypeError("its columns have no ids, which the table goes by")
    for found, field in fields:
        _check_types(found.type, schema.field(field.name).type, by_id=by_id)
    check_chunks(file.metadata)
    codec = file.metadata.row_group(0).column(0).compression.lower()
    scratch = store.scratch(name)
    stats = NewStats(target.indexed, has_tight_bounds=target.has_vectors)
    try:
        with pq.ParquetWriter(
            scratch,
            schema,
            compression="none" if codec == "uncompressed" else codec,
            version="2.6",
            coerce_timestamps="us",
            store_schema=False,
        ) as writer:
            for group in _groups(file, one, fields, schema, target.mode):
                stats.take(group)
                writer.write_table(group, row_group_size=group.num_rows)
        if pq.read_metadata(scratch).num_rows != expected or stats.rows != expected:
            raise CorruptLog(
                f"the data file {one.location} has {stats.rows} rows, not {expected} as its "
                "deletion vector says",
                hint="nothing was changed; check the table",
            )
        size = os.path.getsize(scratch)
        store.put_file(name, scratch)
    except OSError as error:
        raise StorageError(f"cannot write {scratch}: {error}", location=scratch) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
    modified_ms = store.stat(name).modified_ms or 0
    return NewFile(quote(name, safe="/=!$&'()*+,;@~"), size, modified_ms, expected, stats.text())


def _groups(
    file: Any, one: ScanFile, fields: list[tuple[Any, Any]], schema: Any, mode: str
) -> Iterator[Any]:
    """The rows that stay, in tables as large as a row group should be."""
    held: list[Any] = []
    size = 0
    names = [found.name for found, _ in fields]
    for rows in _readable(rows_that_count(file, one, names, _BATCH), one.location):
        columns = [shaped(rows.column(found.name), field.type, mode) for found, field in fields]
        held.append(pa.Table.from_arrays(columns, schema=schema))
        size += held[-1].nbytes
        if size > _GROUP_BYTES:
            yield pa.concat_tables(held).combine_chunks()
            held, size = [], 0
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _readable(batches: Iterator[Any], location: str) -> Iterator[Any]:
    """Broken pages are the old file's fault, not that of the new one."""
    try:
        yield from batches
    except (OSError, pa.ArrowException) as error:
        raise CorruptLog(
            f"the data file {location} cannot be rewritten: {str(error).splitlines()[0]}",
            hint="restore the file; nothing was changed",
            location=location,
        ) from error


def _check_types(stored: Any, wanted: Any, *, by_id: bool) -> None:
    """Raise TypeError for values that would be changed, and fields that would be lost."""
    if pa.types.is_struct(wanted) and pa.types.is_struct(stored):
        if by_id and any(_FILE_ID not in (one.metadata or {}) for one in stored):
            raise TypeError("fields of a struct have no ids, which the table goes by")
        kinds = {_key(one, by_id=by_id): one.type for one in wanted}
        for one in stored:
            if (key := _key(one, by_id=by_id)) in kinds:
                _check_types(one.type, kinds[key], by_id=by_id)
    elif pa.types.is_list(wanted):
        if hasattr(stored, "value_type"):
            _check_types(stored.value_type, wanted.value_type, by_id=by_id)
    elif pa.types.is_map(wanted) and pa.types.is_map(stored):
        _check_types(stored.key_type, wanted.key_type, by_id=by_id)
        _check_types(stored.item_type, wanted.item_type, by_id=by_id)
    elif not _is_same_kind(stored, wanted):
        raise TypeError(f"it has {stored} where the table has {wanted}")


def _key(field: Any, *, by_id: bool) -> Any:
    return (field.metadata or {}).get(_FILE_ID) if by_id else field.name.lower()


def _is_same_kind(stored: Any, wanted: Any) -> bool:
    """Equal types, wider ones, and what writers are known to store in their place."""
    types = pa.types
    old, new = type_name(stored), type_name(wanted)
    if old == new or is_readable_change(old, new) or types.is_null(stored):
        return True
    return any(
        kind(stored) and kind(wanted)
        # A byte may lie in a file as an integer; casting checks that it fits.
        for kind in (types.is_integer, types.is_timestamp, _is_text)
    )


def _is_text(kind: Any) -> bool:
    return type_name(kind) in ("string", "binary") or "view" in str(kind)


def _arrow_field(field: Any, mode: str) -> Any:
    """A column as the file has it, with its id."""
    own = field.metadata.get(ID) if mode != "none" else None
    metadata = {"PARQUET:field_id": str(own)} if own is not None else None
    return pa.field(field.name, _arrow_kind(field.type, mode), metadata=metadata)


def _arrow_kind(data_type: DataType, mode: str) -> Any:
    if isinstance(data_type, Struct):
        return pa.struct([_arrow_field(one, mode) for one in data_type.fields])
    if isinstance(data_type, Array):
        return pa.list_(pa.field("element", _arrow_kind(data_type.element, mode)))
    if isinstance(data_type, Map):
        return pa.map_(_arrow_kind(data_type.key, mode), _arrow_kind(data_type.value, mode))
    return arrow_type(data_type)
