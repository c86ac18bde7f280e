"""The type-widening feature taken off a table, as far as its history allows (facts 8.7).

The newest version must hold no narrow file and no recorded change; then the feature is
dropped once the log has no older version left whose readers need it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from deltacli.delta import json_text
from deltacli.delta.actions import Metadata, Protocol, parse_metadata
from deltacli.delta.checkpoint import metadata_action, protocol_body
from deltacli.delta.column_paths import fields_of, schema_tree
from deltacli.delta.commit import Change
from deltacli.delta.engine import Engine
from deltacli.delta.features import without_feature
from deltacli.delta.history import find_action
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.delta.widening import CHANGES, PREVIEW, PROPERTY, STABLE
from deltacli.delta.writable import check_writable
from deltacli.errors import CorruptLog, Refused
from deltacli.operations.checkpoint import commit_and_checkpoint
from deltacli.operations.narrow import Status
from deltacli.operations.records import Document

FIELDS = (
    "location",
    "version",
    "dryRun",
    "feature",
    "columns",
    "removesChanges",
    "dropsFeature",
    "neededBy",
    "protocolBefore",
    "protocolAfter",
    "warnings",
)


@dataclass(frozen=True)
class DropPlan:
    """What can be done now. `needed_by` is the newest old version that needs the feature."""

    snapshot: Snapshot
    features: tuple[str, ...]
    columns: tuple[str, ...]
    is_set: bool
    needed_by: int | None

    @property
    def removes_changes(self) -> bool:
        return bool(self.columns) or self.is_set

    @property
    def drops(self) -> bool:
        """The version before a commit that removes changes needs the feature itself."""
        return not self.removes_changes and self.needed_by is None

    @property
    def protocol_after(self) -> Protocol:
        protocol = self.snapshot.protocol
        for name in self.features if self.drops else ():
            protocol = without_feature(protocol, name)
        return protocol

    @property
    def changes_anything(self) -> bool:
        return self.removes_changes or self.drops

    @property
    def question(self) -> str:
        if self.removes_changes:
            return "Remove the recorded type changes, and switch type widening off?"
        return f"Drop the feature {' and '.join(self.features)}?"

    @property
    def hint(self) -> str:
        return (
            "when those versions are older than delta.logRetentionDuration, run `deltacli "
            "checkpoint --cleanup` and then this again"
        )

    def document(
        self,
        version: int | None = None,
        warnings: tuple[str, ...] = (),
        *,
        is_dry_run: bool = True,
    ) -> Document:
        values = {
            "location": self.snapshot.store.location,
            "version": self.snapshot.version if version is None else version,
            "dryRun": is_dry_run,
            "feature": list(self.features),
            "columns": list(self.columns),
            "removesChanges": self.removes_changes,
            "dropsFeature": self.drops,
            "neededBy": self.needed_by,
            "protocolBefore": protocol_body(self.snapshot.protocol),
            "protocolAfter": protocol_body(self.protocol_after),
            "warnings": list(warnings),
        }
        return Document(values, "widen-type --drop-feature")


def plan_drop(status: Status, engine: Callable[[], Engine]) -> DropPlan:
    """Raises Refused as long as files or the table's nature stand against it."""
    snapshot = status.snapshot
    check_writable(snapshot)
    features = tuple(one for one in (STABLE, PREVIEW) if one in snapshot.features)
    if not features:
        raise Refused("the table does not have type widening", hint="there is nothing to drop")
    status.check_readable()
    if status.files:
        raise Refused(
            f"{len(status.files):,} files still hold narrower types",
            hint="`deltacli widen-type TABLE --rewrite` writes them anew; then run this again",
        )
    columns = _changed_columns(snapshot.metadata)
    is_set = any(key.lower() == PROPERTY.lower() for key in snapshot.metadata.configuration)
    return DropPlan(snapshot, features, columns, is_set, _newest_need(snapshot, engine))


def _newest_need(snapshot: Snapshot, engine: Callable[[], Engine]) -> int | None:
    """The newest older version that has recorded changes, as far as the log reaches back."""
    listing = snapshot.whole_listing
    # The versions at which the metadata changed, and whether changes were recorded then.
    points: dict[int, bool] = {}
    oldest = min((v for v, is_so in listing.rebuildable().items() if is_so), default=None)
    if oldest is not None and oldest < snapshot.version:
        first = load_snapshot(snapshot.store, engine, version=oldest)
        points[oldest] = bool(_changed_columns(first.metadata))
    for version, file in listing.commits.items():
        try:
            body = find_action(snapshot.store.read(file.path), "metaData")
            if body is not None:
                points[version] = bool(_changed_columns(parse_metadata(body)))
        except ValueError as error:
            raise CorruptLog(f"{file.path}: {error}", location=file.path) from None
    points[snapshot.version + 1] = False
    versions = sorted(one for one in points if one <= snapshot.version + 1)
    needing = [after - 1 for one, after in pairwise(versions) if points[one]]
    return max((one for one in needing if one < snapshot.version), default=None)


def _changed_columns(metadata: Metadata) -> tuple[str, ...]:
    """The fields that have changes recorded."""
    if metadata.schema_string is None:
        return ()
    return tuple(
        ".".join(path)
        for path, field in fields_of(schema_tree(metadata))
        if (field.get("metadata") or {}).get(CHANGES) is not None
    )


def apply_drop(plan: DropPlan, engine: Callable[[], Engine]) -> tuple[int, tuple[str, ...]]:
    """One commit: the recorded changes go, or the feature does. Its version and warnings."""
    change = _changes_removed(plan) if plan.removes_changes else _feature_removed(plan)
    done = commit_and_checkpoint(plan.snapshot, change, engine)
    return done.version, done.warnings


def _changes_removed(plan: DropPlan) -> Change:
    before = plan.snapshot.metadata
    tree = schema_tree(before)
    for _, field in fields_of(tree):
        (field.get("metadata") or {}).pop(CHANGES, None)
    configuration = {
        key: value for key, value in before.configuration.items() if key.lower() != PROPERTY.lower()
    }
    after = replace(
        before, schema_string=json_text.dump(tree).decode(), configuration=configuration
    )
    columns = {"columns": json_text.dump(list(plan.columns)).decode()}
    return Change(
        "DROP FEATURE",
        columns,
        lambda _: [metadata_action(after)],
        is_blind_append=False,
        reads_table=True,
    )


def _feature_removed(plan: DropPlan) -> Change:
    return Change(
        "DROP FEATURE",
        {"featureName": ",".join(plan.features), "truncateHistory": False},
        lambda _: [{"protocol": protocol_body(plan.protocol_after)}],
        is_blind_append=False,
        reads_table=True,
    )
