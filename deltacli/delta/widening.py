"""Type changes that a reader of the type-widening feature knows (facts 8.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltacli.delta.schema import Primitive, Struct, walk

# From -> to, for pairs of plain names.
_PLAIN: Mapping[str, tuple[str, ...]] = {
    "byte": ("short", "integer", "long", "double"),
    "short": ("integer", "long", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
    "date": ("timestamp_ntz",),
}
# Digits that an integer needs as a decimal. Writers are bound to more room than that, but
# tables of earlier writers have narrower targets, and they read exactly.
_DIGITS: Mapping[str, int] = {"byte": 3, "short": 5, "integer": 10, "long": 19}


def is_readable_change(from_type: str, to_type: str) -> bool:
    """Whether values of the one type read exactly as the other."""
    if to_type in _PLAIN.get(from_type, ()):
        return True
    target, source = Primitive(to_type).decimal, Primitive(from_type).decimal
    if from_type in _DIGITS:
        source = (_DIGITS[from_type], 0)
    if target is None or source is None or target[0] > 38:
        return False
    more_digits, more_scale = target[0] - source[0], target[1] - source[1]
    return more_digits >= more_scale >= 0


def unknown_changes(schema: Struct) -> Iterator[str]:
    """Recorded type changes that are none of the feature: the table must not be read."""
    for path, field in walk(schema):
        changes = field.metadata.get("delta.typeChanges") or []
        for change in changes if isinstance(changes, list) else [changes]:
            if not isinstance(change, Mapping):
                yield f"{'.'.join(path)}: {change!r}"
                continue
            old, new = change.get("fromType"), change.get("toType")
            if not (isinstance(old, str) and isinstance(new, str) and is_readable_change(old, new)):
                yield f"{'.'.join(path)}: {old} to {new}"
