"""`deltacli share files`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.recipient import (
    Asking,
    PageSizeOpt,
    ResponseFormat,
    ResponseFormatOpt,
    SharedAtOpt,
    SharedTableArg,
    WhereOpt,
    open_table,
    shared_at,
)
from deltacli.cli.session import Session
from deltacli.errors import UsageError

EXAMPLES = (
    ("deltacli share files acme.share#sales.eu.orders", ""),
    ("deltacli share files sales.eu.orders -o jsonl | jq -r .url", "to fetch them otherwise"),
    ("deltacli share files sales.eu.orders --where \"day >= date '2026-03-01'\"", ""),
    ("deltacli share files sales.eu.orders --from 40 --to 42", "added and removed since"),
)


def share_files(
    options: CommonOptions,
    asking: Asking,
    table: SharedTableArg,
    at: SharedAtOpt = None,
    where: WhereOpt = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            min=0,
            help="Files that surely hold so many rows are enough.",
            show_default=False,
        ),
    ] = None,
    json_hint: Annotated[
        str | None,
        typer.Option(
            "--json-hint",
            metavar="TREE",
            help="A condition as the server's jsonPredicateHints, instead of --where.",
            show_default=False,
        ),
    ] = None,
    sql_hint: Annotated[
        list[str] | None,
        typer.Option(
            "--sql-hint",
            metavar="SQL",
            help="A condition as one of the server's predicateHints; may be repeated.",
            show_default=False,
        ),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(
            "--from",
            metavar="V",
            min=0,
            help="What commits added and removed, from this version on.",
            show_default=False,
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--to",
            metavar="V",
            min=0,
            help="Up to this version.",
            show_default=False,
        ),
    ] = None,
    page_size: PageSizeOpt = None,
    response_format: ResponseFormatOpt = ResponseFormat.AUTO,
) -> None:
    """List the files of a shared table with their URLs, which can be read without a profile.

    Hints save files; those that cannot match --where are left out here once more. URLs are
    as good as the data while they last: treat them as secrets.
    """
    from deltacli.operations.share_client import Wish, list_added, list_files

    session = Session(options)
    wish = Wish(where, limit, json_hint, tuple(sql_hint or ()))
    if where is not None and json_hint is not None:
        raise UsageError("--where makes a --json-hint itself", hint="use one of them")
    if first is None and last is not None:
        raise UsageError("--to is the end of a range", hint="--from begins it")
    if first is not None and (at is not None or wish != Wish()):
        raise UsageError(
            "--from lists what commits added and removed, all of it",
            hint="leave --at, --where, --limit and hints out",
        )
    if first is not None and last is not None and last < first:
        raise UsageError(f"--to {last} is before --from {first}", hint="name a range")
    server, name = open_table(session, asking, table, response_format, page_size)
    if first is not None:
        listing = list_added(server, name, first, last, session.progress)
    else:
        listing, version = list_files(server, name, shared_at(session, at), wish, session.progress)
        session.warn(version.warnings)
        session.explain(f"the table is at version {version.version}")
    session.show(listing)
