"""A range of commits: what its answer needs, and its file actions one by one.

The range is read twice: once to learn whether it can be told at all, and once to tell it. Of
each pass, one line of one commit is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltacli.delta.actions import (
    BadAction,
    Json,
    Metadata,
    Protocol,
    parse_line,
    parse_metadata,
    parse_protocol,
)
from deltacli.delta.column_mapping import MODE
from deltacli.delta.engine import FileBatch
from deltacli.delta.features import check_readable
from deltacli.delta.paths import canonical_path
from deltacli.delta.properties import read_tolerantly
from deltacli.delta.schema import BadSchema, Struct, parse_schema
from deltacli.errors import CorruptLog
from deltacli.sharing.needs import needs_of
from deltacli.sharing.server.explain import explained, strangers
from deltacli.sharing.server.failures import invalid, unsupported
from deltacli.sharing.server.history import History
from deltacli.sharing.server.rows import FileRow, is_odd, row_of, string_pairs
from deltacli.sharing.server.sieve import Filter, Partitions
from deltacli.sharing.server.tables import SharedTable

_FILES = ("add", "remove", "cdc")


@dataclass(frozen=True)
class Shape:
    """A table's definition from one version on."""

    version: int
    metadata: Metadata
    schema: Struct

    @property
    def partitions(self) -> Partitions:
        mode = self.metadata.configuration.get(MODE, "none").lower()
        columns = self.metadata.partition_columns
        return Partitions(self.schema, columns, is_mapped=mode != "none")

    @property
    def records_changes(self) -> bool:
        return bool(read_tolerantly(self.metadata.configuration, "delta.enableChangeDataFeed", []))


@dataclass
class Survey:
    """What the first pass over a range learns.

    `shapes` are ascending and begin with that of the range's first version; `with_feed` are
    the versions that wrote change data, `without_change` those that rewrote rows as they
    were; `incomplete` the canonical paths of removed files whose commits do not tell their
    partition values or sizes.
    """

    shapes: list[Shape]
    needs: set[str] = field(default_factory=set)
    with_feed: set[int] = field(default_factory=set)
    without_change: set[int] = field(default_factory=set)
    incomplete: dict[str, Json | None] = field(default_factory=dict)
    filters: dict[int, Filter] = field(default_factory=dict)
    has_vectors: bool = False
    has_strangers: bool = False
    protocol: Protocol | None = None

    def shape_at(self, version: int) -> Shape:
        return next(one for one in reversed(self.shapes) if one.version <= version)


