"""Columns by name, at any depth, in the JSON tree of a schema: found, and changed in place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.actions import Metadata
from deltacli.delta.schema import BadSchema, parse_schema, parse_type, type_text
from deltacli.delta.widening import type_named
from deltacli.errors import CorruptLog, NotFound, Refused, UsageError

Tree = dict[str, Any]
_STEP = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def schema_tree(metadata: Metadata) -> Tree:
    """The schema as the log has it, every key and number as it stands.

    Raises Refused, or CorruptLog.
    """
    if metadata.schema_string is None:
        raise Refused("the metadata has no schema", hint="such a table cannot be changed")
    try:
        parse_schema(metadata.schema_string)
    except BadSchema as error:
        raise CorruptLog(f"the table's schema cannot be read: {error}") from None
    tree: Tree = json_text.load_faithful(metadata.schema_string.encode("utf-8", "surrogatepass"))
    return tree


@dataclass(frozen=True, slots=True)
class Place:
    """A leaf: the nearest field around it, and the way inside that field.

    `holder[key]` is its type; changing it changes the tree.
    """

    names: tuple[str, ...]
    field: Tree
    inside: tuple[str, ...]
    holder: Tree
    key: str

    @property
    def type(self) -> str:
        own = str(self.holder[self.key])
        return type_named(own) or own

    @property
    def text(self) -> str:
        """The whole path, quoted where a name needs it."""
        return ".".join(_quoted(one) for one in (*self.names, *self.inside))

    @property
    def path(self) -> tuple[str, ...]:
        return (*self.names, *self.inside)


def parse_path(text: str) -> tuple[str, ...]:
    """`a.b`, or with back-quotes around names that have dots. Raises UsageError."""
    steps: list[str] = []
    position = 0
    while True:
        match = _STEP.match(text, position)
        if match is None:
            raise UsageError(
                f"{text!r} is not the path of a column",
                hint="write it as a.b, arr.element, m.key, m.value, or `odd.name`.b",
            )
        steps.append(match[1].replace("``", "`") if match[1] else match[2].strip())
        position = match.end()
        if position == len(text):
            return tuple(steps)
        if text[position] != ".":
            raise UsageError(
                f"{text!r} is not the path of a column", hint="quote it in back-quotes"
            )
        position += 1


def find_leaf(schema: Tree, text: str) -> Place:
    """The column of a path; upper and lower case do not count.

    Raises NotFound with near names, and Refused for what is not a single value.
    """
    return leaf_at(schema, parse_path(text), text)


def leaf_at(schema: Tree, steps: tuple[str, ...], text: str) -> Place:
    """The same for a path that is parsed."""
    names: list[str] = []
    field: Tree = {}
    inside: list[str] = []
    holder, key = {"type": schema}, "type"
    for step in steps:
        kind = holder[key]
        shape = kind.get("type") if isinstance(kind, dict) else None
        if shape == "struct":
            field = _field(kind["fields"], step, text)
            # What lies inside a list or map belongs to the way, not to the new field.
            names, inside = [*names, *inside, field["name"]], []
            holder, key = field, "type"
        elif shape == "array" and step.lower() == "element":
            holder, key = kind, "elementType"
            inside.append("element")
        elif shape == "map" and step.lower() in ("key", "value"):
            holder, key = kind, f"{step.lower()}Type"
            inside.append(step.lower())
        else:
            raise _not_inside(text, step, shape, kind)
    kind = holder[key]
    if not isinstance(kind, str):
        whole = type_text(parse_type(kind))
        raise Refused(
            f"{text} is {whole}: only single values are widened",
            hint=_inner_hint(text, kind),
        )
    return Place(tuple(names), field, tuple(inside), holder, key)


def _field(fields: list[Tree], name: str, text: str) -> Tree:
    same = [one for one in fields if one["name"] == name] or [
        one for one in fields if one["name"].lower() == name.lower()
    ]
    if same:
        return same[0]
    from difflib import get_close_matches

    known = [one["name"] for one in fields]
    close = get_close_matches(name.lower(), [one.lower() for one in known], n=1)
    meant = next((one for one in known if close and one.lower() == close[0]), None)
    raise NotFound(
        f"there is no column {name!r}" + (f" in {text}" if text != name else ""),
        hint=f"did you mean {meant!r}?" if meant else f"the columns are {', '.join(known)}",
    )


def _not_inside(text: str, step: str, shape: Any, kind: Any) -> NotFound:
    ways = {"array": "element", "map": "key or value"}
    if shape in ways:
        return NotFound(
            f"there is no {step!r} in {text}: it is a{'n array' if shape == 'array' else ' map'}",
            hint=f"go on with {ways[shape]}",
        )
    return NotFound(
        f"there is no {step!r} in {text}: {kind if isinstance(kind, str) else 'its parent'} has "
        "no fields",
        hint="leave the last part out",
    )


def _inner_hint(text: str, kind: Tree) -> str:
    shape = kind.get("type")
    if shape == "struct":
        names = ", ".join(f"{text}.{_quoted(one['name'])}" for one in kind["fields"][:5])
        return f"name a field of it: {names}"
    return f"name what is inside: {text}.{'element' if shape == 'array' else 'value'}"


def _quoted(name: str) -> str:
    if re.fullmatch(r"[^`.]+", name) and name == name.strip():
        return name
    return "`" + name.replace("`", "``") + "`"


def fields_of(tree: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Tree]]:
    """Every field of a schema's tree with its path, parents first."""
    if not isinstance(tree, dict):
        return
    shape = tree.get("type")
    if shape == "struct":
        for one in tree["fields"]:
            path = (*above, one["name"])
            yield path, one
            yield from fields_of(one["type"], path)
    elif shape == "array":
        yield from fields_of(tree["elementType"], (*above, "element"))
    elif shape == "map":
        yield from fields_of(tree["keyType"], (*above, "key"))
        yield from fields_of(tree["valueType"], (*above, "value"))
