"""The columns of checkpoints: their types, and what is in those of statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from deltacli.checking.model import ERROR, WARNING, Finding, rule
from deltacli.validate.checkpoints import Reading
from deltacli.validate.stats_structs import ParsedAdds

_INTS = {
    "size": "int64",
    "modificationTime": "int64",
    "deletionTimestamp": "int64",
    "baseRowId": "int64",
    "defaultRowCommitVersion": "int64",
    "version": "int64",
    "lastUpdated": "int64",
    "createdTime": "int64",
    "minReaderVersion": "int32",
    "minWriterVersion": "int32",
    "sizeInBytes": "",
    "offset": "int32",
    "cardinality": "int64",
}


@rule("CKP014", WARNING, "A checkpoint keeps statistics", of=Reading)
def a_checkpoint_keeps_statistics(reading: Reading) -> Iterator[Finding]:
    """Where commits had statistics, the checkpoint has them, as text or as columns.

    Why: readers can skip no file any more.
    Fix: `deltacli checkpoint TABLE --force --stats both`.
    """
    state = reading.state
    had_stats = state is not None and state.sums.with_stats > 0
    if had_stats and reading.is_readable and reading.counts["add"] and not reading.with_stats:
        yield Finding("all statistics are lost")


@rule("CKP015", WARNING, "A checkpoint has the statistics that the table asks for", of=Reading)
def a_checkpoint_has_the_asked_statistics(reading: Reading) -> Iterator[Finding]:
    """Texts and columns of statistics are there as delta.checkpoint.writeStatsAs… say.

    Why: readers rely on one or the other, and checkpoints are larger than need be.
    Fix: `deltacli checkpoint TABLE --force`.
    """
    definition = reading.definition
    if not reading.is_readable or not reading.counts["add"] or not reading.schemas:
        return
    as_json = definition.setting("delta.checkpoint.writeStatsAsJson")
    as_struct = definition.setting("delta.checkpoint.writeStatsAsStruct")
    if not as_json and reading.counts["add stats"]:
        yield Finding("delta.checkpoint.writeStatsAsJson is false, and there are texts")
    names = {name for schema in reading.schemas.values() for name in _field_names(schema, "add")}
    if as_struct and definition.partition_columns and "partitionValues_parsed" not in names:
        yield Finding(
            "delta.checkpoint.writeStatsAsStruct is true, and there is no partitionValues_parsed"
        )


@rule("CKP016", ERROR, "Typed columns say what the texts say", of=ParsedAdds)
def typed_columns_agree(parsed: ParsedAdds) -> Iterator[Finding]:
    """stats_parsed and partitionValues_parsed have the values of stats and partitionValues.

    Why: readers that take the one see other files than those that take the other.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    for path, what in parsed.differing_stats():
        yield Finding(f"statistics as text and as columns differ: {what}", path=path)
    for path, what in parsed.differing_partitions():
        yield Finding(f"partition values as text and as columns differ: {what}", path=path)


@rule("CKP017", ERROR, "Typed columns go by physical names", of=Reading)
def typed_columns_go_by_physical_names(reading: Reading) -> Iterator[Finding]:
    """With column mapping, stats_parsed and partitionValues_parsed have physical names.

    Why: readers find no statistics, or those of another column.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    definition = reading.definition
    if not definition.is_mapped or definition.schema is None:
        return
    physical = {one.physical_name for one in definition.schema.fields}
    logical = {one.name for one in definition.schema.fields} - physical
    for path, schema in reading.schemas.items():
        wrong = sorted({name for name in _parsed_names(schema) if name in logical})
        if wrong:
            yield Finding(f"typed columns have the logical names {', '.join(wrong)}", file=path)


def _parsed_names(schema: Any) -> Iterator[str]:
    """The names of the table's columns in the typed columns of a file."""
    if "add" not in schema.names:
        return
    for one in schema.field("add").type:
        if one.name == "partitionValues_parsed":
            yield from (inner.name for inner in one.type)
        elif one.name == "stats_parsed":
            for kind in one.type:
                if pa.types.is_struct(kind.type):
                    yield from (inner.name for inner in kind.type)


@rule("CKP027", WARNING, "Checkpoints have the protocol's types", of=Reading)
def checkpoints_have_the_protocols_types(reading: Reading) -> Iterator[Finding]:
    """The columns of a checkpoint have the Parquet types that the protocol gives them.

    Why: strict readers refuse other types.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    for path, schema in reading.schemas.items():
        for top in schema:
            if top.name in _ACTIONS and pa.types.is_struct(top.type):
                for name, kind in _odd_types(top.type, top.name):
                    yield Finding(f"{name} is {kind}", file=path)
            elif top.name in _ACTIONS:
                yield Finding(f"{top.name} is {top.type}, no struct", file=path)


_ACTIONS = (
    "add",
    "remove",
    "metaData",
    "protocol",
    "txn",
    "domainMetadata",
    "sidecar",
    "checkpointMetadata",
)


def _odd_types(struct: Any, above: str) -> Iterator[tuple[str, str]]:
    for one in struct:
        name = f"{above}.{one.name}"
        if one.name.endswith("_parsed"):
            continue
        expected = _INTS.get(one.name)
        if pa.types.is_struct(one.type):
            yield from _odd_types(one.type, name)
        elif expected == "":
            if not pa.types.is_integer(one.type):
                yield name, str(one.type)
        elif expected is not None:
            if str(one.type) != expected:
                yield name, str(one.type)
        elif pa.types.is_large_string(one.type) or pa.types.is_large_binary(one.type):
            continue  # only how Arrow's writers call them
        elif one.name in ("path", "stats", "id", "schemaString", "domain") and not (
            pa.types.is_string(one.type)
        ):
            yield name, str(one.type)


def _field_names(schema: Any, action: str) -> Iterator[str]:
    if action in schema.names and pa.types.is_struct(schema.field(action).type):
        yield from (one.name for one in schema.field(action).type)
