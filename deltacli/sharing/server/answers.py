"""Answers about a table: version, metadata and the files of a snapshot.

Everything that can go wrong is found before the first line: the plan of an answer is made
whole, then its lines are streamed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.stats import num_records
from deltacli.sharing.capabilities import Capabilities
from deltacli.sharing.hints import Hints, read_hints
from deltacli.sharing.server.config import Config
from deltacli.sharing.server.failures import Failure, invalid
from deltacli.sharing.server.formats import choose_format
from deltacli.sharing.server.lines import (
    FileLines,
    Stamp,
    end_line,
    failed,
    metadata_line,
    protocol_line,
)
from deltacli.sharing.server.links import Links
from deltacli.sharing.server.requests import MetadataAt, Query
from deltacli.sharing.server.rows import FileRow
from deltacli.sharing.server.seals import Seals
from deltacli.sharing.server.sieve import Sieve
from deltacli.sharing.server.tables import SharedTable
from deltacli.sharing.server.versions import Version

_PAGE, _REFRESH = "page", "refresh"
_FIRST_CHUNK, _MOST_CHUNK = 1 << 13, 1 << 20


@dataclass(frozen=True)
class Asker:
    """Who asks, what the client can do, and what the server needs to answer."""

    recipient: str
    capabilities: Capabilities
    config: Config
    seals: Seals
    now_ms: int
    base_url: Callable[[], str]
    token_id: str = ""
    id_hash: str | None = None

    def links(self, table: SharedTable) -> Links:
        return Links(
            table,
            self.recipient,
            self.token_id,
            base_url=self.base_url,
            seals=self.seals,
            now_ms=self.now_ms,
            seconds=self.config.url_seconds,
        )


class Abandoned(Exception):
    """Nobody waits for the answer any more."""


@dataclass
class Tally:
    """What an answer has told so far. Another thread may say that nobody waits for it."""

    files: int = 0
    bytes: int = 0
    is_abandoned: bool = False

    def check(self) -> None:
        """Raise Abandoned as soon as it is of no use to go on."""
        if self.is_abandoned:
            raise Abandoned


class Reads(Enum):
    """What has to be read, and held, while the lines of an answer are made."""

    NOTHING = 0
    LITTLE = 1
    MUCH = 2


@dataclass(frozen=True)
class Answer:
    """A table's answer: the version of the header, the format, and lines still to be made."""

    version: int
    response_format: str
    lines: Iterable[bytes]
    has_end: bool = False
    hints: Hints | None = None
    reads: Reads = Reads.NOTHING
    tally: Tally = field(default_factory=Tally)


def need_history(table: SharedTable, what: str = "by version or timestamp") -> None:
    if not table.entry.history_shared:
        raise invalid(
            f"Reading table {what} is not supported because history sharing is not enabled on "
            f"table: {table.name}"
        )


def table_version(table: SharedTable, starting_ms: int | None) -> int:
    """The newest version, or the first one at or after a time."""
    newest = table.newest()
    newest.check_filter()
    if starting_ms is None:
        return newest.number
    need_history(table, "version by starting timestamp")
    found = table.history().first_from(starting_ms)
    table.check_shared(found)
    return found


def asked_version(table: SharedTable, version: int | None, timestamp_ms: int | None) -> Version:
    """The newest version, or the one that a request names."""
    if version is None and timestamp_ms is None:
        return table.newest()
    need_history(table)
    if version is None and timestamp_ms is not None:
        version = table.history().at_time(timestamp_ms)
    return table.at(version or 0)


def answer_metadata(table: SharedTable, request: MetadataAt, asker: Asker) -> Answer:
    version = asked_version(table, request.version, request.timestamp_ms)
    travels = request.version is not None or request.timestamp_ms is not None
    response_format = _format_of(version, asker)
    lines = list(_head(version, response_format, travels=travels))
    if asker.capabilities.wants_end:
        lines.append(end_line())
    return Answer(version.number, response_format, lines, asker.capabilities.wants_end)


