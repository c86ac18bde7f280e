"""Defaults both ways: plain text in Paimon, an expression of SQL in Delta."""

from __future__ import annotations

import re

from deltacli.paimon.defaults import DECIMAL, bare, default_problem
from deltacli.paimon.types import TIMESTAMP_LTZ, DataType

_LITERAL = re.compile(
    r"(?i:date|timestamp|timestamp_ntz|timestamp_ltz)?\s*('(?:[^'\\]|''|\\.)*')"
    r"|([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)|(?i:(true|false))"
)
_TRUE = ("t", "true", "y", "yes", "1")
_PREFIXES = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMP_NTZ", TIMESTAMP_LTZ: "TIMESTAMP"}


def literal_of(kind: DataType, default: str) -> str | None:
    """A default as SQL; None if it is not one value of the type."""
    if default_problem(kind, default) is not None:
        return None
    default = bare(default)
    text = "'" + default.replace("\\", "\\\\").replace("'", "\\'") + "'"
    root = kind.root
    if root in ("CHAR", "VARCHAR"):
        return text
    if root == "BOOLEAN":
        return "true" if default.lower() in _TRUE else "false"
    if root in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        return default.partition(".")[0].lstrip("+")
    if root in ("FLOAT", "DOUBLE", "DECIMAL"):
        return default.lstrip("+") if DECIMAL.fullmatch(default) else None
    prefix = None if default.isdecimal() else _PREFIXES.get(root)
    return f"{prefix} {text}" if prefix else None


def plain_default(kind: DataType, expression: str) -> str | None:
    """An expression as Paimon's text; None if it is no literal of the type."""
    match = _LITERAL.fullmatch(expression.strip())
    if match is None:
        return None
    quoted = match[1]
    if quoted is None:
        found = expression.strip()
    else:
        plain = re.sub(r"\\(.)|''", lambda one: one[1] or "'", quoted[1:-1])
        # Paimon takes quotes around a value away.
        found = quoted if plain == quoted[1:-1] else f"'{plain}'"
    return None if default_problem(kind, found) is not None else found
