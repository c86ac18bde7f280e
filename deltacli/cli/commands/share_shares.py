"""`deltacli share shares`."""

from __future__ import annotations

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    DEFAULT_TIMEOUT,
    AllowHttpOpt,
    ProfileOpt,
    TimeoutOpt,
    open_server,
)
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli share shares --profile acme.share", ""),
    ("DELTACLI_PROFILE=acme.share deltacli share shares -o json", "for all of `share`"),
)


def share_shares(
    options: CommonOptions,
    profile: ProfileOpt = None,
    allow_http: AllowHttpOpt = False,
    timeout: TimeoutOpt = DEFAULT_TIMEOUT,
) -> None:
    """List the shares that a profile can read."""
    from deltacli.operations.share_client import list_shares

    session = Session(options)
    session.show(list_shares(open_server(session, profile, allow_http=allow_http, timeout=timeout)))
