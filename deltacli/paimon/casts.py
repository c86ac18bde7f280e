"""What a column's type may become (facts 4): as Paimon casts it, and what is lost by it.

Nothing is rewritten by a change of type: readers cast the values of older files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from deltacli.paimon.types import (
    MAX_LENGTH,
    TIMESTAMP_LTZ,
    Atomic,
    DataType,
    Field,
    Row,
    Vector,
    as_nullable,
    inner_types,
)

_COLUMNS = (
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE", "CHAR",
    "VARCHAR", "STRING", "BINARY", "VARBINARY", "DATE", "TIME", "TIMESTAMP", TIMESTAMP_LTZ,
)  # fmt: skip
# i is implicit, e explicit: allowed unless the table says otherwise.
_TABLE = {
    "BOOLEAN":     ". e e e e e e e e e e . . . . . .",
    "TINYINT":     "e i i i i i i i e e e . . . . . .",
    "SMALLINT":    "e e i i i i i i e e e . . . . . .",
    "INT":         "e e e i i i i i e e e . . . . e e",
    "BIGINT":      "e e e e i i i i e e e . . . . e e",
    "DECIMAL":     ". e e e e i i i e e e . . . . . .",
    "FLOAT":       ". e e e e i i i e e e . . . . . .",
    "DOUBLE":      ". e e e e i e i e e e . . . . . .",
    "CHAR":        "e e e e e e e e i i i e e e e e e",
    "VARCHAR":     "e e e e e e e e e i i e e e e e e",
    "BINARY":      ". . . . . . . . e e e i i . . . .",
    "VARBINARY":   ". . . . . . . . e e e e i . . . .",
    "DATE":        ". . . . . . . . . . e . . . . e e",
    "TIME":        ". . . . . . . . . . e . . . . e e",
    "TIMESTAMP":   ". . . e e . . . . . e . . i i i i",
    TIMESTAMP_LTZ: ". . . e e . . . . . e . . e e i i",
    "ARRAY":       ". . . . . . . . e e e . . . . . .",
    "MAP":         ". . . . . . . . e e e . . . . . .",
    "ROW":         ". . . . . . . . e e e . . . . . .",
}  # fmt: skip


class Cast(StrEnum):
    IMPLICIT = "implicit"
    EXPLICIT = "explicit"


_KINDS = {"i": Cast.IMPLICIT, "e": Cast.EXPLICIT}
_CASTS = {
    (source, target): _KINDS[letter]
    for source, row in _TABLE.items()
    for target, letter in zip(_COLUMNS, row.split(), strict=True)
    if letter in _KINDS
}


def cast_of(source: DataType, target: DataType) -> Cast | None:
    """How Paimon casts values of one type to another; None if it does not."""
    root = "STRING" if _is_string(target) else target.root
    cast = _CASTS.get((source.root, root))
    if root == "STRING" and source.root in _TIMES and not target.nullable:
        # Paimon has a cast to the nullable type only: readers of old files fail.
        return None
    if cast is Cast.IMPLICIT and source.nullable and not target.nullable:
        return Cast.EXPLICIT
    return cast


def _is_string(kind: DataType) -> bool:
    return kind.root == "VARCHAR" and isinstance(kind, Atomic) and kind.length == MAX_LENGTH


_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_TIMES = ("DATE", "TIME", "TIMESTAMP", TIMESTAMP_LTZ)
_DIGITS = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_GROWING = (
    ("CHAR", "CHAR"),
    ("CHAR", "VARCHAR"),
    ("VARCHAR", "VARCHAR"),
    ("BINARY", "BINARY"),
    ("BINARY", "VARBINARY"),
    ("VARBINARY", "VARBINARY"),
    ("TIMESTAMP", "TIMESTAMP"),
    (TIMESTAMP_LTZ, TIMESTAMP_LTZ),
)
_TEXTS = ("CHAR", "VARCHAR")


def loss_of(source: DataType, target: DataType) -> str | None:
    """What becomes of values that a cast does not keep; None if it keeps them all."""
    if _is_string(target) or _keeps_values(source, target):
        return None
    old, new = source.root, target.root
    if old in _TEXTS and new not in _TEXTS:
        return "text that is no such value makes queries fail" if new != "BINARY" else "it is cut"
    if old in _INTEGERS and new in _INTEGERS:
        return "numbers that do not fit wrap around"
    if new == "DECIMAL":
        return "numbers that do not fit become null, other digits are rounded"
    if {old, new} == {"TIMESTAMP", TIMESTAMP_LTZ}:
        return "the same digits mean another moment"
    if new in ("DATE", "TIME") or (old == new and new.startswith("TIMESTAMP")):
        return "a part of each moment is cut off"
    if new in _TEXTS or new in ("BINARY", "VARBINARY"):
        return "what is longer is cut, what is shorter may be padded"
    return "values change their meaning or lose digits"


def _keeps_values(source: DataType, target: DataType) -> bool:
    old, new = source.root, target.root
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(old) <= _INTEGERS.index(new)
    if not isinstance(source, Atomic) or not isinstance(target, Atomic):
        return False
    if (old, new) in _GROWING:
        return source.length <= target.length
    if new == "DECIMAL" and old == "DECIMAL":
        return (
            source.scale <= target.scale
            and source.length - source.scale <= target.length - target.scale
        )
    if new == "DECIMAL" and old in _DIGITS:
        return _DIGITS[old] <= target.length - target.scale
    if new == "DOUBLE":
        return old in ("TINYINT", "SMALLINT", "INT", "FLOAT", "DOUBLE")
    return old == new


def changes_rendering(source: DataType, target: DataType) -> bool:
    """Whether values become text that Paimon chooses."""
    return _is_string(target) and source.root not in _TEXTS


@dataclass(frozen=True, slots=True)
class TypeStep:
    """A place within a column at which its type is another one, or as nullable as another.

    `path` has names from the column on; `inner` the steps below the field that it is in.
    """

    path: tuple[str, ...]
    field_id: int
    inner: tuple[str, ...]
    old: DataType
    new: DataType

    @property
    def place(self) -> str:
        return ".".join(self.path)

    @property
    def changes_type(self) -> bool:
        """Whether more than the nullability is another one."""
        if self.old.root == self.new.root and not isinstance(self.old, Atomic | Vector):
            return False
        return as_nullable(self.old) != as_nullable(self.new)


def type_steps(
    old: Iterable[Field], new: Iterable[Field], above: tuple[str, ...] = ()
) -> Iterator[TypeStep]:
    """The places in columns that are different; columns are the same by their ids.

    Those that are on one side only say nothing.
    """
    known = {one.id: one.type for one in old}
    for one in new:
        if one.id in known:
            yield from _steps(known[one.id], one.type, (*above, one.name), one.id, ())


def _steps(
    old: DataType, new: DataType, path: tuple[str, ...], field_id: int, inner: tuple[str, ...]
) -> Iterator[TypeStep]:
    step = TypeStep(path, field_id, inner, old, new)
    if old.root != new.root or isinstance(old, Atomic | Vector):
        if old != new:
            yield step
        return
    if old.nullable != new.nullable:
        yield step
    if isinstance(old, Row) and isinstance(new, Row):
        yield from type_steps(old.fields, new.fields, path)
        return
    for (name, before), (_, after) in zip(inner_types(old), inner_types(new), strict=True):
        yield from _steps(before, after, (*path, name), field_id, (*inner, name))
