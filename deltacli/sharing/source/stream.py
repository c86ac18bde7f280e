"""A shared table as a stream: its newest snapshot first, or from a version on, then each commit.

All that can be wrong with a commit (rows changed or deleted, columns changed, the table made
anew) is found before its files are planned. The order of files is the same whenever they are
asked for: by version, then by id.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from deltacli.delta.actions import Protocol
from deltacli.delta.scan import chosen_columns
from deltacli.delta.schema import Array, DataType, Field, Map, Struct, type_text
from deltacli.errors import Refused
from deltacli.sharing.client.messages import Definition, FileLine
from deltacli.sharing.client.rows import (
    SameChanges,
    SameCommits,
    SameVersion,
    read_commits,
    schema_of,
)
from deltacli.sharing.client.server import NEWEST, At, Query, Range, SharingServer
from deltacli.sharing.source.offsets import Offset, Position
from deltacli.sharing.source.options import StreamOptions
from deltacli.sharing.source.parts import Group, Part, parts_of, telling, with_changes
from deltacli.spark.schema import plain_types

# URLs that end so soon are not given to tasks.
_SOON_MS = 60_000


@dataclass(frozen=True, slots=True)
class Unit:
    """Files that are read together or not at all."""

    lines: tuple[FileLine, ...]

    @property
    def size(self) -> int:
        return sum(one.data.size or 0 for one in self.lines)


@dataclass(frozen=True, slots=True)
class _Version:
    definition: Definition
    units: tuple[Unit, ...]


@dataclass(frozen=True)
class _Window:
    """The files of some versions, checked; a version without any has no entry.

    `ids_of` is the format that decides on the order of files, if formats differ in it.
    """

    first: int
    last: int
    is_snapshot: bool
    protocol: Protocol
    versions: dict[int, _Version]
    ids_of: str | None

    @cached_property
    def good_until_ms(self) -> int | None:
        """When the first of the URLs ends."""
        lines = (
            line for one in self.versions.values() for unit in one.units for line in unit.lines
        )
        return min((one.expires_ms for one in lines if one.expires_ms is not None), default=None)

    def units(self, version: int) -> Sequence[Unit]:
        found = self.versions.get(version)
        return found.units if found else ()


@dataclass
class _Admission:
    """How much a batch may take: the first unit always, others while there is room."""

    max_files: int | None
    max_bytes: int | None
    files: int = 0
    bytes: int = 0

    def takes(self, unit: Unit) -> bool:
        files, size = self.files + len(unit.lines), self.bytes + unit.size
        over = (self.max_files is not None and files > self.max_files) or (
            self.max_bytes is not None and size > self.max_bytes
        )
        if over and self.files:
            return False
        self.files, self.bytes = files, size
        return True


@dataclass
class Stream:
    """One stream, planned in one long-lived place. `schema` is what the stream was made with."""

    server: SharingServer
    options: StreamOptions
    schema: Struct
    clock: Callable[[], float] = time.monotonic
    _begun: Offset | None = None
    _newest: int = -1
    _asked_at: float | None = None
    _target: int | None = None
    _window: _Window | None = field(default=None, repr=False)

    # -- where a stream stands -----------------------------------------------------------

    def beginning(self) -> Offset:
        """The same offset however often it is asked for."""
        if self._begun is None:
            self._begun = self._find_beginning()
        return self._begun

    def _find_beginning(self) -> Offset:
        options, table = self.options, self.options.place.table
        page = self.server.metadata(table)
        definition = page.head[1]
        self._check_definition(definition, None)
        shared = schema_of(definition.metadata)
        known = with_changes(shared) if options.place.reads_changes else shared
        chosen_columns(known, [one.name for one in self.schema.fields])
        from_snapshot = options.start == NEWEST and not options.begins_at_latest
        version = page.version
        if options.begins_at_latest:
            version += 1
        elif options.start.version is not None:
            version = options.start.version
        elif options.start.timestamp is not None:
            version = self.server.version(table, options.start.timestamp)
        if version > page.version + 1:
            raise Refused(
                f"startingVersion is {version}, and {table} is at version {page.version}",
                hint="latest begins with what comes next",
            )
        return Offset(
            definition.metadata.id,
            Position(version),
            version,
            from_snapshot,
            options.place.reads_changes,
        )

    def freeze(self) -> None:
        """Read nothing that is newer than what there is now."""
        self._target = self._poll()

    def _known(self) -> int:
        """The newest version, as far as it is known; the server is not asked too often."""
        if self._target is not None:
            return self._target
        now = self.clock()
        if self._asked_at is None or now - self._asked_at >= self.options.interval_s:
            self._poll()
        return self._newest

    def _poll(self) -> int:
        self._newest = max(self.server.version(self.options.place.table), self._newest)
        self._asked_at = self.clock()
        return self._newest

    def latest(self, start: Offset, *, takes_all: bool = False) -> Offset:
        """How far the next batch goes; `start` itself if there is nothing new."""
        self._check_offset(start)
        target = self._known()
        room = _Admission(self.options.max_files, self.options.max_bytes)
        if takes_all:
            room = _Admission(None, None)
        position, ids_of = start.position, start.ids_of
        while position.version <= target:
            window = self._window_at(start, position.version, target, ids_of)
            for version in range(position.version, window.last + 1):
                units = window.units(version)
                for index in range(position.index, len(units)):
                    if not room.takes(units[index]):
                        return start.at(Position(version, index), window.ids_of)
                position, ids_of = Position(version + 1), None
            if room.files and not takes_all:
                break
        return start.at(position)

    def parts(self, start: Offset, end: Offset) -> list[Part]:
        """What is to be read from one offset to the other."""
        self._check_offset(end)
        if not start.has_same_anchor(end):
            # The first batch failed and Spark began anew: the end knows from where it came.
            start = end.beginning
        found: list[Part] = []
        position, ids_of = start.position, start.ids_of
        while position < end.position:
            last = end.position.version - (end.position.index == 0)
            if end.ids_of is not None:
                if ids_of is None:
                    ids_of = end.ids_of
                elif ids_of != end.ids_of and position.version < end.position.version:
                    # The last version is counted another way: it is asked for by itself.
                    last = end.position.version - 1
            window = self._window_at(end, position.version, last, ids_of)
            stop = min(window.last, last)
            groups = [
                group
                for version in range(position.version, stop + 1)
                for group in self._groups(
                    window,
                    version,
                    position.index if version == position.version else 0,
                    end.position.index or None if version == end.position.version else None,
                )
            ]
            renewal = self._renewal(window, position.version, stop)
            found += parts_of(renewal, groups, self.options.place.partition_bytes)
            position, ids_of = Position(stop + 1), None
        return found

    def _groups(
        self, window: _Window, version: int, first: int, end: int | None
    ) -> Iterator[Group]:
        units = window.units(version)[first:end]
        lines = tuple(line for unit in units for line in unit.lines)
        if lines:
            metadata = window.versions[version].definition.metadata
            changes_of = version if self.options.place.reads_changes else None
            yield Group(window.protocol, metadata, lines, changes_of)

    def _renewal(
        self, window: _Window, first: int, last: int
    ) -> SameVersion | SameCommits | SameChanges:
        """What asks for a window's files once more, wherever they are read."""
        table, server = self.options.place.table, self.server.asking_in(window.ids_of)
        if window.is_snapshot:
            query = Query(At(version=window.first))
            return SameVersion(server, table, query, window.first)
        if self.options.place.reads_changes:
            asked = Range(At(version=first), At(version=last), with_history=True)
            return SameChanges(server, table, asked)
        return SameCommits(server, table, Query(starting_version=first, ending_version=last))

    def _check_offset(self, offset: Offset) -> None:
        if offset.reads_changes != self.options.place.reads_changes:
            raise Refused(
                "the checkpoint is of a stream with another value of readChangeFeed",
                hint="set it as it was, or begin with a new checkpoint",
            )

    # -- windows -------------------------------------------------------------------------

    def _window_at(self, offset: Offset, first: int, last: int, ids_of: str | None) -> _Window:
        """The files from a version on, at most of so many versions as one request may ask for.

        Where files have been counted, it is by the ids of that format.
        """
        held = self._window
        is_snapshot = offset.from_snapshot and first == offset.anchor
        if held is None or not (
            held.first <= first <= held.last
            and held.is_snapshot == is_snapshot
            and (ids_of is None or held.ids_of in (None, ids_of))
            and not self._ends_soon(held)
        ):
            last = min(last, first + self.options.max_versions - 1)
            ask = self._snapshot if is_snapshot else self._commits
            server = self.server.asking_in(ids_of)
            self._window = held = ask(server, offset.table_id, first, last)
        return held

    def _ends_soon(self, window: _Window) -> bool:
        until_ms = window.good_until_ms
        return until_ms is not None and time.time() * 1000 > until_ms - _SOON_MS

    def _snapshot(self, server: SharingServer, table_id: str, version: int, _: int) -> _Window:
        table = self.options.place.table
        try:
            answer = server.query(table, Query(At(version=version)))
        except Refused as error:
            raise _needs_history(error) from error
        self._check_definition(answer.definition, table_id)
        # Whether a file once was a change of data is nothing to a snapshot.
        lines = [replace(one, body={**one.body, "dataChange": True}) for one in answer.live_files()]
        lines.sort(key=lambda one: one.id)
        units = tuple(Unit((one,)) for one in lines)
        held = {version: _Version(answer.definition, units)}
        return _Window(version, version, True, answer.protocol.protocol, held, answer.ids_of)

    def _commits(self, server: SharingServer, table_id: str, first: int, last: int) -> _Window:
        table = self.options.place.table
        reads_changes = self.options.place.reads_changes
        try:
            if reads_changes:
                asked = Range(At(version=first), At(version=last), with_history=True)
                answer = server.changes(table, asked)
            else:
                answer = server.query(table, Query(starting_version=first, ending_version=last))
        except Refused as error:
            raise _needs_history(error) from error
        told = read_commits(answer, last)
        for definition in told.definitions:
            self._check_definition(definition, table_id)
        held = {
            one.version: _Version(
                one.definition,
                (Unit(telling(one.lines)),)
                if reads_changes
                else self._additions(one.version, one.lines),
            )
            for one in told.commits
        }
        return _Window(first, last, False, answer.protocol.protocol, held, answer.ids_of)

    def _additions(self, version: int, lines: Sequence[FileLine]) -> tuple[Unit, ...]:
        """The files that a commit added; that it took some away has to be allowed."""
        options, table = self.options, self.options.place.table
        adds = [one for one in lines if one.action == "add"]
        removes = any(one.action == "remove" for one in lines)
        if removes and options.skips_change_commits:
            return ()
        if removes and adds and not options.ignores_changes:
            raise Refused(
                f"version {version} of {table} changed rows, which a stream of added rows cannot "
                "tell",
                hint="ignoreChanges reads rewritten files again, skipChangeCommits passes over "
                "such commits, readChangeFeed tells changes",
            )
        if removes and not (options.ignores_changes or options.ignores_deletes):
            raise Refused(
                f"version {version} of {table} deleted rows, which a stream of added rows cannot "
                "tell",
                hint="ignoreDeletes passes over it, as do ignoreChanges and skipChangeCommits",
            )
        return tuple(Unit((one,)) for one in adds)

    # -- what must not change ------------------------------------------------------------

    def _check_definition(self, definition: Definition, table_id: str | None) -> None:
        """Raise Refused if the table is another, or has columns that the stream has not."""
        if table_id is not None and definition.metadata.id != table_id:
            raise Refused(
                f"{self.options.place.table} was made anew: it is another table now",
                hint="begin with a new checkpoint",
            )
        known = {one.name: one for one in self.schema.fields}
        chosen = self.options.place.columns
        for own in plain_types(schema_of(definition.metadata)).fields:
            if chosen is not None and own.name not in known:
                continue
            problem = _difference(own, known.get(own.name))
            if problem:
                at = "" if definition.version is None else f" at version {definition.version}"
                raise Refused(
                    f"the columns of {self.options.place.table} differ from those that the "
                    f"stream began with{at}: {problem}",
                    hint="start the query again, and it goes on with the new columns; if an old "
                    "version is in the way, begin after it",
                )


def _difference(own: Field, expected: Field | None) -> str | None:
    if expected is None:
        return f"{own.name} is new"
    if not _is_same(own.type, expected.type):
        return f"{own.name} is {type_text(own.type)}, not {type_text(expected.type)}"
    return None


def _is_same(one: DataType, other: DataType) -> bool:
    """Whether two types hold the same values; names count, nullability does not."""
    if isinstance(one, Struct) and isinstance(other, Struct):
        return len(one.fields) == len(other.fields) and all(
            a.name == b.name and _is_same(a.type, b.type)
            for a, b in zip(one.fields, other.fields, strict=True)
        )
    if isinstance(one, Array) and isinstance(other, Array):
        return _is_same(one.element, other.element)
    if isinstance(one, Map) and isinstance(other, Map):
        return _is_same(one.key, other.key) and _is_same(one.value, other.value)
    return one == other


def _needs_history(error: Refused) -> Refused:
    if "history" not in error.message.lower():
        return error
    return Refused(
        f"a stream needs the table's history, which the provider does not share: {error.message}",
        hint="ask the provider to share it with history, or read it as a batch",
    )
