"""A Delta Sharing server as a recipient sees it (seed: Delta Sharing Protocol)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from deltacli.delta import json_text
from deltacli.errors import NotFound
from deltacli.sharing.capabilities import DELTA, HEADER, PARQUET
from deltacli.sharing.client.address import TableAddress
from deltacli.sharing.client.answer import ID_HASH, Answer, Page, read_page, version_of
from deltacli.sharing.client.credentials import Authorization
from deltacli.sharing.client.failures import failure_of
from deltacli.sharing.client.http import BadAnswer, Http, Reply, Request
from deltacli.sharing.client.pages import followed
from deltacli.sharing.profile import Profile

# What is read here, or passed on as it is.
FEATURES = (
    "deletionvectors",
    "columnmapping",
    "timestampntz",
    "typewidening",
    "typewidening-preview",
    "varianttype",
    "varianttype-preview",
    "variantshredding",
    "variantshredding-preview",
    "geospatial",
)
BOTH = (DELTA, PARQUET)
# Bytes of a list, and of an answer about files.
_MOST_LIST, _MOST_ANSWER = 1 << 26, 1 << 36


@dataclass(frozen=True, slots=True)
class At:
    """A version, or the one at a time (ISO-8601 with its zone); the newest without either."""

    version: int | None = None
    timestamp: str | None = None


NEWEST = At()


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of a snapshot, or of the files added and removed from a version on."""

    at: At = NEWEST
    starting_version: int | None = None
    ending_version: int | None = None
    limit: int | None = None
    sql_hints: tuple[str, ...] = ()
    json_hint: str | None = None
    wants_refresh: bool = False
    refresh_token: str | None = None

    def body(self) -> dict[str, Any]:
        found = {
            "predicateHints": list(self.sql_hints) or None,
            "jsonPredicateHints": self.json_hint,
            "limitHint": self.limit,
            "version": self.at.version,
            "timestamp": self.at.timestamp,
            "startingVersion": self.starting_version,
            "endingVersion": self.ending_version,
            "includeRefreshToken": self.wants_refresh or None,
            "refreshToken": self.refresh_token,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Range:
    """The commits whose changes are asked for; from both ends, a version or a time."""

    start: At
    end: At = NEWEST
    with_history: bool = False

    def parameters(self) -> dict[str, Any]:
        found = {
            "startingVersion": self.start.version,
            "startingTimestamp": self.start.timestamp,
            "endingVersion": self.end.version,
            "endingTimestamp": self.end.timestamp,
            "includeHistoricalMetadata": "true" if self.with_history else None,
        }
        return {name: value for name, value in found.items() if value is not None}


class SharingServer:
    """Asks one server in the name of one recipient.

    `formats` are the response formats that are wanted; with a page size, answers about files
    come in pages.
    """

    def __init__(
        self,
        profile: Profile,
        http: Http,
        *,
        formats: Sequence[str] = BOTH,
        page_size: int | None = None,
    ):
        self.profile = profile
        self.http = http
        self._formats = tuple(formats)
        self._page_size = page_size
        self._authorization = Authorization(profile.credentials, http)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.profile, self.http, self._formats, self._page_size)

    # -- listings ------------------------------------------------------------------------

    def shares(self) -> Iterator[Mapping[str, Any]]:
        return self._items("/shares", "shares", ("name",))

    def schemas(self, share: str) -> Iterator[Mapping[str, Any]]:
        path = f"/shares/{quote(share, safe='')}/schemas"
        return self._items(path, f"share {share!r}", ("name", "share"))

    def tables(self, share: str, schema: str | None = None) -> Iterator[Mapping[str, Any]]:
        """The tables of a schema, or of a whole share."""
        fields = ("name", "schema", "share")
        base = f"/shares/{quote(share, safe='')}"
        if schema is not None:
            path = f"{base}/schemas/{quote(schema, safe='')}/tables"
            yield from self._items(path, f"schema {share}.{schema}", fields)
            return
        try:
            yield from self._items(f"{base}/all-tables", f"share {share!r}", fields)
        except NotFound:
            # Servers of the first years have no such list; if there is no share, this says so.
            for one in self.schemas(share):
                yield from self.tables(share, one["name"])

    def _items(self, path: str, asked: str, fields: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        def page(token: str | None) -> Mapping[str, Any]:
            query = f"?{urlencode({'pageToken': token})}" if token else ""
            return _page_of(self._ask("GET", path + query, asked))

        pages = followed(page(None), _token_of, page, f"the list of {asked}")
        for one, note in pages:
            for item in one.get("items") or ():
                if not isinstance(item, Mapping) or not all(
                    isinstance(item.get(name), str) for name in fields
                ):
                    raise BadAnswer(f"an item of the list of {asked} has no {' or '.join(fields)}")
                note()
                yield item

    # -- tables --------------------------------------------------------------------------

    def version(self, table: TableAddress, starting_timestamp: str | None = None) -> int:
        """The newest version, or the first one at or after a time."""
        query = ""
        if starting_timestamp is not None:
            query = f"?{urlencode({'startingTimestamp': starting_timestamp})}"
        asked = _asked(table)
        try:
            return version_of(self._ask("GET", f"{table.path}/version{query}", asked))
        except NotFound:
            if query:
                raise
            # Servers of the first years tell it this way only.
            reply = self._reply("HEAD", table.path, {}, None)
            if reply.status != 200 or "delta-table-version" not in reply.headers:
                raise
            return version_of(reply)

    def metadata(self, table: TableAddress, at: At = NEWEST) -> Page:
        """The head of a version. Servers of before 2026 tell it of the newest only."""
        if at.timestamp is not None:
            return self.query(table, Query(at, limit=0)).first
        path = f"{table.path}/metadata"
        if at.version is not None:
            path += f"?version={at.version}"
        page = read_page(self._ask("GET", path, _asked(table), self._capabilities))
        if at.version not in (None, page.version):
            # What it does not know, a server passes over in silence; a query it knows.
            return self.query(table, Query(at, limit=0)).first
        return page

    def query(self, table: TableAddress, query: Query) -> Answer:
        """The files of a version, or what was added and removed in some."""
        body = query.body()
        if self._page_size is not None:
            body["maxFiles"] = self._page_size

        def page(token: str | None) -> Page:
            content = {**body, "pageToken": token} if token else body
            if token:
                # What begins an answer cannot be asked again of a later page.
                content.pop("includeRefreshToken", None)
                content.pop("refreshToken", None)
            return read_page(
                self._ask(
                    "POST",
                    f"{table.path}/query",
                    _asked(table),
                    {**self._capabilities, "Content-Type": "application/json; charset=utf-8"},
                    json_text.dump(content),
                )
            )

        answer = Answer(page(None), page)
        if query.at.version not in (None, answer.version):
            raise BadAnswer(
                f"the server answers with version {answer.version} of {table}, "
                f"where {query.at.version} was asked"
            )
        return answer

    def changes(self, table: TableAddress, asked: Range) -> Answer:
        """The files that hold what commits changed."""
        values = asked.parameters()
        if self._page_size is not None:
            values["maxFiles"] = self._page_size

        def page(token: str | None) -> Page:
            query = urlencode({**values, "pageToken": token} if token else values)
            path = f"{table.path}/changes?{query}"
            return read_page(self._ask("GET", path, _asked(table), self._capabilities))

        return Answer(page(None), page)

    def asking_in(self, response_format: str | None) -> SharingServer:
        """The same, for one response format if there is one given."""
        if response_format is None:
            return self
        return SharingServer(
            self.profile, self.http, formats=(response_format,), page_size=self._page_size
        )

    @property
    def _capabilities(self) -> dict[str, str]:
        words = [f"responseformat={','.join(self._formats)}"]
        if DELTA in self._formats:
            words.append(f"readerfeatures={','.join(FEATURES)}")
        words.append("includeendstreamaction=true")
        return {HEADER: ";".join(words), ID_HASH: DELTA}

    # -- requests ------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        path: str,
        asked: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Reply:
        """The answer with status 200; any other raises."""
        reply = self._reply(method, path, headers or {}, body)
        if reply.status == 401 and self._authorization.forget():
            # The token may have been revoked before its time.
            reply = self._reply(method, path, headers or {}, body)
        if reply.status != 200:
            raise failure_of(reply, asked)
        return reply

    def _reply(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        own = {"Authorization": self._authorization.header(), "Accept-Encoding": "gzip"}
        url = self.profile.endpoint + path
        most = _MOST_ANSWER if HEADER in headers else _MOST_LIST
        return self.http.ask(Request(method, url, {**own, **headers}, body, most))


def _unpickled(
    profile: Profile, http: Http, formats: Sequence[str], size: int | None
) -> SharingServer:
    return SharingServer(profile, http, formats=formats, page_size=size)


def _asked(table: TableAddress) -> str:
    return f"table {str(table)!r}"


def _token_of(page: Mapping[str, Any]) -> str | None:
    return page.get("nextPageToken")


def _page_of(reply: Reply) -> Mapping[str, Any]:
    try:
        page: Any = json_text.load(reply.content.read())
    except ValueError as error:
        raise BadAnswer(f"the list is not JSON: {error}") from None
    if not isinstance(page, dict) or not isinstance(page.get("items") or [], list):
        raise BadAnswer("the list is not a JSON object with items")
    token = page.get("nextPageToken")
    if token is not None and not isinstance(token, str):
        raise BadAnswer("the list's nextPageToken is no text")
    return page
