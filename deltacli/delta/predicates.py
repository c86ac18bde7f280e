"""A condition in SQL: the part of it that is decided without Spark, parsed to a tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

_TOKENS = re.compile(
    r"""\s*(?:(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?:[lLsSyYdD]|[bB][dD])?)(?![\w.])
    |(?P<text>'(?:[^'\\]|''|\\.)*')
    |(?P<name>[A-Za-z_]\w*|`(?:[^`]|``)+`)
    |(?P<sign><=>|<>|!=|<=|>=|==|[=<>(),.\-]))""",
    re.VERBOSE,
)
_COMPARISONS = {"=": "=", "==": "=", "<>": "!=", "!=": "!=", "<": "<", "<=": "<=", ">": ">",
                ">=": ">=", "<=>": "<=>"}  # fmt: skip
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
# The forms of dates and times that mean the same to everybody.
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
TIMESTAMP = re.compile(
    DATE.pattern
    + r"(?:[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    + r"(?:Z|[-+][0-9]{2}:[0-9]{2})?)?"
)
_ESCAPED = re.compile(r"''|\\.", re.DOTALL)
_MOST_DIGITS = 38
_RESERVED = {"and", "or", "not", "in", "is", "null", "between", "like", "true", "false"}


class NotSimple(ValueError):
    """A condition that takes a whole SQL engine; it may be right or wrong."""


@dataclass(frozen=True, slots=True)
class Column:
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


@dataclass(frozen=True, slots=True)
class Compare:
    """`sign` is one of = != < <= > >= <=>; the left side is a column."""

    sign: str
    left: Column
    right: Column | Literal


@dataclass(frozen=True, slots=True)
class In:
    left: Column
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    left: Column


@dataclass(frozen=True, slots=True)
class Like:
    left: Column
    pattern: str


@dataclass(frozen=True, slots=True)
class Not:
    inner: Condition


@dataclass(frozen=True, slots=True)
class Both:
    """`is_and`: all hold; otherwise any does."""

    is_and: bool
    parts: tuple[Condition, ...]


Condition = Column | Compare | In | IsNull | Like | Not | Both


def parse_condition(text: str) -> Condition:
    """The tree of a condition. Raises NotSimple."""
    tokens = list(_tokens(text))
    parser = _Parser(tokens)
    try:
        tree = parser.any_of()
    except RecursionError:
        raise NotSimple("the condition is nested too deeply") from None
    if parser.position < len(tokens):
        raise NotSimple(f"{tokens[parser.position][1]!r} is not expected")
    return tree


def columns_of(condition: Condition) -> Iterator[Column]:
    """Every column that a condition looks at."""
    if isinstance(condition, Column):
        yield condition
    elif isinstance(condition, Not):
        yield from columns_of(condition.inner)
    elif isinstance(condition, Both):
        for part in condition.parts:
            yield from columns_of(part)
    else:
        yield condition.left
        if isinstance(condition, Compare) and isinstance(condition.right, Column):
            yield condition.right


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(text.rstrip()):
        match = _TOKENS.match(text, position)
        if match is None or match.lastgroup is None:
            raise NotSimple(f"{text[position:].strip()[:20]!r} is not understood")
        yield match.lastgroup, match[match.lastgroup]
        position = match.end()


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]):
        self.tokens = tokens
        self.position = 0

    def word(self) -> str:
        """The next token, a keyword in lower case; empty at the end."""
        if self.position >= len(self.tokens):
            return ""
        kind, text = self.tokens[self.position]
        return text.lower() if kind == "name" else text if kind == "sign" else ""

    def take(self, *words: str) -> bool:
        if self.word() in words and self.word():
            self.position += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise NotSimple(f"{word!r} is missing")

    def any_of(self) -> Condition:
        return self._several(self.all_of, "or")

    def all_of(self) -> Condition:
        return self._several(self.negated, "and")

    def _several(self, part: Any, word: str) -> Condition:
        parts = [part()]
        while self.take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Both(word == "and", tuple(parts))

    def negated(self) -> Condition:
        if self.take("not"):
            return Not(self.negated())
        if self.take("("):
            inner = self.any_of()
            self.expect(")")
            return inner
        return self.predicate()

    def predicate(self) -> Condition:
        left = self.operand()
        word = self.word()
        if word in _COMPARISONS:
            self.position += 1
            return _compare(_COMPARISONS[word], left, self.operand())
        if not isinstance(left, Column):
            raise NotSimple("a condition compares a column")
        if self.take("is"):
            inverted = self.take("not")
            self.expect("null")
            return Not(IsNull(left)) if inverted else IsNull(left)
        inverted = self.take("not")
        tree = self._membership(left)
        if tree is None:
            if inverted:
                raise NotSimple("NOT is not expected")
            return left
        return Not(tree) if inverted else tree

    def _membership(self, left: Column) -> Condition | None:
        if self.take("in"):
            self.expect("(")
            values = [self.literal()]
            while self.take(","):
                values.append(self.literal())
            self.expect(")")
            return In(left, tuple(values))
        if self.take("between"):
            low = self.literal()
            self.expect("and")
            high = self.literal()
            return Both(
                True, (Compare(">=", left, Literal(low)), Compare("<=", left, Literal(high)))
            )
        if self.take("like"):
            pattern = self.literal()
            if not isinstance(pattern, str) or "\\" in pattern:
                raise NotSimple("LIKE takes a text without escapes")
            return Like(left, pattern)
        return None

    def literal(self) -> Any:
        found = self.operand()
        if not isinstance(found, Literal):
            raise NotSimple("a value is expected")
        return found.value

    def operand(self) -> Column | Literal:
        if self.position >= len(self.tokens):
            raise NotSimple("the condition ends too early")
        kind, text = self.tokens[self.position]
        self.position += 1
        if kind == "number":
            return Literal(_number(text))
        if kind == "text":
            return Literal(_text(text))
        if text == "-" and self.position < len(self.tokens):
            kind, text = self.tokens[self.position]
            if kind == "number":
                self.position += 1
                return Literal(-_number(text))
        if kind != "name":
            raise NotSimple(f"{text!r} is not expected")
        lowered = text.lower()
        if lowered in ("true", "false", "null"):
            return Literal({"true": True, "false": False, "null": None}[lowered])
        if lowered in ("date", "timestamp") and self._is_text():
            _, quoted = self.tokens[self.position]
            self.position += 1
            return Literal(_moment(lowered, _text(quoted)))
        if lowered == "cast" and self.take("("):
            return self.cast()
        if lowered in _RESERVED or self.word() == "(":
            raise NotSimple(f"{text!r} is not expected")
        path = [_name(text)]
        while self.take("."):
            kind, text = self.tokens[self.position] if self._has_more() else ("", "")
            if kind != "name":
                raise NotSimple("a name is missing after a dot")
            self.position += 1
            path.append(_name(text))
        return Column(tuple(path))

    def cast(self) -> Literal:
        """A value given as a text with its type, the way that Spark writes conditions."""
        value = self.literal()
        self.expect("as")
        kind = self.word()
        self.position += 1
        self.expect(")")
        if isinstance(value, str) and kind in ("date", "timestamp"):
            return Literal(_moment(kind, value))
        if value is None or (kind == "string" and isinstance(value, str)):
            return Literal(value)
        if kind in ("int", "integer", "bigint", "long") and type(value) is int:
            bits = 31 if kind.startswith("int") else 63
            if -(2**bits) <= value < 2**bits:
                return Literal(value)
        raise NotSimple(f"a cast to {kind or 'this type'}")

    def _has_more(self) -> bool:
        return self.position < len(self.tokens)

    def _is_text(self) -> bool:
        return self._has_more() and self.tokens[self.position][0] == "text"


def _compare(sign: str, left: Column | Literal, right: Column | Literal) -> Compare:
    if isinstance(left, Column):
        return Compare(sign, left, right)
    if isinstance(right, Column):
        return Compare(_MIRRORED.get(sign, sign), right, left)
    raise NotSimple("a condition compares a column")


def _number(text: str) -> int | Decimal | float:
    # Spark marks the type of a number by letters behind it.
    digits = text.rstrip("lLsSyYdDbB")
    suffix = text[len(digits) :].lower()
    if sum(map(str.isdigit, digits)) > _MOST_DIGITS or abs(float(digits)) == float("inf"):
        raise NotSimple("a number beyond all types")
    if suffix == "bd":
        return Decimal(digits)
    if suffix == "d" or "e" in digits.lower():
        return float(digits)
    if "." not in digits:
        return int(digits)
    if suffix:
        raise NotSimple("a whole number is expected")
    return Decimal(digits)


def _text(quoted: str) -> str:
    return _ESCAPED.sub(_unescaped, quoted[1:-1])


def _unescaped(match: re.Match[str]) -> str:
    if match[0] not in ("''", r"\'", r"\\"):
        raise NotSimple("escapes in texts")
    return match[0][1]


def _name(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _moment(kind: str, text: str) -> date | datetime:
    form = DATE if kind == "date" else TIMESTAMP
    try:
        if not form.fullmatch(text):
            raise ValueError("write it as 2026-01-31, with a time as 2026-01-31 10:00:00")
        if kind == "date":
            return date.fromisoformat(text)
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise NotSimple(f"{text!r} is not a {kind}: {error}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
