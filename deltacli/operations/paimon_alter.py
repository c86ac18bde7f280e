"""`paimon alter`: a batch of changes becomes one new version of a schema."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltacli.checking.model import Severity
from deltacli.errors import Conflict, CorruptLog, Refused
from deltacli.operations.paimon_describe import DIFF_FIELDS, difference_row
from deltacli.operations.records import Document, Listing, Report
from deltacli.paimon.book import ENFORCED
from deltacli.paimon.change import Change
from deltacli.paimon.changes import is_same, next_schema
from deltacli.paimon.check import findings_of
from deltacli.paimon.differences import Difference, differences
from deltacli.paimon.schema_file import NEWEST_VERSION, BadSchema, TableSchema
from deltacli.paimon.subjects import Schema
from deltacli.paimon.table import (
    Branch,
    SchemaListing,
    branch_names,
    list_schemas,
    load_schema,
    read_schemas,
)
from deltacli.paimon.types import walk_fields
from deltacli.paimon.writing import put_new, refusal, written
from deltacli.storage.proofs import prove_put_if_absent

_ATTEMPTS = 15
# Paimon reads ids of schemas as integers of 32 bits.
_LAST_ID = 2**31 - 1
_METASTORE = (
    "only the file is changed: if a metastore such as Hive or a REST catalog keeps this table, "
    "it goes on with its own copy (--filesystem-catalog says that there is none)"
)
_JOBS = "jobs that are running go on with the schema that they began with"


@dataclass(frozen=True)
class Wish:
    """What is asked for."""

    changes: Sequence[Change]
    allows_lossy: bool = False
    has_metastore: bool = True


@dataclass(frozen=True)
class AlterPlan:
    """The next version, or none where nothing would be different."""

    branch: Branch
    old: TableSchema
    new: TableSchema | None
    differences: Sequence[Difference] = ()
    losses: Sequence[str] = ()
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    content: bytes = field(default=b"", repr=False)

    @property
    def changes_anything(self) -> bool:
        return self.new is not None

    @property
    def question(self) -> str:
        return f"Write schema {self.old.id + 1} of {self.branch.title}?"

    @property
    def path(self) -> str:
        return self.branch.schema_path(self.old.id + 1)

    def document(self) -> Document:
        """The plan for a person who is asked."""
        changes = [one.text for one in self.differences]
        return Document({**self._values(is_dry_run=False), "changes": changes}, "alter")

    def report(self, *, is_dry_run: bool = False) -> Report:
        rows = Listing(map(difference_row, self.differences), DIFF_FIELDS, DIFF_FIELDS, "changes")
        return Report(Document(self._values(is_dry_run), "alter"), rows, "changes")

    def _values(self, is_dry_run: bool) -> dict[str, Any]:
        return {
            "location": self.branch.store.location,
            "branch": self.branch.name,
            "dryRun": is_dry_run,
            "fromId": self.old.id,
            "id": self.new.id if self.new else None,
            "path": self.path if self.new else None,
            "losses": list(self.losses),
            "notes": list(self.notes),
            "warnings": list(self.warnings),
        }


def plan_alter(branch: Branch, wish: Wish, now_ms: int) -> AlterPlan:
    """Raises Refused for what Paimon would refuse, and for losses that are not allowed."""
    listing = list_schemas(branch)
    old = load_schema(listing)
    location = branch.store.location
    if old.id != listing.newest:
        raise CorruptLog(
            f"{branch.schema_path(listing.newest)} has the id {old.id}",
            hint="restore the file that belongs there",
            location=location,
        )
    if old.id >= _LAST_ID:
        raise Refused(
            f"there is no id after {old.id}", hint="make the table anew", location=location
        )
    if old.version > NEWEST_VERSION:
        raise Refused(
            f"the newest schema has the format {old.version}, which deltacli does not write",
            hint="use a newer deltacli",
            location=location,
        )
    new, at = next_schema(old, wish.changes, has_snapshots=branch.has_snapshots(), now_ms=now_ms)
    if is_same(old, new):
        return AlterPlan(branch, old, None, notes=at.notes)
    _check_ids(listing, old, new)
    remarks = _check(branch, old, new)
    content = written(new, location)
    if at.losses and not wish.allows_lossy:
        raise Refused(
            f"values can be lost: {'; '.join(at.losses)}",
            hint="--allow-lossy goes on; nothing is rewritten, old files are cast when they are "
            "read",
            location=location,
        )
    warnings = [*remarks, *([_JOBS] if at.has_snapshots else [])]
    warnings += [_METASTORE] if wish.has_metastore else []
    if old.version < NEWEST_VERSION:
        at.notes.append(
            f"the file is of the format {NEWEST_VERSION}, with what held before of itself spelled "
            "out"
        )
    return AlterPlan(
        branch, old, new, differences(old, new), at.losses, at.notes, warnings, content
    )


def _check_ids(listing: SchemaListing, old: TableSchema, new: TableSchema) -> None:
    """Raise CorruptLog if columns share an id, Refused if a new one would get another's."""
    for used_id, names in Schema("", old.id, old).ids.items():
        if len(names) > 1:
            raise CorruptLog(
                f"{' and '.join(names)} have the same id {used_id}: values of one are read as "
                "those of the other",
                hint="restore the schema from a backup; no change can tell them apart",
                location=listing.branch.store.location,
            )
    given = range(old.highest_field_id + 1, new.highest_field_id + 1)
    for entry, schema in read_schemas(listing) if given else ():
        if isinstance(schema, BadSchema):
            continue
        used = [one for _, one in walk_fields(schema.fields) if one.id in given]
        if used:
            raise Refused(
                f"the new column would get the id {used[0].id}, which is that of {used[0].name} in "
                f"schema {entry.id}: highestFieldId is too low",
                hint="the values of the other column would come to life in it; "
                "`deltacli paimon validate` shows what is wrong",
                location=listing.branch.store.location,
            )


