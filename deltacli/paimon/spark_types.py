"""Types as Spark writes them into metadata, where it keeps the lengths of strings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from deltacli.paimon.types import (
    MAX_LENGTH,
    TIMESTAMP_LTZ,
    Array,
    Atomic,
    DataType,
    Map,
    Multiset,
    Row,
    Vector,
    inner_types,
    quoted,
)

_DELTA_NAMES: Mapping[str, str] = {
    "BOOLEAN": "boolean",
    "TINYINT": "byte",
    "SMALLINT": "short",
    "INT": "integer",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "DATE": "date",
    "TIME": "integer",
    "TIMESTAMP": "timestamp_ntz",
    TIMESTAMP_LTZ: "timestamp",
    "VARIANT": "variant",
    "BLOB": "binary",
}
_SPARK = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[<>:,]|(?:[^<>:,`(]|\([^()]{0,60}\))+)")
_LENGTH = re.compile(r"(var)?char\(\s*([0-9]{1,10})\s*\)", re.IGNORECASE)
_MOST_DEEP = 64


def delta_name(kind: Atomic) -> str | None:
    """The name that Delta has for a type; None if it has none."""
    if kind.root == "DECIMAL":
        return f"decimal({kind.length},{kind.scale})"
    return _DELTA_NAMES.get(kind.root)


def has_lengths(kind: DataType) -> bool:
    """Whether a type has strings of bounded lengths in it."""
    if isinstance(kind, Atomic):
        return kind.root in ("CHAR", "VARCHAR") and kind.length != MAX_LENGTH
    return any(has_lengths(one) for _, one in inner_types(kind))


def spark_text(kind: DataType) -> str:
    """A type as Spark writes it where it keeps the lengths of strings."""
    match kind:
        case Row(fields):
            inner = (f"{_name(one.name)}:{spark_text(one.type)}" for one in fields)
            return f"struct<{','.join(inner)}>"
        case Array(element) | Vector(element):
            return f"array<{spark_text(element)}>"
        case Map(key, value):
            return f"map<{spark_text(key)},{spark_text(value)}>"
        case Multiset(element):
            return f"map<{spark_text(element)},int>"
        case Atomic() if has_lengths(kind):
            return f"{kind.root.lower()}({kind.length})"
        case Atomic():
            name = delta_name(kind) or ""
            return _SPARK.get(name, name)


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)


def bounded_string(text: str) -> Atomic | None:
    """The type of `varchar(7)` or `char(3)`; None for other texts."""
    match = _LENGTH.fullmatch(text)
    if match is None or not 1 <= int(match[2]) <= MAX_LENGTH:
        return None
    return Atomic("VARCHAR" if match[1] else "CHAR", (int(match[2]),))


def parse_lengths(text: str) -> Any:
    """What Spark wrote, taken apart: texts, lists of them, or fields by names.

    None for what cannot be read: then no length is known.
    """
    tokens = _TOKEN.findall(text[:100_000])
    try:
        found, rest = _parse(tokens, 0, 0)
    except (IndexError, ValueError):
        return None
    return found if rest == len(tokens) else None


def _parse(tokens: list[str], at: int, depth: int) -> tuple[Any, int]:
    word = tokens[at].strip()
    kind = word.lower()
    if depth > _MOST_DEEP:
        raise ValueError("nested too deeply")
    if tokens[at + 1 : at + 2] != ["<"]:
        return word, at + 1
    at += 2
    fields: list[tuple[str, Any]] = []
    while True:
        name = ""
        if kind == "struct":
            name, at = tokens[at].strip(), at + 2
            if tokens[at - 1] != ":":
                raise ValueError("a field has no type")
        inner, at = _parse(tokens, at, depth + 1)
        unquoted = name[1:-1].replace("``", "`") if name[:1] == "`" else name
        fields.append((unquoted, inner))
        at += 1
        if tokens[at - 1] == ">":
            break
        if tokens[at - 1] != ",":
            raise ValueError("it goes on")
    return dict(fields) if kind == "struct" else [one for _, one in fields], at
