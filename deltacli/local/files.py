"""Vacuum's heavy part: a listing minus what is referred to, in columns; and deletion.

The protected names are held as Arrow text, the listing passes by in large batches. Size
and time of a file are looked up only if nothing refers to it.
"""

from __future__ import annotations

import os
import unicodedata
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.columns import concat, path_array, texts_of
from deltacli.delta.engine import Search, Unreferenced, Walk
from deltacli.delta.paths import LOG
from deltacli.errors import Refused, StorageError
from deltacli.storage import LogStore, Walked
from deltacli.storage.ahead import PackedNames

_LEAST_ROWS = 1 << 16
# Joining columns needs room for both; and Arrow's text columns hold 2 GiB at most.
_MOST_BYTES = 1 << 27
_MOST_LISTED_BYTES = 1 << 29
_MOST_NAMES_BYTES = (1 << 31) - 1
_BATCHES_AT_ONCE = 8

T = TypeVar("T")
Failures = list[tuple[str, StorageError]]


def find_unreferenced(
    store: LogStore, search: Search, on_listed: Callable[[int], None] | None = None
) -> Unreferenced:
    """Subtract what is protected from what is listed, and look at what is left."""
    protected = NameSet.of(search.protected)
    listed = search.listed
    walked = store.walk(listed.folder, listed.hides) if isinstance(listed, Walk) else listed
    part = subtract(store, walked, protected, search.delete_before_ms, search.may_repeat, on_listed)
    return put_together(store, search, [part], protected)


@dataclass
class Part:
    """What a part of the listing came to."""

    found: Any
    spared: Any
    listed: int
    folders: Folders


def subtract(
    store: LogStore,
    walked: Iterator[Walked],
    protected: NameSet,
    delete_before_ms: int,
    may_repeat: bool = False,
    on_listed: Callable[[int], None] | None = None,
) -> Part:
    """Subtract in large batches: the set is laid out anew for each."""
    left = _Left(store, delete_before_ms, may_repeat)
    folders = Folders()
    waiting: list[Walked] = []
    count = size = listed = 0
    for one in walked:
        folders.note(one)
        listed += len(one.names)
        count += len(one.names)
        size += _bytes_of(one)
        waiting.append(one)
        if count >= max(_LEAST_ROWS, len(protected)) or size > _MOST_LISTED_BYTES:
            left.take(waiting, protected)
            waiting, count, size = [], 0, 0
            if on_listed:
                on_listed(listed)
    left.take(waiting, protected)
    return Part(_one_table(left.found), _one_table(left.spared), listed, folders)


def put_together(
    store: LogStore, search: Search, parts: Sequence[Part], protected: NameSet
) -> Unreferenced:
    """One answer; what only shows in the whole is left alone too."""
    folders = Folders()
    for part in parts:
        folders.add(part.folders)
    columns = [table["name"] for one in parts for table in (one.found, one.spared)]
    if sum(column.nbytes for column in columns) > _MOST_NAMES_BYTES:
        raise Refused(
            "these are too many files for one plan",
            hint="vacuum folder by folder with --prefix",
            location=store.location,
        )
    whole = _Whole(store, [one.found for one in parts], [one.spared for one in parts])
    whole.drop_below(folders.nested)
    whole.drop_linked(folders.links, protected)
    whole.drop_same_files(protected)
    found, spared = whole.found, whole.spared
    if search.may_repeat:
        once = found.group_by("name").aggregate([("size", "max"), ("modified", "max")])
        found = once.rename_columns({"size_max": "size", "modified_max": "modified"})
    found = found.sort_by("name")
    names = found["name"].combine_chunks()

    def is_old(folder: str) -> bool:
        entry = store.look(folder)
        stamp = entry.modified_ms if entry is not None and entry.is_folder else None
        return stamp is not None and stamp < search.delete_before_ms

    return Unreferenced(
        names,
        found["size"].combine_chunks(),
        found["modified"].combine_chunks(),
        sum(one.listed for one in parts),
        spared["name"].combine_chunks(),
        pc.sum(spared["size"]).as_py() or 0,
        folders.emptied(names, is_old) if store.has_folders else (),
        tuple(sorted(folders.nested)),
        protected.holds,
    )


class NameSet:
    """Many names, as few columns."""

    def __init__(self, columns: Sequence[Any]):
        self.columns = columns

    @classmethod
    def of(cls, names: Iterator[Any]) -> NameSet:
        return cls(list(large_columns(names)))

    def __len__(self) -> int:
        return sum(map(len, self.columns))

    def holds(self, names: Any) -> Any:
        """Which names are in the set, as a mask."""
        inside = pa.repeat(False, len(names))
        for column in self.columns:
            inside = pc.or_(inside, pc.is_in(names, value_set=column))
        return inside


