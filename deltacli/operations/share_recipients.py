"""`share recipient`: who may read what is shared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltacli.errors import Refused, UsageError
from deltacli.operations.records import Document, Listing
from deltacli.sharing.names import name_problem, same_name
from deltacli.sharing.profile import Bearer, Profile
from deltacli.sharing.server.config import Config
from deltacli.sharing.server.listening import Listening, endpoint_url
from deltacli.sharing.server.recipients import (
    EVERY_SHARE,
    Recipient,
    RecipientState,
    find_recipient,
    new_token,
    rotated,
)
from deltacli.units import iso_time

RECIPIENT_FIELDS = ("name", "status", "shares", "tokens", "expiresAt", "createdAt")


@dataclass(frozen=True)
class Registry:
    """The recipients of a configuration, ready to be changed."""

    config: Config
    state: RecipientState
    now_ms: int

    @property
    def endpoint(self) -> str:
        """What recipients are told to connect to."""
        config = self.config
        if config.public_url is None and config.port == 0:
            raise UsageError(
                "the port of the server is not known",
                hint="say port or publicUrl in the configuration",
            )
        own = Listening(config.host, config.port, "https" if config.tls else "http")
        return endpoint_url(own, config.public_url, config.endpoint)


def open_registry(config: Config, now_ms: int) -> Registry:
    return Registry(config, RecipientState(config.state or ""), now_ms)


def add_recipient(
    registry: Registry, name: str, shares: Sequence[str], expires_ms: int | None
) -> Profile:
    """Make a recipient. Raises UsageError if there is one of that name."""
    problem = name_problem(name, may_have_dots=True)
    if problem:
        raise UsageError(
            f"the name {name!r} cannot be used: {problem}", hint="use letters, digits, - and _"
        )
    granted = _known_shares(registry.config, shares)
    endpoint = registry.endpoint
    with registry.state.changing() as recipients:
        if recipients.named(name) is not None:
            raise UsageError(
                f"there is a recipient {name!r} already",
                hint="share recipient rotate gives it a new token, grant more shares",
            )
        secret, token = new_token(registry.now_ms, expires_ms)
        recipient = Recipient(name, granted, (token,), registry.now_ms)
        registry.state.save(recipients.with_one(recipient))
    return Profile(endpoint, Bearer(secret), expires_ms)


def rotate_recipient(
    registry: Registry, name: str, expires_ms: int | None, grace_ms: int
) -> Profile:
    """A new token for a recipient; older ones end after the grace."""
    endpoint = registry.endpoint
    with registry.state.changing() as recipients:
        recipient = find_recipient(recipients, name)
        secret, token = new_token(registry.now_ms, expires_ms)
        changed = rotated(recipient, token, registry.now_ms, grace_ms)
        registry.state.save(recipients.with_one(changed))
    return Profile(endpoint, Bearer(secret), expires_ms)


def revoke_recipient(registry: Registry, name: str) -> Document:
    """Take all tokens of a recipient away, at once. Its grants are kept for a later token."""
    with registry.state.changing() as recipients:
        recipient = replace(find_recipient(recipients, name), tokens=())
        registry.state.save(recipients.with_one(recipient))
    return Document(_row(recipient, registry.now_ms), "recipient")


def grant_shares(
    registry: Registry, name: str, shares: Sequence[str], *, take_back: bool
) -> Document:
    """Grant shares to a recipient, or take them back."""
    with registry.state.changing() as recipients:
        recipient = find_recipient(recipients, name)
        if take_back:
            changed = _without(recipient, shares)
        else:
            granted = _known_shares(registry.config, shares)
            changed = (*recipient.shares, *(one for one in granted if one not in recipient.shares))
        recipient = replace(recipient, shares=changed)
        registry.state.save(recipients.with_one(recipient))
    return Document(_row(recipient, registry.now_ms), "recipient")


def _without(recipient: Recipient, shares: Sequence[str]) -> tuple[str, ...]:
    for share in shares:
        if same_name(share) not in map(same_name, recipient.shares):
            every = EVERY_SHARE in recipient.shares
            raise Refused(
                f"{recipient.name} was not granted {share!r}",
                hint="it was granted every share: take * back, and grant single ones"
                if every
                else f"it was granted {', '.join(recipient.shares) or 'nothing'}",
            )
    gone = set(map(same_name, shares))
    return tuple(one for one in recipient.shares if same_name(one) not in gone)


def _known_shares(config: Config, shares: Sequence[str]) -> tuple[str, ...]:
    """The shares as they are configured. Raises UsageError for one that is not."""
    known = {same_name(one.name): one.name for one in config.shares}
    found = []
    for share in shares:
        if share == EVERY_SHARE:
            found.append(EVERY_SHARE)
        elif same_name(share) in known:
            found.append(known[same_name(share)])
        else:
            names = ", ".join(known.values())
            raise UsageError(
                f"there is no share {share!r}",
                hint=f"the shares are {names}" if names else "the configuration has none",
            )
    return tuple(dict.fromkeys(found))


def list_recipients(registry: Registry) -> Listing:
    known = sorted(registry.state.current().known, key=lambda one: same_name(one.name))
    rows = [_row(one, registry.now_ms) for one in known]
    return Listing(rows, RECIPIENT_FIELDS, RECIPIENT_FIELDS, "recipients")


def _row(recipient: Recipient, now_ms: int) -> dict[str, object]:
    live = [one for one in recipient.tokens if one.is_live(now_ms)]
    ends = [one.expires_ms for one in recipient.tokens]
    last = None if None in ends else max((one for one in ends if one is not None), default=None)
    status = "active" if live else "expired" if recipient.tokens else "revoked"
    return {
        "name": recipient.name,
        "status": status,
        "shares": list(recipient.shares),
        "tokens": [f"…{one.last4}" for one in live],
        "expiresAt": iso_time(last),
        "createdAt": iso_time(recipient.created_ms),
    }
