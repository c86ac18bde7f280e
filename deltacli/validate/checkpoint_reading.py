"""Reads a checkpoint once, row by row, counting, summing up and hashing what it holds."""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.actions import (
    ACTION_KEYS,
    vector_id,
)
from deltacli.delta.columns import canonical_paths
from deltacli.delta.paths import sidecar_path
from deltacli.delta.replay import FileKey, key_of
from deltacli.delta.segment import Checkpoint
from deltacli.errors import DeltaCliError, FileMissing
from deltacli.storage import LogStore
from deltacli.validate.checkpoints import ROWS, Reading, Row, open_parquet, path_in, rows_of
from deltacli.validate.commits import Body, parse_lines
from deltacli.validate.replay import State, entry_of, path_of
from deltacli.validate.shapes import misfits

_FILE_ACTIONS = ("add", "remove")
# So many rows that are none are of interest.
_MOST = 100
OnAdds = Callable[[Reading, str, Any], None]


def read_checkpoint(
    store: LogStore,
    checkpoint: Checkpoint,
    state: State | None,
    now_ms: int,
    *,
    on_adds: OnAdds | None = None,
    on_batch: Callable[[Reading, Any], None] | None = None,
    with_sums: bool = True,
    wanted: frozenset[str] = frozenset(),
) -> Reading:
    """Read everything once. `on_adds` gets the adds to be checked, `on_batch` their batches."""
    reading = Reading(store, checkpoint, state, checkpoint.files[-1].modified_ms, now_ms)
    reading.has_sums = with_sums
    reading.wanted = wanted
    keys = _Keys()
    for file in checkpoint.files:
        _read_file(reading, file.path, keys, on_adds, on_batch)
    reading.inline_files = reading.counts["add"] + reading.counts["remove"]
    for row in reading.of("sidecar"):
        _take_sidecar(reading, row)
    for path in dict.fromkeys(reading.sidecars):
        _read_file(reading, path, keys, on_adds, on_batch)
    if reading.is_readable:
        reading.doubled, reading.twice = keys.repeated(reading)
    return reading


def _take_sidecar(reading: Reading, row: Row) -> None:
    try:
        path = sidecar_path(str(row.body.get("path")))
    except ValueError as error:
        reading.bad_sidecars.append((str(row.body.get("path")), str(error)))
        return
    try:
        size = reading.store.stat(path).size
    except FileMissing:
        reading.bad_sidecars.append((path, "it is missing"))
        return
    said = row.body.get("sizeInBytes")
    if type(said) is int and said != size:
        reading.bad_sidecars.append((path, f"it has {size:,} bytes, the checkpoint says {said:,}"))
        return
    reading.sidecars.append(path)


def _read_file(
    reading: Reading,
    path: str,
    keys: _Keys,
    on_adds: OnAdds | None,
    on_batch: Callable[[Reading, Any], None] | None,
) -> None:
    try:
        if path.endswith(".json"):
            _read_json(reading, path, keys, on_adds)
        else:
            _read_parquet(reading, path, keys, on_adds, on_batch)
    except (*MISFITS, DeltaCliError) as error:
        reading.unreadable.append((path, told(error)))


# How Arrow answers where columns do not keep what their types promise.
MISFITS = (
    pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError,
)  # fmt: skip


def told(error: Exception) -> str:
    """What an error says, in a line."""
    text = error.message if isinstance(error, DeltaCliError) else str(error)
    return text.splitlines()[0] if text else type(error).__name__


