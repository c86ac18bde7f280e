"""A checkpoint and the cleanup behind it as one plan and one result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from deltacli.delta.engine import Engine
from deltacli.operations.checkpoint import (
    CheckpointPlan,
    CheckpointResult,
    apply_checkpoint,
    plan_checkpoint,
    point_to_existing,
)
from deltacli.operations.cleanup import CleanupPlan, apply_cleanup, needs_classic, plan_cleanup
from deltacli.operations.records import Document
from deltacli.units import counted


@dataclass(frozen=True)
class MaintenancePlan:
    checkpoint: CheckpointPlan
    cleanup: CleanupPlan | None

    @property
    def warnings(self) -> tuple[str, ...]:
        own = (*self.checkpoint.warnings, *(self.cleanup.warnings if self.cleanup else ()))
        if self.checkpoint.writes:
            return own
        version = self.checkpoint.version
        own = (*own, f"version {version} has a checkpoint already; --force writes it anew")
        if self.checkpoint.moves_hint:
            own = (*own, "_last_checkpoint does not name it: readers do not begin there")
        return own

    @property
    def changes_anything(self) -> bool:
        deletes = self.cleanup is not None and bool(self.cleanup.files)
        return self.checkpoint.changes_anything or deletes

    @property
    def question(self) -> str:
        deletes = len(self.cleanup.files) if self.cleanup else 0
        if not self.checkpoint.changes_anything:
            return f"Delete {counted(deletes, 'log file')}?"
        more = f" and delete {counted(deletes, 'log file')}" if deletes else ""
        return self.checkpoint.question.removesuffix("?") + more + "?"

    def document(self) -> Document:
        return _with_cleanup(self.checkpoint.document(), self.cleanup, deleted=False)


@dataclass(frozen=True)
class MaintenanceResult:
    checkpoint: CheckpointResult | CheckpointPlan
    cleanup: CleanupPlan | None
    for_old_clients: CheckpointResult | None = None

    @property
    def warnings(self) -> list[str]:
        return (
            list(self.checkpoint.warnings) if isinstance(self.checkpoint, CheckpointResult) else []
        )

    def document(self) -> Document:
        document = _with_cleanup(self.checkpoint.document(), self.cleanup, deleted=True)
        if self.for_old_clients is None:
            return document
        files = [*document.values["files"], *self.for_old_clients.files]
        return replace(document, values={**document.values, "files": files})


def _with_cleanup(document: Document, plan: CleanupPlan | None, *, deleted: bool) -> Document:
    if plan is None:
        return document
    cleanup: dict[str, Any] = {**plan.document(), "deleted": deleted}
    return replace(document, values={**document.values, "cleanup": cleanup})


def plan_maintenance(
    checkpoint: CheckpointPlan, engine: Callable[[], Engine], *, cleanup: bool, force: bool
) -> MaintenancePlan:
    if not cleanup:
        return MaintenancePlan(checkpoint, None)
    plan = plan_cleanup(
        checkpoint.snapshot,
        engine,
        now_ms=checkpoint.now_ms,
        force=force,
        upcoming=checkpoint.version if checkpoint.writes else None,
    )
    return MaintenancePlan(checkpoint, plan)


def apply_maintenance(
    plan: MaintenancePlan,
    engine: Callable[[], Engine],
    on_progress: Callable[[str, int, int], None] | None = None,
) -> MaintenanceResult:
    """Write first; only behind a checkpoint that was read back anything is deleted (K-10)."""
    done: CheckpointResult | CheckpointPlan = plan.checkpoint
    if plan.checkpoint.writes:
        done = apply_checkpoint(plan.checkpoint, engine())
    elif plan.checkpoint.moves_hint:
        # Before anything goes that the old hint may name.
        done = point_to_existing(plan.checkpoint)
    if plan.cleanup is not None and plan.cleanup.files:
        extra = None
        if needs_classic(plan.checkpoint.snapshot, plan.cleanup):
            extra = _write_classic(plan.checkpoint, engine)
        apply_cleanup(plan.cleanup, engine, on_progress)
        return MaintenanceResult(done, plan.cleanup, extra)
    return MaintenanceResult(done, plan.cleanup)


def _write_classic(plan: CheckpointPlan, engine: Callable[[], Engine]) -> CheckpointResult | None:
    """A checkpoint under the name that old clients know (LC-9), unless it was just written."""
    if plan.kind == "classic":
        return None
    again = plan_checkpoint(plan.snapshot, kind="classic", force=True, now_ms=plan.now_ms)
    return apply_checkpoint(again, engine())
