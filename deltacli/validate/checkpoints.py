"""One checkpoint, read row by row by pyarrow alone, and compared with a replayed state.

The engine that answers for a state trusts what a checkpoint holds; here nothing is trusted.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltacli.delta.actions import (
    ACTION_KEYS,
    BadAction,
    DomainMetadata,
    Metadata,
    Protocol,
    parse_domain,
    parse_metadata,
    parse_protocol,
    vector_id,
)
from deltacli.delta.columns import canonical_paths
from deltacli.delta.paths import SIDECARS, Kind, canonical_path, commit_path, sidecar_path
from deltacli.delta.replay import FileKey, key_of
from deltacli.delta.segment import Checkpoint
from deltacli.errors import DeltaCliError, FileMissing
from deltacli.local.engine import flatten
from deltacli.storage import LogStore
from deltacli.validate.commits import Body, Line, parse_lines
from deltacli.validate.definition import Definition
from deltacli.validate.replay import FACT_NAMES, Entry, State, Sums, entry_of, file_facts, path_of
from deltacli.validate.shapes import misfits

_ROWS = 1 << 15
_MOST = 100
_FILE_ACTIONS = ("add", "remove")


@dataclass(frozen=True, slots=True)
class Row:
    """An action that is not about a file, and where it stands."""

    file: str
    key: str
    body: Body


@dataclass(frozen=True, slots=True)
class Difference:
    """A file that a checkpoint lacks, has besides, or tells other things of."""

    what: str
    path: str
    names: tuple[str, ...] = ()


@dataclass
class Reading:
    """What a checkpoint holds, and what it should hold: the `state`, where that is known.

    Of file actions only counts, sums and hashes are kept, and those whose paths are `wanted`.
    """

    store: LogStore
    checkpoint: Checkpoint
    state: State | None
    written_ms: int | None
    now_ms: int
    wanted: frozenset[str] = frozenset()
    noticed: list[tuple[FileKey, Body]] = field(default_factory=list)
    inline_files: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    bad_sidecars: list[tuple[str, str]] = field(default_factory=list)
    schemas: dict[str, Any] = field(default_factory=dict)
    sidecars: list[str] = field(default_factory=list)
    small: list[Row] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    with_stats: int = 0
    sums: Sums = field(default_factory=Sums)
    has_sums: bool = False
    removed: set[FileKey] = field(default_factory=set)
    odd_rows: list[tuple[str, int, int]] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)

    @property
    def version(self) -> int:
        return self.checkpoint.version

    @property
    def file(self) -> str:
        return self.checkpoint.files[0].path

    @property
    def is_readable(self) -> bool:
        return not self.unreadable and not self.bad_sidecars

    @property
    def is_v2(self) -> bool:
        return (
            self.checkpoint.kind is Kind.UUID_CHECKPOINT
            or bool(self.sidecars)
            or any(one.key == "checkpointMetadata" for one in self.small)
        )

    def of(self, key: str) -> list[Row]:
        return [one for one in self.small if one.key == key]

    @cached_property
    def protocol(self) -> Protocol | None:
        return next((one for one in map(_protocol, self.of("protocol")) if one), None)

    @cached_property
    def metadata(self) -> Metadata | None:
        return next((one for one in map(_metadata, self.of("metaData")) if one), None)

    @cached_property
    def domains(self) -> dict[str, DomainMetadata]:
        found = {}
        for row in self.of("domainMetadata"):
            try:
                one = parse_domain(row.body)
            except BadAction:
                continue
            found[one.domain] = one
        return found

    @cached_property
    def definition(self) -> Definition:
        return Definition(self.version, self.file, self.protocol, self.metadata, self.domains)

    # -- comparison ----------------------------------------------------------------------

    @cached_property
    def differences(self) -> list[Difference]:
        """How the live files differ from the state, the first of them; none if unknown."""
        state = self.state
        if state is None or not self.is_readable or not self.has_sums:
            return []
        expected, own = state.sums, self.sums
        same_files = (own.files, own.facts) == (expected.files, expected.facts)
        if same_files and own.stats == expected.stats:
            return []
        return list(_first(_MOST, self._compare(state)))

    def _compare(self, state: State) -> Iterator[Difference]:
        there: dict[FileKey, tuple[int, int]] = {}
        for body in self.add_bodies():
            one = entry_of(body, 0)
            there[key_of(body)] = one.facts, one.stats
        unequal: dict[int, list[FileKey]] = {}
        for key, entry in self._expected(state):
            own = there.pop(key, None)
            if own is None:
                yield Difference("missing", _text(key))
            elif own != (entry.facts, entry.stats):
                unequal.setdefault(entry.version, []).append(key)
        for key in there:
            yield Difference("extra", _text(key))
        yield from self._unequal(state, unequal)

    def _expected(self, state: State) -> Iterator[tuple[FileKey, Entry]]:
        yield from state.live.items()
        if state.base is None:
            return
        for body in state.base.add_bodies():
            key = key_of(body)
            if canonical_path(body["path"]) not in state.asked:
                yield key, entry_of(body, state.base_version)

    def _unequal(
        self, state: State, unequal: Mapping[int, Sequence[FileKey]]
    ) -> Iterator[Difference]:
        """Which fields differ: the log's own words are looked up once more."""
        for version, keys in unequal.items():
            wanted = set(keys)
            own = {key: body for body in self.add_bodies() if (key := key_of(body)) in wanted}
            for key, body in self._said(state, version, wanted):
                names = _differing(body, own[key])
                if names:
                    yield Difference("different", _text(key), names)

    def _said(
        self, state: State, version: int, wanted: set[FileKey]
    ) -> Iterator[tuple[FileKey, Body]]:
        if state.base is not None and version == state.base_version:
            bodies = state.base.add_bodies()
        else:
            lines = parse_lines(self.store.read(commit_path(version)))
            bodies = (line.body for line in lines if line.key == "add")
        for body in bodies:
            key = key_of(body)
            if key in wanted:
                yield key, body

    # -- reading -------------------------------------------------------------------------

    def add_bodies(self) -> Iterator[Body]:
        """All live files, as bodies of their actions."""
        for _, action, rows in self._file_rows(("add",)):
            if action == "add":
                yield from rows.to_pylist() if isinstance(rows, pa.RecordBatch) else rows

    def find(self, paths: Any) -> Iterator[tuple[FileKey, Body]]:
        """The live files with these canonical paths."""
        wanted = set(paths)
        if wanted <= self.wanted:
            yield from (one for one in self.noticed if path_of(one[0]) in wanted)
            return
        value_set = pa.array(sorted(wanted), pa.string())
        for _, _, rows in self._file_rows(("add",)):
            if not isinstance(rows, pa.RecordBatch):
                found = [body for body in rows if canonical_path(body["path"]) in wanted]
            else:
                plain = rows.column("path")
                odd = pc.match_substring_regex(plain, "[%:]|^/")
                hits = pc.or_(pc.is_in(plain, value_set=value_set), odd)
                found = rows.filter(hits).to_pylist() if hits.true_count else []
            for body in found:
                if canonical_path(body["path"]) in wanted:
                    yield key_of(body), body

    def _file_rows(
        self, actions: Sequence[str], columns: Sequence[str] | None = None
    ) -> Iterator[tuple[str, str, Any]]:
        """The rows of file actions: batches of Parquet, lists of bodies of JSON."""
        for file in (*(one.path for one in self.checkpoint.files), *self.sidecars):
            if file.endswith(".json"):
                lines = parse_lines(self.store.read(file))
                for action in actions:
                    yield file, action, [one.body for one in lines if one.key == action]
                continue
            with _open(self.store, file) as parquet:
                names = [one for one in actions if one in parquet.schema_arrow.names]
                if not names:
                    continue
                for batch in parquet.iter_batches(_ROWS, columns=names, use_threads=False):
                    for action in names:
                        rows = _rows_of(batch.column(action))
                        if rows.num_rows:
                            yield file, action, rows


