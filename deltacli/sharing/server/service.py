"""The server without its sockets: who may see what, and which answer a request gets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltacli.errors import DeltaCliError
from deltacli.sharing.capabilities import DELTA, PARQUET, parse_capabilities
from deltacli.sharing.names import same_name
from deltacli.sharing.server.answers import (
    Answer,
    Asker,
    answer_metadata,
    answer_query,
    opened,
    table_version,
)
from deltacli.sharing.server.catalog import Catalog, Share, TableName, build_catalog
from deltacli.sharing.server.config import Config, TableEntry
from deltacli.sharing.server.failures import invalid, malformed, missing, unauthenticated
from deltacli.sharing.server.links import FileGrant, open_link, place_id, void_link
from deltacli.sharing.server.ranges import answer_changes, answer_range
from deltacli.sharing.server.recipients import (
    EVERY_SHARE,
    Recipient,
    Recipients,
    RecipientState,
    Token,
    kept_token,
)
from deltacli.sharing.server.requests import (
    page_size_parameter,
    parse_changes,
    parse_metadata_request,
    parse_query,
    time_parameter,
)
from deltacli.sharing.server.rows import Shelf
from deltacli.sharing.server.seals import Seals
from deltacli.sharing.server.tables import SharedTable, Tables
from deltacli.sharing.server.telemetry import report

PAGE = 500
_LIST = "list"
_TOKEN_MS = 3 * 86_400_000
# How long a new table in a shared folder may stay unseen.
_LOOK_SECONDS = 5.0
DEFAULT_RECIPIENT = "default"


class Access:
    """The recipients of a server: those of its state, and what its configuration adds."""

    def __init__(self, state: RecipientState | None, more: Sequence[Recipient] = ()):
        self._state = state
        self._more = tuple(more)
        self._merged: tuple[Recipients, Recipients] | None = None
        self._last: Recipients | None = None
        self._complaint: str | None = None

    def current(self) -> Recipients:
        kept = self._kept()
        if self._merged is None or self._merged[0] is not kept:
            self._merged = kept, Recipients((*kept.known, *self._more))
        return self._merged[1]

    def _kept(self) -> Recipients:
        """Those of the state; while it cannot be read, those that were known last."""
        if self._state is None:
            return _NOBODY
        try:
            self._last = self._state.current()
            self._complaint = None
        except DeltaCliError as error:
            if self._last is None:
                raise
            if self._complaint != error.message:
                self._complaint = error.message
                report(f"error: the recipients stay as they were: {error.message}")
        return self._last


_NOBODY = Recipients()


def configured_recipients(config: Config, now_ms: int) -> list[Recipient]:
    """The one recipient of a reference server's configuration: its token opens everything."""
    if config.bearer_token is None:
        return []
    token = kept_token(config.bearer_token, now_ms, None)
    return [Recipient(DEFAULT_RECIPIENT, (EVERY_SHARE,), (token,), now_ms)]


@dataclass(frozen=True)
class Caller:
    """An authenticated recipient, and the token that was shown."""

    recipient: Recipient
    token: Token


