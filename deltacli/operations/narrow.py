"""Files that still hold narrower types than the table: found by their footers, and rewritten."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from deltacli.delta.actions import Json
from deltacli.delta.column_mapping import ID, MODE
from deltacli.delta.commit import Change, Committed, Moment
from deltacli.delta.data_files import DataColumn, DataFooter, replacement, rewrite_target
from deltacli.delta.engine import Engine, FileBatch
from deltacli.delta.paths import decode_path, file_location
from deltacli.delta.scan import Files
from deltacli.delta.schema import Array, DataType, Map, Primitive, Struct
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.widening import is_readable_change
from deltacli.delta.writable import check_writable
from deltacli.errors import Conflict, CorruptLog, Refused
from deltacli.operations.checkpoint import commit_and_checkpoint
from deltacli.operations.records import Document, Listing, Report, Row
from deltacli.units import counted, human_size

STATUS_FIELDS = (
    "location",
    "version",
    "numFiles",
    "numNarrowFiles",
    "narrowBytes",
    "columns",
    "unreadable",
)
FILE_FIELDS = ("path", "column", "storedType", "type", "sizeInBytes", "numRecords")
REWRITE_FIELDS = (
    "location",
    "version",
    "dryRun",
    "numFilesRemoved",
    "numFilesAdded",
    "bytesRemoved",
    "bytesAdded",
    "warnings",
)
_FILES_AT_ONCE = 20_000
_FIELDS = (
    "path", "partitionValues", "size", "tags", "deletionVector", "stats", "clusteringProvider",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NarrowColumn:
    column: str
    stored: str
    type: str


@dataclass(frozen=True, slots=True)
class NarrowFile:
    """A live file, its footer, and the columns that the table has wider by now."""

    add: Json
    footer: DataFooter
    columns: tuple[NarrowColumn, ...]


@dataclass(frozen=True)
class Status:
    """The live files that are not of the table's types."""

    snapshot: Snapshot
    num_files: int
    files: tuple[NarrowFile, ...]
    unreadable: tuple[tuple[str, str], ...]

    @property
    def size(self) -> int:
        return sum(one.add["size"] for one in self.files)

    def check_readable(self) -> None:
        """Raise CorruptLog if it is not known of every file what it holds."""
        if self.unreadable:
            path, error = self.unreadable[0]
            count = counted(len(self.unreadable), "file")
            raise CorruptLog(
                f"{count} cannot be read, for instance {path}: {error}",
                hint="restore them first; nothing was changed",
                location=self.snapshot.store.location,
            )

    def report(self) -> Report:
        values = {
            "location": self.snapshot.store.location,
            "version": self.snapshot.version,
            "numFiles": self.num_files,
            "numNarrowFiles": len(self.files),
            "narrowBytes": self.size,
            "columns": list(self._columns()),
            "unreadable": [{"path": path, "error": error} for path, error in self.unreadable],
        }
        rows = Listing(self._rows(), FILE_FIELDS, FILE_FIELDS, "files with narrow types")
        return Report(Document(values, "widen-type --status"), rows, "files")

    def _columns(self) -> Iterator[Row]:
        """Files, bytes and rows by column and stored type."""
        sums: dict[NarrowColumn, list[int]] = {}
        for one in self.files:
            for column in one.columns:
                total = sums.setdefault(column, [0, 0, 0])
                for place, number in enumerate((1, one.add["size"], one.footer.rows)):
                    total[place] += number
        for column, (files, size, rows) in sums.items():
            yield {
                "column": column.column,
                "storedType": column.stored,
                "type": column.type,
                "numFiles": files,
                "sizeInBytes": size,
                "numRecords": rows,
            }

    def _rows(self) -> Iterator[Row]:
        for one in self.files:
            for column in one.columns:
                yield {
                    "path": one.add["path"],
                    "column": column.column,
                    "storedType": column.stored,
                    "type": column.type,
                    "sizeInBytes": one.add["size"],
                    "numRecords": one.footer.rows,
                }


def find_narrow(
    snapshot: Snapshot,
    engine: Engine,
    options: Mapping[str, str],
    on_read: Callable[[int, int], None] | None = None,
) -> Status:
    """Look into the footer of every live file."""
    files = Files(snapshot, options)
    known = dict(_leaves(files.schema, (), (), is_mapped=snapshot.mapped_schema is not None))
    by_id = snapshot.setting(MODE) == "id"
    ids = {one[2]: one for one in known.values() if by_id and one[2] is not None}
    root = snapshot.store.location
    narrow: list[NarrowFile] = []
    unreadable: list[tuple[str, str]] = []
    adds = _adds(snapshot)
    count = 0
    # Only the narrow ones are kept, however many files there are.
    while block := list(islice(adds, _FILES_AT_ONCE)):
        places = [file_location(root, one["path"]) for one in block]
        footers = engine.read_footers(files.places, places)
        for add, footer in zip(block, footers, strict=True):
            if footer.error is not None:
                unreadable.append((add["path"], footer.error))
            elif columns := tuple(_narrow_columns(footer.columns, known, ids)):
                narrow.append(NarrowFile(add, footer, columns))
            count += 1
            if on_read and count % 100 == 0:
                on_read(count, 0)
    return Status(snapshot, count, tuple(narrow), tuple(unreadable))


