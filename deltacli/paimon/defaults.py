"""Default values: plain text in the schema, read as the column's type (facts 4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from deltacli.paimon.types import Array, Atomic, DataType, Map, Row, inner_types, sql_text

_TRUTHS = frozenset(("t", "true", "y", "yes", "1", "f", "false", "n", "no", "0"))
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_INTEGER = re.compile(r"([+-]?[0-9]{0,40})(?:\.[0-9]*)?")
_FLOAT = re.compile(
    r"\s*[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)\s*"
)
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"\s*([0-9]{1,4})\s*(?:-\s*([0-9]{1,2})\s*(?:-\s*([0-9]{1,2})\s*)?)?")
_TIME = re.compile(r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]+))?)?)?")
_MOMENT = re.compile(
    r"((?!0000)[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})"
    r"([ T]([0-9]{1,2}:[0-9]{1,2}(:[0-9]{1,2}(\.[0-9]{0,9})?)?))?"
)
_BRACKETS = {
    "ARRAY": re.compile(r"\[(.*)\]|ARRAY\s*\((.*)\)", re.IGNORECASE),
    "MAP": re.compile(r"\{(.*)\}|MAP\s*\((.*)\)", re.IGNORECASE),
    "ROW": re.compile(r"\{(.*)\}|STRUCT\s*\((.*)\)", re.IGNORECASE),
}


def default_problem(kind: DataType, default: str | None) -> str | None:
    """Why a text is no default for a type; None if it is one."""
    if default is None:
        return None
    text = bare(default)
    if _reads(kind, text):
        return None
    return f"Unsupported default value `{text}` for type {sql_text(kind)}"


def bare(default: str) -> str:
    """A default without quotes around it, as Paimon takes it."""
    is_quoted = len(default) > 1 and default[0] == default[-1] == "'"
    return default[1:-1] if is_quoted else default


def _reads(kind: DataType, text: str) -> bool:
    match kind:
        case Array(element):
            return _read_all(kind, text, [element])
        case Map(key, value):
            return _read_all(kind, text, [key, value])
        case Row(fields):
            return _read_all(kind, text, [one.type for one in fields])
    root = kind.root
    if root == "BOOLEAN":
        return text.lower() in _TRUTHS
    if root in _BITS:
        match = _INTEGER.fullmatch(text)
        bound = 2 ** (_BITS[root] - 1)
        digits = match[1] if match else ""
        return digits not in ("", "+", "-") and -bound <= int(digits) < bound
    if root in ("FLOAT", "DOUBLE"):
        return _FLOAT.fullmatch(text) is not None
    if root == "DECIMAL":
        return DECIMAL.fullmatch(text) is not None
    if root == "DATE":
        return _is_number(text, 32) or _is_date(text.partition(" ")[0])
    if root == "TIME":
        return _is_number(text, 32) or _is_time(text)
    if root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        match = _MOMENT.fullmatch(text)
        is_moment = match and _is_date(match[1]) and (match[3] is None or _is_time(match[3]))
        # Seconds may be left out behind a T only.
        is_whole = match and (match[3] is None or match[4] or "T" in text)
        return bool(is_moment and is_whole) or (root == "TIMESTAMP" and _is_number(text, 64))
    return root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY")


def _is_number(text: str, bits: int) -> bool:
    """Whether a text is a number of days or milliseconds."""
    return re.fullmatch(r"[0-9]{1,19}", text) is not None and int(text) < 2 ** (bits - 1)


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    try:
        # Years repeat themselves every 400; Python knows the first 9999.
        date(int(match[1]) % 400 + 400, int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    match = _TIME.fullmatch(text.strip())
    return (
        match is not None
        and int(match[1]) < 24
        and int(match[2] or 0) < 60
        and int(match[3] or 0) < 60
    )


def _read_all(kind: DataType, text: str, inner: list[DataType]) -> bool:
    if not all(_has_texts(one) for one in inner):
        return False
    if isinstance(kind, Map) and text.strip().lower() == "null":
        return True
    match = _BRACKETS[kind.root].fullmatch(text.strip())
    if match is None:
        return False
    parts = list(_parts((match[1] or match[2] or "").strip()))
    if isinstance(kind, Row):
        fits = not parts or len(parts) == len(inner)
        return fits and all(map(_reads_or_null, inner, parts))
    if isinstance(kind, Map) and match[2] is not None:
        fits = len(parts) % 2 == 0
        return fits and all(_reads_or_null(inner[at % 2], one) for at, one in enumerate(parts))
    if isinstance(kind, Map):
        pairs = [part.partition("->") for part in parts]
        return all(
            arrow and _reads_or_null(inner[0], key) and _reads_or_null(inner[1], value)
            for key, arrow, value in pairs
        )
    return all(_reads_or_null(inner[0], part) for part in parts)


def _has_texts(kind: DataType) -> bool:
    """Whether there are texts for values of a type at all."""
    if isinstance(kind, Atomic):
        return kind.root not in ("VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY")
    return kind.root not in ("MULTISET", "VECTOR") and all(
        _has_texts(one) for _, one in inner_types(kind)
    )


def _reads_or_null(kind: DataType, text: str) -> bool:
    return text.strip() == "null" or _reads(kind, text.strip())


def _parts(content: str) -> Iterator[str]:
    """What commas divide, outside of quotes and brackets."""
    part, depth, in_quotes = "", 0, False
    for at, one in enumerate(content):
        is_escaped = at > 0 and content[at - 1] == "\\"
        if one == '"' and not is_escaped:
            in_quotes = not in_quotes
        elif not in_quotes and one in "([{<":
            depth += 1
        elif not in_quotes and one in ")]}>" and not part.endswith("-"):
            depth = max(depth - 1, 0)
        elif one == "," and not in_quotes and not depth:
            yield part
            part = ""
            continue
        part += one
    if part:
        yield part
