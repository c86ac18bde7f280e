"""Requests to servers and storage: whole answers or one clear error, and never for ever.

Every request here may be sent again: none changes anything. What fails for now (too busy,
cut off, no connection) is asked again after growing pauses; the answer counts when its last
byte is there.
"""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import random
import socket
import ssl
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

import deltacli
from deltacli.errors import StorageError, UsageError
from deltacli.sharing.client.proxies import proxy_for, proxy_headers
from deltacli.units import parse_duration

_BUSY = (429, 502, 503, 504)
_MOVED = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_CONNECT_SECONDS = 15.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 20.0
_PIECE = 1 << 16
# What is smaller stays in memory.
_SPOOL_BYTES = 16 << 20
# Below this an answer is as good as none.
_LEAST_BYTES_A_SECOND = 100
_IDLE_CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may say nothing, and how long after a failure it is asked again."""

    silence_s: float = 120.0
    again_s: float = 120.0


DEFAULT_PATIENCE = Patience()


def parse_patience(text: str) -> Patience:
    """The patience that one duration stands for."""
    seconds = parse_duration(text) / 1000
    if not 0.1 <= seconds <= 86_400:
        raise UsageError("the timeout is between 100 ms and a day", hint="write it as 30s or 2m")
    return Patience(seconds, seconds)


@dataclass(frozen=True, slots=True)
class Request:
    """`most_bytes` is the size above which an answer is none."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    most_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer; names of headers are in lower case, `content` is at its beginning."""

    status: int
    headers: Mapping[str, str]
    content: IO[bytes]
    size: int


class BadAnswer(StorageError):
    """A server said what the protocol does not allow."""

    usual_hint = "the server breaks the protocol; its provider should know"


