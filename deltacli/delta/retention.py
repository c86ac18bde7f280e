"""What a table still refers to: the names that vacuum may not delete (facts 7.2).

Names are columns of text relative to the table's root, decoded, so that they compare with
those of a listing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.actions import BadAction, Json, parse_line
from deltacli.delta.columns import contains_any, path_array
from deltacli.delta.engine import Engine, FileBatch, Totals
from deltacli.delta.history import file_times
from deltacli.delta.replay import key_of
from deltacli.delta.root import Root
from deltacli.delta.segment import LogFile
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import CorruptLog, Refused, StorageError
from deltacli.storage import LogStore, read_all
from deltacli.units import human_span, iso_time

_BODIES_AT_ONCE = 1 << 14
# A writer's clock and the storage's may differ a little.
_MARGIN_MS = 3_600_000


class Why(Enum):
    """Why the log speaks of a file."""

    LIVE = "live"
    VECTOR = "vector"
    TOMBSTONE = "tombstone"
    EXPIRED = "expired"


Reference = tuple[Why, Any]


@dataclass
class References:
    """All names that a snapshot refers to, and what they add up to.

    `bytes_inside` are those of referenced files below the root, and below `prefix` if one
    is given; `outside` are some live paths that lie elsewhere. `has_timeless` tells whether
    a commit since the checkpoint removed a file without saying when.
    """

    snapshot: Snapshot
    root: Root
    delete_before_ms: int
    prefix: str = ""
    totals: Totals = field(default_factory=Totals)
    bytes_inside: int = 0
    outside: list[str] = field(default_factory=list)
    num_outside: int = 0
    has_timeless: bool = False

    def __iter__(self) -> Iterator[Reference]:
        yield from self._adds()
        yield from self._removes()

    def _adds(self) -> Iterator[Reference]:
        lines: list[Json] = []
        for item in self.snapshot.files("add", ("path", "size", "deletionVector"), 1 << 17):
            if isinstance(item, FileBatch):
                yield from self._live(item.columns)
            else:
                lines.append(item)
        if lines:
            yield from self._live(_batch(lines))

    def _live(self, batch: Any) -> Iterator[Reference]:
        total = self.totals
        total.files += batch.num_rows
        total.bytes += pc.sum(batch.column("size")).as_py() or 0
        yield Why.LIVE, self._counted_names(batch, are_live=True)
        if "deletionVector" in batch.schema.names:
            vectors = batch.column("deletionVector")
            cardinality = pc.struct_field(vectors, ["cardinality"])
            total.vectors += len(vectors) - cardinality.null_count
            total.deleted_records += pc.sum(cardinality).as_py() or 0
            yield Why.VECTOR, self._vector_names(vectors)

    def _removes(self) -> Iterator[Reference]:
        fields = ("path", "deletionTimestamp", "size", "deletionVector")
        checkpoint = self.snapshot.segment.checkpoint
        # A tombstone without a time is as old as what it stands in, at least (VL-15).
        written_ms = checkpoint.files[0].modified_ms if checkpoint else None
        lines: list[Json] = []
        for item in self.snapshot.files("remove", fields, 1 << 17):
            if isinstance(item, FileBatch):
                yield from self._removed(item.columns, written_ms)
            else:
                lines.append(item)
        if lines:
            # Those without a time are found again in their commits.
            self.has_timeless = any(type(one.get("deletionTimestamp")) is not int for one in lines)
            yield from self._removed(_batch(lines), 0)

    def _removed(self, batch: Any, otherwise_ms: int | None) -> Iterator[Reference]:
        otherwise = self.delete_before_ms if otherwise_ms is None else otherwise_ms
        if "deletionTimestamp" in batch.schema.names:
            stamps = pc.fill_null(batch.column("deletionTimestamp"), otherwise)
            kept = pc.greater_equal(stamps, self.delete_before_ms)
        else:
            kept = pc.fill_null(
                pa.nulls(batch.num_rows, pa.bool_()), (otherwise >= self.delete_before_ms)
            )
        fresh = batch.filter(kept)
        if fresh.num_rows:
            yield Why.TOMBSTONE, self._counted_names(fresh, are_live=False)
            if "deletionVector" in fresh.schema.names:
                yield Why.TOMBSTONE, self._vector_names(fresh.column("deletionVector"))
        expired = batch.filter(pc.invert(kept))
        if expired.num_rows:
            yield Why.EXPIRED, self.names(expired.column("path"))

    def names(self, paths: Any) -> Any:
        """Names below the root; plain relative paths, by far the most, are names already."""
        if paths.null_count:
            paths = pc.drop_null(paths)
        if not _needs_care(paths):
            return paths
        return path_array([name for path in paths.to_pylist() for name in self.root.names(path)])

    def _counted_names(self, batch: Any, *, are_live: bool) -> Any:
        """The names of a batch; sizes of those below the root and the prefix are added up."""
        paths = batch.column("path")
        has_sizes = "size" in batch.schema.names
        sizes = batch.column("size") if has_sizes else pa.nulls(len(paths), pa.int64())
        prefix = f"{self.prefix}/" if self.prefix else ""
        names = self.names(paths)
        if names is paths:
            inside = sizes.filter(pc.starts_with(paths, prefix)) if prefix else sizes
            self.bytes_inside += pc.sum(inside).as_py() or 0
            return names
        for path, size in zip(paths.to_pylist(), sizes.to_pylist(), strict=True):
            own = list(self.root.names(path)) if path else []
            if any(name.startswith(prefix) for name in own):
                self.bytes_inside += size or 0
            if path and not own and are_live:
                self.num_outside += 1
                if len(self.outside) < 3:
                    self.outside.append(path)
        return names

    def _vector_names(self, vectors: Any) -> Any:
        """Names of vectors' files. Many vectors lie in one file, so they are looked up once."""
        kinds = pc.struct_field(vectors, ["storageType"])
        places = pc.struct_field(vectors, ["pathOrInlineDv"])
        names: list[str] = []
        if pc.any(pc.and_(pc.is_null(kinds), pc.is_valid(places))).as_py():
            names += self._names_of_vector({"pathOrInlineDv": "?"})
        for kind in pc.unique(kinds).to_pylist():
            if kind not in (None, "i"):
                for place in pc.unique(places.filter(pc.equal(kinds, kind))).to_pylist():
                    names += self._names_of_vector({"storageType": kind, "pathOrInlineDv": place})
        return path_array(names)

    def _names_of_vector(self, descriptor: Mapping[str, Any]) -> list[str]:
        try:
            return list(self.root.vector_names(descriptor))
        except ValueError as error:
            raise CorruptLog(
                f"a deletion vector's file is not known: {error}",
                hint="nothing is deleted as long as it could be among the files",
            ) from None

    def of_bodies(self, bodies: Iterable[Json]) -> Any:
        """The names of add, remove or cdc bodies, and of their vectors, as a column."""
        return path_array([name for body in bodies for name in self.names_of(body)])

    def names_of(self, body: Json) -> Iterator[str]:
        """The names of one file action's file and of its vector's."""
        yield from self.root.names(body["path"])
        if body.get("deletionVector"):
            yield from self._names_of_vector(body["deletionVector"])


