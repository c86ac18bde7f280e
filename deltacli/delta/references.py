"""Which columns an SQL expression speaks of: by its words, without understanding it.

Rather too many than too few: a word that only might be a column is taken for one.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*")
    | (?P<comment>--[^\n]* | /\*.*?\*/)
    | (?P<number>\d[\w.]*)
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<word>[^\W\d]\w*)
    | (?P<dot>\.)
    | (?P<space>\s+)
    | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def referenced_columns(expression: str) -> set[tuple[str, ...]]:
    """Paths of names in lower case."""
    found: set[tuple[str, ...]] = set()
    path: list[str] = []
    after_dot = is_quoted = False

    def end(*, is_call: bool = False) -> None:
        # `f(x)`: a function's name is none of a column, unless it is quoted.
        if path and not (is_call and len(path) == 1 and not is_quoted):
            found.add(tuple(path))
        path.clear()

    for match in _TOKEN.finditer(expression):
        kind, text = match.lastgroup, match[0]
        if kind in ("space", "comment"):
            continue
        if kind in ("quoted", "word"):
            if not after_dot:
                end()
            is_quoted = kind == "quoted"
            path.append((text[1:-1].replace("``", "`") if is_quoted else text).lower())
            after_dot = False
        elif kind == "dot" and path:
            after_dot = True
        else:
            end(is_call=text == "(")
            after_dot = False
    end()
    return found


def speaks_of(expression: str, column: tuple[str, ...]) -> bool:
    """Whether an expression needs a column, something in it, or something around it."""
    own = tuple(one.lower() for one in column)
    return any(
        one[: len(own)] == own or own[: len(one)] == one for one in referenced_columns(expression)
    )
