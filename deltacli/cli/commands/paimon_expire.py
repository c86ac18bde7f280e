"""`deltacli paimon expire`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions, DryRunOpt, YesOpt
from deltacli.cli.paimon import BranchOpt, PaimonArg, open_branch
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli paimon expire ./orders --dry-run", "what would go, and why the others stay"),
    ("deltacli paimon expire ./orders --older-than 30d --keep-last 5 --yes", "for cron"),
    ("deltacli paimon expire ./orders --branch dev --keep-for-merges", ""),
)


def paimon_expire(
    options: CommonOptions,
    table: PaimonArg,
    branch: BranchOpt = None,
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Only versions older than this: jobs may still write with younger ones.",
        ),
    ] = "7d",
    keep_last: Annotated[
        int,
        typer.Option("--keep-last", metavar="N", min=1, help="Keep the newest N in any case."),
    ] = 1,
    keep_for_merges: Annotated[
        bool,
        typer.Option(
            "--keep-for-merges", help="Keep ids that other branches use, for merging them."
        ),
    ] = False,
    dry_run: DryRunOpt = False,
    yes: YesOpt = False,
) -> None:
    """Delete schema files of a Paimon table that nothing needs any more.

    A version is needed by snapshots, tags, changelogs and statistics, and by every data file
    that was ever written with it, as long as a manifest names the file. The newest one, those
    that tell an external path, and all of a table with Iceberg metadata stay. If anything
    cannot be read, nothing is deleted.
    """
    from deltacli.operations.paimon_expire import (
        EXPIRE_FIELDS,
        RESULT_FIELDS,
        ExpireWish,
        apply_expire,
        plan_expire,
    )
    from deltacli.units import parse_duration

    session = Session(options)
    wish = ExpireWish(parse_duration(older_than), keep_last, keep_for_merges)
    chosen = open_branch(session, table, branch)
    with session.progress:
        plan = plan_expire(chosen, wish, session.now_ms, session.progress)
    for scan in plan.scans:
        session.explain(f"branch {scan.branch.name}: {scan.found.summary}")
    session.warn(plan.warnings)
    if dry_run:
        session.show_reports([plan.report(is_dry_run=True)])
        return
    if plan.expired and not session.confirm(
        plan.document(), plan.question, yes=yes, more=RESULT_FIELDS, rows=EXPIRE_FIELDS
    ):
        return
    with session.progress:
        done = apply_expire(plan, session.progress)
    if not session.is_silent:
        session.show_reports([plan.report(done)])
    failure = done.failure(chosen.store.location)
    if failure is not None:
        raise failure