def _check(branch: Branch, old: TableSchema, new: TableSchema) -> list[str]:
    """Raise Refused for what Paimon refuses, or what is worse than it was; else the warnings."""
    branches = tuple(branch_names(branch.store))
    before = Counter(one.rule.id for one in findings_of(old, branches))
    seen: Counter[str] = Counter()
    broken, warnings = [], []
    for one in findings_of(new, branches):
        seen[one.rule.id] += 1
        is_error = one.rule.severity is Severity.ERROR
        is_new = seen[one.rule.id] > before[one.rule.id]
        if is_error and (is_new or one.rule.id.startswith(ENFORCED)):
            broken.append(one)
        elif is_new and one.rule.severity is Severity.WARNING:
            warnings.append(one.finding.message)
    if broken:
        raise refusal(broken, branch.store.location)
    return warnings


def apply_alter(
    plan: AlterPlan,
    wish: Wish,
    now_ms: Callable[[], int],
    pause: Callable[[float], None] = time.sleep,
) -> AlterPlan:
    """Write the new version; what was written in the end.

    Where another writer was faster, the changes are made again on its version, as long as they
    do the same there. Raises Conflict otherwise.
    """
    store = plan.branch.store
    prove_put_if_absent(store, plan.branch.path("schema"))
    shown = plan.differences
    for attempt in range(_ATTEMPTS):
        if plan.new is None or put_new(store, plan.path, plan.content):
            return plan
        pause(random.uniform(0, min(0.02 * 2**attempt, 1.0)))
        plan = plan_alter(plan.branch, wish, now_ms())
        if list(plan.differences) != list(shown):
            raise Conflict(
                f"schema {plan.old.id} was written by somebody else, and the changes would do "
                "something else now",
                hint="look at the new version, and try again",
                location=store.location,
            )
    raise Conflict(
        f"other writers were faster {_ATTEMPTS} times",
        hint="try again",
        location=store.location,
    )
