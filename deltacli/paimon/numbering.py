"""Field ids as Paimon gives them out."""

from __future__ import annotations

from dataclasses import replace

from deltacli.paimon.types import DataType, Field, Row, with_inner


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
        if not isinstance(kind, Row):
            return with_inner(kind, self.renumbered)
        found = []
        for one in kind.fields:
            inner = self.renumbered(one.type)
            found.append(replace(one, type=inner, id=self.next()))
        return replace(kind, fields=tuple(found))
