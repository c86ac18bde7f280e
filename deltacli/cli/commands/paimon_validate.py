"""`deltacli paimon validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.findings import (
    BaselineOpt,
    FailOn,
    FailOnOpt,
    IgnoreOpt,
    MaxFindingsOpt,
    SelectOpt,
    check_each,
    check_finding_fields,
    end_with,
    failing,
    read_baseline,
    rule_ids,
    show_results,
)
from deltacli.cli.options import CommonOptions
from deltacli.cli.session import Session
from deltacli.render.formats import FindingsFormat

if TYPE_CHECKING:
    from deltacli.checking.tally import Checked, FindingKey
    from deltacli.storage import LogStore

FORMATS = FindingsFormat
EXAMPLES = (
    ("deltacli paimon validate ./orders", "all branches"),
    ("deltacli paimon validate 'warehouse/*.db/*' -o junit --output-file paimon.xml", "for CI"),
    ("deltacli paimon validate ./orders --allow-nullable-map-keys", "as tables of Flink have them"),
    ("deltacli paimon validate ./orders --branch dev --select PMH,PMR", ""),
)
_MAP_KEYS = "PMT001"


def paimon_validate(
    options: CommonOptions,
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="Tables, or patterns of tables such as warehouse/sales.db/*.",
            show_default=False,
        ),
    ],
    branch: Annotated[
        str | None,
        typer.Option(
            "--branch", metavar="NAME", help="Only this branch; all without.", show_default=False
        ),
    ] = None,
    allow_nullable_map_keys: Annotated[
        bool,
        typer.Option(
            "--allow-nullable-map-keys",
            help="Pass over keys of MAPs that may be null: Java and Python take them.",
        ),
    ] = False,
    select: SelectOpt = None,
    ignore: IgnoreOpt = None,
    fail_on: FailOnOpt = FailOn.ERROR,
    baseline: BaselineOpt = None,
    max_findings: MaxFindingsOpt = 20,
) -> None:
    """Check the schemas of Paimon tables, their history, and what refers to them.

    Every schema file is read and held against Paimon's own rules and against the version
    before; every snapshot, tag, changelog and manifest is asked which versions it needs.
    `deltacli validate` does the same where it meets a Paimon table, and explains the rules.
    """
    from deltacli.checking.model import Level
    from deltacli.paimon.book import BOOK
    from deltacli.paimon.check import check_table
    from deltacli.paimon.table import open_branch
    from deltacli.storage.patterns import PAIMON

    session = Session(options)
    ignored = rule_ids("--ignore", ignore) + ((_MAP_KEYS,) if allow_nullable_map_keys else ())
    rules = BOOK.chosen(Level.LOG, rule_ids("--select", select), ignored)
    check_finding_fields(session)
    session.check_places(None)

    def check(store: LogStore, known: frozenset[FindingKey]) -> Checked:
        chosen = None if branch is None else open_branch(store, branch)
        return check_table(
            store,
            rules,
            most=max_findings or None,
            known=known,
            branch=chosen,
            on_progress=session.progress,
        )

    results = check_each(session, tables, (PAIMON,), read_baseline(baseline), check)
    fails = failing(fail_on)
    show_results(session, results, fails)
    end_with(session, results, fails)
