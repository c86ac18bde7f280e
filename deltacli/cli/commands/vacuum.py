"""`deltacli vacuum`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.engines import EngineWish
from deltacli.cli.failure import failure_of
from deltacli.cli.options import (
    CommonOptions,
    DryRunOpt,
    Engine,
    EngineOpt,
    SparkConfOpt,
    SparkMasterOpt,
    YesOpt,
)
from deltacli.cli.session import Session
from deltacli.delta.paths import HIDDEN_LETTERS, HIDDEN_WORDS
from deltacli.errors import DeltaCliError, Interrupted, PartlyDone, Refused, UsageError
from deltacli.units import counted, without_secrets

if TYPE_CHECKING:
    from deltacli.operations.inventory import InventoryRow
    from deltacli.operations.records import Report
    from deltacli.operations.vacuum import VacuumPlan
    from deltacli.operations.vacuum_metrics import TableRun
    from deltacli.operations.vacuum_request import VacuumRequest
    from deltacli.storage import LogStore

EXAMPLES = (
    ("deltacli vacuum ./orders --dry-run", "every file that would go, with size and reason"),
    ("deltacli vacuum ./orders", "shows the plan and asks"),
    ("deltacli vacuum s3://bucket/a s3://bucket/b --yes -q", "from cron"),
    ("deltacli vacuum ./orders --explain part-0.parquet", "why a file is kept"),
    ("deltacli vacuum ./orders --retain 30d --prefix date=2026-01-31", "one partition"),
)


# Characters of an earlier metrics file that are looked at.
_MOST_METRICS = 10_000_000


class Mode(StrEnum):
    FULL = "full"
    LITE = "lite"


class Encoding(StrEnum):
    NONE = "none"
    URL = "url"


@dataclass(frozen=True)
class _Wish:
    """What is the same for all tables of one call."""

    request: VacuumRequest
    dry_run: bool
    yes: bool
    log_commits: bool | None
    allow_large: bool


def vacuum(
    options: CommonOptions,
    tables: Annotated[
        list[str],
        typer.Argument(metavar="TABLE...", help="Paths or URLs of the tables.", show_default=False),
    ],
    retain: Annotated[
        str | None,
        typer.Option(
            "--retain",
            metavar="AGE",
            help="Keep what was removed or written since: 7d, 168h. The table's own "
            "retention without it.",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        Mode,
        typer.Option(
            "--mode", help="full lists the table; lite takes what the log says was removed."
        ),
    ] = Mode.FULL,
    inventory: Annotated[
        str | None,
        typer.Option(
            "--inventory",
            metavar="FILE",
            help="CSV or Parquet with path, length, isDir, modificationTime in place of a listing.",
            show_default=False,
        ),
    ] = None,
    inventory_encoding: Annotated[
        Encoding,
        typer.Option("--inventory-encoding", help="How paths of the inventory are written."),
    ] = Encoding.NONE,
    prefix: Annotated[
        str | None,
        typer.Option(
            "--prefix",
            metavar="PREFIX",
            help="Only this folder, named as on storage.",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain",
            metavar="PATH",
            help="Say which rule keeps or condemns this one file.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRunOpt = False,
    yes: YesOpt = False,
    log_commits: Annotated[
        bool | None,
        typer.Option(
            "--log-commits/--no-log-commits",
            help="VACUUM START and END in the log; by default where the storage has put-if-absent.",
            show_default=False,
        ),
    ] = None,
    metrics_file: Annotated[
        str | None,
        typer.Option(
            "--metrics-file",
            metavar="FILE",
            help="Write gauges for Prometheus' textfile collector.",
            show_default=False,
        ),
    ] = None,
    allow_short_retention: Annotated[
        bool,
        typer.Option(
            "--allow-short-retention", help="Allow a --retain below the table's own retention."
        ),
    ] = False,
    allow_large: Annotated[
        bool,
        typer.Option(
            "--allow-large", help="With --yes: allow to delete more than half of the table's bytes."
        ),
    ] = False,
    allow_nested: Annotated[
        bool,
        typer.Option("--allow-nested", help="Go on although the table lies inside another one."),
    ] = False,
    engine: EngineOpt = Engine.AUTO,
    spark_master: SparkMasterOpt = None,
    spark_conf: SparkConfOpt = None,
) -> None:
    """Delete files that no kept version needs.

    What the newest version refers to is kept, and what was removed or written within the
    retention; so are hidden files, tables inside the table, and files of unknown age. The
    plan is complete: with --dry-run it is all that happens. With several tables, all are
    tried and the worst exit code counts. With -q and without -o, success prints nothing.
    """
    from deltacli.operations.vacuum_request import DOCUMENT_FIELDS, ROW_FIELDS, VacuumRequest
    from deltacli.units import parse_duration

    session = Session(options, EngineWish.of(engine, spark_master, spark_conf))
    request = VacuumRequest(
        retain_ms=None if retain is None else parse_duration(retain),
        mode=mode.value,
        prefix=prefix,
        inventory=_inventory(session, inventory, url_encoded=inventory_encoding is Encoding.URL),
        allow_short_retention=allow_short_retention,
        allow_nested=allow_nested,
    )
    if inventory is not None and mode is Mode.LITE:
        raise UsageError("--mode lite lists nothing", hint="leave --inventory out")
    if inventory is None and inventory_encoding is not Encoding.NONE:
        raise UsageError("--inventory-encoding needs --inventory", hint="name the inventory")
    if explain is not None:
        if yes or metrics_file is not None:
            raise UsageError("--explain changes nothing", hint="leave --yes, --metrics-file out")
        _explain(session, tables, request, explain)
        return
    session.check_report(DOCUMENT_FIELDS, ROW_FIELDS, beside=metrics_file)
    if not dry_run and not yes:
        session.need_terminal()
    wish = _Wish(request, dry_run, yes, log_commits, allow_large)
    runs, reports, failures = _vacuum_all(session, tables, wish)
    try:
        if (reports or len(tables) > 1) and (dry_run or not session.is_silent):
            session.show_reports(reports, many=len(tables) > 1)
    finally:
        if metrics_file is not None:
            _write_metrics(session, metrics_file, runs)
    if len(failures) == 1 and len(tables) == 1:
        raise failures[0]
    for error in failures:
        session.fail(error)
    if failures:
        raise typer.Exit(max(error.exit_code for error in failures))


def _inventory(
    session: Session, place: str | None, *, url_encoded: bool
) -> Callable[[], Iterator[InventoryRow]] | None:
    if place is None:
        return None
    from deltacli.operations.inventory import read_inventory
    from deltacli.storage import open_store

    folder, slash, name = place.rpartition("/")
    store = open_store(folder + slash[: not folder] or ".", session.storage_options)
    return lambda: read_inventory(name, lambda: store.open(name), url_encoded=url_encoded)


def _explain(session: Session, tables: list[str], request: VacuumRequest, path: str) -> None:
    from deltacli.operations.vacuum_explain import explain_vacuum

    if len(tables) != 1:
        raise UsageError("--explain is about one table", hint="name one TABLE")
    if request.prefix is not None or request.inventory or request.mode != Mode.FULL:
        raise UsageError(
            "--explain tells what a full vacuum does",
            hint="leave out --mode lite, --prefix and --inventory",
        )
    snapshot = session.load(_open(session, tables[0]))
    session.warn(snapshot.warnings)
    session.show(explain_vacuum(snapshot, session.engine, request, path, now_ms=session.now_ms))


def _vacuum_all(
    session: Session, tables: list[str], wish: _Wish
) -> tuple[list[TableRun], list[Report], list[DeltaCliError]]:
    """Each table for itself: one that fails does not stop the others."""
    from deltacli.operations.vacuum_metrics import TableRun

    runs: list[TableRun] = []
    reports: list[Report] = []
    failures: list[DeltaCliError] = []
    for table in tables:
        begun = time.monotonic()
        run = TableRun(without_secrets(table), 0, 0.0)
        runs.append(run)
        try:
            run.location = session.open(table)[0].location
            report, stopped = _vacuum_one(session, table, wish, many=len(tables) > 1)
            if report is None:
                continue
            reports.append(report)
            run.values = report.document.values
            if stopped is not None:
                raise stopped
            if failed := report.document.values.get("failures"):
                raise PartlyDone(
                    f"{counted(len(failed), 'file')} could not be deleted, for instance "
                    f"{failed[0]['path']}: {failed[0]['error']}",
                    hint="run it again when the cause is mended",
                    location=run.location,
                )
        except (Exception, KeyboardInterrupt) as raised:
            error = failure_of(raised)
            error.table = table
            run.exit_code = error.exit_code
            failures.append(error)
            if isinstance(error, Interrupted):
                break
        finally:
            run.seconds = time.monotonic() - begun
    return runs, reports, failures


def _vacuum_one(
    session: Session, table: str, wish: _Wish, *, many: bool
) -> tuple[Report | None, DeltaCliError | None]:
    """Plan, ask, apply: the report, unless the user said no, and what stopped the deletion."""
    plan = _plan(session, table, wish.request)
    from deltacli.operations.vacuum_report import plan_report, result_report
    from deltacli.operations.vacuum_request import DOCUMENT_FIELDS, ROW_FIELDS

    session.warn([*plan.snapshot.warnings, *plan.warnings])
    report = plan_report(plan, dry_run=wish.dry_run, with_location=many)
    if wish.dry_run:
        if plan.found.folders:
            session.note(f"empty folders that would go too: {len(plan.found.folders):,}")
        return report, None
    if plan.deletes_anything:
        _refuse_large(plan, wish)
        if not session.confirm(
            report.document,
            plan.question,
            yes=wish.yes,
            more=DOCUMENT_FIELDS,
            rows=ROW_FIELDS,
        ):
            return None, None
    from deltacli.operations.vacuum_apply import apply_vacuum

    with session.progress:
        done = apply_vacuum(
            plan, session.engine, log_commits=wish.log_commits, on_progress=session.progress
        )
    session.warn(done.warnings)
    return result_report(plan, done.values(), with_location=many), done.stopped


def _plan(session: Session, table: str, request: VacuumRequest) -> VacuumPlan:
    store = _open(session, table)
    lists_here = session.wish.choice is not Engine.SPARK and request.prefix is None
    lists_all = lists_here and request.mode == Mode.FULL and not request.inventory
    # The listing does not depend on the log: it may begin before the log is read.
    with store.walk_soon(HIDDEN_LETTERS, HIDDEN_WORDS) if lists_all else nullcontext():
        from deltacli.operations.vacuum import plan_vacuum

        snapshot = session.load(store)
        with session.progress:
            return plan_vacuum(
                snapshot,
                session.engine,
                request,
                now_ms=session.now_ms,
                on_progress=session.progress,
            )


def _open(session: Session, table: str) -> LogStore:
    store, at = session.open(table)
    if at is not None:
        raise UsageError(
            "vacuum goes by the newest version", hint="leave the version out of the table's name"
        )
    return store


def _refuse_large(plan: VacuumPlan, wish: _Wish) -> None:
    if wish.yes and plan.is_large and not wish.allow_large:
        from deltacli.units import human_size

        raise Refused(
            f"{human_size(plan.size)} of {human_size(plan.listed_bytes)} would be deleted, more "
            "than half of the table",
            hint="look at --dry-run first; --allow-large goes on",
            location=plan.store.location,
        )


def _write_metrics(session: Session, path: str, runs: list[TableRun]) -> None:
    from deltacli.operations.vacuum_metrics import LAST_SUCCESS, gauges
    from deltacli.render.metrics import Metric, prometheus_text, values_before

    try:
        with open(path, encoding="utf-8") as file:
            earlier = values_before(file.read(_MOST_METRICS), LAST_SUCCESS)
    except (OSError, UnicodeDecodeError):
        earlier = {}
    metrics = [Metric(*one) for one in gauges(runs, session.now_ms / 1000, earlier)]
    session.write_beside(path, prometheus_text(metrics))