# Called with the adds of a file, as a batch or as lines.
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
    except (pa.ArrowException, OSError, *_MISFITS, DeltaCliError) as error:
        text = error.message if isinstance(error, DeltaCliError) else str(error)
        reason = text.splitlines()[0] if text else type(error).__name__
        reading.unreadable.append((path, reason))


# How Arrow answers where columns are not of the types that are asked for.
_MISFITS = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError)


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
    with _open(reading.store, path) as parquet:
        schema = parquet.schema_arrow
        reading.schemas[path] = schema
        for one in schema:
            if one.name in ACTION_KEYS and not pa.types.is_struct(one.type):
                raise ValueError(f"{one.name} is {one.type}, no struct")
        small = [one for one in schema.names if one in ACTION_KEYS and one not in _FILE_ACTIONS]
        if small:
            for batch in parquet.iter_batches(_ROWS, columns=small, use_threads=False):
                for key in small:
                    column = batch.column(key)
                    for body in column.filter(column.is_valid()).to_pylist():
                        reading.counts[key] += 1
                        reading.small.append(Row(path, key, _without_nulls(body)))
    start = 0
    with _open(reading.store, path) as parquet:
        columns = list(_read_columns(schema, with_sums=reading.has_sums))
        for batch in _ahead(parquet.iter_batches(_ROWS, columns=columns, use_threads=False)):
            _count_actions(reading, path, batch, start)
            start += batch.num_rows
            for action in _FILE_ACTIONS:
                if action in schema.names:
                    rows = _rows_of(batch.column(action))
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
        for _, action, rows in reading._file_rows(_FILE_ACTIONS):
            bodies = rows.to_pylist() if isinstance(rows, pa.RecordBatch) else rows
            for body in bodies:
                key = key_of(body)
                path = key if isinstance(key, str) else key[0]
                if hash(key) in whole:
                    keys[key] += 1
                if action == "add" and hash(path) in paths:
                    live.setdefault(path, set()).add(key)
        doubled = [_text(key) for key, count in keys.items() if count > 1]
        return doubled, [path for path, own in live.items() if len(own) > 1]


