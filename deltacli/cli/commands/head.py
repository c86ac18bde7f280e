"""`deltacli head`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.engines import EngineWish
from deltacli.cli.options import (
    AllowCatalogOpt,
    AtOpt,
    CommonOptions,
    Engine,
    EngineOpt,
    SparkConfOpt,
    SparkMasterOpt,
    TableArg,
    column_names,
)
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli head ./orders", "ten rows, as the table has them"),
    ("deltacli head ./orders --where \"country = 'DE'\" -n 3 -o json", "some that match"),
    ("deltacli head ./orders --at 2026-03-09 --columns id,total", "of an older version"),
    ('deltacli head s3://bucket/big --where "year(day) = 2026" --engine spark', "by Spark"),
)


def head(
    options: CommonOptions,
    table: TableArg,
    limit: Annotated[
        int,
        typer.Option("-n", "--rows", min=0, max=2**31 - 1, metavar="N", help="At most so many."),
    ] = 10,
    at: AtOpt = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", metavar="SQL", help="Only rows for which this is true.", show_default=False
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option("--columns", metavar="A,B", help="Only these columns.", show_default=False),
    ] = None,
    engine: EngineOpt = Engine.AUTO,
    spark_master: SparkMasterOpt = None,
    spark_conf: SparkConfOpt = None,
    allow_catalog_managed: AllowCatalogOpt = False,
) -> None:
    """Show some rows of a version.

    Deleted rows are left out, columns have the table's names and types, files of the newest
    commits come first. Small answers are read here; conditions that take a whole SQL engine, and
    searches through much data, go to Spark if it is installed. -v says which and why.
    """
    from deltacli.operations.head import HeadRequest, plan_head, show_head

    session = Session(options, EngineWish.of(engine, spark_master, spark_conf))
    snapshot = session.snapshot(table, at, allow_catalog_managed=allow_catalog_managed)
    session.warn(snapshot.warnings)
    request = HeadRequest(limit, column_names(columns), where)
    plan = plan_head(snapshot, request, session.wish.choice.value, session.storage_options)
    session.explain(f"rows are read by the {plan.engine} engine: {plan.reason}")
    session.show(show_head(plan, session.spark_settings))
