"""`deltacli share shares`."""

from __future__ import annotations

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    Asking,
    open_server,
)
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli share shares --profile acme.share", ""),
    ("DELTACLI_PROFILE=acme.share deltacli share shares -o json", "for all of `share`"),
)


def share_shares(options: CommonOptions, asking: Asking) -> None:
    """List the shares that a profile can read."""
    from deltacli.operations.share_client import list_shares

    session = Session(options)
    server, _ = open_server(session, asking, "")
    session.show(list_shares(server))
