"""`widen-type`: column types changed in the log alone (facts 8.2 to 8.5).

Planned from one snapshot; if another writer changes the metadata meanwhile, planned again
from the newest one, as long as the columns still have the types that the plan began with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.actions import Protocol
from deltacli.delta.checkpoint import metadata_action, protocol_body
from deltacli.delta.column_paths import Place, Tree, fields_of, find_leaf, leaf_at, schema_tree
from deltacli.delta.commit import Change, Committed, Moment
from deltacli.delta.engine import Engine
from deltacli.delta.feature_use import missing_features
from deltacli.delta.features import with_features
from deltacli.delta.schema import DEFAULT, parse_schema
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.delta.widening import (
    CHANGES,
    PREVIEW,
    PROPERTY,
    STABLE,
    targets_of,
    type_named,
)
from deltacli.delta.writable import check_writable
from deltacli.errors import Conflict, Refused, UsageError
from deltacli.operations.checkpoint import commit_and_checkpoint
from deltacli.operations.records import Document
from deltacli.operations.widen_checks import check_change, check_matrix

_ATTEMPTS = 5
# Features that only tell writers what to do from now on.
_FOR_WRITERS = {
    "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns",
    "identityColumns", "allowColumnDefaults",
}  # fmt: skip
_PLAIN_DEFAULT = re.compile(r"null|-?\d+(\.\d+)?", re.IGNORECASE)
FIELDS = (
    "location",
    "version",
    "dryRun",
    "changes",
    "enabled",
    "protocolBefore",
    "protocolAfter",
    "warnings",
)


@dataclass(frozen=True, slots=True)
class Wish:
    """A column by its path, and the type that it is to have, as the user wrote them."""

    column: str
    type: str


@dataclass(frozen=True, slots=True)
class Widening:
    """One change. `field_path` is the way inside lists and maps, if there is one."""

    column: str
    path: tuple[str, ...]
    field_path: str | None
    from_type: str
    to_type: str

    def entry(self, table_version: int | None) -> Tree:
        entry: Tree = {"fromType": self.from_type, "toType": self.to_type}
        if self.field_path:
            entry["fieldPath"] = self.field_path
        if table_version is not None:
            entry["tableVersion"] = table_version
        return entry

    def values(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "fieldPath": self.field_path,
            "fromType": self.from_type,
            "toType": self.to_type,
        }


@dataclass(frozen=True)
class WidenPlan:
    """What is to be committed. `already` are columns that have their type by now."""

    snapshot: Snapshot
    widenings: tuple[Widening, ...]
    already: tuple[str, ...]
    configuration: Mapping[str, str]
    protocol: Protocol
    warnings: tuple[str, ...]

    @property
    def enables(self) -> bool:
        before = self.snapshot.metadata.configuration
        return self.protocol != self.snapshot.protocol or self.configuration != before

    @property
    def changes_anything(self) -> bool:
        return bool(self.widenings) or self.enables

    @property
    def question(self) -> str:
        what = [f"{one.column} to {one.to_type}" for one in self.widenings]
        begin = f"Widen {', '.join(what)}" if what else "Enable type widening"
        if self.protocol != self.snapshot.protocol:
            begin += ", and lock out clients without the table feature"
        return f"{begin}?"

    def document(self, committed: Committed | None = None, *, is_dry_run: bool = True) -> Document:
        version = committed.version if committed else self.snapshot.version
        values = {
            "location": self.snapshot.store.location,
            "version": version,
            "dryRun": is_dry_run and committed is None,
            "changes": [one.values() for one in self.widenings],
            "enabled": self.enables,
            "protocolBefore": protocol_body(self.snapshot.protocol),
            "protocolAfter": protocol_body(self.protocol),
            "warnings": [*self.warnings, *(committed.warnings if committed else ())],
        }
        return Document(values, "widen-type", tuple(self._difference()))

    def _difference(self) -> Iterator[str]:
        for one in self.widenings:
            yield f"- {one.column}: {one.from_type}"
            yield f"+ {one.column}: {one.to_type}"
        before, after = self.snapshot.protocol, self.protocol
        if before != after:
            yield f"- protocol {before.min_reader_version}, {before.min_writer_version}"
            names = ", ".join(after.writer_features or ())
            yield f"+ protocol {after.min_reader_version}, {after.min_writer_version}: {names}"
        if self.configuration.get(PROPERTY) != self.snapshot.metadata.configuration.get(PROPERTY):
            yield f"+ {PROPERTY} = {self.configuration[PROPERTY]}"

    def schema_string(self, version: int | None = None) -> str:
        """The schema with the new types; all else in it stays as it was (W-40 … W-46)."""
        text = self.snapshot.metadata.schema_string or ""
        if not self.widenings:
            return text
        tree = schema_tree(self.snapshot.metadata)
        is_preview = PREVIEW in self.snapshot.features
        for one in self.widenings:
            place = leaf_at(tree, one.path, one.column)
            place.holder[place.key] = one.to_type
            metadata = place.field["metadata"] = place.field.get("metadata") or {}
            metadata[CHANGES] = [
                *(metadata.get(CHANGES) or []),
                one.entry(version if is_preview else None),
            ]
        return json_text.dump(tree).decode()

    def actions(self, moment: Moment) -> list[dict[str, Any]]:
        metadata = replace(
            self.snapshot.metadata,
            schema_string=self.schema_string(moment.version),
            configuration=self.configuration,
        )
        actions: list[dict[str, Any]] = []
        if self.protocol != self.snapshot.protocol:
            actions.append({"protocol": protocol_body(self.protocol)})
        return [*actions, metadata_action(metadata)]

    def change(self) -> Change:
        return Change(*self._operation(), self.actions)

    def _operation(self) -> tuple[str, dict[str, str]]:
        if not self.widenings:
            properties = {PROPERTY: self.configuration[PROPERTY]}
            return "SET TBLPROPERTIES", {"properties": json_text.dump(properties).decode()}
        tree = json_text.load_faithful(self.schema_string().encode())
        told = [_told(leaf_at(tree, one.path, one.column)) for one in self.widenings]
        if len(told) == 1:
            return "CHANGE COLUMN", {"column": json_text.dump(told[0]).decode()}
        return "CHANGE COLUMNS", {"columns": json_text.dump(told).decode()}


def _told(place: Place) -> Tree:
    """A column as commitInfo has it."""
    return {
        "name": place.text,
        "type": place.type,
        "nullable": place.field.get("nullable", True),
        "metadata": place.field.get("metadata", {}),
    }


def plan_widen(snapshot: Snapshot, wishes: Sequence[Wish], *, enable: bool = False) -> WidenPlan:
    """Decide what changes. Raises the first reason why it may not."""
    check_writable(snapshot)
    tree = schema_tree(snapshot.metadata)
    found = [(find_leaf(tree, wish.column), wish) for wish in wishes]
    _refuse_twice(found)
    targets = [(place, _target(place, wish)) for place, wish in found]
    changing = [(place, target) for place, target in targets if place.type != target]
    widenings = tuple(
        Widening(place.text, place.path, ".".join(place.inside) or None, place.type, target)
        for place, target in changing
    )
    already = tuple(place.text for place, target in targets if place.type == target)
    for place, target in changing:
        check_matrix(place, target)
    configuration, protocol = _enabled(snapshot, widenings, enable=enable)
    for place, target in changing:
        check_change(snapshot, tree, place, target)
    plan = WidenPlan(snapshot, widenings, already, configuration, protocol, ())
    _check_itself(plan)
    return replace(plan, warnings=tuple(_warnings(plan, tree)))


def apply_widen(
    plan: WidenPlan, wishes: Sequence[Wish], engine: Callable[[], Engine], *, enable: bool = False
) -> tuple[WidenPlan, Committed]:
    """Commit, planning again where another writer came first (CO-1, CO-4)."""
    for attempt in range(_ATTEMPTS):
        try:
            return plan, commit_and_checkpoint(plan.snapshot, plan.change(), engine)
        except Conflict as conflict:
            fresh = plan_widen(load_snapshot(plan.snapshot.store, engine), wishes, enable=enable)
            if attempt == _ATTEMPTS - 1 or fresh.widenings != plan.widenings:
                conflict.hint = "look at the columns' types again and repeat the command"
                raise
            plan = fresh
    raise AssertionError("the last attempt returns or raises")


def _refuse_twice(found: Sequence[tuple[Place, Wish]]) -> None:
    seen: set[str] = set()
    for place, wish in found:
        if place.text in seen:
            raise UsageError(f"the column {wish.column} is named twice", hint="name it once")
        seen.add(place.text)


def _target(place: Place, wish: Wish) -> str:
    target = type_named(wish.type)
    if target is not None:
        return target
    options = ", ".join(targets_of(place.type))
    raise UsageError(
        f"{wish.type!r} is not a type",
        hint=f"{place.text} is {place.type}" + (f" and may become {options}" if options else ""),
    )


# -- enabling -------------------------------------------------------------------------------


def _enabled(
    snapshot: Snapshot, widenings: Sequence[Widening], *, enable: bool
) -> tuple[Mapping[str, str], Protocol]:
    """Configuration and protocol, with the feature (W-11, W-12, W-21, W-60, W-61)."""
    configuration = dict(snapshot.metadata.configuration)
    is_on = configuration.get(PROPERTY, "").strip().lower() == "true"
    readers, writers = snapshot.protocol.reader_features, snapshot.protocol.writer_features
    has_feature = bool({STABLE, PREVIEW} & set(readers or ()) & set(writers or ()))
    # One that is in one list only is completed.
    missing = set() if has_feature else {PREVIEW if PREVIEW in snapshot.features else STABLE}
    if any(one.to_type == "timestamp_ntz" for one in widenings) and (
        "timestampNtz" not in snapshot.features
    ):
        missing.add("timestampNtz")
    if not enable:
        if not widenings:
            return configuration, snapshot.protocol
        if is_on and not has_feature:
            raise Refused(
                f"{PROPERTY} is true, but the protocol has no feature {STABLE}",
                hint="the table contradicts itself; --enable adds the feature",
            )
        if not is_on:
            raise Refused(
                "type widening is not enabled for this table",
                hint="--enable turns it on; clients without the feature are locked out then",
            )
        if missing:
            raise Refused(
                "timestamp_ntz needs the table feature timestampNtz",
                hint="--enable adds it; clients without the feature are locked out then",
            )
        return configuration, snapshot.protocol
    if not is_on:
        # Another spelling of the name would contradict it.
        same = [key for key in configuration if key.lower() == PROPERTY.lower()]
        for key in same:
            del configuration[key]
        configuration[PROPERTY] = "true"
    if not missing:
        return configuration, snapshot.protocol
    protocol = with_features(snapshot.protocol, missing)
    if snapshot.protocol.min_writer_version < 7:
        protocol = with_features(protocol, _in_use_too(snapshot, protocol))
    return configuration, protocol


def _in_use_too(snapshot: Snapshot, protocol: Protocol) -> set[str]:
    """Features that the metadata uses, and that the versions of the old protocol did not imply.

    A protocol that lists its features has to list them, or Delta Spark opens the table no more.
    """
    found = set()
    configuration = snapshot.metadata.configuration
    for what, feature in missing_features(protocol, configuration, snapshot.schema):
        if feature not in _FOR_WRITERS:
            raise Refused(
                f"{what} is in the metadata, but the protocol has no feature {feature}",
                hint="the table contradicts itself; add the feature with an engine first",
            )
        found.add(feature)
    return found


# -- what else it means ----------------------------------------------------------------------


def _warnings(plan: WidenPlan, tree: Tree) -> Iterator[str]:
    snapshot = plan.snapshot
    for name in plan.already:
        yield f"{name} has that type already"
    if plan.protocol != snapshot.protocol:
        before, after = snapshot.protocol, plan.protocol
        yield (
            f"the protocol goes from ({before.min_reader_version}, {before.min_writer_version}) to "
            f"({after.min_reader_version}, {after.min_writer_version}): clients that do not know "
            "typeWidening can neither read nor write the table any more, among them Delta Lake "
            "before 4.0, and every reader without table features"
        )
        implied = set(with_features(before, ()).writer_features or ())
        if more := set(after.writer_features or ()) - implied - {STABLE, PREVIEW, "timestampNtz"}:
            yield f"what the metadata uses is listed from now on: {', '.join(sorted(more))}"
    if not plan.changes_anything:
        return
    yield "writers that are at work now will fail with a metadata change, also appending ones"
    if not plan.widenings:
        return
    yield "streams that read this table stop at the new schema and have to be restarted"
    if snapshot.setting("delta.enableChangeDataFeed"):
        yield "the change data feed cannot be read across this version in one go"
    configuration = snapshot.metadata.configuration
    if configuration.get("delta.compatibility.symlinkFormatManifest.enabled") == "true":
        yield "symlink manifests and what reads them know nothing of the new type"
    for one in plan.widenings:
        metadata = leaf_at(tree, one.path, one.column).field.get("metadata") or {}
        if any("bloomFilter" in key for key in metadata):
            yield f"{one.column} has a bloom filter index, which was made for {one.from_type}"
        default = metadata.get(DEFAULT)
        if isinstance(default, str) and not _PLAIN_DEFAULT.fullmatch(default.strip()):
            yield f"the default of {one.column}, {default}, may not be a {one.to_type}"


def _check_itself(plan: WidenPlan) -> None:
    """Old schema + changes = new schema (W-47)."""
    if not plan.widenings:
        return
    text = plan.schema_string(0)
    parse_schema(text)
    undone: Tree = json_text.load_faithful(text.encode())
    for one in plan.widenings:
        place = leaf_at(undone, one.path, one.column)
        if place.type != one.to_type:
            raise AssertionError(f"{one.column} is {place.type} after the change")
        place.holder[place.key] = one.from_type
        place.field["metadata"][CHANGES].pop()
    before = schema_tree(plan.snapshot.metadata)
    for tree in (undone, before):
        _without_nothing(tree)
    for one in plan.widenings:
        # Another spelling of the old type is the same type.
        leaf = leaf_at(before, one.path, one.column)
        leaf.holder[leaf.key] = one.from_type
    if undone != before:
        raise AssertionError("the new schema differs in more than the types")


def _without_nothing(tree: Tree) -> None:
    """No metadata, empty ones and null are the same."""
    for _, field in fields_of(tree):
        metadata = field.get("metadata") or {}
        if not metadata.get(CHANGES):
            metadata.pop(CHANGES, None)
        if not metadata:
            field.pop("metadata", None)


__all__ = ["FIELDS", "WidenPlan", "Widening", "Wish", "apply_widen", "plan_widen"]
