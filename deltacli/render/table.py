"""Documents and listings for people, by rich. The only module that imports it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from deltacli.delta import json_text
from deltacli.delta.json_text import Verbatim
from deltacli.errors import UsageError
from deltacli.operations.records import Document, Instant, Listing, Row, plain_rows
from deltacli.units import counted, escaped, human_age, human_size, iso_time, parse_instant

_ROWS_A_TABLE = 1000
# Nobody reads more from a screen, and it would take its time.
_MOST_ROWS = 2000
_MOST_ITEMS = 40
# What can be folded is not folded to less.
_NARROWEST = 20
_SHORTEST = 8
_SIZES = {
    "bytesDeleted",
    "sparedBytes",
    "sizeInBytes",
    "size",
    "tombstoneBytes",
    "logSizeInBytes",
    "bytesAdded",
    "bytesRemoved",
    "narrowBytes",
}
_TIMES = {
    "timestamp",
    "createdAt",
    "expiresAt",
    "lastModified",
    "modificationTime",
    "deletionTimestamp",
    "lastUpdated",
    "deleteBefore",
    "deletableAfter",
}
# Said by another line of the same table, or only of use to programs.
_NOT_IN_TABLE = {
    "timestampMs", "schema", "warnings", "format", "directories", "retentionMs", "kept",
    "optionsInFile",
}  # fmt: skip
_MOST_SUMS = 12
_NUMBERS = {"version", "numFiles", "numRecords", "columnId", "skew", "share"} | _SIZES


_TITLES = {
    "operationParameters": "parameters",
    "operationMetrics": "metrics",
    "userName": "user",
    "partitionValues": "partition",
}
# A person sees the beginning; the other formats have it all.
_CUT = {"operationParameters", "operationMetrics", "userName", "error", "id"}
_UNBROKEN = {"version", "operation", "timestamp", "lastUpdated", "numFiles"} | _SIZES


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the caller; rich would end the program."""
        raise BrokenPipeError


class People:
    """How this terminal's user likes things: zone, colour, the clock."""

    def __init__(self, file: Any, *, zone: tzinfo, now_ms: int, color: bool):
        self.zone = zone
        self.now_ms = now_ms
        self.console = _Console(
            file=file, markup=False, emoji=False, highlight=False, no_color=not color or None
        )


def show_document(document: Document, people: People) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in document.values.items():
        if name in _NOT_IN_TABLE and not document.is_chosen:
            continue
        grid.add_row(Text(name), _value_text(name, value, people))
    people.console.print(grid)
    if document.tree:
        people.console.print()
        people.console.print(Text("schema", style="bold"))
        for line in document.tree:
            people.console.print(Padding.indent(Text(escaped(line)), 2))


def show_listing(listing: Listing, fields: Sequence[str] | None, people: People) -> None:
    names = fields or listing.shown
    rows = plain_rows(listing.rows, names)
    if people.console.is_terminal:
        rows = islice(rows, _MOST_ROWS + 1)
    count = 0
    while block := list(islice(rows, _ROWS_A_TABLE)):
        left_out = people.console.is_terminal and count + len(block) > _MOST_ROWS
        block = block[: _MOST_ROWS - count] if left_out else block
        if block:
            columns = _columns(block, names, listing, people)
            # Without a wish for fields, a column that says nothing only takes room.
            if not fields and not listing.is_data:
                columns = [one for one in columns if one.says_something]
                fitting = _that_fit(columns, people.console.width)
            else:
                fitting = columns
            if _least_width(fitting) <= people.console.width:
                people.console.print(_table(fitting, people.console.width))
            else:
                _show_blocks(columns, count, people)
        count += len(block)
        if left_out:
            more = f"only the first {_MOST_ROWS:,} are shown; -o jsonl shows all"
            people.console.print(Text(more, style="dim"))
            break
    if not count:
        people.console.print(Text(f"no {listing.title}", style="dim"))
    for line in listing.footer:
        people.console.print(Text(line))


@dataclass(frozen=True)
class _Column:
    """The cells of one field in some rows, and how narrow they can be."""

    title: str
    cells: list[Text]
    is_number: bool
    is_whole: bool
    may_be_cut: bool
    says_something: bool

    @property
    def width(self) -> int:
        return max(cell_len(self.title), *(one.cell_len for one in self.cells))

    @property
    def least(self) -> int:
        if self.may_be_cut:
            return max(cell_len(self.title), min(self.width, _SHORTEST))
        return self.width if self.is_whole else min(self.width, _NARROWEST)


