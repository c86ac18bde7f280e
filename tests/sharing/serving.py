"""A real server in a thread of the test, and a client that sees everything.

with serving(config) as server:
    server.get("/shares").json
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from deltacli.sharing.server import listening, run
from deltacli.sharing.server.app import SharingApp
from deltacli.sharing.server.config import Config, SchemaEntry, ShareEntry, TableEntry
from deltacli.sharing.server.recipients import EVERY_SHARE, Recipient, kept_token, new_token
from deltacli.sharing.server.seals import Seals
from deltacli.sharing.server.service import Access, Service
from deltacli.sharing.server.telemetry import AuditLog

DELTA = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors,"
         "columnmapping,timestampntz,typewidening,typewidening-preview,varianttype,"
         "varianttype-preview,geospatial"}  # fmt: skip


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def lines(self) -> list[Any]:
        """The objects of a streamed answer."""
        assert self.status == 200, self.content
        assert self.content.endswith(b"\n")
        return [json.loads(line) for line in self.content.splitlines()]

    @property
    def version(self) -> int:
        return int(self.headers["delta-table-version"])

    def files(self, *kinds: str) -> list[Any]:
        """The bodies of the file lines."""
        wanted = kinds or ("file",)
        return [line[kind] for line in self.lines for kind in line if kind in wanted]


@dataclass
class Seen:
    """One exchange as it crossed the wire."""

    method: str
    path: str
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes = b""
    asked: bytes = b""


class Spy:
    """Passes requests on, and keeps what was answered."""

    def __init__(self, app: Any):
        self.app = app
        self.seen: list[Seen] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        one = Seen(scope["method"], scope["raw_path"].decode())
        self.seen.append(one)

        async def received() -> Any:
            message = await receive()
            one.asked += message.get("body", b"")
            return message

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                one.status = message["status"]
                one.headers = {key.decode(): value.decode() for key, value in message["headers"]}
            else:
                one.content += message.get("body", b"")
            await send(message)

        await self.app(scope, received, sent)


class Server:
    """A running server as a client sees it; `token` is its first recipient's."""

    def __init__(self, url: str, token: str, app: SharingApp, spy: Spy, admin_url: str):
        self.url = url
        self.token = token
        self.app = app
        self.spy = spy
        self.admin_url = admin_url

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        token: str | None = None,
    ) -> Reply:
        """Ask for a path below the endpoint, or a whole URL."""
        url = urlsplit(path if "://" in path else f"{self.url}{path}")
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=60)
        own = {"Authorization": f"Bearer {self.token if token is None else token}"}
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        target = url.path + (f"?{url.query}" if url.query else "")
        try:
            connection.request(method, target, content, {**own, **(headers or {})})
            answer = connection.getresponse()
            found = {key.lower(): value for key, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None, **more: Any) -> Reply:
        return self.request("GET", path, None, headers, **more)

    def query(
        self, table: str, body: Any = None, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Reply:
        content = {} if body is None else body
        return self.request("POST", f"{table_path(table)}/query", content, headers, **more)

    def changes(self, table: str, query: str, headers: Mapping[str, str] | None = None) -> Reply:
        return self.get(f"{table_path(table)}/changes?{query}", headers)

    def metadata(self, table: str, query: str = "", headers: Any = None) -> Reply:
        return self.get(f"{table_path(table)}/metadata{query and '?' + query}", headers)

    def profile(self, path: Path) -> Path:
        body = {
            "shareCredentialsVersion": 1,
            "endpoint": f"{self.url}/",
            "bearerToken": self.token,
        }
        path.write_text(json.dumps(body))
        return path


def table_path(table: str) -> str:
    """The path of `share.schema.table`, or of a table of the usual share and schema."""
    share, schema, name = table.split(".") if "." in table else ("share", "schema", table)
    return f"/shares/{share}/schemas/{schema}/tables/{name}"


def one_share(*tables: TableEntry, **more: Any) -> Config:
    """A configuration with some tables in `share.schema`."""
    share = ShareEntry("share", None, (SchemaEntry("schema", tables),))
    return Config(shares=(share,), **more)


def shared(name: str, location: Any, **more: Any) -> TableEntry:
    return TableEntry(str(location), name, **{"history_shared": True, **more})


@contextlib.contextmanager
def serving(
    config: Config,
    *recipients: Recipient,
    access: Access | None = None,
    secret: str | None = None,
    **more: Any,
) -> Iterator[Server]:
    """The server of a configuration on a free port, with one recipient who may see all."""
    now_ms = time.time_ns() // 1_000_000
    secret, token = (
        (secret, kept_token(secret, now_ms, None)) if secret else new_token(now_ms, None)
    )
    first = Recipient("reader", (EVERY_SHARE,), (token,), 0)
    access = access or Access(None, (first, *recipients))
    service = Service(config, access, more.pop("seals", Seals(b"k" * 32)), **more)
    audit = AuditLog(config.audit_log)
    sockets = listening.bind("127.0.0.1", 0)
    admin = listening.bind("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    base_url = listening.BaseUrl(
        listening.Listening("127.0.0.1", port, "http"), config.public_url, config.endpoint
    )
    app = SharingApp(service, base_url, audit)
    running = run.Running(app, sockets, None, admin, None, audit)
    runner = run.Runner(running)
    spy = Spy(app)
    runner._jobs[0][0].config.loaded_app = spy
    ready, loops = threading.Event(), []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        await runner.serve(ready.set)

    admin_url = f"http://127.0.0.1:{admin[0].getsockname()[1]}"
    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield Server(f"http://127.0.0.1:{port}{config.endpoint}", secret, app, spy, admin_url)
    finally:
        loops[0].call_soon_threadsafe(runner.stop)
        thread.join(20)
        app.close()
