"""The files of a version as rows of plain texts, a batch of columns at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow.compute as pc

from deltacli.delta import json_text
from deltacli.delta.actions import BadAction
from deltacli.delta.columns import json_strings, partition_objects
from deltacli.delta.engine import FileBatch
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.stats import stats_of_struct

_FIELDS = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "stats",
    "stats_parsed",
    "deletionVector",
)
_KEYS = ("path", "partitionValues", "size", "deletionVector")


class FileRow(NamedTuple):
    """A file as the log has it, in texts that are put into JSON as they stand.

    `partition` is a JSON object, `stats` a JSON string whose content is the statistics.
    """

    path: str
    partition: str
    size: int
    modified_ms: int
    stats: str | None
    vector: Mapping[str, Any] | None


def live_rows(
    snapshot: Snapshot, keys: Mapping[str, str], *, with_stats: bool = True
) -> Iterator[FileRow]:
    """The live files; `keys` are the partition columns as the log names them."""
    names = {key: key for key in keys.values()}
    for item in snapshot.files("add", _FIELDS if with_stats else _KEYS):
        if isinstance(item, FileBatch):
            yield from _of_columns(item.columns, names)
        else:
            yield row_of(item, names)


def sums_of(snapshot: Snapshot) -> Iterator[tuple[int, int, list[str], list[Any]]]:
    """Of the live files, some at a time: how many, their bytes, the paths that have to be
    looked at, and the deletion vectors."""
    for item in snapshot.files("add", ("path", "size", "deletionVector")):
        if isinstance(item, FileBatch):
            columns = item.columns
            paths = columns.column("path")
            odd = pc.match_substring_regex(paths, ODD_PATH)
            vectors: list[Any] = []
            if "deletionVector" in columns.schema.names:
                column = columns.column("deletionVector")
                kinds = pc.struct_field(column, ["storageType"])
                vectors = column.filter(pc.is_valid(kinds)).to_pylist()
            size = pc.sum(columns.column("size")).as_py() or 0
            yield columns.num_rows, size, paths.filter(odd).to_pylist(), vectors
        else:
            path, vector = item["path"], item.get("deletionVector")
            yield 1, item["size"], [path] if is_odd(path) else [], [vector] if vector else []


def is_odd(path: str) -> bool:
    """Whether a path may lead out of the table, or is not its own name: it is rarely so."""
    return (
        "/." in path
        or "//" in path
        or ":" in path
        or "%" in path
        or "_delta_log" in path
        or "\0" in path
        or path[:1] in "/."
        or (not path.isascii() and _LONE.search(path) is not None)
    )


# Half a character: it may stand in JSON, and can be no name.
_LONE = re.compile("[\ud800-\udfff]")


ODD_PATH = r"/\.|//|:|%|_delta_log|\x00|^[/.]|^$"


def _of_columns(columns: Any, names: Mapping[str, str]) -> Iterator[FileRow]:
    count, have = columns.num_rows, set(columns.schema.names)

    def texts(name: str) -> list[Any]:
        return list(columns.column(name).to_pylist()) if name in have else [None] * count

    partitions = (
        partition_objects(columns, names).to_pylist()
        if "partitionValues" in have or not names
        else ["{}"] * count
    )
    stats = json_strings(columns.column("stats")).to_pylist() if "stats" in have else [None] * count
    if "stats_parsed" in have and None in stats:
        parsed = columns.column("stats_parsed")
        for position, text in enumerate(stats):
            if text is None:
                stats[position] = _stats_text(parsed[position].as_py())
    times = texts("modificationTime")
    rows = zip(
        texts("path"), partitions, texts("size"), times, stats, texts("deletionVector"), strict=True
    )
    return map(FileRow._make, rows)


def _stats_text(struct: Mapping[str, Any] | None) -> str | None:
    stats = stats_of_struct(struct)
    return None if stats is None else _quoted(json_text.dump(stats).decode())


def _quoted(text: str) -> str:
    return json_text.dump(text).decode()


def row_of(body: Mapping[str, Any], names: Mapping[str, str]) -> FileRow:
    """A file action's body; what is no text where one belongs is left out."""
    values = string_pairs(body.get("partitionValues"))
    partition = {key: _value(values.get(key)) for key in names}
    stats = body.get("stats")
    stats = _quoted(stats) if isinstance(stats, str) else _stats_text(body.get("stats_parsed"))
    size, modified_ms = body.get("size"), body.get("modificationTime")
    return FileRow(
        body["path"],
        json_text.dump(partition).decode(),
        size if type(size) is int else 0,
        modified_ms if type(modified_ms) is int else 0,
        stats,
        body.get("deletionVector") or None,
    )


def string_pairs(values: Any) -> dict[str, Any]:
    """Partition values as a mapping; Parquet has them as pairs. Raises BadAction."""
    if not isinstance(values or {}, Mapping | list):
        raise BadAction("partitionValues is not a map")
    try:
        return dict(values or {})
    except (TypeError, ValueError):
        raise BadAction("partitionValues is not a map") from None


def _value(value: Any) -> str | None:
    """A partition value; the empty text is null, and numbers of careless writers are texts."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) else json_text.dump(value).decode()
