"""Changes as Paimon's own JSON for them: `{"action": "addColumn", …}`, alone or in a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from deltacli.delta import json_text
from deltacli.errors import UsageError
from deltacli.paimon.change import Change
from deltacli.paimon.column_changes import (
    AddColumn,
    DropColumn,
    Move,
    MoveColumn,
    Place,
    RenameColumn,
    UpdateColumnComment,
    UpdateDefault,
    UpdateNullability,
    UpdateType,
)
from deltacli.paimon.field_paths import Path
from deltacli.paimon.schema_file import parse_type
from deltacli.paimon.table_changes import DropPrimaryKey, RemoveOption, SetOption, UpdateComment
from deltacli.paimon.types import Array, BadType, DataType, Map, Multiset, Row, as_nullable

Tree = Mapping[str, Any]


def parse_changes(text: str) -> list[Change]:
    """Raises UsageError."""
    try:
        tree = json_text.load(text)
        return [_change(one) for one in (tree if isinstance(tree, list) else [tree])]
    except KeyError as error:
        raise _bad(f"member {error} is missing") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _bad(str(error)) from None


def _bad(reason: str) -> UsageError:
    return UsageError(
        f"no change of Paimon's: {reason}",
        hint='write it as {"action": "renameColumn", "fieldNames": ["a"], "newName": "b"}',
    )


def _change(tree: Tree) -> Change:
    action = tree["action"]
    if action not in _ACTIONS:
        raise ValueError(f"there is no action {action!r}")
    return _ACTIONS[action](tree)


def _path(tree: Tree) -> Path:
    names = tree["fieldNames"]
    if isinstance(names, str):
        names = [names]
    if not names or not all(isinstance(one, str) for one in names):
        raise ValueError("fieldNames is no list of names")
    return tuple(names)


def _text(tree: Tree, name: str) -> str | None:
    value = tree.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def _needed(tree: Tree, name: str) -> str:
    value = _text(tree, name)
    if value is None:
        raise KeyError(name)
    return value


def _truth(tree: Tree, name: str, default: bool | None = None) -> bool:
    value = tree.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"{name} is not true or false")
    return value


def _move(tree: Tree | None) -> Move | None:
    if tree is None:
        return None
    place = Place(_needed(tree, "type").upper())
    reference = _text(tree, "referenceFieldName")
    if (reference is None) == (place in (Place.AFTER, Place.BEFORE)):
        raise ValueError(f"a move {place} {'needs' if reference is None else 'has no'} reference")
    return Move(place, reference)


def _type(tree: Any) -> DataType:
    try:
        return with_right_keys(parse_type(tree))
    except BadType as error:
        raise ValueError(str(error)) from None


def with_right_keys(kind: DataType) -> DataType:
    """A type for a new column: what is written anew has no nullable MAP key."""
    match kind:
        case Row(fields):
            inner = tuple(replace(one, type=with_right_keys(one.type)) for one in fields)
            return replace(kind, fields=inner)
        case Map(key, value):
            return replace(
                kind, key=as_nullable(with_right_keys(key), False), value=with_right_keys(value)
            )
        case Array(element):
            return replace(kind, element=with_right_keys(element))
        case Multiset(element):
            return replace(kind, element=with_right_keys(element))
        case _:
            return kind


def _add(tree: Tree) -> Change:
    comment = _text(tree, "comment")
    return AddColumn(_path(tree), _type(tree["dataType"]), comment, _move(tree.get("move")))


def _position(tree: Tree) -> Change:
    move = _move(tree["move"])
    if move is None:
        raise KeyError("move")
    return MoveColumn(_needed(tree["move"], "fieldName"), move)


def _retype(tree: Tree) -> Change:
    keeps = _truth(tree, "keepNullability", False)
    return UpdateType(_path(tree), _type(tree["newDataType"]), keeps)


_ACTIONS: Mapping[str, Callable[[Tree], Change]] = {
    "setOption": lambda one: SetOption(_needed(one, "key"), _needed(one, "value")),
    "removeOption": lambda one: RemoveOption(_needed(one, "key")),
    "updateComment": lambda one: UpdateComment(_text(one, "comment")),
    "addColumn": _add,
    "renameColumn": lambda one: RenameColumn(_path(one), _needed(one, "newName")),
    "dropColumn": lambda one: DropColumn(_path(one)),
    "updateColumnType": _retype,
    "updateColumnNullability": lambda one: UpdateNullability(
        _path(one), _truth(one, "newNullability")
    ),
    "updateColumnComment": lambda one: UpdateColumnComment(_path(one), _text(one, "newComment")),
    "updateColumnDefaultValue": lambda one: UpdateDefault(
        _path(one), _text(one, "newDefaultValue")
    ),
    "updateColumnPosition": _position,
    "dropPrimaryKey": lambda one: DropPrimaryKey(),
}
