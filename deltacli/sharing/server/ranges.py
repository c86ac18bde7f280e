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
    other_table,
    seal_page,
)
from deltacli.sharing.server.failures import invalid, unsupported
from deltacli.sharing.server.lines import FileLines, Stamp, end_line, metadata_line, protocol_line
from deltacli.sharing.server.needs import choose_format, needs_of
from deltacli.sharing.server.requests import Changes, Page, Query
from deltacli.sharing.server.rows import FileRow, is_odd, row_of, string_pairs
from deltacli.sharing.server.sieve import Filter, Partitions
from deltacli.sharing.server.tables import History, SharedTable, explained, strangers

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


def answer_range(table: SharedTable, query: Query, asker: Asker) -> Answer:
    """The data changes from a version on: what a stream reads."""
    need_history(table)
    history = table.history()
    newest = history.newest
    first, last = query.starting_version or 0, query.ending_version
    table.check_shared(first)
    if first > newest.number:
        raise invalid(f"startingVersion {first} is after the latest version {newest.number}")
    if last is not None and last > newest.number:
        raise invalid("End version cannot be greater than the latest version")
    last = newest.number if last is None else last
    pinned = _pinned(table, query.page, query.digest(), asker)
    place = _checked(history, first, last, pinned, is_feed=False)
    return _answer(place, pinned, asker, query.page, query.digest(), tells_history=True)


def answer_changes(table: SharedTable, request: Changes, asker: Asker) -> Answer:
    """The change data feed of a range of versions or times."""
    need_history(table, "change data feed")
    history = table.history()
    newest = history.newest
    pinned = _pinned(table, request.page, request.digest(), asker)
    if not newest.has_changes and pinned is None:
        raise invalid(f"cdf is not enabled on table {table.name}")
    first, last = _bounds(history, request)
    if first < table.entry.start_version:
        raise invalid(f"You can only query table changes since version {table.entry.start_version}")
    if first > newest.number:
        raise invalid(f"the starting version {first} is after the latest version {newest.number}")
    if first > last:
        raise invalid(f"CDF range from start {first} to end {last} was invalid")
    place = _checked(history, first, last, pinned, is_feed=True)
    return _answer(
        place,
        pinned,
        asker,
        request.page,
        request.digest(),
        tells_history=request.historical_metadata,
    )


def _pinned(table: SharedTable, page: Page, digest: str, asker: Asker) -> Pinned | None:
    """What the first page has settled for all later ones."""
    if not page.token:
        return None
    body = open_page(asker, table, page.token, digest)
    since = (body["since"][0], body["since"][1])
    return Pinned(body["first"], body["last"], body["head"], body["format"], body["tableId"], since)


def _bounds(history: History, request: Changes) -> tuple[int, int]:
    """First and last version, the last never after the newest."""
    first, last = request.starting_version, request.ending_version
    newest = history.newest.number
    if first is None:
        first = history.first_from(request.starting_ms or 0)
    if request.ending_ms is not None:
        last = history.last_until(request.ending_ms)
        if last is None:
            raise invalid("the endingTimestamp is before the first commit")
    return first, newest if last is None else min(last, newest)


@dataclass(frozen=True, slots=True)
class Pinned:
    """What all pages of an answer have in common, and where the next one begins.

    `head` is the version whose definition stands first. Commits that come meanwhile change
    none of it.
    """

    first: int
    last: int
    head: int
    response_format: str
    table_id: str
    since: tuple[int, int]


def _checked(
    history: History, first: int, last: int, pinned: Pinned | None, *, is_feed: bool
) -> Range:
    """The range, if its commits and its beginning are still there. Raises Failure."""
    if pinned is not None:
        first, last = pinned.first, pinned.last
    commits = history.listing.commits
    gone = next((one for one in range(first, last + 1) if one not in commits), None)
    if gone is not None or not history.rebuildable.get(first):
        gone = first if gone is None else gone
        raise invalid(f"version {gone} is not available any more; {history.oldest_text}")
    return Range(history, first, last, is_feed)


def _answer(
    place: Range,
    pinned: Pinned | None,
    asker: Asker,
    page: Page,
    digest: str,
    *,
    tells_history: bool,
) -> Answer:
    survey = place.survey()
    newest = place.history.newest
    head = survey.shapes[0]
    table_id = head.metadata.id
    if pinned is not None and pinned.table_id != table_id:
        raise other_table()
    if not tells_history:
        version = newest if pinned is None else place.table.at(pinned.head)
        head = Shape(version.number, version.snapshot.metadata, version.schema)
        # The files are read by this definition.
        survey.needs |= place.needs_of(head, survey)
    needs = frozenset(survey.needs)
    response_format = choose_format(
        asker.capabilities,
        needs,
        may_get_vectors=newest.may_get_vectors,
        pinned=pinned.response_format if pinned else None,
    )
    if pinned is None:
        start = (place.first, -1)
        pinned = Pinned(place.first, place.last, head.version, response_format, table_id, start)
    tally = Tally()
    later = survey.shapes[1:] if tells_history else []
    plan = _Plan(place, survey, pinned, head, later, needs, asker, page, digest)
    return Answer(
        place.first,
        response_format,
        plan.lines(tally),
        plan.has_end,
        is_heavy=True,
        tally=tally,
    )


@dataclass(frozen=True)
class _Plan:
    """A range's answer, decided and checked."""

    range: Range
    survey: Survey
    pinned: Pinned
    head: Shape
    later: list[Shape]
    needs: frozenset[str]
    asker: Asker
    page: Page
    digest: str

    @property
    def has_end(self) -> bool:
        return self.page.asks or self.asker.capabilities.wants_end

    def lines(self, tally: Tally) -> Iterator[bytes]:
        table, history = self.range.table, self.range.history
        since, response_format = self.pinned.since, self.pinned.response_format
        files = FileLines(
            table, self.asker.links(table), response_format, id_hash=self.asker.id_hash
        )
        has_changes = any(map(self._has_changes, (self.head, *self.survey.shapes)))
        yield protocol_line(response_format, self.needs, has_changes=has_changes)
        yield self._metadata(self.head)
        most = self.asker.config.page_size
        size = min(self.page.max_files or most, most)
        is_paged = self.page.max_files is not None or self.page.token is not None
        stamp = Stamp(-1, None)
        page_token = None
        later = [shape for shape in self.later if (shape.version, -1) >= since]
        for change in self.range.changes(self.survey, since):
            tally.check()
            while later and later[0].version <= change.version:
                yield self._metadata(later.pop(0))
            if is_paged and tally.files == size:
                page_token = self._page_token(change)
                break
            if stamp.version != change.version:
                stamp = Stamp(change.version, history.time_of(change.version))
            tally.files += 1
            tally.bytes += change.row.size
            yield files.change(change.key, change.row, stamp, change.body)
        if page_token is None:
            yield from map(self._metadata, later)
        if self.has_end:
            yield end_line(page_token=page_token, expires_ms=files.expires_ms)

    def _has_changes(self, shape: Shape) -> bool:
        entry = self.range.table.entry
        return shape.records_changes and entry.history_shared and entry.change_data

    def _metadata(self, shape: Shape) -> bytes:
        return metadata_line(
            self.pinned.response_format,
            shape.metadata,
            shape.schema,
            self.needs,
            has_changes=self._has_changes(shape),
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
                "head": self.pinned.head,
                "format": self.pinned.response_format,
                "tableId": self.pinned.table_id,
                "since": [upcoming.version, upcoming.index],
            },
        )
