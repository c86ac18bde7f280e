"""The engine that spreads its jobs over Spark's executors.

Each task does to its share of a checkpoint, or of a listing, what the local engine does to
the whole; so both come to the same.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from deltacli.delta.actions import Json
from deltacli.delta.data_files import DataFooter, NewFile, Target, new_names
from deltacli.delta.engine import (
    CheckpointContent,
    FileBatch,
    Search,
    Totals,
    Unreferenced,
    Want,
    WrittenFile,
)
from deltacli.delta.replay import Reconciled
from deltacli.delta.scan import Places
from deltacli.errors import StorageError
from deltacli.local import checkpoint
from deltacli.local.data_footers import read_data_footers
from deltacli.local.engine import LocalCheckpoint, LocalEngine
from deltacli.local.rewrite import discard, rewrite_file
from deltacli.spark.jobs import Jobs
from deltacli.storage import LogStore

# Some more than there are cores, so that none waits long for the last one.
_PARTS_A_CORE = 4
_FOOTERS_A_TASK = 200


class SparkEngine:
    """The session starts with the first job that needs it."""

    name = "spark"

    def __init__(self, start: Callable[[], Jobs]):
        self._start = start
        self._local = LocalEngine()

    @cached_property
    def _jobs(self) -> Jobs:
        return self._start()

    def open_checkpoint(
        self, store: LogStore, main_files: Sequence[str], state: Reconciled
    ) -> SparkCheckpoint:
        # Footers and small actions are read here: they are a few pages.
        return SparkCheckpoint(
            lambda: self._jobs, self._local.open_checkpoint(store, main_files, state)
        )

    def write_classic(self, store: LogStore, path: str, content: CheckpointContent) -> WrittenFile:
        whole = self._jobs.share(replace(content.part(0, 1), expected=content.expected))
        scratch = store.scratch(path)
        with _cleared([scratch]):
            (written,) = self._jobs.each(_WriteClassic(store, path, whole), [scratch])
        return written

    def write_manifest(
        self,
        store: LogStore,
        path: str,
        lines: Sequence[Mapping[str, Any]],
        content: CheckpointContent,
    ) -> WrittenFile:
        return self._local.write_manifest(store, path, lines, content)

    def write_sidecars(
        self, store: LogStore, paths: Sequence[str], content: CheckpointContent
    ) -> list[WrittenFile]:
        shared = self._jobs.share(content.part(0, 1))
        scratches = [store.scratch(path) for path in paths]
        try:
            with _cleared(scratches):
                task = _WriteSidecar(store, shared, len(paths))
                items = [
                    (number, path, scratch)
                    for number, (path, scratch) in enumerate(zip(paths, scratches, strict=True))
                ]
                written = self._jobs.each(task, items)
            content.check(written)
        except BaseException:
            # Without a main file they are nothing to any reader.
            for path in paths:
                with contextlib.suppress(StorageError):
                    store.delete(path)
            raise
        return written

    def read_footers(self, places: Places, locations: Sequence[str]) -> Iterator[DataFooter]:
        task = _ReadFooters(places)
        groups = [
            locations[start : start + _FOOTERS_A_TASK]
            for start in range(0, len(locations), _FOOTERS_A_TASK)
        ]
        return self._jobs.stream(task, groups)

    def rewrite_files(
        self, store: LogStore, places: Places, target: Target, adds: Sequence[Json]
    ) -> list[NewFile | None]:
        jobs = list(zip(adds, new_names(store, [one["path"] for one in adds]), strict=True))
        try:
            return self._jobs.each(_Rewrite(store, places, target), jobs)
        except BaseException:
            discard(store, [name for _, name in jobs])
            raise

    def find_unreferenced(
        self, store: LogStore, search: Search, on_listed: Callable[[int], None] | None = None
    ) -> Unreferenced:
        from deltacli.spark import files

        return files.find_unreferenced(self._jobs, store, search, on_listed)

    def delete(
        self,
        store: LogStore,
        batches: Iterator[Sequence[str]],
        on_done: Callable[[Sequence[str], list[tuple[str, StorageError]]], None],
    ) -> None:
        from deltacli.spark import files

        files.delete(self._jobs, store, batches, on_done)


@dataclass(frozen=True)
class _ReadFooters:
    places: Places

    def __call__(self, locations: Sequence[str]) -> Iterator[DataFooter]:
        return read_data_footers(self.places, locations)


@dataclass(frozen=True)
class _Rewrite:
    store: LogStore
    places: Places
    target: Target

    def __call__(self, job: tuple[Json, str]) -> NewFile | None:
        return rewrite_file(self.store, self.places, self.target, job)


class SparkCheckpoint:
    """A checkpoint whose row groups are read by executors."""

    def __init__(self, jobs: Callable[[], Jobs], local: LocalCheckpoint):
        self._jobs = jobs
        self._local = local

    def part(self, number: int, count: int) -> LocalCheckpoint:
        return self._local.part(number, count)

    def _shares(self) -> list[tuple[int, int]]:
        count = min(self._local.num_groups, _PARTS_A_CORE * self._jobs().parallelism)
        return [(number, count) for number in range(count)]

    def totals(
        self,
        state: Reconciled,
        wanted: frozenset[Want],
        removed_after_ms: int,
        on_read: Callable[[int, int], None] | None = None,
    ) -> Totals:
        task = _SumUp(self._jobs().share((self._local, state)), wanted, removed_after_ms)
        total = Totals()
        for part in self._jobs().each(task, self._shares()):
            total.add(part)
        return total

    def files(
        self, state: Reconciled, action: str, fields: Sequence[str], rows: int = 0
    ) -> Iterator[FileBatch]:
        task = _ReadFiles(self._jobs().share((self._local, state)), action, tuple(fields), rows)
        # A share is held as a whole, so it is as small as can be.
        count = self._local.num_groups
        for content in self._jobs().stream(task, [(number, count) for number in range(count)]):
            yield FileBatch(lambda content=content: batch_of(content))  # type: ignore[misc]

    def find(self, paths: Collection[str], fields: Sequence[str]) -> Iterator[FileBatch]:
        task = _FindFiles(self._jobs().share((self._local, frozenset(paths))), tuple(fields))
        for found in self._jobs().each(task, self._shares()):
            for content in found:
                yield FileBatch(lambda content=content: batch_of(content))  # type: ignore[misc]


def bytes_of(batch: Any) -> bytes:
    """A batch, or a table, for the way between processes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def batch_of(content: bytes) -> Any:
    with pa.ipc.open_stream(content) as reader:
        return reader.read_next_batch()


