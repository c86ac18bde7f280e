"""Arrow columns to JSON text, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow.compute as pc

from deltacli.delta import json_text
from deltacli.delta.columns import json_strings, needs_escape
from deltacli.operations.records import Columns


def json_objects(columns: Columns, names: Sequence[str], separator: bytes) -> memoryview:
    """The rows as JSON objects, joined by `separator`."""
    if not columns.num_rows:
        return memoryview(b"")
    pieces: list[Any] = []
    literal = "{"
    for position, name in enumerate(names):
        literal += ("," if position else "") + json_text.dump(name).decode() + ":"
        value, quote = _json_column(columns, name)
        if value is None:
            literal += "null"
        else:
            pieces += [literal + quote, value]
            literal = quote
    end = literal + "}"
    if not pieces:
        return memoryview(separator.join([end.encode()] * columns.num_rows))
    # Each text ends with the separator, so the column's data are the joined rows already.
    texts = pc.binary_join_element_wise(*pieces, end + separator.decode(), "")
    return memoryview(texts.buffers()[2])[: -len(separator)]


def _json_column(columns: Columns, name: str) -> tuple[Any, str]:
    """A column to be put between two quotes (which may be none); None if all is null."""
    if name in columns.text:
        texts = columns.text[name]
        if not texts.null_count and not needs_escape(texts):
            return texts, '"'
        texts = json_strings(texts)
    elif name in columns.json:
        texts = columns.json[name]
    else:
        return None, ""
    if texts.null_count == len(texts):
        return None, ""
    return (pc.fill_null(texts, "null") if texts.null_count else texts), ""
