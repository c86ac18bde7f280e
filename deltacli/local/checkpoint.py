"""Checkpoints written as a stream: one thread reads and shapes, others write.

The live set is never held: memory is a few batches, however many files there are.
Facts 6.2 and 6.3, rules K-12 … K-29.
"""

from __future__ import annotations

import contextlib
import os
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from queue import Queue
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.arrow_types import type_name
from deltacli.delta.engine import CheckpointContent, WrittenFile
from deltacli.errors import StorageError
from deltacli.local.rows import GROUP_ROWS, Shape, small_rows
from deltacli.storage import LogStore


def write_classic(
    store: LogStore, path: str, content: CheckpointContent, scratch: str | None = None
) -> WrittenFile:
    """All actions in one file; each batch of rows is a row group."""
    shape = Shape(content)
    with _discarding() as targets:
        target = _Target(store, path, shape.schema(), content.codec, scratch)
        targets.append(target)
        target.write(small_rows(content.small, shape.schema()))
        for column, rows in _read_ahead(_file_rows(shape)):
            target.write_files(column, rows)
        (written,) = _publish(store, targets, content)
    return written


def write_sidecars(
    store: LogStore,
    paths: Sequence[str],
    content: CheckpointContent,
    scratches: Sequence[str] | None = None,
) -> list[WrittenFile]:
    """The file actions, spread over the sidecars by the hash of their paths."""
    shape = Shape(content)
    schema = shape.schema(files_only=True)
    with _discarding() as targets:
        for number, path in enumerate(paths):
            scratch = scratches[number] if scratches else None
            targets.append(_Target(store, path, schema, content.codec, scratch))
        with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
            # All sidecars together hold no more than a few groups.
            rows = max(4096, 4 * GROUP_ROWS // len(targets))
            buckets = [_Bucket(target, pool, min(rows, GROUP_ROWS)) for target in targets]
            for column, rows in _read_ahead(_file_rows(shape)):
                for bucket, part in _spread(buckets, rows):
                    bucket.add(column, part)
            for bucket in buckets:
                bucket.flush()
            for bucket in buckets:
                bucket.wait()
        return _publish(store, targets, content)


def write_manifest(
    store: LogStore, path: str, lines: Sequence[Mapping[str, Any]], content: CheckpointContent
) -> WrittenFile:
    """A V2 main file in Parquet: everything but file actions."""
    schema = Shape(content).schema(manifest=True)
    with _discarding() as targets:
        targets.append(_Target(store, path, schema, content.codec))
        targets[0].write(small_rows(lines, schema))
        (written,) = _publish(store, targets, replace(content, expected=None))
    return written


@contextlib.contextmanager
def _discarding() -> Iterator[list[_Target]]:
    """No scratch file is left behind, whatever happens."""
    targets: list[_Target] = []
    try:
        yield targets
    finally:
        for target in targets:
            target.discard()


def _publish(
    store: LogStore, targets: Sequence[_Target], content: CheckpointContent
) -> list[WrittenFile]:
    """Only what was read back, and is whole, gets its name."""
    for target in targets:
        target.close()
    written = [target.read_back() for target in targets]
    content.check(written)
    for target in targets:
        store.put_file(target.path, target.scratch)
    return written


def count_rows(path: str) -> tuple[int, int]:
    """Adds and removes of a Parquet file, counted from its rows."""
    adds = removes = 0
    with pq.ParquetFile(path, pre_buffer=False) as file:
        leaves = ["add.size", "remove.dataChange"]
        for batch in file.iter_batches(GROUP_ROWS, columns=leaves, use_threads=False):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                leaf = column.flatten()[0]
                present = len(leaf) - leaf.null_count
                adds, removes = (
                    (adds + present, removes) if name == "add" else (adds, removes + present)
                )
    return adds, removes


class _Target:
    """One Parquet file in the making."""

    def __init__(
        self, store: LogStore, path: str, schema: Any, codec: str, scratch: str | None = None
    ):
        self.path = path
        self.scratch = scratch or store.scratch(path)
        self._schema = schema
        self._rows = 0
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

    def write(self, batch: Any) -> None:
        # A batch is a row group; long statistics must not make it huge.
        rows = max(1, batch.num_rows * _GROUP_BYTES // max(batch.nbytes, 1))
        with self._writing():
            for start in range(0, batch.num_rows, rows):
                self._writer.write_batch(batch.slice(start, rows))
        self._rows += batch.num_rows

    def write_files(self, column: str, rows: Any) -> None:
        """Rows of `add` or `remove`; all other columns are null."""
        count = len(rows)
        arrays = [rows if one.name == column else pa.nulls(count, one.type) for one in self._schema]
        self.write(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

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
                f"cannot write {self.scratch}: {os.strerror(error.errno or 0)}",
                hint="check the space and the permissions there",
                location=self.scratch,
            ) from error
        except UnicodeEncodeError as error:
            raise StorageError(
                f"Arrow cannot write {self.scratch}: its name is not UTF-8",
                hint="give the folder another name",
                location=self.scratch,
            ) from error

    def read_back(self) -> WrittenFile:
        adds, removes = count_rows(self.scratch)
        size = os.path.getsize(self.scratch)
        return WrittenFile(size, adds, removes, self._rows, delta_schema(self._schema))


_DICTIONARY = [
    f"{action}.partitionValues.key_value.{part}"
    for action in ("add", "remove")
    for part in ("key", "value")
] + ["add.tags.key_value.key", "add.clusteringProvider"]


class _Bucket:
    """Rows on their way to one sidecar, written in groups on a thread of the pool."""

    def __init__(self, target: _Target, pool: ThreadPoolExecutor, group_rows: int):
        self._target = target
        self._pool = pool
        self._group_rows = group_rows
        self._held: dict[str, list[Any]] = {"add": [], "remove": []}
        self._jobs: list[Future[None]] = []
        self._lock = threading.Lock()

    def add(self, column: str, rows: Any) -> None:
        held = self._held[column]
        held.append(rows)
        if sum(map(len, held)) >= self._group_rows:
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


_GROUP_BYTES = 100 << 20


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
    return type_name(kind)
