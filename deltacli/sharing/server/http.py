"""The little of HTTP that the server needs, on top of ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from deltacli.delta import json_text
from deltacli.sharing.server.failures import Failure, malformed

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

JSON = "application/json"
JSON_TEXT = "application/json; charset=utf-8"
NDJSON = "application/x-ndjson; charset=utf-8"
MOST_BODY = 2 << 20
_MOST_URL = 32_768
_BODY_SECONDS = 30.0


class Gone(Exception):
    """The client has closed the connection."""


@dataclass
class Request:
    """One request. `segments` are the decoded parts of its path."""

    scope: Message
    receive: Receive
    facts: dict[str, Any] = field(default_factory=dict)
    _gone: asyncio.Future[None] | None = None

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def client(self) -> str:
        return str((self.scope.get("client") or ("",))[0])

    @cached_property
    def segments(self) -> tuple[str, ...]:
        """The path split at its slashes, then decoded: a name may have a slash in it."""
        raw: bytes = self.scope.get("raw_path") or self.scope["path"].encode()
        raw = raw.partition(b"?")[0]
        if len(raw) + len(self.scope.get("query_string", b"")) > _MOST_URL:
            raise Failure(414, "URI_TOO_LONG", "the URL is too long")
        try:
            return tuple(unquote_to_bytes(part).decode() for part in raw.split(b"/")[1:])
        except UnicodeDecodeError:
            raise malformed("the path is not UTF-8") from None

    @property
    def query(self) -> str:
        return str(self.scope.get("query_string", b"").decode("latin-1"))

    @cached_property
    def parameters(self) -> dict[str, str]:
        """The query parameters; of a repeated one the last counts."""
        try:
            pairs = parse_qsl(self.query, keep_blank_values=True, max_num_fields=100)
        except ValueError:
            raise malformed("the query has too many parameters") from None
        return dict(pairs)

    def headers(self, name: str) -> list[str]:
        wanted = name.encode()
        return [value.decode("latin-1") for key, value in self.scope["headers"] if key == wanted]

    def header(self, name: str) -> str | None:
        found = self.headers(name)
        return found[0] if found else None

    async def body(self) -> bytes:
        """The whole body. Raises Failure if it is too long, or does not arrive."""
        if self.headers("content-encoding"):
            raise Failure(415, "UNSUPPORTED_MEDIA_TYPE", "a body must not be compressed")
        parts, size = [], 0
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                more = True
                while more:
                    message = await self.receive()
                    if message["type"] == "http.disconnect":
                        raise Gone
                    part = message.get("body", b"")
                    size += len(part)
                    if size > MOST_BODY:
                        raise Failure(413, "CONTENT_TOO_LARGE", "the body is too long")
                    parts.append(part)
                    more = message.get("more_body", False)
        except TimeoutError:
            raise Failure(408, "REQUEST_TIMEOUT", "the body did not arrive in time") from None
        return b"".join(parts)

    def gone(self) -> asyncio.Future[None]:
        """Done when the client has closed the connection."""
        if self._gone is None:
            self._gone = asyncio.ensure_future(self._wait_until_gone())
        return self._gone

    async def _wait_until_gone(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def close(self) -> None:
        if self._gone is not None:
            self._gone.cancel()


@dataclass(frozen=True)
class Response:
    """A whole, short response."""

    status: int
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def json_response(body: Mapping[str, Any], content_type: str = JSON_TEXT) -> Response:
    return Response(200, json_text.dump(dict(body)) + b"\n", content_type)


def failure_response(error: Failure) -> Response:
    body = {"errorCode": error.code, "message": error.message}
    return Response(error.status, json_text.dump(body) + b"\n", JSON, error.headers)


def header_list(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def send_response(send: Send, response: Response, *, with_body: bool = True) -> None:
    headers = {"content-length": str(len(response.body)), "cache-control": "no-store"}
    if response.content_type:
        headers["content-type"] = response.content_type
    headers |= response.headers
    await send(
        {
            "type": "http.response.start",
            "status": response.status,
            "headers": header_list(headers),
        }
    )
    await send({"type": "http.response.body", "body": response.body if with_body else b""})


class Exchange:
    """The response side of one request, and how far it has come."""

    def __init__(self, send: Send):
        self._send = send
        self.status: int | None = None
        self.sent = 0
        self.is_complete = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.sent += len(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)
        try:
            await self._send(message)
        except OSError:
            raise Gone from None

    async def start(self, status: int, headers: dict[str, str]) -> None:
        await self.send(
            {"type": "http.response.start", "status": status, "headers": header_list(headers)}
        )

    async def write(self, chunk: bytes) -> None:
        await self.send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def finish(self) -> None:
        await self.send({"type": "http.response.body", "body": b""})

    async def abort(self) -> None:
        """Break the response off, so that the client sees that it is not whole."""
        raise Gone
