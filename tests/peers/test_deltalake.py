"""The deltalake package writes; deltacli reads the same state at every version."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.snapshot import load_snapshot
from deltacli.errors import Refused
from deltacli.local.engine import LocalEngine
from deltacli.operations.checkpoint import apply_checkpoint, plan_checkpoint
from deltacli.storage.local import LocalStore
from tests.conftest import Result
from tests.operations.test_checkpoint import drop_older_than
from tests.test_golden import GOLDEN, READABLE

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


def opened(path: Path) -> Any:
    """What deltalake says of a table, or why it cannot say it."""
    try:
        table = deltalake.DeltaTable(str(path))
        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    except Exception as error:
        return f"{type(error).__name__}"
    kept = ("path", "size_bytes", "num_records", "modification_time")
    files = sorted(
        (tuple((key, str(one.get(key))) for key in kept) for one in actions), key=lambda row: row
    )
    metadata = table.metadata()
    return table.version(), str(metadata.id), json.loads(table.schema().to_json()), files


@pytest.mark.parametrize("name", READABLE)
def test_a_table_reads_alike_from_our_checkpoint_alone(tmp_path: Path, name: str) -> None:
    shutil.copytree(GOLDEN / name, tmp_path / "t")
    store = LocalStore(str(tmp_path / "t"))
    snapshot = load_snapshot(store, LocalEngine)
    if snapshot.version not in snapshot.listing.commits:
        pytest.skip("the table has its newest version as a checkpoint only")
    before = opened(tmp_path / "t")
    if "canonicalized" in name:
        pytest.skip("deltalake takes two spellings of one path for two files")
    if isinstance(before, str):
        pytest.skip(f"deltalake cannot open the table: {before}")
    kinds = ["classic"]
    kinds += ["v2", "v2-parquet"] if "v2Checkpoint" in snapshot.features else []
    for kind in kinds:
        own = LocalStore(str(shutil.copytree(tmp_path / "t", tmp_path / kind)))
        try:
            plan = plan_checkpoint(
                load_snapshot(own, LocalEngine), kind=kind, force=True, now_ms=1_795_000_000_000
            )
        except Refused as refusal:
            pytest.skip(refusal.message)
        result = apply_checkpoint(plan, LocalEngine())
        commit = f"_delta_log/{snapshot.version:020}.json"
        drop_older_than(own, snapshot.version, {result.files[0]["path"], commit})
        assert opened(tmp_path / kind) == before


def rows_of(path: str, version: int | None = None) -> Any:
    table = deltalake.DeltaTable(path, version=version)
    return table.to_pyarrow_table().sort_by([("id", "ascending"), ("p", "ascending")])


@pytest.mark.parametrize("seed", range(3))
def test_rows_are_the_same_after_a_vacuum(
    tmp_path: Path, deltacli: Callable[..., Result], seed: int
) -> None:
    chance = random.Random(seed)
    path = str(tmp_path / "table")
    deltalake.write_deltalake(path, rows(chance, 6), partition_by=["p"])
    for _ in range(12):
        change(path, chance)
    before = rows_of(path)
    planned = deltacli(
        "vacuum", path, "--retain", "0h", "--allow-short-retention", "--dry-run", "-o", "json"
    ).json
    theirs = deltalake.DeltaTable(path).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=True, full=True
    )
    assert sorted(one["path"] for one in planned["files"]) == sorted(theirs)
    done = deltacli(
        "vacuum", path, "--retain", "0h", "--allow-short-retention", "--allow-large", "--yes"
    )
    assert done.code == 0, done.stderr
    assert rows_of(path).equals(before)
    # The versions that are said to be readable are.
    for version in range(planned["earliestReadableVersion"], planned["version"] + 1):
        rows_of(path, version)
    change(path, chance)


def test_live_deletion_vectors_survive_our_vacuum_and_not_theirs(
    tmp_path: Path, deltacli: Callable[..., Result]
) -> None:
    """VL-6: the peer's full vacuum takes live vector files for garbage."""
    source = GOLDEN / "dat" / "deletion_vectors"
    if not source.exists():
        pytest.skip(f"no tables in {GOLDEN}")
    place = tmp_path / "table"
    shutil.copytree(source, place)
    live = [name for name in os.listdir(place) if name.endswith(".bin")]
    short = ("--retain", "0h", "--allow-short-retention", "--allow-large", "--yes")
    result = deltacli("vacuum", place, *short, "-o", "json")
    assert result.code == 0, result.stderr
    planned = {one["path"] for one in result.json["files"]}
    kept = [name for name in live if name not in planned]
    assert kept
    assert all((place / name).exists() for name in kept)
    theirs = deltalake.DeltaTable(place).vacuum(
        retention_hours=0, enforce_retention_duration=False, dry_run=True, full=True
    )
    assert set(kept) <= set(theirs)


