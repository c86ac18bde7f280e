"""Deletion vector descriptors: ids and where the bitmaps lie (PROTOCOL "Deletion Vectors")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltacli.delta.paths import file_location

if TYPE_CHECKING:
    from uuid import UUID

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGITS = {character: position for position, character in enumerate(_Z85)}


def z85_decode(text: str) -> bytes:
    """The bytes of a Z85 text. Raises ValueError."""
    if len(text) % 5:
        raise ValueError("a Z85 text has a multiple of five characters")
    decoded = bytearray()
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            if character not in _DIGITS:
                raise ValueError(f"{character!r} is not a Z85 character")
            number = number * 85 + _DIGITS[character]
        # Some writers' texts run over here; the reference implementation drops what is above.
        decoded += (number & 0xFFFFFFFF).to_bytes(4, "big")
    return bytes(decoded)


def z85_encode(content: bytes) -> str:
    """The Z85 text of bytes, a multiple of four of them."""
    text = ""
    for start in range(0, len(content), 4):
        number = int.from_bytes(content[start : start + 4], "big")
        digits = ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits = _Z85[digit] + digits
        text += digits
    return text


def relative_vector(descriptor: Mapping[str, Any], file_id: UUID) -> dict[str, Any]:
    """The descriptor of a vector whose file lies in the table, named by a UUID."""
    return {**descriptor, "storageType": "u", "pathOrInlineDv": z85_encode(file_id.bytes)}


def vector_path(descriptor: Mapping[str, Any]) -> str | None:
    """The file that holds the vector: relative (storage `u`) or absolute (`p`), not encoded.

    None for a vector that is stored inline. Raises ValueError.
    """
    kind = descriptor.get("storageType")
    text = descriptor.get("pathOrInlineDv")
    if not isinstance(text, str):
        raise ValueError("a deletion vector has no path")
    if kind == "i":
        return None
    if kind == "p":
        return text
    if kind != "u":
        raise ValueError(f"unknown deletion vector storage {kind!r}")
    if len(text) < 20:
        raise ValueError(f"{text!r} is too short to name a deletion vector's file")
    # An optional random prefix stands before the 20 characters of the UUID.
    from uuid import UUID

    prefix, encoded = text[:-20], text[-20:]
    name = f"deletion_vector_{UUID(bytes=z85_decode(encoded))}.bin"
    return f"{prefix}/{name}" if prefix else name


def vector_location(descriptor: Mapping[str, Any], table_location: str) -> str | None:
    """The full URL of the vector's file; None for an inline vector."""
    path = vector_path(descriptor)
    if path is None or descriptor.get("storageType") == "p":
        return path if path is None else file_location(table_location, path)
    return f"{table_location}/{path}"
