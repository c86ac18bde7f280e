"""Writes a benchmark table: `python benchmarks/tables.py NAME DIR`, NAME being wide, wide_x0.1,
long, long_ckpt, small or footers.

The log only, no data files, but for `footers`: a hundred thousand of twenty columns.
`wide` is a checkpoint of a million files and 200,000 tombstones with 50 commits of a thousand
actions behind it; `long` is ten thousand commits of ten adds and five removes, `long_ckpt`
the same with a recent checkpoint; `small` is ten commits.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = (("id", "long"), ("value", "double"), ("name", "string"), ("date", "date"))
SCHEMA = {
    "type": "struct",
    "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in COLUMNS],
}
NOW_MS = int(time.time() * 1000)
DAY_MS = 86_400_000
HEAD: list[dict[str, Any]] = [
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {
        "metaData": {
            "id": "00000000-0000-4000-8000-000000000000",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(SCHEMA),
            "partitionColumns": ["date"],
            "configuration": {},
            "createdTime": NOW_MS - 60 * DAY_MS,
        }
    },
]
TEXT_MAP = pa.map_(pa.string(), pa.string())
ROW_TYPE = pa.schema(
    [
        (
            "add",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("partitionValues", TEXT_MAP),
                    ("size", pa.int64()),
                    ("modificationTime", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("stats", pa.string()),
                ]
            ),
        ),
        (
            "remove",
            pa.struct(
                [
                    ("path", pa.string()),
                    ("deletionTimestamp", pa.int64()),
                    ("dataChange", pa.bool_()),
                    ("partitionValues", TEXT_MAP),
                    ("size", pa.int64()),
                ]
            ),
        ),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    (
                        "format",
                        pa.struct([("provider", pa.string()), ("options", TEXT_MAP)]),
                    ),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", TEXT_MAP),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        ),
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
    ]
)


def file(number: int) -> dict[str, Any]:
    """File `number`: always the same path, size and statistics."""
    chance = random.Random(number)
    date = f"2024-{1 + number % 12:02}-{1 + number % 28:02}"
    low, value = chance.randrange(10**11, 10**12), chance.random() * 1e5
    stats = {
        "numRecords": chance.randrange(100_000, 1_000_000),
        "minValues": {"id": low, "value": value, "name": f"{low:012x}"[:8]},
        "maxValues": {"id": low + 10**6, "value": value + 7, "name": f"{low:012x}"[4:]},
        "nullCount": {"id": 0, "value": 1, "name": 2},
    }
    return {
        "path": f"date={date}/{chance.getrandbits(128):032x}-c000.snappy.parquet",
        "partitionValues": {"date": date},
        "size": chance.randrange(10**7, 9 * 10**7),
        "modificationTime": NOW_MS - 60 * DAY_MS,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }


def removed(number: int) -> dict[str, Any]:
    body = file(number)
    kept = {key: body[key] for key in ("path", "partitionValues", "size", "dataChange")}
    return {**kept, "deletionTimestamp": NOW_MS - DAY_MS}


def write_commit(log: Path, version: int, actions: list[dict[str, Any]]) -> None:
    info = {"commitInfo": {"timestamp": NOW_MS, "operation": "WRITE", "operationMetrics": {}}}
    text = "\n".join(json.dumps(one, separators=(",", ":")) for one in [info, *actions])
    (log / f"{version:020}.json").write_text(text + "\n", encoding="utf-8")


def write_checkpoint(log: Path, version: int, rows: Iterator[dict[str, Any]]) -> None:
    count = 0
    with pq.ParquetWriter(log / f"{version:020}.checkpoint.parquet", ROW_TYPE) as writer:
        block: list[dict[str, Any]] = list(HEAD)
        for row in rows:
            block.append(row)
            if len(block) == 100_000:
                count += write_block(writer, block)
                block = []
        count += write_block(writer, block)
    hint = {"version": version, "size": count}
    (log / "_last_checkpoint").write_text(json.dumps(hint), encoding="utf-8")


def write_block(writer: Any, block: list[dict[str, Any]]) -> int:
    rows = [{name: block_row(row.get(name)) for name in ROW_TYPE.names} for row in block]
    writer.write_table(pa.Table.from_pylist(rows, schema=ROW_TYPE))
    return len(block)


def block_row(body: Any) -> Any:
    """Maps as pyarrow wants them."""
    if not isinstance(body, dict):
        return body
    maps = ("partitionValues", "configuration", "options")
    return {k: list(v.items()) if k in maps else block_row(v) for k, v in body.items()}


def wide(log: Path, factor: float) -> None:
    live, gone = int(1_000_000 * factor), int(200_000 * factor)
    order = list(range(live + gone))
    random.Random(1).shuffle(order)
    rows = ({"add": file(n)} if n < live else {"remove": removed(n)} for n in order)
    write_commit(log, 1000, [{"add": file(n)} for n in range(10)])
    write_checkpoint(log, 1000, rows)
    for commit in range(50):
        fresh = range(10**9 + 500 * commit, 10**9 + 500 * (commit + 1))
        old = range(500 * commit, min(500 * (commit + 1), live))
        actions = [{"add": file(n)} for n in fresh] + [{"remove": removed(n)} for n in old]
        write_commit(log, 1001 + commit, actions)


def long(log: Path, commits: int, checkpoint: bool) -> None:
    for version in range(commits):
        actions = [*HEAD] if version == 0 else []
        actions += [{"add": file(n)} for n in range(10 * version, 10 * version + 10)]
        if version:
            actions += [{"remove": removed(n)} for n in range(5 * version - 5, 5 * version)]
        write_commit(log, version, actions)
    if checkpoint:
        last = commits - 10
        rows = (
            {"remove": removed(n)} if n < 5 * last else {"add": file(n)}
            for n in range(10 * (last + 1))
        )
        write_checkpoint(log, last, rows)


def footers(table: Path, count: int) -> None:
    """Data files that are all alike, in ten commits."""
    columns = {f"c{n:02}": ["a", "b", "c"] if n % 2 else [1, 2, 3] for n in range(20)}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    content = sink.getvalue().to_pybytes()
    fields = [
        {"name": key, "type": "string" if n % 2 else "long", "nullable": True, "metadata": {}}
        for n, key in enumerate(columns)
    ]
    (head,) = (one["metaData"] for one in HEAD if "metaData" in one)
    schema = json.dumps({"type": "struct", "fields": fields})
    meta = {"metaData": {**head, "schemaString": schema, "partitionColumns": []}}
    for version in range(10):
        names = [f"part-{version}-{n:05}.parquet" for n in range(count // 10)]
        for one in names:
            (table / one).write_bytes(content)
        own = {"partitionValues": {}, "size": len(content), "modificationTime": NOW_MS,
               "dataChange": True, "stats": '{"numRecords":3}'}  # fmt: skip
        adds = [{"add": {"path": one, **own}} for one in names]
        write_commit(table / "_delta_log", version, [HEAD[0], meta, *adds] if not version else adds)


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    log = folder / name / "_delta_log"
    log.mkdir(parents=True)
    kind, _, factor = name.partition("_x")
    if kind == "wide":
        wide(log, float(factor or 1))
    elif kind == "footers":
        footers(folder / name, int(100_000 * float(factor or 1)))
    else:
        long(log, 10 if kind == "small" else 10_000, checkpoint=kind == "long_ckpt")


if __name__ == "__main__":
    main()