def large_columns(names: Iterator[Any]) -> Iterator[Any]:
    """The same names in fewer columns."""
    pending: list[Any] = []
    size = 0
    for one in names:
        pending.append(one)
        size += one.nbytes
        if size > _MOST_BYTES:
            yield concat(pending)
            pending, size = [], 0
    if pending:
        yield concat(pending)


class _Left:
    """What nothing refers to: found, or spared for its age. All in columns."""

    def __init__(self, store: LogStore, delete_before_ms: int, may_repeat: bool):
        self._store = store
        self._delete_before_ms = delete_before_ms
        # A list made elsewhere may be out of date: where a look is cheap, it counts too.
        self._must_look = may_repeat and store.file_path("") is not None
        self.found: list[Any] = []
        self.spared: list[Any] = []

    def take(self, walked: Sequence[Walked], protected: NameSet) -> None:
        """Subtract what is protected from some folders' files, and look at the rest."""
        told = [one for one in walked if one.sizes is not None]
        untold = [one for one in walked if one.sizes is None]
        names = concat([_paths(one) for one in (*told, *untold)])
        positions = pc.indices_nonzero(pc.invert(protected.holds(names)))
        border = sum(len(one.names) for one in told)
        is_told = pc.less(positions, border)
        for chosen, known in ((positions.filter(is_told), told), (_others(positions, is_told), ())):
            if len(chosen):
                self._look_at(names.take(chosen), chosen, known)

    def _look_at(self, names: Any, positions: Any, told: Sequence[Walked]) -> None:
        """Find size and age of files, where `told` lists them at positions or else by a look."""
        if told:
            sizes = concat([_longs(one.sizes) for one in told]).take(positions)
            moments = concat([_longs(one.modified_ms) for one in told]).take(positions)
        if self._must_look or not told:
            looked = self._store.look_at_files(texts_of(names))
            sizes = _longs([None if one is None else one[0] for one in looked])
            newest = _longs([None if one is None else one[1] for one in looked])
            moments = pc.max_element_wise(newest, moments, skip_nulls=False) if told else newest
        batch = pa.table({"name": names, "size": sizes, "modified": moments})
        # Without a size it is gone by now, or turned into something else.
        self._sort(batch.filter(pc.is_valid(batch["size"])))

    def _sort(self, batch: Any) -> None:
        """By age; a time in the future is later than the threshold too (V-32, V-33)."""
        is_old = pc.less(batch["modified"], self._delete_before_ms)
        self.found.append(batch.filter(is_old))
        self.spared.append(batch.filter(pc.invert(pc.fill_null(is_old, False))))


def _one_table(batches: Sequence[Any]) -> Any:
    return pa.concat_tables(batches) if batches else _NOTHING


class _Whole:
    """All that is left, to be gone through once more."""

    def __init__(self, store: LogStore, found: Sequence[Any], spared: Sequence[Any]):
        self._store = store
        self.found = _one_table(found)
        self._spared = list(spared)

    @property
    def spared(self) -> Any:
        return _one_table(self._spared)

    def _spare(self, spared: Any) -> None:
        """Put found files, by a mask, among the spared ones."""
        self._spared.append(self.found.filter(spared))
        self.found = self.found.filter(pc.invert(spared))

    def drop_below(self, nested: Collection[str]) -> None:
        """Leave tables alone that lie inside this one (VL-4)."""
        for folder in nested:
            self._spare(pc.starts_with(self.found["name"], f"{folder}/"))

    def drop_linked(self, links: Collection[str], protected: NameSet) -> None:
        """Leave a file alone that a protected name leads to through a link (V-20)."""
        root = os.path.realpath(self._store.file_path("") or "/")
        same: set[str] = set()
        for link in links:
            for column in protected.columns:
                through = pc.or_(pc.equal(column, link), pc.starts_with(column, f"{link}/"))
                for name in texts_of(column.filter(through)):
                    target = os.path.realpath(f"{root}/{name}")
                    same.add(os.path.relpath(target, root))
        if same:
            self._spare(pc.is_in(self.found["name"], value_set=path_array(same)))

    def drop_same_files(self, protected: NameSet) -> None:
        """Leave a file alone that is a protected one under another spelling (V-20, VL-12).

        Where case or Unicode form do not count in names, the log's spelling may differ
        from the listing's.
        """
        root = self._store.file_path("")
        if root is None:
            return
        names = self.found["name"].combine_chunks()
        # Where case counts, only names beyond ASCII can have two spellings.
        if not os.path.exists(f"{root}/{LOG.upper()}"):
            names = names.filter(pc.invert(pc.string_is_ascii(names)))
        if not len(names):
            return
        own = _folded(names)
        by_fold: dict[str, list[str]] = {}
        for fold, name in zip(texts_of(own), texts_of(names), strict=True):
            by_fold.setdefault(fold, []).append(name)
        same: set[str] = set()
        for column in protected.columns:
            folds = _folded(column)
            hits = pc.indices_nonzero(pc.is_in(folds, value_set=own))
            pairs = zip(texts_of(folds.take(hits)), texts_of(column.take(hits)), strict=True)
            for fold, other in pairs:
                same.update(one for one in by_fold[fold] if self._are_same(one, other))
        if same:
            self._spare(pc.is_in(self.found["name"], value_set=path_array(same)))

    def _are_same(self, name: str, other: str) -> bool:
        try:
            return os.path.samefile(
                self._store.file_path(name) or "", self._store.file_path(other) or ""
            )
        except OSError:
            return False