def _format_of(version: Version, asker: Asker, pinned: str | None = None) -> str:
    chosen = choose_format(
        asker.capabilities,
        version.needs,
        may_get_vectors=version.may_get_vectors,
        pinned=pinned,
    )
    version.check_places()
    return chosen


def _head(version: Version, response_format: str, *, travels: bool) -> Iterator[bytes]:
    """The lines protocol and metaData: the same for every request about a version."""
    yield protocol_line(response_format, version.needs, has_changes=version.has_changes)
    yield metadata_line(
        response_format,
        version.snapshot.metadata,
        version.schema,
        version.needs,
        has_changes=version.has_changes,
        version=version.number if travels else None,
        size=version.sums.bytes,
        files=version.sums.files,
    )


def answer_query(table: SharedTable, query: Query, asker: Asker) -> Answer:
    """The files of a snapshot that may hold the rows a client wants."""
    page, pinned = query.page, None
    if page.token:
        pinned = open_page(asker, table, page.token, query.digest())
    elif page.refresh_token:
        pinned = _open_refresh(asker, table, page.refresh_token)
    version = (
        table.at(pinned["version"])
        if pinned
        else asked_version(table, query.version, query.timestamp_ms)
    )
    if pinned is not None and pinned["tableId"] != version.snapshot.metadata.id:
        raise other_table()
    response_format = _format_of(version, asker, (pinned or {}).get("format"))
    hints = _hints(query, version, asker.config)
    lines = FileLines(table, asker.links(table), response_format, id_hash=asker.id_hash)
    stamp = None
    if query.travels:
        stamp = Stamp(version.number, table.history().time_of(version.number))
    has_end = page.asks or asker.capabilities.wants_end
    plan = _Plan(version, query, asker, hints, lines, stamp, response_format, has_end)
    after = (pinned or {}).get("after") if page.token else None
    tally = Tally()
    streamed = plan.lines(tally, tuple(after) if after else None)
    reads = Reads.NOTHING if version.keep() else Reads.MUCH
    return Answer(version.number, response_format, streamed, has_end, hints, reads, tally)


def _hints(query: Query, version: Version, config: Config) -> Hints | None:
    if not query.sql_hints and query.json_hint is None:
        return None
    sql = query.sql_hints if config.sql_hints else ()
    tree = query.json_hint if config.json_hints else None
    return read_hints(sql, tree, version.schema)


@dataclass(frozen=True)
class _Plan:
    """A snapshot answer, decided and checked; only its lines are still to be made."""

    version: Version
    query: Query
    asker: Asker
    hints: Hints | None
    files: FileLines
    stamp: Stamp | None
    response_format: str
    has_end: bool

    def lines(self, tally: Tally, after: tuple[str, str] | None) -> Iterator[bytes]:
        yield from _head(self.version, self.response_format, travels=self.query.travels)
        page_token = None
        if self.query.page.max_files is None and self.query.page.token is None:
            rows = self._limited(self._wanted(tally))
        else:
            size = min(
                self.query.page.max_files or self.asker.config.page_size,
                self.asker.config.page_size,
            )
            # One more than the page has, to know whether there is another.
            found = heapq.nsmallest(
                size + 1,
                (
                    row
                    for row in self._wanted(tally)
                    if after is None or _place_in_order(row) > after
                ),
                key=_place_in_order,
            )
            if len(found) > size:
                found.pop()
                page_token = self._page_token(found[-1])
            rows = iter(found)
        for row in rows:
            tally.files += 1
            tally.bytes += row.size
            yield self.files.file(row, self.stamp)
        if self.has_end:
            refresh = self._refresh_token() if self.query.page.wants_refresh else None
            yield end_line(
                refresh_token=refresh, page_token=page_token, expires_ms=self.files.expires_ms
            )

    def _wanted(self, tally: Tally) -> Iterator[FileRow]:
        """The files that hints leave."""
        sieve = self._sieve()
        for row in self.version.rows():
            tally.check()
            if sieve is None or sieve.lets_through(row.partition, row.stats):
                yield row

    def _sieve(self) -> Sieve | None:
        if self.hints is None or not self.hints.conditions:
            return None
        return Sieve(
            self.hints.conditions,
            self.version.partitions,
            with_statistics=self.asker.config.hints_use_statistics,
        )

    def _limited(self, rows: Iterator[FileRow]) -> Iterator[FileRow]:
        """As many files as surely have the rows asked for; with hints nobody knows how many."""
        wanted = self.query.limit
        if wanted is None or self.query.sql_hints or self.query.json_hint is not None:
            yield from rows
            return
        if wanted == 0:
            return
        for row in rows:
            yield row
            deleted = json_text.load(row.vector).get("cardinality") if row.vector else 0
            if type(deleted) is int:
                stats = json_text.load(row.stats) if row.stats else None
                wanted -= max((num_records(stats) or 0) - deleted, 0)
            if wanted <= 0:
                return

    def _page_token(self, last: FileRow) -> str:
        return seal_page(
            self.asker,
            self.version.table,
            self.query.digest(),
            {
                "version": self.version.number,
                "format": self.response_format,
                "tableId": self.version.snapshot.metadata.id,
                "after": list(_place_in_order(last)),
            },
        )

    def _refresh_token(self) -> str:
        return self.asker.seals.seal(
            _REFRESH,
            {
                **_bound(self.asker, self.version.table),
                "version": self.version.number,
                "tableId": self.version.snapshot.metadata.id,
                "until": self.asker.now_ms + self.asker.config.refresh_token_ms,
            },
        )


