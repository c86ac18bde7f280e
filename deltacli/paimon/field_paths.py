"""Columns by their paths. Every step is checked, and the key of a MAP is never changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from deltacli.errors import NotFound, Refused
from deltacli.paimon.types import Array, DataType, Field, Map, Row, sql_text

Path = tuple[str, ...]
Siblings = tuple[Field, ...]


def dotted(path: Path) -> str:
    return ".".join(path)


def no_column(path: Path) -> NotFound:
    return NotFound(
        f"there is no column {dotted(path)!r}",
        hint="`deltacli paimon show` tells the names; one with a dot stands in backticks",
    )


def in_siblings(fields: Siblings, path: Path, edit: Callable[[Siblings], Siblings]) -> Siblings:
    """The fields, with those among which the last step of a path stands changed."""
    if len(path) == 1:
        return edit(fields)

    def within(kind: DataType) -> DataType:
        if not isinstance(kind, Row):
            raise _no_fields(path, path[-1:], kind)
        return replace(kind, fields=edit(kind.fields))

    return edit_type(fields, path[:-1], within)[0]


def _through(
    kind: DataType, whole: Path, rest: Path, edit: Callable[[DataType, Path], DataType]
) -> DataType:
    """A type that is no ROW, with the one within that the next step names changed."""
    step, left = rest[0], rest[1:]
    if isinstance(kind, Map) and step == "value":
        return replace(kind, value=edit(kind.value, left))
    if isinstance(kind, Map) and step == "key":
        raise Refused(
            f"{dotted(whole)}: the key of a MAP cannot be changed",
            hint="Paimon would change the value instead; only `value` can be changed",
        )
    if isinstance(kind, Array) and step == "element":
        return replace(kind, element=edit(kind.element, left))
    raise _no_fields(whole, rest, kind)


def _no_fields(whole: Path, rest: Path, kind: DataType) -> NotFound:
    above = whole[: len(whole) - len(rest)]
    within = {"ARRAY": "it has `element`", "MAP": "it has `value`"}.get(kind.root)
    return NotFound(
        f"{dotted(above)} is {sql_text(kind)}: there is no {rest[0]!r} in it",
        hint=within or "only fields of a ROW, elements and values can be named",
    )


def edit_field(fields: Siblings, path: Path, edit: Callable[[Field], Field]) -> Siblings:
    def one_of(siblings: Siblings) -> Siblings:
        if path[-1] not in [one.name for one in siblings]:
            raise no_column(path)
        return tuple(edit(one) if one.name == path[-1] else one for one in siblings)

    return in_siblings(fields, path, one_of)


def edit_type(
    fields: Siblings, path: Path, edit: Callable[[DataType], DataType]
) -> tuple[Siblings, Field]:
    """The fields with one type in them changed, and the field that it is in by then."""
    holders: list[Field] = []

    def descend(kind: DataType, rest: Path) -> DataType:
        if not rest:
            return edit(kind)
        if isinstance(kind, Row):
            return replace(kind, fields=in_fields(kind.fields, rest))
        return _through(kind, path, rest, descend)

    def in_fields(siblings: Siblings, rest: Path) -> Siblings:
        if rest[0] not in [one.name for one in siblings]:
            raise no_column(path[: len(path) - len(rest) + 1])
        return tuple(in_field(one, rest[1:]) if one.name == rest[0] else one for one in siblings)

    def in_field(one: Field, rest: Path) -> Field:
        changed = replace(one, type=descend(one.type, rest))
        # The innermost one is done first.
        holders.append(changed)
        return changed

    return in_fields(fields, path), holders[0]
