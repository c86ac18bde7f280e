"""Changes as Paimon's own JSON for them: `{"action": "addColumn", …}`, alone or in a list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
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
from deltacli.paimon.types import (
    BadType,
    DataType,
    Map,
    as_nullable,
    check_depth,
    with_inner,
)

Tree = Mapping[str, Any]


def parse_changes(text: str) -> list[Change]:
    """Raises UsageError."""
    try:
        tree = json_text.load(text)
        if isinstance(tree, dict) and tree.keys() == {"changes"}:
            # The body of a request to a REST catalog.
            tree = tree["changes"]
        return [_change(one) for one in (tree if isinstance(tree, list) else [tree])]
    except KeyError as error:
        raise _bad(f"member {error} is missing") from None
    except RecursionError:
        raise _bad("it is nested too deeply") from None
    except ValueError as error:
        raise _bad(str(error)) from None


def _bad(reason: str) -> UsageError:
    return UsageError(
        f"no change of Paimon's: {reason}",
        hint='write it as {"action": "renameColumn", "fieldNames": ["a"], "newName": "b"}',
    )


def _change(tree: Any) -> Change:
    if not isinstance(tree, dict):
        raise ValueError("a change is an object")
    action = _needed(tree, "action")
    if action not in _ACTIONS:
        close = get_close_matches(action, _ACTIONS, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"there is no action {action!r}{meant}")
    members, made = _ACTIONS[action]
    others = sorted(tree.keys() - {"action", *members})
    if others:
        raise ValueError(f"{action} has no member {others[0]!r}; it has {', '.join(members)}")
    return made(tree)


def _path(tree: Tree) -> Path:
    names = tree["fieldNames"]
    if not isinstance(names, list) or not names or not all(isinstance(one, str) for one in names):
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


def _move(tree: Any) -> Move | None:
    if tree is None:
        return None
    if not isinstance(tree, dict):
        raise ValueError("move is an object")
    name = _needed(tree, "type").upper()
    if name not in list(Place):
        raise ValueError(f"a move is {', '.join(Place)}, not {name}")
    place = Place(name)
    reference = _text(tree, "referenceFieldName")
    if (reference is None) == (place in (Place.AFTER, Place.BEFORE)):
        raise ValueError(f"a move {place} {'needs' if reference is None else 'has no'} reference")
    return Move(place, reference)


def _type(tree: Any) -> DataType:
    try:
        return with_right_keys(check_depth(parse_type(tree)))
    except BadType as error:
        raise ValueError(str(error)) from None


def with_right_keys(kind: DataType) -> DataType:
    """A type for a new column: what is written anew has no nullable MAP key."""
    kind = with_inner(kind, with_right_keys)
    return replace(kind, key=as_nullable(kind.key, False)) if isinstance(kind, Map) else kind


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


# What each action has for members, and the change that it is.
_ACTIONS: Mapping[str, tuple[tuple[str, ...], Callable[[Tree], Change]]] = {
    "setOption": (
        ("key", "value"),
        lambda one: SetOption(_needed(one, "key"), _needed(one, "value")),
    ),
    "removeOption": (("key",), lambda one: RemoveOption(_needed(one, "key"))),
    "updateComment": (("comment",), lambda one: UpdateComment(_text(one, "comment"))),
    "addColumn": (("fieldNames", "dataType", "comment", "move"), _add),
    "renameColumn": (
        ("fieldNames", "newName"),
        lambda one: RenameColumn(_path(one), _needed(one, "newName")),
    ),
    "dropColumn": (("fieldNames",), lambda one: DropColumn(_path(one))),
    "updateColumnType": (("fieldNames", "newDataType", "keepNullability"), _retype),
    "updateColumnNullability": (
        ("fieldNames", "newNullability"),
        lambda one: UpdateNullability(_path(one), _truth(one, "newNullability")),
    ),
    "updateColumnComment": (
        ("fieldNames", "newComment"),
        lambda one: UpdateColumnComment(_path(one), _text(one, "newComment")),
    ),
    "updateColumnDefaultValue": (
        ("fieldNames", "newDefaultValue"),
        lambda one: UpdateDefault(_path(one), _text(one, "newDefaultValue")),
    ),
    "updateColumnPosition": (("move",), _position),
    "dropPrimaryKey": ((), lambda one: DropPrimaryKey()),
}
