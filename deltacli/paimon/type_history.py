"""The changes of types in a history of schemas, as Delta tells them (facts 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from deltacli.delta.widening import is_allowed
from deltacli.paimon.losses import Losses
from deltacli.paimon.schema_file import TableSchema
from deltacli.paimon.spark_types import delta_name
from deltacli.paimon.types import (
    Atomic,
    DataType,
    Multiset,
    Row,
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
    found: dict[tuple[int, str], list[dict[str, str]]] = {}
    for before, after in pairwise(versions):
        older = {one.id: one.type for one in before.fields}
        for one in (one for one in after.fields if one.id in older):
            for key, old, new in _changes_within(older[one.id], one.type, (), one.id):
                source, target = delta_name(old), delta_name(new)
                if source == target:
                    continue
                if source and target and is_allowed(source, target):
                    entry = {"fromType": source, "toType": target}
                    found.setdefault(key, []).append(entry)
                else:
                    found[key] = []
                    losses.add(
                        one.name,
                        f"that it was {sql_text(old)} before schema {after.id}: files of then "
                        "have to be rewritten for Delta",
                    )
    ids = {one.id for _, one in walk_fields(versions[-1].fields)}
    history: dict[int, list[dict[str, str]]] = {}
    for (field_id, path), entries in found.items():
        for entry in entries if field_id in ids else ():
            told = {**entry, "fieldPath": path} if path else entry
            history.setdefault(field_id, []).append(told)
    return history


def _changes_within(
    old: DataType, new: DataType, path: tuple[str, ...], field_id: int
) -> Iterator[tuple[tuple[int, str], Atomic, Atomic]]:
    """Atomic types that differ: the field and the path within it, with both types."""
    if isinstance(old, Row) and isinstance(new, Row):
        known = {one.id: one.type for one in old.fields}
        for one in new.fields:
            if one.id in known:
                yield from _changes_within(known[one.id], one.type, (), one.id)
    elif isinstance(old, Atomic) and isinstance(new, Atomic):
        if replace(old, nullable=True) != replace(new, nullable=True):
            yield (field_id, ".".join(path)), old, new
    elif old.root == new.root:
        for (step, before), (_, after) in zip(inner_types(old), inner_types(new), strict=True):
            # A MULTISET is a map from its elements.
            step = "key" if isinstance(old, Multiset) else step
            yield from _changes_within(before, after, (*path, step), field_id)
