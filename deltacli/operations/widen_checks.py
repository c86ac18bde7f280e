"""What forbids a change of type: each reason with its own words (facts 8.2)."""

from __future__ import annotations

from deltacli.delta import json_text
from deltacli.delta.column_paths import Place, Tree, fields_of
from deltacli.delta.engine import FileBatch
from deltacli.delta.partitions import (
    logical_partition_values,
    partition_value,
    physical_partition_columns,
)
from deltacli.delta.references import speaks_of
from deltacli.delta.schema import LENGTHS, Primitive
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.widening import is_allowed, is_for_iceberg, smallest_decimal, targets_of
from deltacli.errors import Refused

_CONSTRAINT = "delta.constraints."
_GENERATED = "delta.generationExpression"
_INVARIANTS = "delta.invariants"
_IDENTITY = "delta.identity."
_ICEBERG = ("icebergCompatV1", "icebergCompatV2", "icebergCompatV3")


def check_change(snapshot: Snapshot, tree: Tree, place: Place, target: str) -> None:
    for path, field in fields_of(tree):
        if place.names[: len(path)] == path:
            _check_column(place, field.get("metadata") or {})
    iceberg = [one for one in _ICEBERG if one in snapshot.features]
    if iceberg and not is_for_iceberg(place.type, target):
        raise Refused(
            f"{place.text}: {place.type} to {target} is not possible with {iceberg[0]}",
            hint="Iceberg's readers know only wider integers, float to double and more digits "
            "before a decimal's point",
        )
    _check_references(snapshot, tree, place)
    _check_partition_values(snapshot, place, target)


def check_matrix(place: Place, target: str) -> None:
    source = place.type
    if is_allowed(source, target):
        return
    smallest = smallest_decimal(source, target)
    if smallest is not None and smallest != source:
        raise Refused(
            f"{place.text}: {target} does not take in every {source}",
            hint=f"the smallest that does is {smallest}",
        )
    options = targets_of(source)
    raise Refused(
        f"{place.text}: {source} cannot be widened to {target}",
        hint=f"{source} may become {', '.join(options)}"
        if options
        else f"no type is wider than {source}",
    )


def _check_column(place: Place, metadata: Tree) -> None:
    """What a column, or one around it, says of itself."""
    if any(key.startswith(_IDENTITY) for key in metadata):
        raise Refused(
            f"{place.text} is an identity column: its type is long for good",
            hint="widen another column",
        )
    if _GENERATED in metadata:
        raise Refused(
            f"{place.text} is a generated column: {metadata[_GENERATED]}",
            hint="its type follows from its expression",
        )
    if LENGTHS in metadata:
        raise Refused(
            f"{place.text} is {metadata[LENGTHS]}: texts are not widened",
            hint="change its length with an engine",
        )
    if _INVARIANTS in metadata:
        raise Refused(
            f"{place.text} has an invariant: {metadata[_INVARIANTS]}",
            hint="drop it first with an engine; it was written for the old type",
        )


def _check_references(snapshot: Snapshot, tree: Tree, place: Place) -> None:
    """Expressions were written for the old type (W-15 … W-17)."""
    column = place.names
    known = {one["name"].lower() for one in tree["fields"]}
    for key, expression in snapshot.metadata.configuration.items():
        if key.lower().startswith(_CONSTRAINT) and speaks_of(expression, column, known):
            raise Refused(
                f"{place.text} is used by the constraint {key[len(_CONSTRAINT) :]}: {expression}",
                hint="drop the constraint, widen, and add it again",
            )
    for path, field in fields_of(tree):
        metadata = field.get("metadata") or {}
        name = ".".join(path)
        generated = metadata.get(_GENERATED)
        if isinstance(generated, str) and speaks_of(generated, column, known):
            raise Refused(
                f"{place.text} is used by the generated column {name}: {generated}",
                hint="columns that others are generated from keep their type",
            )
        invariant = metadata.get(_INVARIANTS)
        if isinstance(invariant, str) and speaks_of(_expression_of(invariant), column, known):
            raise Refused(
                f"{place.text} is used by the invariant of {name}: {_expression_of(invariant)}",
                hint="drop it first with an engine",
            )


def _expression_of(invariant: str) -> str:
    """An invariant is an expression inside JSON inside JSON."""
    try:
        tree = json_text.load(invariant)
        return str(tree["expression"]["expression"])
    except (ValueError, KeyError, TypeError):
        return invariant


def _check_partition_values(snapshot: Snapshot, place: Place, target: str) -> None:
    """The log's texts are read as the new type from now on (W-22)."""
    if len(place.names) != 1 or place.names[0] not in snapshot.metadata.partition_columns:
        return
    (name,) = place.names
    columns = snapshot.metadata.partition_columns
    physical = physical_partition_columns(columns, snapshot.mapped_schema)
    seen: set[str] = set()
    for item in snapshot.files("add", ("path", "partitionValues")):
        rows = (
            item.columns.column("partitionValues").to_pylist()
            if isinstance(item, FileBatch)
            else [item.get("partitionValues")]
        )
        for values in rows:
            text = logical_partition_values(dict(values or {}), physical).get(name)
            if text is None or text in seen:
                continue
            seen.add(text)
            try:
                partition_value(text, Primitive(target))
            except ValueError as error:
                raise Refused(
                    f"{place.text} is a partition column with the value {error}",
                    hint="such a table must be mended first",
                ) from None
