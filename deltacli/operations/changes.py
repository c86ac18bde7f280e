"""What changes between two versions, exactly: for `snapshot --diff` and `history --chart`.

Only the files that the commits in between touch need a look; the rest is the same in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.delta.actions import BadAction, Json, parse_line
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
    low, high = sorted((old.version, new.version))
    data_change: dict[FileKey, bool] = {}
    if any(version not in new.whole_listing.commits for version in range(low + 1, high + 1)):
        # Without all commits in between only the whole states can tell.
        before, after = old.all_live(), new.all_live()
    else:
        touched: set[str] = set()
        for _, actions in commit_actions(old.store, new.whole_listing, low + 1, high):
            for action in actions:
                touched.add(action.path)
                data_change[action.key] = action.data_change
        before, after = old.live_among(touched), new.live_among(touched)

    def files(keys: Iterable[FileKey], sizes: Mapping[FileKey, tuple[str, int]]) -> list[Any]:
        return sorted(
            (
                {
                    "path": sizes[key][0],
                    "sizeInBytes": sizes[key][1],
                    "deletionVector": None if isinstance(key, str) else key[1],
                    "dataChange": data_change.get(key),
                }
                for key in keys
            ),
            key=lambda file: str(file["path"]),
        )

    # A file that got another deletion vector is the same file, changed.
    here = {_path(key) for key in after.keys() - before.keys()}
    gone = {_path(key) for key in before.keys() - after.keys()}
    added = files((k for k in after.keys() - before.keys() if _path(k) not in gone), after)
    removed = files((k for k in before.keys() - after.keys() if _path(k) not in here), before)
    changed = files((k for k in after.keys() - before.keys() if _path(k) in gone), after)
    values: dict[str, Any] = {
        "location": new.store.location,
        "fromVersion": old.version,
        "toVersion": new.version,
        "numFilesAdded": len(added),
        "bytesAdded": sum(file["sizeInBytes"] for file in added),
        "numFilesRemoved": len(removed),
        "bytesRemoved": sum(file["sizeInBytes"] for file in removed),
        "numFilesChanged": len(changed),
        "protocol": _changed(_protocol(old), _protocol(new)),
        "metadata": _changed(_metadata(old), _metadata(new)),
        "properties": _changed(dict(old.metadata.configuration), dict(new.metadata.configuration)),
        "columns": _changed(_columns(old.schema), _columns(new.schema)),
        "transactions": _changed(
            {key: txn.version for key, txn in old.state.txns.items()},
            {key: txn.version for key, txn in new.state.txns.items()},
        ),
        "domains": _changed(
            {key: one.configuration for key, one in old.domains.items()},
            {key: one.configuration for key, one in new.domains.items()},
        ),
        "filesAdded": added,
        "filesRemoved": removed,
        "filesChanged": changed,
    }
    return Document(values, "diff")


def _path(key: FileKey) -> str:
    return key if isinstance(key, str) else key[0]


@dataclass(frozen=True, slots=True)
class FileAction:
    """An add or remove of a commit, as far as sums need it."""

    kind: str
    key: FileKey
    size: int
    data_change: bool

    @property
    def path(self) -> str:
        return _path(self.key)


def commit_actions(
    store: LogStore, listing: LogListing, first: int, last: int
) -> Iterator[tuple[int, list[FileAction]]]:
    """Each commit's file actions, versions ascending."""
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
                    actions.append(_file_action(*action))
            except BadAction as error:
                raise CorruptLog(
                    f"{file.path}, line {number}: {error}", hint="restore the file from a backup"
                ) from None
        yield version, actions


def _file_action(kind: str, body: Json) -> FileAction:
    size = body.get("size")
    return FileAction(
        kind, key_of(body), size if type(size) is int else 0, bool(body.get("dataChange", True))
    )


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
    changes = list(commit_actions(start.store, start.whole_listing, start.version + 1, last))
    found = start.live_among({action.path for _, actions in changes for action in actions})
    live = {key: size for key, (_, size) in found.items()}
    totals = start.totals(frozenset({Want.FILES}), now_ms=0)
    files, size = totals.files, totals.bytes
    series = {start.version: (files, size)}
    for version, actions in changes:
        # Removes first: within a commit a file's vector is replaced by remove and add.
        for action in actions:
            if action.kind == "remove" and action.key in live:
                files, size = files - 1, size - live.pop(action.key)
        for action in actions:
            if action.kind == "add":
                files += action.key not in live
                size += action.size - live.get(action.key, 0)
                live[action.key] = action.size
        series[version] = (files, size)
    return series
