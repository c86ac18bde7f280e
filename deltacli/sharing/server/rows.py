"""The files of a version as rows of plain texts: columns while they are kept, tuples in use."""

from __future__ import annotations

import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta import json_text
from deltacli.delta.actions import BadAction, parse_line, vector_id
from deltacli.delta.columns import canonical_paths, json_strings, partition_objects, path_array
from deltacli.delta.engine import FileBatch
from deltacli.delta.replay import FileKey, key_of
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
# What is needed to judge files, and quick to read.
CHEAP_FIELDS = ("path", "partitionValues", "size", "deletionVector")
# Rows that become tuples at once, and newer actions that become columns at once.
_ROWS = 1024
_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partition", pa.string()),
        ("size", pa.int64()),
        ("modified_ms", pa.int64()),
        ("stats", pa.string()),
        ("vector", pa.string()),
    ]
)


class FileRow(NamedTuple):
    """A file as the log has it, in texts that are put into JSON as they stand.

    `partition` is a JSON object, `stats` a JSON string whose content is the statistics,
    `vector` a JSON object.
    """

    path: str
    partition: str
    size: int
    modified_ms: int
    stats: str | None
    vector: str | None


def live_batches(
    snapshot: Snapshot, keys: Collection[str], *, fields: Sequence[str] = _FIELDS
) -> Iterator[Any]:
    """The live files as record batches with the columns of a row.

    `keys` are the partition columns as the log names them.
    """
    names = {key: key for key in keys}
    bodies: list[FileRow] = []
    for item in snapshot.files("add", fields):
        if isinstance(item, FileBatch):
            yield _columns(item.columns, names)
            continue
        bodies.append(row_of(item, names))
        if len(bodies) == _ROWS:
            yield _of_rows(bodies)
            bodies = []
    if bodies:
        yield _of_rows(bodies)


def advanced(batches: Sequence[Any], changes: Mapping[FileKey, FileRow | None]) -> Iterator[Any]:
    """The batches of a version as those of a later one; what did not change is shared.

    `changes` has the newest row of each file that was added since, or None for one that is gone.
    """
    touched = path_array({key if isinstance(key, str) else key[0] for key in changes})
    for batch in batches:
        paths = canonical_paths(batch.column("path"))
        hits = pc.is_in(paths, value_set=touched)
        if hits.true_count:
            gone = {
                position
                for position in pc.indices_nonzero(hits).to_pylist()
                if _key_at(paths, batch.column("vector"), position) in changes
            }
            kept = [position not in gone for position in range(batch.num_rows)]
            batch = batch.filter(pa.array(kept, pa.bool_()))
        if batch.num_rows:
            yield batch
    new = [row for row in changes.values() if row is not None]
    for start in range(0, len(new), _ROWS):
        yield _of_rows(new[start : start + _ROWS])


def _key_at(paths: Any, vectors: Any, position: int) -> FileKey:
    # The path is canonical already: what looks encoded in it is its name.
    path, text = paths[position].as_py(), vectors[position].as_py()
    return (path, vector_id(json_text.load(text)) or "") if text else path


def rows_of(batch: Any) -> Iterator[FileRow]:
    """The rows of a batch, some at a time."""
    for start in range(0, batch.num_rows, _ROWS):
        columns = [column.to_pylist() for column in batch.slice(start, _ROWS).columns]
        yield from map(FileRow._make, zip(*columns, strict=True))


def _of_rows(rows: list[FileRow]) -> Any:
    try:
        return pa.record_batch([list(column) for column in zip(*rows, strict=True)], _SCHEMA)
    except UnicodeEncodeError:
        raise BadAction("a path or a statistic is no text") from None