class _Retry(Exception):
    """This attempt failed, another may not."""

    def __init__(self, reason: str, wait_s: float = 0.0):
        super().__init__(reason)
        self.reason = reason
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a connection leads: `proxy` is what it goes through, if anything."""

    scheme: str
    host: str
    port: int
    proxy: str | None


class Http:
    """Connections that are kept for the next request; for any number of threads.

    It can be pickled: the copy has the same patience and connections of its own.
    """

    def __init__(
        self,
        patience: Patience = DEFAULT_PATIENCE,
        *,
        pause: Callable[[float], None] = time.sleep,
        on_wait: Callable[[str, float], None] | None = None,
    ):
        self.patience = patience
        self._pause = pause
        self._on_wait = on_wait
        self._idle: dict[_Place, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Http], tuple[Patience]]:
        return type(self), (self.patience,)

    def ask(self, request: Request) -> Reply:
        """The answer, whatever its status; raises StorageError if there is none."""
        failed_at, attempt = None, 0
        while True:
            try:
                return self._follow(request)
            except _Retry as failure:
                now = time.monotonic()
                failed_at = failed_at or now
                pause = min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE) * random.uniform(0.5, 1)
                pause = max(pause, failure.wait_s)
                attempt += 1
                if now + pause > failed_at + self.patience.again_s:
                    raise _gave_up(request.url, failure, attempt) from failure
                if self._on_wait:
                    self._on_wait(f"{failure.reason}; asking again in {pause:.1f} s", pause)
                self._pause(pause)

    def _follow(self, request: Request) -> Reply:
        """The answer where redirects lead; credentials go to the first place only."""
        url, headers = request.url, dict(request.headers)
        for _ in range(_MOST_REDIRECTS + 1):
            reply = self._attempt(request, url, headers)
            target = reply.headers.get("location")
            if reply.status not in _MOVED or target is None:
                return reply
            if request.method != "GET":
                raise BadAnswer(
                    f"{_host(url)} moved to {_host(urljoin(url, target))}",
                    hint="put the new address into the profile",
                )
            new = urljoin(url, target)
            if _origin(new) != _origin(url):
                headers = {key: one for key, one in headers.items() if key != "Authorization"}
            if urlsplit(url).scheme == "https" and urlsplit(new).scheme != "https":
                raise BadAnswer(f"{_host(url)} redirects to an address without TLS")
            url = new
        raise BadAnswer(f"{_host(url)} redirects in circles")

    def _attempt(self, request: Request, url: str, headers: Mapping[str, str]) -> Reply:
        place, target = _place_of(url)
        connection, was_used = self._taken(place)
        try:
            reply = self._exchange(connection, request, target, headers, place)
        except _Retry:
            connection.close()
            raise
        except _STALE as error:
            connection.close()
            if was_used:
                # The server had closed a connection that was kept; that is no failure.
                return self._attempt(request, url, headers)
            raise _Retry(f"{place.host} closed the connection") from error
        except BaseException as error:
            connection.close()
            raise _failure(error, place) from error
        if connection.sock is not None:
            self._give_back(place, connection)
        if reply.status in _BUSY:
            wait_s = _retry_after(reply.headers.get("retry-after"))
            raise _Retry(f"{place.host} answers {reply.status}{_said(reply)}", wait_s)
        return reply

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        request: Request,
        target: str,
        headers: Mapping[str, str],
        place: _Place,
    ) -> Reply:
        own = {"User-Agent": f"deltacli/{deltacli.__version__}", **headers}
        if place.proxy and place.scheme == "http":
            own |= proxy_headers(place.proxy)
        connection.request(request.method, target, request.body, own)
        with _beginning_within(connection, 2 * self.patience.silence_s):
            answer = connection.getresponse()
        found = {name.lower(): one for name, one in answer.getheaders()}
        content = self._content(answer, found, request.most_bytes, place)
        size = content.tell()
        content.seek(0)
        answer.close()
        if answer.will_close:
            connection.close()
        return Reply(answer.status, found, content, size)

    def _content(
        self,
        answer: http.client.HTTPResponse,
        headers: Mapping[str, str],
        most_bytes: int,
        place: _Place,
    ) -> IO[bytes]:
        content: IO[bytes] = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115
        encoding = headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", "gzip"):
            raise BadAnswer(
                f"{place.host} answers in the encoding {encoding}, which nobody asked for"
            )
        unpack = zlib.decompressobj(31) if encoding == "gzip" else None
        begun, received = time.monotonic(), 0
        while piece := answer.read1(_PIECE):
            received += len(piece)
            for part in _unpacked(unpack, piece) if unpack else (piece,):
                _keep(content, part)
                # What is sent may unpack to nothing.
                if max(content.tell(), received) > most_bytes:
                    raise BadAnswer(f"{place.host} answers with more than {most_bytes:,} bytes")
            if unpack and unpack.unused_data:
                raise BadAnswer(f"{place.host} goes on behind the end of its answer")
            elapsed = time.monotonic() - begun
            if elapsed > 2 * self.patience.silence_s and received < elapsed * _LEAST_BYTES_A_SECOND:
                raise TimeoutError(f"{received} bytes in {elapsed:.0f} s")
        # `read1` takes the end of a connection for the end of an answer.
        if answer.length or (unpack and not unpack.eof and received):
            raise _Retry(f"{place.host} broke off in the middle of an answer")
        return content

    def _taken(self, place: _Place) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            idle = self._idle.get(place)
            if idle:
                return idle.pop(), True
        return self._connect(place), False

    def _connect(self, place: _Place) -> http.client.HTTPConnection:
        host, port = place.host, place.port
        via = urlsplit(place.proxy) if place.proxy else None
        if via is not None:
            host, port = via.hostname or "", via.port or 80
        connection: http.client.HTTPConnection
        if place.scheme == "https":
            connection = http.client.HTTPSConnection(
                host, port, timeout=_CONNECT_SECONDS, context=self._tls
            )
            if place.proxy:
                connection.set_tunnel(place.host, place.port, proxy_headers(place.proxy))
        else:
            connection = http.client.HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
        try:
            connection.connect()
        except BaseException as error:
            connection.close()
            raise _failure(error, place) from error
        connection.sock.settimeout(self.patience.silence_s)
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def _give_back(self, place: _Place, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            idle = self._idle.setdefault(place, [])
            if len(idle) < _IDLE_CONNECTIONS:
                idle.append(connection)
                return
        connection.close()


def _keep(content: IO[bytes], part: bytes) -> None:
    try:
        content.write(part)
    except OSError as error:
        raise StorageError(
            f"an answer cannot be kept on this machine: {error.strerror}",
            hint="the folder for temporary files may be full; TMPDIR names another",
        ) from error


_STALE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


def _failure(error: BaseException, place: _Place) -> BaseException:
    """What became of an attempt: worth another, hopeless, or none of our business."""
    host = place.host
    if isinstance(error, StorageError | _Retry):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return StorageError(
            f"the certificate of {host} is not trusted: {error.verify_message}",
            hint="SSL_CERT_FILE can name the certificates to trust",
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return StorageError(
            f"{host} does not speak TLS as it should: {error.reason or error}",
            hint="check that the endpoint is one of https, at the right port",
        )
    if isinstance(error, OSError) and str(error).startswith("Tunnel connection failed: 4"):
        return StorageError(
            f"the proxy denies the way to {host}: {error}",
            hint="check the credentials in https_proxy, or name the host in no_proxy",
        )
    if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
        return StorageError(
            f"there is no host {host}", hint="check the endpoint in the profile, and the network"
        )
    if isinstance(error, TimeoutError):
        return _Retry(f"{host} does not answer" + (f": {error}" if str(error) else ""))
    if isinstance(error, http.client.IncompleteRead):
        return _Retry(f"{host} broke off in the middle of an answer")
    if isinstance(error, http.client.HTTPException):
        return BadAnswer(f"{host} does not answer in HTTP: {error or type(error).__name__}")
    if isinstance(error, zlib.error):
        return BadAnswer(f"{host} sends what cannot be unpacked")
    if isinstance(error, OSError):
        return _Retry(f"{host} cannot be reached: {error.strerror or error}")
    return error


def _gave_up(url: str, failure: _Retry, attempts: int) -> StorageError:
    times = "once" if attempts == 1 else f"{attempts} times"
    if failure.wait_s:
        hint = f"it asks to be left alone for {failure.wait_s:.0f} s; try again then"
    else:
        hint = "check the network and the endpoint in the profile, or try again later"
    return StorageError(f"{failure.reason} (asked {times})", hint=hint, location=_origin(url))


def _place_of(url: str) -> tuple[_Place, str]:
    """Where a URL leads, and what to ask for there. Raises BadAnswer for what is no web URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadAnswer("a URL cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii():
        raise BadAnswer(f"a URL does not begin with https:// but with {url[:20]!r}")
    if any(one <= " " or one == "\x7f" for one in url):
        raise BadAnswer("a URL has spaces in it")
    port = port or (443 if parts.scheme == "https" else 80)
    proxy = proxy_for(parts, port)
    path = parts.path or "/"
    target = f"{path}?{parts.query}" if parts.query else path
    if proxy and parts.scheme == "http":
        target = f"http://{parts.netloc.rpartition('@')[2]}{target}"
    return _Place(parts.scheme, parts.hostname, port, proxy), target


@contextlib.contextmanager
def _beginning_within(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """Cuts a connection whose answer does not begin in time, however busy it is kept."""
    is_late = threading.Event()

    def cut() -> None:
        is_late.set()
        with contextlib.suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        if is_late.is_set():
            raise TimeoutError(f"no answer began in {seconds:.0f} s") from error
        raise
    finally:
        timer.cancel()


def _unpacked(unpack: Any, piece: bytes) -> Iterator[bytes]:
    """What a piece unpacks to, in parts, so that a small one cannot fill the memory."""
    while piece:
        yield unpack.decompress(piece, _SPOOL_BYTES)
        piece = unpack.unconsumed_tail


def _retry_after(text: str | None) -> float:
    """Seconds to wait, from either form of the header."""
    if text is None:
        return 0.0
    if text.strip().isascii() and text.strip().isdigit():
        return float(text)
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        return max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    return 0.0


def _said(reply: Reply) -> str:
    from deltacli.sharing.client.failures import message_of

    message = message_of(reply)
    return f": {message}" if message else ""


def _host(url: str) -> str:
    return urlsplit(url).hostname or "the server"


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