def _read_json(reading: Reading, path: str, keys: _Keys, on_adds: OnAdds | None) -> None:
    lines = parse_lines(reading.store.read(path))
    for line in lines:
        if line.flaw:
            reading.unreadable.append((path, f"line {line.number}: {line.flaw[1]}"))
        elif any(one.what != "unknown" for one in misfits(line.key, line.body)):
            one = next(one for one in misfits(line.key, line.body) if one.what != "unknown")
            text = f"line {line.number}: {line.key}.{one.name} is {one.what}"
            reading.unreadable.append((path, text))
        elif line.key in _FILE_ACTIONS:
            reading.counts[line.key] += 1
        elif line.key:
            reading.counts[line.key] += 1
            reading.small.append(Row(path, line.key, line.body))
    if reading.unreadable:
        return
    adds = [line for line in lines if line.key == "add"]
    bodies = [line.body for line in adds]
    for body in bodies:
        key = key_of(body)
        keys.add(key)
        if path_of(key) in reading.wanted:
            reading.noticed.append((key, body))
        reading.with_stats += bool(body.get("stats"))
        if reading.has_sums:
            reading.sums.count(entry_of(body, reading.version))
    for line in lines:
        if line.key == "remove":
            keys.remove(key_of(line.body))
            reading.removed.add(key_of(line.body))
    if on_adds and adds:
        on_adds(reading, path, adds)


def _read_parquet(
    reading: Reading,
    path: str,
    keys: _Keys,
    on_adds: OnAdds | None,
    on_batch: Callable[[Reading, Any], None] | None,
) -> None:
    # The few rows that say what the table is come first: adds are checked under them.
    with open_parquet(reading.store, path) as parquet:
        schema = parquet.schema_arrow
        reading.schemas[path] = schema
        for one in schema:
            if one.name in ACTION_KEYS and not pa.types.is_struct(one.type):
                raise ValueError(f"{one.name} is {one.type}, no struct")
        small = [one for one in schema.names if one in ACTION_KEYS and one not in _FILE_ACTIONS]
        if small:
            for batch in parquet.iter_batches(ROWS, columns=small, use_threads=False):
                for key in small:
                    column = batch.column(key)
                    for body in column.filter(column.is_valid()).to_pylist():
                        reading.counts[key] += 1
                        reading.small.append(Row(path, key, _without_nulls(body)))
    start = 0
    with open_parquet(reading.store, path) as parquet:
        columns = list(_read_columns(schema, with_sums=reading.has_sums))
        for batch in _ahead(parquet.iter_batches(ROWS, columns=columns, use_threads=False)):
            _count_actions(reading, path, batch, start)
            start += batch.num_rows
            for action in _FILE_ACTIONS:
                if action in schema.names:
                    rows = rows_of(batch.column(action))
                    if rows.num_rows:
                        _take_rows(reading, path, action, rows, keys, on_adds, on_batch)


def _read_columns(schema: Any, *, with_sums: bool) -> Iterator[str]:
    """The columns of a checkpoint that any rule asks for."""
    for top in schema:
        unused = _UNUSED.get(top.name, ())
        if not unused or (with_sums and top.name == "add"):
            yield top.name
        else:
            yield from (f"{top.name}.{one.name}" for one in top.type if one.name not in unused)


_UNUSED = {"add": ("tags",), "remove": ("partitionValues", "size", "extendedFileMetadata")}


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """The batches, the next one decoded by another thread meanwhile."""
    # It needs the interpreter seldom, but then at once.
    patience = sys.getswitchinterval()
    sys.setswitchinterval(patience / 10)
    try:
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(next, batches, None)
            while (batch := coming.result()) is not None:
                coming = pool.submit(next, batches, None)
                yield batch
    finally:
        sys.setswitchinterval(patience)


def _count_actions(reading: Reading, path: str, batch: Any, start: int) -> None:
    """Each row has exactly one action; one of a later protocol counts if there is no other."""
    known, other = pa.repeat(0, batch.num_rows), pa.repeat(False, batch.num_rows)
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name in ACTION_KEYS:
            known = pc.add(known, column.is_valid().cast(pa.int8()))
        else:
            other = pc.or_(other, column.is_valid())
    is_odd = pc.or_(pc.greater(known, 1), pc.and_(pc.equal(known, 0), pc.invert(other)))
    for position in pc.indices_nonzero(is_odd).to_pylist()[: _MOST - len(reading.odd_rows)]:
        reading.odd_rows.append((path, start + position, known[position].as_py()))


