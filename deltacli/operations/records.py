"""What operations hand to rendering: one document, or a stream of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltacli.delta import json_text
from deltacli.errors import UsageError

Row = Mapping[str, Any]


class Instant(str):
    """A value of a table that is a point in time, in UTC; people may want another zone."""

    __slots__ = ()


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
    is_chosen: bool = False

    def choose(self, fields: Sequence[str]) -> Document:
        """Only these fields, in this order."""
        check_fields(fields, tuple(self.values))
        chosen = {name: self.values[name] for name in fields}
        return Document(chosen, self.title, is_chosen=True)


@dataclass(frozen=True, slots=True)
class Report:
    """A document about many rows, which are its last field, `name`.

    JSON holds both; other formats hold the rows if the report `lists_rows`, the document
    otherwise.
    """

    document: Document
    rows: Listing | None
    name: str
    lists_rows: bool = True

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the whole; the rows are one of them."""
        return (*self.document.values, *([self.name] if self.rows else []))

    def choose(self, fields: Sequence[str]) -> Report:
        """Only these fields of the whole."""
        values = dict(self.document.values)
        if self.rows and self.name in fields:
            rows = plain_rows(self.rows.rows, self.rows.fields)
            values[self.name] = [{name: row.get(name) for name in self.rows.fields} for row in rows]
        return Report(replace(self.document, values=values).choose(fields), None, "")


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of one shape, perhaps too many to hold.

    `fields` are all the fields of a row, `shown` those of a table or of plain lines;
    `footer` holds lines that a terminal shows below. Rows that are data have the names and
    values of somebody's table, not of this program.
    """

    rows: Iterable[Row | Pending]
    fields: tuple[str, ...]
    shown: tuple[str, ...]
    title: str = ""
    footer: tuple[str, ...] = ()
    is_data: bool = False


def plain_rows(rows: Iterable[Row | Pending], names: Sequence[str]) -> Iterator[Row]:
    """Rows one by one, with these fields at least."""
    for item in rows:
        if not isinstance(item, Pending):
            yield item
            continue
        made = item.make()
        if isinstance(made, Columns):
            yield from _rows_of_columns(made, names)
        else:
            yield from made


def _rows_of_columns(columns: Columns, names: Sequence[str]) -> Iterator[Row]:
    texts = {name: columns.text[name].to_pylist() for name in names if name in columns.text}
    jsons = {name: columns.json[name].to_pylist() for name in names if name in columns.json}
    for position in range(columns.num_rows):
        row = {name: column[position] for name, column in texts.items()}
        for name, column in jsons.items():
            text = column[position]
            row[name] = None if text is None else json_text.load(text)
        yield row


def check_report_fields(
    fields: Sequence[str], document: Sequence[str], rows: Sequence[str]
) -> None:
    """Raise UsageError unless all fields are of a report's document, or all of its rows."""
    known = dict.fromkeys((*document, *rows))
    if set(fields) <= set(document) or set(fields) <= set(rows):
        return
    check_fields(fields, tuple(known))
    raise UsageError(
        "some of these fields are of the whole, and some of its rows",
        hint=f"name fields of the rows ({', '.join(rows)}), or others",
    )


def check_fields(fields: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError for a field that is not known, with the closest name."""
    from difflib import get_close_matches

    for name in fields:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            raise UsageError(
                f"there is no field {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""),
                hint=f"the fields are {', '.join(known)}",
            )
