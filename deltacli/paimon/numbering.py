"""Field ids as Paimon gives them out."""

from __future__ import annotations

from dataclasses import replace

from deltacli.paimon.types import Array, Atomic, DataType, Field, Map, Multiset, Row, Vector


class Numbers:
    """Ids one after the other; `last` is the highest that was given."""

    def __init__(self, last: int = -1):
        self.last = last

    def next(self) -> int:
        self.last += 1
        return self.last

    def column(self, one: Field) -> Field:
        """A column with new ids: its own before those within it."""
        own_id = self.next()
        return replace(one, id=own_id, type=self.renumbered(one.type))

    def renumbered(self, kind: DataType) -> DataType:
        """A type with new ids in it: a field of a ROW after those within it."""
        match kind:
            case Row(fields):
                found = []
                for one in fields:
                    inner = self.renumbered(one.type)
                    found.append(replace(one, type=inner, id=self.next()))
                return replace(kind, fields=tuple(found))
            case Map(key, value):
                return replace(kind, key=self.renumbered(key), value=self.renumbered(value))
            case Array(element):
                return replace(kind, element=self.renumbered(element))
            case Multiset(element):
                return replace(kind, element=self.renumbered(element))
            case Atomic() | Vector():
                return kind
