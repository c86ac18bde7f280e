"""Table properties: one row each, with type and default; facts 3.3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.delta.column_mapping import MAX_ID, MODE
from deltacli.units import parse_interval


def _bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(f"not true or false: {text!r}")
    return lowered == "true"


@dataclass(frozen=True, slots=True)
class Property:
    """A property with the reading of its text. `default` is already a value, not text."""

    key: str
    parse: Callable[[str], Any]
    default: Any = None


_WEEK, _DAY = 7 * 86_400_000, 86_400_000

PROPERTIES: tuple[Property, ...] = (
    Property("delta.appendOnly", _bool, False),
    Property("delta.checkpoint.writeStatsAsJson", _bool, True),
    Property("delta.checkpoint.writeStatsAsStruct", _bool, False),
    Property("delta.checkpointInterval", int, 10),
    Property("delta.checkpointPolicy", str, "classic"),
    Property("delta.checkpointRetentionDuration", parse_interval, 2 * _DAY),
    Property(MAX_ID, int),
    Property(MODE, str, "none"),
    Property("delta.dataSkippingNumIndexedCols", int, 32),
    Property("delta.dataSkippingStatsColumns", str),
    Property("delta.deletedFileRetentionDuration", parse_interval, _WEEK),
    Property("delta.enableChangeDataFeed", _bool, False),
    Property("delta.enableDeletionVectors", _bool, False),
    Property("delta.enableExpiredLogCleanup", _bool, True),
    Property("delta.enableInCommitTimestamps", _bool, False),
    Property("delta.enableRowTracking", _bool, False),
    Property("delta.enableTypeWidening", _bool, False),
    Property("delta.inCommitTimestampEnablementTimestamp", int),
    Property("delta.inCommitTimestampEnablementVersion", int),
    Property("delta.isolationLevel", str, "Serializable"),
    Property("delta.logRetentionDuration", parse_interval, 30 * _DAY),
    Property("delta.requireCheckpointProtectionBeforeVersion", int, 0),
    Property("delta.rowTrackingSuspended", _bool, False),
    Property("delta.setTransactionRetentionDuration", parse_interval),
    Property("delta.universalFormat.enabledFormats", str, ""),
)
_BY_KEY = {row.key: row for row in PROPERTIES}


def read_property(configuration: Mapping[str, str], key: str) -> Any:
    """The value of a known property, or its default.

    Raises ValueError naming the property if its text cannot be read.
    """
    row = _BY_KEY[key]
    text = configuration.get(key)
    if text is None:
        return row.default
    try:
        return row.parse(text)
    except ValueError as error:
        raise ValueError(f"property {key} = {text!r}: {error}") from None


def read_tolerantly(configuration: Mapping[str, str], key: str, warnings: list[str]) -> Any:
    """As `read_property`, but an unreadable text is a warning and gives the default."""
    try:
        return read_property(configuration, key)
    except ValueError as error:
        warning = f"{error}; its default is used"
        if warning not in warnings:
            warnings.append(warning)
        return _BY_KEY[key].default
