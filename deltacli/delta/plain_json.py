"""The part of orjson that `json_text` needs, from the standard library.

Several times slower; for the executors of a cluster, which get this package and no other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

JSONDecodeError = ValueError
OPT_INDENT_2 = 1
_LEAST, _MOST = -(2**63), 2**64 - 1


class Fragment:
    """JSON text that is written as it stands."""

    def __init__(self, text: str | bytes):
        self.text = text.decode() if isinstance(text, bytes) else text


def loads(text: str | bytes) -> Any:
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        value = json.loads(text, parse_int=_number, parse_float=_float, parse_constant=_no_constant)
        _check_texts(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _number(text: str) -> int | float:
    value = int(text) if len(text) < 25 else None
    return value if value is not None and _LEAST <= value <= _MOST else _float(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is out of range")
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _check_texts(value: Any) -> None:
    if isinstance(value, str):
        value.encode("utf-8")  # a lone surrogate is no text
    elif isinstance(value, dict):
        for key, one in value.items():
            _check_texts(key)
            _check_texts(one)
    elif isinstance(value, list):
        for one in value:
            _check_texts(one)


def dumps(value: Any, default: Callable[[Any], Any] | None = None, option: int = 0) -> bytes:
    """Compact JSON; raises TypeError for what orjson does not write either."""
    try:
        text = "".join(_parts(value, default)).encode("utf-8")
    except UnicodeEncodeError as error:
        raise TypeError("str is not valid UTF-8: surrogates not allowed") from error
    if option & OPT_INDENT_2:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False).encode()
    return text


def _parts(value: Any, default: Callable[[Any], Any] | None) -> Iterator[str]:
    if isinstance(value, Fragment):
        yield value.text
    elif isinstance(value, dict):
        separator = "{"
        for key, one in value.items():
            if not isinstance(key, str):
                raise TypeError("Dict key must be str")
            yield f"{separator}{json.dumps(key, ensure_ascii=False)}:"
            yield from _parts(one, default)
            separator = ","
        yield "{}" if separator == "{" else "}"
    elif isinstance(value, list | tuple):
        separator = "["
        for one in value:
            yield separator
            yield from _parts(one, default)
            separator = ","
        yield "[]" if separator == "[" else "]"
    elif isinstance(value, float):
        yield repr(value) if abs(value) <= 1.7976931348623157e308 else "null"
    elif value is None or isinstance(value, str | bool):
        yield json.dumps(value, ensure_ascii=False)
    elif isinstance(value, int):
        if not _LEAST <= value <= _MOST:
            raise TypeError("Integer exceeds 64-bit range")
        yield str(value)
    elif default is None:
        raise TypeError(f"Type is not JSON serializable: {type(value).__name__}")
    else:
        yield from _parts(default(value), default)


__all__ = ["OPT_INDENT_2", "Fragment", "JSONDecodeError", "dumps", "loads"]