def _take_rows(
    reading: Reading,
    path: str,
    action: str,
    rows: Any,
    keys: _Keys,
    on_adds: OnAdds | None,
    on_batch: Callable[[Reading, Any], None] | None,
) -> None:
    reading.counts[action] += rows.num_rows
    names = rows.schema.names
    if "dataChange" in names:
        reading.counts[f"{action} dataChange"] += rows.column("dataChange").true_count
    _check_required(action, rows)
    paths = rows.column("path")
    vectors = rows.column("deletionVector") if "deletionVector" in names else None
    plain: list[str] = canonical_paths(paths).to_pylist()
    found: Sequence[FileKey] = plain
    if vectors is not None and vectors.null_count < len(vectors):
        ids = [vector_id(one) for one in vectors.to_pylist()]
        found = [one if own is None else (one, own) for one, own in zip(plain, ids, strict=True)]
    if action == "remove":
        for name in ("stats", "tags"):
            if name in names:
                column = rows.column(name)
                reading.counts[f"remove {name}"] += len(column) - column.null_count
        if reading.state is not None:
            reading.removed.update(found)
        keys.removes.extend(map(hash, found))
        _count_expired(reading, rows)
        return
    keys.adds.extend(map(hash, found))
    if found is not plain:
        keys.paths.extend(hash(one[0]) for one in found if not isinstance(one, str))
    with_stats = [
        rows.column(name).is_valid() for name in ("stats", "stats_parsed") if name in names
    ]
    if with_stats:
        either = with_stats[0] if len(with_stats) == 1 else pc.or_(*with_stats)
        reading.with_stats += either.true_count
    if "stats" in names:
        reading.counts["add stats"] += len(rows) - rows.column("stats").null_count
    _sum_up(reading, rows)
    if on_batch:
        on_batch(reading, rows)
    _look_out(reading, rows, plain, found)
    if on_adds is None:
        return
    names = [one for one in rows.schema.names if one not in _UNCHECKED]
    on_adds(reading, path, rows.select(names))


# Columns of adds that no rule about single adds asks for.
_UNCHECKED = ("partitionValues_parsed", "tags", "size", "dataChange", "baseRowId")


def _check_required(action: str, rows: Any) -> None:
    """Raise ValueError for a row that is not what the protocol calls a file action."""
    names = rows.schema.names
    for name in ("path",) if action == "remove" else ("path", "size"):
        if name not in names or rows.column(name).null_count:
            raise ValueError(f"a row of {action} has no {name}")
    _check_integers(action, rows.schema, _INTEGERS)
    for name in ("stats_parsed", "partitionValues_parsed"):
        if name in names and not pa.types.is_struct(rows.schema.field(name).type):
            raise ValueError(f"{action}.{name} is no struct")
    if "deletionVector" in names:
        column = rows.column("deletionVector")
        if not pa.types.is_struct(column.type):
            raise ValueError(f"{action}.deletionVector is no struct")
        _check_integers(f"{action}.deletionVector", column.type, _VECTOR_INTEGERS)
        vectors = column.drop_null()
        for name in ("storageType", "pathOrInlineDv", "cardinality"):
            if pc.struct_field(vectors, [name]).null_count:
                raise ValueError(f"a deletion vector has no {name}")


_INTEGERS = ("size", "modificationTime", "deletionTimestamp", "baseRowId",
             "defaultRowCommitVersion")  # fmt: skip
_VECTOR_INTEGERS = ("offset", "sizeInBytes", "cardinality")


def _check_integers(place: str, fields: Any, names: Sequence[str]) -> None:
    for one in fields:
        # Without a value a writer may have left the type open.
        if one.name in names and not (
            pa.types.is_signed_integer(one.type) or pa.types.is_null(one.type)
        ):
            raise ValueError(f"{place}.{one.name} is {one.type}")


