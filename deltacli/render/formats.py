"""The output formats, and which one `auto` means."""

from __future__ import annotations

import os
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


class FindingsFormat(StrEnum):
    """The formats of `validate`: also those that other tools take findings in."""

    AUTO = "auto"
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    JUNIT = "junit"
    SARIF = "sarif"
    GITHUB = "github"

    def resolved(self, *, on_terminal: bool) -> FindingsFormat:
        """Annotations in a workflow of GitHub; else as `Format`."""
        if self is not FindingsFormat.AUTO:
            return self
        if os.environ.get("GITHUB_ACTIONS") == "true":
            return FindingsFormat.GITHUB
        return FindingsFormat.TABLE if on_terminal else FindingsFormat.TSV
