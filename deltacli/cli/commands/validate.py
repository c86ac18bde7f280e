"""`deltacli validate`: the whole protocol as checks, for one table or many."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.engines import EngineWish
from deltacli.cli.failure import failure_of
from deltacli.cli.options import (
    CommonOptions,
    Engine,
    EngineOpt,
    SparkConfOpt,
    SparkMasterOpt,
)
from deltacli.cli.session import Session
from deltacli.errors import Interrupted, NotFound, UsageError
from deltacli.render.formats import FindingsFormat

if TYPE_CHECKING:
    from deltacli.checking.model import Severity
    from deltacli.operations.validation import Baseline, TableResult
    from deltacli.validate.check import Means, Request
    from deltacli.validate.data_files import Sample

FORMATS = FindingsFormat
EXAMPLES = (
    ("deltacli validate ./orders", "the log: seconds, even with a million files"),
    ("deltacli validate './tables/*' --level files", "many tables, and whether their files exist"),
    (
        "deltacli validate s3://bucket/orders --level data --sample 1/7",
        "one file in seven, by Spark",
    ),
    ("deltacli validate ./orders --select CKP,CRC --ignore CRC009", "by families and rules"),
    ("deltacli validate ./orders -o sarif --output-file findings.sarif", "for code scanning"),
    ("deltacli validate ./orders --baseline known.json", "only what is new fails"),
    ("deltacli validate --explain LOG002", "what a rule means, and how to mend it"),
)


class LevelChoice(StrEnum):
    LOG = "log"
    FILES = "files"
    FOOTERS = "footers"
    DATA = "data"


class FailOn(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"


def validate(
    options: CommonOptions,
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="Tables, or patterns of tables such as s3://bucket/sales/*.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[
        LevelChoice,
        typer.Option(
            "--level", help="How deep: the log; files on storage too; their footers; their rows."
        ),
    ] = LevelChoice.LOG,
    sample: Annotated[
        str | None,
        typer.Option(
            "--sample",
            metavar="K/N",
            help="Look into K of N files only, the same in each run (footers and data).",
            show_default=False,
        ),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            metavar="IDS",
            help="Only rules whose ids begin so: CKP,LOG002. May be repeated.",
            show_default=False,
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore", metavar="IDS", help="No rules whose ids begin so.", show_default=False
        ),
    ] = None,
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="The least severity that ends with exit code 1.")
    ] = FailOn.ERROR,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="FILE",
            help="Pass over the findings in this file.",
            show_default=False,
        ),
    ] = None,
    write_baseline: Annotated[
        str | None,
        typer.Option(
            "--write-baseline",
            metavar="FILE",
            help="Write all findings to a file, for --baseline, and pass.",
            show_default=False,
        ),
    ] = None,
    max_findings: Annotated[
        int,
        typer.Option(
            "--max-findings",
            metavar="N",
            min=0,
            help="Tell at most so many findings of a rule; all are counted. 0 tells all.",
        ),
    ] = 20,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain", metavar="ID", help="Show the page of a rule.", show_default=False
        ),
    ] = None,
    list_rules: Annotated[
        bool, typer.Option("--list-rules", help="Show all rules that the other options choose.")
    ] = False,
    engine: EngineOpt = Engine.AUTO,
    spark_master: SparkMasterOpt = None,
    spark_conf: SparkConfOpt = None,
) -> None:
    """Check tables against the whole protocol, and change nothing.

    Every commit, checkpoint and checksum in the log is read and replayed; deeper levels look
    at the files, their footers and their rows too. What is wrong is told with the rule, the
    place and what to do. Findings at or above --fail-on give exit code 1. Besides the usual
    formats -o takes junit, sarif and github; the last is the default in a workflow of GitHub.
    """
    from deltacli.checking.model import Level
    from deltacli.validate.registry import chosen_rules, find_rule

    wants_rows = level is LevelChoice.DATA and not (explain or list_rules)
    wish = EngineWish.of(engine, spark_master, spark_conf)
    session = Session(options, wish)
    depth = Level.named("data" if list_rules and level is LevelChoice.LOG else level.value)
    rules = chosen_rules(depth, _ids(select), _ids(ignore))
    if explain is not None or list_rules:
        if tables or (explain is not None and list_rules):
            raise UsageError("--explain and --list-rules take no table", hint="leave TABLE out")
        from deltacli.operations.validation import rule_document, rule_listing

        if explain is not None:
            session.show(rule_document(find_rule(explain)))
        else:
            session.show(rule_listing(rules))
        return
    if not tables:
        raise UsageError("no table is named", hint="deltacli validate TABLE, or --list-rules")
    if sample is not None and level in (LevelChoice.LOG, LevelChoice.FILES):
        raise UsageError(
            "--sample chooses the files that are looked into",
            hint="--level footers or --level data look into files",
        )
    if wants_rows:
        from deltacli.spark.session import check_installed

        check_installed()
    from deltacli.operations.records import check_fields
    from deltacli.operations.validation import FINDING_FIELDS
    from deltacli.validate.check import Request

    if session.fields:
        check_fields(session.fields, FINDING_FIELDS)
    session.check_places(write_baseline)
    most = None if max_findings == 0 or write_baseline is not None else max_findings
    request = Request(rules, depth, _sample(sample), most)
    known = _baseline(baseline)
    results = _check_all(session, tables, request, known)
    fails = _failing(fail_on)
    if write_baseline is not None and not any(one.error for one in results):
        from deltacli.operations.validation import baseline_text

        session.write_beside(write_baseline, baseline_text(results).decode())
        fails = frozenset()
    _show(session, results, fails)
    _end(session, results, fails)


def _ids(texts: list[str] | None) -> tuple[str, ...]:
    return tuple(one.strip() for text in texts or () for one in text.split(",") if one.strip())


def _sample(text: str | None) -> Sample:
    from deltacli.validate.data_files import Sample

    if text is None:
        return Sample()
    part, slash, of = text.partition("/")
    if slash and part.isdecimal() and of.isdecimal() and 1 <= int(part) <= int(of):
        return Sample(int(part), int(of))
    raise UsageError(f"--sample {text!r} is no share", hint="write it as 1/7")


def _failing(fail_on: FailOn) -> frozenset[Severity]:
    from deltacli.checking.model import Severity

    order = [Severity.ERROR, Severity.WARNING, Severity.INFO]
    if fail_on is FailOn.NEVER:
        return frozenset()
    return frozenset(order[: order.index(Severity(fail_on.value)) + 1])


def _baseline(path: str | None) -> Baseline:
    if path is None:
        return {}
    from deltacli.operations.validation import parse_baseline

    try:
        with open(path, "rb") as file:
            return parse_baseline(file.read(), path)
    except OSError as error:
        raise NotFound(
            f"{path} cannot be read: {error.strerror}", hint="write one with --write-baseline"
        ) from error


def _check_all(
    session: Session, patterns: list[str], request: Request, known: Baseline
) -> list[TableResult]:
    """Each table for itself: one that cannot be checked does not stop the others."""
    from dataclasses import replace

    from deltacli.operations.validation import TableResult, baseline_name
    from deltacli.storage.patterns import matching_tables
    from deltacli.validate.check import check_table

    means = _means(session)
    results: list[TableResult] = []
    waiting = list(patterns)
    seen: set[str] = set()
    while waiting:
        table = waiting.pop(0)
        try:
            found = matching_tables(table, session.storage_options)
            if found != [table]:
                waiting = found + waiting
                continue
            store, at = session.open(table)
            if store.location in seen:
                continue
            seen.add(store.location)
            if at is not None:
                raise UsageError(
                    "validate goes by the whole log", hint="leave the version out of the name"
                )
            own = replace(request, known=known.get(baseline_name(table), frozenset()))
            with session.progress:
                checked = check_table(store, own, means)
            results.append(TableResult(table, checked, checked.error))
        except (Exception, KeyboardInterrupt) as raised:
            error = failure_of(raised)
            error.location = error.location or table
            if isinstance(error, Interrupted):
                raise
            results.append(TableResult(table, None, error))
    return results


def _means(session: Session) -> Means:
    from deltacli.validate.check import Means

    def spark() -> object:
        from deltacli.spark.session import open_session

        return open_session(session.spark_settings())

    return Means(
        session.engine,
        spark,
        session.now_ms,
        dict(session.storage_options),
        session.progress,
    )


def _show(session: Session, results: list[TableResult], fails: frozenset[Severity]) -> None:
    form = session.findings_format
    if form is FindingsFormat.TABLE:
        from deltacli.render.findings import show_findings

        session.show_people(lambda people: show_findings(results, people))
    elif form in (FindingsFormat.JUNIT, FindingsFormat.SARIF, FindingsFormat.GITHUB):
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


def _end(session: Session, results: list[TableResult], fails: frozenset[Severity]) -> None:
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
