"""Findings for people: tables and severities apart, the worst first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

from deltacli.checking.model import Severity
from deltacli.checking.tally import Found
from deltacli.operations.validation import TableResult
from deltacli.render.table import People
from deltacli.units import escaped

_NARROWEST = 20
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}


def show_findings(results: Sequence[TableResult], people: People) -> None:
    for position, one in enumerate(results):
        if position:
            people.console.print()
        _show_table(one, people)


def _show_table(one: TableResult, people: People) -> None:
    say = people.console.print
    checked = one.checked
    if checked is None:
        say(Text(f"{escaped(one.location)}  not checked", style="bold"))
        return
    version = "no version" if checked.version is None else f"version {checked.version}"
    say(
        Text.assemble(
            (escaped(one.location), "bold"),
            (f"  {version}, level {checked.level.label}, {len(one.rules)} rules", "dim"),
        )
    )
    for severity, group in groupby(one.found(), key=lambda found: found.rule.severity):
        for found in group:
            _show_finding(found, severity, people)
    for rule_id, count in one.left_out().items():
        say(Text(f"  {rule_id}  and {count:,} more", style="dim"))
    wrong = [found.rule.id for found in one.found() if found.rule.severity is not Severity.INFO]
    if wrong:
        say(Text(f"  what to do: deltacli validate --explain {wrong[0]}", style="dim"))
    for note in checked.notes:
        say(Text(f"  {escaped(note)}", style="dim"))
    say(Text(f"  {_summary(one)}"))


def _show_finding(found: Found, severity: Severity, people: People) -> None:
    """What is wrong and where; further lines begin below the first one's message."""
    one = found.finding
    place = one.path if one.path is not None else one.file
    where = [] if place is None else [escaped(place)]
    if one.path is None and one.line is not None:
        where[-1] += f":{one.line}"
    elif one.path is not None and one.version is not None:
        where.append(f"version {one.version}")
    head = Text.assemble(
        (f"  {severity.value:<8}", _STYLES[severity]), (f"{found.rule.id}  ", "bold")
    )
    body = Text.assemble(escaped(one.message), (f"  {', '.join(where)}" if where else "", "dim"))
    console = people.console
    for line in body.wrap(console, max(console.width - len(head), _NARROWEST)):
        line.rstrip()
        console.print(head + line, soft_wrap=True)
        head = Text(" " * len(head))


def _summary(one: TableResult) -> str:
    counts = [
        f"{count:,} {severity.value}{'s' if count != 1 else ''}"
        for severity, count in one.counts().items()
        if count and severity is not Severity.INFO
    ]
    infos = one.counts()[Severity.INFO]
    if infos:
        counts.append(f"{infos:,} remark{'s' if infos != 1 else ''}")
    known = one.checked.tally.num_known if one.checked else 0
    text = ", ".join(counts) or "nothing found"
    return f"{text}; {known:,} known" if known else text
