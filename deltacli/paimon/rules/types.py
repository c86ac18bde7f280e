"""Rules about field ids and types. Paimon itself checks none of them."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.checking.model import ERROR, Finding, rule
from deltacli.paimon.subjects import Schema
from deltacli.paimon.types import FIRST_SYSTEM_ID, Map, walk_types


@rule("PMT001", ERROR, "The key of a MAP is NOT NULL", of=Schema)
def map_keys_are_not_null(one: Schema) -> Iterator[Finding]:
    """The key type of each MAP is NOT NULL.

    Why: the schema specification asks for it, and readers in C++ refuse shared maps without it.
    Java and pypaimon take nullable keys, so tables that Flink made have them.
    Fix: readers in Java and Python need nothing; pass over it with --ignore PMT001 (of `paimon
    validate` also --allow-nullable-map-keys).
    """
    for path, kind in walk_types(one.schema.fields):
        if isinstance(kind, Map) and kind.key.nullable:
            yield Finding(f"MAP key must be NOT NULL ({'.'.join(path)})")


@rule("PMT002", ERROR, "A field id is used once", of=Schema)
def field_ids_are_unique(one: Schema) -> Iterator[Finding]:
    """No two fields of a schema have one id, nested ones included.

    Why: old files are read by ids: one column would get the values of another.
    Fix: restore the schema from a backup; no change can mend it.
    """
    for field_id, places in one.ids.items():
        if len(places) > 1:
            yield Finding(f"field id {field_id} is used {_times(len(places))}: {', '.join(places)}")


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"


@rule("PMT003", ERROR, "No field id is above highestFieldId", of=Schema)
def ids_are_not_above_the_highest(one: Schema) -> Iterator[Finding]:
    """`highestFieldId` is at least as high as each id of a user's field.

    Why: the next added column would get an id that is in use.
    Fix: write the right highestFieldId into the file, before anybody adds a column.
    """
    highest = max((one_id for one_id in one.ids if one_id < FIRST_SYSTEM_ID), default=-1)
    if highest > one.schema.highest_field_id:
        yield Finding(
            f"a field id ({highest}) is above highestFieldId ({one.schema.highest_field_id}): "
            "the next added column would reuse an id"
        )


@rule("PMT004", ERROR, "A field id is one of a user's", of=Schema)
def ids_are_in_range(one: Schema) -> Iterator[Finding]:
    """Each field id is between 0 and 1073741822.

    Why: ids from 1073741823 on are those of system columns.
    Fix: restore the schema from a backup.
    """
    for field_id, places in one.ids.items():
        if not 0 <= field_id < FIRST_SYSTEM_ID:
            yield Finding(f"{places[0]}: the field id {field_id} is outside 0..1073741822")
