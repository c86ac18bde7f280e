"""Signed texts: what the server hands out and believes only if it comes back unchanged.

Page tokens, refresh tokens and file URLs carry all that is needed to serve them, so they
outlive a restart as long as the key does.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
from collections.abc import Mapping
from typing import Any

from deltacli.delta import json_text

_MAC_BYTES = 16
KEY_BYTES = 32


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def encoded(content: bytes) -> str:
    """URL-safe text without padding."""
    text = binascii.b2a_base64(content, newline=False).rstrip(b"=").decode()
    return text.replace("+", "-").replace("/", "_")


def decoded(text: str) -> bytes:
    """The inverse of `encoded`. Raises ValueError for what it never makes."""
    try:
        content = base64.b64decode(
            text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True
        )
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("not base64url") from None
    if encoded(content) != text:
        raise ValueError("another spelling of the same bytes")
    return content


class Seals:
    """Signs with one key; each purpose has its own signatures."""

    def __init__(self, key: bytes):
        self._key = key

    def mac(self, purpose: bytes, content: bytes) -> bytes:
        return hmac.digest(self._key, purpose + b"\0" + content, "sha256")[:_MAC_BYTES]

    def signature(self, purpose: bytes, content: bytes) -> str:
        return self.mac(purpose, content).hex()

    def is_signature(self, purpose: bytes, content: bytes, signature: str) -> bool:
        known = self.signature(purpose, content).encode()
        return hmac.compare_digest(known, signature.encode("utf-8", "replace"))

    def seal(self, purpose: str, body: Mapping[str, Any]) -> str:
        content = json_text.dump(dict(body))
        return encoded(self.mac(purpose.encode(), content) + content)

    def open(self, purpose: str, text: str) -> dict[str, Any] | None:
        """The body of a sealed text; None if it is not ours, or was changed."""
        try:
            content = decoded(text)
        except ValueError:
            return None
        mac, body = content[:_MAC_BYTES], content[_MAC_BYTES:]
        if not hmac.compare_digest(self.mac(purpose.encode(), body), mac):
            return None
        opened = json_text.load(body)
        return opened if isinstance(opened, dict) else None
