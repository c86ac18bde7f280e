"""What commands that check something share: which rules, which findings count, how they show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.failure import failure_of
from deltacli.cli.session import Session
from deltacli.errors import Interrupted, NotFound, UsageError
from deltacli.render.formats import FindingsFormat

if TYPE_CHECKING:
    from deltacli.checking.model import Severity
    from deltacli.checking.tally import Checked, FindingKey
    from deltacli.operations.validation import Baseline, TableResult
    from deltacli.storage import LogStore
    from deltacli.storage.patterns import Mark


class FailOn(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


SelectOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        metavar="IDS",
        help="Only rules whose ids begin so; several between commas. May be repeated.",
        show_default=False,
    ),
]
IgnoreOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore", metavar="IDS", help="No rules whose ids begin so.", show_default=False
    ),
]
FailOnOpt = Annotated[
    FailOn, typer.Option("--fail-on", help="The least severity that ends with exit code 1.")
]
BaselineOpt = Annotated[
    str | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Pass over the findings in this file.",
        show_default=False,
    ),
]
MaxFindingsOpt = Annotated[
    int,
    typer.Option(
        "--max-findings",
        metavar="N",
        min=0,
        help="Tell at most so many findings of a rule; all are counted. 0 tells all.",
    ),
]


CI_FORMATS = (FindingsFormat.JUNIT, FindingsFormat.SARIF, FindingsFormat.GITHUB)


def rule_ids(option: str, texts: list[str] | None) -> tuple[str, ...]:
    """The ids of an option; none at all where it is not used."""
    found = tuple(one.strip() for text in texts or () for one in text.split(",") if one.strip())
    if texts and not found:
        raise UsageError(
            f"{option} names no rule", hint="write ids between commas, or leave it out"
        )
    return found


def failing(fail_on: FailOn) -> frozenset[Severity]:
    """The severities that end with exit code 1."""
    from deltacli.checking.model import Severity

    order = [Severity.ERROR, Severity.WARNING, Severity.INFO]
    if fail_on is FailOn.NEVER:
        return frozenset()
    return frozenset(order[: order.index(Severity(fail_on.value)) + 1])


def read_baseline(path: str | None) -> Baseline:
    if path is None:
        return {}
    from deltacli.operations.validation import parse_baseline

    try:
        with open(path, "rb") as file:
            return parse_baseline(file.read(), path)
    except OSError as error:
        raise NotFound(
            f"{path} cannot be read: {error.strerror}",
            hint="write one with `deltacli validate --write-baseline`",
        ) from error


def check_finding_fields(session: Session) -> None:
    """Raise UsageError for fields that no finding has, before anything is read."""
    from deltacli.operations.records import check_fields
    from deltacli.operations.validation import FINDING_FIELDS

    if session.fields:
        check_fields(session.fields, FINDING_FIELDS)
        if session.findings_format in CI_FORMATS:
            raise UsageError(
                f"--fields has no place in {session.findings_format.value}",
                hint="leave it out, or use json, jsonl, csv or table",
            )


def check_each(
    session: Session,
    patterns: Sequence[str],
    marks: Sequence[Mark],
    known: Baseline,
    check: Callable[[LogStore, frozenset[FindingKey]], Checked],
) -> list[TableResult]:
    """Each table for itself: one that cannot be checked does not stop the others."""
    from deltacli.operations.validation import TableResult, baseline_name
    from deltacli.storage.patterns import matching_tables

    results: list[TableResult] = []
    waiting = list(patterns)
    seen: set[str] = set()
    while waiting:
        table = waiting.pop(0)
        try:
            found = matching_tables(table, session.storage_options, marks)
            if found != [table]:
                waiting = found + waiting
                continue
            store, at = session.open(table)
            if store.location in seen:
                continue
            seen.add(store.location)
            if at is not None:
                raise UsageError(
                    "all versions are checked", hint="leave the version out of the name"
                )
            session.explain(f"checking {store.location}")
            with session.progress:
                checked = check(store, known.get(baseline_name(table), frozenset()))
            results.append(TableResult(table, checked, checked.error))
        except (Exception, KeyboardInterrupt) as raised:
            error = failure_of(raised)
            error.table = table
            if isinstance(error, Interrupted):
                raise
            results.append(TableResult(table, None, error))
    return results


def show_results(session: Session, results: list[TableResult], fails: frozenset[Severity]) -> None:
    form = session.findings_format
    if form is FindingsFormat.TABLE:
        from deltacli.render.findings import show_findings

        session.show_people(lambda people: show_findings(results, people))
    elif form in CI_FORMATS:
        from deltacli.render.ci import github_text, junit_text, sarif_text

        if form is FindingsFormat.JUNIT:
            session.show_text(junit_text(results, fails))
        elif form is FindingsFormat.SARIF:
            session.show_text(sarif_text(results).decode())
        else:
            session.show_text(github_text(results))
    else:
        from deltacli.operations.validation import finding_listing, whole_document

        if form is FindingsFormat.JSON and not session.fields:
            session.show(whole_document(results))
        else:
            session.show(finding_listing(results))
            for one in results:
                for rule_id, count in one.left_out().items():
                    session.note(f"{one.table}: {count:,} more findings of {rule_id}")
    for one in results:
        for note in one.checked.notes if one.checked else ():
            session.note(f"{one.table}: {note}")


def end_with(session: Session, results: list[TableResult], fails: frozenset[Severity]) -> None:
    """The worst exit code: 1 for findings, that of the error for a table not checked."""
    failures = [one.error for one in results if one.error is not None]
    if len(failures) == 1 and len(results) == 1:
        raise failures[0]
    for error in failures:
        session.fail(error)
    has_findings = any(
        count and severity in fails for one in results for severity, count in one.counts().items()
    )
    code = max([int(has_findings), *(error.exit_code for error in failures)])
    if code:
        raise typer.Exit(code)
