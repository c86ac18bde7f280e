"""One checkpoint, read row by row by pyarrow alone, and compared with a replayed state.

The engine that answers for a state trusts what a checkpoint holds; here nothing is trusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltacli.delta.actions import (
    BadAction,
    DomainMetadata,
    Metadata,
    Protocol,
    parse_domain,
    parse_metadata,
    parse_protocol,
)
from deltacli.delta.paths import SIDECARS, Kind, canonical_path, commit_path
from deltacli.delta.replay import FileKey, key_of
from deltacli.delta.segment import Checkpoint
from deltacli.errors import FileMissing
from deltacli.local.engine import flatten
from deltacli.storage import LogStore, parquet_source
from deltacli.validate.commits import Body, parse_lines
from deltacli.validate.definition import Definition
from deltacli.validate.replay import FACT_NAMES, Entry, State, Sums, entry_of, file_facts, path_of

ROWS = 1 << 15
_MOST = 100


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
                yield Difference("missing", path_in(key))
            elif own != (entry.facts, entry.stats):
                unequal.setdefault(entry.version, []).append(key)
        for key in there:
            yield Difference("extra", path_in(key))
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
                    yield Difference("different", path_in(key), names)

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
        for _, action, rows in self.file_rows(("add",)):
            if action == "add":
                yield from rows.to_pylist() if isinstance(rows, pa.RecordBatch) else rows

    def find(self, paths: Any) -> Iterator[tuple[FileKey, Body]]:
        """The live files with these canonical paths."""
        wanted = set(paths)
        if wanted <= self.wanted:
            yield from (one for one in self.noticed if path_of(one[0]) in wanted)
            return
        value_set = pa.array(sorted(wanted), pa.string())
        for _, _, rows in self.file_rows(("add",)):
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

    def file_rows(
        self, actions: Sequence[str], columns: Sequence[str] | None = None
    ) -> Iterator[tuple[str, str, Any]]:
        """The rows of file actions: batches of Parquet, lists of bodies of JSON."""
        for file in (*(one.path for one in self.checkpoint.files), *self.sidecars):
            if file.endswith(".json"):
                lines = parse_lines(self.store.read(file))
                for action in actions:
                    yield file, action, [one.body for one in lines if one.key == action]
                continue
            with open_parquet(self.store, file) as parquet:
                names = [one for one in actions if one in parquet.schema_arrow.names]
                if not names:
                    continue
                for batch in parquet.iter_batches(ROWS, columns=names, use_threads=False):
                    for action in names:
                        rows = rows_of(batch.column(action))
                        if rows.num_rows:
                            yield file, action, rows


# Called with the adds of a file, as a batch or as lines.
def rows_of(column: Any) -> Any:
    """The rows of one action as a batch of its fields."""
    if column.null_count:
        column = column.filter(column.is_valid())
    return flatten(column, frozenset())


def open_parquet(store: LogStore, path: str) -> Any:
    source = parquet_source(store, path)
    return pq.ParquetFile(source, pre_buffer=False, coerce_int96_timestamp_unit="us")


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


def path_in(key: FileKey) -> str:
    """The path in the key of a file."""
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
