"""Which rows of which files make up a version, or a change: a plan that any engine can read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from deltacli.delta.actions import Json, parse_line
from deltacli.delta.bitmaps import RowSet, vector_rows
from deltacli.delta.engine import FileBatch
from deltacli.delta.partitions import partition_value, physical_partition_columns
from deltacli.delta.paths import file_location
from deltacli.delta.predicates import Condition
from deltacli.delta.schema import Primitive, Struct
from deltacli.delta.skipping import may_match
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.vectors import vector_location
from deltacli.errors import CorruptLog, FileMissing, Refused
from deltacli.storage import LogStore, open_store

FIELDS = ("path", "partitionValues", "size", "stats", "stats_parsed", "deletionVector")


class Rows(Enum):
    """Which rows of a file count."""

    ALL = 0
    WITHOUT = 1
    ONLY = 2


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A data file: where it lies, its partition values by logical name, and its rows.

    `selected` are row positions: without them, or only them, as `rows` says. `constants` are
    more columns, the same for all rows of the file.
    """

    location: str
    size: int
    partition: Mapping[str, Any]
    rows: Rows = Rows.ALL
    selected: RowSet | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    stats: str | None = None
    path: str = ""


@dataclass
class Files:
    """Reads the file actions of one table, with their deletion vectors."""

    snapshot: Snapshot
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> Struct:
        if self.snapshot.schema is None:
            raise Refused("the metadata has no schema", hint="its rows cannot be read")
        return self.snapshot.schema

    def live(self) -> Iterator[ScanFile]:
        """The files of the snapshot, in the log's order."""
        for item in self.snapshot.files("add", FIELDS):
            bodies = item.columns.to_pylist() if isinstance(item, FileBatch) else (item,)
            for body in bodies:
                yield self.of_action(body)

    def matching(self, chosen: Iterable[ScanFile], condition: Condition) -> Iterator[ScanFile]:
        """The files that may hold a row for which the condition is true."""
        is_mapped = self.snapshot.mapped_schema is not None
        for one in chosen:
            if may_match(condition, self.schema, one.partition, one.stats, is_mapped=is_mapped):
                yield one

    def of_action(self, body: Json, **constants: Any) -> ScanFile:
        """An add or remove body as a file to be read, its vector applied."""
        vector = body.get("deletionVector")
        stats = body.get("stats")
        return ScanFile(
            file_location(self.snapshot.store.location, body["path"]),
            body.get("size") or 0,
            self.partition(body.get("partitionValues")),
            Rows.WITHOUT if vector else Rows.ALL,
            self.vector(vector) if vector else None,
            constants,
            stats if isinstance(stats, str) else None,
            body["path"],
        )

    def partition(self, values: Any) -> dict[str, Any]:
        """Typed partition values by logical name."""
        if not self.snapshot.metadata.partition_columns:
            return {}
        types = {one.name: one.type for one in self.schema.fields}
        columns = self.snapshot.metadata.partition_columns
        own = dict(values or {})
        try:
            return {
                logical: partition_value(own.get(physical), types.get(logical, Primitive("string")))
                for logical, physical in physical_partition_columns(
                    columns, self.snapshot.mapped_schema
                ).items()
            }
        except ValueError as error:
            raise CorruptLog(f"a partition value cannot be read: {error}") from None

    def vector(self, descriptor: Json) -> RowSet:
        """The deleted rows of a file."""
        return vector_rows(descriptor, lambda offset, size: self._read(descriptor, offset, size))

    def _read(self, descriptor: Json, offset: int, size: int) -> bytes:
        location = self.snapshot.store.location
        place = vector_location(descriptor, location) or ""
        store, path = self.place(place)
        try:
            with store.open(path) as file:
                file.seek(offset)
                return file.read(size)
        except FileMissing as error:
            raise CorruptLog(f"the deletion vector's file is missing: {error.message}") from error

    def place(self, place: str) -> tuple[LogStore, str]:
        """The store and path of a full URL; only files elsewhere take another store."""
        root = self.snapshot.store.location
        if place.startswith(f"{root}/"):
            return self.snapshot.store, place[len(root) + 1 :]
        folder, _, name = place.rpartition("/")
        return open_store(folder, self.options), name


CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = (
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
)


def changes_of_commit(
    files: Files, version: int, timestamp_ms: int | None, lines: Iterable[bytes]
) -> tuple[list[ScanFile], list[ScanFile]]:
    """What one commit changed: change data files, and rows of added and removed files.

    Change data files count alone where there are any; of a file that only got another
    deletion vector, the rows that differ count.
    """
    from datetime import UTC, datetime, timedelta

    moment = (
        None
        if timestamp_ms is None
        else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
    )
    common = {COMMIT_VERSION: version, COMMIT_TIMESTAMP: moment}
    feed: list[ScanFile] = []
    adds: dict[str, Json] = {}
    removes: dict[str, Json] = {}
    for line in lines:
        action = parse_line(line) if line else None
        if action is None:
            continue
        key, body = action
        if key == "cdc":
            feed.append(files.of_action(body, **common))
        elif key in ("add", "remove") and body.get("dataChange", True):
            (adds if key == "add" else removes)[body["path"]] = body
    if feed:
        return feed, []
    changed: list[ScanFile] = []
    for path, body in removes.items():
        new = adds.pop(path, None)
        if new is None:
            changed.append(files.of_action(body, **common, **{CHANGE_TYPE: "delete"}))
        else:
            changed += _difference(files, body, new, common)
    changed += [
        files.of_action(body, **common, **{CHANGE_TYPE: "insert"}) for body in adds.values()
    ]
    return [], changed


def _difference(
    files: Files, old: Json, new: Json, common: Mapping[str, Any]
) -> Iterator[ScanFile]:
    """The rows that another deletion vector of the same file takes away or brings back."""
    before = files.vector(old["deletionVector"]) if old.get("deletionVector") else RowSet()
    after = files.vector(new["deletionVector"]) if new.get("deletionVector") else RowSet()
    # The same path without the vectors: a scan of exactly the rows that differ.
    plain = {**new, "deletionVector": None}
    for rows, kind in ((after - before, "delete"), (before - after, "insert")):
        if rows.blocks:
            whole = files.of_action(plain, **common, **{CHANGE_TYPE: kind})
            yield replace(whole, rows=Rows.ONLY, selected=rows)
