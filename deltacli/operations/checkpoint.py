"""`checkpoint`: planned, written beside, read back, counted, published, then hinted at.

Steps K-1 … K-11 of facts 6.1. A crash at any of them leaves the table as it was, with at
most a file more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.checkpoint import (
    checkpoint_content,
    classic_path,
    move_hint_forward,
    sidecar_paths,
    v2_path,
)
from deltacli.delta.commit import Change, Committed, commit
from deltacli.delta.engine import CheckpointContent, Engine, Totals, Want, WrittenFile
from deltacli.delta.hint import BadHint, parse_hint
from deltacli.delta.paths import LAST_CHECKPOINT, Kind
from deltacli.delta.segment import Checkpoint
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.delta.writable import check_writable
from deltacli.errors import FileMissing, Refused, StorageError, UnreadableCheckpoint
from deltacli.operations.checksums import check_against_checksum
from deltacli.operations.records import Document
from deltacli.storage import LogStore

_SIDECAR_ROWS = 1_000_000
# As in Delta Spark: what is longer is left out of the hint.
_MOST_IN_HINT = 30
# Whether as JSON, whether as a struct.
_STATS = {
    (True, True): "both",
    (True, False): "json",
    (False, True): "struct",
    (False, False): "none",
}


@dataclass(frozen=True)
class CheckpointPlan:
    """A checkpoint to be written, or the one that is there already, which is left alone.

    `moves_hint` says that `_last_checkpoint` does not lead readers to that one.
    """

    snapshot: Snapshot
    kind: str
    stats_as_json: bool
    stats_as_struct: bool
    now_ms: int
    totals: Totals
    existing: Checkpoint | None = None
    force: bool = False
    moves_hint: bool = False
    hint_moved: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def writes(self) -> bool:
        return self.existing is None or self.force

    @property
    def version(self) -> int:
        return self.snapshot.version

    @property
    def changes_anything(self) -> bool:
        return self.writes or self.moves_hint

    @property
    def question(self) -> str:
        if not self.writes:
            return f"Let _last_checkpoint name version {self.version}?"
        return f"Write a {self.kind} checkpoint of version {self.version}?"

    def document(self) -> Document:
        files = [
            {"path": file.path, "sizeInBytes": file.size}
            for file in (self.existing.files if self.existing and not self.writes else ())
        ]
        actions = self.totals.tombstones
        return _document(self, files, actions, written=False, hinted=self.hint_moved)


@dataclass(frozen=True)
class CheckpointResult:
    """A checkpoint that is published."""

    plan: CheckpointPlan
    files: tuple[dict[str, Any], ...]
    num_actions: int
    hint_moved: bool
    engine: str
    warnings: list[str] = field(default_factory=list)

    def document(self) -> Document:
        return _document(
            self.plan,
            list(self.files),
            self.num_actions,
            written=True,
            hinted=self.hint_moved,
            engine=self.engine,
        )


def _document(
    plan: CheckpointPlan,
    files: list[Any],
    actions: int,
    *,
    written: bool,
    hinted: bool = False,
    engine: str | None = None,
) -> Document:
    values = {
        "location": plan.snapshot.store.location,
        "version": plan.version,
        "kind": plan.kind,
        "stats": _STATS[plan.stats_as_json, plan.stats_as_struct] if plan.writes else None,
        "written": written,
        "existed": plan.existing is not None,
        "files": files,
        "numActions": actions if written else None,
        "numAddFiles": plan.totals.files,
        "sizeInBytes": sum(file["sizeInBytes"] for file in files),
        "lastCheckpointUpdated": hinted,
        "cleanup": None,
        "engine": engine,
    }
    return Document(values, "checkpoint")


def plan_checkpoint(
    snapshot: Snapshot,
    *,
    kind: str = "auto",
    stats: str = "table",
    force: bool = False,
    now_ms: int,
) -> CheckpointPlan:
    """Decide what to write, and refuse what must not be baked into a checkpoint."""
    check_writable(snapshot)
    totals = snapshot.totals(frozenset({Want.FILES, Want.VECTORS, Want.TOMBSTONES}), now_ms)
    snapshot = snapshot.sound
    version = snapshot.version
    # Only the one that the state came from is known to be whole.
    base = snapshot.segment.checkpoint
    existing = base if base is not None and base.version == version else None
    chosen = _kind_of(snapshot, kind)
    as_json, as_struct = _stats_of(snapshot, stats)
    warnings = []
    if not as_json and not as_struct:
        warnings.append("no statistics are kept: readers cannot skip files any more")
    elif not as_json:
        warnings.append(
            "statistics are kept as a struct only: those that have no column there (of booleans, "
            "variants, columns that are not indexed) are lost"
        )
    if existing is not None and not force:
        names = {Kind.UUID_CHECKPOINT: "v2", Kind.MULTIPART_CHECKPOINT: "multi-part"}
        chosen = names.get(existing.kind, "classic")
        moves = _hint_is_behind(snapshot, existing)
        return CheckpointPlan(
            snapshot, chosen, as_json, as_struct, now_ms, totals, existing, moves_hint=moves
        )
    if version not in snapshot.listing.commits:
        raise Refused(
            f"commit {version} is missing: a checkpoint must follow its commit",
            hint="restore the commit from a backup",
        )
    if snapshot.schema is None:
        raise Refused("the metadata has no schema", hint="such a checkpoint would break readers")
    check_against_checksum(snapshot, totals, "a checkpoint would make one of them permanent")
    return CheckpointPlan(
        snapshot,
        chosen,
        as_json,
        as_struct,
        now_ms,
        totals,
        existing,
        force,
        warnings=tuple(warnings),
    )


def _kind_of(snapshot: Snapshot, kind: str) -> str:
    supported = "v2Checkpoint" in snapshot.features
    if kind == "auto":
        wants = snapshot.setting("delta.checkpointPolicy") == "v2"
        return "v2" if wants and supported else "classic"
    if kind != "classic" and not supported:
        raise Refused(
            "V2 checkpoints need the table feature 'v2Checkpoint'",
            hint="leave --kind out for a classic checkpoint",
        )
    return kind


def _stats_of(snapshot: Snapshot, stats: str) -> tuple[bool, bool]:
    if stats == "table":
        return (
            snapshot.setting("delta.checkpoint.writeStatsAsJson"),
            snapshot.setting("delta.checkpoint.writeStatsAsStruct"),
        )
    return stats in ("json", "both"), stats in ("struct", "both")


def _hint_is_behind(snapshot: Snapshot, newest: Checkpoint) -> bool:
    """Whether the hint does not name the newest checkpoint, as after a writer that died."""
    if any(one.version > newest.version for one in snapshot.whole_listing.checkpoints):
        return False
    try:
        return parse_hint(snapshot.store.read(LAST_CHECKPOINT)).version < newest.version
    except (FileMissing, BadHint):
        return True
    except StorageError:
        return False


def point_to_existing(plan: CheckpointPlan) -> CheckpointPlan:
    """Let the hint name the checkpoint that is there; how many rows it has is not known."""
    assert plan.existing is not None
    files = plan.existing.files
    body: dict[str, Any] = {
        "version": plan.version,
        "size": -1,
        "sizeInBytes": sum(one.size for one in files),
    }
    if plan.existing.kind is Kind.MULTIPART_CHECKPOINT:
        body["parts"] = len(files)
    elif plan.existing.kind is Kind.UUID_CHECKPOINT:
        body["v2Checkpoint"] = _shortcut(plan.snapshot.store, files[0].path, files[0].size)
    moved = move_hint_forward(plan.snapshot.store, body)
    return replace(plan, moves_hint=False, hint_moved=moved)


def apply_checkpoint(plan: CheckpointPlan, engine: Engine) -> CheckpointResult:
    """Write, read back, publish, and move the hint; raises before anything is published."""
    try:
        return _write(plan, engine)
    except UnreadableCheckpoint as error:
        # What the state came from proves broken in columns that the plan did not need.
        return _write(replace(plan, snapshot=plan.snapshot.without_checkpoint(error)), engine)


def _write(plan: CheckpointPlan, engine: Engine) -> CheckpointResult:
    snapshot = plan.snapshot
    content = checkpoint_content(
        snapshot,
        now_ms=plan.now_ms,
        stats_as_json=plan.stats_as_json,
        stats_as_struct=plan.stats_as_struct,
        expected=(plan.totals.files, plan.totals.tombstones),
    )
    if plan.kind == "classic":
        return _apply_classic(plan, engine, content)
    return _apply_v2(plan, engine, content)


def _apply_classic(
    plan: CheckpointPlan, engine: Engine, content: CheckpointContent
) -> CheckpointResult:
    store, path = plan.snapshot.store, classic_path(plan.version)
    written = engine.write_classic(store, path, content)
    files = ({"path": path, "sizeInBytes": written.size},)
    more = {"checkpointSchema": written.schema}
    return _hint(plan, engine.name, files, written.rows, written.size, written.adds, more)


def _apply_v2(plan: CheckpointPlan, engine: Engine, content: CheckpointContent) -> CheckpointResult:
    store = plan.snapshot.store
    rows = plan.totals.files + plan.totals.tombstones
    paths = sidecar_paths(plan.version, max(1, -(-rows // _SIDECAR_ROWS)))
    sidecars = engine.write_sidecars(store, paths, content)
    own = [*content.small, {"checkpointMetadata": {"version": plan.version}}]
    named = [_sidecar_line(store, path, one) for path, one in zip(paths, sidecars, strict=True)]
    lines = [*own, *named]
    # The main file comes last: only with it the checkpoint exists.
    if plan.kind == "v2":
        main = v2_path(plan.version, "json")
        body = b"".join(json_text.dump(line) + b"\n" for line in lines)
        store.put(main, body)
        size = len(body)
    else:
        main = v2_path(plan.version, "parquet")
        size = engine.write_manifest(store, main, lines, content).size
    files = (
        {"path": main, "sizeInBytes": size},
        *(
            {"path": path, "sizeInBytes": one.size}
            for path, one in zip(paths, sidecars, strict=True)
        ),
    )
    actions = len(lines) + sum(one.rows for one in sidecars)
    total = size + sum(one.size for one in sidecars)
    shortcut = _shortcut(store, main, size)
    if len(own) <= _MOST_IN_HINT:
        shortcut["nonFileActions"] = own
    if len(named) <= _MOST_IN_HINT:
        shortcut["sidecarFiles"] = [line["sidecar"] for line in named]
    adds = sum(one.adds for one in sidecars)
    return _hint(plan, engine.name, files, actions, total, adds, {"v2Checkpoint": shortcut})


def _shortcut(store: LogStore, path: str, size: int) -> dict[str, Any]:
    return {
        "path": path.rsplit("/", 1)[-1],
        "sizeInBytes": size,
        "modificationTime": _modified_ms(store, path),
    }


def _sidecar_line(store: LogStore, path: str, written: WrittenFile) -> dict[str, Any]:
    return {"sidecar": _shortcut(store, path, written.size)}


def _modified_ms(store: LogStore, path: str) -> int:
    return store.stat(path).modified_ms or time.time_ns() // 1_000_000


def _hint(
    plan: CheckpointPlan,
    engine: str,
    files: tuple[dict[str, Any], ...],
    actions: int,
    size: int,
    adds: int,
    more: Mapping[str, Any],
) -> CheckpointResult:
    body: dict[str, Any] = {
        "version": plan.version,
        "size": actions,
        "sizeInBytes": size,
        "numOfAddFiles": adds,
        **more,
    }
    moved = move_hint_forward(plan.snapshot.store, body)
    warnings = [*plan.warnings]
    if not moved:
        warnings.append(
            "_last_checkpoint stays as it is: it names a newer checkpoint, or cannot be read"
        )
    return CheckpointResult(plan, files, actions, moved, engine, warnings)


def commit_and_checkpoint(
    snapshot: Snapshot, change: Change, engine: Callable[[], Engine]
) -> Committed:
    """Commit a change, and write the checkpoint if the table's interval asks for one (6.4).

    A checkpoint that fails never fails its commit: it is a warning.
    """
    done = commit(snapshot, change)
    interval = snapshot.setting("delta.checkpointInterval")
    if interval < 1 or done.version % interval:
        return done
    try:
        fresh = load_snapshot(snapshot.store, engine, version=done.version)
        plan = plan_checkpoint(fresh, now_ms=time.time_ns() // 1_000_000)
        if plan.writes:
            apply_checkpoint(plan, engine())
    except Exception as error:
        warning = f"the checkpoint of version {done.version} was not written: {error}"
        return replace(done, warnings=(*done.warnings, warning))
    return done
