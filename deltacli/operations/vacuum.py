"""`vacuum`, decided: which files no kept version needs (facts 7.1 to 7.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow.compute as pc

from deltacli.delta.columns import concat, texts_of
from deltacli.delta.engine import Engine, Search, Unreferenced, Walk
from deltacli.delta.hidden import HiddenNames, hidden_names
from deltacli.delta.paths import LOG, Kind, parse_log_name
from deltacli.delta.retention import (
    RecentLog,
    Reference,
    References,
    Why,
    beyond_the_log,
)
from deltacli.delta.root import Root
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.vacuum_state import read_vacuum_state
from deltacli.delta.writable import check_writable
from deltacli.errors import FileMissing, Refused, StorageError, UsageError
from deltacli.operations.checksums import check_against_checksum
from deltacli.operations.inventory import listed_by
from deltacli.operations.lite import LiteRange, candidates_of_log, commits_due, lite_range
from deltacli.operations.readable import Readable, readable_after
from deltacli.operations.vacuum_request import INVENTORY, LITE, VacuumRequest
from deltacli.storage import LogStore, Walked
from deltacli.storage.proofs import SKEW_MS
from deltacli.units import counted, human_size, human_span, iso_time

CDC = "cdc"
VECTOR = "dv"
TOMBSTONE = "tombstone"
UNREFERENCED = "unreferenced"
REASONS = (TOMBSTONE, UNREFERENCED, VECTOR, CDC)

_DAY_MS = 86_400_000
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class VacuumPlan:
    """All that is to be deleted, and what is known about it."""

    snapshot: Snapshot
    mode: str
    prefix: str
    retention_ms: int
    specified_ms: int | None
    property_ms: int
    checks_retention: bool
    delete_before_ms: int
    found: Unreferenced
    reasons: Any
    listed_bytes: int
    readable: Readable
    vacuumed_up_to: Callable[[], int | None]
    warnings: tuple[str, ...]

    @property
    def store(self) -> LogStore:
        return self.snapshot.store

    @property
    def num_files(self) -> int:
        return len(self.found.names)

    @cached_property
    def size(self) -> int:
        return pc.sum(self.found.sizes).as_py() or 0

    @property
    def deletes_anything(self) -> bool:
        return bool(self.num_files or self.found.folders)

    @property
    def is_large(self) -> bool:
        """Whether more than half of what was listed would go (VL-8)."""
        return 2 * self.size > self.listed_bytes

    @property
    def question(self) -> str:
        share = ", more than half of the table," if self.is_large else ""
        folders = f" and {counted(len(self.found.folders), 'folder')}" if self.found.folders else ""
        files = counted(self.num_files, "file")
        return f"Delete {files}{folders}, {human_size(self.size)}{share} for good?"

    def batches(self, rows: int) -> Iterator[tuple[list[str], list[int]]]:
        """The files to be deleted with their sizes, some at a time."""
        for start in range(0, self.num_files, rows):
            names = self.found.names.slice(start, rows)
            yield texts_of(names), self.found.sizes.slice(start, rows).to_pylist()


def plan_vacuum(
    snapshot: Snapshot,
    engine: Callable[[], Engine],
    request: VacuumRequest,
    *,
    now_ms: int,
    on_progress: OnProgress | None = None,
) -> VacuumPlan:
    """Find what may go. Every reason not to vacuum at all is raised before anything is listed."""
    look = check_vacuum(snapshot, engine, request, now_ms=now_ms, on_progress=on_progress)
    hides = hidden_names(snapshot)
    prefix = _checked_prefix(snapshot.store, request, hides)
    look.references.prefix = prefix
    lite = lite_range(look.recent) if request.mode == LITE else None
    search = Search(
        look.listed(request, hides, prefix, lite),
        look.protected(),
        look.delete_before_ms,
        may_repeat=request.inventory is not None,
    )
    found = engine().find_unreferenced(snapshot.store, search, look.on_listed)
    if prefix and not found.listed and not snapshot.store.has_folders:
        raise UsageError(f"there is no file below {prefix!r}", hint="name a folder of the table")
    totals = look.references.totals
    check_against_checksum(snapshot.sound, totals, "which files are live is not certain")
    readable = readable_after(look.recent, look.references, found)
    warnings = _warnings(look, found)
    size = pc.sum(found.sizes).as_py() or 0
    mode = INVENTORY if request.inventory else request.mode
    return VacuumPlan(
        snapshot,
        mode,
        prefix,
        look.retention_ms,
        request.retain_ms,
        look.property_ms,
        not request.allow_short_retention,
        look.delete_before_ms,
        found,
        reasons_of(found.names, look.expired),
        size + look.references.bytes_inside + found.spared_bytes,
        readable,
        lambda: _vacuumed_up_to(look, found, mode, prefix),
        tuple(warnings),
    )


def check_vacuum(
    snapshot: Snapshot,
    engine: Callable[[], Engine],
    request: VacuumRequest,
    *,
    now_ms: int,
    on_progress: OnProgress | None = None,
) -> Look:
    """Raise every reason not to vacuum this table at all (facts 7.1)."""
    check_writable(snapshot)
    property_ms = snapshot.setting("delta.deletedFileRetentionDuration")
    retention_ms = _retention(request, property_ms)
    if not request.allow_nested:
        _refuse_inside_another_table(snapshot.store)
    return Look(snapshot, engine, retention_ms, property_ms, now_ms, on_progress)


def _retention(request: VacuumRequest, property_ms: int) -> int:
    """How long removed files are kept: never less than the table wants (V-4, V-5, VL-1)."""
    if request.retain_ms is None:
        return property_ms
    if request.retain_ms < property_ms and not request.allow_short_retention:
        hours = -(-property_ms // 3_600_000)
        raise Refused(
            f"the table keeps removed files for {hours} hours "
            f"(delta.deletedFileRetentionDuration), {human_span(request.retain_ms)} is less",
            hint="running writers and readers could lose their files; if there are none, "
            "--allow-short-retention goes on",
        )
    return request.retain_ms


def _refuse_inside_another_table(store: LogStore) -> None:
    """A table around this one may have data files in here (V-7, VL-4)."""
    above = store.parent()
    while above is not None:
        try:
            names = [parse_log_name(entry.name).kind for entry in above.list_from(LOG)]
        except StorageError:
            names = []
        if Kind.COMMIT in names or Kind.CLASSIC_CHECKPOINT in names:
            raise Refused(
                f"the table lies inside another one, {above.location}, whose files may be here",
                hint="--allow-nested goes on if you know that they are not",
                location=store.location,
            )
        above = above.parent()


def _checked_prefix(store: LogStore, request: VacuumRequest, hides: HiddenNames) -> str:
    """The one folder to be vacuumed, as it is called on storage."""
    if request.prefix is None:
        return ""
    prefix = request.prefix.strip("/")
    if request.mode == LITE or request.inventory:
        raise UsageError(
            "--prefix limits a full listing only", hint="leave out --mode lite and --inventory"
        )
    parts = prefix.split("/")
    if not prefix or any(part in ("", ".", "..") for part in parts):
        raise UsageError(
            f"{request.prefix!r} is not a folder below the table",
            hint="write it as date=2026-01-31",
        )
    if hidden := next(filter(hides, parts), None):
        raise UsageError(f"{hidden!r} is hidden from vacuum", hint="name a folder with data files")
    if store.has_folders:
        entry = store.look(prefix)
        if entry is None or not entry.is_folder:
            raise UsageError(
                f"there is no folder {prefix!r} in the table", hint="links are not followed"
            )
    for length in range(1, len(parts)):
        if has_log(store, "/".join(parts[:length])):
            raise Refused(f"{prefix!r} lies in another table", hint="vacuum that table by itself")
    return prefix


def _with_nested(store: LogStore, files: Iterator[Walked]) -> Iterator[Walked]:
    """A listing made elsewhere may leave out the logs of tables inside the table (VL-4).

    Partition folders are no tables; asking for each of them would cost a listing.
    """
    asked: set[str] = {""}
    for walked in files:
        yield walked
        folder = walked.folder
        while folder not in asked:
            asked.add(folder)
            if "=" not in folder.rpartition("/")[2] and has_log(store, folder):
                yield Walked(folder, [], pins=(LOG,))
            folder = folder.rpartition("/")[0]


def has_log(store: LogStore, folder: str) -> bool:
    """Whether a folder below the table is a table of its own."""
    try:
        return next(store.list_from(f"{folder}/{LOG}"), None) is not None
    except FileMissing:
        return False


@dataclass
class Look:
    """The streams that a search is made of, and what is noted while they pass by."""

    snapshot: Snapshot
    engine: Callable[[], Engine]
    retention_ms: int
    property_ms: int
    now_ms: int
    on_progress: OnProgress | None = None
    expired: list[Any] = field(default_factory=list)

    @property
    def delete_before_ms(self) -> int:
        # Nothing is older than 1970, however long the retention.
        return max(self.now_ms - self.retention_ms, 0)

    @cached_property
    def references(self) -> References:
        return References(self.snapshot, Root(self.snapshot.store), self.delete_before_ms)

    @cached_property
    def recent(self) -> RecentLog:
        return RecentLog(self.snapshot, self.delete_before_ms)

    def listed(
        self, request: VacuumRequest, hides: HiddenNames, prefix: str, lite: LiteRange | None
    ) -> Walk | Iterator[Walked]:
        if lite is not None:
            return candidates_of_log(lite, self.references, hides)
        if request.inventory is not None:
            files = listed_by(request.inventory(), self.references.root, hides)
            return _with_nested(self.snapshot.store, files)
        return Walk(prefix, hides)

    def protected(self) -> Iterator[Any]:
        yield from (names for why, names in self.references_of_all() if why is not Why.EXPIRED)

    def references_of_all(self) -> Iterator[Reference]:
        """What the state, recent commits and, where needed, older checkpoints refer to."""
        self.expired.clear()
        for why, names in self.references:
            if why is Why.EXPIRED:
                self.expired.append(names)
            yield why, names
        yield from self.recent.protected(self.references, self._reporting("reading commits"))
        if self.retention_ms > self.property_ms:
            yield from beyond_the_log(self.recent, self.references, self.engine, self.now_ms)

    def on_listed(self, files: int) -> None:
        if self.on_progress:
            self.on_progress("listing files", files, 0)

    def _reporting(self, what: str) -> Callable[[int, int], None] | None:
        report = self.on_progress
        return (lambda done, total: report(what, done, total)) if report else None


def reasons_of(names: Any, expired: list[Any]) -> Any:
    """Why each file may go, as a column."""
    is_vector = pc.ends_with(names, ".bin")
    if is_vector.true_count:
        is_vector = pc.and_(is_vector, pc.match_substring(names, "deletion_vector_"))
    is_tombstone = pc.is_in(names, value_set=concat(expired))
    plain = pc.if_else(is_tombstone, TOMBSTONE, UNREFERENCED)
    return pc.if_else(
        pc.starts_with(names, "_change_data/"), CDC, pc.if_else(is_vector, VECTOR, plain)
    )


def _vacuumed_up_to(look: Look, found: Unreferenced, mode: str, prefix: str) -> int | None:
    """The version up to which nothing removed will be left, if that is news (V-42)."""
    if prefix or mode == INVENTORY:
        return None
    known = read_vacuum_state(look.snapshot.store, look.snapshot.version)
    done = commits_due(look.recent, known).done(found, look.references)
    return done if done > (-1 if known is None else known) else None


def _warnings(look: Look, found: Unreferenced) -> Iterator[str]:
    snapshot, references = look.snapshot, look.references
    if look.retention_ms < _DAY_MS:
        yield (
            f"a retention of {human_span(look.retention_ms)} deletes the files of writers that "
            "run longer, and of readers of older versions"
        )
    for folder in found.nested:
        yield f"{folder} is a table of its own and was left alone"
    if references.num_outside:
        yield (
            f"{references.num_outside:,} live files lie outside of the table, for instance "
            f"{references.outside[0]}; vacuum has nothing to do with them"
        )
    newest = snapshot.listing.commits.get(snapshot.version)
    stamp = newest.modified_ms if newest else None
    if stamp is not None and stamp > look.now_ms + SKEW_MS:
        yield (
            f"the newest commit is of {iso_time(stamp)}, in the future: this machine's clock "
            "or the storage's is wrong"
        )
    if pc.any(pc.starts_with(found.names, "_change_data/")).as_py():
        yield "change data goes too: the change feed of those versions cannot be read any more"
    if len(found.names) and snapshot.store.keeps_deleted():
        yield (
            "the bucket keeps old versions of objects: deleting frees no space until its "
            "lifecycle rules remove them"
        )
