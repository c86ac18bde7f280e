"""Data files by their footers, beside the log and the table's columns."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from deltacli.delta.column_mapping import ID
from deltacli.delta.data_files import DataColumn, DataFooter
from deltacli.delta.engine import Engine, FileBatch
from deltacli.delta.paths import file_location
from deltacli.delta.scan import Places
from deltacli.delta.schema import Array, DataType, Field, Map, Primitive, Struct
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.stats import num_records, stats_of_struct
from deltacli.delta.widening import type_named
from deltacli.validate.commits import Body
from deltacli.validate.definition import Definition, Path

_FILES_AT_ONCE = 1 << 15
_MOST_MATCHES = 64
# Types of which one is read as the other, as long as the values fit.
_ALIKE = (
    {"byte", "short", "integer"},
    {"string", "binary"},
    {"timestamp", "timestamp_ntz"},
)
_UNCHECKED = (
    "variant", "geometry", "geography", "interval", "void", "null", "char", "varchar",
    "string ", "timestamp_nanos", "timestamp_ntz_nanos",
)  # fmt: skip
_FIELDS = ("path", "partitionValues", "size", "stats", "stats_parsed", "deletionVector")


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf of the table: its own name, its type, and its id in files."""

    path: Path
    field: Field
    type: str
    file_id: int | None


@dataclass(frozen=True)
class TableColumns:
    """The table's leaves by the names that files have.

    `recorded` are type changes that any version's schema has recorded, by column.
    """

    definition: Definition
    recorded: frozenset[tuple[Path, str, str]] = frozenset()

    @cached_property
    def by_path(self) -> Mapping[Path, Column]:
        """By lower-case names; partition columns apart."""
        schema = self.definition.schema
        if schema is None:
            return {}
        own = self.definition.partition_columns
        kept = Struct(tuple(one for one in schema.fields if one.name not in own))
        return dict(self._leaves(kept, (), (), None))

    @cached_property
    def by_id(self) -> Mapping[int, Column]:
        if self.definition.mode != "id":
            return {}
        return {one.file_id: one for one in self.by_path.values() if one.file_id is not None}

    def _leaves(
        self, kind: DataType, path: Path, logical: Path, nearest: Field | None
    ) -> Iterator[tuple[Path, Column]]:
        if isinstance(kind, Struct):
            for one in kind.fields:
                name = one.physical_name if self.definition.is_mapped else one.name
                yield from self._leaves(one.type, (*path, name.lower()), (*logical, one.name), one)
        elif isinstance(kind, Array):
            yield from self._leaves(
                kind.element, (*path, "element"), (*logical, "element"), nearest
            )
        elif isinstance(kind, Map):
            for part, inner in (("key", kind.key), ("value", kind.value)):
                yield from self._leaves(inner, (*path, part), (*logical, part), nearest)
        elif isinstance(kind, Primitive) and nearest is not None:
            is_inside = logical[-1] != nearest.name
            number = nearest.metadata.get(ID)
            own = number if type(number) is int and not is_inside else None
            yield path, Column(logical, nearest, kind.name, own)

    @cached_property
    def tops(self) -> Mapping[str, Field]:
        """The columns at the top by the names that files have, partition columns apart."""
        schema, own = self.definition.schema, self.definition.partition_columns
        mapped = self.definition.is_mapped
        return {
            (one.physical_name if mapped else one.name).lower(): one
            for one in (schema.fields if schema else ())
            if one.name not in own
        }

    def of(self, column: DataColumn) -> Column | None:
        """The table's column that a file's column is read as."""
        if column.field_id is not None and self.by_id:
            return self.by_id.get(column.field_id)
        return self.by_path.get(tuple(one.lower() for one in column.path))

    @cached_property
    def _matches(self) -> dict[int, Match]:
        return {}

    def match(self, columns: tuple[DataColumn, ...]) -> Match:
        """How a file's columns fit; files with the very same columns are looked at once."""
        found = self._matches.get(id(columns))
        if found is None or found.columns is not columns:
            if len(self._matches) >= _MOST_MATCHES:
                self._matches.clear()
            found = self._matches[id(columns)] = Match(self, columns)
        return found


