"""Rules about names and keys, which Paimon checks when a table is made or changed (facts 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from deltacli.checking.model import ERROR, WARNING, Finding, rule
from deltacli.paimon.defaults import default_problem
from deltacli.paimon.subjects import Schema
from deltacli.paimon.types import is_blank, walk_fields

SYSTEM_NAMES = frozenset(("_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "_ROW_ID", "rowkind"))
KEY_PREFIX = "_KEY_"
_NO_KEYS = frozenset(
    ("MAP", "ARRAY", "ROW", "MULTISET", "VECTOR", "VARIANT", "GEOMETRY", "GEOGRAPHY")
)


def is_reserved(name: str) -> bool:
    """Whether no column may have a name."""
    return name in SYSTEM_NAMES or name.startswith(KEY_PREFIX)


def _twice(names: Sequence[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


@rule("PMS001", ERROR, "A column name is used once", of=Schema)
def column_names_are_unique(one: Schema) -> Iterator[Finding]:
    """No two columns have one name; upper and lower case make a difference.

    Why: Paimon refuses such a table when it is changed, and names in options mean two columns.
    Fix: rename one of them where the table is made, or restore the schema.
    """
    for name in _twice(one.schema.names):
        yield Finding(f"duplicate column name {name!r}")


@rule("PMS002", ERROR, "No name is blank", of=Schema)
def names_are_not_blank(one: Schema) -> Iterator[Finding]:
    """Each column's name has a character that is no blank.

    Why: Paimon refuses the table.
    Fix: rename the column.
    """
    for field in one.schema.fields:
        if is_blank(field.name):
            yield Finding(f"blank column name {field.name!r} (id {field.id})")


@rule("PMS003", ERROR, "No column has a reserved name", of=Schema)
def names_are_not_reserved(one: Schema) -> Iterator[Finding]:
    """No column is called as Paimon's own are: `_KEY_…`, `_SEQUENCE_NUMBER`, `rowkind` and so on.

    Why: data files hold columns of these names.
    Fix: rename the column.
    """
    for name in one.schema.names:
        if is_reserved(name):
            yield Finding(f"{name} is a reserved name")


@rule("PMS004", WARNING, "Names differ by more than case", of=Schema)
def names_differ_by_more_than_case(one: Schema) -> Iterator[Finding]:
    """No two columns have names that differ only by upper and lower case.

    Why: Paimon's core keeps them apart, but Hive, Spark and Delta do not.
    Fix: rename one of them.
    """
    by_case: dict[str, list[str]] = {}
    for name in dict.fromkeys(one.schema.names):
        by_case.setdefault(name.lower(), []).append(name)
    for names in by_case.values():
        if len(names) > 1:
            yield Finding(f"names differ only by case: {', '.join(names)}")


@rule("PMS005", WARNING, "A table has columns", of=Schema)
def table_has_columns(one: Schema) -> Iterator[Finding]:
    """There is at least one column.

    Why: Paimon takes such a table, but nobody can write to it.
    Fix: add a column.
    """
    if not one.schema.fields:
        yield Finding("the table has no columns")


def _bad_keys(one: Schema, names: Sequence[str], what: str) -> Iterator[Finding]:
    for name in _twice(names):
        yield Finding(f"{what} column {name!r} is named twice")
    for name in dict.fromkeys(names):
        field = one.schema.by_name.get(name)
        if field is None:
            yield Finding(f"{what} column {name!r} does not exist")
        elif field.type.root in _NO_KEYS:
            yield Finding(f"the type {field.type.root} is not allowed in a {what}: {name}")


@rule("PMS006", ERROR, "Partition keys are plain columns", of=Schema)
def partition_keys_are_columns(one: Schema) -> Iterator[Finding]:
    """Each partition key is a column, named once, of a type without others in it.

    Why: Paimon refuses the table.
    Fix: partition keys cannot be changed; make the table anew, or restore the schema.
    """
    yield from _bad_keys(one, one.schema.partition_keys, "partition key")


@rule("PMS007", ERROR, "Primary keys are plain columns", of=Schema)
def primary_keys_are_columns(one: Schema) -> Iterator[Finding]:
    """Each primary key is a column, named once, of a type without others in it.

    Why: Paimon refuses the table.
    Fix: primary keys cannot be changed; make the table anew, or restore the schema.
    """
    yield from _bad_keys(one, one.schema.primary_keys, "primary key")


@rule("PMS008", ERROR, "Primary key columns are NOT NULL", of=Schema)
def primary_keys_are_not_null(one: Schema) -> Iterator[Finding]:
    """A column of the primary key is NOT NULL, unless `primary-key.nullable` is true.

    Why: Paimon makes it so when it writes the next version: readers see another type by then.
    Fix: change anything with `deltacli paimon alter`, which makes it NOT NULL as Paimon does.
    """
    if one.options["primary-key.nullable"]:
        return
    for name in dict.fromkeys(one.schema.primary_keys):
        field = one.schema.by_name.get(name)
        if field is not None and field.type.nullable:
            yield Finding(f"primary key column {name} is nullable")


@rule("PMS009", ERROR, "A primary key is more than the partition", of=Schema)
def primary_key_is_more_than_the_partition(one: Schema) -> Iterator[Finding]:
    """The primary key has a column that is no partition key.

    Why: without one each partition holds one row; Paimon cannot even read the schema.
    Fix: make the table anew with another key, or restore the schema.
    """
    keys = one.schema.primary_keys
    if keys and set(keys) <= set(one.schema.partition_keys):
        yield Finding(
            f"the primary key ({', '.join(keys)}) has no column outside the partition keys"
        )


@rule("PMS010", WARNING, "A default is a value of its column", of=Schema)
def defaults_are_values(one: Schema) -> Iterator[Finding]:
    """The text of a default can be read as the column's type.

    Why: writers that leave the column out fail.
    Fix: set another default, or none.
    """
    for path, field in walk_fields(one.schema.fields):
        problem = default_problem(field.type, field.default)
        if problem:
            yield Finding(f"{'.'.join(path)}: {problem}")
