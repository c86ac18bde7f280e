"""The server as a process: sockets, TLS, signals, and the operator's own port."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import os
import re
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
from deltacli.sharing.server.app import SharingApp
from deltacli.sharing.server.config import Tls
from deltacli.sharing.server.failures import malformed
from deltacli.sharing.server.http import (
    Message,
    Receive,
    Request,
    Response,
    Send,
    failure_response,
    json_response,
    send_response,
)
from deltacli.sharing.server.service import Service, try_reload
from deltacli.sharing.server.telemetry import AuditLog, report

_HEADER_SECONDS = 20.0
_STALL_SECONDS = 60.0
_MOST_HEADERS = 65_536
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


@dataclass(frozen=True)
class Listening:
    """Where the server is to be reached."""

    host: str
    port: int
    scheme: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> list[socket.socket]:
    """Sockets for all addresses of a host, on one port; 0 is a free one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise StorageError(
            f"cannot find the address {host!r}: {error.strerror}", hint="name another --host"
        ) from error
    sockets: list[socket.socket] = []
    for family, _, _, _, address in dict.fromkeys(found):
        own = socket.socket(family, socket.SOCK_STREAM)
        try:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            own.bind((address[0], port or (sockets[0].getsockname()[1] if sockets else 0)))
        except OSError as error:
            own.close()
            # A machine without IPv6 still has localhost.
            if sockets or family == socket.AF_INET6:
                continue
            raise StorageError(
                f"cannot listen on {host}:{port}: {error.strerror}",
                hint="another program may use the port; --port 0 takes a free one",
            ) from error
        sockets.append(own)
    if not sockets:
        raise StorageError(f"cannot listen on {host}:{port}", hint="name another --host or --port")
    return sockets


def check_exposure(host: str, *, has_tls: bool, insecure: bool) -> None:
    """Raise Refused where tokens would cross a network in the clear."""
    if has_tls or insecure or is_loopback(host):
        return
    raise Refused(
        f"{host} is not a loopback address, and there is no TLS: tokens would be readable",
        hint="configure ssl, or put a proxy with TLS before it and say --insecure",
    )


def tls_context(tls: Tls, host: str) -> ssl.SSLContext:
    """The server's side of TLS. Raises Refused for what cannot be loaded."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.self_signed:
        _load_self_signed(context, host)
    else:
        load_certificate(context, tls)
    return context


def load_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    """Use a certificate for all connections that come. Raises Refused."""
    try:
        context.load_cert_chain(tls.certificate or "", tls.key, tls.password or "")
    except (OSError, ssl.SSLError) as error:
        raise Refused(
            f"the certificate {tls.certificate} cannot be loaded with the key {tls.key}: "
            f"{error.strerror or error}",
            hint="check certificate, key and password",
        ) from error


def _load_self_signed(context: ssl.SSLContext, host: str) -> None:
    """A certificate for this run. Clients have to be told to trust it."""
    import tempfile
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    with contextlib.suppress(ValueError):
        names.append(x509.IPAddress(ipaddress.ip_address(host)))
    names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName(list(dict.fromkeys(names))), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "server.pem")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secret + certificate.public_bytes(serialization.Encoding.PEM))
        context.load_cert_chain(path)


class BaseUrl:
    """Where our own URLs begin: the public URL, or an address that is surely ours."""

    def __init__(self, listening: Listening, public_url: str | None, endpoint: str):
        self._listening = listening
        self._public_url = public_url
        self._endpoint = endpoint.rstrip("/")

    def __call__(self, request: Request) -> str:
        if self._public_url is not None:
            return _with_endpoint(self._public_url, self._endpoint)
        # A name from the request is believed only if it is one of the loopback's.
        host = request.header("host") or ""
        match = _HOST.fullmatch(host)
        name = match[1].strip("[]") if match else ""
        asked = f"{self._listening.scheme}://{host}"
        if is_loopback(name) and is_loopback(self._listening.host):
            return asked + self._endpoint
        return self._listening.url + self._endpoint


_HOST = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")


def _with_endpoint(url: str, endpoint: str) -> str:
    return url if url.endswith(endpoint) else url + endpoint


def endpoint_url(listening: Listening, public_url: str | None, endpoint: str) -> str:
    """What stands in profiles."""
    return _with_endpoint(public_url or listening.url, endpoint.rstrip("/")) + "/"


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
        h11_max_incomplete_event_size=_MOST_HEADERS,
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
