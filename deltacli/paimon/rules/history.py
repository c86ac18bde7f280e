"""Rules about one version of a schema and the one before it (facts 3, 4)."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.checking.model import ERROR, WARNING, Finding, rule
from deltacli.paimon.casts import TypeStep, cast_of, loss_of, type_steps
from deltacli.paimon.schema_file import TableSchema
from deltacli.paimon.subjects import Step
from deltacli.paimon.types import outermost, sql_text


def _key_ids(schema: TableSchema, names: tuple[str, ...]) -> list[int | str]:
    """Key columns by their ids: a rename changes nothing."""
    return [schema.by_name[name].id if name in schema.by_name else name for name in names]


@rule("PMH001", ERROR, "The primary key stays the same", of=Step)
def primary_key_stays(step: Step) -> Iterator[Finding]:
    """From one version to the next the primary key is the same columns, in the same order.

    Why: files are sorted and merged by it.
    Fix: restore the schema; a new key needs a new table.
    """
    old, new = step.before, step.after
    changed = _key_ids(old, old.primary_keys) != _key_ids(new, new.primary_keys)
    if changed and new.primary_keys:
        yield Finding(f"primaryKeys differ between schema-{step.before_id} and schema-{new.id}")


@rule("PMH002", WARNING, "The primary key is not taken away", of=Step)
def primary_key_is_not_taken_away(step: Step) -> Iterator[Finding]:
    """A table with a primary key keeps one.

    Why: it may be dropped only while the table is empty; files of one kind cannot be read as
    the other.
    Fix: nothing if the table was empty; restore the schema otherwise.
    """
    if step.before.primary_keys and not step.after.primary_keys:
        yield Finding("primary key removed: only legal while the table is empty")


@rule("PMH003", ERROR, "The partition keys stay the same", of=Step)
def partition_keys_stay(step: Step) -> Iterator[Finding]:
    """From one version to the next the partition keys are the same, and so are their names.

    Why: folders and manifests are made of them.
    Fix: restore the schema; other partitions need a new table.
    """
    if step.before.partition_keys != step.after.partition_keys:
        yield Finding(
            f"partitionKeys differ between schema-{step.before_id} and schema-{step.after.id}"
        )


@rule("PMH004", ERROR, "A dropped field id does not come back", of=Step)
def ids_do_not_come_back(step: Step) -> Iterator[Finding]:
    """A field that is added gets an id that no field before it had.

    Why: the values of the dropped column come back to life in the new one.
    Fix: restore the schema from before the column was added, and add it with Paimon.
    """
    for field_id, (path, _) in step.after.by_id.items():
        if field_id not in step.before.by_id and field_id in step.dropped:
            yield Finding(
                f"field id {field_id} was dropped in schema-{step.dropped[field_id]} and comes "
                f"back in schema-{step.version} as {path}"
            )


@rule("PMH005", ERROR, "highestFieldId never falls", of=Step)
def highest_id_never_falls(step: Step) -> Iterator[Finding]:
    """`highestFieldId` is at least that of the version before.

    Why: added columns would get ids of dropped ones, and their values with them.
    Fix: restore the schema, or write the right number into the newest file.
    """
    old, new = step.before.highest_field_id, step.after.highest_field_id
    if new < old:
        yield Finding(f"highestFieldId falls from {old} to {new}")


def _new_types(step: Step) -> Iterator[TypeStep]:
    steps = type_steps(step.before.fields, step.after.fields)
    return (one for one in steps if one.changes_type)


@rule("PMH006", ERROR, "A type became one that it can become", of=Step)
def types_step_possibly(step: Step) -> Iterator[Finding]:
    """A type differs from that of the version before only as Paimon allows it.

    Why: files with the old type cannot be read as the new one.
    Fix: restore the schema, and add a new column instead.
    """
    for one in _new_types(step):
        if cast_of(one.old, one.new) is None:
            yield Finding(f"{_told(one)} is not a possible type update")


@rule("PMH007", WARNING, "A new type keeps all values", of=Step)
def types_keep_values(step: Step) -> Iterator[Finding]:
    """A type is changed only to one that takes in all values of the old one.

    Why: old files are read as the new type; some of their values may not survive it.
    Fix: change the type back if old rows count.
    """
    for one in _new_types(step):
        loss = loss_of(one.old, one.new)
        if loss and cast_of(one.old, one.new) is not None:
            yield Finding(f"{_told(one)} can lose values: {loss}")


def _told(one: TypeStep) -> str:
    return f"{one.place}: {sql_text(one.old)} -> {sql_text(one.new)}"


@rule("PMH008", ERROR, "An added column is nullable", of=Step)
def added_columns_are_nullable(step: Step) -> Iterator[Finding]:
    """A column or nested field that is added may be null.

    Why: old rows have no value for it.
    Fix: make it nullable with `deltacli paimon alter TABLE 'nullability NAME NULL'`.
    """
    # What is within a new column is new as a whole.
    for path, field in outermost(step.after.fields, step.before.by_id):
        if not field.type.nullable:
            yield Finding(f"{'.'.join(path)} was added NOT NULL: old rows have no value")


@rule("PMH009", WARNING, "Time goes forward", of=Step)
def time_goes_forward(step: Step) -> Iterator[Finding]:
    """`timeMillis` is not before that of the version before.

    Why: ages are told by it; some clock was wrong, or files were put in by hand.
    Fix: nothing has to be done.
    """
    if 0 < step.after.time_ms < step.before.time_ms:
        yield Finding(f"timeMillis of schema-{step.version} is before schema-{step.before_id}")
