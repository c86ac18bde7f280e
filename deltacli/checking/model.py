"""What a rule is and what it finds.

A rule is one function with one id that is never given to another. Its docstring is its page:
what holds, why, and how to mend it. Its parameter says what it looks at, `level` how much has
to be read for that.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

S = TypeVar("S")


class Severity(StrEnum):
    """How bad it is: readers fail or are wrong; there is a risk; it is good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Level(IntEnum):
    """What a check costs, each level with all before it."""

    LOG = 1
    FILES = 2
    FOOTERS = 3
    DATA = 4

    @classmethod
    def named(cls, name: str) -> Level:
        return cls[name.upper()]

    @property
    def label(self) -> str:
        return self.name.lower()


ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
LOG, FILES, FOOTERS, DATA = Level.LOG, Level.FILES, Level.FOOTERS, Level.DATA


class Finding(NamedTuple):
    """Where a rule does not hold. What is left out is that of the thing looked at.

    `path` is a data file's, as in the log; `file` one of the log's, with the `line` in it.
    One that is told for many counts so many `times`.
    """

    message: str
    path: str | None = None
    file: str | None = None
    line: int | None = None
    version: int | None = None
    times: int = 1


@dataclass(frozen=True)
class Rule(Generic[S]):
    id: str
    severity: Severity
    level: Level
    title: str
    subject: type[S]
    check: Callable[[S], Iterable[Finding]]

    @cached_property
    def page(self) -> Page:
        return _page(inspect.cleandoc(self.check.__doc__ or ""))


@dataclass(frozen=True)
class Failure:
    """A rule that did not come to an end, on something in a file of a version."""

    rule_id: str
    error: Exception
    file: str | None
    version: int | None


@dataclass(frozen=True, slots=True)
class Page:
    """The docstring of a rule, taken apart."""

    holds: str
    why: str
    fix: str


def rule(
    rule_id: str,
    severity: Severity,
    title: str,
    *,
    of: type[S],
    level: Level = LOG,
) -> Callable[[Callable[[S], Iterable[Finding]]], Rule[S]]:
    """Make a rule of a function that yields findings about one `of` at a time."""

    def made(check: Callable[[S], Iterable[Finding]]) -> Rule[S]:
        return Rule(rule_id, severity, level, title, of, check)

    return made


AnyRule = Rule[Any]


def _page(text: str) -> Page:
    holds, _, rest = text.partition("Why:")
    why, _, fix = rest.partition("Fix:")
    return Page(*(re.sub(r"\s+", " ", part).strip() for part in (holds, why, fix)))
