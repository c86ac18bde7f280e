"""Where a stream stands: an offset that says by itself what came before it.

A position is the next file to be read: that of a number in the order of a version's files.
The anchor tells where the stream began. Spark forgets that if its first batch fails: it then
asks for the files between a new beginning and the old end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltacli.errors import Refused

_FORM = 1


@dataclass(frozen=True, slots=True, order=True)
class Position:
    version: int
    index: int = 0


@dataclass(frozen=True, slots=True)
class Offset:
    """`from_snapshot`: the anchor's version is read whole, as a snapshot.

    `ids_of` is the response format by whose ids the files before the position were counted,
    if ids differ by format and there are any.
    """

    table_id: str
    position: Position
    anchor: int
    from_snapshot: bool
    reads_changes: bool
    ids_of: str | None = None

    def at(self, position: Position, ids_of: str | None = None) -> Offset:
        ids_of = ids_of if position.index else None
        return replace(self, position=position, ids_of=ids_of)

    @property
    def beginning(self) -> Offset:
        return self.at(Position(self.anchor))

    def has_same_anchor(self, other: Offset) -> bool:
        return self.beginning == other.beginning

    def json(self) -> dict[str, Any]:
        return {
            "v": _FORM,
            "tableId": self.table_id,
            "version": self.position.version,
            "index": self.position.index,
            "anchor": {
                "version": self.anchor,
                "kind": "snapshot" if self.from_snapshot else "version",
            },
            "cdf": self.reads_changes,
            "idsOf": self.ids_of,
        }


def parse_offset(body: Mapping[str, Any]) -> Offset:
    """The offset of a checkpoint. Raises Refused for one that nothing can be read from."""
    try:
        if body["v"] != _FORM:
            raise Refused(
                f"the checkpoint's offset is of form {body['v']}, and only {_FORM} is known here",
                hint="a newer deltacli wrote it; use that, or begin with a new checkpoint",
            )
        return Offset(
            body["tableId"],
            Position(body["version"], body["index"]),
            body["anchor"]["version"],
            {"snapshot": True, "version": False}[body["anchor"]["kind"]],
            body["cdf"],
            body.get("idsOf"),
        )
    except (KeyError, TypeError):
        raise Refused(
            "the checkpoint's offset is not one of this source",
            hint="another source wrote the checkpoint; begin with a new one",
        ) from None
