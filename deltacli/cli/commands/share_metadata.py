"""`deltacli share metadata`."""

from __future__ import annotations

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    DEFAULT_TIMEOUT,
    AllowHttpOpt,
    ProfileOpt,
    ResponseFormat,
    ResponseFormatOpt,
    SharedAtOpt,
    SharedTableArg,
    TimeoutOpt,
    named_table,
    open_server,
    shared_at,
)
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli share metadata acme.share#sales.eu.orders", ""),
    ("deltacli share metadata sales.eu.orders --at 42 -o json", "of an older version"),
)


def share_metadata(
    options: CommonOptions,
    table: SharedTableArg,
    at: SharedAtOpt = None,
    response_format: ResponseFormatOpt = ResponseFormat.AUTO,
    profile: ProfileOpt = None,
    allow_http: AllowHttpOpt = False,
    timeout: TimeoutOpt = DEFAULT_TIMEOUT,
) -> None:
    """Show what a server tells of a table: schema, partition columns, size, needed features."""
    from deltacli.operations.share_client import show_metadata

    session = Session(options)
    profile, name = named_table(table, profile)
    server = open_server(
        session,
        profile,
        allow_http=allow_http,
        timeout=timeout,
        response_format=response_format,
    )
    session.show(show_metadata(server, name, shared_at(session, at)))
