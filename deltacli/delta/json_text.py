"""JSON as the log holds it: fast where that is safe, exact where numbers matter.

orjson turns long decimals into floats and refuses lone surrogates (pitfalls J-1, J-3);
where that could change a value, the standard library reads the text with `Decimal`.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NoReturn

try:
    import orjson
except ImportError:  # an executor of a cluster has no more than Spark and Arrow need
    from deltacli.delta import plain_json as orjson  # type: ignore[no-redef]


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
    return load_exact(text) if _has_float(value, _MAX_DEPTH) else value


# orjson writes no deeper than 254 levels.
_MAX_DEPTH = 200


def _has_float(value: Any, depth: int) -> bool:
    if type(value) is dict:
        value = value.values()
    elif type(value) is not list:
        return type(value) is float
    if not depth:
        raise ValueError("nested too deeply")
    found = False
    for one in value:
        kind = type(one)
        if kind is float:
            found = True
        elif kind is dict or kind is list:
            found |= _has_float(one, depth - 1)
    return found


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
        # Integers beyond 64 bits and lone surrogates are rare; they are spelled out one by one.
        return orjson.dumps(_spelled_out(value), default=_plain, option=options)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return orjson.Fragment(_number(value))
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _number(value: Decimal) -> str:
    return str(value) if value.is_finite() else f'"{value}"'


def _spelled_out(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text(key): _spelled_out(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled_out(one) for one in value]
    if isinstance(value, str | int) and not isinstance(value, bool):
        return orjson.Fragment(json.dumps(value))
    return value


def _text(key: str) -> str:
    return key.encode("utf-8", "backslashreplace").decode()
