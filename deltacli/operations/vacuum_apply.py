"""`vacuum`, done: a second look, START, deletion, empty folders, END (facts 7.6, 7.7)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from deltacli.delta.actions import BadAction, Json, parse_line, parse_metadata, parse_protocol
from deltacli.delta.columns import path_array, texts_of
from deltacli.delta.commit import Change
from deltacli.delta.engine import Engine
from deltacli.delta.paths import LOG
from deltacli.delta.replay import key_of
from deltacli.delta.retention import References
from deltacli.delta.root import Root
from deltacli.delta.segment import list_log
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.delta.vacuum_state import write_vacuum_state
from deltacli.errors import (
    Conflict,
    CorruptLog,
    DeltaCliError,
    Interrupted,
    PartlyDone,
    Refused,
    StorageError,
)
from deltacli.operations.checkpoint import commit_and_checkpoint
from deltacli.operations.vacuum import VacuumPlan
from deltacli.storage import LogStore
from deltacli.storage.proofs import prove_clock, prove_put_if_absent
from deltacli.units import counted

_BATCH = 1000
# A listing of the log costs about as much as a batch of deletions on a local disk.
_LOOK_SECONDS = 0.2
OnProgress = Callable[[str, int, int, int], None]


@dataclass
class Deletion:
    """How far it came. Filled by several threads."""

    num_deleted: int = 0
    bytes_deleted: int = 0
    num_directories: int = 0
    num_unknown: int = 0
    kept: set[str] = field(default_factory=set)
    failures: list[tuple[str, str]] = field(default_factory=list)
    start_version: int | None = None
    end_version: int | None = None
    stopped: DeltaCliError | None = None
    warnings: list[str] = field(default_factory=list)

    def values(self) -> Mapping[str, Any]:
        return {
            "numDeleted": self.num_deleted,
            "bytesDeleted": self.bytes_deleted,
            "numDirectoriesDeleted": self.num_directories,
            "numReferencedAgain": len(self.kept),
            "failures": [{"path": path, "error": error} for path, error in self.failures],
            "startVersion": self.start_version,
            "endVersion": self.end_version,
        }


def apply_vacuum(
    plan: VacuumPlan,
    engine: Callable[[], Engine],
    *,
    log_commits: bool | None = None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    on_progress: OnProgress | None = None,
) -> Deletion:
    """Delete what the plan says, except what is referred to by now.

    `log_commits` None writes VACUUM START and END where the storage has put-if-absent.
    Raises as long as nothing is deleted. Later, what stops it (Ctrl-C too) is told in the
    result, after what was begun is finished.
    """
    done = Deletion()
    if plan.deletes_anything:
        prove_clock(plan.store, LOG, now_ms)
        watch = _Watch(plan.snapshot)
        watch.look()
        logs = _decide_log_commits(plan.store, log_commits, done)
        if logs:
            done.start_version = _commit_start(plan, engine, done)
            # START stands after all commits so far: whatever came back is known by now.
            watch.look()
        _delete_and_log(plan, engine, watch, done, on_progress)
    if not done.failures and done.stopped is None:
        try:
            version = plan.vacuumed_up_to()
            if version is not None:
                write_vacuum_state(plan.store, version)
        except StorageError as error:
            done.warnings.append(f"the state for --mode lite was not written: {error.message}")
    return done


def _decide_log_commits(store: LogStore, wish: bool | None, done: Deletion) -> bool:
    if wish is not None:
        return wish
    try:
        prove_put_if_absent(store)
    except Refused as reason:
        done.warnings.append(f"VACUUM START and END are not in the log: {reason.message}")
        return False
    return True


def _commit_start(plan: VacuumPlan, engine: Callable[[], Engine], done: Deletion) -> int:
    parameters: dict[str, Any] = {
        "retentionCheckEnabled": plan.checks_retention,
        "defaultRetentionMillis": plan.property_ms,
        "typeOfVacuum": "LITE" if plan.mode == "lite" else "FULL",
    }
    if plan.specified_ms is not None:
        parameters["specifiedRetentionMillis"] = plan.specified_ms
    metrics = {"numFilesToDelete": str(plan.num_files), "sizeOfDataToDelete": str(plan.size)}
    change = Change(
        "VACUUM START", parameters, lambda _: (), metrics, isolation="SnapshotIsolation"
    )
    committed = commit_and_checkpoint(plan.snapshot, change, engine)
    done.warnings += committed.warnings
    return committed.version


def _commit_end(
    plan: VacuumPlan, engine: Callable[[], Engine], done: Deletion, *, completed: bool
) -> None:
    """That the end cannot be written does not undo what was done: it is a warning."""
    metrics = {
        "numDeletedFiles": str(done.num_deleted),
        "numVacuumedDirectories": str(done.num_directories),
    }
    change = Change(
        "VACUUM END",
        {"status": "COMPLETED" if completed else "FAILED"},
        lambda _: (),
        metrics if completed else {},
        isolation="SnapshotIsolation",
    )
    try:
        snapshot = load_snapshot(plan.store, engine)
        committed = commit_and_checkpoint(snapshot, change, engine)
    except DeltaCliError as error:
        done.warnings.append(f"VACUUM END is not in the log: {error.message}")
    else:
        done.end_version = committed.version
        done.warnings += committed.warnings


def _delete_and_log(
    plan: VacuumPlan,
    engine: Callable[[], Engine],
    watch: _Watch,
    done: Deletion,
    on_progress: OnProgress | None,
) -> None:
    completed = False
    try:
        _delete_files(plan, engine(), watch, done, on_progress)
        for folder in plan.found.folders:
            done.num_directories += plan.store.remove_folder(folder)
        _check_afterwards(plan, watch, done)
        completed = not done.failures
    except KeyboardInterrupt:
        done.stopped = Interrupted(f"interrupted: {_how_far(plan, done)}")
    except DeltaCliError as error:
        error.message = f"{error.message}; {_how_far(plan, done)}"
        done.stopped = error
    finally:
        if done.start_version is not None:
            _commit_end(plan, engine, done, completed=completed)


def _check_afterwards(plan: VacuumPlan, watch: _Watch, done: Deletion) -> None:
    """Say so if a file came back at the very moment when it was deleted."""
    watch.look()
    came_back = watch.referenced - done.kept
    lost = pc.filter(plan.found.names, pc.is_in(plan.found.names, value_set=path_array(came_back)))
    if len(lost):
        raise PartlyDone(
            f"another writer brought back {counted(len(lost), 'file')} during the deletion, for "
            f"instance {texts_of(lost)[0]}",
            hint="undo that commit: those versions of the table cannot be read",
            location=plan.store.location,
        )


def _how_far(plan: VacuumPlan, done: Deletion) -> str:
    unknown = f" (and up to {done.num_unknown:,} more)" if done.num_unknown else ""
    return (
        f"{done.num_deleted:,} of {plan.num_files:,} files are deleted{unknown}, the table is "
        "sound; run it again to finish"
    )


def _delete_files(
    plan: VacuumPlan,
    engine: Engine,
    watch: _Watch,
    done: Deletion,
    on_progress: OnProgress | None,
) -> None:
    lock = threading.Lock()
    sizes: dict[str, int] = {}

    def batches() -> Iterator[Sequence[str]]:
        for names, lengths in plan.batches(_BATCH):
            watch.look_again()
            kept = watch.referenced.intersection(names)
            done.kept |= kept
            chosen = {
                name: size for name, size in zip(names, lengths, strict=True) if name not in kept
            }
            with lock:
                sizes.update(chosen)
            if chosen:
                yield list(chosen)
            if on_progress:
                on_progress("deleting", done.num_deleted, plan.num_files, done.bytes_deleted)

    def note(names: Sequence[str], failures: list[tuple[str, StorageError]]) -> None:
        failed = {path for path, _ in failures}
        with lock:
            for name in names:
                size = sizes.pop(name, 0)
                if name not in failed:
                    done.num_deleted += 1
                    done.bytes_deleted += size
            done.failures += [(path, error.message) for path, error in failures]

    try:
        engine.delete(plan.store, batches(), note)
    finally:
        # What was about to begin, or what an engine began that died with its work.
        done.num_unknown = len(sizes)


class _Watch:
    """What other writers refer to while we delete (V-62): RESTORE may bring files back."""

    def __init__(self, snapshot: Snapshot):
        self._snapshot = snapshot
        self._store = snapshot.store
        self._version = snapshot.version
        self._references = References(snapshot, Root(snapshot.store), 0)
        self._looked = 0.0
        self.referenced: set[str] = set()

    def look_again(self) -> None:
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self.look()

    def look(self) -> None:
        """Read the commits that are new since the last look."""
        listing = list_log(self._store, self._version + 1)
        for version in sorted(listing.commits):
            if version <= self._version:
                continue
            if version != self._version + 1:
                raise Conflict(
                    f"commit {self._version + 1} is gone before it was read",
                    hint="the log is being cleaned up; run it again",
                )
            self._read(listing.commits[version].path)
            self._version = version
        self._looked = time.monotonic()

    def _is_as_before(self, key: str, body: Json) -> bool:
        """Whether a commit only repeats what the table has, as RESTORE does."""
        try:
            if key == "protocol":
                return parse_protocol(body) == self._snapshot.protocol
            return parse_metadata(body) == self._snapshot.metadata
        except BadAction:
            return False

    def _read(self, path: str) -> None:
        for number, line in enumerate(self._store.read(path).split(b"\n"), 1):
            try:
                action = parse_line(line) if line else None
            except BadAction as error:
                raise CorruptLog(f"{path}, line {number}: {error}") from None
            if action is None:
                continue
            key, body = action
            if key in ("protocol", "metaData") and not self._is_as_before(key, body):
                raise Conflict(
                    f"{path} of another writer changed the table's {key}: the plan may not hold",
                    hint="run it again",
                )
            if key in ("add", "remove", "cdc"):
                try:
                    key_of(body)
                except BadAction as error:
                    raise CorruptLog(f"{path}, line {number}: {error}") from None
                self.referenced.update(self._references.names_of(body))
