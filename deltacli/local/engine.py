"""The local engine: checkpoints streamed by row group, leaf columns only.

What the newer commits touched is dropped by `is_in` on paths; the exact key is looked at
for the hits only. Time grows with the bytes of the columns asked for; memory with the
commits after the checkpoint and one batch a thread.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltacli.delta.actions import Sidecar, vector_id
from deltacli.delta.columns import canonical_paths, path_array, record_counts
from deltacli.delta.engine import (
    CheckpointContent,
    FileBatch,
    Search,
    Totals,
    Unreferenced,
    Want,
    WrittenFile,
)
from deltacli.delta.paths import sidecar_path
from deltacli.delta.replay import FileKey, Reconciled
from deltacli.errors import FileMissing, StorageError, UnreadableCheckpoint
from deltacli.local.footers import Footer, all_null, groups_with, read_footer
from deltacli.storage import LogStore, parquet_source

if TYPE_CHECKING:
    from deltacli.delta.actions import Json
    from deltacli.delta.data_files import DataFooter, NewFile, Target
    from deltacli.delta.scan import Places

_BATCH_ROWS = 16_384
_SMALL = {
    "protocol": "protocol.minReaderVersion",
    "metaData": "metaData.id",
    "txn": "txn.appId",
    "domainMetadata": "domainMetadata.domain",
    "sidecar": "sidecar.path",
}


class LocalEngine:
    """pyarrow and a few threads."""

    name = "local"

    def __init__(self) -> None:
        # Batches come and go on several threads; jemalloc gives a quarter of the memory
        # back that the default keeps, at the same speed. It is not built for all systems.
        with contextlib.suppress(NotImplementedError):
            pa.set_memory_pool(pa.jemalloc_memory_pool())

    def open_checkpoint(
        self, store: LogStore, main_files: Sequence[str], state: Reconciled
    ) -> LocalCheckpoint:
        return LocalCheckpoint(store, main_files, state)

    def write_classic(self, store: LogStore, path: str, content: CheckpointContent) -> WrittenFile:
        from deltacli.local import checkpoint

        return checkpoint.write_classic(store, path, content)

    def write_manifest(
        self,
        store: LogStore,
        path: str,
        lines: Sequence[Mapping[str, Any]],
        content: CheckpointContent,
    ) -> WrittenFile:
        from deltacli.local import checkpoint

        return checkpoint.write_manifest(store, path, lines, content)

    def write_sidecars(
        self, store: LogStore, paths: Sequence[str], content: CheckpointContent
    ) -> list[WrittenFile]:
        from deltacli.local import checkpoint

        return checkpoint.write_sidecars(store, paths, content)

    def read_footers(self, places: Places, locations: Sequence[str]) -> Iterator[DataFooter]:
        from deltacli.local.data_footers import read_data_footers

        return read_data_footers(places, locations)

    def rewrite_files(
        self, store: LogStore, places: Places, target: Target, adds: Sequence[Json]
    ) -> list[NewFile | None]:
        from deltacli.local import rewrite

        return rewrite.rewrite_files(store, places, target, adds)

    def find_unreferenced(
        self, store: LogStore, search: Search, on_listed: Callable[[int], None] | None = None
    ) -> Unreferenced:
        from deltacli.local import files

        return files.find_unreferenced(store, search, on_listed)

    def delete(
        self,
        store: LogStore,
        batches: Iterator[Sequence[str]],
        on_done: Callable[[Sequence[str], list[tuple[str, StorageError]]], None],
    ) -> None:
        from deltacli.local import files

        files.delete(store, batches, on_done)


class LocalCheckpoint:
    """The Parquet files of one checkpoint."""

    def __init__(self, store: LogStore, main_files: Sequence[str], state: Reconciled):
        self._store = store
        self._files = self._footers(main_files)
        for footer in self._files:
            for action, leaf in _SMALL.items():
                groups = groups_with(footer.metadata, leaf)
                if groups:
                    self._apply_small(footer, action, leaf, groups, state)
        self._files += self._footers([_path_of(one) for one in state.sidecars])
        self._groups = [
            (footer, group)
            for footer in self._files
            for group in range(footer.metadata.num_row_groups)
        ]

    @property
    def num_groups(self) -> int:
        return len(self._groups)

    def part(self, number: int, count: int) -> LocalCheckpoint:
        other = copy(self)
        other._groups = self._groups[number::count]
        other._files = []
        return other

    def _footers(self, paths: Sequence[str]) -> list[Footer]:
        if len(paths) <= 1:
            return [self._footer(path) for path in paths]
        with ThreadPoolExecutor(_threads()) as pool:
            return list(pool.map(self._footer, paths))

    def _footer(self, path: str) -> Footer:
        with _Readable(path), self._open(path) as file:
            return read_footer(path, file)

    def _open(self, path: str, metadata: Any = None) -> Any:
        return pq.ParquetFile(
            parquet_source(self._store, path),
            metadata=metadata,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
        )

    def _apply_small(
        self, footer: Footer, action: str, leaf: str, groups: list[int], state: Reconciled
    ) -> None:
        columns = sorted(one for one in footer.leaves if one.startswith(f"{action}."))
        with _Readable(footer.path), self._open(footer.path, footer.metadata) as file:
            for group in groups:
                # One leaf tells which rows hold the action; mostly none or one.
                batches = file.iter_batches(_BATCH_ROWS, [group], columns, use_threads=False)
                for batch in batches:
                    struct = batch.column(0)
                    rows = struct.filter(pc.is_valid(pc.struct_field(struct, [leaf.split(".")[1]])))
                    for body in rows.to_pylist():
                        state.apply_small(action, _without_nulls(body))

    def totals(
        self,
        state: Reconciled,
        wanted: frozenset[Want],
        removed_after_ms: int,
        on_read: Callable[[int, int], None] | None = None,
    ) -> Totals:
        touched = _Touched(state)
        jobs = self._groups
        total = Totals()

        def work(job: tuple[Footer, int]) -> Totals:
            return self._group_totals(*job, touched, wanted, removed_after_ms)

        with ThreadPoolExecutor(min(_threads(), max(len(jobs), 1))) as pool:
            for done, part in enumerate(pool.map(work, jobs)):
                total.add(part)
                if on_read:
                    on_read(done + 1, len(jobs))
        return total

    def _group_totals(
        self,
        footer: Footer,
        group: int,
        touched: _Touched,
        wanted: frozenset[Want],
        removed_after_ms: int,
    ) -> Totals:
        total = Totals()
        fields = _fields_for(wanted, touched, footer)
        if fields:
            batches = self._rows(footer, group, "add", fields)
            reduced = (
                _with_records(batch) if Want.RECORDS in wanted else batch for batch in batches
            )
            for batch in _joined(reduced, touched.batch_rows):
                total.add(_count_adds(batch, wanted))
                replaced = touched.replaced(batch)
                if replaced:
                    total.subtract(_count_adds(batch.take(_positions(replaced)), wanted))
        if Want.TOMBSTONES in wanted:
            fields = ["deletionTimestamp", "size", *touched.key_fields]
            for batch in _joined(self._rows(footer, group, "remove", fields), touched.batch_rows):
                total.add(_count_removes(batch, removed_after_ms))
                replaced = touched.replaced(batch)
                if replaced:
                    rows = batch.take(_positions(replaced))
                    total.subtract(_count_removes(rows, removed_after_ms))
        return total

    def files(
        self, state: Reconciled, action: str, fields: Sequence[str], rows: int = 0
    ) -> Iterator[FileBatch]:
        touched = _Touched(state)
        rows = max(rows, touched.batch_rows // 4)
        # Whether a row is replaced is told by its whole key, whatever the caller wants to see.
        read = [*fields, *(one for one in touched.key_fields if one not in fields)]
        for footer, group in self._groups:
            for batch in self._rows(footer, group, action, read, rows):
                yield FileBatch(partial(touched.live_rows, batch, footer.path, fields))

    def find(self, paths: Collection[str], fields: Sequence[str]) -> Iterator[FileBatch]:
        wanted = path_array(paths)
        for footer, group in self._groups:
            for batch in self._rows(footer, group, "add", fields):
                hits = pc.is_in(canonical_paths(batch.column("path")), value_set=wanted)
                if hits.true_count:
                    yield FileBatch(partial(batch.filter, hits))

    def _rows(
        self,
        footer: Footer,
        group: int,
        action: str,
        fields: Sequence[str],
        rows: int = 0,
    ) -> Iterator[Any]:
        """One action's columns of a row group as flat batches; rows of other actions are null."""
        key = f"{action}.path"
        if key not in footer.leaves or all_null(footer.metadata, group, key):
            return
        if all_null(footer.metadata, group, f"{action}.deletionVector.storageType", absent=True):
            fields = [one for one in fields if one != "deletionVector"]
        leaves = [
            leaf
            for leaf in sorted(footer.leaves)
            if any(
                leaf == f"{action}.{one}" or leaf.startswith(f"{action}.{one}.") for one in fields
            )
        ]
        # Without a column to read there would be no rows either.
        leaves = leaves or [key]
        with _Readable(footer.path), self._open(footer.path, footer.metadata) as file:
            for batch in file.iter_batches(
                max(rows, _BATCH_ROWS), [group], leaves, use_threads=False
            ):
                yield flatten(batch.column(0), footer.int96)


