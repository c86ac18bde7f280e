"""`deltacli share version`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    Asking,
    SharedTableArg,
    open_table,
)
from deltacli.cli.session import Session
from deltacli.units import iso_time, parse_instant

EXAMPLES = (
    ("deltacli share version acme.share#sales.eu.orders", ""),
    ("deltacli share version sales.eu.orders --from yesterday", "the first one since"),
)


def share_version(
    options: CommonOptions,
    asking: Asking,
    table: SharedTableArg,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="The first version at or after this time or age.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show the newest version of a shared table."""
    from deltacli.operations.share_client import show_version

    session = Session(options)
    moment = None
    if since is not None:
        moment = iso_time(parse_instant(since, zone=session.zone, now_ms=session.now_ms))
    server, name = open_table(session, asking, table)
    session.show(show_version(server, name, moment))
