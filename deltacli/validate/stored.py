"""The table's files on storage, beside what the log says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.columns import path_array, texts_of
from deltacli.delta.engine import Engine, FileBatch, Search, Unreferenced, Walk
from deltacli.delta.hidden import HiddenNames, hidden_names
from deltacli.delta.paths import LOG, file_location
from deltacli.delta.retention import RecentLog, References, Why, removals
from deltacli.delta.root import Root
from deltacli.delta.scan import Places
from deltacli.delta.snapshot import Snapshot
from deltacli.errors import DeltaCliError, FileMissing
from deltacli.storage import LogStore, Walked
from deltacli.validate.commits import Body
from deltacli.validate.definition import Definition

_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A live file that storage does not have as the log says."""

    path: str
    said: int | None = None
    real: int | None = None


@dataclass(frozen=True)
class Stored:
    """Everything below the table's root, listed once, and the newest version's files."""

    snapshot: Snapshot
    definition: Definition
    engine: Callable[[], Engine]
    now_ms: int
    options: dict[str, str]

    file: None = None

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def store(self) -> LogStore:
        return self.snapshot.store

    @property
    def places(self) -> Places:
        return Places(self.store, self.options)

    @cached_property
    def root(self) -> Root:
        return Root(self.store)

    @property
    def retain_ms(self) -> int:
        retain_ms: int = self.snapshot.setting("delta.deletedFileRetentionDuration")
        return retain_ms

    @property
    def retained_since_ms(self) -> int:
        return max(self.now_ms - self.retain_ms, 0)

    @cached_property
    def listing(self) -> Listing:
        return list_files(self.store, hidden_names(self.snapshot))

    # -- live files ----------------------------------------------------------------------

    @cached_property
    def live_problems(self) -> tuple[list[Misplaced], list[Misplaced], int, int, str]:
        """Live files that are missing, those of another size; how many are not as old as the
        log says, of how many, and one of those."""
        missing: list[Misplaced] = []
        unequal: list[Misplaced] = []
        aged = count = 0
        example = ""
        for paths, sizes, moments in self._live():
            names = path_array([self._name(one) for one in paths])
            place = pc.index_in(names, value_set=self.listing.names)
            real_sizes = self.listing.sizes.take(place).to_pylist()
            real_moments = self.listing.moments.take(place).to_pylist()
            rows = zip(
                paths, sizes, moments, place.to_pylist(), real_sizes, real_moments, strict=True
            )
            for path, size, moment, found, real, real_ms in rows:
                if found is None:
                    real, real_ms = self._look(path)
                    if real is None and path in self._unreachable:
                        continue
                if real is None:
                    missing.append(Misplaced(path))
                    continue
                if size is not None and size != real:
                    unequal.append(Misplaced(path, size, real))
                count += 1
                if moment and real_ms is not None and abs(real_ms - moment) > _DAY_MS:
                    aged += 1
                    example = example or path
        return missing, unequal, aged, count, example

    @cached_property
    def live_bytes(self) -> int:
        return sum(size or 0 for _, sizes, _ in self._live() for size in sizes)

    def _live(self) -> Iterator[Any]:
        """Paths, sizes and times of the live files, some at a time."""
        fields = ("path", "size", "modificationTime")
        rows: list[Body] = []
        for item in self.snapshot.files("add", fields, _ROWS):
            if isinstance(item, FileBatch):
                batch = item.columns
                names = batch.schema.names
                yield [
                    batch.column(one).to_pylist() if one in names else [None] * batch.num_rows
                    for one in fields
                ]
            else:
                rows.append({name: item.get(name) for name in fields})
        if rows:
            yield [[row[one] for row in rows] for one in fields]

    def _name(self, path: str) -> str:
        return self.root.own_name(path) or ""

    @cached_property
    def _unreachable(self) -> dict[str, str]:
        return {}

    @property
    def unreachable(self) -> list[tuple[str, str]]:
        """Live files elsewhere that cannot be looked at, and why."""
        _ = self.live_problems
        return list(self._unreachable.items())

    def _look(self, path: str) -> tuple[int | None, int | None]:
        """Size and time of a file that was not listed: hidden, linked, or elsewhere."""
        location = file_location(self.store.location, path)
        own = self._name(path)
        if own and not self.store.has_folders and not any(map(self.hides, own.split("/"))):
            return None, None  # without folders and links, the listing has all there is
        try:
            store, place = self.places.of(location)
            entry = store.stat(place)
            return entry.size, entry.modified_ms
        except FileMissing:
            return None, None
        except DeltaCliError as error:
            if location.startswith(f"{self.store.location}/"):
                raise
            self._unreachable[path] = error.message
            return None, None

    @cached_property
    def vector_problems(self) -> list[tuple[str, str]]:
        """Live deletion vectors whose file is missing or too short, by the file's path."""
        ends: dict[str, int] = {}
        from deltacli.delta.vectors import vector_location

        for item in self.snapshot.files("add", ("path", "deletionVector"), _ROWS):
            bodies = item.columns.to_pylist() if isinstance(item, FileBatch) else (item,)
            for body in bodies:
                vector = body.get("deletionVector")
                if not vector or vector.get("storageType") == "i":
                    continue
                try:
                    place = vector_location(vector, self.store.location) or ""
                except ValueError:
                    continue
                offset, size = vector.get("offset"), vector.get("sizeInBytes")
                if type(size) is not int or type(offset) not in (int, type(None)):
                    continue  # another rule tells of that
                end = (1 if offset is None else offset) + size + 8
                ends[place] = max(ends.get(place, 0), end)
        return [
            (place, text) for place, end in ends.items() if (text := self._too_short(place, end))
        ]

    def _too_short(self, location: str, end: int) -> str | None:
        try:
            store, path = self.places.of(location)
            size = store.stat(path).size
        except FileMissing:
            return "it is missing"
        except DeltaCliError as error:
            if location.startswith(f"{self.store.location}/"):
                raise
            return f"it cannot be looked at: {error.message}"
        return f"it has {size:,} bytes, {end:,} are needed" if size < end else None

    # -- files that nothing refers to ----------------------------------------------------

    @cached_property
    def _references(self) -> References:
        return References(self.snapshot, self.root, self.retained_since_ms)

    @cached_property
    def _recent(self) -> RecentLog:
        return RecentLog(self.snapshot, self.retained_since_ms)

    @cached_property
    def unreferenced(self) -> Unreferenced:
        """What neither the newest version nor a retained one needs, of whatever age."""
        search = Search(Walk("", self.hides), self._protected(), self.now_ms + 1)
        return self.engine().find_unreferenced(self.store, search)

    def _protected(self) -> Iterator[Any]:
        for why, names in (*self._references, *self._recent.protected(self._references)):
            if why is not Why.EXPIRED:
                yield names
        yield path_array(
            [name for _, path in self._change_data() for name in self.root.names(path)]
        )

    @cached_property
    def hides(self) -> HiddenNames:
        return hidden_names(self.snapshot)

    def lost_tombstones(self) -> Iterator[str]:
        """Files that were removed lately, so that older versions need them, and are gone."""
        fields = ("path", "deletionTimestamp")
        for item in self.snapshot.files("remove", fields, _ROWS):
            bodies = item.columns.to_pylist() if isinstance(item, FileBatch) else (item,)
            yield from self._gone(body for body in bodies)

    def _gone(self, bodies: Iterator[Body]) -> Iterator[str]:
        kept = [
            body["path"]
            for body in bodies
            if (body.get("deletionTimestamp") or 0) > self.retained_since_ms
        ]
        yield from (path for path, is_there in self._found(kept) if not is_there)

    def _found(self, paths: list[str]) -> Iterator[tuple[str, bool]]:
        """Whether each of some files is there: by the listing, or else by a look."""
        names = path_array([self._name(one) for one in paths])
        listed = pc.is_in(names, value_set=self.listing.names).to_pylist()
        for path, is_listed in zip(paths, listed, strict=True):
            yield path, is_listed or self._look(path)[0] is not None

    def lost_change_data(self) -> Iterator[tuple[int, str]]:
        """Change data files of retained commits that are gone."""
        yield from (one for one, is_there in self._changes_found() if not is_there)

    def change_data(self) -> Iterator[tuple[int, str]]:
        """Change data files of retained commits that are there, with their versions."""
        yield from (one for one, is_there in self._changes_found() if is_there)

    def _changes_found(self) -> Iterator[tuple[tuple[int, str], bool]]:
        changes = list(self._change_data())
        found = self._found([path for _, path in changes])
        for one, (_, is_there) in zip(changes, found, strict=True):
            yield one, is_there

    def _change_data(self) -> Iterator[tuple[int, str]]:
        cdc = removals(self.store, self._recent.young, self._recent.times, kinds=("cdc",))
        for one in cdc:
            if one.commit_ms > self.retained_since_ms:
                yield one.version, one.body["path"]

    def forgotten(self, suffix: str) -> Iterator[str]:
        """Names with this end that no retained version needs, and that have outlived that."""
        found = self.unreferenced
        is_old = pc.fill_null(pc.less(found.modified_ms, self.retained_since_ms), False)
        yield from texts_of(found.names.filter(pc.and_(is_old, pc.ends_with(found.names, suffix))))

    @cached_property
    def foreign_folders(self) -> list[str]:
        """Top folders that hold files and nothing that any version needs, with no sign of Delta."""
        found = self.unreferenced
        tops: dict[str, bool] = {}
        for name in texts_of(self.listing.names):
            top, slash, _ = name.partition("/")
            if slash:
                tops.setdefault(top, True)
        kept = {name.partition("/")[0] for name in self._needed_names()}
        data = {
            name.partition("/")[0]
            for name in texts_of(found.names)
            if name.endswith((".parquet", ".bin"))
        }
        partitions = tuple(f"{one}=" for one in self._partition_names())
        return [
            top
            for top in tops
            if top not in kept
            and top not in data
            and not top.startswith("_")
            and not (partitions and top.startswith(partitions))
        ]

    def _needed_names(self) -> Iterator[str]:
        mask = pc.invert(pc.is_in(self.listing.names, value_set=self.unreferenced.names))
        yield from texts_of(self.listing.names.filter(mask))

    def _partition_names(self) -> Iterator[str]:
        for key, one in self.definition.partitions.items():
            yield key
            yield one.name


