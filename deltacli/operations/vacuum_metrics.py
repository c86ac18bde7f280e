"""What a vacuum tells its monitoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LAST_SUCCESS = "deltacli_vacuum_last_success_timestamp_seconds"

# Gauge, help, field of the document.
_FROM_DOCUMENT = (
    ("planned_files", "Files that the plan found.", "numFiles"),
    ("planned_bytes", "Bytes that the plan found.", "sizeInBytes"),
    ("deleted_files", "Files that were deleted.", "numDeleted"),
    ("deleted_bytes", "Bytes that were deleted.", "bytesDeleted"),
    ("deleted_directories", "Empty directories that were removed.", "numDirectoriesDeleted"),
    (
        "earliest_readable_version",
        "Oldest version from which on all can be read.",
        "earliestReadableVersion",
    ),
)


@dataclass
class TableRun:
    """One table's run: how it ended and what it showed."""

    location: str
    exit_code: int
    seconds: float
    values: Mapping[str, Any] = field(default_factory=dict)


def gauges(
    runs: Sequence[TableRun], ended_seconds: float, earlier_success: Mapping[str, float]
) -> list[tuple[str, str, dict[str, float | int]]]:
    """Name, help and one value a table. A success stays known when later runs fail."""
    found: list[tuple[str, str, dict[str, float | int]]] = [
        (
            "deltacli_vacuum_exit_code",
            "Exit code of the last run.",
            {one.location: one.exit_code for one in runs},
        ),
        (
            "deltacli_vacuum_duration_seconds",
            "How long the last run took.",
            {one.location: round(one.seconds, 3) for one in runs},
        ),
        (
            "deltacli_vacuum_last_run_timestamp_seconds",
            "When the last run ended.",
            {one.location: round(ended_seconds, 3) for one in runs},
        ),
    ]
    success: dict[str, float | int] = {
        one.location: earlier_success[one.location]
        for one in runs
        if one.location in earlier_success
    }
    for one in runs:
        if one.exit_code == 0 and one.values.get("dryRun") is False:
            success[one.location] = round(ended_seconds, 3)
    found.append((LAST_SUCCESS, "When a run last deleted all that it planned.", success))
    for name, text, key in _FROM_DOCUMENT:
        values: dict[str, float | int] = {
            one.location: one.values[key] for one in runs if one.values.get(key) is not None
        }
        found.append((f"deltacli_vacuum_{name}", text, values))
    failed: dict[str, float | int] = {
        one.location: len(one.values["failures"]) for one in runs if "failures" in one.values
    }
    found.append(("deltacli_vacuum_failed_files", "Files that could not be deleted.", failed))
    return found