class Service:
    """One configuration at work. Its methods block; they may be called from many threads."""

    def __init__(
        self,
        config: Config,
        access: Access,
        seals: Seals,
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ):
        self.config = config
        self.access = access
        self.seals = seals
        self.now_ms = clock
        shelf = Shelf(config.cache_bytes)
        self._tables = Tables(config.cached_tables, config.staleness_seconds, shelf)
        self._catalog = build_catalog(config)
        self._looked = time.monotonic()
        self._lock = threading.Lock()
        self._has_patterns = any(
            table.name is None
            for share in config.shares
            for schema in share.schemas
            for table in schema.tables
        )

    # -- who -----------------------------------------------------------------------------

    def authenticate(self, headers: Sequence[str]) -> Caller:
        """The recipient of a bearer token. Raises Failure."""
        scheme, _, secret = headers[0].strip().partition(" ") if len(headers) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not secret.strip():
            raise unauthenticated()
        found = self.access.current().of_token(secret.strip())
        if found is None:
            raise unauthenticated()
        recipient, token = found
        if not token.is_live(self.now_ms()):
            raise unauthenticated("the bearer token has expired")
        return Caller(recipient, token)

    # -- what ----------------------------------------------------------------------------

    def catalog(self, *, fresh: bool = False) -> Catalog:
        """The catalog; patterns are looked at again every few seconds, or when asked for."""
        if not self._has_patterns:
            return self._catalog
        asked = time.monotonic()
        with self._lock:
            if self._looked < (asked if fresh else asked - _LOOK_SECONDS):
                began = time.monotonic()
                self._catalog = build_catalog(self.config)
                self._looked = began
            return self._catalog

    def shares(self, caller: Caller, parameters: Mapping[str, str]) -> dict[str, Any]:
        items = [
            ((key,), _share_item(share))
            for key, share in self.catalog().shares.items()
            if caller.recipient.may_see(share.name)
        ]
        return self._page(items, ("shares",), caller, parameters)

    def share(self, caller: Caller, name: str) -> dict[str, Any]:
        return {"share": _share_item(self._share(caller, name))}

    def schemas(self, caller: Caller, name: str, parameters: Mapping[str, str]) -> dict[str, Any]:
        share = self._share(caller, name)
        items = [
            ((key,), {"name": schema.name, "share": share.name})
            for key, schema in share.schemas.items()
        ]
        return self._page(items, ("schemas", same_name(share.name)), caller, parameters)

    def tables(
        self, caller: Caller, name: str, schema_name: str | None, parameters: Mapping[str, str]
    ) -> dict[str, Any]:
        """The tables of a schema, or of all schemas of a share."""
        share = self._share(caller, name)
        scope: tuple[str, ...] = ("all-tables", same_name(share.name))
        schemas = share.schemas
        if schema_name is not None:
            key = same_name(schema_name)
            if key not in schemas:
                raise missing(f"there is no schema {schema_name} in share {share.name}")
            schemas = {key: schemas[key]}
            scope = ("tables", same_name(share.name), key)
        items = [
            ((schema_key, key), _table_item(share, schema.name, entry.name or "", entry.id))
            for schema_key, schema in schemas.items()
            for key, entry in schema.tables.items()
        ]
        return self._page(items, scope, caller, parameters)

    def _share(self, caller: Caller, name: str) -> Share:
        share = self.catalog().share(name)
        if share is None or not caller.recipient.may_see(share.name):
            raise missing(f"there is no share {name}")
        return share

    def _page(
        self,
        items: Iterable[tuple[tuple[str, ...], dict[str, Any]]],
        scope: tuple[str, ...],
        caller: Caller,
        parameters: Mapping[str, str],
    ) -> dict[str, Any]:
        """A page of a listing: what follows the last key that the token names."""
        size = page_size_parameter(parameters, PAGE)
        bound = {"recipient": caller.recipient.name, "scope": list(scope)}
        after: tuple[str, ...] = ()
        token = parameters.get("pageToken")
        if token:
            body = opened(self.seals, _LIST, token, "pageToken", bound, self.now_ms())
            after = tuple(body["after"])
        left = [(key, item) for key, item in items if not after or key > after]
        page = left[:size]
        answer: dict[str, Any] = {"items": [item for _, item in page]}
        if len(left) > size:
            last = page[-1][0] if page else after
            until = self.now_ms() + _TOKEN_MS
            answer["nextPageToken"] = self.seals.seal(
                _LIST, {**bound, "after": list(last), "until": until}
            )
        return answer

    # -- tables --------------------------------------------------------------------------

    def find(self, caller: Caller, share: str, schema: str, table: str) -> SharedTable:
        """A table that the recipient may read. Raises Failure."""
        if caller.recipient.may_see(share):
            found = self.catalog().table(share, schema, table) or self.catalog(fresh=True).table(
                share, schema, table
            )
            if found:
                return self._tables.of(*found)
        raise missing(f"there is no table {share}.{schema}.{table}")

    def open(self, name: TableName, entry: TableEntry) -> SharedTable:
        """A table of the catalog."""
        return self._tables.of(name, entry)

    def version(self, table: SharedTable, parameters: Mapping[str, str]) -> int:
        return table_version(table, time_parameter(parameters, "startingTimestamp"))

    def asker(
        self,
        caller: Caller,
        capabilities: Sequence[str],
        id_hash: str | None,
        base_url: Callable[[], str],
    ) -> Asker:
        """Raises Failure for headers that cannot be."""
        try:
            parsed = parse_capabilities(capabilities)
        except ValueError as error:
            raise malformed(str(error)) from None
        if id_hash is not None and id_hash.lower() not in (PARQUET, DELTA):
            raise invalid("the header fileidhash is neither parquet nor delta")
        return Asker(
            caller.recipient.name,
            parsed,
            self.config,
            self.seals,
            self.now_ms(),
            base_url,
            caller.token.id,
            id_hash.lower() if id_hash else None,
        )

    def metadata(
        self, find: Callable[[], SharedTable], parameters: Mapping[str, str], asker: Asker
    ) -> Answer:
        request = parse_metadata_request(parameters)
        return answer_metadata(find(), request, asker)

    def query(self, find: Callable[[], SharedTable], body: bytes, asker: Asker) -> Answer:
        request = parse_query(body)
        if request.starting_version is not None:
            return answer_range(find(), request, asker)
        return answer_query(find(), request, asker)

    def changes(
        self, find: Callable[[], SharedTable], parameters: Mapping[str, str], asker: Asker
    ) -> Answer:
        request = parse_changes(parameters)
        return answer_changes(find(), request, asker)

    # -- files ---------------------------------------------------------------------------

    def file(self, grant: str, called: str, query: str) -> tuple[FileGrant, SharedTable]:
        """The table of a file URL, if it still may be read. Raises Failure."""
        now_ms = self.now_ms()
        try:
            found = open_link(self.seals, grant, called, query, now_ms)
        except ValueError:
            raise void_link() from None
        recipient = self.access.current().live(found.recipient, found.token_id, now_ms)
        entry = self.catalog().table(found.share, found.schema, found.table)
        if entry is None or recipient is None or not recipient.may_see(found.share):
            raise void_link()
        table = self._tables.of(*entry)
        if place_id(table) != found.place_id:
            raise void_link()
        return found, table


def _share_item(share: Share) -> dict[str, Any]:
    return {"name": share.name} | ({"id": share.id} if share.id else {})


def _table_item(share: Share, schema: str, name: str, table_id: str | None) -> dict[str, Any]:
    item = {"name": name, "schema": schema, "share": share.name}
    item |= {"shareId": share.id} if share.id else {}
    return item | ({"id": table_id} if table_id else {})


def try_reload(load: Callable[[], Service]) -> Service | None:
    """A new service, or None with the reason told: then the old one goes on."""
    try:
        return load()
    except DeltaCliError as error:
        report(f"error: the new configuration is not used: {error.message}")
        if error.hint:
            report(f"hint: {error.hint}")
    except Exception as error:
        # Its text may have secrets in it.
        report(f"error: the new configuration is not used: {type(error).__name__}")
    return None
