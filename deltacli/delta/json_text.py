"""JSON as the log holds it: fast where that is safe, exact where numbers matter.

orjson turns long decimals into floats and refuses lone surrogates (pitfalls J-1, J-3);
where that could change a value, the standard library reads the text with `Decimal`.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NoReturn

import orjson

def load(text: bytes | str) -> Any:
    """The document, for keys, strings and 64-bit integers; other numbers may be rounded.

    Raises ValueError with the reason.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        try:
            return load_exact(text)
        except ValueError:
            raise ValueError(str(error)) from None


def load_faithful(text: bytes) -> Any:
    """The document with each number as it stands in the text."""
    value = load(text)
    # Only fractions and integers beyond 64 bits come as floats.
    return load_exact(text) if _has_float(value) else value


def _has_float(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return any(_has_float(one) for one in value.values())
    if kind is list:
        return any(_has_float(one) for one in value)
    return kind is float


def load_exact(text: bytes | str) -> Any:
    """The document, with every non-integer number as a Decimal."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        return json.loads(text, parse_float=_decimal, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(f"the number {text[:40]} is out of range") from None


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


# JSON that is written as it stands.
Verbatim = orjson.Fragment


def dump(value: Any, *, indent: bool = False) -> bytes:
    """JSON text; Decimals keep all their digits."""
    options = orjson.OPT_INDENT_2 if indent else 0
    try:
        return orjson.dumps(value, default=_plain, option=options)
    except TypeError:
        # Integers beyond 64 bits and lone surrogates: rare, and the standard library has both.
        text = json.dumps(
            _without_decimals(value),
            indent=2 if indent else None,
            separators=(",", ": " if indent else ":"),
        )
        return text.encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return orjson.Fragment(_number(value))
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _number(value: Decimal) -> str:
    return str(value) if value.is_finite() else f'"{value}"'


def _without_decimals(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {key: _without_decimals(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_decimals(one) for one in value]
    if isinstance(value, orjson.Fragment):
        return json.loads(orjson.dumps(value))
    return value