def unreferenced_tables() -> list[Any]:
    from tests.test_golden import UNREFERENCED

    return list(UNREFERENCED)


@pytest.mark.parametrize("name", unreferenced_tables())
def test_tables_of_other_writers_have_the_same_rows_after_a_vacuum(
    tmp_path: Path, deltacli: Callable[..., Result], name: str
) -> None:
    place = tmp_path / "table"
    shutil.copytree(GOLDEN / name, place)
    try:
        before = deltalake.DeltaTable(place).to_pyarrow_table()
    except Exception as reason:
        pytest.skip(f"the peer cannot read it: {str(reason)[:80]}")
    short = ("--retain", "0h", "--allow-short-retention", "--allow-large", "--allow-nested")
    result = deltacli("vacuum", place, *short, "--yes")
    if result.code == 4:
        pytest.skip("it must not be written to")
    assert result.code == 0, result.stderr
    assert deltalake.DeltaTable(place).to_pyarrow_table().equals(before)


def test_what_was_widened_and_given_up_again_reads_alike(
    tmp_path: Path, deltacli: Callable[..., Result]
) -> None:
    """With the feature the peer refuses to read rows, so far; without it, it reads our files."""
    path = tmp_path / "table"
    narrow = pa.table(
        {
            "id": pa.array([1, 2, None], pa.int32()),
            "f": pa.array([1.5, None, float("nan")], pa.float32()),
            "n": [{"x": 1}, None, {"x": None}],
        }
    )
    deltalake.write_deltalake(str(path), narrow)
    wide = pa.schema(
        [("id", pa.int64()), ("f", pa.float64()), ("n", narrow.schema.field("n").type)]
    )
    done = deltacli("widen-type", path, "id", "long", "f", "double", "--enable", "--yes")
    assert done.code == 0, done.stderr
    try:
        read = deltalake.DeltaTable(str(path)).to_pyarrow_table()
    except Exception as error:
        if "not yet supported" not in str(error):
            raise
    else:
        assert read.to_pylist() == narrow.cast(wide).to_pylist()
    assert deltacli("widen-type", path, "--rewrite", "--yes").code == 0
    assert deltacli("widen-type", path, "--drop-feature", "--yes").code == 8
    assert deltacli("checkpoint", path, "--yes").code == 0
    for version in range(3):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    assert deltacli("widen-type", path, "--drop-feature", "--yes").code == 0
    read = deltalake.DeltaTable(str(path)).to_pyarrow_table()
    assert read.schema.field("id").type == pa.int64()
    assert repr(read.to_pylist()) == repr(narrow.cast(wide).to_pylist())


@pytest.mark.parametrize("seed", range(3))
def test_a_fresh_table_is_sound(tmp_path: Path, seed: int, deltacli: Callable[..., Result]) -> None:
    chance = random.Random(seed)
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, rows(chance, 20), partition_by=["p"] if seed else None)
    for _ in range(12):
        change(path, chance)
    result = deltacli("validate", path, "--level", "footers", "-o", "jsonl", "-q")
    wrong = [one for one in result.rows if one["severity"] != "info"]
    assert not wrong, wrong
