"""`deltacli share recipient grant`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import ALL_COMMON, CommonOptions
from deltacli.cli.session import Session
from deltacli.cli.sharing import ConfigOpt, RecipientArg

COMMON = tuple(one for one in ALL_COMMON if one != "storage_option")
EXAMPLES = (
    ("deltacli share recipient grant acme sales hr -c shares.yaml", ""),
    ("deltacli share recipient grant acme hr --take-back -c shares.yaml", "no more"),
)


def share_recipient_grant(
    options: CommonOptions,
    name: RecipientArg,
    shares: Annotated[
        list[str],
        typer.Argument(
            metavar="SHARE...", help="Names of shares, * for every one.", show_default=False
        ),
    ],
    config: ConfigOpt,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Take the shares back instead.")
    ] = False,
) -> None:
    """Grant shares to a recipient, or take them back.

    A recipient reaches everything in a share. A running server follows at once.
    """
    from deltacli.operations.share_recipients import grant_shares, open_registry
    from deltacli.sharing.server.config import load_config

    session = Session(options)
    registry = open_registry(load_config(config), session.now_ms)
    session.show_done(grant_shares(registry, name, shares, take_back=take_back))
