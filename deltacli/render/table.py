"""Documents and listings for people, by rich. The only module that imports it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from itertools import islice
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deltacli.delta import json_text
from deltacli.errors import UsageError
from deltacli.operations.records import Document, Listing, plain_rows
from deltacli.units import escaped, human_age, human_size, iso_time, parse_instant

_ROWS_A_TABLE = 1000
_SIZES = {
    "bytesDeleted",
    "sparedBytes",
    "sizeInBytes",
    "size",
    "tombstoneBytes",
    "logSizeInBytes",
    "bytesAdded",
    "bytesRemoved",
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
_CUT = {"operationParameters", "operationMetrics", "userName", "error"}
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
            people.console.print(Text("  " + _printable(line)))


def show_listing(listing: Listing, fields: Sequence[str] | None, people: People) -> None:
    names = fields or listing.shown
    rows = plain_rows(listing.rows, names)
    count = 0
    while block := list(islice(rows, _ROWS_A_TABLE)):
        count += len(block)
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        # Without a wish for fields, a column that says nothing only takes room.
        used = [name for name in names if fields or any(_says(row.get(name)) for row in block)]
        columns = {
            name: [_value_text(name, row.get(name), people, short=True) for row in block]
            for name in used
        }
        if not fields:
            used = _that_fit(columns, people.console.width)
        cells = [[columns[name][row] for name in used] for row in range(len(block))]
        _cut_to_fit(cells, used, people.console.width)
        for name in used:
            table.add_column(
                _title(name),
                justify="right" if name in _NUMBERS else "left",
                overflow="fold",
                no_wrap=name in _UNBROKEN or name in _CUT,
            )
        for row_cells in cells:
            table.add_row(*row_cells)
        people.console.print(table)
    if not count:
        people.console.print(Text(f"no {listing.title}", style="dim"))
    for line in listing.footer:
        people.console.print(Text(line))


def _that_fit(columns: Mapping[str, list[Text]], width: int) -> list[str]:
    """The columns without those that only would be squeezed: what may be cut goes first."""

    def least(name: str) -> int:
        title = cell_len(_title(name))
        return title if name in _CUT else max(title, *(one.cell_len for one in columns[name]))

    used = list(columns)
    for name in [one for one in used if one in _CUT]:
        if sum(2 + least(one) for one in used) <= width:
            break
        used.remove(name)
    return used


def _title(name: str) -> str:
    return _TITLES.get(name) or escaped(name)


def _says(value: Any) -> bool:
    """Whether a value says something; a number always does."""
    return bool(value) or type(value) in (int, float)


def _cut_to_fit(cells: list[list[Text]], names: Sequence[str], width: int) -> None:
    """Shorten the cells that may be cut to what the others leave of the line."""
    cut = [position for position, name in enumerate(names) if name in _CUT]
    others = [position for position in range(len(names)) if position not in cut]
    titles = [cell_len(_title(name)) for name in names]
    taken = sum(
        2 + max(titles[position], *(line[position].cell_len for line in cells))
        for position in others
    )
    left = width - taken
    for count, position in enumerate(cut):
        wanted = max(titles[position], *(line[position].cell_len for line in cells))
        share = max(titles[position], min(wanted, left // (len(cut) - count) - 2))
        left -= share + 2
        for line in cells:
            line[position].truncate(share, overflow="ellipsis")


def _value_text(name: str, value: Any, people: People, *, short: bool = False) -> Text:
    if isinstance(value, json_text.Verbatim):
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
        parts = (f"{key} = {_inline(one)}" for key, one in value.items())
        return Text(_printable(separator.join(parts)))
    if isinstance(value, list):
        separator = ", " if all(isinstance(one, str) for one in value) else "\n"
        return Text(_printable(separator.join(_inline(one) for one in value)))
    return Text(escaped(str(value)) if short else _printable(str(value)))


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
        f"{name or '(none)'}: {one['files']:,} files, {human_size(one['bytes'])}"
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


def _inline(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and value.keys() == {"from", "to"}:
        return f"{_inline(value['from'])} -> {_inline(value['to'])}"
    if isinstance(value, Mapping) and value.keys() == {"column", "loss"}:
        return f"{value['column']}: {value['loss']}" if value["column"] else str(value["loss"])
    return json_text.dump(value).decode()


def _printable(text: str) -> str:
    """Text without what could steer the terminal."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or one == "\n" else f"\\x{ord(one):02x}" for one in text
    )
