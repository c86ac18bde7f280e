"""`deltacli share download`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions, column_names
from deltacli.cli.recipient import (
    Asking,
    PageSizeOpt,
    ResponseFormat,
    ResponseFormatOpt,
    SharedAtOpt,
    SharedTableArg,
    open_table,
    shared_at,
)
from deltacli.cli.session import Session


class Kind(StrEnum):
    DELTA = "delta"
    PARQUET = "parquet"


EXAMPLES = (
    ("deltacli share download acme.share#sales.eu.orders ./orders", "a table of one's own"),
    ("deltacli share download sales.eu.orders ./orders --as parquet --columns id,total", ""),
)


def share_download(
    options: CommonOptions,
    asking: Asking,
    table: SharedTableArg,
    target: Annotated[
        str, typer.Argument(metavar="FOLDER", help="A new folder.", show_default=False)
    ],
    kind: Annotated[
        Kind,
        typer.Option(
            "--as",
            help="A Delta table, with files as they are; or plain Parquet files with the rows.",
        ),
    ] = Kind.DELTA,
    at: SharedAtOpt = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="SQL",
            help="Only rows for which this is true, as Parquet.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="A,B", help="Only these columns, as Parquet.", show_default=False
        ),
    ] = None,
    page_size: PageSizeOpt = None,
    response_format: ResponseFormatOpt = ResponseFormat.AUTO,
) -> None:
    """Copy a version of a shared table to a folder on this machine.

    As `delta`, all its files with a log of one commit: a table that every tool reads. As
    `parquet`, its rows by names and types of the table, deleted ones left out. The folder is
    there when everything is in it, or not at all; a process that is killed leaves FOLDER.….part.
    """
    from deltacli.operations.share_download import apply_download, plan_download

    session = Session(options)
    session.check_places(None)
    server, name = open_table(session, asking, table, response_format, page_size)
    plan = plan_download(
        server,
        name,
        shared_at(session, at),
        target,
        kind.value,
        columns=column_names(columns),
        where=where,
    )
    session.warn(plan.version.warnings)
    session.explain(f"{len(plan.lines)} files of {plan.size:,} bytes are to be read")
    with session.progress:
        done = apply_download(plan, session.now_ms, session.progress)
    session.show_done(done)