def _columns(
    block: Sequence[Row], names: Sequence[str], listing: Listing, people: People
) -> list[_Column]:
    found = []
    for name in names:
        values = [row.get(name) for row in block]
        if listing.is_data:
            # A table's own columns mean what they mean, whatever they are called.
            is_number = all(isinstance(one, int | float | Verbatim | None) for one in values)
            is_whole = not any(isinstance(one, str | list | dict) for one in values)
            cells = [_data_text(one, people) for one in values]
            found.append(_Column(escaped(name), cells, is_number, is_whole, False, True))
            continue
        found.append(
            _Column(
                _TITLES.get(name) or escaped(name),
                [_value_text(name, one, people, short=True) for one in values],
                name in _NUMBERS,
                name in _UNBROKEN,
                name in _CUT and any(isinstance(one, str | Mapping) for one in values),
                any(map(_says, values)),
            )
        )
    return found


def _data_text(value: Any, people: People) -> Text:
    if value is None:
        return Text("null", style="dim")
    if isinstance(value, Instant) and people.zone is not UTC:
        with contextlib.suppress(OverflowError):  # a year that only the other zone has
            here = datetime.fromisoformat(value).astimezone(people.zone)
            return Text(here.isoformat(timespec="microseconds"))
    if isinstance(value, str):
        return Text(escaped(value))
    return Text(escaped(json_text.dump(value).decode()))


def _least_width(columns: Sequence[_Column]) -> int:
    return sum(2 + one.least for one in columns)


def _that_fit(columns: list[_Column], width: int) -> list[_Column]:
    """The columns without those that only would be squeezed: what may be cut goes first."""
    kept = columns
    for one in [one for one in columns if one.may_be_cut]:
        if _least_width(kept) <= width:
            break
        kept = [other for other in kept if other is not one]
    return kept


