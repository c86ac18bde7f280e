"""What an engine does: whole jobs over the Parquet files of a checkpoint.

The caller cannot tell engines apart by their results. The JSON part of a segment
(`Reconciled`) is handed in; an engine answers for the state as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from deltacli.delta import json_text
from deltacli.delta.replay import Reconciled
from deltacli.delta.schema import DataType, Struct
from deltacli.errors import CorruptLog, StorageError
from deltacli.storage import LogStore, Walked

if TYPE_CHECKING:
    # These know snapshots, which know engines.
    from deltacli.delta.actions import Json
    from deltacli.delta.data_files import DataFooter, NewFile, Target
    from deltacli.delta.scan import Places


class Want(Enum):
    """A group of totals; what is not asked for is not read."""

    FILES = "number and bytes of live files"
    RECORDS = "rows of live files, from their statistics"
    VECTORS = "deletion vectors of live files"
    TOMBSTONES = "removed files that the log still holds"


@dataclass(slots=True)
class Totals:
    """Sums over a version's files."""

    files: int = 0
    bytes: int = 0
    records: int = 0
    without_records: int = 0
    vectors: int = 0
    deleted_records: int = 0
    tombstones: int = 0
    tombstone_bytes: int = 0

    def add(self, other: Totals) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def subtract(self, other: Totals) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) - getattr(other, name))


class FileBatch:
    """Some file actions as columns: an Arrow record batch named by the action's fields.

    The columns are made when they are asked for, on whichever thread asks. Making them
    raises UnreadableCheckpoint if they turn out to be broken.
    """

    def __init__(self, make: Callable[[], Any]):
        self._make = make

    @cached_property
    def columns(self) -> Any:
        return self._make()


ADD_FIELDS = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "dataChange",
    "stats",
    "stats_parsed",
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
)
REMOVE_FIELDS = (
    "path",
    "deletionTimestamp",
    "dataChange",
    "extendedFileMetadata",
    "partitionValues",
    "size",
    "deletionVector",
)


class CheckpointReader(Protocol):
    """One checkpoint's Parquet files, opened: footers read, sidecars found."""

    def totals(
        self,
        state: Reconciled,
        wanted: frozenset[Want],
        removed_after_ms: int,
        on_read: Callable[[int, int], None] | None = None,
    ) -> Totals:
        """Sums over the rows that the newer `state` does not replace.

        Tombstones count only if they were removed after the given time (rule R-20).
        """

    def files(
        self, state: Reconciled, action: str, fields: Sequence[str], rows: int = 0
    ) -> Iterator[FileBatch]:
        """The `add` or `remove` rows that the newer `state` does not replace.

        A batch comes from at least `rows` rows: more is faster and takes more memory.
        """

    def find(self, paths: Collection[str], fields: Sequence[str]) -> Iterator[FileBatch]:
        """The checkpoint's own `add` rows of these canonical paths, whatever came later."""

    def part(self, number: int, count: int) -> CheckpointReader:
        """A share of the rows; all shares together are the whole. It can be pickled."""


@dataclass(frozen=True, slots=True)
class FileActions:
    """The live `add` or held `remove` actions of a state: checkpoint rows, then newer ones."""

    reader: CheckpointReader | None
    state: Reconciled
    action: str
    fields: Sequence[str]
    rows: int = 0
    share: tuple[int, int] = (0, 1)

    def __iter__(self) -> Iterator[Mapping[str, Any] | FileBatch]:
        if self.reader:
            yield from self.reader.files(self.state, self.action, self.fields, self.rows)
        lines = self.state.adds if self.action == "add" else self.state.removes
        number, count = self.share
        for line in islice(lines.values(), number, None, count):
            yield json_text.load(line)[self.action]

    def part(self, number: int, count: int) -> FileActions:
        reader = self.reader.part(number, count) if self.reader else None
        return replace(self, reader=reader, share=(number, count))


