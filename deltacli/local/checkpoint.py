"""Checkpoints written as a stream: one thread reads and shapes, others write.

The live set is never held: memory is a few batches, however many files there are.
Facts 6.2 and 6.3, rules K-12 … K-29.
"""

from __future__ import annotations

import contextlib
import os
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltacli.delta import json_text
from deltacli.delta.columns import fit
from deltacli.delta.engine import CheckpointContent, FileBatch, WrittenFile
from deltacli.delta.stats import stats_of_struct
from deltacli.errors import StorageError
from deltacli.local.parsed import arrow_type, parsed_partition_values, parsed_stats, stats_type
from deltacli.storage import LogStore

_GROUP_ROWS = 65_536

_TEXTS = pa.map_(pa.string(), pa.string())
_NAMES = pa.list_(pa.field("element", pa.string()))
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
_ADD = [
    ("path", pa.string()),
    ("partitionValues", _TEXTS),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("tags", _TEXTS),
    ("deletionVector", _VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
    ("clusteringProvider", pa.string()),
]
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", _NAMES),
        ("configuration", _TEXTS),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", _NAMES),
        ("writerFeatures", _NAMES),
    ]
)
_DOMAIN = pa.struct(
    [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
)
_SIDECAR = pa.struct(
    [
        ("path", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("modificationTime", pa.int64()),
        ("tags", _TEXTS),
    ]
)
_MANIFEST = pa.struct([("version", pa.int64()), ("tags", _TEXTS)])
_SMALL = {
    "metaData": _METADATA,
    "protocol": _PROTOCOL,
    "domainMetadata": _DOMAIN,
    "sidecar": _SIDECAR,
    "checkpointMetadata": _MANIFEST,
    "txn": _TXN,
}


class Shape:
    """The columns of one checkpoint, and how its rows are brought into them."""

    def __init__(self, content: CheckpointContent):
        self.content = content
        fields = list(_ADD)
        if content.stats_as_json:
            fields.append(("stats", pa.string()))
        self._partitions = None
        if content.stats_as_struct and content.partition_columns:
            self._partitions = pa.struct(
                [(name, arrow_type(kind)) for name, kind in content.partition_columns.items()]
            )
            fields.append(("partitionValues_parsed", self._partitions))
        self._stats = stats_type(content.stats_schema) if content.stats_schema else None
        if self._stats is not None:
            fields.append(("stats_parsed", self._stats))
        self.add = pa.struct(fields)

    def schema(self, *, files_only: bool = False, manifest: bool = False) -> Any:
        """The columns of a classic checkpoint, a sidecar or a V2 main file."""
        files = [("add", self.add), ("remove", _REMOVE)]
        if files_only:
            return pa.schema(files)
        small = [("metaData", _METADATA), ("protocol", _PROTOCOL), ("domainMetadata", _DOMAIN)]
        if manifest:
            small += [("sidecar", _SIDECAR), ("checkpointMetadata", _MANIFEST)]
        return pa.schema([("txn", _TXN), *files, *small])

    def adds(self) -> Iterator[Any]:
        for batch in _batches(self.content.files, _add_batch):
            yield self._add_rows(batch)

    def removes(self) -> Iterator[Any]:
        for batch in _batches(self.content.removes, _remove_batch):
            stamps = _column(batch, "deletionTimestamp", pa.int64())
            fresh = pc.fill_null(pc.greater(stamps, self.content.removed_after_ms), False)
            kept = batch.filter(fresh)
            if kept.num_rows:
                yield _struct(kept, _REMOVE, {"dataChange": _no(kept.num_rows)})

    def _add_rows(self, batch: Any) -> Any:
        made = {"dataChange": _no(batch.num_rows)}
        values = _column(batch, "partitionValues", _TEXTS)
        made["partitionValues"] = _without_null_maps(values)
        if self.content.stats_as_json:
            made["stats"] = _stats_texts(batch)
        if self._partitions is not None:
            made["partitionValues_parsed"] = parsed_partition_values(
                made["partitionValues"], self.content.partition_columns, self._partitions
            )
        if self._stats is not None and self.content.stats_schema is not None:
            made["stats_parsed"] = parsed_stats(batch, self.content.stats_schema, self._stats)
        return _struct(batch, self.add, made)


def write_classic(store: LogStore, path: str, content: CheckpointContent) -> WrittenFile:
    """All actions in one file; each batch of rows is a row group."""
    shape = Shape(content)
    with _Target(store, path, shape.schema(), content.codec) as target:
        target.write(_small_rows(content.small, shape.schema()))
        for column, rows in _read_ahead(_file_rows(shape)):
            target.write_files(column, rows)
    return target.finished()


def write_sidecars(
    store: LogStore, paths: Sequence[str], content: CheckpointContent
) -> list[WrittenFile]:
    """The file actions, spread over the sidecars by the hash of their paths."""
    shape = Shape(content)
    schema = shape.schema(files_only=True)
    targets = [_Target(store, path, schema, content.codec) for path in paths]
    try:
        with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
            buckets = [_Bucket(target, pool) for target in targets]
            for column, rows in _read_ahead(_file_rows(shape)):
                for bucket, part in _spread(buckets, rows):
                    bucket.add(column, part)
            for bucket in buckets:
                bucket.flush()
            for bucket in buckets:
                bucket.wait()
        for target in targets:
            target.close()
    except BaseException:
        for target in targets:
            target.discard()
        raise
    return [target.finished() for target in targets]


def write_manifest(
    store: LogStore, path: str, lines: Sequence[Mapping[str, Any]], content: CheckpointContent
) -> WrittenFile:
    """A V2 main file in Parquet: everything but file actions."""
    schema = Shape(content).schema(manifest=True)
    with _Target(store, path, schema, content.codec) as target:
        target.write(_small_rows(lines, schema))
    return target.finished()


def count_rows(path: str) -> tuple[int, int]:
    """Adds and removes of a Parquet file, counted from its rows."""
    adds = removes = 0
    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(
            _GROUP_ROWS, columns=["add.size", "remove.dataChange"], use_threads=False
        ):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                leaf = column.flatten()[0]
                present = len(leaf) - leaf.null_count
                adds, removes = (
                    (adds + present, removes) if name == "add" else (adds, removes + present)
                )
    return adds, removes


class _Target:
    """One Parquet file in the making."""

    def __init__(self, store: LogStore, path: str, schema: Any, codec: str):
        self.scratch = store.scratch(path)
        self._schema = schema
        self.counts = {"add": 0, "remove": 0}
        self.rows = 0
        self._writer: Any = None
        with self._writing():
            self._writer = pq.ParquetWriter(
                self.scratch,
                schema,
                compression=codec,
                version="2.4",
                data_page_version="1.0",
                coerce_timestamps="us",
                # Everything else has too many different values for a dictionary to pay.
                use_dictionary=_DICTIONARY,
                store_schema=False,
            )

    def __enter__(self) -> _Target:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def write(self, batch: Any) -> None:
        with self._writing():
            self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def write_files(self, column: str, rows: Any) -> None:
        """Rows of `add` or `remove`; all other columns are null."""
        count = len(rows)
        arrays = [rows if one.name == column else pa.nulls(count, one.type) for one in self._schema]
        self.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self.counts[column] += count

    def close(self) -> None:
        with self._writing():
            self._writer.close()

    def discard(self) -> None:
        with contextlib.suppress(OSError, pa.ArrowException):
            if self._writer is not None:
                self._writer.close()
        with contextlib.suppress(OSError):
            os.unlink(self.scratch)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.discard()
            raise StorageError(
                f"cannot write {self.scratch}: {error.strerror or error}",
                hint="check the space and the permissions there",
                location=self.scratch,
            ) from error

    def finished(self) -> WrittenFile:
        return WrittenFile(
            self.scratch,
            os.path.getsize(self.scratch),
            self.counts["add"],
            self.counts["remove"],
            self.rows,
            delta_schema(self._schema),
        )


_DICTIONARY = [
    f"{action}.partitionValues.key_value.{part}"
    for action in ("add", "remove")
    for part in ("key", "value")
] + ["add.tags.key_value.key", "add.clusteringProvider"]


class _Bucket:
    """Rows on their way to one sidecar, written in groups on a thread of the pool."""

    def __init__(self, target: _Target, pool: ThreadPoolExecutor):
        self._target = target
        self._pool = pool
        self._held: dict[str, list[Any]] = {"add": [], "remove": []}
        self._jobs: list[Future[None]] = []
        self._lock = threading.Lock()

    def add(self, column: str, rows: Any) -> None:
        held = self._held[column]
        held.append(rows)
        if sum(map(len, held)) >= _GROUP_ROWS:
            self._submit(column)

    def flush(self) -> None:
        for column in self._held:
            if self._held[column]:
                self._submit(column)

    def wait(self) -> None:
        for job in self._jobs:
            job.result()

    def _submit(self, column: str) -> None:
        held, self._held[column] = self._held[column], []
        # A job at a time for each sidecar keeps memory bounded.
        self.wait()
        self._jobs = [self._pool.submit(self._write, column, held)]

    def _write(self, column: str, held: list[Any]) -> None:
        with self._lock:
            self._target.write_files(column, pa.concat_arrays(held))


def _spread(buckets: Sequence[_Bucket], rows: Any) -> Iterator[tuple[_Bucket, Any]]:
    if len(buckets) == 1:
        yield buckets[0], rows
        return
    places: list[list[int]] = [[] for _ in buckets]
    paths = rows.field("path").to_pylist()
    for position, path in enumerate(paths):
        places[zlib.crc32(path.encode("utf-8", "surrogatepass")) % len(buckets)].append(position)
    for bucket, positions in zip(buckets, places, strict=True):
        if positions:
            yield bucket, rows.take(pa.array(positions, pa.int32()))


def _file_rows(shape: Shape) -> Iterator[tuple[str, Any]]:
    for rows in shape.adds():
        yield "add", rows
    for rows in shape.removes():
        yield "remove", rows


def _read_ahead(rows: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The same, read and shaped on a thread of its own, two batches ahead."""
    queue: Queue[Any] = Queue(2)
    stopped = threading.Event()

    def read() -> None:
        try:
            for one in rows:
                if stopped.is_set():
                    return
                queue.put(one)
            queue.put(None)
        except BaseException as error:
            queue.put(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        while (one := queue.get()) is not None:
            if isinstance(one, BaseException):
                raise one
            yield one
    finally:
        stopped.set()
        while not queue.empty():
            queue.get_nowait()
        reader.join(timeout=30)


def _batches(
    items: Iterator[Mapping[str, Any] | FileBatch],
    shape: Callable[[Sequence[Mapping[str, Any]]], Any],
) -> Iterator[Any]:
    """Arrow batches of checkpoint rows and of single actions, the latter put together."""
    held: list[Mapping[str, Any]] = []
    for item in items:
        if isinstance(item, FileBatch):
            if item.columns.num_rows:
                yield item.columns
            continue
        held.append(item)
        if len(held) == _GROUP_ROWS // 4:
            yield shape(held)
            held = []
    if held:
        yield shape(held)


def _add_batch(bodies: Sequence[Mapping[str, Any]]) -> Any:
    return _batch_of(bodies, pa.struct([*_ADD, ("stats", pa.string())]))


def _remove_batch(bodies: Sequence[Mapping[str, Any]]) -> Any:
    return _batch_of(bodies, _REMOVE)


def _batch_of(bodies: Sequence[Mapping[str, Any]], kind: Any) -> Any:
    arrays = []
    for field in kind:
        values: list[Any] = [body.get(field.name) for body in bodies]
        if field.type == _TEXTS:
            values = [None if one is None else _pairs(one) for one in values]
        elif field.name == "stats":
            values = [one if isinstance(one, str) else None for one in values]
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in kind])


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """A map's entries; null values survive, numbers of careless writers become text (K-21)."""
    return [
        (key, one if one is None or isinstance(one, str) else json_text.dump(one).decode())
        for key, one in values.items()
    ]


def _small_rows(lines: Sequence[Mapping[str, Any]], schema: Any) -> Any:
    """Actions that are not about files as one batch."""
    arrays = []
    for field in schema:
        bodies = [_as_row(line.get(field.name), field.type) for line in lines]
        arrays.append(pa.array(bodies, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_row(body: Any, kind: Any) -> Any:
    if body is None:
        return None
    if pa.types.is_struct(kind):
        return {one.name: _as_row(body.get(one.name), one.type) for one in kind}
    return list(body.items()) if pa.types.is_map(kind) else body


def _column(batch: Any, name: str, kind: Any) -> Any:
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, kind)
    return fit(batch.column(name), kind)


def _struct(batch: Any, kind: Any, made: Mapping[str, Any]) -> Any:
    arrays = [
        made[one.name] if one.name in made else _column(batch, one.name, one.type) for one in kind
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _no(count: int) -> Any:
    return pa.repeat(pa.scalar(False), count)


def _without_null_maps(maps: Any) -> Any:
    """`{}` where a map is null: partitionValues of an unpartitioned table are not null."""
    if not maps.null_count:
        return maps
    filled = [list(one) if one is not None else [] for one in maps.to_pylist()]
    return pa.array(filled, maps.type)


def _stats_texts(batch: Any) -> Any:
    """The statistics' text as it stands (K-15); made from the struct only where there is none."""
    texts = _column(batch, "stats", pa.string())
    if not texts.null_count or "stats_parsed" not in batch.schema.names:
        return texts
    parsed = batch.column("stats_parsed")
    missing = pc.and_(pc.is_null(texts), pc.is_valid(parsed))
    if not missing.true_count:
        return texts
    structs = [stats_of_struct(one) for one in parsed.filter(missing).to_pylist()]
    made = [None if one is None else json_text.dump(one).decode() for one in structs]
    return pc.replace_with_mask(texts, missing, pa.array(made, pa.string()))


_NAMES_OF_TYPES = {
    pa.string(): "string",
    pa.int64(): "long",
    pa.int32(): "integer",
    pa.int16(): "short",
    pa.int8(): "byte",
    pa.bool_(): "boolean",
    pa.float64(): "double",
    pa.float32(): "float",
    pa.date32(): "date",
    pa.binary(): "binary",
    pa.timestamp("us", "UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
}


def delta_schema(kind: Any) -> Any:
    """An Arrow schema as the JSON tree that `_last_checkpoint` has."""
    if isinstance(kind, pa.Schema) or pa.types.is_struct(kind):
        fields = [
            {"name": one.name, "type": delta_schema(one.type), "nullable": True, "metadata": {}}
            for one in kind
        ]
        return {"type": "struct", "fields": fields}
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": delta_schema(kind.key_type),
            "valueType": delta_schema(kind.item_type),
            "valueContainsNull": True,
        }
    if pa.types.is_list(kind):
        return {
            "type": "array",
            "elementType": delta_schema(kind.value_type),
            "containsNull": True,
        }
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _NAMES_OF_TYPES[kind]