def _columns(columns: Any, names: Mapping[str, str]) -> Any:
    """The same columns from those of a checkpoint."""
    count, have = columns.num_rows, set(columns.schema.names)
    if "partitionValues" in have or not names:
        partitions = partition_objects(columns, names)
    else:
        partitions = pa.array(["{}"] * count, pa.string())
    stats = json_strings(columns.column("stats")) if "stats" in have else _nulls(count)
    if "stats_parsed" in have and stats.null_count:
        stats = _with_parsed(stats, columns.column("stats_parsed"))
    vectors = _nulls(count)
    if "deletionVector" in have:
        column = columns.column("deletionVector")
        if pc.struct_field(column, ["storageType"]).null_count < count:
            vectors = pa.array([_vector_text(one) for one in column.to_pylist()], pa.string())
    times = columns.column("modificationTime") if "modificationTime" in have else None
    return pa.record_batch(
        [
            columns.column("path"),
            partitions,
            columns.column("size"),
            pa.nulls(count, pa.int64()) if times is None else times,
            stats,
            vectors,
        ],
        _SCHEMA,
    )


def _nulls(count: int) -> Any:
    return pa.nulls(count, pa.string())


def _with_parsed(stats: Any, parsed: Any) -> Any:
    """Statistics as text, made from the struct where a row has no text."""
    texts = [
        _stats_text(parsed[position].as_py()) if text is None else text
        for position, text in enumerate(stats.to_pylist())
    ]
    return pa.array(texts, pa.string())


def _vector_text(vector: Any) -> str | None:
    if not vector or vector.get("storageType") is None:
        return None
    return json_text.dump(
        {key: value for key, value in vector.items() if value is not None}
    ).decode()


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
        _vector_text(body.get("deletionVector")),
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


def changes_since(
    lines: Iterable[bytes], names: Mapping[str, str], changes: dict[FileKey, FileRow | None]
) -> bool:
    """Apply a commit's file actions; False if it takes more than that to know the files."""
    own: dict[FileKey, FileRow | None] = {}
    for line in lines:
        action = parse_line(line)
        if action is None:
            continue
        kind, body = action
        if kind in ("metaData", "protocol"):
            return False
        if kind in ("add", "remove"):
            key = key_of(body)
            if key in own:
                return False
            own[key] = row_of(body, names) if kind == "add" else None
    changes.update(own)
    return True


# -- paths that have to be looked at -----------------------------------------------------


def is_odd(path: str) -> bool:
    """Whether a path may lead out of the table, or is not its own name: it is rarely so."""
    return _ODD.search(path) is not None


_ODD_PATH = r"/\.|//|:|%|_delta_log|\x00|^[/.]|^$"
# And half a character: it may stand in JSON, and can be no name.
_ODD = re.compile(f"{_ODD_PATH}|[\ud800-\udfff]")


def odd_paths(batch: Any) -> list[str]:
    paths = batch.column("path")
    return list(paths.filter(pc.match_substring_regex(paths, _ODD_PATH)).to_pylist())


def vectors_of(batch: Any) -> list[Any]:
    texts = batch.column("vector")
    return [json_text.load(one) for one in texts.drop_null().to_pylist()]


# -- what is kept ------------------------------------------------------------------------


class Holder(Protocol):
    """What has batches while there is room for them."""

    kept: list[Any] | None


class Shelf:
    """Room for the batches of the holders that were asked for last."""

    def __init__(self, most_bytes: int):
        self.most_bytes = most_bytes
        self._held: OrderedDict[int, tuple[weakref.ref[Any], int]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, holder: Holder, size: int) -> None:
        """Count a holder's batches; those that were asked for longest ago lose theirs."""
        with self._lock:
            self._held[id(holder)] = weakref.ref(holder), size
            self._held.move_to_end(id(holder))
            gone = [key for key, (ref, _) in self._held.items() if ref() is None]
            for key in gone:
                del self._held[key]
            while sum(one for _, one in self._held.values()) > self.most_bytes:
                _, (ref, _) = self._held.popitem(last=False)
                oldest = ref()
                if oldest is not None:
                    oldest.kept = None

    def touch(self, holder: Holder) -> None:
        with self._lock:
            if id(holder) in self._held:
                self._held.move_to_end(id(holder))
