"""Recipients: who has which token, and what was granted to whom.

Of a token only its SHA-256 is kept: it is random enough that no slower hash is needed. The
file is replaced atomically, under a lock, and a running server sees it at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltacli.delta import json_text
from deltacli.errors import NotFound, StorageError, UsageError
from deltacli.sharing.names import same_name
from deltacli.sharing.profile import write_private
from deltacli.sharing.server.seals import KEY_BYTES, new_key

PREFIX = "dcs_"
EVERY_SHARE = "*"
_RECIPIENTS, _KEY, _LOCK = "recipients.json", "key", "lock"


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept. `last4` tells people which one it is."""

    sha256: str
    last4: str
    created_ms: int
    expires_ms: int | None

    @property
    def id(self) -> str:
        """What names it without telling anything of it."""
        return self.sha256[:16]

    def is_live(self, now_ms: int) -> bool:
        return self.expires_ms is None or now_ms < self.expires_ms


@dataclass(frozen=True, slots=True)
class Recipient:
    """`shares` are the names granted, or EVERY_SHARE. Without tokens it is revoked."""

    name: str
    shares: tuple[str, ...]
    tokens: tuple[Token, ...]
    created_ms: int

    def may_see(self, share: str) -> bool:
        return EVERY_SHARE in self.shares or same_name(share) in map(same_name, self.shares)


@dataclass(frozen=True)
class Recipients:
    """All recipients of a server."""

    known: tuple[Recipient, ...] = ()

    def __post_init__(self) -> None:
        by_digest = {
            token.sha256: (recipient, token)
            for recipient in self.known
            for token in recipient.tokens
        }
        object.__setattr__(self, "_by_digest", by_digest)

    def of_token(self, secret: str) -> tuple[Recipient, Token] | None:
        """Who has this token; whether it is still live is the caller's to ask."""
        found: Mapping[str, tuple[Recipient, Token]] = self._by_digest  # type: ignore[attr-defined]
        return found.get(digest(secret))

    def named(self, name: str) -> Recipient | None:
        return next((one for one in self.known if same_name(one.name) == same_name(name)), None)

    def live(self, name: str, token_id: str, now_ms: int) -> Recipient | None:
        """A recipient, if this token of its still works."""
        recipient = self.named(name)
        tokens = recipient.tokens if recipient else ()
        works = any(one.id == token_id and one.is_live(now_ms) for one in tokens)
        return recipient if works else None

    def with_one(self, recipient: Recipient) -> Recipients:
        """The same with a recipient added, or changed."""
        others = (one for one in self.known if same_name(one.name) != same_name(recipient.name))
        return Recipients((*others, recipient))


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(now_ms: int, expires_ms: int | None) -> tuple[str, Token]:
    """A new secret, and what is kept of it."""
    secret = PREFIX + secrets.token_urlsafe(32)
    return secret, kept_token(secret, now_ms, expires_ms)


def kept_token(secret: str, now_ms: int, expires_ms: int | None) -> Token:
    # The end of a short secret would tell too much.
    last4 = secret[-4:] if len(secret) >= 16 else ""
    return Token(digest(secret), last4, now_ms, expires_ms)


def rotated(recipient: Recipient, token: Token, now_ms: int, grace_ms: int) -> Recipient:
    """The recipient with a new token; older ones go on for a while at most."""
    end = now_ms + grace_ms
    kept = tuple(
        replace(one, expires_ms=end if one.expires_ms is None else min(one.expires_ms, end))
        for one in recipient.tokens
        if grace_ms > 0 and one.is_live(now_ms)
    )
    return replace(recipient, tokens=(*kept, token))


class RecipientState:
    """The folder that keeps recipients and the signing key of a configuration."""

    def __init__(self, folder: str):
        self.folder = folder
        self._path = os.path.join(folder, _RECIPIENTS)
        self._seen: tuple[int, int, int] | None = None
        self._current = Recipients()

    def current(self) -> Recipients:
        """The recipients as the file has them now; read again only if it changed."""
        try:
            stat = os.stat(self._path)
        except FileNotFoundError:
            self._seen, self._current = None, Recipients()
            return self._current
        except OSError as error:
            raise _unreadable(self._path, error) from error
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen != self._seen:
            self._current = self._load()
            self._seen = seen
        return self._current

    def _load(self) -> Recipients:
        try:
            with open(self._path, "rb") as file:
                body = json_text.load(file.read())
            return Recipients(tuple(_parsed(one) for one in body["recipients"]))
        except OSError as error:
            raise _unreadable(self._path, error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"{self._path} is not a file of recipients: {error}",
                hint="restore it from a backup; recipients cannot be told without it",
            ) from None

    @contextlib.contextmanager
    def changing(self) -> Iterator[Recipients]:
        """The recipients, with nobody else changing them meanwhile."""
        self._make_folder()
        import fcntl

        with open(os.path.join(self.folder, _LOCK), "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._seen = None
            yield self.current()

    def save(self, recipients: Recipients) -> None:
        body = {"version": 1, "recipients": [_body(one) for one in recipients.known]}
        write_private(self._path, json_text.dump(body, indent=True).decode() + "\n")

    def key(self) -> bytes:
        """The signing key; it is made when it is first asked for."""
        path = os.path.join(self.folder, _KEY)
        try:
            with open(path, encoding="ascii") as file:
                key = bytes.fromhex(file.read().strip())
        except FileNotFoundError:
            self._make_folder()
            key = new_key()
            write_private(path, key.hex() + "\n")
            return key
        except OSError as error:
            raise _unreadable(path, error) from error
        except ValueError:
            key = b""
        if len(key) != KEY_BYTES:
            raise UsageError(
                f"{path} is not a signing key",
                hint="remove it: a new one is made, and all URLs that are out become void",
            )
        return key

    def _make_folder(self) -> None:
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot make the folder {self.folder}: {error.strerror}",
                hint="name another one by the key `state` of the configuration",
            ) from error


def _unreadable(path: str, error: OSError) -> StorageError:
    return StorageError(
        f"cannot read {path}: {error.strerror}", hint="check its permissions", location=path
    )


def _parsed(body: Mapping[str, Any]) -> Recipient:
    """Raises KeyError, TypeError or ValueError."""
    tokens = []
    for one in body["tokens"]:
        expires_ms = one["expiresMs"]
        if not isinstance(expires_ms, int | None) or not isinstance(one["sha256"], str):
            raise ValueError("a token is none")
        tokens.append(Token(one["sha256"], str(one["last4"]), int(one["createdMs"]), expires_ms))
    shares = body["shares"]
    if not isinstance(shares, list) or not all(isinstance(one, str) for one in shares):
        raise ValueError("shares is not a list of names")
    return Recipient(str(body["name"]), tuple(shares), tuple(tokens), int(body["createdMs"]))


def _body(recipient: Recipient) -> dict[str, Any]:
    return {
        "name": recipient.name,
        "shares": list(recipient.shares),
        "createdMs": recipient.created_ms,
        "tokens": [
            {
                "sha256": one.sha256,
                "last4": one.last4,
                "createdMs": one.created_ms,
                "expiresMs": one.expires_ms,
            }
            for one in recipient.tokens
        ],
    }


def find_recipient(recipients: Recipients, name: str) -> Recipient:
    """Raises NotFound."""
    found = recipients.named(name)
    if found is None:
        names = ", ".join(one.name for one in recipients.known)
        raise NotFound(
            f"there is no recipient {name!r}",
            hint=f"the recipients are {names}" if names else "share recipient add makes one",
        )
    return found
