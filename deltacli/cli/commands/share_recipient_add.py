"""`deltacli share recipient add`."""

from __future__ import annotations

from shlex import quote
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

COMMON = ("quiet", "debug")
EXAMPLES = (
    ("deltacli share recipient add acme --share sales -c shares.yaml > acme.share", ""),
    ("deltacli share recipient add bi --share '*' -c shares.yaml", "every share"),
)


def share_recipient_add(
    options: CommonOptions,
    name: RecipientArg,
    config: ConfigOpt,
    share: Annotated[
        list[str] | None,
        typer.Option(
            "--share",
            metavar="SHARE",
            help="A share to grant, * for every one; may be repeated.",
            show_default=False,
        ),
    ] = None,
    expires: ExpiresOpt = DEFAULT_EXPIRY,
    profile_out: ProfileOutOpt = None,
) -> None:
    """Make a recipient and its profile.

    The profile is what the recipient gets: the endpoint and a token. It is shown once: only a
    hash of the token is kept. A running server knows the recipient at once.
    """
    from deltacli.operations.share_recipients import add_recipient, open_registry
    from deltacli.sharing.profile import check_place
    from deltacli.sharing.server.config import load_config

    session = Session(options)
    if profile_out is not None:
        check_place(profile_out, may_replace=False)
    registry = open_registry(load_config(config), session.now_ms)
    ends_ms = expiry(expires, session.now_ms)
    given = add_recipient(registry, name, share or (), ends_ms)
    if not share:
        command = f"deltacli share recipient grant {quote(name)} SHARE -c {quote(str(config))}"
        session.warn([f"no share is granted; do it by `{command}`"])
    give(session, given, profile_out)
