"""Types as text, taken apart as Paimon's own tokenizer does it (facts 2).

A schema file writes only types without others in them as text. People write the others too:
`ARRAY<INT>`, `MAP<STRING, INT>`, `ROW<a INT, b STRING COMMENT 'x'>`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from deltacli.paimon.types import (
    BYTES,
    STRING,
    TIMESTAMP_LTZ,
    Array,
    Atomic,
    BadType,
    DataType,
    Field,
    Map,
    Multiset,
    Row,
    Vector,
    as_nullable,
    is_blank,
)


class Kind(StrEnum):
    """What a token is, by the name that Paimon's messages have for it."""

    BEGIN_SUBTYPE = "BEGIN_SUBTYPE"
    END_SUBTYPE = "END_SUBTYPE"
    BEGIN_PARAMETER = "BEGIN_PARAMETER"
    END_PARAMETER = "END_PARAMETER"
    LIST_SEPARATOR = "LIST_SEPARATOR"
    LITERAL_STRING = "LITERAL_STRING"
    LITERAL_INT = "LITERAL_INT"
    KEYWORD = "KEYWORD"
    IDENTIFIER = "IDENTIFIER"
    IDENTIFIER_SEPARATOR = "IDENTIFIER_SEPARATOR"


@dataclass(frozen=True, slots=True)
class Token:
    """A token, where it ends, and what stands there; keywords are upper case in `value`."""

    kind: Kind
    end: int
    value: str
    raw: str


_MARKS = {
    "<": Kind.BEGIN_SUBTYPE,
    ">": Kind.END_SUBTYPE,
    "(": Kind.BEGIN_PARAMETER,
    ")": Kind.END_PARAMETER,
    ",": Kind.LIST_SEPARATOR,
    ".": Kind.IDENTIFIER_SEPARATOR,
}
_QUOTES = {"'": Kind.LITERAL_STRING, "`": Kind.IDENTIFIER}
_WORDS = (
    "CHAR VARCHAR STRING BOOLEAN BINARY VARBINARY BYTES DECIMAL NUMERIC DEC TINYINT SMALLINT INT "
    "INTEGER BIGINT FLOAT DOUBLE PRECISION DATE TIME WITH WITHOUT LOCAL ZONE TIMESTAMP "
    "TIMESTAMP_LTZ INTERVAL YEAR MONTH DAY HOUR MINUTE SECOND TO ARRAY VECTOR MULTISET MAP ROW "
    "NULL RAW LEGACY VARIANT BLOB GEOMETRY GEOGRAPHY NOT"
)
_KEYWORDS = frozenset(_WORDS.split())
_DIGITS = frozenset("0123456789")


