"""`deltacli share metadata`."""

from __future__ import annotations

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    Asking,
    ResponseFormat,
    ResponseFormatOpt,
    SharedAtOpt,
    SharedTableArg,
    open_table,
    shared_at,
)
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli share metadata acme.share#sales.eu.orders", ""),
    ("deltacli share metadata sales.eu.orders --at 42 -o json", "of an older version"),
)


def share_metadata(
    options: CommonOptions,
    asking: Asking,
    table: SharedTableArg,
    at: SharedAtOpt = None,
    response_format: ResponseFormatOpt = ResponseFormat.AUTO,
) -> None:
    """Show what a server tells of a table: schema, partition columns, size, needed features."""
    from deltacli.operations.share_client import show_metadata

    session = Session(options)
    server, name = open_table(session, asking, table, response_format)
    session.show(show_metadata(server, name, shared_at(session, at)))
