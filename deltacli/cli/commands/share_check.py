"""`deltacli share check`."""

from __future__ import annotations

from dataclasses import replace

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.session import Session
from deltacli.cli.sharing import ConfigOpt

EXAMPLES = (
    ("deltacli share check -c shares.yaml", "before the server is started, or reloaded"),
    ("deltacli share check -c shares.yaml -o json", "with what each table needs"),
)


def share_check(options: CommonOptions, config: ConfigOpt) -> None:
    """Open every table of a configuration and say what each client can do with it.

    A client that knows only the parquet format, the Python client and the Spark connector
    are told apart. If a table cannot be shared the reason is shown, and the exit code is 1.
    """
    from deltacli.operations.share_check import Outcome, check_shares
    from deltacli.sharing.server.config import load_config

    session = Session(options)
    outcome = Outcome()
    listing, warnings = check_shares(load_config(config), outcome)
    session.warn(warnings)
    # A screen that has enough of them is no reason not to look at the others.
    session.show(replace(listing, rows=list(listing.rows)))
    if outcome.problems:
        raise typer.Exit(1)
