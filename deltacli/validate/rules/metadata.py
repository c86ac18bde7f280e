"""The schema, and what refers to its columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from deltacli.checking.model import ERROR, WARNING, Finding, rule
from deltacli.delta.column_mapping import SPECIAL
from deltacli.delta.references import referenced_columns
from deltacli.delta.schema import Array, Field, Map, Primitive, Struct
from deltacli.delta.stats_schema import has_min_max, indexed_columns
from deltacli.validate.definition import Definition, Path, dotted, type_of

_TYPES = frozenset(
    (
        "string",
        "long",
        "integer",
        "short",
        "byte",
        "float",
        "double",
        "boolean",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "variant",
        "void",
        "null",
        "decimal",
    )
)
_PARAMETRIC = re.compile(
    r"(interval .*|(var)?char\(\d+\)|geometry(\(.*\))?|geography(\(.*\))?"
    r"|timestamp(_ntz)?_nanos|string collate .*)",
    re.IGNORECASE,
)


@rule("MET001", ERROR, "The schema can be read", of=Definition)
def schema_can_be_read(definition: Definition) -> Iterator[Finding]:
    """schemaString is the JSON of a struct type.

    Why: without a schema no row can be read.
    Fix: restore the metadata from a backup.
    """
    if definition.metadata is None:
        return
    if definition.metadata.schema_string is None:
        # In a commit a missing field has a rule of its own.
        if "metaData" not in definition.lines:
            yield definition.finding("metaData has no schemaString")
    elif isinstance(definition.schema_or_error, str):
        yield definition.finding(f"schemaString: {definition.schema_or_error}")


@rule("MET002", ERROR, "Column names differ", of=Definition)
def column_names_differ(definition: Definition) -> Iterator[Finding]:
    """No two columns of one struct have the same name, upper and lower case apart.

    Why: most readers do not tell them apart, and read one column for the other.
    Fix: rename one of them, with column mapping.
    """
    if definition.schema is None:
        return
    for path, kind in _types(definition.schema):
        fields = kind.fields if isinstance(kind, Struct) else ()
        counts = Counter(one.name.lower() for one in fields)
        for name, count in counts.items():
            if count > 1:
                yield definition.finding(f"{count} columns are called {dotted((*path, name))}")


def _types(kind: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """A type and all within it, each with its path."""
    yield path, kind
    if isinstance(kind, Struct):
        for one in kind.fields:
            yield from _types(one.type, (*path, one.name))
    elif isinstance(kind, Array):
        yield from _types(kind.element, (*path, "element"))
    elif isinstance(kind, Map):
        yield from _types(kind.key, (*path, "key"))
        yield from _types(kind.value, (*path, "value"))


@rule("MET003", ERROR, "Partition columns are columns", of=Definition)
def partition_columns_are_columns(definition: Definition) -> Iterator[Finding]:
    """Each partition column is a different top column of the schema, of a simple type.

    Why: readers cannot make its values from their texts.
    Fix: restore the metadata from a backup.
    """
    if definition.schema is None:
        return
    types = {one.name.lower(): one.type for one in definition.schema.fields}
    counts = Counter(one.lower() for one in definition.partition_columns)
    for name in dict.fromkeys(definition.partition_columns):
        if name.lower() not in types:
            yield definition.finding(f"the partition column {name!r} is not in the schema")
        elif not isinstance(types[name.lower()], Primitive):
            yield definition.finding(f"the partition column {name!r} is of no simple type")
        if counts[name.lower()] > 1:
            yield definition.finding(f"the partition column {name!r} is named twice")


@rule("MET004", ERROR, "Some columns are in files", of=Definition)
def some_columns_are_in_files(definition: Definition) -> Iterator[Finding]:
    """Not all columns are partition columns.

    Why: data files would have no column at all, which readers refuse.
    Fix: add a column, or partition by fewer.
    """
    if definition.schema is None or not definition.schema.fields:
        return
    own = {one.lower() for one in definition.partition_columns}
    if all(one.name.lower() in own for one in definition.schema.fields):
        yield definition.finding("every column is a partition column")


@rule("MET005", WARNING, "Column names are plain", of=Definition)
def column_names_are_plain(definition: Definition) -> Iterator[Finding]:
    """Without column mapping no name has a blank, `,;{}()=`, a tab or a line feed.

    Why: some engines cannot write such columns into Parquet, or read them.
    Fix: enable column mapping, or rename the column.
    """
    if definition.is_mapped:
        return
    for path, _ in definition.fields():
        if SPECIAL.search(path[-1]):
            yield definition.finding(f"the name of {dotted(path)} has an odd character")


@rule("MET006", ERROR, "Types are known", of=Definition)
def types_are_known(definition: Definition) -> Iterator[Finding]:
    """Each simple type is one of the protocol's, decimals with 1 to 38 digits.

    Why: readers do not know what to read.
    Fix: restore the metadata from a backup, or use a newer client.
    """
    if definition.schema is None:
        return
    primitives = (one for one in _types(definition.schema) if isinstance(one[1], Primitive))
    for path, kind in primitives:
        name, decimal = kind.name, kind.decimal
        if decimal is not None:
            if not 1 <= decimal[0] <= 38 or not 0 <= decimal[1] <= decimal[0]:
                yield definition.finding(f"{dotted(path)} is a {name}")
        elif name not in _TYPES and not _PARAMETRIC.fullmatch(name):
            yield definition.finding(f"{dotted(path)} is of the unknown type {name!r}")


@rule("MET007", ERROR, "Fields are complete", of=Definition)
def fields_are_complete(definition: Definition) -> Iterator[Finding]:
    """A field has nullable and metadata, an array containsNull, a map valueContainsNull.

    Why: readers fail, or guess whether there are nulls.
    Fix: restore the metadata from a backup, or mend its writer.
    """
    for path, one in definition.fields():
        for name in ("nullable", "metadata"):
            if name not in one:
                yield definition.finding(f"{dotted(path)} has no {name}")
        yield from _incomplete(definition, path, one.get("type"))


def _incomplete(definition: Definition, path: Path, kind: Any) -> Iterator[Finding]:
    if not isinstance(kind, dict):
        return
    shape = kind.get("type")
    needed = {"array": "containsNull", "map": "valueContainsNull"}.get(str(shape))
    if needed and needed not in kind:
        yield definition.finding(f"the {type_of(kind)} {dotted(path)} has no {needed}")
    for name in ("elementType", "keyType", "valueType"):
        yield from _incomplete(definition, (*path, name.removesuffix("Type")), kind.get(name))


@rule("MET013", ERROR, "Constraints are on columns", of=Definition)
def constraints_are_on_columns(definition: Definition) -> Iterator[Finding]:
    """A CHECK constraint is not empty and names at least one column of the table.

    Why: no writer can check it, so none may write.
    Fix: drop the constraint, or restore the column.
    """
    known = definition.own_fields()
    for key, text in definition.configuration.items():
        if not key.lower().startswith("delta.constraints."):
            continue
        if not text.strip():
            yield definition.finding(f"{key} is empty")
        elif known:
            used = {path[0] for path in referenced_columns(text)} - _SQL_WORDS
            used = {one for one in used if not re.fullmatch(r"[0-9].*", one)}
            if used and not used & known.keys():
                yield definition.finding(f"{key} names no column of the table: {text}")


_SQL_WORDS = {
    "and",
    "or",
    "not",
    "is",
    "null",
    "true",
    "false",
    "in",
    "between",
    "like",
    "case",
    "when",
    "then",
    "else",
    "end",
    "date",
    "timestamp",
    "interval",
    "cast",
    "as",
}


@rule("MET014", ERROR, "Generated columns make sense", of=Definition)
def generated_columns_make_sense(definition: Definition) -> Iterator[Finding]:
    """Expressions of generated columns and invariants can be read; identity columns are longs
    with a step other than 0 and a high-water mark that their steps reach.

    Why: writers refuse the table, or write what breaks it.
    Fix: restore the column's metadata from a backup.
    """
    for path, one in definition.fields():
        metadata = one.get("metadata") or {}
        formula = metadata.get("delta.generationExpression")
        if formula is not None and (not isinstance(formula, str) or not formula.strip()):
            yield definition.finding(f"{dotted(path)} has an empty generationExpression")
        invariant = metadata.get("delta.invariants")
        if invariant is not None and not _is_invariant(invariant):
            yield definition.finding(f"{dotted(path)} has an invariant that cannot be read")
        if any(key.startswith("delta.identity.") for key in metadata):
            for problem in _identity_problems(one, metadata):
                yield definition.finding(f"the identity column {dotted(path)} {problem}")


def _is_invariant(text: Any) -> bool:
    import json

    try:
        found = json.loads(text)["expression"]["expression"]
    except (ValueError, TypeError, KeyError):
        return False
    return isinstance(found, str) and bool(found.strip())


def _identity_problems(one: dict[str, Any], metadata: dict[str, Any]) -> Iterator[str]:
    start, step = metadata.get("delta.identity.start"), metadata.get("delta.identity.step")
    mark = metadata.get("delta.identity.highWaterMark")
    if one.get("type") != "long":
        yield f"is {type_of(one.get('type'))}, no long"
    if type(start) is not int or type(step) is not int:
        yield "has no start or no step"
    elif step == 0:
        yield "has the step 0"
    elif type(mark) is int and (mark - start) % step:
        yield f"has the high-water mark {mark}, which its steps do not reach"


@rule("MET016", WARNING, "Columns can hold values", of=Definition)
def columns_can_hold_values(definition: Definition) -> Iterator[Finding]:
    """void is not inside an array or map, and not all that a struct or the table has.

    Why: such columns cannot be written to Parquet, so no new rows can be.
    Fix: give the column a type.
    """
    schema = definition.schema
    if schema is None:
        return
    if schema.fields and all(_is_void(one.type) for one in schema.fields):
        yield definition.finding("all columns are void")
    for one in schema.fields:
        for path in _void_inside(one.type, (one.name,)):
            yield definition.finding(f"{dotted(path)} holds nothing but void")


def _is_void(kind: Any) -> bool:
    return isinstance(kind, Primitive) and kind.name in ("void", "null")


def _void_inside(kind: Any, path: Path) -> Iterator[Path]:
    if isinstance(kind, Struct):
        if kind.fields and all(_is_void(one.type) for one in kind.fields):
            yield path
        for one in kind.fields:
            yield from _void_inside(one.type, (*path, one.name))
    elif isinstance(kind, Array | Map):
        inner = [kind.element] if isinstance(kind, Array) else [kind.key, kind.value]
        if any(map(_is_void, inner)):
            yield path
        for one_type in inner:
            yield from _void_inside(one_type, path)


@rule("MET017", ERROR, "A clustered table has no partitions", of=Definition)
def clustered_table_has_no_partitions(definition: Definition) -> Iterator[Finding]:
    """Clustering columns and partition columns exclude each other.

    Why: the protocol forbids it; writers refuse the table.
    Fix: remove the clustering with `ALTER TABLE … CLUSTER BY NONE`.
    """
    if definition.clustering and definition.partition_columns:
        yield Finding("the table is clustered and partitioned")


@rule("MET018", ERROR, "Clustering columns are columns", of=Definition)
def clustering_columns_are_columns(definition: Definition) -> Iterator[Finding]:
    """Each clustering column is a column of the table, by its physical name.

    Why: the next clustering fails, or works on another column.
    Fix: cluster the table anew by columns that it has.
    """
    if definition.schema is None:
        return
    for path in definition.clustering or ():
        if not _along(definition, path):
            yield Finding(f"the clustering column {dotted(path)} is not in the schema")


def _along(definition: Definition, path: Path) -> list[Field]:
    """The fields on a path of physical names; none if it leads nowhere."""
    kind: Any = definition.schema
    found: list[Field] = []
    for step in path:
        inner = kind.fields if isinstance(kind, Struct) else ()
        names = {one.physical_name if definition.is_mapped else one.name: one for one in inner}
        if step not in names:
            return []
        found.append(names[step])
        kind = names[step].type
    return found


@rule("MET019", WARNING, "Clustering columns have statistics", of=Definition)
def clustering_columns_have_statistics(definition: Definition) -> Iterator[Finding]:
    """Each clustering column is one of those for which statistics are collected.

    Why: clustering pays off only if files can be skipped by it.
    Fix: set delta.dataSkippingStatsColumns, or reorder the columns.
    """
    schema = definition.schema
    if schema is None or not definition.clustering:
        return
    indexed = indexed_columns(
        schema,
        definition.partition_columns,
        definition.setting("delta.dataSkippingNumIndexedCols"),
        definition.setting("delta.dataSkippingStatsColumns"),
    )
    have = set(_leaf_names(indexed, ()))
    for path in definition.clustering:
        fields = _along(definition, path)
        if not fields or not has_min_max(fields[-1].type):
            continue
        # `indexed_columns` has physical names whether they count or not.
        if tuple(one.physical_name for one in fields) not in have:
            yield Finding(f"no statistics are collected for the clustering column {dotted(path)}")


def _leaf_names(struct: Struct, above: Path) -> Iterator[Path]:
    for one in struct.fields:
        if isinstance(one.type, Struct):
            yield from _leaf_names(one.type, (*above, one.name))
        else:
            yield (*above, one.name)