class _Touched:
    """The keys that newer commits decided, ready for columns."""

    def __init__(self, state: Reconciled):
        self._state = state
        names = state.touched_paths()
        self._paths = path_array(names)
        # A row with a vector is another file than one of the same path without.
        self.key_fields = ["path", "deletionVector"] if names else []
        # `is_in` builds its table anew at each call, so a call should have rows enough.
        self.batch_rows = min(2 * len(names), 1 << 20)

    def replaced(self, batch: Any) -> list[int]:
        """The positions of rows whose key a newer action has decided."""
        if not len(self._paths):
            return []
        paths = canonical_paths(batch.column("path"))
        hits = pc.is_in(paths, value_set=self._paths, skip_nulls=True)
        if not hits.true_count:
            return []
        positions = pc.indices_nonzero(hits)
        hit_paths = paths.take(positions).to_pylist()
        if "deletionVector" not in batch.schema.names:
            return [
                position
                for position, path in zip(positions.to_pylist(), hit_paths, strict=True)
                if self._decided(path)
            ]
        vectors = batch.column("deletionVector").take(positions).to_pylist()
        return [
            position
            for position, path, vector in zip(
                positions.to_pylist(), hit_paths, vectors, strict=True
            )
            if self._decided((path, vector_id(vector) or "") if vector else path)
        ]

    def live_rows(self, batch: Any, path: str, fields: Sequence[str]) -> Any:
        """The rows of the action, without those of other actions (null) and the replaced ones;
        of columns that only their keys needed, none is left."""
        with _Readable(path):
            # Arrow believes what a file says is UTF-8.
            batch.validate(full=True)
        keep = pc.is_valid(batch.column("path"))
        replaced = self.replaced(batch)
        if replaced:
            flags = bytearray(b"\x01") * batch.num_rows
            for position in replaced:
                flags[position] = 0
            alone = pa.UInt8Array.from_buffers(pa.uint8(), len(flags), [None, pa.py_buffer(flags)])
            keep = pc.and_(keep, alone.cast(pa.bool_()))
        if keep.true_count < batch.num_rows:
            batch = batch.filter(keep)
        names = batch.schema.names
        wanted = {one.split(".")[0] for one in fields}
        return (
            batch
            if wanted.issuperset(names)
            else batch.select([one for one in names if one in wanted])
        )

    def _decided(self, key: FileKey) -> bool:
        return key in self._state.adds or key in self._state.removes


