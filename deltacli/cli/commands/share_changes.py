"""`deltacli share changes`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    DEFAULT_TIMEOUT,
    AllowHttpOpt,
    PageSizeOpt,
    ProfileOpt,
    ResponseFormat,
    ResponseFormatOpt,
    SharedTableArg,
    TimeoutOpt,
    named_table,
    open_server,
    shared_at,
)
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli share changes acme.share#sales.eu.orders --from 40 --to 42", "files"),
    ("deltacli share changes sales.eu.orders --from yesterday --rows -o jsonl", "rows"),
)


def share_changes(
    options: CommonOptions,
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
    profile: ProfileOpt = None,
    allow_http: AllowHttpOpt = False,
    timeout: TimeoutOpt = DEFAULT_TIMEOUT,
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
    profile, name = named_table(table, profile)
    server = open_server(
        session,
        profile,
        allow_http=allow_http,
        timeout=timeout,
        response_format=response_format,
        page_size=page_size,
    )
    if rows:
        session.show(show_changed_rows(server, name, asked))
        return
    session.show(list_changes(server, name, asked, session.progress))
