"""`history --chart`: live files and bytes at each version of the rows."""

from __future__ import annotations

from collections.abc import Callable

from deltacli.delta.engine import Engine
from deltacli.delta.segment import LogListing
from deltacli.delta.snapshot import load_snapshot
from deltacli.operations.changes import sizes_over_time
from deltacli.operations.history import History
from deltacli.operations.records import Row
from deltacli.storage import LogStore


def add_sizes(
    history: History, store: LogStore, listing: LogListing, engine: Callable[[], Engine]
) -> dict[int, tuple[int, int]]:
    """Give the rows numFiles and sizeInBytes; null where a version cannot be rebuilt.

    Returns them by version, ascending.
    """
    versions = sorted(row["version"] for row in history.rows if row["recreatable"])
    # Older versions beyond a gap are left out: the course begins after it.
    possible, commits = listing.rebuildable(), listing.commits
    start = last = versions[-1] if versions else -1
    for version in reversed(versions):
        if any(not possible.get(one) or one + 1 not in commits for one in range(version, start)):
            break
        start = version
    sizes: dict[int, tuple[int, int]] = {}
    if versions:
        snapshot = load_snapshot(
            store, engine, version=start, listing=listing, allow_catalog_managed=True
        )
        sizes = sizes_over_time(snapshot, last)
    rows: list[Row] = []
    for row in history.rows:
        files, size = sizes.get(row["version"], (None, None))
        rows.append({**row, "numFiles": files, "sizeInBytes": size})
    history.rows = rows
    return {version: one for version, one in sizes.items() if version in set(versions)}
