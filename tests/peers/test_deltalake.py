"""The deltalake package writes; deltacli reads the same state at every version."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Result

pytestmark = pytest.mark.peer
pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake", reason="the deltalake package is not installed")

WORDS = ["a", "sp ace", "per%cent", "sla/sh", "é", "q=1", "[bold]", "", "x:y", None]


def rows(chance: random.Random, count: int) -> Any:
    return pa.table(
        {
            "id": pa.array([chance.randrange(1000) for _ in range(count)], pa.int64()),
            "p": pa.array([chance.choice(WORDS) for _ in range(count)], pa.string()),
            "d": pa.array([chance.choice([None, 19000, 20000]) for _ in range(count)], pa.date32()),
        }
    )


def change(path: str, chance: random.Random) -> None:
    kind = chance.choice(["append", "append", "overwrite", "delete", "update", "compact"])
    table = deltalake.DeltaTable(path)
    if kind in ("append", "overwrite"):
        deltalake.write_deltalake(path, rows(chance, 6), mode=kind)
    elif kind == "delete":
        table.delete(f"id < {chance.randrange(1000)}")
    elif kind == "update":
        table.update(predicate=f"id > {chance.randrange(1000)}", updates={"id": "id + 1"})
    else:
        table.optimize.compact()
    if chance.random() < 0.3:
        deltalake.DeltaTable(path).create_checkpoint()


@pytest.mark.parametrize("seed", range(4))
def test_a_random_history_is_read_alike(
    tmp_path: Path, deltacli: Callable[..., Result], seed: int
) -> None:
    chance = random.Random(seed)
    path = str(tmp_path / "table")
    partition = chance.choice([[], ["p"], ["p", "d"]])
    deltalake.write_deltalake(path, rows(chance, 6), partition_by=partition)
    for _ in range(12):
        change(path, chance)
    newest = deltalake.DeltaTable(path).version()
    for version in range(newest + 1):
        theirs = deltalake.DeltaTable(path, version=version)
        actions = pa.table(theirs.get_add_actions(flatten=True)).to_pylist()
        files = deltacli("snapshot", path, "--at", str(version), "--files", "-o", "jsonl").rows
        assert {(one["path"], one["size_bytes"]) for one in actions} == {
            (one["path"], one["size"]) for one in files
        }
        document = deltacli("snapshot", path, "--at", str(version), "-o", "json").json
        assert document["numRecords"] == sum(one["num_records"] or 0 for one in actions)
        assert document["id"] == str(theirs.metadata().id)
    ours = deltacli("history", path, "-o", "json").json
    history = deltalake.DeltaTable(path).history()
    assert [row["operation"] for row in ours] == [one["operation"] for one in history]