Share = tuple[int, int]


@dataclass(frozen=True)
class _SumUp:
    shared: Any
    wanted: frozenset[Want]
    removed_after_ms: int

    def __call__(self, share: Share) -> Totals:
        reader, state = self.shared.value
        return reader.part(*share).totals(state, self.wanted, self.removed_after_ms)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _ReadFiles:
    shared: Any
    action: str
    fields: tuple[str, ...]
    rows: int

    def __call__(self, share: Share) -> Iterator[bytes]:
        reader, state = self.shared.value
        for batch in reader.part(*share).files(state, self.action, self.fields, self.rows):
            if batch.columns.num_rows:
                yield bytes_of(batch.columns)


@dataclass(frozen=True)
class _FindFiles:
    shared: Any
    fields: tuple[str, ...]

    def __call__(self, share: Share) -> list[bytes]:
        reader, paths = self.shared.value
        return [bytes_of(one.columns) for one in reader.part(*share).find(paths, self.fields)]


@contextlib.contextmanager
def _cleared(scratches: Sequence[str]) -> Iterator[None]:
    """Tasks that are cancelled cannot clean up after themselves."""
    try:
        yield
    finally:
        for scratch in scratches:
            with contextlib.suppress(OSError):
                os.unlink(scratch)


@dataclass(frozen=True)
class _WriteClassic:
    store: LogStore
    path: str
    shared: Any

    def __call__(self, scratch: str) -> WrittenFile:
        return checkpoint.write_classic(self.store, self.path, self.shared.value, scratch)


@dataclass(frozen=True)
class _WriteSidecar:
    store: LogStore
    shared: Any
    count: int

    def __call__(self, item: tuple[int, str, str]) -> WrittenFile:
        number, path, scratch = item
        content = self.shared.value.part(number, self.count)
        return checkpoint.write_sidecars(self.store, [path], content, [scratch])[0]
