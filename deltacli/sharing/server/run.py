"""The server as a process: sockets, TLS, signals, and the operator's own port."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from deltacli.errors import Refused, StorageError
from deltacli.sharing.server.app import MOST_HEADERS, SharingApp
from deltacli.sharing.server.failures import malformed
from deltacli.sharing.server.http import (
    Message,
    Receive,
    Response,
    Send,
    failure_response,
    json_response,
    send_response,
)
from deltacli.sharing.server.listening import load_certificate
from deltacli.sharing.server.service import Service, try_reload
from deltacli.sharing.server.telemetry import AuditLog, report

_HEADER_SECONDS = 20.0
_STALL_SECONDS = 60.0
_MOST_FILES, _OWN_FILES = 8192, 40
_BACKLOG = 1024


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that waits only so long: for a request's head, and for a client to read."""

    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.abort()
            return
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._stop("_head_timer")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop("_head_timer")
        self._stop("_stall_timer")
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop("_stall_timer")
        self._stall_timer = self.loop.call_later(_STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop("_stall_timer")
        super().resume_writing()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            # A body that nobody waits for may have no end.
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Say it in JSON, as to every other fault."""
        failure = failure_response(malformed("the request is not HTTP"))
        head = [("content-type", "application/json"), ("connection", "close")]
        with contextlib.suppress(h11.LocalProtocolError):
            events = [
                h11.Response(status_code=400, headers=head, reason=b"Bad Request"),
                h11.Data(data=failure.body),
                h11.EndOfMessage(),
            ]
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _await_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEADER_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _stop(self, name: str) -> None:
        timer = getattr(self, name)
        if timer is not None:
            timer.cancel()
            setattr(self, name, None)


@cache
def most_connections() -> int:
    """How many connections the process can hold, with a file open for each."""
    try:
        import resource
    except ImportError:
        return 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return max((soft - _OWN_FILES) // 2, 8)


class _Server(uvicorn.Server):
    """uvicorn without its own signals and talk: both are ours."""

    def capture_signals(self) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass
class Running:
    """All that one run of the server has."""

    app: SharingApp
    sockets: list[socket.socket]
    tls: ssl.SSLContext | None
    admin_sockets: list[socket.socket]
    reload: Callable[[], Service] | None
    audit: AuditLog


def serve(running: Running, on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT; what has begun is finished first."""
    try:
        asyncio.run(Runner(running).serve(on_ready))
    finally:
        if not running.app.close():
            # A read that hangs in the kernel would keep the process for good.
            report("note: reading from a storage has not come to an end")
            sys.stdout.flush()
            os._exit(0)


class Runner:
    """The servers of one run, in one event loop."""

    def __init__(self, running: Running):
        self._running = running
        grace = running.app.service.config.grace_seconds
        self._jobs = [(_uvicorn(running.app, running.tls, grace), running.sockets)]
        if running.admin_sockets:
            admin = _uvicorn(AdminApp(running.app), None, grace)
            self._jobs.append((admin, running.admin_sockets))
        self._reloads: set[asyncio.Task[None]] = set()

    async def serve(self, on_ready: Callable[[], None]) -> None:
        with self._handling_signals():
            tasks = [asyncio.ensure_future(one.serve(sockets=own)) for one, own in self._jobs]
            while not all(one.started for one, _ in self._jobs):
                await asyncio.sleep(0.01)
                if any(one.done() for one in tasks):
                    break
            else:
                on_ready()
            await asyncio.gather(*tasks)

    def stop(self) -> None:
        """End when all answers are finished; said twice, end at once."""
        for one, _ in self._jobs:
            one.force_exit = one.should_exit
            one.should_exit = True

    def reload(self) -> None:
        """Take the configuration anew; a bad one changes nothing."""
        task = asyncio.get_running_loop().create_task(self._reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _reload(self) -> None:
        running = self._running
        with contextlib.suppress(StorageError):
            running.audit.reopen()
        if running.reload is None:
            return
        service = await asyncio.to_thread(try_reload, running.reload)
        if service is None:
            running.app.metrics.failed_reloads += 1
            return
        running.app.replace(service)
        running.app.metrics.reloads += 1
        tls = service.config.tls
        if running.tls is not None and tls is not None and not tls.self_signed:
            try:
                load_certificate(running.tls, tls)
            except Refused as error:
                report(f"error: the certificate stays as it was: {error.message}")
        for warning in service.catalog().warnings:
            report(f"warning: {warning}")
        report("note: the configuration was read anew")

    @contextlib.contextmanager
    def _handling_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers = {signal.SIGINT: self.stop, signal.SIGTERM: self.stop}
        if hasattr(signal, "SIGHUP"):
            handlers[signal.SIGHUP] = self.reload
        added = []
        try:
            for number, handler in handlers.items():
                # Only the main thread of a Unix process has them.
                with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
                    loop.add_signal_handler(number, handler)
                    added.append(number)
            yield
        finally:
            for number in added:
                loop.remove_signal_handler(number)


def _uvicorn(app: Any, tls: ssl.SSLContext | None, grace_seconds: int) -> _Server:
    # What it would say is said by us, or is of no use to an operator.
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=grace_seconds,
        h11_max_incomplete_event_size=MOST_HEADERS,
    )
    config.load()
    config.ssl = tls
    return _Server(config)


class AdminApp:
    """Health and metrics, for the operator only."""

    def __init__(self, app: SharingApp):
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path in ("/-/health", "/-/ready"):
            response = json_response({"status": "ok"})
        elif path == "/-/metrics":
            text = self._app.metrics.text().encode()
            response = Response(200, text, "text/plain; version=0.0.4; charset=utf-8")
        else:
            response = Response(404, b"not found\n", "text/plain; charset=utf-8")
        await send_response(send, response, with_body=scope["method"] != "HEAD")
