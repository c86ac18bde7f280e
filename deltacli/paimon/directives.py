"""Comments of new columns that ask for a BLOB or a VECTOR, as Paimon's SQL users write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from deltacli.errors import Refused
from deltacli.paimon.types import Array, Atomic, BadType, DataType, Map, Vector, sql_text

_OPTIONS = {
    "__BLOB_VIEW_FIELD": "blob-view-field",
    "__BLOB_DESCRIPTOR_FIELD": "blob-descriptor-field",
    "__BLOB_FIELD": "blob-field",
    "__VECTOR_FIELD": "vector-field",
}
_BYTES = ("VARBINARY", "BINARY", "BLOB")


@dataclass(frozen=True, slots=True)
class Directive:
    """What a comment asks for, and what is left of it as a comment."""

    option: str
    comment: str | None
    length: int | None = None

    def type_of(self, name: str, kind: DataType) -> DataType:
        """The type that the column gets. Raises Refused for one that cannot become it."""
        if self.length is not None:
            if isinstance(kind, Array):
                try:
                    return Vector(kind.element, self.length, kind.nullable)
                except BadType as error:
                    raise Refused(f"{name}: {error}", hint="name another type or length") from None
            raise _misfit(name, kind, "an ARRAY")
        if isinstance(kind, Array | Map) and self.option == "blob-field":
            inner = kind.element if isinstance(kind, Array) else kind.value
            if inner.root in _BYTES:
                blob = Atomic("BLOB", nullable=inner.nullable)
                if isinstance(kind, Array):
                    return replace(kind, element=blob)
                return replace(kind, value=blob)
        elif kind.root in _BYTES:
            return Atomic("BLOB", nullable=kind.nullable)
        raise _misfit(name, kind, "BYTES, BINARY or BLOB")


def _misfit(name: str, kind: DataType, needed: str) -> Refused:
    return Refused(
        f"the comment of {name} asks for another type, which {sql_text(kind)} cannot become",
        hint=f"it is for {needed}",
    )


def parse_directive(comment: str | None) -> Directive | None:
    """What a comment asks for; None for one that is just a comment. Raises Refused."""
    text = (comment or "").strip()
    if not text.startswith(("__BLOB", "__VECTOR")):
        return None
    marker, _, rest = text.partition(";")
    if marker not in _OPTIONS or (marker == "__VECTOR_FIELD") != text.startswith("__VECTOR"):
        raise Refused(
            f"the comment {text!r} is no directive of Paimon's",
            hint=f"directives are {', '.join(_OPTIONS)}",
        )
    if marker != "__VECTOR_FIELD":
        return Directive(_OPTIONS[marker], rest.strip() or None)
    length, _, left = rest.partition(";")
    if not re.fullmatch(r"0*[1-9][0-9]{0,9}", length.strip()):
        raise Refused(
            f"the comment {text!r} tells no dimension", hint="write __VECTOR_FIELD;128; a comment"
        )
    return Directive(_OPTIONS[marker], left.strip() or None, int(length))
