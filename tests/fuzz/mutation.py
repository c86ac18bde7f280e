"""Bytes that a fuzzer gives, as choices; and documents with something wrong in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class Choices:
    """Reads decisions from bytes; where they end, every decision is the first one."""

    def __init__(self, content: bytes):
        self._content = content
        self._at = 0

    @property
    def is_used_up(self) -> bool:
        return self._at >= len(self._content)

    def number(self, below: int) -> int:
        """A number from 0 on."""
        size = 1 if below <= 256 else 4
        piece = self._content[self._at : self._at + size]
        self._at += size
        return int.from_bytes(piece, "big") % below if below > 0 else 0

    def of(self, values: Sequence[T]) -> T:
        return values[self.number(len(values))]

    def rest(self) -> bytes:
        found = self._content[self._at :]
        self._at = len(self._content)
        return found


# What breaks programs.
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**40, 0.5, 1e308,
    "", "x", "0", "-1", "1e400", "null", "\ud800", "\x00", "\x1b[2J", "é\u202e", "a" * 300,
    "../x", "%2e%2e/x", "file:///etc/passwd", "s3://b/x", "9999-99-99", "2024-02-30T25:00:00Z",
    "decimal(99,-1)", [], {}, [[]], [None], {"": None}, ["x", "x"],
    {"type": "struct", "fields": []},
)  # fmt: skip


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every value of a document, by what holds it and under which key."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        for key in keys:
            found.append((one, key))
            if isinstance(one[key], dict | list):
                waiting.append(one[key])
    return found


def mutated(tree: Any, choices: Choices) -> Any:
    """A document changed in up to four places."""
    tree = json.loads(json.dumps(tree))
    for _ in range(1 + choices.number(4)):
        found = places(tree)
        if not found:
            return choices.of(ODD)
        holder, key = choices.of(found)
        way = choices.number(5)
        if way == 0:
            del holder[key]
        elif way == 1 and isinstance(holder, dict):
            holder[choices.of([one for one, _ in _names(tree)])] = holder.pop(key)
        elif way == 2:
            other, from_key = choices.of(found)
            holder[key] = json.loads(json.dumps(other[from_key]))
        elif way == 3 and isinstance(holder[key], str):
            text = holder[key]
            at = choices.number(len(text) + 1)
            holder[key] = text[:at] + str(choices.of(ODD)) + text[at + choices.number(3) :]
        else:
            holder[key] = json.loads(json.dumps(choices.of(ODD)))
    return tree


def _names(tree: Any) -> list[tuple[str, Any]]:
    names = [(key, holder) for holder, key in places(tree) if isinstance(key, str)]
    return names or [("x", tree)]


def text_of(tree: Any, choices: Choices) -> bytes:
    """A document as text, which may be spoiled as well."""
    content = json.dumps(tree).encode("utf-8", "surrogatepass")
    if choices.number(8):
        return content
    at = choices.number(len(content) + 1)
    return content[:at] + choices.rest()[:8] + content[at + choices.number(4) :]
