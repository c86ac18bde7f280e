"""`deltacli checkpoint`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from deltacli.cli.engines import EngineWish
from deltacli.cli.options import (
    CommonOptions,
    DryRunOpt,
    Engine,
    EngineOpt,
    SparkConfOpt,
    SparkMasterOpt,
    TableArg,
    YesOpt,
)
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli checkpoint ./orders", "asks before it writes"),
    ("deltacli checkpoint s3://bucket/orders --yes", "from cron"),
    ("deltacli checkpoint ./orders --cleanup --dry-run", "which log files would go"),
    ("deltacli checkpoint ./orders --kind v2 --yes", "with sidecars"),
)


class CheckpointKind(StrEnum):
    AUTO = "auto"
    CLASSIC = "classic"
    V2 = "v2"
    V2_PARQUET = "v2-parquet"


class Stats(StrEnum):
    TABLE = "table"
    JSON = "json"
    STRUCT = "struct"
    BOTH = "both"


def checkpoint(
    options: CommonOptions,
    table: TableArg,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="V|TIME", help="Of this version, not the newest.", show_default=False
        ),
    ] = None,
    kind: Annotated[
        CheckpointKind,
        typer.Option("--kind", help="auto follows the table's checkpoint policy."),
    ] = CheckpointKind.AUTO,
    stats: Annotated[
        Stats,
        typer.Option("--stats", help="The form of statistics; table follows its properties."),
    ] = Stats.TABLE,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Write it anew if it is there; clean up although the table says not to.",
        ),
    ] = False,
    cleanup: Annotated[
        bool,
        typer.Option("--cleanup", help="Also delete log files that no kept version needs."),
    ] = False,
    dry_run: DryRunOpt = False,
    yes: YesOpt = False,
    engine: EngineOpt = Engine.AUTO,
    spark_master: SparkMasterOpt = None,
    spark_conf: SparkConfOpt = None,
) -> None:
    """Write a checkpoint, verify it, and move _last_checkpoint forward.

    It is written beside the log, read back and counted against the snapshot before it is
    published. One that is there already is left alone, and _last_checkpoint made to name it.
    With --cleanup, expired commits and checkpoints are deleted afterwards, as far as a
    checkpoint stands behind them.
    """
    from deltacli.operations.checkpoint import plan_checkpoint
    from deltacli.operations.maintain import apply_maintenance, plan_maintenance

    session = Session(options, EngineWish.of(engine, spark_master, spark_conf))
    snapshot = session.snapshot(table, at)
    plan = plan_maintenance(
        plan_checkpoint(
            snapshot, kind=kind.value, stats=stats.value, force=force, now_ms=session.now_ms
        ),
        session.engine,
        cleanup=cleanup,
        force=force,
    )
    session.warn([*snapshot.warnings, *plan.warnings])
    if dry_run:
        session.show(plan.document())
    elif not plan.changes_anything:
        session.show_done(plan.document())
    elif session.confirm(plan.document(), plan.question, yes=yes):
        result = apply_maintenance(plan, session.engine, session.progress)
        session.show_done(result.document())
        session.warn(result.warnings)
