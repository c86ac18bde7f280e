"""Column mapping: ids and physical names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from deltacli.checking.model import ERROR, FOOTERS, WARNING, Finding, rule
from deltacli.delta.column_mapping import ID, MAX_ID, MODE, NESTED_IDS, PHYSICAL
from deltacli.validate.adds import ABSENT, Adds
from deltacli.validate.data_files import DataFile
from deltacli.validate.definition import Definition, Path, dotted


def _finding(definition: Definition, message: str) -> Finding:
    return Finding(message, line=definition.lines.get("metaData"))


def _ids(definition: Definition) -> Iterator[tuple[Path, int]]:
    for path, one in definition.fields():
        metadata = one.get("metadata") or {}
        number = metadata.get(ID)
        if type(number) is int:
            yield path, number
        nested = metadata.get(NESTED_IDS)
        for name, inner in nested.items() if isinstance(nested, dict) else ():
            if type(inner) is int:
                yield (*path, str(name)), inner


@rule("CMP001", ERROR, "Mapped columns have id and name", of=Definition)
def mapped_columns_have_id_and_name(definition: Definition) -> Iterator[Finding]:
    """With column mapping each field, at any depth, has an id and a physicalName.

    Why: readers cannot find the column in files.
    Fix: restore the metadata from a backup.
    """
    if not definition.is_mapped:
        return
    for path, one in definition.fields():
        metadata = one.get("metadata") or {}
        absent = [
            name
            for name, kind in ((ID, int), (PHYSICAL, str))
            if type(metadata.get(name)) is not kind
        ]
        if absent:
            yield _finding(definition, f"{dotted(path)} has no {' and no '.join(absent)}")


@rule("CMP002", ERROR, "Column ids differ", of=Definition)
def column_ids_differ(definition: Definition) -> Iterator[Finding]:
    """No two fields have the same column id.

    Why: readers that go by ids read one column for the other.
    Fix: restore the metadata from a backup.
    """
    if not definition.is_mapped:
        return
    seen: dict[int, Path] = {}
    for path, number in _ids(definition):
        if number in seen:
            yield _finding(
                definition, f"{dotted(path)} and {dotted(seen[number])} have the id {number}"
            )
        seen.setdefault(number, path)


@rule("CMP003", ERROR, "Physical names differ", of=Definition)
def physical_names_differ(definition: Definition) -> Iterator[Finding]:
    """No two fields of one struct have the same physical name.

    Why: readers that go by names read one column for the other.
    Fix: restore the metadata from a backup.
    """
    if not definition.is_mapped:
        return
    counts: Counter[tuple[Path, str]] = Counter()
    for path, one in definition.fields():
        name = (one.get("metadata") or {}).get(PHYSICAL)
        if isinstance(name, str):
            counts[path[:-1], name] += 1
    for (above, name), count in counts.items():
        if count > 1:
            where = f" in {dotted(above)}" if above else ""
            yield _finding(definition, f"{count} fields{where} have the physical name {name!r}")


@rule("CMP004", ERROR, "maxColumnId covers all ids", of=Definition)
def max_column_id_covers_all(definition: Definition) -> Iterator[Finding]:
    """delta.columnMapping.maxColumnId is set, and not less than any id.

    Why: the next new column would get an id that is taken.
    Fix: set the property to the greatest id.
    """
    if not definition.is_mapped or definition.schema is None:
        return
    text = definition.configuration.get(MAX_ID)
    if text is None:
        yield _finding(definition, "delta.columnMapping.maxColumnId is not set")
        return
    greatest = max((number for _, number in _ids(definition)), default=0)
    most = definition.setting(MAX_ID)
    if isinstance(most, int) and most < greatest:
        yield _finding(
            definition, f"delta.columnMapping.maxColumnId is {most}, there is the id {greatest}"
        )


@rule("CMP005", ERROR, "The mapping mode stays", of=Definition)
def mapping_mode_stays(definition: Definition) -> Iterator[Finding]:
    """delta.columnMapping.mode is none, name or id, and never goes between name and id.

    Why: files that were written by names have no ids, and the other way round.
    Fix: restore the metadata from a backup.
    """
    if definition.mode not in ("none", "name", "id"):
        yield _finding(definition, f"{MODE} is {definition.mode!r}")
    old = definition.mode if definition.is_replaced else (definition.before or definition).mode
    if old != definition.mode and "id" in (old, definition.mode):
        yield _finding(definition, f"{MODE} went from {old} to {definition.mode}")


@rule("CMP006", ERROR, "Partition values go by physical names", of=Adds)
def partition_values_go_by_physical_names(adds: Adds) -> Iterator[Finding]:
    """With column mapping the keys of partitionValues are physical names.

    Why: readers take the value for null.
    Fix: rewrite the file.
    """
    definition = adds.definition
    if definition is None or not definition.is_mapped:
        return
    logical = {one.name: key for key, one in definition.partitions.items() if one.name != key}
    names = adds.partition_values.names
    for name, key in logical.items():
        if name in names and key not in names and name not in definition.partitions:
            values = adds.partition_values.get(name, ABSENT)
            n = next(n for n, one in enumerate(values) if one is not ABSENT)
            yield adds.finding(n, f"partitionValues has {name!r}, not {key!r}")


@rule("CMP007", ERROR, "Files have the columns' ids", of=DataFile, level=FOOTERS)
def files_have_the_columns_ids(one: DataFile) -> Iterator[Finding]:
    """In mode id each column of a file has the field id that the schema gives it.

    Why: readers go by ids: the column reads as null, or as another one.
    Fix: rewrite the file.
    """
    if one.definition.mode != "id" or one.footer.error is not None:
        return
    for column in one.footer.columns:
        own = one.table.by_path.get(tuple(name.lower() for name in column.path))
        if own is not None and own.file_id is not None and column.field_id != own.file_id:
            said = "no field id" if column.field_id is None else f"the field id {column.field_id}"
            yield Finding(f"{dotted(own.path)} has {said}, its id is {own.file_id}", path=one.path)


@rule("CMP008", WARNING, "Files have the physical names", of=DataFile, level=FOOTERS)
def files_have_the_physical_names(one: DataFile) -> Iterator[Finding]:
    """With column mapping the columns of a file have physical names.

    Why: a column by its logical name reads as null.
    Fix: rewrite the file.
    """
    if one.definition.mode != "name" or one.footer.error is not None:
        return
    if not one.definition.has_own_physical_names:
        return
    tops = one.table.tops
    for physical, own in tops.items():
        name = own.name.lower()
        if physical not in one.match.top_names and name in one.match.top_names and name not in tops:
            yield Finding(f"the file has {own.name!r}, not {own.physical_name!r}", path=one.path)


@rule("CMP009", WARNING, "Ids and physical names stay", of=Definition)
def ids_and_names_stay(definition: Definition) -> Iterator[Finding]:
    """A column keeps its id and physical name from version to version.

    Why: files that were written before are read by the old ones.
    Fix: restore the metadata from a backup.
    """
    before = definition.before
    if before is None or not before.is_mapped or not definition.is_mapped:
        return
    if definition.is_replaced:
        return
    old = {number: name for _, number, name in _mapped(before)}
    paths = {path: (number, name) for path, number, name in _mapped(before)}
    for path, number, name in _mapped(definition):
        if number in old and old[number] != name:
            yield _finding(
                definition,
                f"the column with the id {number}, {dotted(path)}, had another physical name",
            )
        elif path in paths and paths[path][1] == name and paths[path][0] != number:
            yield _finding(definition, f"{dotted(path)} had another id")


def _mapped(definition: Definition) -> Iterator[tuple[Path, Any, Any]]:
    for path, one in definition.fields():
        metadata = one.get("metadata") or {}
        yield path, metadata.get(ID), metadata.get(PHYSICAL)