_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Listing:
    """Files as columns: names, sizes and times; links and nested tables by name."""

    names: Any
    sizes: Any
    moments: Any
    links: tuple[str, ...]
    nested: tuple[str, ...]


def list_files(store: LogStore, hides: HiddenNames) -> Listing:
    """All files below the root but for hidden ones."""
    names: list[Any] = []
    sizes: list[Any] = []
    moments: list[Any] = []
    links: list[str] = []
    nested: list[str] = []
    for walked in store.walk("", hides):
        prefix = f"{walked.folder}/" if walked.folder else ""
        links += [prefix + one for one in walked.links]
        if walked.folder and LOG in walked.pins:
            nested.append(walked.folder)
        if not walked.names:
            continue
        own = [prefix + one for one in walked.names]
        own_sizes, own_moments = _looked(store, walked, own)
        names.append(path_array(own))
        sizes.append(pa.array(own_sizes, pa.int64()))
        moments.append(pa.array(own_moments, pa.int64()))
    return Listing(
        pa.concat_arrays(names) if names else pa.array([], pa.string()),
        pa.concat_arrays(sizes) if sizes else pa.array([], pa.int64()),
        pa.concat_arrays(moments) if moments else pa.array([], pa.int64()),
        tuple(links),
        tuple(nested),
    )


def _looked(
    store: LogStore, walked: Walked, names: list[str]
) -> tuple[list[int | None], list[int | None]]:
    if walked.sizes is not None:
        moments = walked.modified_ms or [None] * len(names)
        return list(walked.sizes), list(moments)
    looked = store.look_at_files(names)
    return (
        [None if one is None else one[0] for one in looked],
        [None if one is None else one[1] for one in looked],
    )
