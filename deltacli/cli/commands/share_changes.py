"""`deltacli share changes`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    Asking,
    PageSizeOpt,
    ResponseFormat,
    ResponseFormatOpt,
    SharedTableArg,
    open_table,
    shared_at,
)
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli share changes acme.share#sales.eu.orders --from 40 --to 42", "files"),
    ("deltacli share changes sales.eu.orders --from yesterday --rows -o jsonl", "rows"),
)


def share_changes(
    options: CommonOptions,
    asking: Asking,
    table: SharedTableArg,
    first: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="V|TIME",
            help="The first version, or the first at or after a time or age.",
            show_default=False,
        ),
    ],
    last: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="V|TIME",
            help="The last version, or the last at or before a time; the newest without.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        bool,
        typer.Option("--rows", help="The rows that changed, instead of the files with them."),
    ] = False,
    page_size: PageSizeOpt = None,
    response_format: ResponseFormatOpt = ResponseFormat.AUTO,
) -> None:
    """Show what commits changed, where a table records its changes and shares its history.

    With --rows each row says how it changed (_change_type), and when (_commit_version,
    _commit_timestamp); columns are those of the newest version.
    """
    from deltacli.operations.share_client import list_changes
    from deltacli.operations.share_rows import show_changed_rows
    from deltacli.sharing.client.server import Range

    session = Session(options)
    asked = Range(shared_at(session, first, "--from"), shared_at(session, last, "--to"))
    server, name = open_table(session, asking, table, response_format, page_size)
    if rows:
        session.show(show_changed_rows(server, name, asked))
        return
    session.show(list_changes(server, name, asked, session.progress))
