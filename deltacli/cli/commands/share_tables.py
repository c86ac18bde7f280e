"""`deltacli share tables`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    Asking,
    open_server,
)
from deltacli.cli.session import Session
from deltacli.errors import UsageError

EXAMPLES = (
    ("deltacli share tables --profile acme.share", "of all shares"),
    ("deltacli share tables acme.share#sales --schema eu", "of one schema"),
)


def share_tables(
    options: CommonOptions,
    asking: Asking,
    share: Annotated[
        str | None,
        typer.Argument(
            metavar="SHARE",
            help="A share, or with its profile: me.share#sales. All of them without.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="NAME", help="Only of this schema.", show_default=False),
    ] = None,
) -> None:
    """List the tables that a profile can read."""
    from deltacli.operations.share_client import list_tables

    session = Session(options)
    server, name = open_server(session, asking, share or "")
    if schema is not None and not name:
        raise UsageError("--schema is one of a share", hint="name the share as well")
    session.show(list_tables(server, name or None, schema))
