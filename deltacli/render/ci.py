"""Findings as other tools take them: JUnit, SARIF 2.1.0, and annotations of GitHub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from deltacli import __version__
from deltacli.checking.model import AnyRule, Severity
from deltacli.checking.tally import Found
from deltacli.delta import json_text
from deltacli.operations.validation import TableResult
from deltacli.storage import local_path
from deltacli.units import escaped

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_GITHUB_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def place_of(one: TableResult, found: Found) -> str:
    """Where a finding is: a local path from here where that is shorter, else a URL."""
    name = found.finding.file if found.finding.file is not None else found.finding.path
    location = one.location if name is None else f"{one.location}/{name}"
    if not location.startswith("file://"):
        return location
    path = local_path(location)
    own = os.path.relpath(path)
    return path if own.startswith("..") else own


def _whole(found: Found) -> str:
    """The message, with the data file that it is about."""
    one = found.finding
    return f"{one.message}: {one.path}" if one.path is not None and one.file else one.message


# -- JUnit -------------------------------------------------------------------------------


def junit_text(results: Sequence[TableResult], fails: frozenset[Severity]) -> str:
    """A suite a table, a case a rule; rules that found nothing are seen to have passed."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for one in results:
        lines += _suite(one, fails)
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def _suite(one: TableResult, fails: frozenset[Severity]) -> Iterator[str]:
    by_rule: dict[str, list[Found]] = {}
    for found in one.found():
        by_rule.setdefault(found.rule.id, []).append(found)
    failed = sum(1 for rule in one.rules if rule.id in by_rule and rule.severity in fails)
    errors = int(one.error is not None)
    name = _attribute(one.location)
    yield (
        f'  <testsuite name={name} tests="{len(one.rules) + errors}" failures="{failed}" '
        f'errors="{errors}" skipped="0">'
    )
    if one.error is not None:
        message = _attribute(one.error.message)
        yield f'    <testcase classname={name} name="table"><error message={message}/></testcase>'
    for rule in one.rules:
        yield from _case(one, rule, by_rule.get(rule.id, []), is_failure=rule.severity in fails)
    yield "  </testsuite>"


def _case(
    one: TableResult, rule: AnyRule, found: list[Found], *, is_failure: bool
) -> Iterator[str]:
    head = (
        f"    <testcase classname={_attribute(one.location)} "
        f"name={_attribute(f'{rule.id} {rule.title}')}"
    )
    if not found:
        yield f"{head}/>"
        return
    count = one.checked.tally.counts[rule.id] if one.checked else len(found)
    texts = [f"{place_of(one, each)}: {_whole(each)}" for each in found]
    if count > len(found):
        texts.append(f"and {count - len(found):,} more")
    body = _xml("\n".join([*texts, "", f"Fix: {rule.page.fix}"]))
    if is_failure:
        message = _attribute(f"{count:,} findings" if count > 1 else found[0].finding.message)
        yield f'{head}><failure type="{rule.severity.value}" message={message}>{body}</failure>'
    else:
        yield f"{head}><system-out>{body}</system-out>"
    yield "    </testcase>"


def _xml(text: str) -> str:
    return escape(
        _NOT_XML.sub(lambda match: escaped(match[0]), text.encode("utf-8", "replace").decode())
    )


def _attribute(text: str) -> str:
    return quoteattr(escaped(text))


# -- SARIF -------------------------------------------------------------------------------


def sarif_text(results: Sequence[TableResult]) -> bytes:
    """One run over all tables, with the page of each rule that was asked."""
    rules = {rule.id: rule for one in results for rule in one.rules}
    order = {rule_id: position for position, rule_id in enumerate(rules)}
    failures = [one for one in results if one.error is not None]
    run = {
        "tool": {
            "driver": {
                "name": "deltacli",
                "version": __version__,
                "semanticVersion": __version__,
                "rules": [_sarif_rule(one) for one in rules.values()],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not failures,
                "toolExecutionNotifications": [
                    {
                        "level": "error",
                        "message": {"text": f"{one.table}: {one.error.message}"},
                    }
                    for one in failures
                    if one.error is not None
                ],
            }
        ],
        "results": [
            _sarif_result(one, found, order[found.rule.id])
            for one in results
            for found in one.found()
        ],
    }
    body = {"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json_text.dump(body, indent=True) + b"\n"


def _sarif_rule(one: AnyRule) -> dict[str, Any]:
    page = one.page
    return {
        "id": one.id,
        "name": "".join(word.capitalize() for word in re.findall(r"\w+", one.title)),
        "shortDescription": {"text": one.title},
        "fullDescription": {"text": page.holds},
        "help": {
            "text": f"{page.holds}\n\nWhy: {page.why}\n\nFix: {page.fix}",
            "markdown": f"{page.holds}\n\n**Why:** {page.why}\n\n**Fix:** {page.fix}",
        },
        "defaultConfiguration": {"level": _SARIF_LEVELS[one.severity]},
        "properties": {"level": one.level.label},
    }


def _sarif_result(one: TableResult, found: Found, index: int) -> dict[str, Any]:
    uri = quote(place_of(one, found).encode("utf-8", "surrogateescape"), safe="/:@=+,")
    # A colon in a relative path would end a scheme.
    if "://" not in uri and ":" in uri.partition("/")[0]:
        uri = f"./{uri}"
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if found.finding.line is not None:
        place["region"] = {"startLine": found.finding.line}
    key = "|".join(
        str(part) for part in (one.table, *found.key, found.finding.line, found.finding.message)
    )
    return {
        "ruleId": found.rule.id,
        "ruleIndex": index,
        "level": _SARIF_LEVELS[found.rule.severity],
        "message": {"text": escaped(_whole(found))},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"finding/v1": _digest(key)},
        "properties": {
            "table": one.location,
            "version": found.finding.version,
            "path": found.finding.path,
        },
    }


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


# -- GitHub ------------------------------------------------------------------------------


def github_text(results: Sequence[TableResult]) -> str:
    """Workflow commands that become annotations, and a line for the log of each table."""
    lines: list[str] = []
    for one in results:
        for found in one.found():
            lines.append(_annotation(one, found))
        for rule_id, count in one.left_out().items():
            lines.append(f"{rule_id}: and {count:,} more in {escaped(one.location)}")
        if one.error is not None:
            lines.append(
                f"::error title=not checked::{_command(f'{one.table}: {one.error.message}')}"
            )
            continue
        counts = ", ".join(f"{count:,} {kind.value}" for kind, count in one.counts().items())
        lines.append(f"{escaped(one.location)}: {counts}")
    return "".join(f"{line}\n" for line in lines)


def _annotation(one: TableResult, found: Found) -> str:
    place = place_of(one, found)
    settings = [f"title={_setting(f'{found.rule.id} {found.rule.title}')}"]
    # Only files of the checkout can be pointed at.
    if not os.path.isabs(place) and "://" not in place:
        settings.insert(0, f"file={_setting(place)}")
        if found.finding.line is not None:
            settings.insert(1, f"line={found.finding.line}")
        message = _whole(found)
    else:
        message = f"{place}: {_whole(found)}"
    return f"::{_GITHUB_LEVELS[found.rule.severity]} {','.join(settings)}::{_command(message)}"


def _command(text: str) -> str:
    """Text in which nothing ends the command or begins another one."""
    return escaped(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _setting(text: str) -> str:
    return _command(text).replace(":", "%3A").replace(",", "%2C")