def _adds(snapshot: Snapshot) -> Iterator[Json]:
    for item in snapshot.files("add", _FIELDS):
        if isinstance(item, FileBatch):
            yield from item.columns.to_pylist()
        else:
            yield dict(item)


Leaf = tuple[str, str, int | None]


def _leaves(
    data_type: DataType,
    path: tuple[str, ...],
    logical: tuple[str, ...],
    *,
    is_mapped: bool,
    own_id: int | None = None,
) -> Iterator[tuple[tuple[str, ...], Leaf]]:
    """The table's leaves by the names that files have: the table's own name, type, id."""
    if isinstance(data_type, Struct):
        for one in data_type.fields:
            name = one.physical_name if is_mapped else one.name
            number = one.metadata.get(ID) if is_mapped else None
            yield from _leaves(
                one.type,
                (*path, name.lower()),
                (*logical, one.name),
                is_mapped=is_mapped,
                own_id=number if isinstance(number, int) else None,
            )
    elif isinstance(data_type, Array):
        inside = (*path, "element"), (*logical, "element")
        yield from _leaves(data_type.element, *inside, is_mapped=is_mapped)
    elif isinstance(data_type, Map):
        for part, kind in (("key", data_type.key), ("value", data_type.value)):
            yield from _leaves(kind, (*path, part), (*logical, part), is_mapped=is_mapped)
    elif isinstance(data_type, Primitive):
        yield path, (".".join(logical), data_type.name, own_id)


def _narrow_columns(
    columns: Sequence[DataColumn],
    known: Mapping[tuple[str, ...], Leaf],
    ids: Mapping[int, Leaf],
) -> Iterator[NarrowColumn]:
    for column in columns:
        leaf = ids.get(column.field_id) if column.field_id is not None else None
        leaf = leaf or known.get(tuple(one.lower() for one in column.path))
        # Some writers store small integers as larger ones: only what is narrower counts.
        if leaf and column.type != leaf[1] and is_readable_change(column.type, leaf[1]):
            yield NarrowColumn(leaf[0], column.type, leaf[1])


# -- rewriting ---------------------------------------------------------------------------


@dataclass(frozen=True)
class RewritePlan:
    """The files that will be written anew."""

    status: Status

    @property
    def changes_anything(self) -> bool:
        return bool(self.status.files)

    @property
    def question(self) -> str:
        return f"Rewrite {counted(len(self.status.files), 'file')}, {human_size(self.status.size)}?"

    def document(self, done: RewriteResult | None = None, *, is_dry_run: bool = True) -> Document:
        snapshot = self.status.snapshot
        values = {
            "location": snapshot.store.location,
            "version": done.committed.version if done else snapshot.version,
            "dryRun": is_dry_run and done is None,
            "numFilesRemoved": len(self.status.files),
            "numFilesAdded": done.num_added if done else None,
            "bytesRemoved": self.status.size,
            "bytesAdded": done.bytes_added if done else None,
            "warnings": list(done.committed.warnings) if done else [],
        }
        return Document(values, "widen-type --rewrite")


@dataclass(frozen=True, slots=True)
class RewriteResult:
    committed: Committed
    num_added: int
    bytes_added: int


def plan_rewrite(status: Status) -> RewritePlan:
    """Refuse what must not be rewritten before anything is read."""
    check_writable(status.snapshot)
    rewrite_target(status.snapshot)
    status.check_readable()
    return RewritePlan(status)


def apply_rewrite(
    plan: RewritePlan,
    engine: Callable[[], Engine],
    options: Mapping[str, str],
) -> RewriteResult:
    """Write all new files, then commit them and the removal of the old ones at once.

    Up to the commit the table is as it was.
    """
    snapshot = plan.status.snapshot
    adds = [one.add for one in plan.status.files]
    places = Files(snapshot, options).places
    written = engine().rewrite_files(snapshot.store, places, rewrite_target(snapshot), adds)

    def actions(moment: Moment) -> list[dict[str, Json]]:
        pairs = zip(adds, written, strict=True)
        return [one for pair in pairs for one in replacement(*pair, moment.timestamp_ms)]

    added = [one for one in written if one is not None]
    metrics = {
        "numRemovedFiles": str(len(adds)),
        "numRemovedBytes": str(plan.status.size),
        "numAddedFiles": str(len(added)),
        "numAddedBytes": str(sum(one.size for one in added)),
    }
    change = Change(
        "REORG",
        {"predicate": "[]"},
        actions,
        metrics,
        isolation="SnapshotIsolation",
        is_blind_append=False,
    )
    try:
        committed = commit_and_checkpoint(snapshot, change, engine)
    except (Conflict, Refused):
        # Nothing is in the log. After any other error that is not certain: the files stay.
        snapshot.store.delete_all([decode_path(one.path) for one in added])
        raise
    return RewriteResult(committed, len(added), sum(one.size for one in added))
