"""Vacuum's heavy part on executors: folders listed, subtracted and deleted side by side.

The protected names are laid out once as Arrow files, which executors map into memory.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from deltacli.delta.engine import Search, Unreferenced, Walk
from deltacli.errors import FileMissing, StorageError
from deltacli.local import files as local
from deltacli.local.files import NameSet, Part, in_turn, large_columns, put_together, subtract
from deltacli.spark.jobs import Jobs
from deltacli.storage import LogStore, Walked

_TASKS_A_CORE = 4
_MOST_LEVELS = 4


def find_unreferenced(
    jobs: Jobs, store: LogStore, search: Search, on_listed: Callable[[int], None] | None
) -> Unreferenced:
    """The same as the local engine's, a task a folder; a list made elsewhere is read here."""
    if not isinstance(search.listed, Walk):
        return local.find_unreferenced(store, search, on_listed)
    walk = search.listed
    with jobs.scratch() as scratch:
        paths = list(_spill(search.protected, scratch))
        protected = _mapped(paths)
        wanted = _TASKS_A_CORE * jobs.parallelism
        top = _Top(store, walk, wanted)
        parts = [subtract(store, top.walked(), protected, search.delete_before_ms)]
        # Laying out the names costs as much as a few thousand files: not once a folder.
        groups = [top.below[number::wanted] for number in range(min(wanted, len(top.below)))]
        names = tuple(map(jobs.hand_out, paths))
        parts += jobs.each(_Subtract(store, walk.hides, names, search.delete_before_ms), groups)
        if on_listed:
            on_listed(sum(one.listed for one in parts))
        return put_together(store, search, parts, protected)


def _spill(names: Iterator[Any], folder: str) -> Iterator[str]:
    """Names as files of one column each."""
    for column in large_columns(names):
        path = os.path.join(folder, f"names-{os.urandom(8).hex()}.arrow")
        table = pa.table({"name": column})
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        yield path


def _mapped(paths: Sequence[str]) -> NameSet:
    columns: list[Any] = []
    for path in paths:
        columns += pa.ipc.open_file(pa.memory_map(path)).read_all()["name"].chunks
    return NameSet(columns)


class _Top:
    """The upper folders' own files, and enough folders `below` them to keep all cores busy."""

    def __init__(self, store: LogStore, walk: Walk, wanted: int):
        self._store = store
        self._walk = walk
        self._wanted = wanted
        self.below = [walk.folder]

    def walked(self) -> Iterator[Walked]:
        for _ in range(_MOST_LEVELS):
            folders, self.below = self.below, []
            for folder in folders:
                with _may_be_gone(folder, self._walk.folder):
                    yield from self._store.walk_top(folder, self._walk.hides, self.below)
            if not self.below or len(self.below) >= self._wanted:
                return


@contextlib.contextmanager
def _may_be_gone(folder: str, asked_for: str) -> Iterator[None]:
    """A writer may remove a folder meanwhile; not the one that was asked for."""
    try:
        yield
    except FileMissing:
        if folder == asked_for:
            raise


@dataclass(frozen=True)
class _Subtract:
    store: LogStore
    hides: Callable[[str], bool]
    names: tuple[str, ...]
    delete_before_ms: int

    def __call__(self, folders: Sequence[str]) -> Part:
        from pyspark import SparkFiles

        protected = _mapped([SparkFiles.get(name) for name in self.names])
        return subtract(self.store, self._walked(folders), protected, self.delete_before_ms)

    def _walked(self, folders: Sequence[str]) -> Iterator[Walked]:
        for folder in folders:
            with _may_be_gone(folder, ""):
                yield from self.store.walk(folder, self.hides)


def delete(
    jobs: Jobs,
    store: LogStore,
    batches: Iterator[Sequence[str]],
    on_done: Callable[[Sequence[str], list[tuple[str, StorageError]]], None],
) -> None:
    """As many batches at once as there are cores; a job that was begun is finished."""
    task = _Delete(store)

    def work(some: Sequence[Sequence[str]]) -> None:
        for batch, failures in zip(some, jobs.each(task, some), strict=True):
            on_done(batch, failures)

    def groups() -> Iterator[list[Sequence[str]]]:
        while some := list(islice(batches, jobs.parallelism)):
            yield some

    in_turn(groups(), work, 2)


@dataclass(frozen=True)
class _Delete:
    store: LogStore

    def __call__(self, batch: Sequence[str]) -> list[tuple[str, StorageError]]:
        return self.store.delete_all(batch)
