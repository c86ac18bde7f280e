"""A server that answers as a test says, well or badly; it notes what was asked."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NDJSON = {"Content-Type": "application/x-ndjson; charset=utf-8"}


@dataclass
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Say:
    """An answer. `claims` is a Content-Length that may be a lie; `raw` is sent as it is."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    claims: int | None = None
    raw: Callable[[socket.socket], None] | None = None


Script = Callable[[Asked], Say]


@dataclass
class Scripted:
    url: str
    asked: list[Asked]


@contextlib.contextmanager
def scripted(script: Script) -> Iterator[Scripted]:
    """The server; `script` answers each request."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            one = Asked(self.command, self.path, headers, self.rfile.read(length))
            asked.append(one)
            say = script(one)
            if say.raw is not None:
                self.close_connection = True
                with contextlib.suppress(OSError):
                    say.raw(self.connection)
                return
            self.send_response(say.status)
            for name, value in say.headers.items():
                self.send_header(name, value)
            claims = len(say.body) if say.claims is None else say.claims
            self.send_header("Content-Length", str(claims))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(say.body)
            if claims != len(say.body):
                self.close_connection = True

        do_GET = do_POST = do_HEAD = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield Scripted(f"http://127.0.0.1:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        server.server_close()


def lines(*bodies: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in bodies)


PROTOCOL = {"protocol": {"minReaderVersion": 1}}
METADATA = {
    "metaData": {
        "id": "t",
        "format": {"provider": "parquet"},
        "schemaString": json.dumps(
            {
                "type": "struct",
                "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
            }
        ),
        "partitionColumns": [],
        "configuration": {},
    }
}


def told(*bodies: Any, version: int = 3, **headers: str) -> Say:
    """An answer about a table: the head, and what follows."""
    own = {**NDJSON, "Delta-Table-Version": str(version), **headers}
    return Say(200, lines(PROTOCOL, METADATA, *bodies), own)


def file_line(url: str, size: int, file_id: str = "f", **more: Any) -> dict[str, Any]:
    return {"file": {"url": url, "id": file_id, "partitionValues": {}, "size": size, **more}}
