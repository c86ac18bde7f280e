"""`checkpoint --cleanup`: removes log files that no kept version needs (facts 6.6).

What goes is decided by a checkpoint that stands after it, never by age alone. Commits go
before checkpoints, each in ascending order, so that what is left after a crash is a
contiguous end of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from deltacli.delta.actions import BadAction, parse_line
from deltacli.delta.engine import Engine
from deltacli.delta.history import file_times
from deltacli.delta.paths import SIDECARS, Kind, sidecar_path
from deltacli.delta.replay import Reconciled
from deltacli.delta.segment import Checkpoint, LogFile, LogListing, list_log
from deltacli.delta.snapshot import Snapshot, verify_checkpoint
from deltacli.delta.writable import check_writable
from deltacli.errors import (
    CorruptLog,
    FileMissing,
    Refused,
    UnreadableCheckpoint,
    UsageError,
)
from deltacli.storage import LogStore
from deltacli.units import iso_time

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Expired:
    """A file that may go, and why."""

    path: str
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """Files in the order in which they are to be deleted.

    `anchor` is the checkpoint from which on everything is kept; None if nothing may go.
    """

    store: LogStore
    cutoff_ms: int
    anchor: int | None
    files: tuple[Expired, ...]
    warnings: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def document(self) -> dict[str, Any]:
        return {
            "files": len(self.files),
            "bytes": self.size,
            "cutoff": iso_time(self.cutoff_ms),
            "earliestVersionAfter": self.anchor,
            "paths": [
                {"path": one.path, "sizeInBytes": one.size, "reason": one.reason}
                for one in self.files
            ],
        }


def plan_cleanup(
    snapshot: Snapshot,
    engine: Callable[[], Engine],
    *,
    now_ms: int,
    force: bool = False,
    upcoming: int | None = None,
) -> CleanupPlan:
    """Which log files are expired: older than the table keeps them, and before a checkpoint.

    `upcoming` is the version of a checkpoint that will be there when the plan is applied.
    """
    check_writable(snapshot)
    listing = snapshot.whole_listing
    if snapshot.version != listing.latest:
        raise UsageError(
            f"the log is cleaned up by the settings of its newest version, {listing.latest}, "
            f"not of version {snapshot.version}",
            hint="leave the version out",
        )
    _check_settings(snapshot, force)
    cutoff_ms = (now_ms - snapshot.setting("delta.logRetentionDuration")) // _DAY_MS * _DAY_MS
    last_old = max(
        (v for v, stamp in file_times(listing).items() if stamp <= cutoff_ms), default=-1
    )
    anchor = _anchor(snapshot.store, engine, listing, last_old, upcoming)
    if anchor is None:
        return CleanupPlan(snapshot.store, cutoff_ms, None, ())
    files = tuple(_expired(listing, anchor))
    warnings = []
    if any(file.reason == "checkpoint" for file in files):
        kept = [one for one in listing.checkpoints if one.version >= anchor]
        try:
            files += tuple(_unreferenced(snapshot.store, engine, kept, cutoff_ms))
        except CorruptLog as error:
            warnings.append(
                f"no sidecar is deleted, for what is still needed is not known: {error}"
            )
    return CleanupPlan(snapshot.store, cutoff_ms, anchor, files, tuple(warnings))


def _anchor(
    store: LogStore,
    engine: Callable[[], Engine],
    listing: LogListing,
    last_old: int,
    upcoming: int | None,
) -> int | None:
    """The newest old version from which all later ones can be rebuilt.

    A name in the listing is no proof: the checkpoint is read, every page of it.
    """
    if upcoming is not None and upcoming <= last_old:
        return upcoming
    for checkpoint in reversed(listing.checkpoints):
        if checkpoint.version <= last_old:
            try:
                verify_checkpoint(store, engine, checkpoint)
                return checkpoint.version
            except UnreadableCheckpoint:
                continue
    return None


def _check_settings(snapshot: Snapshot, force: bool) -> None:
    if "checkpointProtection" in snapshot.features:
        before = snapshot.setting("delta.requireCheckpointProtectionBeforeVersion")
        if before > 0:
            raise Refused(
                f"the table protects its checkpoints before version {before}",
                hint="its log is cleaned up by the engine that set this",
            )
    if not snapshot.setting("delta.enableExpiredLogCleanup") and not force:
        raise Refused(
            "delta.enableExpiredLogCleanup is false: this log is not to be cleaned up",
            hint="--force cleans it up all the same",
        )
    log_ms = snapshot.setting("delta.logRetentionDuration")
    files_ms = snapshot.setting("delta.deletedFileRetentionDuration")
    if log_ms < files_ms:
        raise Refused(
            "delta.logRetentionDuration is shorter than delta.deletedFileRetentionDuration",
            hint="set it to at least the same",
        )


def _expired(listing: LogListing, anchor: int) -> Iterator[Expired]:
    for file in listing.commits.values():
        if file.version < anchor:
            yield _gone(file, "commit")
    for version in sorted(listing.checksums):
        if version < anchor:
            yield _gone(listing.checksums[version], "checksum")
    for file in sorted(listing.compacted, key=lambda one: one.version):
        if file.version <= anchor:
            yield _gone(file, "compacted")
    old = [file for one in listing.checkpoints if one.version < anchor for file in one.files]
    # Parts of checkpoints that never became complete are no checkpoints, but no use either.
    old += [file for file in listing.incomplete if file.version < anchor]
    for file in sorted(old, key=lambda one: one.name.text):
        yield _gone(file, "checkpoint")


def _gone(file: LogFile, reason: str) -> Expired:
    return Expired(file.path, file.size, reason)


def _unreferenced(
    store: LogStore, engine: Callable[[], Engine], kept: list[Checkpoint], cutoff_ms: int
) -> Iterator[Expired]:
    """Sidecars that no kept checkpoint names, at least a day older than the cut-off (LC-4)."""
    try:
        entries = list(store.list_from(SIDECARS))
    except FileMissing:
        return
    named = {path for one in kept for path in _sidecars_of(store, engine, one)}
    for entry in entries:
        path = f"{SIDECARS}/{entry.name}"
        modified = entry.modified_ms
        if entry.is_folder or path in named or not entry.name.endswith(".parquet"):
            continue
        if modified is not None and modified < cutoff_ms - _DAY_MS:
            yield Expired(path, entry.size, "sidecar")


def _sidecars_of(store: LogStore, engine: Callable[[], Engine], checkpoint: Checkpoint) -> set[str]:
    """The sidecars of one checkpoint; if it cannot be read, nothing may be deleted."""
    if checkpoint.kind is Kind.MULTIPART_CHECKPOINT:
        return set()
    path = checkpoint.files[0].path
    state = Reconciled()
    if path.endswith(".json"):
        for line in store.read(path).split(b"\n"):
            try:
                action = parse_line(line) if line else None
            except BadAction as error:
                raise CorruptLog(f"{path}: {error}") from None
            if action and action[0] == "sidecar":
                state.apply_small(*action)
    else:
        engine().open_checkpoint(store, [path], state)
    return {sidecar_path(one.path) for one in state.sidecars}


def apply_cleanup(
    plan: CleanupPlan,
    engine: Callable[[], Engine],
    on_delete: Callable[[str, int, int], None] | None = None,
) -> None:
    """Delete the files of the plan, one after the other; what is gone already is fine.

    Before the first one, the checkpoint that is to stand for them is read once more.
    """
    if not plan.files:
        return
    anchors = [one for one in list_log(plan.store).checkpoints if one.version == plan.anchor]
    if not anchors:
        raise CorruptLog(
            f"the checkpoint at version {plan.anchor} is gone: nothing was deleted",
            hint="another process changes this log; try again",
        )
    verify_checkpoint(plan.store, engine, anchors[-1])
    for done, file in enumerate(plan.files, 1):
        plan.store.delete(file.path)
        if on_delete:
            on_delete("deleting log files", done, len(plan.files))


def needs_classic(snapshot: Snapshot, plan: CleanupPlan) -> bool:
    """Whether only UUID-named checkpoints would be left (LC-9).

    Old clients do not see those; a classic name tells them which protocol the table has.
    """
    if not plan.files or "v2Checkpoint" not in snapshot.features or plan.anchor is None:
        return False
    anchor = plan.anchor
    return not any(
        one.kind is Kind.CLASSIC_CHECKPOINT and one.version >= anchor
        for one in snapshot.whole_listing.checkpoints
    )
