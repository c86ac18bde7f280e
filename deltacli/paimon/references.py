"""Which versions of a schema are still needed, and by what (facts 5).

Nothing is guessed: whatever cannot be read ends the search with an error.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from deltacli.delta import json_text
from deltacli.errors import Conflict, CorruptLog, DeltaCliError, FileMissing, Refused
from deltacli.local.helper import Helper, pays_off
from deltacli.paimon.manifests import (
    Manifest,
    SchemaCounts,
    manifest_path,
    read_list,
    read_manifest,
    unreadable,
)
from deltacli.paimon.table import Branch, SnapshotFile, is_listed
from deltacli.storage import READ_THREADS, LogStore

OnProgress = Callable[[str, int, int], None]
_NEWEST_SNAPSHOT_VERSION = 3
_WINDOW = 256
# So many manifests are read in one go, and from so many goes on by two processes.
_BATCH = 32
_MANY = 16
_ATTEMPTS = 10
_CHANGELOG = "changelogManifestList"
_LISTS = ("baseManifestList", "deltaManifestList", _CHANGELOG)
# Whose list it is, by which of its members, and how long it has to be.
ListPlace = tuple["Snapshot", str, "int | None"]
T = TypeVar("T")
R = TypeVar("R")


@dataclass
class References:
    """What names which schema id, in one branch."""

    snapshots: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    changelogs: dict[str, int] = field(default_factory=dict)
    statistics: dict[str, int] = field(default_factory=dict)
    manifests: SchemaCounts = field(default_factory=SchemaCounts)

    @property
    def ids(self) -> frozenset[int]:
        """Every schema id that something names."""
        named = (self.snapshots, self.tags, self.changelogs, self.statistics)
        counted = (self.manifests.adds, self.manifests.deletes, self.manifests.lists)
        return frozenset(
            [
                *(one for by_name in named for one in by_name.values()),
                *(k for c in counted for k in c),
            ]
        )

    @property
    def summary(self) -> str:
        """How much was looked at."""
        entries = self.manifests.adds.total() + self.manifests.deletes.total()
        return (
            f"{len(self.snapshots):,} snapshots, {len(self.tags):,} tags and "
            f"{len(self.changelogs):,} changelogs name {self.manifests.lists.total():,} manifests "
            f"in their lists, with {entries:,} entries"
        )

    def of(self, schema_id: int) -> dict[str, Any]:
        """What names one schema id."""
        return {
            "snapshots": _numbers(self.snapshots, schema_id),
            "tags": _names(self.tags, schema_id),
            "changelogs": _numbers(self.changelogs, schema_id),
            "statistics": _names(self.statistics, schema_id),
            "addEntries": self.manifests.adds[schema_id],
            "deleteEntries": self.manifests.deletes[schema_id],
            "manifests": self.manifests.lists[schema_id],
        }

    def reasons(self, schema_id: int) -> list[str]:
        """The same for people."""
        found = []
        for one, many, by_name in (
            ("snapshot", "snapshots", self.snapshots),
            ("tag", "tags", self.tags),
            ("changelog", "changelogs", self.changelogs),
            ("statistics", "statistics", self.statistics),
        ):
            is_numbered = one in ("snapshot", "changelog")
            names = (_numbers if is_numbered else _names)(by_name, schema_id)
            if len(names) > 3:
                found.append(f"{len(names):,} {many}")
            elif names:
                found.append(f"{one if len(names) == 1 else many} {', '.join(map(str, names))}")
        entries = self.manifests.adds[schema_id] + self.manifests.deletes[schema_id]
        if entries or self.manifests.lists[schema_id]:
            found.append(f"{entries:,} manifest entr{'y' if entries == 1 else 'ies'}")
        return found


def _names(by_name: Mapping[str, int], schema_id: int) -> list[str]:
    return [name for name, one in by_name.items() if one == schema_id]


def _numbers(by_name: Mapping[str, int], schema_id: int) -> list[int]:
    return sorted(map(int, _names(by_name, schema_id)))


@dataclass(frozen=True)
class Snapshot:
    """A snapshot, or a copy of one in a tag or a changelog."""

    kind: str
    name: str
    path: str
    id: int
    schema_id: int
    # Lists of manifests by the members that name them, with the sizes that are told.
    lists: Mapping[str, tuple[str, int | None]]
    statistics: str | None
    # Which of the lists have something in them.
    filled: Mapping[str, bool]

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}"

    def may_miss(self, member: str, tagged: Container[int]) -> bool:
        """Whether a file that it names may be gone without harm.

        A changelog outlives the snapshot that it comes from, whose own lists and statistics
        are deleted. A tag outlives the changelog of its snapshot, and so does a snapshot that
        was made of a tag: of a new branch, or by a rollback.
        """
        if self.kind == "changelog":
            return member != _CHANGELOG
        return member == _CHANGELOG and (self.kind == "tag" or self.id in tagged)


# What was counted in some manifests, and which of them could not be read.
Answer = tuple[SchemaCounts, list[tuple[int, DeltaCliError]]]


@dataclass(frozen=True)
class ManifestTask:
    """Reads manifests, here or in another process."""

    store: LogStore

    def __call__(self, batch: Sequence[Manifest]) -> Answer:
        counts = SchemaCounts()
        failures: list[tuple[int, DeltaCliError]] = []
        for position, one in enumerate(batch):
            try:
                counts.add(read_manifest(self.store, one))
            except DeltaCliError as error:
                failures.append((position, error))
        return counts, failures


class _Expired(Exception):
    """A snapshot has gone while it was looked into."""


class ReferenceScan:
    """The search through a branch; it can be taken up again to find what came after it."""

    def __init__(self, branch: Branch, on_progress: OnProgress | None = None):
        self.branch = branch
        self._report = on_progress or (lambda what, done, total: None)
        self._begin()

    def _begin(self) -> None:
        self.found = References()
        self._seen: set[SnapshotFile] = set()
        self._read: set[str] = set()
        self._tagged: set[int] = set()

    def run(self) -> References:
        """Everything that is there now. Raises CorruptLog where it cannot be told."""
        for _ in range(_ATTEMPTS):
            try:
                # What a writer adds meanwhile is found by looking again, until nothing is new.
                while self._pass():
                    pass
                return self.found
            except _Expired:
                # Others may need what went with a snapshot: who does is found out anew.
                self._begin()
        raise Conflict(
            f"snapshots of {self.branch.title} expire faster than they can be read",
            hint="try again while nobody expires them",
            location=self._store.location,
        )

    @property
    def _store(self) -> LogStore:
        return self.branch.store

    def _pass(self) -> bool:
        # One that was written over is another one: tags can be moved, snapshots rolled back.
        waiting = [one for one in self.branch.snapshots() if one not in self._seen]
        snapshots = list(self._load(waiting))
        self._tagged.update(one.id for one in snapshots if one.kind == "tag")
        lists: dict[str, ListPlace] = {}
        for one in snapshots:
            for member, (name, size) in one.lists.items():
                is_needed = not one.may_miss(member, self._tagged)
                # Of those that name a list, one that cannot do without it counts.
                if name not in self._read and (is_needed or name not in lists):
                    lists[name] = one, member, size
            if one.statistics is not None:
                self._read_statistics(one, one.statistics)
        manifests: dict[str, tuple[Snapshot, Manifest]] = {}
        self._read.update(lists)
        for done, (owner, in_list) in enumerate(self._lists(lists)):
            self._report("reading lists of manifests", done, len(lists))
            for one_manifest in in_list:
                if one_manifest.name not in self._read:
                    manifests.setdefault(one_manifest.name, (owner, one_manifest))
        self._read.update(manifests)
        self._read_manifests(list(manifests.values()))
        return bool(waiting)

    # -- snapshots -----------------------------------------------------------------------

    def _load(self, waiting: Sequence[SnapshotFile]) -> Iterator[Snapshot]:
        named: dict[str, dict[str, int]] = {
            "snapshot": self.found.snapshots,
            "changelog": self.found.changelogs,
            "tag": self.found.tags,
        }
        for done, (one, content) in enumerate(
            zip(waiting, self._map(self._read_file, waiting), strict=True)
        ):
            self._report("reading snapshots", done, len(waiting))
            with self._about(one.path):
                snapshot = parse_snapshot(content, one)
            named[one.kind][one.name] = snapshot.schema_id
            self._seen.add(one)
            yield snapshot

    def _read_file(self, one: SnapshotFile) -> bytes:
        try:
            return self._store.read(one.path)
        except FileMissing:
            self._check_is_there(one.path)
            raise

    def _url(self, path: str) -> str:
        return f"{self._store.location}/{path}"

    @contextmanager
    def _about(self, path: str) -> Iterator[None]:
        """Errors say which of the table's files they are about."""
        try:
            yield
        except DeltaCliError as error:
            error.location = self._url(path)
            raise

    def _lost(self, path: str, owner: Snapshot) -> CorruptLog:
        return CorruptLog(
            f"{path}, which {owner.title} needs, is missing",
            hint="restore the file, or drop what needs it; until then nobody can say which "
            "schemas are needed",
            location=self._url(path),
        )

    def _needed(self, error: CorruptLog, manifest: str, owner: Snapshot) -> CorruptLog:
        return CorruptLog(
            f"{error.message} ({owner.title} needs it)",
            hint=error.hint,
            location=self._url(f"manifest/{manifest}"),
        )

    def _check_is_there(self, path: str) -> None:
        """Raise _Expired for a snapshot that is not listed any more."""
        if not is_listed(self._store, path):
            raise _Expired

    def _read_statistics(self, snapshot: Snapshot, name: str) -> None:
        if name in self.found.statistics:
            return
        if "/" in name:
            raise CorruptLog(
                f"{snapshot.title} names statistics {name!r}, which is no file name",
                location=self._url(snapshot.path),
            )
        path = f"statistics/{name}"
        try:
            content = self._store.read(path)
        except FileMissing:
            if snapshot.may_miss("statistics", self._tagged):
                return
            self._check_is_there(snapshot.path)
            raise self._lost(path, snapshot) from None
        with self._about(path):
            self.found.statistics[name] = _integer(_document(content, path), "schemaId", path)

    # -- manifests -----------------------------------------------------------------------

    def _lists(self, lists: Mapping[str, ListPlace]) -> Iterator[tuple[Snapshot, list[Manifest]]]:
        def read(
            item: tuple[str, ListPlace],
        ) -> tuple[list[Manifest], SchemaCounts]:
            name, (owner, member, size) = item
            counts = SchemaCounts()
            try:
                found = list(read_list(self._store, name, size, counts))
                if not found and size is None and owner.filled.get(member):
                    # Nothing else tells a list that was cut from an empty one.
                    raise unreadable(manifest_path(name), "it is empty, but there are rows")
                return found, counts
            except FileMissing:
                if owner.may_miss(member, self._tagged):
                    return [], SchemaCounts()
                self._check_is_there(owner.path)
                raise self._lost(manifest_path(name), owner) from None
            except CorruptLog as error:
                raise self._needed(error, name, owner) from None

        items = list(lists.items())
        for (_, (owner, *_)), (found, counts) in zip(items, self._map(read, items), strict=True):
            self.found.manifests.add(counts)
            yield owner, found

    def _read_manifests(self, manifests: Sequence[tuple[Snapshot, Manifest]]) -> None:
        size = 1 if self._store.reads_are_remote else _BATCH
        batches = [manifests[start : start + size] for start in range(0, len(manifests), size)]
        for done, (batch, (counts, failure)) in enumerate(
            zip(batches, self._work([[one for _, one in batch] for batch in batches]), strict=True)
        ):
            self._report("reading manifests", done * size, len(manifests))
            self.found.manifests.add(counts)
            for position, error in failure:
                self._judge(error, *batch[position])

    def _judge(self, error: DeltaCliError, owner: Snapshot, manifest: Manifest) -> None:
        """Raise the error of a manifest with the snapshot that needs it."""
        if isinstance(error, FileMissing):
            self._check_is_there(owner.path)
            raise self._lost(manifest_path(manifest.name), owner)
        if isinstance(error, CorruptLog):
            raise self._needed(error, manifest.name, owner)
        raise error

    def _work(self, batches: list[list[Manifest]]) -> Iterator[Answer]:
        """The answer to each batch; many are shared with another process."""
        task = ManifestTask(self._store)
        if self._store.reads_are_remote or len(batches) < _MANY or not pays_off():
            yield from self._map(task, batches)
            return
        helper = Helper(task)
        try:
            own = [None if helper.offer(batch) else task(batch) for batch in batches]
            for answer in own:
                yield helper.answer() if answer is None else answer
        finally:
            helper.close()

    def _map(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Work on each item, in order, side by side where it waits for a network."""
        waiting = list(items)
        if not self._store.reads_are_remote or len(waiting) < 2:
            yield from map(work, waiting)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(READ_THREADS) as pool:
            for start in range(0, len(waiting), _WINDOW):
                yield from pool.map(work, waiting[start : start + _WINDOW])


def parse_snapshot(content: bytes, file: SnapshotFile) -> Snapshot:
    """What a snapshot's JSON refers to. Raises CorruptLog, or Refused for a newer format."""
    path = file.path
    tree = _document(content, path)
    version = tree.get("version")
    if version is not None and (type(version) is not int or version > _NEWEST_SNAPSHOT_VERSION):
        raise Refused(
            f"{path} has the format {version!r}, which deltacli does not know",
            hint="use a newer deltacli",
        )
    lists = {}
    for member in _LISTS:
        value = tree.get(member)
        if value is None and member == _CHANGELOG:
            continue
        if not isinstance(value, str):
            raise unreadable(path, f"member {member} is missing")
        size = tree.get(f"{member}Size")
        lists[member] = value, size if type(size) is int else None
    statistics = tree.get("statistics")
    if statistics is not None and not isinstance(statistics, str):
        raise unreadable(path, "member statistics is no name")
    return Snapshot(
        file.kind,
        file.name,
        path,
        _integer(tree, "id", path),
        _integer(tree, "schemaId", path),
        lists,
        statistics,
        _filled(tree),
    )


def _filled(tree: Mapping[str, Any]) -> Mapping[str, bool]:
    """Which lists cannot be empty, by the numbers of rows that the snapshot tells."""
    total, delta = tree.get("totalRecordCount"), tree.get("deltaRecordCount")
    if type(total) is not int or type(delta) is not int:
        return {}
    return {"baseManifestList": total > delta, "deltaManifestList": delta != 0}


def _document(content: bytes, path: str) -> Mapping[str, Any]:
    try:
        tree = json_text.load(content)
    except (ValueError, RecursionError) as error:
        what = "it is empty" if not content.strip() else f"it is not JSON: {error}"
        raise unreadable(path, what) from None
    if not isinstance(tree, dict):
        raise unreadable(path, "it is not a JSON object")
    return tree


def _integer(tree: Mapping[str, Any], name: str, path: str) -> int:
    value = tree.get(name)
    if type(value) is not int:
        raise unreadable(path, f"member {name} is no integer")
    return value
