"""A proxy before a storage's server that can be told to fail: what a bad day looks like.

with Gateway(place.endpoint) as gateway:
    gateway.fault = lambda request: Answer(503) if request.number % 2 else None
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    # How many came before.
    number: int
    # How many came before that asked the same.
    repeated: int

    @property
    def is_write(self) -> bool:
        return self.method not in ("GET", "HEAD")


@dataclass(frozen=True)
class Answer:
    """Said in place of the server."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


LOST = "the server did it, and nobody heard"
CUT = "the connection ends before the server is asked"
Fault = Answer | str | None


class Gateway:
    def __init__(self, target: str):
        self._target = urlsplit(target)
        self.fault: Callable[[Request], Fault] = lambda request: None
        self.requests: list[Request] = []
        self._seen: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        gateway = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with contextlib.suppress(ConnectionError):
                    super().handle_one_request()

            def log_message(self, *arguments: Any) -> None:
                pass

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    return lambda: gateway._pass_on(self)
                raise AttributeError(name)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *arguments: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Gateway:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _noted(self, method: str, path: str) -> Request:
        with self._lock:
            key = (method, path)
            repeated = self._seen.get(key, 0)
            self._seen[key] = repeated + 1
            request = Request(method, path, len(self.requests), repeated)
            self.requests.append(request)
        return request

    def _pass_on(self, handler: Any) -> None:
        body = _body(handler)
        request = self._noted(handler.command, handler.path)
        fault = self.fault(request)
        if isinstance(fault, Answer):
            _answer(handler, fault.status, dict(fault.headers), fault.body)
            return
        if fault != CUT:
            connection = http.client.HTTPConnection(
                self._target.hostname or "", self._target.port, timeout=60
            )
            with contextlib.closing(connection):
                connection.putrequest(
                    handler.command, handler.path, skip_host=True, skip_accept_encoding=True
                )
                for name, value in handler.headers.items():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                        connection.putheader(name, value)
                if body or request.is_write:
                    connection.putheader("Content-Length", str(len(body)))
                connection.endheaders(body or None)
                found = connection.getresponse()
                content = found.read()
                if fault is None:
                    _answer(handler, found.status, dict(found.getheaders()), content)
                    return
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.connection.shutdown(socket.SHUT_RDWR)


def _body(handler: Any) -> bytes:
    if handler.headers.get("Transfer-Encoding", "").lower() == "chunked":
        parts = []
        while size := int(handler.rfile.readline().split(b";")[0], 16):
            parts.append(handler.rfile.read(size))
            handler.rfile.readline()
        handler.rfile.readline()
        return b"".join(parts)
    return bytes(handler.rfile.read(int(handler.headers.get("Content-Length") or 0)))


def _answer(handler: Any, status: int, headers: Mapping[str, str], body: bytes) -> None:
    handler.send_response_only(status)
    length = str(len(body))
    for name, value in headers.items():
        if name.lower() == "content-length":
            # A HEAD tells the size of what it does not send.
            length = value if handler.command == "HEAD" else length
        elif name.lower() not in ("transfer-encoding", "connection"):
            handler.send_header(name, value)
    if status not in (204, 304):
        handler.send_header("Content-Length", length)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)
