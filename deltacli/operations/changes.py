"""What changes between two versions, exactly: for `snapshot --diff` and `history --chart`.

Only the files that the commits in between touch need a look; the rest is the same in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.actions import BadAction, parse_line
from deltacli.delta.engine import Want
from deltacli.delta.replay import FileKey, key_of
from deltacli.delta.schema import Struct, type_text, walk
from deltacli.delta.segment import LogListing
from deltacli.delta.snapshot import Snapshot
from deltacli.errors import CorruptLog
from deltacli.operations.records import Document
from deltacli.storage import LogStore


def diff_snapshots(old: Snapshot, new: Snapshot) -> Document:
    """The net effect of all commits after `old` up to `new`."""
    before, after = _touched_state(old, new)
    added = sorted((_path(key), size) for key, size in after.items() if key not in before)
    removed = sorted((_path(key), size) for key, size in before.items() if key not in after)
    values: dict[str, Any] = {
        "location": new.store.location,
        "fromVersion": old.version,
        "toVersion": new.version,
        "numFilesAdded": len(added),
        "bytesAdded": sum(size for _, size in added),
        "numFilesRemoved": len(removed),
        "bytesRemoved": sum(size for _, size in removed),
        "protocol": _changed(_protocol(old), _protocol(new)),
        "metadata": _changed(_metadata(old), _metadata(new)),
        "properties": _changed(
            dict(old.metadata.configuration), dict(new.metadata.configuration)
        ),
        "columns": _changed(_columns(old.schema), _columns(new.schema)),
        "transactions": _changed(
            {key: txn.version for key, txn in old.state.txns.items()},
            {key: txn.version for key, txn in new.state.txns.items()},
        ),
        "domains": _changed(
            {key: one.configuration for key, one in old.domains.items()},
            {key: one.configuration for key, one in new.domains.items()},
        ),
        "filesAdded": [{"path": path, "sizeInBytes": size} for path, size in added],
        "filesRemoved": [{"path": path, "sizeInBytes": size} for path, size in removed],
    }
    return Document(values, "diff")


def _path(key: FileKey) -> str:
    return key if isinstance(key, str) else f"{key[0]} (deletion vector {key[1]})"


def _touched_state(
    old: Snapshot, new: Snapshot
) -> tuple[dict[FileKey, int], dict[FileKey, int]]:
    """Live files before and after, of all paths that commits between the versions touch."""
    low, high = sorted((old.version, new.version))
    paths: set[str] = set()
    for _, actions in commit_actions(old.store, new.listing, low + 1, high):
        paths.update(key if isinstance(key, str) else key[0] for _, key, _ in actions)
    return old.live_among(paths), new.live_among(paths)


FileAction = tuple[str, FileKey, int]


def commit_actions(
    store: LogStore, listing: LogListing, first: int, last: int
) -> Iterator[tuple[int, list[FileAction]]]:
    """Each commit's file actions as (add or remove, key, size), versions ascending."""
    for version in range(first, last + 1):
        file = listing.commits.get(version)
        if file is None:
            raise CorruptLog(
                f"commit {version} is missing: what changed after {first - 1} cannot be told",
                hint="compare versions on one side of the gap",
            )
        actions: list[FileAction] = []
        for number, line in enumerate(store.read(file.path).split(b"\n"), 1):
            try:
                action = parse_line(line) if line else None
                if action and action[0] in ("add", "remove"):
                    size = action[1].get("size")
                    actions.append(
                        (action[0], key_of(action[1]), size if type(size) is int else 0)
                    )
            except BadAction as error:
                raise CorruptLog(f"{file.path}, line {number}: {error}") from None
        yield version, actions


def _changed(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The keys whose values differ, with both values; an absent one is null."""
    keys = [*new, *(key for key in old if key not in new)]
    return {
        key: {"from": old.get(key), "to": new.get(key)}
        for key in keys
        if old.get(key) != new.get(key)
    }


def _protocol(snapshot: Snapshot) -> dict[str, Any]:
    protocol = snapshot.protocol
    return {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": sorted(protocol.reader_features or ()) or None,
        "writerFeatures": sorted(protocol.writer_features or ()) or None,
    }


def _metadata(snapshot: Snapshot) -> dict[str, Any]:
    metadata = snapshot.metadata
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "partitionColumns": list(metadata.partition_columns),
    }


def _columns(schema: Struct | None) -> dict[str, str]:
    if schema is None:
        return {}
    return {
        ".".join(path): type_text(one.type) + ("" if one.nullable else " not null")
        for path, one in walk(schema)
    }


def sizes_over_time(start: Snapshot, last: int) -> dict[int, tuple[int, int]]:
    """Live files and bytes at each version from `start` on to `last`."""
    changes = list(commit_actions(start.store, start.listing, start.version + 1, last))
    touched = {
        key if isinstance(key, str) else key[0] for _, actions in changes for _, key, _ in actions
    }
    live = start.live_among(touched)
    totals = start.totals(frozenset({Want.FILES}), now_ms=0)
    files, size = totals.files, totals.bytes
    series = {start.version: (files, size)}
    for version, actions in changes:
        # Removes first: within a commit a file's vector is replaced by remove and add.
        for kind, key, _ in actions:
            if kind == "remove" and key in live:
                files, size = files - 1, size - live.pop(key)
        for kind, key, own in actions:
            if kind == "add":
                files, size = files + (key not in live), size + own - live.get(key, 0)
                live[key] = own
        series[version] = (files, size)
    return series

