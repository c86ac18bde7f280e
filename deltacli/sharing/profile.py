"""Profile files: what a recipient is given to reach a server (seed: Profile File Format).

Version 1 has a bearer token; version 2, as clients of today write it, names its `type`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from deltacli.delta import json_text
from deltacli.errors import NotFound, Refused, StorageError, UsageError
from deltacli.units import human_span, is_text, iso_time

NEWEST_VERSION = 2
_MOST_BYTES = 65_536
_SOON_MS = 7 * 86_400_000
LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Bearer:
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Basic:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """The client credentials grant: a token is asked for, again and again."""

    token_endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


Credentials = Bearer | Basic | OAuthClient


@dataclass(frozen=True, slots=True)
class Profile:
    """The endpoint has no slash at its end."""

    endpoint: str
    credentials: Credentials
    expires_ms: int | None = None

    @property
    def text(self) -> str:
        """The file's content with a bearer token: version 1, which every client reads."""
        if not isinstance(self.credentials, Bearer):
            raise TypeError("only bearer tokens are given to recipients")
        body: dict[str, str | int] = {
            "shareCredentialsVersion": 1,
            "endpoint": self.endpoint,
            "bearerToken": self.credentials.token,
        }
        if self.expires_ms is not None:
            body["expirationTime"] = iso_time(self.expires_ms) or ""
        return json_text.dump(body, indent=True).decode() + "\n"


class BadProfile(Refused):
    """A file that is no profile, or one that cannot be used here."""

    usual_hint = "ask the provider for a new profile"


def load_profile(place: str, options: Mapping[str, str], *, allow_http: bool = False) -> Profile:
    """The profile in a file, at a URL, or on standard input (`-`)."""
    called = "standard input" if place == "-" else place
    try:
        return parse_profile(_content(place, options), allow_http=allow_http)
    except BadProfile as error:
        raise BadProfile(f"the profile {called}: {error.message}", hint=error.hint) from None


def _content(place: str, options: Mapping[str, str]) -> bytes:
    if place == "-":
        return sys.stdin.buffer.read(_MOST_BYTES + 1)
    if "://" not in place:
        try:
            with open(place, "rb") as file:
                return file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            raise NotFound(
                f"there is no profile {place}",
                hint="name the file that the provider gave: --profile FILE",
            ) from None
        except OSError as error:
            raise StorageError(f"cannot read the profile {place}: {error.strerror}") from error
    from deltacli.storage import FileMissing, open_store

    folder, _, name = place.rpartition("/")
    try:
        return open_store(folder, options).read(name)
    except FileMissing:
        raise NotFound(f"there is no profile {place}", hint="check the URL") from None


def parse_profile(content: bytes, *, allow_http: bool = False) -> Profile:
    """The profile of a file's content. Raises BadProfile."""
    try:
        body: Any = json_text.load(content[:_MOST_BYTES].removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise BadProfile(f"it is not JSON: {error}") from None
    if not isinstance(body, dict) or len(content) > _MOST_BYTES:
        raise BadProfile("it is not a JSON object of a profile's size")
    version = body.get("shareCredentialsVersion")
    if type(version) is not int or version < 1:
        raise BadProfile("shareCredentialsVersion is missing, or no number from 1 on")
    if version > NEWEST_VERSION:
        raise BadProfile(
            f"shareCredentialsVersion is {version}, and {NEWEST_VERSION} is the newest known here",
            hint="a newer deltacli may know it",
        )
    endpoint = _url(body, "endpoint", allow_http=allow_http).rstrip("/")
    return Profile(endpoint, _credentials(body, version, allow_http=allow_http), _expiry(body))


def _credentials(body: Mapping[str, Any], version: int, *, allow_http: bool) -> Credentials:
    kind = _text(body, "type") if version > 1 or body.get("type") is not None else "bearer_token"
    if kind == "bearer_token":
        return Bearer(_header_text(body, "bearerToken"))
    if kind == "basic":
        username = _text(body, "username")
        if ":" in username:
            raise BadProfile("username has a colon in it")
        return Basic(username, _text(body, "password"))
    if kind == "oauth_client_credentials":
        scope = None if body.get("scope") is None else _text(body, "scope")
        return OAuthClient(
            _url(body, "tokenEndpoint", allow_http=allow_http),
            _text(body, "clientId"),
            _text(body, "clientSecret"),
            scope,
        )
    raise BadProfile(
        f"type is {kind!r}; known here are bearer_token, basic and oauth_client_credentials",
        hint="ask the provider for a profile of one of these types",
    )


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise BadProfile(f"{name} is missing" if value in (None, "") else f"{name} is no text")
    if not is_text(value):
        raise BadProfile(f"{name} is no text")
    return value


def _header_text(body: Mapping[str, Any], name: str) -> str:
    """A text that can stand in a header."""
    value = _text(body, name).strip()
    if not value.isascii() or not value.isprintable() or " " in value:
        raise BadProfile(f"{name} has characters that no token has")
    return value


def _url(body: Mapping[str, Any], name: str, *, allow_http: bool) -> str:
    text = _text(body, name).strip()
    try:
        parts = urlsplit(text)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or not text.isascii() or " " in text:
        raise BadProfile(f"{name} is no URL: {text[:80]!r}")
    if parts.query or parts.fragment or parts.username is not None:
        raise BadProfile(f"{name} has more than a host and a path: {host}")
    if parts.scheme == "http" and host not in LOOPBACK and not allow_http:
        raise BadProfile(
            f"{name} is {text!r}: without TLS anybody on the way can read the credentials",
            hint="ask the provider for an https endpoint; --allow-http goes on without",
        )
    return text


def _expiry(body: Mapping[str, Any]) -> int | None:
    text = body.get("expirationTime")
    if text is None or text == "":
        return None
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise BadProfile(f"expirationTime is no time: {str(text)[:80]!r}") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def profile_warnings(profile: Profile, place: str, now_ms: int) -> list[str]:
    """What should be said of a profile that can be used; raises what keeps it from being used."""
    found = []
    expires_ms = profile.expires_ms
    if expires_ms is not None and expires_ms <= now_ms:
        raise Refused(
            f"the profile {place} expired at {iso_time(expires_ms)}",
            hint="ask the provider for a new profile",
        )
    if expires_ms is not None and expires_ms - now_ms < _SOON_MS:
        found.append(
            f"the profile {place} expires in {human_span(expires_ms - now_ms)}, at "
            f"{iso_time(expires_ms)}; ask the provider for a new one"
        )
    if "://" not in place and place != "-" and os.name == "posix":
        mode = os.stat(place).st_mode
        if stat.S_ISREG(mode) and mode & 0o077:
            found.append(f"others can read the profile {place}: chmod 600 {place}")
    return found


def check_place(path: str, *, may_replace: bool) -> None:
    """Raise what would go wrong with writing a profile there."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise StorageError(
            f"cannot write {path}", hint="check the place and its permissions", location=path
        )
    if os.path.exists(target) and not (may_replace and _is_profile(target)):
        raise UsageError(f"{path} exists already", hint="name another file, or remove it")


def _is_profile(path: str) -> bool:
    """Whether a file may be replaced by a newer profile: it is one."""
    try:
        with open(path, "rb") as file:
            body = json_text.load(file.read(65_536))
    except (OSError, ValueError):
        return False
    return isinstance(body, dict) and "shareCredentialsVersion" in body


def write_private(path: str, content: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    target = os.path.realpath(path)
    temporary = f"{target}.{os.urandom(8).hex()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise StorageError(
            f"cannot write {path}: {error.strerror}",
            hint="check the place and the space there",
            location=path,
        ) from error
