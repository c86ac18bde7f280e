"""`deltacli history`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import AllowCatalogOpt, CommonOptions, TableArg
from deltacli.cli.session import Session
from deltacli.delta.segment import list_log
from deltacli.errors import UsageError
from deltacli.operations.history import HistoryRange, describe_history

EXAMPLES = (
    ("deltacli history ./orders", "all commits, newest first"),
    ("deltacli history ./orders --limit 20 --operation MERGE", "the last 20 merges"),
    ("deltacli history s3://bucket/orders -o jsonl --fields version,timestamp,operation", ""),
    ("deltacli history ./orders --chart", "files and bytes over time"),
)


def history(
    options: CommonOptions,
    table: TableArg,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", help="Only the N newest.", show_default=False),
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(
            "--from", metavar="V", min=0, help="From this version on.", show_default=False
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--to", metavar="V", min=0, help="Up to this version.", show_default=False),
    ] = None,
    operation: Annotated[
        str | None,
        typer.Option(
            "--operation",
            metavar="NAME",
            help="Only commits of this operation, such as WRITE.",
            show_default=False,
        ),
    ] = None,
    chart: Annotated[
        bool,
        typer.Option("--chart", help="Add live files and bytes at each version, and their course."),
    ] = False,
    allow_catalog_managed: AllowCatalogOpt = False,
) -> None:
    """Show a table's commits, newest first.

    Every key of commitInfo is kept: those that DESCRIBE HISTORY does not know stand in
    `extra`. `recreatable` tells whether the version can still be rebuilt.
    """
    session = Session(options)
    store, at = session.open(table)
    if at is not None:
        if not at.startswith("v") or last is not None:
            raise UsageError(
                f"{table!r} names one version", hint="history takes --from and --to instead"
            )
        last = int(at[1:])
    wanted = HistoryRange(limit, first, last, operation)
    listing = list_log(store)
    found = describe_history(store, listing, wanted, allow_catalog_managed=allow_catalog_managed)
    footer: list[str] = []
    if chart:
        from deltacli.operations.chart import add_sizes
        from deltacli.render.chart import size_chart

        footer = size_chart(add_sizes(found, store, listing, session.engine))
    session.show(found.listing(footer))
    session.warn(found.warnings)
    for note in found.notes:
        session.note(note)
    if found.failure:
        raise found.failure
