"""Where the server listens: addresses, TLS, and the URLs that lead back to it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import ssl
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from deltacli.errors import Refused, StorageError
from deltacli.sharing.server.config import Tls
from deltacli.sharing.server.http import (
    Request,
)


@dataclass(frozen=True)
class Listening:
    """Where the server is to be reached."""

    host: str
    port: int
    scheme: str

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_usual = self.port == (443 if self.scheme == "https" else 80)
        return f"{self.scheme}://{host}" + ("" if is_usual else f":{self.port}")


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
        # asyncio sends small pieces at once only where a socket says that it is TCP.
        own = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
    _FINGERPRINTS[context] = certificate.fingerprint(hashes.SHA256()).hex(":").upper()


_FINGERPRINTS: WeakKeyDictionary[ssl.SSLContext, str] = WeakKeyDictionary()


def fingerprint(context: ssl.SSLContext) -> str:
    """The SHA-256 of a certificate that was made for the run."""
    return _FINGERPRINTS[context]


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
