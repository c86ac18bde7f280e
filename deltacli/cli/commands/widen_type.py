"""`deltacli widen-type`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
from deltacli.errors import PartlyDone, UsageError
from deltacli.units import counted

if TYPE_CHECKING:
    from deltacli.delta.snapshot import Snapshot
    from deltacli.operations.narrow import Status
    from deltacli.operations.widen import Wish

EXAMPLES = (
    ("deltacli widen-type ./orders amount 'decimal(12,2)' --dry-run", "what would change"),
    ("deltacli widen-type ./orders id bigint items.element.count bigint", "two in one commit"),
    ("deltacli widen-type ./orders id long --enable --yes", "turns the feature on first"),
    ("deltacli widen-type ./orders --status", "which files still hold narrow types"),
    ("deltacli widen-type ./orders --rewrite --engine spark", "writes those files anew"),
    ("deltacli widen-type ./orders --drop-feature", "for clients that do not know it"),
)


def widen_type(
    options: CommonOptions,
    table: TableArg,
    columns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COLUMN TYPE]...",
            help="A column (a.b, arr.element, m.key, m.value) and its new type, by pairs.",
            show_default=False,
        ),
    ] = None,
    enable: Annotated[
        bool,
        typer.Option("--enable", help="Switch the table feature on where a change needs it."),
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Show the files that still hold narrower types.")
    ] = False,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Write those files anew, with the table's types.")
    ] = False,
    drop_feature: Annotated[
        bool,
        typer.Option("--drop-feature", help="Take the feature off the table, step by step."),
    ] = False,
    dry_run: DryRunOpt = False,
    yes: YesOpt = False,
    engine: EngineOpt = Engine.AUTO,
    spark_master: SparkMasterOpt = None,
    spark_conf: SparkConfOpt = None,
) -> None:
    """Change the types of columns to wider ones, in the log alone.

    No file is touched: readers widen older ones as they read. A change that the protocol
    does not allow is refused with its reason, and nothing is written. --status, --rewrite and
    --drop-feature deal with the files that are narrower than the table.
    """
    session = Session(options, EngineWish.of(engine, spark_master, spark_conf))
    chosen = [
        name
        for name, on in (
            ("--status", status),
            ("--rewrite", rewrite),
            ("--drop-feature", drop_feature),
        )
        if on
    ]
    wishes = _wishes(columns or [])
    if len(chosen) > 1 or (chosen and (wishes or enable)):
        raise UsageError(
            f"{chosen[0]} stands alone", hint="leave out other changes, or make them one by one"
        )
    if not chosen and not wishes and not enable:
        raise UsageError(
            "nothing is to be changed",
            hint="name a column and its type, or --enable, --status, --rewrite, --drop-feature",
        )
    store, own = session.open(table)
    if own is not None and not status:
        raise UsageError(
            "only the newest version can be changed",
            hint="leave the version out of the table's name",
        )
    snapshot = session.load(store, own)
    session.warn(snapshot.warnings)
    if not chosen:
        _widen(session, snapshot, wishes, enable=enable, dry_run=dry_run, yes=yes)
        return
    from deltacli.operations.narrow import find_narrow

    with session.progress:
        found = find_narrow(
            snapshot,
            session.engine(),
            session.storage_options,
            lambda done, total: session.progress("reading footers", done, total),
        )
    if status:
        _status(session, found)
    elif rewrite:
        _rewrite(session, found, dry_run=dry_run, yes=yes)
    else:
        _drop(session, found, dry_run=dry_run, yes=yes)


def _wishes(words: list[str]) -> list[Wish]:
    from deltacli.operations.widen import Wish

    if len(words) % 2:
        raise UsageError(
            f"{words[-1]!r} has no type behind it"
            if len(words) > 1
            else f"to which type is {words[0]!r} to go?",
            hint="write COLUMN TYPE by pairs, types with brackets in quotes: 'decimal(12,2)'",
        )
    return [Wish(*pair) for pair in zip(words[::2], words[1::2], strict=True)]


def _widen(
    session: Session,
    snapshot: Snapshot,
    wishes: list[Wish],
    *,
    enable: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    from deltacli.operations.widen import apply_widen, plan_widen

    plan = plan_widen(snapshot, wishes, enable=enable)
    session.warn(plan.warnings)
    if dry_run:
        session.show(plan.document(is_dry_run=True))
    elif not plan.changes_anything:
        session.show_done(plan.document(is_dry_run=False))
    elif session.confirm(plan.document(), plan.question, yes=yes):
        plan, committed = apply_widen(plan, wishes, session.engine, enable=enable)
        session.show_done(plan.document(committed))
        session.warn(committed.warnings)


def _status(session: Session, found: Status) -> None:
    session.show_reports([found.report()])
    if not found.files and not found.unreadable:
        session.note("no file is narrower than the table")
    if found.unreadable:
        path, error = found.unreadable[0]
        count = counted(len(found.unreadable), "file")
        raise PartlyDone(
            f"{count} cannot be read, for instance {path}: {error}",
            hint="what they hold is not known; restore them",
            location=found.snapshot.store.location,
        )


def _rewrite(session: Session, found: Status, *, dry_run: bool, yes: bool) -> None:
    from deltacli.operations.narrow import apply_rewrite, plan_rewrite

    plan = plan_rewrite(found)
    if dry_run:
        session.show(plan.document())
    elif not plan.changes_anything:
        session.show_done(plan.document(is_dry_run=False))
    elif session.confirm(plan.document(), plan.question, yes=yes):
        with session.progress:
            done = apply_rewrite(plan, session.engine, session.storage_options)
        session.show_done(plan.document(done))
        session.warn(done.committed.warnings)


def _drop(session: Session, found: Status, *, dry_run: bool, yes: bool) -> None:
    from deltacli.operations.drop_widening import apply_drop, plan_drop

    plan = plan_drop(found, session.engine)
    location = found.snapshot.store.location
    if dry_run:
        session.show(plan.document())
        return
    version: int | None = None
    warnings: tuple[str, ...] = ()
    if plan.changes_anything:
        if not session.confirm(plan.document(), plan.question, yes=yes):
            return
        version, warnings = apply_drop(plan, session.engine)
    session.show_done(plan.document(version, warnings, is_dry_run=False))
    session.warn(warnings)
    if not plan.drops:
        upto = found.snapshot.version if plan.removes_changes else plan.needed_by
        raise PartlyDone(
            f"the feature stays for now: versions up to {upto} need it",
            hint=plan.hint,
            location=location,
        )