def _repeated(hashes: Any) -> set[int]:
    if len(hashes) < 2:
        return set()
    column = pa.Array.from_buffers(pa.int64(), len(hashes), [None, pa.py_buffer(hashes)])
    # Sorting takes a fraction of the time and room that counting does.
    ordered = column.take(pc.sort_indices(column))
    same = pc.equal(ordered[1:], ordered[:-1])
    return set(ordered[1:].filter(same).to_pylist()) if same.true_count else set()


def _rows_of(column: Any) -> Any:
    """The rows of one action as a batch of its fields."""
    if column.null_count:
        column = column.filter(column.is_valid())
    return flatten(column, frozenset())


def _open(store: LogStore, path: str) -> Any:
    place = store.file_path(path)
    # Arrow takes names for UTF-8.
    source = place if place is not None and _is_text(place) else store.open(path)
    return pq.ParquetFile(source, pre_buffer=False, coerce_int96_timestamp_unit="us")


def _is_text(name: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in name)


def _without_nulls(body: Body) -> dict[str, Any]:
    return {key: value for key, value in body.items() if value is not None}


def _protocol(row: Row) -> Protocol | None:
    try:
        return parse_protocol(row.body)
    except BadAction:
        return None


def _metadata(row: Row) -> Metadata | None:
    try:
        return parse_metadata(row.body)
    except BadAction:
        return None


def _differing(said: Body, own: Body) -> tuple[str, ...]:
    """The fields in which a checkpoint's row differs from what the log says."""
    import orjson

    names = [
        name
        for name, one, other in zip(FACT_NAMES, file_facts(said), file_facts(own), strict=True)
        if one != other
    ]
    text, own_text = said.get("stats"), own.get("stats")
    # Statistics may be kept as columns only, or not at all, or written in another way.
    if text and own_text and text != own_text:
        try:
            if orjson.loads(text) != orjson.loads(own_text):
                names.append("stats")
        except orjson.JSONDecodeError:
            names.append("stats")
    return tuple(names)


def _text(key: FileKey) -> str:
    return key if isinstance(key, str) else key[0]


def _first(count: int, items: Iterator[Difference]) -> Iterator[Difference]:
    for _, one in zip(range(count), items, strict=False):
        yield one


def orphan_sidecars(
    store: LogStore, readings: Sequence[Reading]
) -> Iterator[tuple[str, int | None]]:
    """Sidecars that no checkpoint speaks of, with their modification times."""
    try:
        entries = list(store.list_from(SIDECARS))
    except FileMissing:
        return
    known = {path for one in readings for path in one.sidecars}
    known |= {path for one in readings for path, _ in one.bad_sidecars}
    for entry in entries:
        path = f"{SIDECARS}/{entry.name}"
        if path not in known and entry.name.endswith(".parquet"):
            yield path, entry.modified_ms


__all__ = ["Difference", "Line", "Reading", "Row", "orphan_sidecars", "read_checkpoint"]
