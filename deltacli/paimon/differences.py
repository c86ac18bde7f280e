"""What is different between two versions of a schema: columns are the same by their ids."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deltacli.paimon.casts import TypeStep, type_steps
from deltacli.paimon.schema_file import TableSchema
from deltacli.paimon.types import Field, Row, outermost, quoted, sql_text


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is different, of what, and how it was and is."""

    change: str
    name: str
    field_id: int | None = None
    old: Any = None
    new: Any = None

    @property
    def text(self) -> str:
        """The same for people, in a few words."""
        if self.change in ("added", "dropped", "moved", "comment", "default"):
            return f"{self.change} {self.name}"
        if self.change == "renamed":
            return f"renamed {self.old} to {self.name}"
        if self.change == "option":
            return f"unset {self.name}" if self.new is None else f"{self.name} = {self.new}"
        if self.change in ("type", "nullability"):
            return f"{self.name} {self.old} to {self.new}"
        if self.change == "tableComment":
            return f"table comment {self.new!r}"
        return self.change


def differences(old: TableSchema, new: TableSchema) -> list[Difference]:
    return [*_of_columns(old, new), *_of_table(old, new)]


def _of_columns(old: TableSchema, new: TableSchema) -> Iterator[Difference]:
    before, after = old.by_id, new.by_id
    common = [(before[one], after[one]) for one in after if one in before]
    for path, field in outermost(old.fields, after):
        yield Difference("dropped", ".".join(path), field.id, sql_text(field.type))
    for path, field in outermost(new.fields, before):
        yield Difference("added", ".".join(path), field.id, None, _whole(field))
    for (was, older), (place, field) in common:
        if older.name != field.name:
            yield Difference("renamed", place, field.id, was, place)
    for step in type_steps(old.fields, new.fields):
        yield _of_type(step)
    for (_, older), (place, field) in common:
        if (older.description or "") != (field.description or ""):
            yield Difference("comment", place, field.id, older.description, field.description)
        if older.default != field.default:
            yield Difference("default", place, field.id, older.default, field.default)
    for field in _moved(old, new):
        places = _place(old, field.id), _place(new, field.id)
        yield Difference("moved", field.name, field.id, *places)


def _of_type(step: TypeStep) -> Difference:
    field_id = None if step.inner else step.field_id
    if step.changes_type:
        texts = (sql_text(step.old), sql_text(step.new))
        return Difference("type", step.place, field_id, *texts)
    texts = (_nullability(step.old.nullable), _nullability(step.new.nullable))
    return Difference("nullability", step.place, field_id, *texts)


def _nullability(nullable: bool) -> str:
    return "NULL" if nullable else "NOT NULL"


def _whole(field: Field) -> str:
    """A column's type, with its default and comment."""
    return sql_text(Row((field,)))[len("ROW<") + len(quoted(field.name)) + 1 : -1]


def _place(schema: TableSchema, field_id: int) -> str:
    """Where a column stands."""
    names = [one.name for one in schema.fields]
    at = next(at for at, one in enumerate(schema.fields) if one.id == field_id)
    return f"after {names[at - 1]}" if at else "first"


def _moved(old: TableSchema, new: TableSchema) -> list[Field]:
    """As few columns as need to move for the rest to be in their old order."""
    position = {one.id: at for at, one in enumerate(old.fields)}
    common = [one for one in new.fields if one.id in position]
    stays = _longest_rise([position[one.id] for one in common])
    return [one for at, one in enumerate(common) if at not in stays]


def _longest_rise(numbers: Sequence[int]) -> set[int]:
    """The positions of a longest rising subsequence."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for at, number in enumerate(numbers):
        length = bisect_left(tails, number)
        tails[length : length + 1] = [number]
        ends[length : length + 1] = [at]
        before.append(ends[length - 1] if length else -1)
    found: set[int] = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        found.add(at)
        at = before[at]
    return found


def _of_table(old: TableSchema, new: TableSchema) -> Iterator[Difference]:
    before, after = old.effective_options, new.effective_options
    for key in dict.fromkeys([*before, *after]):
        if before.get(key) != after.get(key):
            yield Difference("option", key, None, before.get(key), after.get(key))
    if (old.comment or "") != (new.comment or ""):
        yield Difference("tableComment", "", None, old.comment, new.comment)
    position = {one.id: at for at, one in enumerate(old.fields)}
    renamed = {
        old.fields[position[one.id]].name: one.name for one in new.fields if one.id in position
    }
    for name, keys, others in (
        ("primaryKeys", old.primary_keys, new.primary_keys),
        ("partitionKeys", old.partition_keys, new.partition_keys),
    ):
        # That a key goes by another name is told as the column's.
        if [renamed.get(one, one) for one in keys] != list(others):
            yield Difference(name, "", None, list(keys), list(others))
