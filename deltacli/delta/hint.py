"""`_last_checkpoint`: an advisory pointer, checked by its own checksum (facts 1.6)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


class BadHint(ValueError):
    """The hint cannot be used; the log is listed instead."""


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    version: int
    size: int | None
    parts: int | None
    body: dict[str, Any]


class _Number(str):
    """A number as its source text: the checksum is over the text (rule C-7)."""


def parse_hint(content: bytes) -> LastCheckpoint:
    """The hint, if it is well formed and its checksum (where present) agrees."""
    try:
        body = json.loads(
            content.decode("utf-8"),
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Number,
            object_pairs_hook=_unique_keys,
        )
    except (ValueError, RecursionError) as error:
        raise BadHint("it is empty" if not content.strip() else str(error)) from None
    if not isinstance(body, dict):
        raise BadHint("it is not a JSON object")
    checksum = body.get("checksum")
    if checksum is not None and checksum not in hint_checksums(body):
        raise BadHint("its checksum does not match")
    version = _integer(body, "version")
    if version is None or version < 0:
        raise BadHint("it has no version")
    return LastCheckpoint(version, _integer(body, "size"), _integer(body, "parts"), body)


def hint_checksums(body: dict[str, Any]) -> tuple[str, str]:
    """The MD5 of the canonical form, with leaves sorted by path and by whole `path=value`.

    The protocol says the first, Delta Spark does the second; they differ for arrays of
    more than ten entries (D-2).
    """
    leaves = list(_leaves({key: value for key, value in body.items() if key != "checksum"}, ""))
    by_path = sorted(leaves, key=lambda leaf: leaf[0].encode())
    by_text = sorted(f"{path}={value}" for path, value in leaves)
    return (
        _md5(",".join(f"{path}={value}" for path, value in by_path)),
        _md5(",".join(by_text)),
    )


def _leaves(value: Any, path: str) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        steps = [(_quoted(key), one) for key, one in value.items()]
    elif isinstance(value, list):
        steps = [(str(position), one) for position, one in enumerate(value)]
    else:
        return [(path, _literal(value))]
    found = []
    for step, one in steps:
        found += _leaves(one, f"{path}+{step}" if path else step)
    return found


def _literal(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    # Values that did not come through `parse_hint` keep their usual JSON text.
    return json.dumps(value)


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return f'"{quote(text, safe="-._~", errors="surrogatepass")}"'


def _md5(text: str) -> str:
    import hashlib

    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise BadHint("a key stands twice")
    return body


def _integer(body: dict[str, Any], key: str) -> int | None:
    try:
        return int(body[key]) if isinstance(body.get(key), _Number) else None
    except ValueError:
        return None
