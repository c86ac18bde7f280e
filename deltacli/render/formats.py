"""The output formats, and which one `auto` means."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    AUTO = "auto"
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"

    def resolved(self, *, on_terminal: bool) -> Format:
        """A table for a person, plain uncut lines for a pipe."""
        if self is not Format.AUTO:
            return self
        return Format.TABLE if on_terminal else Format.TSV