def _look_out(reading: Reading, rows: Any, paths: Sequence[str], keys: Sequence[FileKey]) -> None:
    """Keep the rows of paths that commits to come speak of."""
    if not reading.wanted:
        return
    wanted = reading.wanted
    hits = [n for n, one in enumerate(paths) if one in wanted]
    if hits:
        for n, body in zip(hits, rows.take(hits).to_pylist(), strict=True):
            reading.noticed.append((keys[n], body))


def _sum_up(reading: Reading, rows: Any) -> None:
    if reading.has_sums:
        kept = [one for one in _SUMMED if one in rows.schema.names]
        for body in rows.select(kept).to_pylist():
            reading.sums.count(entry_of(body, reading.version))
        return
    sums = reading.sums
    sums.with_stats = reading.with_stats
    sums.files += rows.num_rows
    sums.bytes += pc.sum(rows.column("size")).as_py() or 0
    if "deletionVector" in rows.schema.names:
        cardinality = pc.struct_field(rows.column("deletionVector"), ["cardinality"])
        sums.vectors += len(cardinality) - cardinality.null_count
        sums.deleted += pc.sum(cardinality).as_py() or 0


_SUMMED = (
    "path", "size", "modificationTime", "partitionValues", "tags", "deletionVector",
    "baseRowId", "defaultRowCommitVersion", "clusteringProvider", "stats",
)  # fmt: skip


def _count_expired(reading: Reading, rows: Any) -> None:
    """Tombstones that had already expired when the checkpoint was written."""
    written = reading.written_ms
    if written is None or "deletionTimestamp" not in rows.schema.names:
        return
    retain_ms = reading.definition.setting("delta.deletedFileRetentionDuration")
    old = pc.less_equal(pc.fill_null(rows.column("deletionTimestamp"), 0), written - retain_ms)
    reading.counts["expired"] += old.true_count


class _Keys:
    """The keys of all file actions as hashes, to find those that come twice.

    `paths` are those of files with deletion vectors: without one, the path is the key.
    """

    def __init__(self) -> None:
        self.adds = array("q")
        self.paths = array("q")
        self.removes = array("q")

    def add(self, key: FileKey) -> None:
        self.adds.append(hash(key))
        if not isinstance(key, str):
            self.paths.append(hash(key[0]))

    def remove(self, key: FileKey) -> None:
        self.removes.append(hash(key))

    def repeated(self, reading: Reading) -> tuple[list[str], list[str]]:
        """The paths of keys that come twice, and paths that are live with two vectors."""
        whole = _repeated(self.adds + self.removes)
        paths = _repeated(self.paths)
        if self.paths:
            paths |= set(self.paths) & set(self.adds)
        if not whole and not paths:
            return [], []
        # Hashes may agree by chance: the keys themselves decide.
        keys: Counter[FileKey] = Counter()
        live: dict[str, set[FileKey]] = {}
        for _, action, rows in reading.file_rows(_FILE_ACTIONS):
            bodies = rows.to_pylist() if isinstance(rows, pa.RecordBatch) else rows
            for body in bodies:
                key = key_of(body)
                path = key if isinstance(key, str) else key[0]
                if hash(key) in whole:
                    keys[key] += 1
                if action == "add" and hash(path) in paths:
                    live.setdefault(path, set()).add(key)
        doubled = [path_in(key) for key, count in keys.items() if count > 1]
        return doubled, [path for path, own in live.items() if len(own) > 1]


def _repeated(hashes: Any) -> set[int]:
    if len(hashes) < 2:
        return set()
    column = pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])
    # Sorting takes a fraction of the time and room that counting does.
    ordered = column.take(pc.sort_indices(column))
    same = pc.equal(ordered[1:], ordered[:-1])
    return set(ordered[1:].filter(same).to_pylist()) if same.true_count else set()


def _without_nulls(body: Body) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}
