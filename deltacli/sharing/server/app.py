"""The ASGI application: routes, who calls, limits, and answers as streams of lines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from deltacli.errors import DeltaCliError
from deltacli.sharing.capabilities import HEADER, answered
from deltacli.sharing.server.answers import Abandoned, Answer, Reads, pieces
from deltacli.sharing.server.catalog import TableName
from deltacli.sharing.server.downloads import Download, open_download
from deltacli.sharing.server.explain import explained, failure_of
from deltacli.sharing.server.failures import Failure, malformed, missing
from deltacli.sharing.server.http import (
    NDJSON,
    Exchange,
    Gone,
    Message,
    Receive,
    Request,
    Response,
    Send,
    failure_response,
    json_response,
    send_response,
)
from deltacli.sharing.server.limits import Guard, Portions, Turns
from deltacli.sharing.server.links import FILES, void_link
from deltacli.sharing.server.openapi import description
from deltacli.sharing.server.service import Caller, Service
from deltacli.sharing.server.telemetry import AuditLog, Metrics, audit_entry, report

T = TypeVar("T")

VERSION_HEADER = "delta-table-version"
_END_SECONDS = 2
_THREADS = min(32, 4 + 2 * (os.cpu_count() or 1))
# Lines are made by Python alone: more threads would only stand in each other's way.
_LINE_THREADS = 2
_HEAVY_ANSWERS = 6
MOST_HEADERS = 65_536


class SharingApp:
    """Serves one service, which may be replaced by another while it runs."""

    def __init__(
        self,
        service: Service,
        base_url: Callable[[Request], str],
        audit: AuditLog,
        *,
        is_debug: bool = False,
    ):
        self.service = service
        self.metrics = Metrics()
        self.audit = audit
        self._base_url = base_url
        self._guard = Guard(service.config.limits)
        self._is_debug = is_debug
        # What waits for storage, what makes lines, and files do not wait for each other. Of
        # the first two, one recipient's requests leave half of the threads to others.
        self._plans = Turns(_THREADS, "plans")
        self._lines = Turns(_LINE_THREADS, "lines")
        self._quick_pool = ThreadPoolExecutor(4, "quick")
        self._file_pool = ThreadPoolExecutor(_THREADS, "files")
        # Answers whose rows are not in memory hold more than others.
        self._heavy = asyncio.Semaphore(_HEAVY_ANSWERS)
        self._heavy_of_one = Portions(_HEAVY_ANSWERS // 2)

    def replace(self, service: Service) -> None:
        """Go on with another configuration; answers that have begun are finished."""
        self.service = service
        self._guard.limits = service.config.limits

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _lifespan(receive, send)
            return
        request = Request(scope, receive)
        request.facts |= {"requestId": os.urandom(8).hex(), "client": request.client}
        exchange = Exchange(send)
        began = time.monotonic()
        self.metrics.in_flight += 1
        try:
            await self._answer(request, exchange)
        except Gone:
            request.facts.setdefault("status", exchange.status or 499)
        except asyncio.CancelledError:
            report("note: an answer was broken off, for the server ends")
        finally:
            request.close()
            self.metrics.in_flight -= 1
            self._account(request, exchange, time.monotonic() - began)

    async def _answer(self, request: Request, exchange: Exchange) -> None:
        """Answer, or give the reason why not; nothing is raised but that the client is gone."""
        try:
            async with contextlib.AsyncExitStack() as stack:
                await self._route(request, exchange, stack)
            return
        except DeltaCliError as error:
            known = request.facts
            name = TableName(*(known.get(one, "") for one in ("share", "schema", "table")))
            failure = failure_of(error, name)
            self._report(request, error)
        except Failure as error:
            failure = error
            cause = error.__cause__
            if cause is not None:
                self._report(request, cause)
        except TimeoutError:
            failure = Failure(503, "UNAVAILABLE", "the answer took too long", {"retry-after": "5"})
        except (Gone, Abandoned):
            raise Gone from None
        except Exception as error:
            request_id = request.facts["requestId"]
            failure = Failure(
                500, "INTERNAL_ERROR", f"internal error; the server's log has it as {request_id}"
            )
            self._report(request, error)
        request.facts["errorCode"] = failure.code
        if exchange.status is None:
            with_body = request.method != "HEAD"
            await send_response(exchange.send, failure_response(failure), with_body=with_body)
        elif not exchange.is_complete:
            await exchange.abort()

    def _report(self, request: Request, error: BaseException) -> None:
        message = error.message if isinstance(error, DeltaCliError) else repr(error)
        report(f"error: request {request.facts['requestId']}: {message}")
        if self._is_debug or not isinstance(error, DeltaCliError):
            traceback.print_exception(error)

    def _account(self, request: Request, exchange: Exchange, seconds: float) -> None:
        facts = request.facts
        status = facts.setdefault("status", exchange.status or 500)
        tally = facts.pop("tally", None)
        if tally is not None:
            facts |= {"files": tally.files, "fileBytes": tally.bytes}
        facts |= {"method": request.method, "ms": round(seconds * 1000)}
        facts |= {"sentBytes": exchange.sent, "complete": exchange.is_complete}
        route = facts.setdefault("route", "unknown")
        self.metrics.count(route, status, seconds, facts.get("files") or 0, exchange.sent)
        self.audit.write(audit_entry(self.service.now_ms(), facts))

    # -- routes --------------------------------------------------------------------------

    async def _route(
        self, request: Request, exchange: Exchange, stack: contextlib.AsyncExitStack
    ) -> None:
        service = self.service
        _check_headers(request)
        prefix = tuple(one for one in service.config.endpoint.split("/") if one)
        segments = request.segments
        if segments[: len(prefix)] != prefix:
            raise missing("there is nothing here")
        parts = segments[len(prefix) :]
        if parts[:1] == (FILES,):
            if len(parts) != 3:
                raise void_link()
            await self._file(request, exchange, parts[1], parts[2])
            return
        if parts == ("openapi.json",):
            request.facts["route"] = "openapi"
            _check_method(request, "GET")
            await send_response(exchange.send, json_response(description(service.config.endpoint)))
            return
        caller = await self._quickly(service.authenticate, request.headers("authorization"))
        request.facts |= {"recipient": caller.recipient.name, "token": caller.token.last4 or None}
        stack.enter_context(self._guard.request(caller.recipient.name))
        # A trailing slash is no other resource.
        parts = parts[:-1] if parts[-1:] == ("",) else parts
        match parts:
            case ("shares",):
                await self._listing(request, exchange, "shares", service.shares, caller)
            case ("shares", share):
                request.facts |= {"route": "share", "share": share}
                _check_method(request, "GET")
                body = await self._quickly(service.share, caller, share)
                await send_response(exchange.send, json_response(body))
            case ("shares", share, "schemas"):
                request.facts["share"] = share
                await self._listing(request, exchange, "schemas", service.schemas, caller, share)
            case ("shares", share, "all-tables"):
                request.facts["share"] = share
                listing = service.tables
                await self._listing(request, exchange, "all-tables", listing, caller, share, None)
            case ("shares", share, "schemas", schema, "tables"):
                request.facts |= {"share": share, "schema": schema}
                listing = service.tables
                await self._listing(request, exchange, "tables", listing, caller, share, schema)
            case ("shares", share, "schemas", schema, "tables", table, *rest):
                request.facts |= {"share": share, "schema": schema, "table": table}
                await self._table(request, exchange, caller, (share, schema, table), rest)
            case _:
                raise missing("there is nothing here")

    async def _listing(
        self,
        request: Request,
        exchange: Exchange,
        route: str,
        listing: Callable[..., dict[str, Any]],
        *arguments: Any,
    ) -> None:
        request.facts["route"] = route
        _check_method(request, "GET")
        body = await self._quickly(listing, *arguments, request.parameters)
        await send_response(exchange.send, json_response(body))

    async def _table(
        self,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        name: tuple[str, str, str],
        rest: list[str],
    ) -> None:
        service, parameters = self.service, request.parameters

        def find() -> Any:
            return service.find(caller, *name)

        if rest == ["version"] or (not rest and request.method == "HEAD"):
            request.facts["route"] = "version"
            _check_method(request, "GET", "HEAD")
            version = await self._in_turn(
                self._plans, caller, lambda: service.version(find(), parameters)
            )
            request.facts["version"] = version
            response = Response(200, headers={VERSION_HEADER: str(version)})
            await send_response(exchange.send, response)
            return
        if rest not in (["metadata"], ["query"], ["changes"]):
            await self._quickly(find)
            raise missing("there is nothing here")
        request.facts["route"] = rest[0]
        _check_method(request, "POST" if rest == ["query"] else "GET")
        body = await request.body() if rest == ["query"] else b""
        asker = service.asker(
            caller,
            request.headers(HEADER),
            request.header("fileidhash"),
            lambda: self._base_url(request),
        )
        if rest == ["metadata"]:
            plan = lambda: service.metadata(find, parameters, asker)  # noqa: E731
        elif rest == ["query"]:
            plan = lambda: service.query(find, body, asker)  # noqa: E731
        else:
            plan = lambda: service.changes(find, parameters, asker)  # noqa: E731
        answer = await self._while_there(request, self._in_turn(self._plans, caller, plan))
        request.facts |= {
            "version": answer.version,
            "format": answer.response_format,
            "tally": answer.tally,
        }
        headers = {"content-type": NDJSON, VERSION_HEADER: str(answer.version)}
        headers[HEADER] = answered(answer.response_format, has_end=answer.has_end)
        if asker.id_hash:
            headers["fileidhash"] = asker.id_hash
        headers |= self._told_hints(answer)
        async with contextlib.AsyncExitStack() as stack:
            if answer.reads is Reads.MUCH:
                async with asyncio.timeout(service.config.request_seconds):
                    await stack.enter_async_context(self._heavy_of_one.of(caller.recipient.name))
                    await stack.enter_async_context(self._heavy)
            await self._stream_lines(request, exchange, caller, answer, headers)

    def _told_hints(self, answer: Answer) -> dict[str, str]:
        """Whether hints were used: without being told, nobody finds out why one was not."""
        if answer.hints is None:
            return {}
        used, skipped = len(answer.hints.conditions), answer.hints.skipped
        self.metrics.hints_used += used
        self.metrics.hints_skipped += len(skipped)
        reason = f"; reason={skipped[0]}" if skipped else ""
        text = f"applied={used}; skipped={len(skipped)}{reason}"
        return {"x-deltacli-hints": text.encode("ascii", "replace").decode()[:200]}

    # -- streams -------------------------------------------------------------------------

    async def _stream_lines(
        self,
        request: Request,
        exchange: Exchange,
        caller: Caller,
        answer: Answer,
        headers: dict[str, str],
    ) -> None:
        chunks = pieces(answer)
        turns = self._lines if answer.reads is Reads.NOTHING else self._plans

        async def made() -> bytes:
            return await self._in_turn(turns, caller, next, chunks, b"")

        try:
            # What fails before the first line is still an answer of its own.
            first = await self._while_there(request, made())
            await exchange.start(200, {**headers, "cache-control": "no-store"})
            await exchange.write(first)
            while chunk := await self._while_there(request, made()):
                await exchange.write(chunk)
            await exchange.finish()
        finally:
            # A thread that is still at it ends by itself.
            answer.tally.is_abandoned = True
            with contextlib.suppress(ValueError):
                chunks.close()

    async def _file(self, request: Request, exchange: Exchange, grant: str, called: str) -> None:
        request.facts["route"] = "file"
        _check_method(request, "GET", "HEAD", error=void_link())
        service = self.service
        wanted = request.header("range") if request.method == "GET" else None

        def opened() -> tuple[str, Download]:
            found, table = service.file(grant, called, request.query)
            name = table.name
            request.facts |= {
                "recipient": found.recipient,
                "share": name.share,
                "schema": name.schema,
                "table": name.table,
            }
            with explained(name):
                download = open_download(
                    table, found.root, found.name, wanted, request.header("if-range")
                )
            return found.recipient, download

        recipient, download = await self._in_thread(self._file_pool, opened)
        with contextlib.closing(download.file), self._guard.download(recipient):
            await exchange.start(download.status, download.headers)
            chunks = download.chunks() if request.method == "GET" else iter(())

            async def read() -> bytes:
                return await self._in_thread(self._file_pool, next, chunks, b"")

            while chunk := await self._while_there(request, read()):
                await exchange.write(chunk)
            await exchange.finish()

    async def _while_there(self, request: Request, work: Coroutine[Any, Any, T]) -> T:
        """What is made, unless the client goes away meanwhile."""
        task = asyncio.ensure_future(work)
        both: tuple[asyncio.Future[Any], ...] = (task, request.gone())
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Gone
            return task.result()
        finally:
            task.cancel()

    async def _in_turn(
        self, turns: Turns, caller: Caller, work: Callable[..., T], *arguments: Any
    ) -> T:
        """Work on a table, while the recipient has not too much of it going on."""
        turn = turns.of(caller.recipient.name)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.service.config.request_seconds):
            await turn.acquire()
            future = loop.run_in_executor(turns.pool, work, *arguments)
            # A turn is over when the thread is free, whoever still waits for it.
            future.add_done_callback(lambda _: turn.release())
            return await asyncio.shield(future)

    async def _quickly(self, work: Callable[..., T], *arguments: Any) -> T:
        return await self._in_thread(self._quick_pool, work, *arguments)

    async def _in_thread(
        self, pool: ThreadPoolExecutor, work: Callable[..., T], *arguments: Any
    ) -> T:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self.service.config.request_seconds):
            return await loop.run_in_executor(pool, work, *arguments)

    def close(self) -> bool:
        """Let go of all threads; whether none is still at work."""
        pools = (self._plans.pool, self._lines.pool, self._quick_pool, self._file_pool)
        for one in pools:
            one.shutdown(wait=False, cancel_futures=True)
        self.audit.close()
        end = time.monotonic() + _END_SECONDS
        threads = [thread for one in pools for thread in one._threads]
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0))
        return not any(thread.is_alive() for thread in threads)


def _check_headers(request: Request) -> None:
    """Raise Failure for what proxies and servers could read differently."""
    size = sum(len(name) + len(value) for name, value in request.scope["headers"])
    if size > MOST_HEADERS:
        raise Failure(431, "REQUEST_HEADER_FIELDS_TOO_LARGE", "the headers are too long")
    if request.headers("content-length") and request.headers("transfer-encoding"):
        # What comes behind it may be a body to one reader and a request to another.
        close = {"connection": "close"}
        raise malformed("a body has a length or is in chunks, not both", close)


def _check_method(request: Request, *allowed: str, error: Failure | None = None) -> None:
    if request.method not in allowed:
        raise error or Failure(
            405, "METHOD_NOT_ALLOWED", f"use {' or '.join(allowed)}", {"allow": ", ".join(allowed)}
        )


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
