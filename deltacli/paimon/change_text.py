"""Changes as people write them: `add column note STRING after id`."""

from __future__ import annotations

import re
from difflib import get_close_matches

from deltacli.errors import UsageError
from deltacli.paimon.change import Change
from deltacli.paimon.column_changes import (
    AddColumn,
    DropColumn,
    Move,
    MoveColumn,
    Place,
    RenameColumn,
    UpdateColumnComment,
    UpdateDefault,
    UpdateNullability,
    UpdateType,
)
from deltacli.paimon.field_paths import Path
from deltacli.paimon.table_changes import DropPrimaryKey, RemoveOption, SetOption, UpdateComment
from deltacli.paimon.type_text import Kind, SqlTypeParser, Token, Tokens
from deltacli.paimon.types import BadType, DataType, check_depth

FORMS = (
    "add column NAME TYPE [comment 'TEXT'] [default 'VALUE'] [first|last|after NAME|before NAME]",
    "rename column NAME to NEW_NAME",
    "drop column NAME",
    "alter type NAME TYPE",
    "nullability NAME null|not null",
    "comment NAME 'TEXT'|null",
    "default NAME 'VALUE'|null",
    "position NAME first|last|after NAME|before NAME",
    "set option KEY = VALUE",
    "unset option KEY",
    "table comment 'TEXT'|null",
    "drop primary key",
)
_SET = re.compile(r"set\s+option\s+(\S+?)\s*(?:=|\s)\s*(.*)", re.IGNORECASE | re.DOTALL)
_UNSET = re.compile(r"(?:unset|reset|remove)\s+option\s+(\S+)\s*", re.IGNORECASE)
_PLACES = {"first": Place.FIRST, "last": Place.LAST, "after": Place.AFTER, "before": Place.BEFORE}


def parse_change(text: str) -> list[Change]:
    """The changes of one statement. Raises UsageError with the form it should have."""
    text = text.strip()
    verb = text.split(maxsplit=1)[0].lower() if text else ""
    if verb == "set" and (match := _SET.fullmatch(text)):
        return [SetOption(_unquoted(match[1]), _unquoted(match[2].strip()))]
    if verb in ("unset", "reset", "remove") and (match := _UNSET.fullmatch(text)):
        return [RemoveOption(_unquoted(match[1]))]
    if verb not in _PARSERS:
        close = get_close_matches(verb, [*_PARSERS, "set", "unset"], n=1)
        known = verb in ("set", "unset", "reset", "remove")
        reason = "it says no key and value" if known else f"there is no verb {verb!r}"
        meant = f"; did you mean {close[0]!r}?" if close and not known else ""
        raise _bad(text, reason + meant, close[0] if close else verb)
    try:
        changes = _PARSERS[verb](_Statement(text))
        for one in changes:
            if isinstance(one, AddColumn | UpdateType):
                check_depth(one.type)
        return changes
    except RecursionError:
        raise _bad(text[:60], "the type is nested too deeply", verb) from None
    except BadType as error:
        raise _bad(text, _in_words(str(error)), verb) from None


_TYPES = "those of Flink's SQL: INT, BIGINT, STRING, …"


def _in_words(problem: str) -> str:
    """A message of the type parser for people; that of Paimon names its tokens."""
    found = re.fullmatch(r"Could not parse type at position (\d+): (.*) Input type string: .*",
                         problem, re.DOTALL)  # fmt: skip
    if found is None:
        return problem
    said = found[2].rstrip(".")
    expected = re.fullmatch(r"<(\w+)> expected but was <\w+>", said)
    if said == "Unexpected end":
        return "it ends too early; each change stands in quotes of its own"
    if expected and expected[1] == "KEYWORD":
        return f"there is no such type; types are {_TYPES}"
    if expected and expected[1] == "LITERAL_STRING":
        return "a text stands in single quotes"
    return said


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"`":
        return text[1:-1]
    return text


def _bad(text: str, reason: str, verb: str) -> UsageError:
    forms = [one for one in FORMS if verb and one.startswith(verb)]
    return UsageError(
        f"{text!r} is no change: {reason}",
        hint="write " + " or ".join(repr(one) for one in forms)
        if forms
        else "the changes are " + "; ".join(one.split(" NAME")[0] for one in FORMS),
    )


