"""The `delta-sharing-capabilities` header (seed: Delta Sharing Capabilities Header)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEADER = "delta-sharing-capabilities"
PARQUET, DELTA = "parquet", "delta"
_FORMATS = (PARQUET, DELTA)
_MOST_CHARACTERS = 8192


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a client says it can do.

    `formats` are the response formats it names and that exist, in its order; a client that
    names none at all gets Parquet. `features` are in lower case.
    """

    formats: tuple[str, ...] = (PARQUET,)
    features: frozenset[str] = frozenset()
    wants_end: bool = False


def parse_capabilities(values: Sequence[str]) -> Capabilities:
    """The capabilities of a request's headers; what is not understood is passed over.

    Raises ValueError for a header that is too long.
    """
    text = ";".join(values)
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"the header {HEADER} is longer than {_MOST_CHARACTERS} characters")
    found: dict[str, tuple[str, ...]] = {}
    for piece in text.lower().split(";"):
        key, equals, value = piece.partition("=")
        if equals and "=" not in value:
            words = tuple(word.strip() for word in value.split(",") if word.strip())
            if words:
                found[key.strip()] = words
    formats = found.get("responseformat", (PARQUET,))
    return Capabilities(
        tuple(dict.fromkeys(one for one in formats if one in _FORMATS)),
        frozenset(found.get("readerfeatures", ())),
        found.get("includeendstreamaction") == ("true",),
    )


def answered(response_format: str, *, has_end: bool) -> str:
    """The header of an answer: only what was chosen."""
    return f"responseformat={response_format}" + (";includeendstreamaction=true" if has_end else "")
