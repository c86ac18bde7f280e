"""Small tables of every kind, with real files: live ones, and some that may be deleted."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.storage.local import LocalStore
from tests.builder import (
    Action,
    TableBuilder,
    add,
    column,
    commit_info,
    domain,
    features,
    metadata,
    protocol,
    remove,
    txn,
)

ROWS = 20


def _content(name: str = "id", kind: Any = None) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({name: pa.array(range(ROWS), kind or pa.int32())}), sink)
    return sink.getvalue()


def _table(
    place: Path,
    head: Sequence[Action],
    *,
    content: bytes | None = None,
    partition: bool = True,
    **more: Any,
) -> None:
    """Four commits and a checkpoint; an old tombstone, a fresh one, and garbage."""
    content = content or _content()
    store = LocalStore(str(place))
    table = TableBuilder(store)

    def file(path: str) -> Action:
        store.put(path, content)
        values = {"p": path[2:3]} if partition else {}
        stats = {"numRecords": ROWS, "minValues": {"id": 0}, "maxValues": {"id": ROWS - 1},
                 "nullCount": {"id": 0}}  # fmt: skip
        own = {"partitionValues": values, "modificationTime": 0, **more}
        body = add(path, len(content), None, **own)
        body["add"]["stats"] = json.dumps(stats)
        return body

    now_ms = time.time_ns() // 1_000_000
    table.commit(
        commit_info("CREATE TABLE", inCommitTimestamp=1000), *head, file("p=a/0"), file("p=b/1"),
        file("p=a/2"), at_ms=0,
    )  # fmt: skip
    table.commit(commit_info(inCommitTimestamp=1001), file("p=b/3"), txn("app", 1), at_ms=0)
    table.commit(
        commit_info(inCommitTimestamp=1002), remove("p=a/2", 0, len(content)), file("p=a/4"),
        at_ms=0,
    )  # fmt: skip
    table.commit(
        commit_info(inCommitTimestamp=1003), remove("p=b/3", now_ms, len(content)), txn("app", 2)
    )
    store.put("p=a/garbage", b"nobody needs this")
    store.put("empty/deep/garbage", b"nor this")
    for folder, _, names in os.walk(place, topdown=False):
        if not folder.endswith("_delta_log"):
            for one in (*(f"{folder}/{name}" for name in names), folder):
                os.utime(one, (0, 0))


_P = column("p", "string")


def _plain(place: Path) -> None:
    _table(place, [protocol(), metadata(column("id", "integer"), _P, partition_by=["p"])])


def _mapped(place: Path) -> None:
    mapping = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"}
    own = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    head = [
        protocol(2, 5),
        metadata({**column("id", "integer"), "metadata": own}, configuration=mapping),
    ]
    _table(place, head, content=_content("col-1"), partition=False)


def _v2(place: Path) -> None:
    config = {"delta.checkpointPolicy": "v2", "delta.checkpoint.writeStatsAsStruct": "true"}
    names = ("v2Checkpoint", "deletionVectors")
    schema = metadata(column("id", "integer"), _P, partition_by=["p"], configuration=config)
    _table(place, [features(*names), schema])


def _rich(place: Path) -> None:
    """In-commit timestamps, row ids, domains, invariants and change data."""
    config = {
        "delta.enableInCommitTimestamps": "true",
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": "_row-id",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
        "delta.checkpointInterval": "2",
    }
    names = ["inCommitTimestamp", "rowTracking", "domainMetadata", "changeDataFeed",
             "appendOnly", "invariants"]  # fmt: skip
    head = [
        protocol(1, 7, writer_features=names),
        metadata(column("id", "integer"), _P, partition_by=["p"], configuration=config),
        domain("delta.rowTracking", '{"rowIdHighWaterMark":99}'),
        domain("app", '{"a":1}'),
    ]
    _table(place, head, baseRowId=0, defaultRowCommitVersion=0)


def _widened(place: Path) -> None:
    """Narrow files under a wide column."""
    change = {"fromType": "integer", "toType": "long"}
    wide = {**column("id", "long"), "metadata": {"delta.typeChanges": [change]}}
    on = {"delta.enableTypeWidening": "true"}
    schema = metadata(wide, _P, partition_by=["p"], configuration=on)
    _table(place, [features("typeWidening"), schema])


KINDS: dict[str, Callable[[Path], None]] = {
    "plain": _plain, "mapped": _mapped, "v2": _v2, "rich": _rich, "widened": _widened,
}  # fmt: skip
