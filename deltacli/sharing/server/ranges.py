"""Answers about a range of commits: data changes for streams, and the change data feed.

The range is read twice: once to learn what its answer needs, and whether it can be given
at all, and once to stream it. Of each pass, one line of one commit is held.
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
from deltacli.delta.engine import FileBatch
from deltacli.delta.features import check_readable
from deltacli.delta.paths import canonical_path
from deltacli.delta.properties import read_tolerantly
from deltacli.delta.schema import BadSchema, Struct, parse_schema
from deltacli.errors import CorruptLog
from deltacli.sharing.server.answers import (
    Answer,
    Asker,
    Tally,
    need_history,
    open_page,
    seal_page,
)
from deltacli.sharing.server.failures import invalid, unsupported
from deltacli.sharing.server.lines import FileLines, Stamp, end_line, metadata_line, protocol_line
from deltacli.sharing.server.needs import choose_format, needs_of
from deltacli.sharing.server.requests import Changes, Page, Query
from deltacli.sharing.server.rows import FileRow, is_odd, row_of
from deltacli.sharing.server.sieve import Filter, Partitions
from deltacli.sharing.server.tables import SharedTable, Version, explained, strangers

_FILES = ("add", "remove", "cdc")


@dataclass(frozen=True)
class Shape:
    """A table's definition from one version on."""

    version: int
    metadata: Metadata
    schema: Struct

    @property
    def partitions(self) -> Partitions:
        mode = self.metadata.configuration.get("delta.columnMapping.mode", "none").lower()
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
    has_vectors: bool = False
    has_strangers: bool = False
    protocol: Protocol | None = None

    def shape_at(self, version: int) -> Shape:
        return next(one for one in reversed(self.shapes) if one.version <= version)


@dataclass(frozen=True)
class Range:
    """The commits `first` to `last` of a table, for one kind of answer."""

    table: SharedTable
    newest: Version
    first: int
    last: int
    is_feed: bool

    def survey(self) -> Survey:
        """The first pass. Raises Failure if the range cannot be told."""
        found = Survey([self._first_shape()])
        with explained(self.table.name):
            for version in range(self.first, self.last + 1):
                self._survey_commit(version, found)
            for shape in found.shapes:
                found.needs |= needs_of(
                    found.protocol or self.newest.snapshot.protocol,
                    shape.metadata,
                    shape.schema,
                    has_vectors=found.has_vectors,
                )
            if found.incomplete:
                self._complete(found)
        if found.has_strangers:
            raise strangers()
        if self.is_feed:
            self._check_recorded(found)
        return found

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
        feed = False
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
                feed = feed or key == "cdc"
                self._survey_file(key, body, found)
        if feed:
            found.with_feed.add(version)

    def _counts(self, key: str, body: Json) -> bool:
        """Whether a file action belongs into the answer, as far as it can tell itself."""
        if key == "cdc":
            return self.is_feed
        return body.get("dataChange", True) is not False

    def _survey_file(self, key: str, body: Json, found: Survey) -> None:
        path = _path_of(body)
        vector = body.get("deletionVector")
        found.has_vectors = found.has_vectors or bool(vector)
        odd = [path] if is_odd(path) else []
        if self.table.has_strangers(odd, [vector] if vector else []):
            found.has_strangers = True
        columns = found.shapes[-1].metadata.partition_columns
        told = body.get("partitionValues") or not columns
        if key == "remove" and (not told or type(body.get("size")) is not int):
            found.incomplete[canonical_path(path)] = None

    def _complete(self, found: Survey) -> None:
        """Find the adds of removed files whose commits do not tell enough (R-13)."""
        for version in range(self.first, self.last + 1):
            for key, body in self._actions(version):
                if key == "add" and canonical_path(_path_of(body)) in found.incomplete:
                    found.incomplete[canonical_path(_path_of(body))] = body
        left = [path for path, body in found.incomplete.items() if body is None]
        if left and self.first > 0 and self.newest.rebuildable.get(self.first - 1):
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
        filters: dict[int, Filter | None] = {}
        for version in range(max(self.first, since[0]), self.last + 1):
            if self.is_feed and version in found.without_change - found.with_feed:
                continue
            shape = found.shape_at(version)
            if shape.version not in filters:
                text = self.table.entry.partition_filter
                with explained(self.table.name):
                    filters[shape.version] = Filter(text, shape.partitions) if text else None
            names = {key: key for key in shape.partitions.keys.values()}
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
                            "partitionValues": dict(known.get("partitionValues") or {}),
                            "size": known.get("size"),
                        }
                    row = row_of(body, names)
                    allowed = filters[shape.version]
                    if allowed is None or allowed.shares(row.partition):
                        yield Change(version, index, key, row, body)

    def _actions(self, version: int) -> Iterator[tuple[str, Json]]:
        """The actions of a commit, one line at a time."""
        file = self.newest.listing.commits[version]
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


def answer_range(table: SharedTable, query: Query, asker: Asker) -> Answer:
    """The data changes from a version on: what a stream reads."""
    need_history(table)
    newest = table.newest()
    first, last = query.starting_version or 0, query.ending_version
    table.check_shared(first)
    if first > newest.number:
        raise invalid(f"startingVersion {first} is after the latest version {newest.number}")
    if last is not None and last > newest.number:
        raise invalid("End version cannot be greater than the latest version")
    place = _checked(table, newest, first, newest.number if last is None else last, is_feed=False)
    return _answer(place, asker, query.page, query.digest(), tells_history=True)


