"""A file that lists a table's files, in place of a listing (V-50 … V-52)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any
from urllib.parse import unquote_plus

from deltacli.delta.hidden import HiddenNames
from deltacli.delta.root import Root
from deltacli.errors import FileMissing, NotFound, UsageError
from deltacli.storage import Walked, group_by_folder

# path, length, modificationTime
InventoryRow = tuple[str, int, int]
COLUMNS = ("path", "length", "isDir", "modificationTime")
_BATCH = 1 << 16
_MOST_BYTES = 1 << 53
# As seconds this would be the year 5138.
_MILLISECONDS = 100_000_000_000


def read_inventory(
    name: str, open_file: Callable[[], IO[bytes]], *, url_encoded: bool
) -> Iterator[InventoryRow]:
    """The files of an inventory in CSV (with a header) or Parquet."""
    import pyarrow as pa

    decode = unquote_plus if url_encoded else str
    try:
        with open_file() as file:
            schema, batches = _parquet(file) if name.endswith(".parquet") else _csv(file)
            _check_columns(schema)
            for batch in batches:
                columns = (column.to_pylist() for column in _checked(batch))
                for path, length, _, modified_ms in zip(*columns, strict=True):
                    yield decode(path), length, modified_ms
    except FileMissing as error:
        raise NotFound(error.message, hint="name a file with --inventory") from error
    except (pa.ArrowException, ValueError, KeyError, OverflowError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"the inventory {name} cannot be read: {reason}",
            hint=f"it is CSV with a header, or Parquet, with the columns {', '.join(COLUMNS)}",
        ) from error


def _csv(file: IO[bytes]) -> tuple[Any, Iterator[Any]]:
    import pyarrow as pa
    from pyarrow import csv

    types = (pa.string(), pa.int64(), pa.bool_(), pa.int64())
    convert = csv.ConvertOptions(
        column_types=dict(zip(COLUMNS, types, strict=True)), strings_can_be_null=True
    )
    reader = csv.open_csv(file, convert_options=convert)
    return reader.schema, iter(reader)


def _parquet(file: IO[bytes]) -> tuple[Any, Iterator[Any]]:
    from pyarrow import parquet

    source = parquet.ParquetFile(file)
    wanted = [name for name in COLUMNS if name in source.schema_arrow.names]
    return source.schema_arrow, source.iter_batches(_BATCH, columns=wanted)


def _check_columns(schema: Any) -> None:
    import pyarrow as pa

    right = {
        "path": (pa.types.is_string, pa.types.is_large_string),
        "length": (pa.types.is_integer,),
        "isDir": (pa.types.is_boolean,),
        "modificationTime": (pa.types.is_integer,),
    }
    for name, checks in right.items():
        if name not in schema.names:
            raise UsageError(
                f"the inventory has no column {name}", hint=f"it needs {', '.join(COLUMNS)}"
            )
        kind = schema.field(name).type
        if not any(check(kind) for check in checks):
            raise UsageError(
                f"the inventory's column {name} is of type {kind}",
                hint="path is text, length and modificationTime (milliseconds) are integers, "
                "isDir is true or false",
            )


def _checked(batch: Any) -> list[Any]:
    """The four columns of a batch's files, without nulls."""
    import pyarrow.compute as pc

    is_folder = batch.column("isDir")
    files = batch.filter(pc.invert(pc.fill_null(is_folder, False)))
    for name in COLUMNS:
        if files.column(name).null_count:
            raise UsageError(
                f"the inventory's column {name} has rows without a value",
                hint="a file of unknown age could be one that is being written",
            )
    largest = pc.max(files.column("length")).as_py()
    if largest is not None and largest >= _MOST_BYTES:
        raise UsageError(
            f"the inventory has a file of {largest} bytes", hint="length is a file's size in bytes"
        )
    earliest = pc.min(files.column("modificationTime")).as_py()
    if earliest is not None and earliest < _MILLISECONDS:
        raise UsageError(
            f"the inventory has a modificationTime of {earliest}, which is in 1970",
            hint="it counts milliseconds; seconds are to be multiplied by 1000",
        )
    return [files.column(name) for name in COLUMNS]


def listed_by(rows: Iterator[InventoryRow], root: Root, hides: HiddenNames) -> Iterator[Walked]:
    """The inventory's files below the table, as a walk would find them."""
    seen = below = 0

    def inside() -> Iterator[tuple[str, int, int | None]]:
        nonlocal seen, below
        for path, length, modified_ms in rows:
            seen += 1
            name = root.inside(path)
            if name is not None:
                below += 1
                yield name, length, modified_ms

    yield from group_by_folder(inside(), hides)
    if not seen:
        raise UsageError("the inventory lists no file", hint="its first line names the columns")
    if not below:
        raise UsageError(
            "no file of the inventory lies below the table",
            hint="paths are whole URLs, such as s3://bucket/table/part-0.parquet",
        )