class _Statement:
    """A statement behind its verb."""

    def __init__(self, text: str):
        self.tokens = Tokens(text)
        self.tokens.next()

    def word(self, *words: str) -> str | None:
        """The next token if it is one of these words."""
        token = self.tokens.peek()
        if token is not None and not _is_quoted(token) and token.raw.lower() in words:
            self.tokens.next()
            return token.raw.lower()
        return None

    def need(self, *words: str) -> str:
        found = self.word(*words)
        if found is None:
            following = self.tokens.peek()
            raise BadType(
                f"{' or '.join(words)} is expected"
                + (f", not {following.raw!r}" if following else " at its end")
            )
        return found

    def skip_column(self) -> None:
        """Pass over the word `column`, unless it is the name of one."""
        following = self.tokens.peek(2)
        if following is not None and following.kind is not Kind.IDENTIFIER_SEPARATOR:
            self.word("column")

    def name(self) -> str:
        token = self.tokens.next()
        if token.kind not in (Kind.IDENTIFIER, Kind.KEYWORD, Kind.LITERAL_INT):
            raise BadType(f"a name is expected, not {token.raw!r}")
        return token.value if _is_quoted(token) else token.raw

    def path(self) -> Path:
        steps = [self.name()]
        while self.tokens.take(Kind.IDENTIFIER_SEPARATOR):
            steps.append(self.name())
        return tuple(steps)

    def type(self) -> tuple[DataType, bool]:
        """A type, and whether it says that it may be null or not."""
        token = self.tokens.peek()
        if token is not None and token.kind is Kind.IDENTIFIER:
            raise BadType(f"there is no such type as {token.raw}; types are {_TYPES}")
        parser = SqlTypeParser(self.tokens)
        kind = parser.parse()
        return kind, parser.says_nullability

    def text(self) -> str | None:
        """A text in quotes, a number or word as it stands, or null."""
        if self.word("null"):
            return None
        if self.tokens.follows(Kind.LITERAL_STRING):
            return self.tokens.next().value
        rest = self.tokens.rest
        if not rest:
            raise BadType("a value is expected at its end")
        while self.tokens.has_more:
            self.tokens.next()
        return rest

    def quoted_text(self) -> str | None:
        if self.word("null"):
            return None
        return self.tokens.next(Kind.LITERAL_STRING).value

    def move(self, place: str) -> Move:
        """The rest of a move behind its first word."""
        chosen = _PLACES[place]
        return Move(chosen, self.name() if chosen in (Place.AFTER, Place.BEFORE) else None)

    def end(self) -> None:
        if self.tokens.has_more:
            raise BadType(f"{self.tokens.next().raw!r} is not expected there")


def _is_quoted(token: Token) -> bool:
    return token.raw[:1] in "'`"


def _add(one: _Statement) -> list[Change]:
    one.skip_column()
    path = one.path()
    kind, _ = one.type()
    comment: str | None = None
    default: str | None = None
    move: Move | None = None
    has_default = False
    while one.tokens.has_more:
        what = one.need("comment", "default", *_PLACES)
        if what == "comment":
            comment = one.quoted_text()
        elif what == "default":
            has_default, default = True, _default_in_add(one)
        else:
            move = one.move(what)
    added: list[Change] = [AddColumn(path, kind, comment, move)]
    return [*added, UpdateDefault(path, default)] if has_default else added


def _default_in_add(one: _Statement) -> str | None:
    """A default that more may follow: in quotes, or one token."""
    if one.word("null"):
        return None
    token = one.tokens.next()
    return token.value if token.kind is Kind.LITERAL_STRING else token.raw


def _rename(one: _Statement) -> list[Change]:
    one.skip_column()
    path = one.path()
    one.word("to")
    name = one.name()
    one.end()
    return [RenameColumn(path, name)]


def _drop(one: _Statement) -> list[Change]:
    following = one.tokens.peek(), one.tokens.peek(2)
    words = [token.raw.lower() if token else "" for token in following]
    if words == ["primary", "key"]:
        one.tokens.next()
        one.tokens.next()
        one.end()
        return [DropPrimaryKey()]
    one.skip_column()
    path = one.path()
    one.end()
    return [DropColumn(path)]


def _type_of(one: _Statement, path: Path) -> list[Change]:
    kind, says_nullability = one.type()
    one.end()
    return [UpdateType(path, kind, keeps_nullability=not says_nullability)]


def _alter(one: _Statement) -> list[Change]:
    what = one.word("type", "nullability", "comment", "default", "position")
    if what is not None:
        return _PARSERS[what](one)
    one.skip_column()
    path = one.path()
    what = one.need("type", "set", "drop", "comment", "default", *_PLACES)
    if what == "type":
        return _type_of(one, path)
    if what in _PLACES:
        return [_moved(one, path, what)]
    if what in ("set", "drop"):
        if one.word("default"):
            return [UpdateDefault(path, one.text() if what == "set" else None)]
        one.need("not")
        one.need("null")
        one.end()
        return [UpdateNullability(path, nullable=what == "drop")]
    if what == "comment":
        return [UpdateColumnComment(path, one.quoted_text())]
    return [UpdateDefault(path, one.text())]


def _nullability(one: _Statement) -> list[Change]:
    path = one.path()
    is_not = one.need("null", "nullable", "not") == "not"
    if is_not:
        one.need("null")
    one.end()
    return [UpdateNullability(path, nullable=not is_not)]


def _comment(one: _Statement) -> list[Change]:
    path = one.path()
    comment = one.quoted_text()
    one.end()
    return [UpdateColumnComment(path, comment)]


def _default(one: _Statement) -> list[Change]:
    path = one.path()
    default = one.text()
    one.end()
    return [UpdateDefault(path, default)]


def _position(one: _Statement) -> list[Change]:
    path = one.path()
    return [_moved(one, path, one.need(*_PLACES))]


def _moved(one: _Statement, path: Path, place: str) -> Change:
    move = one.move(place)
    one.end()
    if len(path) > 1:
        raise BadType("only columns of the table have a position that can be changed")
    return MoveColumn(path[0], move)


def _table(one: _Statement) -> list[Change]:
    one.need("comment")
    comment = one.quoted_text()
    one.end()
    return [UpdateComment(comment)]


_PARSERS = {
    "add": _add,
    "rename": _rename,
    "drop": _drop,
    "alter": _alter,
    "type": lambda one: _type_of(one, one.path()),
    "nullability": _nullability,
    "comment": _comment,
    "default": _default,
    "position": _position,
    "move": _position,
    "table": _table,
}