def _fields_for(wanted: frozenset[Want], touched: _Touched, footer: Footer) -> list[str]:
    if not wanted & {Want.FILES, Want.RECORDS, Want.VECTORS}:
        return []
    fields = {"size", *touched.key_fields}
    if wanted & {Want.RECORDS, Want.VECTORS}:
        fields.add("deletionVector")
    if Want.RECORDS in wanted:
        # A struct is many times cheaper to read than JSON; rows without it fall back.
        fields.add("stats")
        if "add.stats_parsed.numRecords" in footer.leaves:
            fields.add("stats_parsed.numRecords")
    return sorted(fields)


def _joined(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """The same rows in batches of at least `rows`, the last excepted."""
    held: list[Any] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= rows:
            yield _one_batch(held)
            held, count = [], 0
    if held:
        yield _one_batch(held)


def _one_batch(batches: list[Any]) -> Any:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _positions(numbers: list[int]) -> Any:
    return pa.Int32Array.from_buffers(
        pa.int32(), len(numbers), [None, pa.py_buffer(array("i", numbers))]
    )


def _count_adds(batch: Any, wanted: frozenset[Want]) -> Totals:
    sizes = batch.column("size")
    total = Totals(files=batch.num_rows - sizes.null_count, bytes=pc.sum(sizes).as_py() or 0)
    names = batch.schema.names
    if "deletionVector" in names and wanted & {Want.RECORDS, Want.VECTORS}:
        cardinality = pc.struct_field(batch.column("deletionVector"), ["cardinality"])
        total.vectors = batch.num_rows - cardinality.null_count
        total.deleted_records = pc.sum(cardinality).as_py() or 0
    if "numRecords" in names:
        records = batch.column("numRecords")
        total.records = pc.sum(records).as_py() or 0
        total.without_records = records.null_count - sizes.null_count
    return total


def _count_removes(batch: Any, removed_after_ms: int) -> Totals:
    if "deletionTimestamp" not in batch.schema.names:
        return Totals()
    fresh = pc.fill_null(pc.greater(batch.column("deletionTimestamp"), removed_after_ms), False)
    total = Totals(tombstones=fresh.true_count)
    if "size" in batch.schema.names:
        total.tombstone_bytes = pc.sum(batch.column("size").filter(fresh)).as_py() or 0
    return total


def _with_records(batch: Any) -> Any:
    """The batch with the small column numRecords in place of the statistics."""
    kept = [name for name in batch.schema.names if name not in ("stats", "stats_parsed")]
    return batch.select(kept).append_column("numRecords", record_counts(batch))


def flatten(struct: Any, int96: frozenset[str]) -> Any:
    """A struct column as a batch of its fields."""
    names = [struct.type.field(i).name for i in range(struct.type.num_fields)]
    columns = dict(zip(names, struct.flatten(), strict=True))
    for name, kind in _OWN_TYPES.items():
        if name in columns and columns[name].type != kind:
            columns[name] = columns[name].cast(kind)
    if "stats_parsed" in columns:
        parsed = columns["stats_parsed"]
        kind = _time_types(parsed.type, "add.stats_parsed", int96)
        columns["stats_parsed"] = parsed.cast(kind, safe=False)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


# Writers may leave a hint in the file that makes Arrow read texts as other kinds of text.
_OWN_TYPES: Mapping[str, Any] = {
    "path": pa.string(),
    "stats": pa.string(),
    "clusteringProvider": pa.string(),
    "partitionValues": pa.map_(pa.string(), pa.string()),
    "tags": pa.map_(pa.string(), pa.string()),
    "size": pa.int64(),
    "modificationTime": pa.int64(),
    "deletionTimestamp": pa.int64(),
}


def _time_types(kind: Any, path: str, int96: frozenset[str]) -> Any:
    """A type whose times are microseconds: Python has no finer ones.

    INT96, Spark's old form, is an instant; Arrow reads it as a time without a zone.
    """
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if path in int96 else kind.tz)
    if pa.types.is_struct(kind):
        fields = [one.with_type(_time_types(one.type, f"{path}.{one.name}", int96)) for one in kind]
        return pa.struct(fields)
    return kind


def _path_of(sidecar: Sidecar) -> str:
    with _Readable(sidecar.path):
        return sidecar_path(sidecar.path)


def _without_nulls(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}


def _threads() -> int:
    return min(os.cpu_count() or 1, 8)


class _Readable:
    """Parquet and storage failures inside a checkpoint make it unreadable, with its name."""

    def __init__(self, path: str):
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, UnreadableCheckpoint | GeneratorExit) or error is None:
            return
        if isinstance(error, StorageError) and not isinstance(error, FileMissing):
            return
        if isinstance(error, PermissionError):
            raise StorageError(
                f"no permission for {self._path}",
                hint="check the owner and mode of the file and of its directories",
                location=self._path,
            ) from error
        if isinstance(error, StorageError | pa.ArrowException | OSError | ValueError | KeyError):
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnreadableCheckpoint(
                f"checkpoint file {self._path} cannot be read: {reason}",
                hint="write a new one with `deltacli checkpoint`, or restore the file",
                location=self._path,
            ) from error
