"""Per-file statistics: JSON text or struct, read exactly (facts 9.2, SF-4, SF-8, K-14)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from deltacli.delta import json_text

# The place where every writer puts it; anything else is parsed. A nested column may have
# the same name, so the match is anchored.
NUM_RECORDS = r'^\s*\{\s*"numRecords"\s*:\s*(?P<n>\d{1,18})\s*[,}]'
_NUM_RECORDS = re.compile(NUM_RECORDS)


def num_records(text: str | None) -> int | None:
    """numRecords of a stats text; None where it has none or cannot be parsed."""
    if not text:
        return None
    if match := _NUM_RECORDS.match(text):
        return int(match["n"])
    stats = parse_stats(text)
    records = stats.get("numRecords") if stats else None
    return records if type(records) is int and -(2**63) <= records < 2**63 else None


def parse_stats(text: str | None) -> dict[str, Any] | None:
    """The statistics with exact numbers; None for absent, empty or unreadable text."""
    if not text:
        return None
    try:
        stats = json_text.load_faithful(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return stats if isinstance(stats, dict) else None


def is_stats_line(text: str) -> bool:
    """Whether a stats text is a JSON object on one line, fit to be shown as it stands."""
    if not text.startswith("{") or "\n" in text or "\r" in text:
        return False
    try:
        json_text.load(text)
    except ValueError:
        return False
    return True


def stats_of_struct(struct: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The statistics of a `stats_parsed` row in the form that their JSON has."""
    if struct is None:
        return None
    return {key: _plain(value) for key, value in struct.items() if value is not None} or None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return f"{text}Z" if value.tzinfo else text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return value


def rename_columns(stats: dict[str, Any], rename: Callable[[Any], Any]) -> dict[str, Any]:
    """The statistics with the column names of min, max and null counts translated."""
    return {
        key: rename(value) if key in ("minValues", "maxValues", "nullCount") else value
        for key, value in stats.items()
    }


__all__ = [
    "NUM_RECORDS",
    "num_records",
    "parse_stats",
    "rename_columns",
    "stats_of_struct",
]
