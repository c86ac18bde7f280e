"""`deltacli share schemas`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    Asking,
    open_server,
)
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli share schemas sales --profile acme.share", ""),
    ("deltacli share schemas acme.share#sales", "the same"),
)


def share_schemas(
    options: CommonOptions,
    asking: Asking,
    share: Annotated[
        str,
        typer.Argument(
            metavar="SHARE",
            help="A share, or with its profile: me.share#sales.",
            show_default=False,
        ),
    ],
) -> None:
    """List the schemas of a share."""
    from deltacli.operations.share_client import list_schemas

    session = Session(options)
    server, name = open_server(session, asking, share)
    session.show(list_schemas(server, name))
