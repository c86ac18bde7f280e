"""Type changes of the type-widening feature (facts 8.1): one table, and what follows from it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deltacli.delta.schema import Primitive, Struct, walk

STABLE = "typeWidening"
PREVIEW = "typeWidening-preview"
PROPERTY = "delta.enableTypeWidening"
CHANGES = "delta.typeChanges"


@dataclass(frozen=True, slots=True)
class Row:
    """A type, what it may become, and whether Iceberg's readers can follow."""

    source: str
    targets: tuple[str, ...]
    for_iceberg: bool


MATRIX = (
    Row("byte", ("short", "integer", "long"), True),
    Row("short", ("integer", "long"), True),
    Row("integer", ("long",), True),
    Row("float", ("double",), True),
    Row("byte", ("double",), False),
    Row("short", ("double",), False),
    Row("integer", ("double",), False),
    Row("date", ("timestamp_ntz",), False),
)
# A decimal needs so many digits before the point to take in an integer.
WHOLE_DIGITS: Mapping[str, int] = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_MOST_DIGITS = 38
# Digits that an integer really has. Tables of earlier writers have decimals that take in no
# more than these, and they read exactly.
_DIGITS: Mapping[str, int] = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_ALIASES: Mapping[str, str] = {
    "tinyint": "byte",
    "smallint": "short",
    "int": "integer",
    "bigint": "long",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "timestamp_ltz": "timestamp",
}
_NAMES = frozenset(
    ("byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz",
     "string", "boolean", "binary", "variant", "void")
)  # fmt: skip


def type_named(text: str) -> str | None:
    """The name that Delta has for a type written in SQL or in Delta's own way."""
    squeezed = re.sub(r"\s+", "", text.lower())
    name, _, rest = squeezed.partition("(")
    name = _ALIASES.get(name, name)
    if name == "decimal":
        match = re.fullmatch(r"(\d{1,2})(?:,(\d{1,2}))?\)", rest) if rest else None
        precision, scale = (int(match[1]), int(match[2] or 0)) if match else (10, 0)
        if (rest and not match) or not scale <= precision <= _MOST_DIGITS or not precision:
            return None
        return f"decimal({precision},{scale})"
    return name if name in _NAMES and not rest else None


def is_allowed(source: str, target: str) -> bool:
    """Whether a column of the one type may become the other."""
    if any(row.source == source and target in row.targets for row in MATRIX):
        return True
    return source != target and target == smallest_decimal(source, target)


def is_for_iceberg(source: str, target: str) -> bool:
    """Whether that holds for a table that is one of Iceberg too."""
    old, new = Primitive(source).decimal, Primitive(target).decimal
    if old and new:
        return is_allowed(source, target) and old[1] == new[1]
    return any(row.source == source and target in row.targets and row.for_iceberg for row in MATRIX)


def smallest_decimal(source: str, target: str) -> str | None:
    """The smallest decimal, not smaller than the target, that takes in every value."""
    wish = Primitive(target).decimal
    own = Primitive(source).decimal
    if wish is None or (own is None and source not in WHOLE_DIGITS):
        return None
    whole, scale = (own[0] - own[1], own[1]) if own else (WHOLE_DIGITS[source], 0)
    scale = max(scale, wish[1])
    precision = max(wish[0], whole + scale)
    return f"decimal({precision},{scale})" if precision <= _MOST_DIGITS else None


def targets_of(source: str) -> list[str]:
    """What a column of a type may become, as people read it."""
    found = [target for row in MATRIX if row.source == source for target in row.targets]
    own = Primitive(source).decimal
    if own:
        found.append(f"decimal({own[0]}+m,{own[1]}+n), m >= n")
    elif source in WHOLE_DIGITS:
        found.append(f"decimal({WHOLE_DIGITS[source]}+m,n), m >= n")
    return found


def is_readable_change(from_type: str, to_type: str) -> bool:
    """Whether values of the one type read exactly as the other."""
    if any(row.source == from_type and to_type in row.targets for row in MATRIX):
        return True
    target, source = Primitive(to_type).decimal, Primitive(from_type).decimal
    if from_type in _DIGITS:
        source = (_DIGITS[from_type], 0)
    if target is None or source is None or target[0] > _MOST_DIGITS:
        return False
    more_digits, more_scale = target[0] - source[0], target[1] - source[1]
    return more_digits >= more_scale >= 0


def unknown_changes(schema: Struct) -> Iterator[str]:
    """Recorded type changes that are none of the feature: the table must not be read."""
    for path, field in walk(schema):
        changes = field.metadata.get(CHANGES) or []
        for change in changes if isinstance(changes, list) else [changes]:
            if not isinstance(change, Mapping):
                yield f"{'.'.join(path)}: {change!r}"
                continue
            old, new = change.get("fromType"), change.get("toType")
            if not (isinstance(old, str) and isinstance(new, str) and is_readable_change(old, new)):
                yield f"{'.'.join(path)}: {old} to {new}"