def _others(values: Any, mask: Any) -> Any:
    return values.filter(pc.invert(mask))


def _longs(values: Sequence[int | None] | None) -> Any:
    if isinstance(values, array):
        return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
    return pa.array(values or (), pa.int64())


def _bytes_of(walked: Walked) -> int:
    names = walked.names
    if isinstance(names, PackedNames):
        return len(names.paths)
    return len(walked.folder) * len(names) + sum(map(len, names))


def _paths(walked: Walked) -> Any:
    """The files of a folder by their names below the root."""
    names = walked.names
    if isinstance(names, PackedNames):
        ends, text = pa.py_buffer(names.ends), pa.py_buffer(names.paths)
        return pa.StringArray.from_buffers(len(names), ends, text)
    folder = f"{walked.folder}/" if walked.folder else ""
    return path_array([folder + name for name in names])


_NOTHING = pa.table({"name": pa.array([], pa.string()), "size": _longs([]), "modified": _longs([])})


def _folded(names: Any) -> Any:
    """Names without case and Unicode form."""
    try:
        return pc.utf8_lower(pc.utf8_normalize(names, "NFC"))
    except pa.ArrowInvalid:  # not all of it is UTF-8
        return path_array([_fold(name) for name in texts_of(names)])


def _fold(name: str) -> str:
    try:
        return str(pc.utf8_lower(pc.utf8_normalize(pa.scalar(name), "NFC")).as_py())
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return unicodedata.normalize("NFC", name).lower()


class Folders:
    """How many files each folder has, and which folders hold more than plain files."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._pinned: set[str] = set()
        self.nested: set[str] = set()
        self.links: set[str] = set()

    def note(self, walked: Walked) -> None:
        folder = walked.folder
        self._counts[folder] = self._counts.get(folder, 0) + len(walked.names)
        prefix = f"{folder}/" if folder else ""
        self.links.update(prefix + name for name in walked.links)
        if walked.pins:
            self._pinned.add(folder)
            if LOG in walked.pins and folder:
                self.nested.add(folder)

    def add(self, other: Folders) -> None:
        for folder, count in other._counts.items():
            self._counts[folder] = self._counts.get(folder, 0) + count
        self._pinned |= other._pinned
        self.nested |= other.nested
        self.links |= other.links

    def emptied(self, gone: Any, is_old: Callable[[str], bool]) -> tuple[str, ...]:
        """The folders that would be empty without these files, deepest first (V-28, V-29)."""
        for folder, count in _count_by_folder(gone):
            self._counts[folder] -= count
        occupied = {"", *self._pinned}
        alone = tuple(f"{one}/" for one in self.nested)
        found: list[str] = []
        for folder in sorted(self._counts, key=lambda one: (-one.count("/"), one)):
            above = folder.rpartition("/")[0]
            is_kept = folder in occupied or folder.startswith(alone)
            if is_kept or self._counts[folder] or not is_old(folder):
                occupied.add(above)
            else:
                found.append(folder)
        return tuple(found)


def _count_by_folder(names: Any) -> Iterator[tuple[str, int]]:
    """How many of the names, which are sorted, lie in each folder."""
    for folder, inside in groupby(texts_of(names), key=lambda name: name.rpartition("/")[0]):
        yield folder, sum(1 for _ in inside)


def delete(
    store: LogStore,
    batches: Iterator[Sequence[str]],
    on_done: Callable[[Sequence[str], Failures], None],
) -> None:
    """Delete batches on a bounded pool; begun ones are finished whatever happens."""
    in_turn(
        batches,
        lambda batch: on_done(batch, store.delete_all(batch)),
        _BATCHES_AT_ONCE if store.reads_are_remote else 2,
    )


def in_turn(batches: Iterator[T], work: Callable[[T], None], at_once: int) -> None:
    """Work on some batches at a time."""
    running: deque[Future[None]] = deque()
    pool = ThreadPoolExecutor(at_once)
    try:
        for batch in batches:
            running.append(pool.submit(work, batch))
            if len(running) >= at_once:
                running.popleft().result()
        while running:
            running.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
