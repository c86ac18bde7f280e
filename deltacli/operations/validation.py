"""What was found in one or many tables: told, and compared with a baseline."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltacli.checking.model import AnyRule, Severity
from deltacli.checking.tally import Checked, FindingKey, Found
from deltacli.delta import json_text
from deltacli.errors import DeltaCliError, UsageError
from deltacli.operations.records import Document, Listing, Row
from deltacli.units import without_secrets

FINDING_FIELDS = (
    "location", "rule", "severity", "title", "message", "file", "line", "version", "path", "hint",
)  # fmt: skip
TABLE_FIELDS = (
    "location", "version", "level", "rulesRun", "findings", "summary", "notes", "error",
)  # fmt: skip
RULE_FIELDS = ("rule", "severity", "level", "title", "holds", "why", "fix")
_BASELINE_FORMAT = 1
_WORST_FIRST = (Severity.ERROR, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True)
class TableResult:
    """What came out for one table, by the name that the user gave it; or why nothing did."""

    given: str
    checked: Checked | None
    error: DeltaCliError | None = None

    @property
    def table(self) -> str:
        return without_secrets(self.given)

    @property
    def location(self) -> str:
        if self.checked is not None:
            return self.checked.location
        return (self.error.location if self.error else None) or self.table

    @property
    def rules(self) -> Sequence[AnyRule]:
        return self.checked.rules if self.checked else ()

    def found(self) -> list[Found]:
        """What was kept, the worst first."""
        if self.checked is None:
            return []
        order = {one: position for position, one in enumerate(_WORST_FIRST)}
        return sorted(self.checked.tally.found(), key=lambda one: order[one.rule.severity])

    def counts(self) -> dict[Severity, int]:
        """All findings by severity, also those that were not kept."""
        sums: Counter[Severity] = Counter()
        for one in self.rules:
            sums[one.severity] += self.checked.tally.counts[one.id] if self.checked else 0
        return {one: sums[one] for one in _WORST_FIRST}

    def left_out(self) -> dict[str, int]:
        """How many findings of each rule were counted and not kept."""
        if self.checked is None:
            return {}
        kept = Counter(one.rule.id for one in self.checked.tally.found())
        counts = self.checked.tally.counts
        return {one: counts[one] - kept[one] for one in sorted(counts) if counts[one] > kept[one]}

    def record(self) -> Row:
        checked = self.checked
        summary: dict[str, Any] = {one.value: count for one, count in self.counts().items()}
        summary["known"] = checked.tally.num_known if checked else 0
        summary["byRule"] = dict(sorted(checked.tally.counts.items())) if checked else {}
        return {
            "location": self.location,
            "version": checked.version if checked else None,
            "level": checked.level.label if checked else None,
            "rulesRun": len(self.rules),
            "findings": [
                {name: value for name, value in row.items() if name != "location"}
                for row in self.rows()
            ],
            "summary": summary,
            "notes": list(checked.notes) if checked else [],
            "error": self.error.message if self.error else None,
        }

    def rows(self) -> Iterator[Row]:
        for one in self.found():
            yield {
                "location": self.location,
                "rule": one.rule.id,
                "severity": one.rule.severity.value,
                "title": one.rule.title,
                "message": one.finding.message,
                "file": one.finding.file,
                "line": one.finding.line,
                "version": one.finding.version,
                "path": one.finding.path,
                "hint": one.rule.page.fix,
            }


def whole_document(results: Sequence[TableResult]) -> Document:
    return Document({"tables": [one.record() for one in results]}, "validate", is_chosen=True)


def finding_listing(results: Sequence[TableResult]) -> Listing:
    """The findings of all tables."""

    def rows() -> Iterator[Row]:
        for one in results:
            yield from one.rows()

    shown: tuple[str, ...] = ("location", "rule", "severity", "message", "file", "line", "path")
    if len(results) == 1:
        shown = shown[1:]
    return Listing(rows(), FINDING_FIELDS, shown, "findings")


def rule_listing(rules: Sequence[AnyRule]) -> Listing:
    """The rules as rows, with their pages."""
    rows = (
        {
            "rule": one.id,
            "severity": one.severity.value,
            "level": one.level.label,
            "title": one.title,
            "holds": one.page.holds,
            "why": one.page.why,
            "fix": one.page.fix,
        }
        for one in rules
    )
    return Listing(rows, RULE_FIELDS, RULE_FIELDS[:4], "rules")


def rule_document(one: AnyRule) -> Document:
    """The page of one rule."""
    values = next(iter(rule_listing([one]).rows))
    assert isinstance(values, Mapping)
    return Document(values, one.id)


# -- what is known already ---------------------------------------------------------------

Baseline = Mapping[str, frozenset[FindingKey]]


def baseline_name(table: str) -> str:
    """A table's name in a baseline: as the user wrote it, in one spelling."""
    return without_secrets(table) if "://" in table else os.path.normpath(table)


def baseline_text(results: Sequence[TableResult]) -> bytes:
    """All findings of these tables, to be passed over by later runs."""
    tables = {
        baseline_name(one.table): [
            {"rule": key[0], "file": key[1], "path": key[2], "version": key[3]}
            for key in sorted(
                {found.key for found in one.found()},
                key=lambda key: tuple(str(part) for part in key),
            )
        ]
        for one in results
    }
    body = {"deltacliBaseline": _BASELINE_FORMAT, "tables": tables}
    return json_text.dump(body, indent=True) + b"\n"


def parse_baseline(content: bytes, name: str) -> Baseline:
    """Raises UsageError if it is none."""
    try:
        body = json_text.load(content)
        if body["deltacliBaseline"] != _BASELINE_FORMAT:
            raise ValueError(f"its format is {body['deltacliBaseline']!r}")
        return {
            str(table): frozenset(
                (str(one["rule"]), one["file"], one["path"], one["version"]) for one in findings
            )
            for table, findings in body["tables"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{name} is no baseline: {error}",
            hint="write one with `deltacli validate --write-baseline`",
        ) from None
