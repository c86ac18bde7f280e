"""What operations hand to rendering: one document, or a stream of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """Many rows as Arrow string columns: `text` values are quoted in JSON, `json` ones are not.

    Null is null in either.
    """

    num_rows: int
    text: Mapping[str, Any]
    json: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Pending:
    """Many rows that are not shaped yet; whoever needs them may do it on another thread."""

    make: Callable[[], Columns | list[Row]]


@dataclass(frozen=True, slots=True)
class Document:
    """One record. `tree` holds lines that a terminal shows below it."""

    values: Row
    title: str = ""
    tree: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of one shape, perhaps too many to hold.

    `fields` are all the fields of a row, `shown` those of a table or of plain lines.
    """

    rows: Iterable[Row | Pending]
    fields: tuple[str, ...]
    shown: tuple[str, ...]
    title: str = ""
    notes: list[str] = field(default_factory=list)
