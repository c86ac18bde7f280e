"""`deltacli paimon alter`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.options import CommonOptions, DryRunOpt, YesOpt
from deltacli.cli.paimon import BranchOpt, PaimonArg, open_branch
from deltacli.cli.session import Session

if TYPE_CHECKING:
    from deltacli.paimon.change import Change

EXAMPLES = (
    ("deltacli paimon alter ./orders 'add column note STRING after id' --dry-run", "the plan"),
    ("deltacli paimon alter ./orders 'rename ts to event_ts' 'drop column tmp'", "one version"),
    ("deltacli paimon alter ./orders 'alter type qty BIGINT' --yes", ""),
    ("deltacli paimon alter ./orders 'alter type qty SMALLINT' --allow-lossy", "narrower"),
    ("deltacli paimon alter ./orders 'nullability items.element.sku NULL'", "nested"),
    ("deltacli paimon alter ./orders \"comment qty 'pieces'\" 'position qty first'", ""),
    ("deltacli paimon alter ./orders 'set option snapshot.num-retained.min = 5'", ""),
)


def paimon_alter(
    options: CommonOptions,
    table: PaimonArg,
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="CHANGE...",
            help="Changes, one an argument: add column, rename column, drop column, alter type, "
            "nullability, comment, default, position, set option, unset option, table comment, "
            "drop primary key. One that begins with { or [ is Paimon's JSON for changes.",
            show_default=False,
        ),
    ],
    branch: BranchOpt = None,
    allow_lossy: Annotated[
        bool, typer.Option("--allow-lossy", help="Allow types that do not keep all values.")
    ] = False,
    filesystem_catalog: Annotated[
        bool,
        typer.Option(
            "--filesystem-catalog", help="No metastore keeps this table: do not warn of one."
        ),
    ] = False,
    dry_run: DryRunOpt = False,
    yes: YesOpt = False,
) -> None:
    """Change the schema of a Paimon table: all changes make one new version.

    What Paimon itself would refuse is refused with the reason. Ids are given out as Paimon
    does, and options that name a renamed column follow it. No data is touched: readers cast
    old files. Nested columns are named as in items.element.sku or props.value.n.
    """
    from deltacli.operations.paimon_alter import Wish, apply_alter, plan_alter
    from deltacli.operations.paimon_describe import DIFF_FIELDS

    session = Session(options)
    wish = Wish(_parsed(changes), allow_lossy, has_metastore=not filesystem_catalog)
    plan = plan_alter(open_branch(session, table, branch), wish, session.now_ms)
    session.check_report(tuple(plan.document().values), DIFF_FIELDS, beside=None)
    for note in plan.notes:
        session.note(note)
    if not plan.changes_anything:
        session.note("nothing is different: no version is written")
    else:
        session.warn([f"values can be lost: {one}" for one in plan.losses])
        session.warn(plan.warnings)
    if dry_run or not plan.changes_anything:
        if dry_run or not session.is_silent:
            session.show_reports([plan.report(is_dry_run=dry_run)])
    elif session.confirm(plan.document(), plan.question, yes=yes, rows=DIFF_FIELDS):
        done = apply_alter(plan, wish, lambda: session.now_ms)
        if not session.is_silent:
            session.show_reports([done.report()])
        session.note(f"{done.path} is written")


def _parsed(texts: list[str]) -> list[Change]:
    from deltacli.paimon.change_json import parse_changes
    from deltacli.paimon.change_text import parse_change

    return [
        change
        for text in texts
        for change in (
            parse_changes(text) if text.lstrip().startswith(("{", "[")) else parse_change(text)
        )
    ]