@dataclass
class Told:
    """What the files of one commit that are told need."""

    has_vectors: bool = False
    has_strangers: bool = False
    incomplete: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Range:
    """The commits `first` to `last` of a table, for one kind of answer."""

    history: History
    first: int
    last: int
    is_feed: bool

    @property
    def table(self) -> SharedTable:
        return self.history.table

    def survey(self) -> Survey:
        """The first pass. Raises Failure if the range cannot be told."""
        found = Survey([self._first_shape()])
        with explained(self.table.name):
            for version in range(self.first, self.last + 1):
                self._survey_commit(version, found)
            for shape in found.shapes:
                found.needs |= self.needs_of(shape, found)
                if self.table.entry.partition_filter is not None:
                    text = self.table.entry.partition_filter
                    found.filters[shape.version] = Filter(text, shape.partitions)
            if found.incomplete:
                self._complete(found)
        if found.has_strangers:
            raise strangers()
        if self.is_feed:
            self._check_recorded(found)
        return found

    def needs_of(self, shape: Shape, found: Survey) -> frozenset[str]:
        """What a client must know to read the range's files by a definition."""
        protocol = found.protocol or self.history.newest.snapshot.protocol
        return needs_of(protocol, shape.metadata, shape.schema, has_vectors=found.has_vectors)

    def _first_shape(self) -> Shape:
        start = self.table.at(self.first)
        return Shape(self.first, start.snapshot.metadata, start.schema)

    def _check_recorded(self, found: Survey) -> None:
        for shape in found.shapes:
            if not shape.records_changes:
                raise invalid(
                    f"Error getting change data for range [{self.first}, {self.last}] as change "
                    f"data was not recorded for version [{shape.version}]"
                )

    def _survey_commit(self, version: int, found: Survey) -> None:
        # Change data files stand for all that a commit added and removed.
        feed: Told | None = None
        plain = Told()
        for key, body in self._actions(version):
            if key == "protocol":
                protocol = parse_protocol(body)
                check_readable(protocol)
                found.protocol = protocol
            elif key == "metaData":
                metadata = parse_metadata(body)
                if version > self.first:
                    found.shapes.append(Shape(version, metadata, _schema_of(metadata)))
            elif key == "commitInfo":
                if _rewrites_only(body):
                    found.without_change.add(version)
            elif key in _FILES and self._counts(key, body):
                if key == "cdc":
                    feed = feed or Told()
                self._survey_file(key, body, found, feed if key == "cdc" and feed else plain)
        told = plain
        if feed is not None:
            found.with_feed.add(version)
            told = feed
        elif self.is_feed and version in found.without_change:
            told = Told()
        found.has_vectors = found.has_vectors or told.has_vectors
        found.has_strangers = found.has_strangers or told.has_strangers
        found.incomplete.update(dict.fromkeys(told.incomplete))

    def _counts(self, key: str, body: Json) -> bool:
        """Whether a file action belongs into the answer, as far as it can tell itself."""
        if key == "cdc":
            return self.is_feed
        return body.get("dataChange", True) is not False

    def _survey_file(self, key: str, body: Json, found: Survey, told: Told) -> None:
        path = _path_of(body)
        vector = body.get("deletionVector")
        told.has_vectors = told.has_vectors or bool(vector)
        odd = [path] if is_odd(path) else []
        if self.table.has_strangers(odd, [vector] if vector else []):
            told.has_strangers = True
        columns = found.shapes[-1].metadata.partition_columns
        has_values = body.get("partitionValues") or not columns
        if key == "remove" and (not has_values or type(body.get("size")) is not int):
            told.incomplete.append(canonical_path(path))

    def _complete(self, found: Survey) -> None:
        """Find the adds of removed files whose commits do not tell enough (R-13)."""
        for version in range(self.first, self.last + 1):
            for key, body in self._actions(version):
                if key == "add" and canonical_path(_path_of(body)) in found.incomplete:
                    found.incomplete[canonical_path(_path_of(body))] = body
        left = [path for path, body in found.incomplete.items() if body is None]
        if left and self.first > 0 and self.history.rebuildable.get(self.first - 1):
            before = self.table.at_any(self.first - 1)
            wanted = set(left)
            for item in before.snapshot.files("add", ("path", "partitionValues", "size")):
                bodies = item.columns.to_pylist() if isinstance(item, FileBatch) else (item,)
                for body in bodies:
                    path = canonical_path(body["path"])
                    if path in wanted:
                        found.incomplete[path] = body
        if any(body is None for body in found.incomplete.values()):
            raise unsupported(
                "a commit of the range removed files without their partition values and sizes, "
                "and the log does not tell them any more"
            )

    def changes(self, found: Survey, since: tuple[int, int]) -> Iterator[Change]:
        """The second pass: the file actions that count, from a place in the range on."""
        for version in range(max(self.first, since[0]), self.last + 1):
            if self.is_feed and version in found.without_change - found.with_feed:
                continue
            shape = found.shape_at(version)
            keys = shape.partitions.keys.values()
            allowed = found.filters.get(shape.version)
            only_feed = self.is_feed and version in found.with_feed
            with explained(self.table.name):
                for index, (key, body) in enumerate(self._actions(version)):
                    if (version, index) < since or key not in _FILES:
                        continue
                    if not self._counts(key, body) or (only_feed and key != "cdc"):
                        continue
                    known = found.incomplete.get(canonical_path(_path_of(body)))
                    if key == "remove" and known is not None:
                        body = {
                            **body,
                            "partitionValues": known.get("partitionValues"),
                            "size": known.get("size"),
                        }
                    # A file of the time before has the partition columns of that time.
                    names = string_pairs(body.get("partitionValues")) or keys
                    row = row_of(body, {key: key for key in names})
                    if allowed is None or allowed.shares(row.partition):
                        yield Change(version, index, key, row, body)

    def _actions(self, version: int) -> Iterator[tuple[str, Json]]:
        """The actions of a commit, one line at a time."""
        file = self.history.listing.commits[version]
        with self.table.store.open(file.path) as lines:
            for number, line in enumerate(lines):
                try:
                    action = parse_line(line)
                except BadAction as error:
                    raise CorruptLog(f"{file.path}, line {number + 1}: {error}") from None
                if action is not None:
                    yield action


@dataclass(frozen=True, slots=True)
class Change:
    """One file action of a range and its place in it."""

    version: int
    index: int
    key: str
    row: FileRow
    body: Mapping[str, Any]


def _path_of(body: Json) -> str:
    path = body.get("path")
    if not isinstance(path, str):
        raise CorruptLog("a file action has no path")
    return path


def _schema_of(metadata: Metadata) -> Struct:
    if metadata.schema_string is None:
        raise CorruptLog("the metadata has no schema")
    try:
        return parse_schema(metadata.schema_string)
    except BadSchema as error:
        raise CorruptLog(f"metaData.schemaString: {error}") from None


_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def _rewrites_only(commit_info: Json) -> bool:
    """Whether a MERGE says that it changed no row, though it wrote files anew."""
    metrics = commit_info.get("operationMetrics")
    if commit_info.get("operation") != "MERGE" or not isinstance(metrics, Mapping):
        return False
    return all(str(metrics.get(name)) == "0" for name in _MERGED)
