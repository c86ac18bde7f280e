"""`deltacli share recipient rotate`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.session import Session
from deltacli.cli.sharing import (
    DEFAULT_EXPIRY,
    ConfigOpt,
    ExpiresOpt,
    ProfileOutOpt,
    RecipientArg,
    expiry,
    give,
)
from deltacli.units import parse_duration

COMMON = ("quiet", "debug")
EXAMPLES = (
    ("deltacli share recipient rotate acme -c shares.yaml > acme.share", ""),
    ("deltacli share recipient rotate acme -c shares.yaml --grace 0s", "the old one ends now"),
)


def share_recipient_rotate(
    options: CommonOptions,
    name: RecipientArg,
    config: ConfigOpt,
    grace: Annotated[
        str,
        typer.Option("--grace", metavar="DURATION", help="How long older tokens go on working."),
    ] = "24h",
    expires: ExpiresOpt = DEFAULT_EXPIRY,
    profile_out: ProfileOutOpt = None,
) -> None:
    """Give a recipient a new token and profile.

    Older tokens go on for the grace, so that the recipient can change over. A revoked
    recipient is let in again.
    """
    from deltacli.operations.share_recipients import open_registry, rotate_recipient
    from deltacli.sharing.profile import check_place
    from deltacli.sharing.server.config import load_config

    session = Session(options)
    grace_ms = parse_duration(grace)
    if profile_out is not None:
        check_place(profile_out, may_replace=True)
    registry = open_registry(load_config(config), session.now_ms)
    ends_ms = expiry(expires, session.now_ms)
    give(session, rotate_recipient(registry, name, ends_ms, grace_ms), profile_out)
