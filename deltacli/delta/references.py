"""Which columns an SQL expression speaks of: by its words, without understanding it.

Rather too many than too few: a word that only might be a column is taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_TOKEN = re.compile(
    r"""(?P<text>[rR]'[^']*' | '(?:[^'\\]|\\.|'')*')
    | (?P<comment>--[^\n]* | /\*.*?\*/)
    | (?P<quoted>`(?:[^`]|``)+` | [rR]?"(?:[^"\\]|\\.|"")*")
    | (?P<word>\w+)
    | (?P<dot>\.)
    | (?P<space>\s+)
    | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
# What a path of a column has for the insides of lists and maps, and SQL has not.
_INSIDE = ("element", "key", "value")


def referenced_columns(expression: str) -> set[tuple[str, ...]]:
    """Paths of names in lower case. In double quotes some writers have names, some texts."""
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
            path.append(_name(text) if is_quoted else text.lower())
            after_dot = False
        elif kind == "dot" and path:
            after_dot = True
        else:
            end(is_call=text == "(")
            after_dot = False
    end()
    return found


def _name(quoted: str) -> str:
    mark = quoted[-1]
    return quoted.lstrip("rR")[1:-1].replace(mark * 2, mark).lower()


def speaks_of(expression: str, column: tuple[str, ...], known: Collection[str] = ()) -> bool:
    """Whether an expression needs a column, something in it, or something around it.

    `known` are the table's columns: what begins with another name may begin with a table's.
    """
    own = tuple(one.lower() for one in column if one not in _INSIDE) or column
    for path in referenced_columns(expression):
        for start in range(1 if path[0] in known else len(path)):
            one = tuple(name for name in path[start:] if name not in _INSIDE) or path[start:]
            if one[: len(own)] == own or own[: len(one)] == one:
                return True
    return False
