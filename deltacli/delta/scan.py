"""Which rows of which files make up a version, or a change: a plan that any engine can read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, Protocol

from deltacli.delta.actions import Json, Metadata
from deltacli.delta.bitmaps import RowSet, stored_rows, vector_rows
from deltacli.delta.engine import FileBatch
from deltacli.delta.partitions import (
    logical_partition_values,
    partition_value,
    physical_partition_columns,
)
from deltacli.delta.paths import canonical_path, file_location
from deltacli.delta.predicates import Condition
from deltacli.delta.schema import Field, Primitive, Struct
from deltacli.delta.skipping import may_match
from deltacli.delta.stats import parse_stats, stats_of_struct
from deltacli.delta.vectors import vector_location
from deltacli.errors import CorruptLog, FileMissing, NotFound, Refused, UsageError
from deltacli.storage import DataStore, open_store

FIELDS = ("path", "partitionValues", "size", "deletionVector", "stats", "stats_parsed")


class Rows(Enum):
    """Which rows of a file count."""

    ALL = 0
    WITHOUT = 1
    ONLY = 2


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A data file: where it lies, its partition values by logical name, and its rows.

    `select` reads row positions: without them, or only them, as `rows` says. `constants` are
    more columns, the same for all rows of the file.
    """

    location: str
    size: int
    partition: Mapping[str, Any]
    rows: Rows = Rows.ALL
    select: Callable[[], RowSet] = RowSet
    constants: Mapping[str, Any] = field(default_factory=dict)
    stats: Mapping[str, Any] | None = None
    path: str = ""


class TableVersion(Protocol):
    """A version whose rows can be read: a snapshot of a log, or what a server tells of one."""

    @property
    def store(self) -> DataStore: ...
    @property
    def metadata(self) -> Metadata: ...
    @property
    def schema(self) -> Struct | None: ...
    @property
    def mapped_schema(self) -> Struct | None: ...

    def setting(self, key: str) -> Any: ...

    def files(
        self, action: str, fields: Sequence[str], rows: int = 0
    ) -> Iterator[Mapping[str, Any] | FileBatch]: ...


@dataclass(frozen=True, slots=True)
class Places:
    """Finds the stores of full URLs; only files elsewhere take another one than the table's."""

    store: DataStore
    options: Mapping[str, str] = field(default_factory=dict)

    def of(self, place: str) -> tuple[DataStore, str]:
        root = self.store.location
        if place.startswith(f"{root}/"):
            return self.store, place[len(root) + 1 :]
        folder, _, name = place.rpartition("/")
        return open_store(folder, self.options), name

    def deleted_rows(self, descriptor: Json) -> RowSet:
        """The rows that a deletion vector takes away."""
        return vector_rows(descriptor, lambda offset, size: self._read(descriptor, offset, size))

    def stored_rows(self, descriptor: Json) -> RowSet:
        """The same, where the descriptor's own count is in doubt."""
        return stored_rows(descriptor, lambda offset, size: self._read(descriptor, offset, size))

    def _read(self, descriptor: Json, offset: int, size: int) -> bytes:
        store, path = self.of(vector_location(descriptor, self.store.location) or "")
        try:
            with store.open(path) as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(offset)
                # A size that is made up must not take as much memory.
                return file.read(min(size, max(end - offset, 0)))
        except FileMissing as error:
            raise CorruptLog(f"the deletion vector's file is missing: {error.message}") from error


