"""Type widening: what the schema records of changed types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deltacli.checking.model import ERROR, WARNING, Finding, rule
from deltacli.delta.column_mapping import ID
from deltacli.delta.column_paths import fields_of
from deltacli.delta.widening import CHANGES, is_for_iceberg, is_readable_change, type_named
from deltacli.validate.definition import Definition, Path, dotted

Change = Mapping[str, Any]


def _finding(definition: Definition, message: str) -> Finding:
    return Finding(message, line=definition.lines.get("metaData"))


def _recorded(definition: Definition) -> Iterator[tuple[Path, dict[str, Any], list[Change]]]:
    """Fields with the changes that are recorded of them, as far as they make sense."""
    for path, one in definition.fields():
        changes = (one.get("metadata") or {}).get(CHANGES)
        if isinstance(changes, list):
            yield path, one, [change for change in changes if _is_change(change)]


def _is_change(change: Any) -> bool:
    return (
        isinstance(change, dict)
        and type(change.get("fromType")) is str
        and type(change.get("toType")) is str
        and type(change.get("fieldPath", "")) is str
    )


def _name(text: str) -> str:
    return type_named(text) or text


def recorded_changes(definition: Definition) -> Iterator[tuple[Path, str, str]]:
    """Which columns record to have gone from which type to their own, step by step."""
    for path, field, changes in _recorded(definition):
        for one in changes:
            inside = one.get("fieldPath") or ""
            kind = _inner_type(field["type"], inside)
            if kind is not None:
                where = (*path, *inside.split(".")) if inside else path
                yield where, _name(one["fromType"]), _name(kind)


@rule("TYW001", ERROR, "Type changes are recorded in their form", of=Definition)
def type_changes_have_their_form(definition: Definition) -> Iterator[Finding]:
    """delta.typeChanges is a list of {fromType, toType} with an optional fieldPath.

    Why: readers fail, or do not expect the old type in files.
    Fix: restore the metadata from a backup.
    """
    for path, one in definition.fields():
        changes = (one.get("metadata") or {}).get(CHANGES)
        if changes is None:
            continue
        if not isinstance(changes, list) or not all(map(_is_change, changes)):
            yield _finding(
                definition, f"the type changes of {dotted(path)} are not a list of changes"
            )


@rule("TYW002", ERROR, "Type changes are of the feature", of=Definition)
def type_changes_are_of_the_feature(definition: Definition) -> Iterator[Finding]:
    """Each recorded change is one that the feature typeWidening has.

    Why: readers must refuse the table.
    Fix: restore the metadata from a backup; rewrite the files if they have the old type.
    """
    for path, _, changes in _recorded(definition):
        for one in changes:
            if not is_readable_change(_name(one["fromType"]), _name(one["toType"])):
                yield _finding(
                    definition, f"{dotted(path)} went from {one['fromType']} to {one['toType']}"
                )


@rule("TYW003", ERROR, "Type changes are a chain", of=Definition)
def type_changes_are_a_chain(definition: Definition) -> Iterator[Finding]:
    """Each change goes on where the one before it ended, and the last ends at the type.

    Why: readers cannot tell which types files may have.
    Fix: restore the metadata from a backup.
    """
    for path, field, changes in _recorded(definition):
        chains: dict[str, list[Change]] = {}
        for one in changes:
            chains.setdefault(one.get("fieldPath") or "", []).append(one)
        for inside, chain in chains.items():
            kind = _inner_type(field["type"], inside)
            if kind is None:
                continue
            ends = [*(_name(one["fromType"]) for one in chain[1:]), _name(kind)]
            for one, end in zip(chain, ends, strict=True):
                if _name(one["toType"]) != end:
                    where = dotted((*path, *inside.split("."))) if inside else dotted(path)
                    yield _finding(definition, f"{where} became {one['toType']}, then it is {end}")


def _inner_type(kind: Any, inside: str) -> str | None:
    """The simple type at a fieldPath; None if it leads to none."""
    for step in inside.split(".") if inside else ():
        if not isinstance(kind, dict):
            return None
        shape = kind.get("type")
        if (shape, step) == ("array", "element"):
            kind = kind.get("elementType")
        elif shape == "map" and step in ("key", "value"):
            kind = kind.get(f"{step}Type")
        else:
            return None
    return kind if isinstance(kind, str) else None


@rule("TYW004", ERROR, "Type changes are of a place in the type", of=Definition)
def type_changes_are_of_a_place(definition: Definition) -> Iterator[Finding]:
    """fieldPath leads through element, key and value to a simple type of the column.

    Why: readers cannot tell what changed.
    Fix: restore the metadata from a backup.
    """
    for path, field, changes in _recorded(definition):
        for one in changes:
            if _inner_type(field["type"], one.get("fieldPath") or "") is None:
                inside = one.get("fieldPath")
                yield _finding(
                    definition,
                    f"{dotted(path)} records a change "
                    + (
                        f"at {inside!r}, which it has not"
                        if inside
                        else "of a type that is not simple"
                    ),
                )


@rule("TYW005", ERROR, "Changed types are recorded", of=Definition)
def changed_types_are_recorded(definition: Definition) -> Iterator[Finding]:
    """A column whose type changed from one version to the next has a record of it.

    Why: readers do not expect the old type in files, and fail.
    Fix: add the record, or rewrite the files.
    """
    old = definition.before
    if old is None or definition.is_replaced or not definition.is_new_schema:
        return
    before = dict(_leaves(old))
    for path, (kind, field, inside) in _leaves(definition).items():
        if path not in before:
            continue
        was, old_field, _ = before[path]
        old_id, own_id = ((one.get("metadata") or {}).get(ID) for one in (old_field, field))
        if _name(was) == _name(kind) or old_id != own_id or was in ("void", "null"):
            continue
        changes = (field.get("metadata") or {}).get(CHANGES)
        recorded = [one for one in changes if _is_change(one)] if isinstance(changes, list) else []
        steps = [one for one in recorded if (one.get("fieldPath") or "") == inside]
        begins = any(_name(one["fromType"]) == _name(was) for one in steps)
        if not begins or not any(_name(one["toType"]) == _name(kind) for one in steps):
            yield _finding(definition, f"{dotted(path)} went from {was} to {kind} without a record")


def _leaves(definition: Definition) -> dict[Path, tuple[str, dict[str, Any], str]]:
    """Simple types by path, with the nearest field and the way inside it."""
    found: dict[Path, tuple[str, dict[str, Any], str]] = {}
    for path, one in fields_of(definition.tree):
        for inside, kind in _inside(one["type"], ()):
            found[(*path, *inside)] = kind, one, ".".join(inside)
    return found


def _inside(kind: Any, way: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(kind, str):
        yield way, kind
    elif isinstance(kind, dict) and kind.get("type") == "array":
        yield from _inside(kind.get("elementType"), (*way, "element"))
    elif isinstance(kind, dict) and kind.get("type") == "map":
        yield from _inside(kind.get("keyType"), (*way, "key"))
        yield from _inside(kind.get("valueType"), (*way, "value"))


@rule("TYW006", WARNING, "Previews record the version", of=Definition)
def previews_record_the_version(definition: Definition) -> Iterator[Finding]:
    """With typeWidening-preview a recorded change has the tableVersion of its commit.

    Why: readers of the preview need it to tell which files have which type.
    Fix: restore the metadata from a backup, or go over to the stable feature.
    """
    if "typeWidening-preview" not in definition.features:
        return
    known = dict(_known(definition.before)) if definition.before else None
    for path, _, changes in _recorded(definition):
        for one in changes:
            version = one.get("tableVersion")
            if type(version) is not int:
                yield _finding(definition, f"a change of {dotted(path)} has no tableVersion")
            elif version > definition.version or (
                known is not None and _key(path, one) not in known and version != definition.version
            ):
                yield _finding(definition, f"a change of {dotted(path)} has tableVersion {version}")


def _known(definition: Definition) -> Iterator[tuple[tuple[Any, ...], bool]]:
    for path, _, changes in _recorded(definition):
        for one in changes:
            yield _key(path, one), True


def _key(path: Path, one: Change) -> tuple[Any, ...]:
    return path, one.get("fieldPath") or "", one["fromType"], one["toType"]


@rule("TYW007", ERROR, "Iceberg tables widen as Iceberg does", of=Definition)
def iceberg_tables_widen_as_iceberg_does(definition: Definition) -> Iterator[Finding]:
    """In a table with Iceberg compatibility each recorded change is one that Iceberg has.

    Why: Iceberg's readers fail on the old files.
    Fix: rewrite the files, and remove the record.
    """
    if not any(one.startswith("icebergCompat") for one in definition.features):
        return
    for path, _, changes in _recorded(definition):
        for one in changes:
            source, target = _name(one["fromType"]), _name(one["toType"])
            if is_readable_change(source, target) and not is_for_iceberg(source, target):
                yield _finding(
                    definition,
                    f"{dotted(path)} went from {source} to {target}, which Iceberg has not",
                )


@rule("TYW008", WARNING, "Only previews record versions", of=Definition)
def only_previews_record_versions(definition: Definition) -> Iterator[Finding]:
    """Without typeWidening-preview no recorded change has a tableVersion.

    Why: the stable feature has no such field; strict readers may refuse it.
    Fix: none is needed; widened once more, the column may be written anew.
    """
    if "typeWidening-preview" in definition.features or "typeWidening" not in definition.features:
        return
    for path, _, changes in _recorded(definition):
        if any("tableVersion" in one for one in changes):
            yield _finding(definition, f"a change of {dotted(path)} has a tableVersion")
