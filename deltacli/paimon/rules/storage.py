"""Rules about how columns are stored: formats of files, indexes, layouts of maps (facts 3)."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.checking.model import ERROR, WARNING, Finding, rule
from deltacli.paimon.subjects import Schema
from deltacli.paimon.types import (
    Atomic,
    DataType,
    Map,
    contains_root,
    inner_types,
    sql_text,
)

_GEO = ("GEOMETRY", "GEOGRAPHY")
_NESTED = ("ARRAY", "MAP", "MULTISET", "ROW", "VECTOR")
# The types that files of a format cannot hold, at any depth.
_NOT_IN = {
    "parquet": (),
    "orc": ("VARIANT", "VECTOR", *_GEO),
    "avro": ("VARIANT", *_GEO),
    "csv": ("VARIANT", *_NESTED, *_GEO),
    "json": ("VARIANT", "MULTISET", *_GEO),
    "row": _GEO,
}
# Formats for tables of one column.
_SINGLE = {"text": ("CHAR", "VARCHAR"), "blob": ("BLOB",)}
# Avro keeps so many digits of a second, and of a time of day.
_AVRO_DIGITS = {"TIMESTAMP": 6, "TIMESTAMP_LTZ": 6, "TIME": 3}


@rule("PMO015", ERROR, "Files can hold every column", of=Schema)
def files_can_hold_every_column(one: Schema) -> Iterator[Finding]:
    """The format in `file.format` has all types of the table.

    Why: Paimon refuses the table. Old tables are of orc where they say nothing.
    Fix: set `file.format` to parquet; files that are there keep their format.
    """
    name = one.options["file.format"].strip().lower()
    if not name:
        yield Finding("file.format is empty")
        return
    stored = [field for field in one.schema.fields if not _lies_apart(one, field.type)]
    if name in _SINGLE and (len(stored) != 1 or stored[0].type.root not in _SINGLE[name]):
        yield Finding(f"{name} files hold one column of {' or '.join(_SINGLE[name])}")
    for field in stored if name in _NOT_IN else ():
        misfit = _misfit(name, field.type)
        if misfit is not None:
            yield Finding(f"{field.name}: {name} files cannot hold {misfit}")


def _lies_apart(one: Schema, kind: DataType) -> bool:
    """Whether the values of a column are in files of another kind."""
    return contains_root(kind, "BLOB") or (
        kind.root == "VECTOR" and "vector.file.format" in one.options.texts
    )


def _misfit(name: str, kind: DataType) -> str | None:
    if kind.root in _NOT_IN[name]:
        return kind.root
    if name == "avro" and isinstance(kind, Atomic) and kind.root in _AVRO_DIGITS:
        return sql_text(kind) if kind.length > _AVRO_DIGITS[kind.root] else None
    return next((found for _, inner in inner_types(kind) if (found := _misfit(name, inner))), None)


@rule("PMO017", WARNING, "The format of files is known", of=Schema)
def format_is_known(one: Schema) -> Iterator[Finding]:
    """`file.format` is one of those that come with Paimon.

    Why: another one needs a plug-in in every job; perhaps it is a slip of the pen.
    Fix: set `file.format` to parquet, orc or avro.
    """
    name = one.options["file.format"].strip().lower()
    if name and name not in _NOT_IN and name not in _SINGLE:
        yield Finding(f"file.format {name} does not come with Paimon")


_UNINDEXED = ("VARIANT", *_NESTED, *_GEO, "BLOB")
_NO_INDEX = {
    "bloom-filter": ("BOOLEAN", "DECIMAL"),
    "bitmap": ("BINARY", "VARBINARY", "DECIMAL"),
    "bsi": ("BOOLEAN", "FLOAT", "DOUBLE", "CHAR", "VARCHAR", "BINARY", "VARBINARY"),
    "range-bitmap": ("BINARY", "VARBINARY"),
}


@rule("PMO018", ERROR, "File indexes fit their columns", of=Schema)
def indexes_fit_their_columns(one: Schema) -> Iterator[Finding]:
    """`file-index.<kind>.columns` names columns that are there, of types that the index has.

    Why: Paimon refuses the table. A rename does not change these options.
    Fix: set the option to columns that fit, or remove it.
    """
    for key in one.options.texts:
        if not key.startswith("file-index.") or not key.endswith(".columns"):
            continue
        index = key.removeprefix("file-index.").removesuffix(".columns")
        for name in one.options.trimmed_columns(key):
            # `m[key]` is a value in a MAP.
            column, bracket, _ = name.partition("[")
            field = one.schema.by_name.get(column)
            if field is None:
                yield Finding(f"{key} names the column {column!r}, which does not exist")
                continue
            kind: DataType = field.type
            if bracket:
                if not isinstance(kind, Map) or kind.key.root not in ("CHAR", "VARCHAR"):
                    yield Finding(f"{key} names {name}, and {column} is no MAP by texts")
                    continue
                kind = kind.value
            if _is_unindexed(index, kind):
                yield Finding(f"{key} names {name}, and has no index for {sql_text(kind)}")


def _is_unindexed(index: str, kind: DataType) -> bool:
    if kind.root in _UNINDEXED or kind.root in _NO_INDEX.get(index, ()):
        return True
    if index != "range-bitmap" or not isinstance(kind, Atomic):
        return False
    is_long = kind.root == "DECIMAL" and kind.length > 18
    return is_long or (kind.root.startswith("TIMESTAMP") and kind.length > 6)


@rule("PMO019", ERROR, "Layouts are of maps", of=Schema)
def layouts_are_of_maps(one: Schema) -> Iterator[Finding]:
    """`fields.<column>.map.storage-layout` is that of a MAP; shared shredding needs more.

    Why: Paimon refuses the table.
    Fix: remove the option, or set it to default.
    """
    suffix = ".map.storage-layout"
    for key, layout in one.options.texts.items():
        if not key.startswith("fields.") or not key.endswith(suffix):
            continue
        name = key.removeprefix("fields.").removesuffix(suffix)
        field = one.schema.by_name.get(name)
        # That there is no such column is told of all such options.
        if field is not None and not isinstance(field.type, Map):
            yield Finding(f"{key}: {name} is no MAP")
        elif layout.lower() not in ("default", "shared-shredding"):
            yield Finding(f"{key} = {layout}: there is no such layout")
        elif field is not None and layout.lower() == "shared-shredding":
            yield from _shredding(one, name, field.type)


def _shredding(one: Schema, name: str, kind: DataType) -> Iterator[Finding]:
    assert isinstance(kind, Map)
    if kind.key.root != "VARCHAR" or kind.key.nullable:
        yield Finding(f"{name}: shared shredding needs keys of STRING NOT NULL")
    if contains_root(kind.value, "BLOB", "VECTOR"):
        yield Finding(f"{name}: shared shredding does not go with BLOB and VECTOR")
    if any(contains_root(field.type, "VARIANT", "MULTISET") for field in one.schema.fields):
        yield Finding(f"{name}: shared shredding does not go with VARIANT and MULTISET columns")
    if one.options["file.format"].lower() not in ("parquet", "orc"):
        yield Finding(f"{name}: shared shredding needs files of parquet or orc")
    if one.options["bucket"] == -2:
        yield Finding(f"{name}: shared shredding does not go with postponed buckets")
