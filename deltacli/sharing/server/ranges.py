"""Answers about a range of commits: data changes for streams, and the change data feed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deltacli.sharing.server.answers import (
    Answer,
    Asker,
    Reads,
    Tally,
    need_history,
    open_page,
    other_table,
    seal_page,
)
from deltacli.sharing.server.failures import invalid
from deltacli.sharing.server.formats import choose_format
from deltacli.sharing.server.history import History
from deltacli.sharing.server.lines import FileLines, Stamp, end_line, metadata_line, protocol_line
from deltacli.sharing.server.requests import Changes, Page, Query
from deltacli.sharing.server.survey import Change, Range, Shape, Survey
from deltacli.sharing.server.tables import SharedTable


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
        reads=Reads.LITTLE,
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