@dataclass
class Files:
    """Reads the file actions of one table, with their deletion vectors."""

    snapshot: TableVersion
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def places(self) -> Places:
        return Places(self.snapshot.store, self.options)

    @property
    def schema(self) -> Struct:
        if self.snapshot.schema is None:
            raise Refused("the metadata has no schema", hint="its rows cannot be read")
        return self.snapshot.schema

    def live(self, *, with_stats: bool = True) -> Iterator[ScanFile]:
        """The files of the snapshot, in the order in which the log tells them."""
        for item in self.snapshot.files("add", FIELDS if with_stats else FIELDS[:4]):
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
        text, parsed = body.get("stats"), body.get("stats_parsed")
        return ScanFile(
            file_location(self.snapshot.store.location, body["path"]),
            body.get("size") or 0,
            self.partition(body.get("partitionValues")),
            Rows.WITHOUT if vector else Rows.ALL,
            partial(self.places.deleted_rows, vector) if vector else RowSet,
            constants,
            parse_stats(text) if isinstance(text, str) else stats_of_struct(parsed),
            body["path"],
        )

    def partition(self, values: Any) -> dict[str, Any]:
        """Typed partition values by logical name."""
        if not self.snapshot.metadata.partition_columns:
            return {}
        types = {one.name: one.type for one in self.schema.fields}
        columns = self.snapshot.metadata.partition_columns
        physical = physical_partition_columns(columns, self.snapshot.mapped_schema)
        texts = logical_partition_values(dict(values or {}), physical)
        try:
            return {
                name: partition_value(texts[name], types.get(name, Primitive("string")))
                for name in physical
            }
        except ValueError as error:
            raise CorruptLog(
                f"a partition value cannot be read: {error}",
                hint="`deltacli validate TABLE` shows all that is wrong",
            ) from None


def chosen_columns(schema: Struct, names: Sequence[str] | None) -> Struct:
    """Some columns by name (None is all), in the order of the names; case does not matter.

    Raises NotFound.
    """
    if names is None:
        return schema
    found: list[Field] = []
    for name in names:
        same = [one for one in schema.fields if one.name == name] or [
            one for one in schema.fields if one.name.lower() == name.lower()
        ]
        if not same:
            known = ", ".join(one.name for one in schema.fields)
            raise NotFound(f"there is no column {name!r}", hint=f"the columns are {known}")
        if same[0] in found:
            raise UsageError(f"the column {name!r} is named twice", hint="name it once")
        found.append(same[0])
    return Struct(tuple(found))


CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = (
    "_change_type",
    "_commit_version",
    "_commit_timestamp",
)
# What changed rows have besides the table's own columns.
CHANGE_FIELDS = (
    Field(CHANGE_TYPE, Primitive("string"), True),
    Field(COMMIT_VERSION, Primitive("long"), True),
    Field(COMMIT_TIMESTAMP, Primitive("timestamp"), True),
)


def changes_of_commit(
    files: Files, version: int, timestamp_ms: int | None, actions: Iterable[tuple[str, Json]]
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
    for key, body in actions:
        if key == "cdc":
            feed.append(files.of_action(body, **common))
        elif key in ("add", "remove") and body.get("dataChange", True):
            (adds if key == "add" else removes)[canonical_path(body["path"])] = body
    if feed:
        return feed, []
    changed: list[ScanFile] = []
    for path, body in removes.items():
        new = adds.pop(path, None)
        if new is None:
            if files.snapshot.metadata.partition_columns and not body.get("partitionValues"):
                raise CorruptLog(
                    f"commit {version} removed {body['path']} without its partition values",
                    hint="what its rows were cannot be told; begin after that version",
                )
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
    before = (
        files.places.deleted_rows(old["deletionVector"]) if old.get("deletionVector") else RowSet()
    )
    after = (
        files.places.deleted_rows(new["deletionVector"]) if new.get("deletionVector") else RowSet()
    )
    # The same path without the vectors: a scan of exactly the rows that differ.
    plain = {**new, "deletionVector": None}
    for rows, kind in ((after - before, "delete"), (before - after, "insert")):
        if rows.blocks:
            whole = files.of_action(plain, **common, **{CHANGE_TYPE: kind})
            yield replace(whole, rows=Rows.ONLY, select=partial(_same, rows))


def _same(rows: RowSet) -> RowSet:
    return rows
