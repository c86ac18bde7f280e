"""Arrow columns to JSON text, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta import json_text
from deltacli.delta.columns import json_strings
from deltacli.operations.records import Columns


def json_objects(columns: Columns, names: Sequence[str], separator: bytes) -> memoryview:
    """The rows as JSON objects, joined by `separator`."""
    pieces: list[Any] = []
    literal = "{"
    for position, name in enumerate(names):
        literal += ("," if position else "") + json_text.dump(name).decode() + ":"
        value = _json_column(columns, name)
        if value is None:
            literal += "null"
        else:
            pieces += [literal, value]
            literal = ""
    pieces.append(literal + "}")
    if len(pieces) == 1:
        return memoryview(separator.join([pieces[0].encode()] * columns.num_rows))
    lines = pc.binary_join_element_wise(*pieces, "")
    whole = pa.ListArray.from_arrays(pa.array([0, columns.num_rows], pa.int32()), lines)
    return memoryview(pc.binary_join(whole, separator.decode())[0].as_buffer())


def _json_column(columns: Columns, name: str) -> Any:
    """JSON values without nulls, or None if all are null."""
    if name in columns.text:
        texts = json_strings(columns.text[name])
    elif name in columns.json:
        texts = columns.json[name]
    else:
        return None
    if texts.null_count == len(texts):
        return None
    return pc.fill_null(texts, "null") if texts.null_count else texts