def _place_in_order(row: FileRow) -> tuple[str, str]:
    """What files are sorted by where an answer has pages: the log has no order of its own."""
    return row.path, row.vector or ""


# -- tokens ------------------------------------------------------------------------------


def _bound(asker: Asker, table: SharedTable) -> dict[str, Any]:
    """Who may use a token, and for what."""
    return {"recipient": asker.recipient, "table": list(table.name.key)}


def seal_page(asker: Asker, table: SharedTable, digest: str, body: Mapping[str, Any]) -> str:
    """The token of the next page; it holds for this request only."""
    until = asker.now_ms + asker.config.page_token_ms
    return asker.seals.seal(
        _PAGE, {**_bound(asker, table), "asked": digest, "until": until, **body}
    )


def open_page(asker: Asker, table: SharedTable, token: str, digest: str) -> dict[str, Any]:
    body = opened(asker.seals, _PAGE, token, "pageToken", _bound(asker, table), asker.now_ms)
    if body["asked"] != digest:
        raise invalid("the pageToken belongs to a request with other parameters")
    return body


def other_table() -> Failure:
    """The table of a token is not there any more; one of the same name is."""
    return invalid("the table was made anew since; begin again without the token")


def _open_refresh(asker: Asker, table: SharedTable, token: str) -> dict[str, Any]:
    bound = _bound(asker, table)
    return opened(asker.seals, _REFRESH, token, "refreshToken", bound, asker.now_ms)


def opened(
    seals: Seals, purpose: str, token: str, name: str, bound: Mapping[str, Any], now_ms: int
) -> dict[str, Any]:
    """What a token of ours says. Raises Failure unless it is bound to this, and still good."""
    body = seals.open(purpose, token)
    if body is None or any(body.get(key) != value for key, value in bound.items()):
        raise invalid(f"the {name} is not valid")
    if body["until"] <= now_ms:
        raise invalid(f"the {name} has expired; begin again without it")
    return body


# -- pieces ------------------------------------------------------------------------------


def pieces(answer: Answer) -> Generator[bytes]:
    """The lines of an answer in pieces that grow: the first ones come at once.

    What goes wrong after the first piece is told by the last line, if there is one.
    """
    parts: list[bytes] = []
    size, most = 0, _FIRST_CHUNK
    has_begun = False
    try:
        for line in answer.lines:
            parts.append(line)
            size += len(line)
            if size >= most:
                yield b"".join(parts)
                has_begun = True
                parts, size, most = [], 0, min(2 * most, _MOST_CHUNK)
    except Failure as error:
        if not has_begun or not answer.has_end:
            raise
        parts.append(failed(error))
    if parts:
        yield b"".join(parts)