def answer_changes(table: SharedTable, request: Changes, asker: Asker) -> Answer:
    """The change data feed of a range of versions or times."""
    need_history(table, "change data feed")
    newest = table.newest()
    if not newest.has_changes:
        raise invalid(f"cdf is not enabled on table {table.name}")
    first, last = _bounds(newest, request)
    if first < table.entry.start_version:
        raise invalid(f"You can only query table changes since version {table.entry.start_version}")
    if first > newest.number:
        raise invalid(f"the starting version {first} is after the latest version {newest.number}")
    if first > last:
        raise invalid(f"CDF range from start {first} to end {last} was invalid")
    place = _checked(table, newest, first, last, is_feed=True)
    digest = request.digest()
    return _answer(place, asker, request.page, digest, tells_history=request.historical_metadata)


def _bounds(newest: Version, request: Changes) -> tuple[int, int]:
    """First and last version, the last never after the newest."""
    first, last = request.starting_version, request.ending_version
    commits = newest.shared_commits
    if first is None:
        found = newest.first_from(request.starting_ms or 0, commits)
        if found is None:
            raise invalid("the startingTimestamp is after the last commit")
        first = found
    if request.ending_ms is not None:
        last = newest.last_until(request.ending_ms, commits)
        if last is None:
            raise invalid("the endingTimestamp is before the first shared commit")
    return first, newest.number if last is None else min(last, newest.number)


def _checked(table: SharedTable, newest: Version, first: int, last: int, *, is_feed: bool) -> Range:
    """The range, if its commits and its beginning are still there. Raises Failure."""
    commits = newest.listing.commits
    gone = next((one for one in range(first, last + 1) if one not in commits), None)
    if gone is not None or not newest.rebuildable.get(first):
        gone = first if gone is None else gone
        raise invalid(f"version {gone} is not available any more; {newest.oldest_text}")
    return Range(table, newest, first, last, is_feed)


def _answer(place: Range, asker: Asker, page: Page, digest: str, *, tells_history: bool) -> Answer:
    since = (place.first, -1)
    if page.token:
        pinned = open_page(asker, place.table, page.token, digest)
        # A commit that came meanwhile must not lengthen the range.
        place = Range(place.table, place.newest, pinned["first"], pinned["last"], place.is_feed)
        since = (pinned["since"][0], pinned["since"][1])
    survey = place.survey()
    needs = frozenset(survey.needs)
    response_format = choose_format(
        asker.capabilities, needs, may_get_vectors=place.newest.may_get_vectors
    )
    tally = Tally()
    plan = _Plan(place, survey, needs, asker, page, digest, response_format, tells_history)
    return Answer(place.first, response_format, plan.lines(tally, since), plan.has_end, tally=tally)


@dataclass(frozen=True)
class _Plan:
    """A range's answer, decided and checked."""

    range: Range
    survey: Survey
    needs: frozenset[str]
    asker: Asker
    page: Page
    digest: str
    response_format: str
    tells_history: bool

    @property
    def has_end(self) -> bool:
        return self.page.asks or self.asker.capabilities.wants_end

    def lines(self, tally: Tally, since: tuple[int, int]) -> Iterator[bytes]:
        table, newest = self.range.table, self.range.newest
        files = FileLines(
            table, self.asker.links(table), self.response_format, id_hash=self.asker.id_hash
        )
        yield protocol_line(self.response_format, self.needs)
        first, *later = self.survey.shapes
        if self.tells_history:
            yield self._metadata(first)
        else:
            snapshot = newest.snapshot
            yield self._metadata(Shape(newest.number, snapshot.metadata, newest.schema))
            later = []
        most = self.asker.config.page_size
        size = min(self.page.max_files or most, most)
        is_paged = self.page.max_files is not None or self.page.token is not None
        stamp = Stamp(-1, None)
        page_token = None
        later = [shape for shape in later if (shape.version, -1) >= since]
        for change in self.range.changes(self.survey, since):
            while later and later[0].version <= change.version:
                yield self._metadata(later.pop(0))
            if is_paged and tally.files == size:
                page_token = self._page_token(change)
                break
            if stamp.version != change.version:
                stamp = Stamp(change.version, newest.time_of(change.version))
            tally.files += 1
            tally.bytes += change.row.size
            yield files.change(change.key, change.row, stamp, change.body)
        if page_token is None:
            yield from map(self._metadata, later)
        if self.has_end:
            yield end_line(page_token=page_token, expires_ms=files.expires_ms)

    def _metadata(self, shape: Shape) -> bytes:
        entry = self.range.table.entry
        return metadata_line(
            self.response_format,
            shape.metadata,
            shape.schema,
            self.needs,
            has_changes=shape.records_changes and entry.history_shared and entry.change_data,
            version=shape.version,
        )

    def _page_token(self, upcoming: Change) -> str:
        return seal_page(
            self.asker,
            self.range.table,
            self.digest,
            {
                "first": self.range.first,
                "last": self.range.last,
                "since": [upcoming.version, upcoming.index],
            },
        )