@dataclass(frozen=True, slots=True)
class CheckpointContent:
    """What a checkpoint is to hold, in the protocol's terms.

    `small` are the lines of all actions that are not about files; `files` streams the
    live adds and `removes` the kept tombstones; `expected` is how many of both there are.
    """

    small: Sequence[Mapping[str, Any]]
    files: FileActions
    removes: FileActions
    removed_after_ms: int
    stats_as_json: bool
    stats_as_struct: bool
    stats_schema: Struct | None
    partition_columns: Mapping[str, DataType]
    codec: str
    expected: tuple[int, int] | None = None

    def check(self, written: Sequence[WrittenFile]) -> None:
        """Compare the rows of the finished files with the snapshot (K-6, K-8)."""
        adds, removes = sum(one.adds for one in written), sum(one.removes for one in written)
        if self.expected is not None and (adds, removes) != self.expected:
            raise CorruptLog(
                f"the checkpoint has {adds} files and {removes} tombstones, the snapshot "
                f"{self.expected[0]} and {self.expected[1]}; it is not published",
                hint="the log changed while it was read, or it is broken; try again",
            )

    def part(self, number: int, count: int) -> CheckpointContent:
        """A share of the file actions."""
        return replace(
            self,
            files=self.files.part(number, count),
            removes=self.removes.part(number, count),
            expected=None,
        )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A published Parquet file; its adds and removes were read back from it."""

    size: int
    adds: int
    removes: int
    rows: int
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Walk:
    """All files below a folder, but for hidden ones, still to be listed."""

    folder: str
    hides: Callable[[str], bool]


@dataclass(frozen=True)
class Search:
    """Files that no kept version needs are looked for in `listed`.

    `protected` are columns of names. Only what was modified before `delete_before_ms` is
    found, and nothing of unknown age. A list made elsewhere `may_repeat` a file.
    """

    listed: Walk | Iterator[Walked]
    protected: Iterator[Any]
    delete_before_ms: int
    may_repeat: bool = False


@dataclass(frozen=True)
class Unreferenced:
    """What a search found: names, sizes and modification times as columns, sorted by name.

    `spared` are the names of files that nothing refers to either, but that are too young,
    or of unknown or future age, or another name of a protected file; `folders` those in which
    nothing would be left, deepest first; `nested` those that are tables of their own and were
    left alone. `is_protected` tells of a column of names which are.
    """

    names: Any
    sizes: Any
    modified_ms: Any
    listed: int
    spared: Any
    spared_bytes: int
    folders: tuple[str, ...]
    nested: tuple[str, ...]
    is_protected: Callable[[Any], Any]


class Engine(Protocol):
    name: str

    def find_unreferenced(
        self, store: LogStore, search: Search, on_listed: Callable[[int], None] | None = None
    ) -> Unreferenced:
        """Subtract what is protected from what is listed."""

    def delete(
        self,
        store: LogStore,
        batches: Iterator[Sequence[str]],
        on_done: Callable[[Sequence[str], list[tuple[str, StorageError]]], None],
    ) -> None:
        """Delete batches of files, several at a time, telling each batch's failures.

        When it is interrupted, batches that were begun are finished, and no more.
        """

    def write_classic(self, store: LogStore, path: str, content: CheckpointContent) -> WrittenFile:
        """Write all rows into one file, read it back, and publish it if nothing is missing."""

    def write_manifest(
        self,
        store: LogStore,
        path: str,
        lines: Sequence[Mapping[str, Any]],
        content: CheckpointContent,
    ) -> WrittenFile:
        """Write a V2 main file in Parquet: everything but file actions."""

    def write_sidecars(
        self, store: LogStore, paths: Sequence[str], content: CheckpointContent
    ) -> list[WrittenFile]:
        """The same for file actions alone, spread over as many sidecars as there are paths."""

    def read_footers(self, places: Places, locations: Sequence[str]) -> Iterator[DataFooter]:
        """What data files say of themselves, in order; one that cannot be read says so."""

    def rewrite_files(
        self, store: LogStore, places: Places, target: Target, adds: Sequence[Json]
    ) -> list[NewFile | None]:
        """Write the rows of each `add` into a new file with the target's types.

        None stands for a file whose rows are all deleted. If one file cannot be made, none
        is left behind. What was written is nothing to the table before it is committed.
        """

    def open_checkpoint(
        self, store: LogStore, main_files: Sequence[str], state: Reconciled
    ) -> CheckpointReader:
        """Open a checkpoint and apply its small actions to `state`.

        `main_files` are its Parquet files in `_delta_log`; the sidecars are those that
        `state` holds in the end. Raises UnreadableCheckpoint if a file is missing or broken.
        """
