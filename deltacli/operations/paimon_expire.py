"""`paimon expire`: deletes the schema files that nobody needs any more (facts 5).

What is needed is found before anything is deleted, and looked for again before each file goes.
Whatever cannot be read ends the run, and everything stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltacli.errors import Conflict, CorruptLog, DeltaCliError, PartlyDone, StorageError
from deltacli.operations.records import Document, Listing, Report, Row
from deltacli.paimon.needs import all_needs, has_iceberg_metadata, needed_by
from deltacli.paimon.references import OnProgress, ReferenceScan
from deltacli.paimon.schema_file import TableSchema
from deltacli.paimon.table import (
    Branch,
    SchemaEntry,
    SchemaListing,
    branch_names,
    is_listed,
    list_schemas,
    load_all,
    newest_id,
)
from deltacli.storage.proofs import prove_clock
from deltacli.units import counted, human_span, iso_time, ranges

EXPIRE_FIELDS = ("id", "path", "sizeInBytes", "timestamp", "timestampMs")
# What a result has besides.
RESULT_FIELDS = ("numDeleted", "bytesDeleted", "spared", "failures")
# A job may run for longer than this without a new schema reaching it.
_USUAL_JOB_MS = 86_400_000


@dataclass(frozen=True)
class ExpireWish:
    """What is asked for; `keeps_for_merges` counts the ids that other branches name, too."""

    older_than_ms: int
    keep_last: int = 1
    keeps_for_merges: bool = False


@dataclass(frozen=True)
class ExpirePlan:
    """The versions that go, oldest first, and why each of the others stays."""

    listing: SchemaListing
    wish: ExpireWish
    now_ms: int
    expired: tuple[SchemaEntry, ...]
    kept: Mapping[int, str]
    scans: Sequence[ReferenceScan] = field(repr=False, default=())
    warnings: tuple[str, ...] = ()
    times: Mapping[int, int] = field(repr=False, default_factory=dict)

    @property
    def branch(self) -> Branch:
        return self.listing.branch

    @property
    def question(self) -> str:
        return f"Delete {len(self.expired):,} schema files of {self.branch.title}?"

    def document(self) -> Document:
        """The plan for a person who is asked."""
        values = self._values(is_dry_run=False)
        values["files"] = ranges([one.id for one in self.expired])
        return Document(values, "expire")

    @property
    def kept_by(self) -> Mapping[str, str]:
        """The same as `kept`, in few lines."""
        by_reason: dict[str, list[int]] = {}
        for schema_id, reason in self.kept.items():
            by_reason.setdefault(reason, []).append(schema_id)
        return {ranges(ids): reason for reason, ids in by_reason.items()}

    def report(self, done: Expired | None = None, *, is_dry_run: bool = False) -> Report:
        """The plan, or what came of it, with all the files."""
        values = self._values(is_dry_run)
        gone = self.expired if done is None else done.deleted
        if done is not None:
            values |= {
                "numDeleted": len(done.deleted),
                "bytesDeleted": sum(one.size for one in done.deleted),
                "spared": {str(one): reason for one, reason in done.spared.items()},
                "failures": [{"path": path, "error": text} for path, text in done.failures],
            }
        rows = Listing(map(self._row, gone), EXPIRE_FIELDS, EXPIRE_FIELDS[:4], "files to delete")
        return Report(Document(values, "expire"), rows, "files")

    def _values(self, is_dry_run: bool) -> dict[str, Any]:
        return {
            "location": self.branch.store.location,
            "branch": self.branch.name,
            "dryRun": is_dry_run,
            "deleteBefore": iso_time(self.now_ms - self.wish.older_than_ms),
            "keepLast": self.wish.keep_last,
            "newest": self.listing.newest,
            "numSchemas": len(self.listing.entries),
            "numFiles": len(self.expired),
            "sizeInBytes": sum(one.size for one in self.expired),
            "kept": {str(one): reason for one, reason in self.kept.items()},
            "keptBy": dict(self.kept_by),
            "warnings": list(self.warnings),
        }

    def _row(self, entry: SchemaEntry) -> Row:
        time_ms = self.times.get(entry.id)
        return {
            "id": entry.id,
            "path": entry.path,
            "sizeInBytes": entry.size,
            "timestamp": iso_time(time_ms),
            "timestampMs": time_ms,
        }


@dataclass
class Expired:
    """What was deleted, what was needed after all, and what could not be deleted."""

    deleted: list[SchemaEntry] = field(default_factory=list)
    spared: dict[int, str] = field(default_factory=dict)
    failures: list[tuple[str, str]] = field(default_factory=list)
    stopped: DeltaCliError | None = None

    def failure(self, location: str) -> DeltaCliError | None:
        """What to tell of all that did not come about."""
        count, reason = len(self.failures), ""
        if self.stopped is not None:
            reason = self.stopped.message
        elif count:
            path, error = self.failures[0]
            reason = f"{counted(count, 'file')} could not be deleted, for instance {path}: {error}"
        else:
            return None
        if not self.deleted:
            hint = "check the permissions of the folder"
            return self.stopped or StorageError(reason, hint=hint, location=location)
        return PartlyDone(
            f"deleted {counted(len(self.deleted), 'file')}, then: {reason}",
            hint="run it again when the cause is mended",
            location=location,
        )


def plan_expire(
    branch: Branch, wish: ExpireWish, now_ms: int, on_progress: OnProgress | None = None
) -> ExpirePlan:
    """Raises CorruptLog where it cannot be told what is needed: nothing may go then."""
    listing = list_schemas(branch)
    schemas = load_all(listing)
    scan = ReferenceScan(branch, on_progress)
    needed = scan.run()
    _check_newest(listing)
    _check_snapshots(branch, scan)
    missing = sorted(needed.ids - listing.by_id.keys())
    if missing:
        raise CorruptLog(
            f"schema {missing[0]} is needed by {', '.join(needed.reasons(missing[0]))}, but its "
            f"file is missing",
            hint="restore it first; nothing is deleted from a table that is broken",
            location=branch.store.location,
        )
    scans = [scan]
    if wish.keeps_for_merges:
        others = (one for one in branch_names(branch.store) if one != branch.name)
        scans += [ReferenceScan(Branch(branch.store, one), on_progress) for one in others]
        for one in scans[1:]:
            one.run()
    kept = _kept(listing, schemas, scans, wish, now_ms)
    expired = tuple(one for one in listing.entries if one.id not in kept)
    times = {one.id: _time_of(one, schemas[one.id]) for one in expired}
    warnings = _warnings(wish, expired, listing)
    return ExpirePlan(listing, wish, now_ms, expired, kept, scans, warnings, times)


def _warnings(
    wish: ExpireWish, expired: tuple[SchemaEntry, ...], listing: SchemaListing
) -> tuple[str, ...]:
    found = []
    if expired and wish.older_than_ms < _USUAL_JOB_MS:
        found.append(
            f"jobs that began more than {human_span(wish.older_than_ms)} ago may still write "
            "files of the versions that go: make sure that there are none"
        )
    if expired and len(listing.entries) == listing.newest + 1:
        found.append("Iceberg metadata can be switched on only while all versions from 0 are there")
    return tuple(found)


def _time_of(entry: SchemaEntry, schema: TableSchema) -> int:
    """When a version was made, as late as anything says."""
    return max(schema.time_ms, entry.modified_ms or 0)


def _kept(
    listing: SchemaListing,
    schemas: Mapping[int, TableSchema],
    scans: Sequence[ReferenceScan],
    wish: ExpireWish,
    now_ms: int,
) -> Mapping[int, str]:
    """Why each version stays; those that nothing keeps have no reason."""
    needs = all_needs(listing, schemas, scans)
    found = {schema_id: ", ".join(reasons) for schema_id, reasons in needs.items()}
    last = {one.id for one in listing.entries[-wish.keep_last :]}
    for entry in listing.entries:
        if entry.id in found:
            continue
        made_ms = _time_of(entry, schemas[entry.id])
        if entry.id in last:
            found[entry.id] = f"among the last {wish.keep_last:,}"
        # What nobody knows the age of stays.
        elif not made_ms or made_ms > now_ms - wish.older_than_ms:
            found[entry.id] = f"younger than {human_span(wish.older_than_ms)}"
    return dict(sorted(found.items()))


def apply_expire(
    plan: ExpirePlan,
    on_progress: OnProgress | None = None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Expired:
    """Delete the files of a plan, oldest first, looking again for new references before each.

    Raises Refused if this clock cannot tell ages. What cannot be looked at, or a newer schema,
    ends it; `stopped` says so.
    """
    done = Expired()
    store = plan.branch.store
    if plan.expired:
        prove_clock(store, plan.branch.path("schema"), now_ms)
    for position, entry in enumerate(plan.expired):
        if on_progress:
            on_progress("deleting schemas", position, len(plan.expired))
        try:
            _check_unchanged(plan)
            reasons = needed_by(plan.scans, entry.id, plan.listing.newest)
        except DeltaCliError as error:
            done.stopped = error
            return done
        if reasons:
            done.spared[entry.id] = ", ".join(reasons)
            continue
        try:
            store.delete(entry.path)
        except StorageError as error:
            done.failures.append((entry.path, error.message))
            continue
        done.deleted.append(entry)
    return done


def _check_unchanged(plan: ExpirePlan) -> None:
    """Look for what came since the plan was made. Raises Conflict if it does not hold any more."""
    for scan in plan.scans:
        scan.run()
    _check_newest(plan.listing)
    if has_iceberg_metadata(plan.branch):
        raise Conflict(
            "there is Iceberg metadata now, which needs every version",
            hint="nothing more is deleted",
            location=plan.branch.store.location,
        )


def _check_newest(listing: SchemaListing) -> None:
    newest = newest_id(listing.branch)
    if newest != listing.newest:
        raise Conflict(
            f"the newest schema was {listing.newest} and is {newest} by now",
            hint="look at a new plan, and try again",
            location=listing.branch.store.location,
        )


def _check_snapshots(branch: Branch, scan: ReferenceScan) -> None:
    """Raise CorruptLog where snapshots have to be, and none is listed."""
    if any((scan.found.snapshots, scan.found.tags, scan.found.changelogs)):
        return
    store = branch.store
    for hint in ("LATEST", "EARLIEST"):
        if is_listed(store, branch.path(f"snapshot/{hint}")):
            raise CorruptLog(
                f"{branch.path('snapshot')} has a file {hint}, and no snapshot",
                hint="restore the snapshots; nothing is deleted from a table that is broken",
                location=store.location,
            )
    others = (Branch(store, one) for one in branch_names(store) if one != branch.name)
    if any(next(one.snapshots(), None) for one in others):
        return
    if Branch(store).entries("manifest"):
        raise CorruptLog(
            "there are manifests, and no snapshot, tag or changelog names them",
            hint="restore the snapshots; nothing is deleted from a table that is broken",
            location=store.location,
        )
