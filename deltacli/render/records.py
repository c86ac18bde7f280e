"""Documents and listings as JSON, JSON lines, CSV and tab-separated lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from deltacli.delta import json_text
from deltacli.operations.records import Columns, Document, Listing, Pending, Report, Row
from deltacli.render.formats import Format
from deltacli.units import escaped

Write = Callable[[bytes], Any]


def render_document(document: Document, fmt: Format, write: Write, *, header: bool = True) -> None:
    """A record in a format other than `table`."""
    values = document.values
    if fmt is Format.JSON:
        write(json_text.dump(values, indent=True) + b"\n")
    elif fmt is Format.JSONL:
        write(json_text.dump(values) + b"\n")
    elif fmt is Format.CSV:
        if header:
            write(_csv_line(values))
        write(_csv_line([_cell(value) for value in values.values()]))
    else:
        for name, value in values.items():
            write(f"{name}\t{_plain(_cell(value))}\n".encode("utf-8", "replace"))


def render_listing(
    listing: Listing,
    fields: Sequence[str] | None,
    fmt: Format,
    write: Write,
    *,
    header: bool = True,
) -> None:
    """Rows in a format other than `table`, written as they come."""
    if fmt is Format.JSON:
        _render_json_array(listing.rows, fields or listing.fields, write)
    elif fmt is Format.JSONL:
        for block in _json_blocks(listing.rows, fields or listing.fields, b"\n"):
            write(block)
            write(b"\n")
    elif fmt is Format.CSV:
        names = fields or listing.fields
        if header:
            write(_csv_line(names))
        for cells in _cells(listing.rows, names):
            write(_csv_line(cells))
    else:
        for cells in _cells(listing.rows, fields or listing.shown):
            write(("\t".join(map(_plain, cells)) + "\n").encode("utf-8", "replace"))


def render_reports(
    reports: Sequence[Report],
    fields: Sequence[str] | None,
    fmt: Format,
    write: Write,
    *,
    many: bool = False,
) -> None:
    """Reports in a format other than `table`. One is an object in JSON, many are an array."""
    if fmt is Format.JSON:
        write(b"[\n" if many else b"")
        for position, one in enumerate(reports):
            write(b",\n" if position else b"")
            _render_json_report(one, fields, write)
        write(b"\n]\n" if many else b"\n")
        return
    for position, one in enumerate(reports):
        header = position == 0
        # Fields, if any are left to choose here, are those of rows.
        if one.rows is not None and (one.lists_rows or fields or fmt is Format.JSONL):
            render_listing(one.rows, fields, fmt, write, header=header)
        only_rows = one.rows is not None and (
            fields or (one.lists_rows and fmt is not Format.JSONL)
        )
        if not only_rows:
            render_document(one.document, fmt, write, header=header)


def _render_json_report(report: Report, fields: Sequence[str] | None, write: Write) -> None:
    text = json_text.dump(report.document.values, indent=True)
    if report.rows is None:
        write(text)
        return
    write(text.removesuffix(b"\n}") + f',\n  "{report.name}": ['.encode())
    opening = b"\n    "
    for block in _json_blocks(report.rows.rows, fields or report.rows.fields, b",\n    "):
        write(opening)
        write(block)
        opening = b",\n    "
    write(b"]\n}" if opening == b"\n    " else b"\n  ]\n}")


def _render_json_array(rows: Iterable[Row | Pending], names: Sequence[str], write: Write) -> None:
    opening = b"[\n"
    for block in _json_blocks(rows, names, b",\n"):
        write(opening)
        write(block)
        opening = b",\n"
    write(b"[]\n" if opening == b"[\n" else b"\n]\n")


def _json_blocks(
    rows: Iterable[Row | Pending], names: Sequence[str], separator: bytes
) -> Iterator[Any]:
    """One or many rows as JSON objects; many are shaped on other threads, in order."""
    wanted = tuple(names)

    def one(row: Row) -> bytes:
        if tuple(row) != wanted:
            row = {name: row.get(name) for name in names}
        return json_text.dump(row)

    def many(pending: Pending) -> Any:
        made = pending.make()
        if isinstance(made, Columns):
            from deltacli.render.columns import json_objects

            return json_objects(made, names, separator)
        return separator.join(map(one, made))

    for item in _ahead(rows, many):
        if isinstance(item, Mapping):
            yield one(item)
        elif len(item):
            yield item


def _ahead(rows: Iterable[Row | Pending], finish: Callable[[Pending], Any]) -> Iterator[Any]:
    """Rows as they are, pending ones finished; reading goes on while they are."""
    waiting: deque[Any] = deque()
    pool: Any = None
    try:
        for item in rows:
            if not isinstance(item, Pending):
                yield item
                continue
            if pool is None:
                from concurrent.futures import ThreadPoolExecutor

                pool = ThreadPoolExecutor(2)
            waiting.append(pool.submit(finish, item))
            if len(waiting) > 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _cells(rows: Iterable[Row | Pending], names: Sequence[str]) -> Iterator[list[str]]:
    for item in _ahead(rows, lambda pending: pending.make()):
        if isinstance(item, Mapping):
            yield [_cell(item.get(name)) for name in names]
        elif isinstance(item, Columns):
            for values in zip(*(_texts(item, name) for name in names), strict=True):
                yield ["" if value is None else value for value in values]
        else:
            for row in item:
                yield [_cell(row.get(name)) for name in names]


def _texts(columns: Columns, name: str) -> list[str | None]:
    column = columns.text.get(name, columns.json.get(name))
    return [None] * columns.num_rows if column is None else column.to_pylist()


def _cell(value: Any) -> str:
    """A value as one text: nested ones as JSON, null as nothing."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json_text.dump(value).decode()


def _plain(text: str) -> str:
    """One cell of a line: no character in it may end the cell, the line or the terminal's peace."""
    return text if text.isprintable() else escaped(text)


def _csv_line(cells: Iterable[str]) -> bytes:
    import csv
    import io

    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(list(cells))
    return buffer.getvalue().encode("utf-8", "replace")
