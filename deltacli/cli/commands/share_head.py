"""`deltacli share head`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.engines import EngineWish
from deltacli.cli.options import (
    CommonOptions,
    Engine,
    EngineOpt,
    SparkConfOpt,
    SparkMasterOpt,
    column_names,
)
from deltacli.cli.recipient import (
    Asking,
    ResponseFormat,
    ResponseFormatOpt,
    SharedAtOpt,
    SharedTableArg,
    WhereOpt,
    open_table,
    shared_at,
)
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli share head acme.share#sales.eu.orders", "ten rows"),
    ("deltacli share head sales.eu.orders --where \"country = 'DE'\" -n 3 -o json", ""),
    ("deltacli share head sales.eu.orders --at 42 --columns id,total", "of an older version"),
)


def share_head(
    options: CommonOptions,
    asking: Asking,
    table: SharedTableArg,
    limit: Annotated[
        int,
        typer.Option("-n", "--rows", min=0, max=2**31 - 1, metavar="N", help="At most so many."),
    ] = 10,
    at: SharedAtOpt = None,
    where: WhereOpt = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B", help="Only these columns.", show_default=False),
    ] = None,
    response_format: ResponseFormatOpt = ResponseFormat.AUTO,
    engine: EngineOpt = Engine.AUTO,
    spark_master: SparkMasterOpt = None,
    spark_conf: SparkConfOpt = None,
) -> None:
    """Show some rows of a shared table.

    Deleted rows are left out, columns have the table's names and types. Only the files that
    are needed are read, and of them only the columns. What takes a whole SQL engine, or a
    search through much data, goes to Spark if it is installed.
    """
    from deltacli.operations.head import HeadRequest
    from deltacli.operations.share_rows import plan_shared_head, show_shared_head

    session = Session(options, EngineWish.of(engine, spark_master, spark_conf))
    request = HeadRequest(limit, column_names(columns), where)
    server, name = open_table(session, asking, table, response_format)
    plan = plan_shared_head(
        server, name, shared_at(session, at), request, session.wish.choice.value
    )
    session.warn(plan.version.warnings)
    session.explain(f"rows are read by the {plan.engine} engine: {plan.reason}")
    session.show(show_shared_head(plan, session.spark_settings))