def tokenize(text: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        char = text[at]
        if is_blank(char):
            at += 1
            continue
        if char in _MARKS:
            token = Token(_MARKS[char], at, char, char)
        elif char in _QUOTES:
            token = _quoted(text, at)
        elif char in _DIGITS:
            end = _end(text, at, lambda one: one not in _DIGITS)
            token = Token(Kind.LITERAL_INT, end - 1, text[at:end], text[at:end])
        else:
            end = _end(text, at, lambda one: is_blank(one) or one in _MARKS)
            word = text[at:end]
            kind = Kind.KEYWORD if word.upper() in _KEYWORDS else Kind.IDENTIFIER
            value = word.upper() if kind is Kind.KEYWORD else word
            token = Token(kind, end - 1, value, word)
        tokens.append(token)
        at = token.end + 1
    return tokens


def _end(text: str, start: int, stops: Callable[[str], bool]) -> int:
    return next((at for at in range(start, len(text)) if stops(text[at])), len(text))


def _quoted(text: str, start: int) -> Token:
    """A quoted text; a doubled quote stands for itself, and the end of the text ends it too."""
    quote, at, value = text[start], start + 1, ""
    while at < len(text):
        if text[at] == quote:
            if text[at + 1 : at + 2] != quote:
                break
            at += 1
        value += text[at]
        at += 1
    return Token(_QUOTES[quote], at, value, text[start : at + 1])


class Tokens:
    """Tokens read one after the other."""

    def __init__(self, text: str):
        self._text = text
        self._tokens = tokenize(text)
        self._current = -1
        self._last_valid = -1

    def problem(self, cause: str) -> BadType:
        position = 0 if self._last_valid < 0 else self._tokens[self._last_valid].end + 1
        return BadType(
            f"Could not parse type at position {position}: {cause} Input type string: {self._text}"
        )

    @property
    def has_more(self) -> bool:
        return self._current + 1 < len(self._tokens)

    @property
    def token(self) -> Token:
        return self._tokens[self._current]

    @property
    def rest(self) -> str:
        """The text from the next token on."""
        start = self.token.end + 1 if self._current >= 0 else 0
        return self._text[start:].strip()

    def next(self, kind: Kind | None = None) -> Token:
        """The next token, which has to be of a kind."""
        self._current += 1
        if self._current >= len(self._tokens):
            raise self.problem("Unexpected end.")
        self._last_valid = self._current - 1
        if kind is not None and self.token.kind is not kind:
            raise self.problem(f"<{kind}> expected but was <{self.token.kind}>.")
        return self.token

    def expect(self, *keywords: str) -> None:
        for word in keywords:
            token = self.next(Kind.KEYWORD)
            if token.value != word:
                raise self.problem(f"Keyword '{word}' expected but was '{token.value}'.")

    def peek(self, ahead: int = 1) -> Token | None:
        at = self._current + ahead
        return self._tokens[at] if at < len(self._tokens) else None

    def follows(self, kind: Kind) -> bool:
        token = self.peek()
        return token is not None and token.kind is kind

    def take(self, kind: Kind) -> bool:
        """Whether the next token is of a kind; then it is read."""
        found = self.follows(kind)
        if found:
            self.next()
        return found

    def take_words(self, *keywords: str) -> bool:
        """Whether these keywords follow; then they are read."""
        found = [self.peek(ahead) for ahead in range(1, len(keywords) + 1)]
        fits = all(
            one is not None and one.kind is Kind.KEYWORD and one.value == word
            for one, word in zip(found, keywords, strict=True)
        )
        if fits:
            self._current += len(keywords)
            self._last_valid = self._current - 1
        return fits

    def integer(self) -> int:
        digits = self.next(Kind.LITERAL_INT).value.lstrip("0") or "0"
        if len(digits) > 10 or int(digits) > 2_147_483_647:
            raise self.problem("Invalid integer value.")
        return int(digits)


def parse_atomic(text: str) -> DataType:
    """A type as schema files write it. Raises BadType with Paimon's own words."""
    return whole_type(TypeParser(Tokens(text)))


def whole_type(parser: TypeParser) -> DataType:
    """A type with nothing behind it."""
    kind = parser.parse()
    if parser.tokens.has_more:
        token = parser.tokens.next()
        raise parser.tokens.problem(f"Unexpected token: {token.value}")
    return kind


class TypeParser:
    """Reads one type; other text may follow."""

    def __init__(self, tokens: Tokens):
        self.tokens = tokens
        self.says_nullability = False

    def parse(self) -> DataType:
        kind = self._with_nullability(self._bare())
        # Special case of the grammar: ARRAY and MULTISET behind what they hold.
        if self.tokens.take_words("ARRAY"):
            return self._with_nullability(Array(kind))
        if self.tokens.take_words("MULTISET"):
            return self._with_nullability(Multiset(kind))
        return kind

    def _with_nullability(self, kind: DataType) -> DataType:
        if self.tokens.take_words("NOT", "NULL"):
            self.says_nullability = True
            return as_nullable(kind, False)
        self.says_nullability = self.tokens.take_words("NULL")
        return as_nullable(kind)

    def _bare(self) -> DataType:
        name = self.tokens.next(Kind.KEYWORD).value
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
            return Atomic(name, (self._parameter(1),))
        if name in ("DECIMAL", "NUMERIC", "DEC"):
            return Atomic("DECIMAL", self._decimal())
        if name == "DOUBLE":
            self.tokens.take_words("PRECISION")
            return Atomic("DOUBLE")
        if name == "TIME":
            precision = self._parameter(0)
            self._without_zone()
            return Atomic("TIME", (precision,))
        if name == "TIMESTAMP":
            return self._timestamp(self._parameter(6))
        if name == TIMESTAMP_LTZ:
            return Atomic(TIMESTAMP_LTZ, (self._parameter(6),))
        if name in ("GEOMETRY", "GEOGRAPHY"):
            return Atomic(name, self._geo(has_algorithm=name == "GEOGRAPHY"))
        if name == "VECTOR":
            return self._vector()
        return self._constructed(name)

    def _constructed(self, name: str) -> DataType:
        raise self.tokens.problem(f"Unsupported type: {name}")

    def _parameter(self, default: int) -> int:
        if not self.tokens.take(Kind.BEGIN_PARAMETER):
            return default
        value = self.tokens.integer()
        self.tokens.next(Kind.END_PARAMETER)
        return value

    def _decimal(self) -> tuple[int, int]:
        precision, scale = 10, 0
        if self.tokens.take(Kind.BEGIN_PARAMETER):
            precision = self.tokens.integer()
            if self.tokens.take(Kind.LIST_SEPARATOR):
                scale = self.tokens.integer()
            self.tokens.next(Kind.END_PARAMETER)
        return precision, scale

    def _without_zone(self) -> bool:
        found = self.tokens.take_words("WITHOUT")
        if found:
            self.tokens.expect("TIME", "ZONE")
        return found

    def _timestamp(self, precision: int) -> DataType:
        # `TIMESTAMP WITH` alone is a TIMESTAMP: so Paimon reads it.
        if (
            not self._without_zone()
            and self.tokens.take_words("WITH")
            and self.tokens.take_words("LOCAL")
        ):
            self.tokens.expect("TIME", "ZONE")
            return Atomic(TIMESTAMP_LTZ, (precision,))
        return Atomic("TIMESTAMP", (precision,))

    def _geo(self, *, has_algorithm: bool) -> tuple[str, ...]:
        crs, algorithm = "OGC:CRS84", "spherical"
        if self.tokens.take(Kind.BEGIN_PARAMETER):
            crs = self._geo_parameter()
            if has_algorithm and self.tokens.take(Kind.LIST_SEPARATOR):
                algorithm = self._geo_parameter().lower()
            self.tokens.next(Kind.END_PARAMETER)
        return (crs, algorithm) if has_algorithm else (crs,)

    def _geo_parameter(self) -> str:
        token = self.tokens.next()
        if token.kind not in (Kind.IDENTIFIER, Kind.LITERAL_STRING, Kind.KEYWORD):
            raise self.tokens.problem("Geospatial type parameter expected.")
        return token.value

    def _vector(self) -> DataType:
        self.tokens.next(Kind.BEGIN_SUBTYPE)
        element = self.parse()
        self.tokens.next(Kind.LIST_SEPARATOR)
        length = self.tokens.integer()
        self.tokens.next(Kind.END_SUBTYPE)
        return Vector(element, length)


class SqlTypeParser(TypeParser):
    """Reads the types that schema files write as objects too.

    Keys of maps come out NOT NULL, whatever is written: no other key is ever right.
    """

    def _constructed(self, name: str) -> DataType:
        if name not in ("ARRAY", "MULTISET", "MAP", "ROW"):
            return super()._constructed(name)
        self.tokens.next(Kind.BEGIN_SUBTYPE)
        if name == "ROW":
            return Row(tuple(self._fields()))
        inner = self.parse()
        kind: DataType
        if name == "MAP":
            self.tokens.next(Kind.LIST_SEPARATOR)
            kind = Map(as_nullable(inner, False), self.parse())
        else:
            kind = Array(inner) if name == "ARRAY" else Multiset(inner)
        self.tokens.next(Kind.END_SUBTYPE)
        return kind

    def _fields(self) -> list[Field]:
        fields: list[Field] = []
        if self.tokens.take(Kind.END_SUBTYPE):
            return fields
        while True:
            token = self.tokens.next()
            if token.kind not in (Kind.IDENTIFIER, Kind.KEYWORD):
                raise self.tokens.problem(f"<{Kind.IDENTIFIER}> expected but was <{token.kind}>.")
            name = token.raw if token.kind is Kind.KEYWORD else token.value
            kind, description = self.parse(), None
            following = self.tokens.peek()
            if following and following.value.upper() == "COMMENT":
                self.tokens.next()
                description = self.tokens.next(Kind.LITERAL_STRING).value
            fields.append(Field(len(fields), name, kind, description))
            if not self.tokens.take(Kind.LIST_SEPARATOR):
                self.tokens.next(Kind.END_SUBTYPE)
                check_names(fields)
                return fields


def check_names(fields: list[Field]) -> None:
    """Raise BadType for fields of a ROW that no ROW can have."""
    names = [one.name for one in fields]
    if any(map(is_blank, names)):
        raise BadType("Field names must contain at least one non-whitespace character.")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadType(f"Field names must be unique. Found duplicates: [{', '.join(twice)}]")


_SIMPLE: dict[str, DataType] = {
    **{
        name: Atomic(name)
        for name in (
            "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DATE", "VARIANT", "BLOB",
        )
    },
    "INTEGER": Atomic("INT"),
    "STRING": STRING,
    "BYTES": BYTES,
}  # fmt: skip