@dataclass(frozen=True)
class Match:
    """The columns of a file beside those of the table."""

    table: TableColumns
    columns: tuple[DataColumn, ...]

    @cached_property
    def pairs(self) -> list[tuple[DataColumn, Column]]:
        """The file's columns that are the table's."""
        pairs = ((one, self.table.of(one)) for one in self.columns)
        return [(one, own) for one, own in pairs if own is not None]

    @cached_property
    def top_names(self) -> frozenset[str]:
        return frozenset(one.path[0].lower() for one in self.columns)

    @cached_property
    def misfits(self) -> list[tuple[Column, str, str]]:
        """Columns of another type than the table's: which, its type in the file, and its own."""
        found = []
        for column, own in self.pairs:
            kind = type_named(own.type) or own.type
            alike = any(column.type in some and kind in some for some in _ALIKE)
            if column.type != kind and not alike and not kind.startswith(_UNCHECKED):
                found.append((own, column.type, kind))
        return found

    @cached_property
    def missing(self) -> list[str]:
        """The table's columns that must have values and are not there."""
        there = {own.path[0] for _, own in self.pairs}
        return [
            own.name
            for name, own in self.table.tops.items()
            if not own.nullable and name not in self.top_names and own.name not in there
        ]


@dataclass(frozen=True)
class DataFile:
    """A live file: its add, its footer, and what the table has."""

    add: Body
    footer: DataFooter
    table: TableColumns
    version: int

    file: None = None

    @property
    def path(self) -> str:
        path: str = self.add["path"]
        return path

    @property
    def definition(self) -> Definition:
        return self.table.definition

    @property
    def records(self) -> int | None:
        return records_of(self.add)

    @property
    def match(self) -> Match:
        return self.table.match(self.footer.columns)


@dataclass(frozen=True)
class ChangeFile:
    """A change data file of a retained commit."""

    path: str
    footer: DataFooter
    version: int

    file: None = None


def records_of(add: Body) -> int | None:
    text = add.get("stats")
    if isinstance(text, str) and text:
        return num_records(text)
    parsed = stats_of_struct(add.get("stats_parsed")) or {}
    records = parsed.get("numRecords")
    return records if type(records) is int else None


@dataclass(frozen=True)
class Sample:
    """Every file, or a share of them that is the same in each run."""

    part: int = 1
    of: int = 1

    def has(self, path: str) -> bool:
        code = zlib.crc32(path.encode("utf-8", "surrogatepass")) if self.of > 1 else 0
        return code % self.of < self.part


def live_adds(snapshot: Snapshot, sample: Sample) -> Iterator[Body]:
    """The chosen live files, with the fields that checks of files need."""
    for item in snapshot.files("add", _FIELDS):
        bodies = item.columns.to_pylist() if isinstance(item, FileBatch) else (dict(item),)
        yield from (body for body in bodies if sample.has(body["path"]))


@dataclass
class Footers:
    """Reads footers, block by block; what is told as missing by storage is told once more here."""

    snapshot: Snapshot
    engine: Callable[[], Engine]
    table: TableColumns
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def places(self) -> Places:
        return Places(self.snapshot.store, self.options)

    def of(
        self, adds: Iterable[Body], on_read: Callable[[int], None] | None = None
    ) -> Iterator[DataFile]:
        root = self.snapshot.store.location
        stream = iter(adds)
        count = 0
        while block := list(islice(stream, _FILES_AT_ONCE)):
            locations = [file_location(root, one["path"]) for one in block]
            footers = self.engine().read_footers(self.places, locations)
            for add, footer in zip(block, footers, strict=True):
                count += 1
                if on_read and count % 100 == 0:
                    on_read(count)
                yield DataFile(add, footer, self.table, self.snapshot.version)

    def of_changes(self, changes: Iterable[tuple[int, str]]) -> Iterator[ChangeFile]:
        root = self.snapshot.store.location
        stream = iter(changes)
        while block := list(islice(stream, _FILES_AT_ONCE)):
            locations = [file_location(root, path) for _, path in block]
            footers: Iterator[Any] = self.engine().read_footers(self.places, locations)
            for (version, path), footer in zip(block, footers, strict=True):
                yield ChangeFile(path, footer, version)
