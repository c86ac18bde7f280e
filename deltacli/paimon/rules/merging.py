"""Rules about how rows of one key become one: order, groups, aggregations, changelogs (facts 3)."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.checking.model import ERROR, Finding, rule
from deltacli.paimon.options import columns_of
from deltacli.paimon.subjects import Schema
from deltacli.paimon.types import Row

_AGGREGATIONS = frozenset((
    "bool_and", "bool_or", "collect", "first_non_null_value", "first_not_null_value",
    "first_value", "hll_sketch", "last_non_null_value", "last_value", "listagg", "max",
    "merge_map", "merge_map_with_keytime", "min", "nested_partial_update", "nested_update",
    "primary-key", "product", "rbm32", "rbm64", "sum", "theta_sketch",
))  # fmt: skip


@rule("PMO004", ERROR, "sequence.field names columns that order rows", of=Schema)
def sequence_field_fits(one: Schema) -> Iterator[Finding]:
    """`sequence.field` names columns, each once, none of them aggregated.

    Why: Paimon refuses the table.
    Fix: set the option to columns that are there, or remove it.
    """
    schema, names = one.schema, one.options.sequence_fields()
    for name in one.missing(names):
        yield Finding(f"sequence.field column {name!r} does not exist")
    for name in dict.fromkeys(names):
        if f"fields.{name}.aggregate-function" in one.options.texts:
            yield Finding(f"sequence.field {name} is aggregated")
        if names.count(name) > 1:
            yield Finding(f"sequence.field names {name} twice")
    if names and one.options["merge-engine"] == "first-row":
        yield Finding("sequence.field does not go with merge-engine first-row")
    crosses = schema.primary_keys and not set(schema.partition_keys) <= set(schema.primary_keys)
    if names and crosses:
        yield Finding(
            "sequence.field needs a primary key with all partition keys: "
            f"{', '.join(schema.partition_keys)}"
        )


@rule("PMO005", ERROR, "fields.… options name columns", of=Schema)
def fields_options_name_columns(one: Schema) -> Iterator[Finding]:
    """The columns in the keys and values of `fields.<columns>.…` exist.

    Why: Paimon refuses the table.
    Fix: set the option for the column's new name, or remove it.
    """
    for key, value in one.options.texts.items():
        names = columns_of(key)
        if names is None:
            continue
        for name in one.missing(names):
            yield Finding(f"{key} names the column {name!r}, which does not exist")
        parts = key.split(".")
        column = one.schema.by_name.get(parts[1]) if len(parts) > 3 else None
        if column is not None and isinstance(column.type, Row):
            yield Finding(f"{key}: options of nested fields are not read by Paimon")
        if key.endswith(".sequence-group"):
            yield from _sequence_group(one, key, value)
    _, ordered = _groups(one)
    if one.options["merge-engine"] == "partial-update":
        for name in dict.fromkeys(ordered):
            if ordered.count(name) > 1:
                yield Finding(f"{name} is in more than one sequence-group")


def _sequence_group(one: Schema, key: str, value: str) -> Iterator[Finding]:
    if one.options["merge-engine"] != "partial-update" or not one.schema.primary_keys:
        return
    for name in one.missing(value.split(",")):
        yield Finding(f"{key} names the column {name!r}, which does not exist")
    for name in (*value.split(","), *key.split(".")[1].split(",")):
        if name in one.schema.primary_keys:
            yield Finding(f"{key} names {name} of the primary key")


@rule("PMO006", ERROR, "changelog-producer fits the table", of=Schema)
def changelog_producer_fits(one: Schema) -> Iterator[Finding]:
    """A changelog is produced for tables with a primary key, by a way that their engine has.

    Why: Paimon refuses the table.
    Fix: set `changelog-producer` to one that fits, or remove it.
    """
    options, producer = one.options, one.options["changelog-producer"]
    if producer != "none" and not one.schema.primary_keys:
        yield Finding(f"changelog-producer {producer} needs a primary key")
    if options["merge-engine"] == "first-row" and producer not in ("none", "lookup"):
        yield Finding(f"changelog-producer {producer} does not go with merge-engine first-row")
    if options["deletion-vectors.enabled"] and producer == "full-compaction":
        yield Finding(f"changelog-producer {producer} does not go with deletion vectors")
    if options["full-compaction.delta-commits"] is not None and producer == "lookup":
        yield Finding("full-compaction.delta-commits does not go with changelog-producer lookup")
    if options["streaming-read-overwrite"]:
        if producer in ("full-compaction", "lookup"):
            yield Finding(f"streaming-read-overwrite does not go with {producer}")
        if not one.schema.primary_keys:
            yield Finding("streaming-read-overwrite needs a primary key")


@rule("PMO013", ERROR, "Aggregations are known", of=Schema)
def aggregations_are_known(one: Schema) -> Iterator[Finding]:
    """Each aggregate function is one of Paimon's.

    Why: Paimon refuses the table.
    Fix: set another function for the column.
    """
    if not one.schema.primary_keys or one.options["merge-engine"] in ("deduplicate", "first-row"):
        return
    for key, name in one.options.texts.items():
        is_function = key.startswith("fields.") and key.endswith("aggregate-function")
        if is_function and name not in _AGGREGATIONS:
            yield Finding(f"{key} = {name}: there is no such aggregation")
    if one.options["merge-engine"] == "partial-update":
        yield from _without_group(one)


def _without_group(one: Schema) -> Iterator[Finding]:
    """Columns that partial updates aggregate although nothing orders them."""
    texts = one.options.texts
    default = texts.get("fields.default-aggregate-function")
    ordering, ordered = _groups(one)
    free = {*one.schema.primary_keys, *ordering, *ordered}
    for name in one.schema.names:
        function = texts.get(f"fields.{name}.aggregate-function", default)
        if name not in free and function not in (None, "last_non_null_value"):
            yield Finding(f"{name} is aggregated by {function}, and no sequence-group has it")


def _groups(one: Schema) -> tuple[list[str], list[str]]:
    """The columns that order others, and those others, over all groups."""
    ordering: list[str] = []
    ordered: list[str] = []
    for key, value in one.options.texts.items():
        if key.startswith("fields.") and key.endswith(".sequence-group"):
            ordering += columns_of(key) or []
            ordered += value.split(",")
    return ordering, ordered


@rule("PMO020", ERROR, "Options of partial updates go together", of=Schema)
def partial_updates_go_together(one: Schema) -> Iterator[Finding]:
    """What removes records of partial updates fits their sequence groups, and one another.

    Why: Paimon refuses the table.
    Fix: remove one of the options that the finding names.
    """
    options = one.options
    if options["merge-engine"] != "partial-update" or not one.schema.primary_keys:
        return
    removes = options["partial-update.remove-record-on-delete"]
    group = options["partial-update.remove-record-on-sequence-group"]
    ordering, _ = _groups(one)
    checks = (
        (
            removes and options["ignore-delete"],
            "partial-update.remove-record-on-delete does not go with ignore-delete",
        ),
        (
            removes and bool(ordering),
            "partial-update.remove-record-on-delete does not go with sequence-group",
        ),
        (
            group is not None and options["ignore-delete"],
            "partial-update.remove-record-on-sequence-group does not go with ignore-delete",
        ),
        (
            group is not None and not set(group.split(",")) <= set(ordering),
            "partial-update.remove-record-on-sequence-group names columns of no sequence-group",
        ),
    )
    for holds, message in checks:
        if holds:
            yield Finding(message)
