"""`deltacli share version`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    DEFAULT_TIMEOUT,
    AllowHttpOpt,
    ProfileOpt,
    SharedTableArg,
    TimeoutOpt,
    named_table,
    open_server,
)
from deltacli.cli.session import Session
from deltacli.operations.share_client import show_version
from deltacli.units import iso_time, parse_instant

EXAMPLES = (
    ("deltacli share version acme.share#sales.eu.orders", ""),
    ("deltacli share version sales.eu.orders --from yesterday", "the first one since"),
)


def share_version(
    options: CommonOptions,
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
    profile: ProfileOpt = None,
    allow_http: AllowHttpOpt = False,
    timeout: TimeoutOpt = DEFAULT_TIMEOUT,
) -> None:
    """Show the newest version of a shared table."""
    session = Session(options)
    moment = None
    if since is not None:
        moment = iso_time(parse_instant(since, zone=session.zone, now_ms=session.now_ms))
    profile, name = named_table(table, profile)
    server = open_server(session, profile, allow_http=allow_http, timeout=timeout)
    session.show(show_version(server, name, moment))
