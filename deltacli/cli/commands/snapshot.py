"""`deltacli snapshot`."""

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
)
from deltacli.cli.session import Session
from deltacli.delta.snapshot import Snapshot
from deltacli.errors import UsageError
from deltacli.operations import describe, files
from deltacli.operations.records import Document, Listing

EXAMPLES = (
    ("deltacli snapshot ./orders", "version, size, rows, properties, schema"),
    ("deltacli snapshot ./orders --at '3 days ago'", "the same as it was then"),
    ("deltacli snapshot ./orders --fields version,numFiles -o json", "reads no statistics"),
    ("deltacli snapshot s3://bucket/orders --files -o jsonl", "every live file, streamed"),
    ("deltacli snapshot ./orders --diff 12", "what changed since version 12"),
)


def snapshot(
    options: CommonOptions,
    table: TableArg,
    at: AtOpt = None,
    files_view: Annotated[
        bool, typer.Option("--files", help="The live files, one a row.", rich_help_panel="Views")
    ] = False,
    tombstones: Annotated[
        bool,
        typer.Option(
            "--tombstones", help="The removed files that the log holds.", rich_help_panel="Views"
        ),
    ] = False,
    partitions: Annotated[
        bool,
        typer.Option(
            "--partitions", help="Files, bytes and rows per partition.", rich_help_panel="Views"
        ),
    ] = False,
    transactions: Annotated[
        bool,
        typer.Option(
            "--transactions", help="How far applications have written.", rich_help_panel="Views"
        ),
    ] = False,
    domains: Annotated[
        bool, typer.Option("--domains", help="Domain metadata.", rich_help_panel="Views")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Columns, one a row.", rich_help_panel="Views")
    ] = False,
    diff: Annotated[
        str | None,
        typer.Option(
            "--diff",
            metavar="V|TIME",
            help="What changed since that version.",
            rich_help_panel="Views",
            show_default=False,
        ),
    ] = None,
    engine: EngineOpt = Engine.AUTO,
    spark_master: SparkMasterOpt = None,
    spark_conf: SparkConfOpt = None,
    allow_catalog_managed: AllowCatalogOpt = False,
) -> None:
    """Show the state of a table at a version, the newest by default.

    Without a view: one document with DESCRIBE DETAIL's fields, rows, deletion vectors,
    tombstones, checkpoint, properties and schema. Only what the chosen fields need is read.
    """
    chosen = {
        "--files": files_view,
        "--tombstones": tombstones,
        "--partitions": partitions,
        "--transactions": transactions,
        "--domains": domains,
        "--schema": schema,
        "--diff": diff is not None,
    }
    views = [name for name, on in chosen.items() if on]
    if len(views) > 1:
        raise UsageError(f"{' and '.join(views)} are different views", hint="choose one")
    session = Session(options, EngineWish.of(engine, spark_master, spark_conf))
    found = session.snapshot(table, at, allow_catalog_managed=allow_catalog_managed)
    if diff is not None:
        from deltacli.operations.changes import diff_snapshots

        old = session.other_version(found, diff)
        session.show(diff_snapshots(old, found))
        session.warn(old.warnings)
    else:
        session.show(_view(session, found, views[0] if views else None))
    session.warn(found.warnings)


def _view(session: Session, found: Snapshot, view: str | None) -> Document | Listing:
    if view is None:
        return describe.describe_snapshot(found, now_ms=session.now_ms, fields=session.fields)
    if view == "--files":
        return files.list_files(found, session.fields)
    if view == "--tombstones":
        return files.list_tombstones(found, now_ms=session.now_ms)
    if view == "--partitions":
        return files.list_partitions(found)
    if view == "--transactions":
        return describe.list_transactions(found, now_ms=session.now_ms)
    if view == "--domains":
        return describe.list_domains(found)
    return describe.list_columns(found)