def _table(columns: Sequence[_Column], width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    _cut_to_fit(columns, width)
    for one in columns:
        table.add_column(
            one.title,
            justify="right" if one.is_number else "left",
            overflow="fold",
            no_wrap=one.is_whole or one.may_be_cut,
            min_width=one.least,
        )
    for cells in zip(*(one.cells for one in columns), strict=True):
        table.add_row(*cells)
    return table


def _cut_to_fit(columns: Sequence[_Column], width: int) -> None:
    """Shorten the cells that may be cut to what the others leave of the line."""
    cut = [one for one in columns if one.may_be_cut]
    others = [one for one in columns if not one.may_be_cut]
    left = width - sum(2 + one.width for one in others)
    if left < sum(2 + one.least for one in cut):
        left = width - sum(2 + one.least for one in others)
    for count, one in enumerate(cut):
        share = max(one.least, min(one.width, left // (len(cut) - count) - 2))
        left -= share + 2
        for cell in one.cells:
            cell.truncate(share, overflow="ellipsis")


def _show_blocks(columns: Sequence[_Column], before: int, people: People) -> None:
    """Rows one below the other, where they are wider than the terminal."""
    for number in range(len(columns[0].cells)):
        people.console.print(Text(f"row {before + number + 1}", style="dim"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="bold", overflow="fold", max_width=people.console.width // 2)
        grid.add_column(overflow="fold")
        for one in columns:
            grid.add_row(Text(one.title), one.cells[number])
        people.console.print(grid)


def _says(value: Any) -> bool:
    """Whether a value says something; a number always does."""
    return bool(value) or type(value) in (int, float)


def _value_text(name: str, value: Any, people: People, *, short: bool = False) -> Text:
    if isinstance(value, Verbatim):
        return Text(_printable(_inline(value)))
    if value is None or value in ({}, []):
        return Text("-", style="dim")
    if name in _SIZES and isinstance(value, int):
        small = short or value < 1024
        return Text(human_size(value) if small else f"{human_size(value)} ({value:,} B)")
    if name in _TIMES and isinstance(value, str):
        return _time_text(value, people, short=short)
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}" if name.startswith("num") else str(value))
    if short and name == "operationMetrics" and isinstance(value, Mapping):
        return Text(_printable(_metrics(value)))
    if short and name == "operationParameters" and isinstance(value, Mapping):
        value = {key: one for key, one in value.items() if one not in _SAYS_NOTHING}
    if isinstance(value, Mapping) and value and all(map(_is_sum, value.values())):
        return Text(_printable(_sums(value)))
    if isinstance(value, Mapping):
        separator = ", " if short else "\n"
        parts = (f"{key} = {_nested(key, one, people)}" for key, one in value.items())
        return Text(_printable(separator.join(parts)))
    if isinstance(value, list):
        separator = ", " if all(isinstance(one, str) for one in value) else "\n"
        items = [_item(one, people) for one in islice(value, _MOST_ITEMS)]
        if len(value) > _MOST_ITEMS:
            items.append(f"… and {len(value) - _MOST_ITEMS:,} more (-o json shows all)")
        return Text(_printable(separator.join(items)))
    return Text(escaped(str(value)) if short else _printable(str(value)))


def _nested(name: str, value: Any, people: People) -> str:
    """A value inside another one; its texts mean what their writer says, as of a partition."""
    if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    if type(value) in (int, bool):
        return _value_text(name, value, people, short=True).plain
    return _inline(value)


def _item(value: Any, people: People) -> str:
    """One of several; what has a few plain properties is told by them."""
    is_plain = isinstance(value, Mapping) and not any(
        isinstance(one, Mapping | list) for one in value.values()
    )
    if not is_plain or _has_form(value):
        return _inline(value)
    return ", ".join(f"{key} = {_nested(key, one, people)}" for key, one in value.items())


# What is longer counts nothing.
_COUNT = re.compile(r"[0-9]{1,20}")
_SAYS_NOTHING = (None, "", "[]", "{}", "null", "false", False)


def _metrics(metrics: Mapping[str, Any]) -> str:
    """What a commit did: its counts that are not zero; how long it took is left to the JSON."""
    parts = []
    for key, value in metrics.items():
        text = _inline(value)
        if not _COUNT.fullmatch(text) or int(text) == 0 or key.endswith("Ms"):
            continue
        if "Bytes" in key or "Size" in key:
            parts.append(f"{key} {human_size(int(text))}")
        else:
            parts.append(f"{key} {int(text):,}")
    return ", ".join(parts)


def _is_sum(value: Any) -> bool:
    return isinstance(value, Mapping) and value.keys() == {"files", "bytes"}


def _sums(sums: Mapping[str, Mapping[str, int]]) -> str:
    """Files and bytes by something; the largest of them, where there are many."""
    lines = [
        f"{name or '(none)'}: {counted(one['files'], 'file')}, {human_size(one['bytes'])}"
        for name, one in islice(sums.items(), _MOST_SUMS)
    ]
    if len(sums) > _MOST_SUMS:
        lines.append(f"… and {len(sums) - _MOST_SUMS:,} more")
    return "\n".join(lines)


def _time_text(value: str, people: People, *, short: bool) -> Text:
    try:
        stamp = parse_instant(value, zone=people.zone, now_ms=people.now_ms)
    except UsageError:  # a year that datetime does not know stays as it is
        return Text(escaped(value))
    shown = (iso_time(stamp, people.zone) or "").replace("T", " ")
    shown = shown[:19] + shown[23:]
    if short:
        return Text(shown)
    return Text.assemble(shown, (f"  {human_age(stamp, people.now_ms)}", "dim"))


_FORMS = (
    {"from", "to"},
    {"column", "fieldPath", "fromType", "toType"},
    {"column", "loss"},
    {"path", "sizeInBytes"},
)


def _has_form(value: Mapping[str, Any]) -> bool:
    return value.keys() in _FORMS


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Mapping) or not _has_form(value):
        return json_text.dump(value).decode()
    if "from" in value:
        return f"{_inline(value['from'])} -> {_inline(value['to'])}"
    if "path" in value:
        return f"{value['path']}, {human_size(value['sizeInBytes'])}"
    if "fieldPath" in value:
        path = ".".join(one for one in (value["column"], value["fieldPath"]) if one)
        return f"{path}: {value['fromType']} -> {value['toType']}"
    return f"{value['column']}: {value['loss']}" if value["column"] else str(value["loss"])


def _printable(text: str) -> str:
    """Text without what could steer the terminal."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one == "\n" else f"\\x{ord(one):02x}" for one in text
    )