def _needs_care(paths: Any) -> bool:
    """Whether a path may be encoded, absolute or roundabout."""
    special = contains_any(paths, b"%", b":", b"./", b"//")
    return special or bool(pc.any(pc.starts_with(paths, "/")).as_py())


_VECTOR = pa.struct(
    [("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("cardinality", pa.int64())]
)


def _batch(bodies: Sequence[Json]) -> Any:
    """File actions of JSON lines as the columns that this module asks for."""
    vectors = [body.get("deletionVector") or None for body in bodies]
    columns = {
        "path": path_array([body["path"] for body in bodies]),
        "size": _longs([body.get("size") for body in bodies]),
        "deletionTimestamp": _longs([body.get("deletionTimestamp") for body in bodies]),
    }
    if any(vectors):
        columns["deletionVector"] = pa.array(vectors, _VECTOR)
    return pa.RecordBatch.from_pydict(columns)


def _longs(values: Sequence[int | None]) -> Any:
    return pa.array(values, pa.int64())


@dataclass(frozen=True, slots=True)
class Removal:
    """A file that a commit took away: the body of its `remove` or `cdc` action."""

    version: int
    commit_ms: int
    kind: str
    body: Json

    @property
    def removed_ms(self) -> int:
        """When; a tombstone that does not say is as old as its commit (VL-15)."""
        stamp = self.body.get("deletionTimestamp")
        return stamp if type(stamp) is int else self.commit_ms


def removals(
    store: LogStore,
    commits: Sequence[LogFile],
    times: Mapping[int, int],
    on_read: Callable[[int, int], None] | None = None,
    kinds: tuple[str, ...] = ("remove",),
) -> Iterator[Removal]:
    """What commits removed, newest commit first; nothing is parsed before it is asked for."""
    contents = read_all(store, [one.path for one in commits], reverse=True, on_read=on_read)
    for file, (path, content) in zip(reversed(commits), contents, strict=True):
        if isinstance(content, StorageError):
            raise content
        stamp = times.get(file.version, 0)
        for kind, body in _file_actions(path, content, kinds):
            yield Removal(file.version, stamp, kind, body)


def _file_actions(path: str, content: bytes, kinds: tuple[str, ...]) -> Iterator[tuple[str, Json]]:
    needles = [f'"{kind}"'.encode() for kind in kinds]
    if not any(needle in content for needle in needles):
        return
    for number, line in enumerate(content.split(b"\n"), 1):
        if not any(needle in line for needle in needles):
            continue
        try:
            action = parse_line(line)
            if action and action[0] in kinds:
                key_of(action[1])
                yield action
        except BadAction as error:
            raise CorruptLog(f"{path}, line {number}: {error}") from None


@dataclass
class RecentLog:
    """The commits of a table by age, as far as they are there."""

    snapshot: Snapshot
    delete_before_ms: int

    @cached_property
    def times(self) -> dict[int, int]:
        return file_times(self.snapshot.whole_listing)

    @cached_property
    def commits(self) -> list[LogFile]:
        """The unbroken run of commits that ends at the snapshot's version, ascending."""
        listed = self.snapshot.whole_listing.commits
        version = self.snapshot.version
        run: list[LogFile] = []
        while version in listed:
            run.append(listed[version])
            version -= 1
        return run[::-1]

    @property
    def young(self) -> list[LogFile]:
        """Commits that may hold tombstones younger than the threshold."""
        border = self.delete_before_ms - _MARGIN_MS
        return [one for one in self.commits if self.times.get(one.version, border) >= border]

    def last_before(self, border_ms: int) -> int:
        """The newest version that is at least as old as a time; -1 if none is."""
        return max((v for v, stamp in self.times.items() if stamp <= border_ms), default=-1)

    def protected(
        self, references: References, on_read: Callable[[int, int], None] | None = None
    ) -> Iterator[Reference]:
        """Names that recent commits removed; the state may have forgotten them (V-18, VL-15)."""
        removed = removals(self.snapshot.store, self._to_look_at(references), self.times, on_read)
        fresh = (one.body for one in removed if one.removed_ms >= self.delete_before_ms)
        while block := list(islice(fresh, _BODIES_AT_ONCE)):
            yield Why.TOMBSTONE, references.of_bodies(block)

    def _to_look_at(self, references: References) -> list[LogFile]:
        """What the state already tells need not be read again."""
        if references.has_timeless:
            return self.young
        tail = {one.version for one in self.snapshot.segment.commits}
        return [one for one in self.young if one.version not in tail]


def beyond_the_log(
    recent: RecentLog, references: References, engine: Callable[[], Engine], now_ms: int
) -> Iterator[Reference]:
    """Tombstones from before the first commit that is left, from the oldest checkpoint (V-18).

    The state forgets tombstones that are older than the table's own retention. Raises
    Refused if nothing that is left remembers them back to the threshold.
    """
    first = recent.commits[0].version if recent.commits else recent.snapshot.version + 1
    threshold = recent.delete_before_ms
    if first == 0 or recent.times.get(first, threshold + 1) <= threshold:
        return
    listing = recent.snapshot.whole_listing
    usable = [one for one in listing.checkpoints if one.version >= first - 1]
    reach_ms = recent.times.get(first, now_ms)
    if usable:
        oldest = load_snapshot(recent.snapshot.store, engine, version=usable[0].version)
        written_ms = usable[0].files[0].modified_ms
        if written_ms is not None:
            reach_ms = written_ms - oldest.setting("delta.deletedFileRetentionDuration")
        if written_ms is not None and reach_ms <= threshold:
            older = References(oldest, references.root, threshold)
            yield from (one for one in older._removes() if one[0] is Why.TOMBSTONE)
            return
    raise Refused(
        f"the log does not reach back to {iso_time(threshold)}: which files were removed "
        "before its first commit is not known any more",
        hint=f"the longest retention that can be kept is about {human_span(now_ms - reach_ms)}",
        location=recent.snapshot.store.location,
    )
