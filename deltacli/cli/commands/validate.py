"""`deltacli validate`: the whole protocol as checks, for one table or many."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.engines import EngineWish
from deltacli.cli.findings import (
    CI_FORMATS,
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
from deltacli.cli.options import (
    CommonOptions,
    Engine,
    EngineOpt,
    SparkConfOpt,
    SparkMasterOpt,
)
from deltacli.cli.session import Session
from deltacli.errors import UsageError
from deltacli.render.formats import FindingsFormat

if TYPE_CHECKING:
    from deltacli.checking.tally import Checked, FindingKey
    from deltacli.operations.validation import Baseline, TableResult
    from deltacli.storage import LogStore
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
    select: SelectOpt = None,
    ignore: IgnoreOpt = None,
    fail_on: FailOnOpt = FailOn.ERROR,
    baseline: BaselineOpt = None,
    write_baseline: Annotated[
        str | None,
        typer.Option(
            "--write-baseline",
            metavar="FILE",
            help="Write all findings to a file, for --baseline, and pass.",
            show_default=False,
        ),
    ] = None,
    max_findings: MaxFindingsOpt = 20,
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
    from deltacli.operations.any_table import BOOK

    wish = EngineWish.of(engine, spark_master, spark_conf)
    session = Session(options, wish)
    depth = Level.named("data" if list_rules and level is LevelChoice.LOG else level.value)
    rules = BOOK.chosen(depth, rule_ids("--select", select), rule_ids("--ignore", ignore))
    if explain is not None or list_rules:
        if tables or (explain is not None and list_rules):
            raise UsageError("--explain and --list-rules take no table", hint="leave TABLE out")
        if options.output in CI_FORMATS:
            raise UsageError(
                f"{options.output.value} is for findings", hint="use json, jsonl, csv or table here"
            )
        from deltacli.operations.validation import rule_document, rule_listing

        if explain is not None:
            session.show(rule_document(BOOK.find(explain)))
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
    if baseline is not None and write_baseline is not None:
        raise UsageError(
            "--write-baseline writes all findings, known or not", hint="leave --baseline out"
        )
    from deltacli.validate.check import Request

    check_finding_fields(session)
    session.check_places(write_baseline)
    most = None if max_findings == 0 or write_baseline is not None else max_findings
    request = Request(rules, depth, _sample(sample), most, tells_each=write_baseline is not None)
    known = read_baseline(baseline)
    results = _check_all(session, tables, request, known)
    fails = failing(fail_on)
    if write_baseline is not None and not any(one.error for one in results):
        from deltacli.operations.validation import baseline_text

        session.write_beside(write_baseline, baseline_text(results).decode())
        fails = frozenset()
    show_results(session, results, fails)
    end_with(session, results, fails)


def _sample(text: str | None) -> Sample:
    from deltacli.validate.data_files import Sample

    if text is None:
        return Sample()
    part, slash, of = text.partition("/")
    if slash and part.isdecimal() and of.isdecimal() and 1 <= int(part) <= int(of):
        return Sample(int(part), int(of))
    raise UsageError(f"--sample {text!r} is no share", hint="write it as 1/7")


def _check_all(
    session: Session, patterns: list[str], request: Request, known: Baseline
) -> list[TableResult]:
    from dataclasses import replace

    from deltacli.operations.any_table import check_any_table
    from deltacli.storage.patterns import DELTA, PAIMON

    means = _means(session)

    def check(store: LogStore, known: frozenset[FindingKey]) -> Checked:
        return check_any_table(store, replace(request, known=known), means)

    return check_each(session, patterns, (DELTA, PAIMON), known, check)


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
