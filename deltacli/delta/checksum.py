"""Version checksums (`V.crc`): what another writer says of a version (facts 6.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.paths import checksum_path
from deltacli.errors import StorageError
from deltacli.storage import LogStore


@dataclass(frozen=True, slots=True)
class VersionChecksum:
    """The counters of one version; `body` is the whole document."""

    num_files: int
    table_size_bytes: int
    in_commit_timestamp: int | None
    body: Mapping[str, Any]


def read_checksum(store: LogStore, version: int) -> VersionChecksum | None:
    """The checksum of a version, or None if there is none that can be read (rule CR-5)."""
    try:
        body = json_text.load(store.read(checksum_path(version)))
    except (StorageError, ValueError):
        return None
    if not isinstance(body, dict):
        return None
    files, size = body.get("numFiles"), body.get("tableSizeBytes")
    if type(files) is not int or type(size) is not int:
        return None
    stamp = body.get("inCommitTimestampOpt")
    return VersionChecksum(files, size, stamp if type(stamp) is int else None, body)
