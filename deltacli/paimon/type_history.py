"""The changes of types in a history of schemas, as Delta tells them (facts 6)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from deltacli.delta.widening import is_allowed
from deltacli.paimon.casts import TypeStep, type_steps
from deltacli.paimon.losses import Losses
from deltacli.paimon.schema_file import TableSchema
from deltacli.paimon.spark_types import delta_name
from deltacli.paimon.types import (
    Atomic,
    DataType,
    Multiset,
    inner_types,
    sql_text,
    walk_fields,
)


def type_history(
    versions: Sequence[TableSchema], losses: Losses
) -> dict[int, list[dict[str, str]]]:
    """The changes that Delta can tell, by the field that they are of.

    A change that it cannot tell hides those before it: nobody could read so old a file.
    """
    found: dict[tuple[int, tuple[str, ...]], list[dict[str, str]]] = {}
    for before, after in pairwise(versions):
        for step in type_steps(before.fields, after.fields):
            if not step.changes_type:
                continue
            source, target = _name(step.old), _name(step.new)
            if source and target and source == target:
                continue
            if source and target and is_allowed(source, target):
                entry = {"fromType": source, "toType": target}
                found.setdefault((step.field_id, step.inner), []).append(entry)
                continue
            found = {key: told for key, told in found.items() if not _is_within(key, step)}
            losses.add(
                step.path[0],
                f"that it was {sql_text(step.old)} before schema {after.id}: files of then "
                "have to be rewritten for Delta",
            )
    types = {one.id: one.type for _, one in walk_fields(versions[-1].fields)}
    history: dict[int, list[dict[str, str]]] = {}
    for (field_id, inner), entries in found.items():
        if field_id not in types:
            continue
        path = _delta_path(types[field_id], inner)
        for entry in entries:
            told = {**entry, "fieldPath": path} if path else entry
            history.setdefault(field_id, []).append(told)
    return history


def _is_within(key: tuple[int, tuple[str, ...]], step: TypeStep) -> bool:
    field_id, inner = key
    return field_id == step.field_id and inner[: len(step.inner)] == step.inner


def _name(kind: DataType) -> str | None:
    return delta_name(kind) if isinstance(kind, Atomic) else None


def _delta_path(kind: DataType, steps: tuple[str, ...]) -> str:
    """A place within a type as Delta names it: a MULTISET is a map from its elements."""
    found = []
    for step in steps:
        found.append("key" if isinstance(kind, Multiset) else step)
        kind = dict(inner_types(kind))[step]
    return ".".join(found)
