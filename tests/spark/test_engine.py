"""One suite over both engines: whole jobs, whose results do not tell which engine did them."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.columns import texts_of
from deltacli.delta.engine import Engine, Want
from deltacli.delta.snapshot import load_snapshot
from deltacli.errors import CorruptLog, Refused, StorageError
from deltacli.local.engine import LocalEngine
from deltacli.operations.checkpoint import apply_checkpoint, plan_checkpoint
from deltacli.operations.vacuum import VacuumPlan, plan_vacuum
from deltacli.operations.vacuum_apply import apply_vacuum
from deltacli.operations.vacuum_request import VacuumRequest
from deltacli.storage import LogStore
from deltacli.storage.local import LocalStore
from tests.builder import (
    NOW_MS,
    TableBuilder,
    add,
    features,
    metadata,
    parquet_rows,
    protocol,
    vector,
)
from tests.builder import remove as remove_of
from tests.conftest import Result
from tests.operations.test_checkpoint import drop_older_than, rich_table, state_of
from tests.places import Place
from tests.test_golden import GOLDEN, READABLE, UNREFERENCED

pytest.importorskip("pyspark", reason="PySpark is not installed")


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest) -> Callable[[], Engine]:
    if request.param == "local":
        return LocalEngine
    from deltacli.spark.engine import SparkEngine
    from deltacli.spark.jobs import Jobs

    made = SparkEngine(lambda: Jobs(request.getfixturevalue("spark")))
    return lambda: made


def seeded(table: TableBuilder, files: int = 900) -> None:
    """A checkpoint of several row groups with everything that a key can be, and a tail."""
    rng = random.Random(3)
    body: list[Any] = [features("deletionVectors", "v2Checkpoint"), metadata()]
    for number in range(files):
        name = f"p={number % 7}/f {number}%" if number % 50 == 0 else f"p={number % 7}/{number}"
        path = name.replace("%", "%25").replace(" ", "%20")
        more = {"deletionVector": vector(f"a{number:019}")} if number % 9 == 0 else {}
        kept = add(path, number, number if number % 3 else None, **more)
        body.append(kept if number % 4 else remove_of(path, NOW_MS - number, **more))
    table.commit(*body)
    table.put(f"{0:020}.checkpoint.parquet", parquet_rows(body, row_group_size=100))
    table.commit(add("p=0/late"))
    for _ in range(3):
        chosen = rng.sample(range(files), 60)
        table.commit(
            *(remove_of(f"p={n % 7}/{n}", NOW_MS) for n in chosen[:30] if n % 9),
            *(add(f"p={n % 7}/{n}", 7, 1) for n in chosen[30:] if n % 9 and n % 50),
        )


@pytest.fixture
def seeded_table(tmp_path: Path) -> TableBuilder:
    table = TableBuilder(LocalStore(str(tmp_path / "seeded")))
    seeded(table)
    return table


# -- what a state is ---------------------------------------------------------------------


WITH_CHECKPOINT = [
    name for name in READABLE if list((GOLDEN / str(name) / "_delta_log").glob("*.checkpoint.*"))
]


@pytest.mark.parametrize("name", WITH_CHECKPOINT or READABLE)
def test_a_snapshot_is_the_same(name: str, spark: Any) -> None:
    from deltacli.spark.engine import SparkEngine
    from deltacli.spark.jobs import Jobs

    store = LocalStore(str(GOLDEN / name))
    made = SparkEngine(lambda: Jobs(spark))
    assert state_of(load_snapshot(store, lambda: made)) == state_of(
        load_snapshot(store, LocalEngine)
    )


def test_keys_of_all_kinds_are_reconciled(
    seeded_table: TableBuilder, engine: Callable[[], Engine]
) -> None:
    snapshot = load_snapshot(seeded_table.store, engine)
    expected = load_snapshot(seeded_table.store, LocalEngine)
    assert snapshot.segment.checkpoint is not None
    assert state_of(snapshot) == state_of(expected)
    assert snapshot.totals(frozenset({Want.TOMBSTONES}), NOW_MS).tombstones > 100
    asked = ["p=1/1", "p=0/f 0%", "p=0/late", "none"]
    assert snapshot.live_among(asked) == expected.live_among(asked)
    assert len(snapshot.all_live()) == len(expected.all_live()) > 500


def test_a_broken_page_is_gone_around(
    seeded_table: TableBuilder, engine: Callable[[], Engine]
) -> None:
    expected = state_of(load_snapshot(seeded_table.store, LocalEngine))
    name = f"{0:020}.checkpoint.parquet"
    content = bytearray(seeded_table.store.read(f"_delta_log/{name}"))
    content[4 : len(content) // 3] = bytes(len(content) // 3 - 4)
    seeded_table.put(name, bytes(content))
    snapshot = load_snapshot(seeded_table.store, engine)
    assert state_of(snapshot)["files"] == expected["files"]
    assert any("cannot be read" in one for one in snapshot.warnings)
    plan = plan_checkpoint(load_snapshot(seeded_table.store, engine), now_ms=NOW_MS)
    assert apply_checkpoint(plan, engine()).plan.totals.files == len(expected["files"])


# -- checkpoints -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classic", "v2", "v2-parquet"])
def test_a_checkpoint_alone_is_the_same_table(
    seeded_table: TableBuilder,
    engine: Callable[[], Engine],
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deltacli.operations.checkpoint._SIDECAR_ROWS", 200)
    store = seeded_table.store
    snapshot = load_snapshot(store, engine)
    before = state_of(load_snapshot(store, LocalEngine))
    plan = plan_checkpoint(snapshot, kind=kind, now_ms=NOW_MS)
    result = apply_checkpoint(plan, engine())
    assert result.document().values["engine"] == engine().name
    main, *sidecars = (one["path"] for one in result.files)
    assert len(sidecars) == (0 if kind == "classic" else 5)
    drop_older_than(store, snapshot.version, {main, f"_delta_log/{snapshot.version:020}.json"})
    after = state_of(load_snapshot(store, LocalEngine))
    assert after["files"] == before["files"]
    assert after["totals"].tombstones == before["totals"].tombstones
    assert not list(Path(str(store.file_path("_delta_log"))).rglob(".*.tmp"))


def test_all_kinds_of_actions_are_written_the_same(
    tmp_path: Path, engine: Callable[[], Engine]
) -> None:
    """Statistics as a struct and as text, tags, row ids, vectors: row by row."""
    contents = []
    for number, made in enumerate((engine, LocalEngine)):
        store = LocalStore(str(tmp_path / str(number)))
        rich_table(store)
        snapshot = load_snapshot(store, made)
        plan = plan_checkpoint(snapshot, stats="both", now_ms=NOW_MS)
        (file,) = apply_checkpoint(plan, made()).files
        rows = rows_of(store, file["path"])
        contents.append(sorted(map(repr, rows)))
    assert contents[0] == contents[1]


def rows_of(store: LogStore, path: str) -> list[Any]:
    import io

    import pyarrow.parquet as pq

    return list(pq.read_table(io.BytesIO(store.read(path))).to_pylist())


@pytest.mark.parametrize("kind", ["classic", "v2"])
def test_nothing_is_published_that_does_not_add_up(
    seeded_table: TableBuilder, engine: Callable[[], Engine], kind: str
) -> None:
    from dataclasses import replace

    snapshot = load_snapshot(seeded_table.store, engine)
    plan = plan_checkpoint(snapshot, kind=kind, now_ms=NOW_MS)
    wrong = replace(plan.totals, files=plan.totals.files + 1)
    log = Path(str(seeded_table.store.file_path("_delta_log")))
    before = sorted(log.rglob("*"))
    with pytest.raises(CorruptLog, match="it is not published"):
        apply_checkpoint(replace(plan, totals=wrong), engine())
    assert [one for one in sorted(log.rglob("*")) if one.is_file()] == [
        one for one in before if one.is_file()
    ]


def test_an_error_of_a_task_is_what_it_is(
    seeded_table: TableBuilder, engine: Callable[[], Engine]
) -> None:
    snapshot = load_snapshot(seeded_table.store, engine)
    plan = plan_checkpoint(snapshot, kind="v2", now_ms=NOW_MS)
    log = Path(str(seeded_table.store.file_path("_delta_log")))
    (log / "_sidecars").write_text("a file where the folder should be")
    with pytest.raises(StorageError) as caught:
        apply_checkpoint(plan, engine())
    assert "_sidecars" in caught.value.message


# -- vacuum ------------------------------------------------------------------------------


def hostile(place: Path) -> TableBuilder:
    """Files on several levels: live, removed, orphaned, hidden, linked, in nested tables."""
    table = TableBuilder(LocalStore(str(place)))
    names = [f"p={n % 5}/q={n % 3}/{n}" for n in range(200)] + [f"top {n}" for n in range(5)]
    for name in [*names, "p=1/é%25", "_hidden/x", "p=1/.h", "p=2/lone/deep/er/x", "_p=3/x"]:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10)
    (place / "p=4" / "empty").mkdir()
    (place / "nested" / "_delta_log").mkdir(parents=True)
    (place / "nested" / "inner").write_bytes(b"x")
    (place / "other").mkdir()
    (place / "other" / "real").write_bytes(b"x")
    (place / "link").symlink_to(place / "other")
    kept = names[::2]
    actions = [add(name.replace(" ", "%20")) for name in kept] + [add("link/real")]
    table.commit(protocol(), metadata(), *actions, *(remove_of(n, NOW_MS) for n in names[1:40:4]))
    for path in [*place.rglob("*"), place]:
        os.utime(path, (1_600_000_000, 1_600_000_000), follow_symlinks=False)
    return table


def seen(plan: VacuumPlan) -> dict[str, Any]:
    found = plan.found
    return {
        "names": texts_of(found.names),
        "sizes": found.sizes.to_pylist(),
        "times": found.modified_ms.to_pylist(),
        "spared": sorted(texts_of(found.spared)),
        "listed": found.listed,
        "folders": found.folders,
        "nested": found.nested,
        "reasons": plan.reasons.to_pylist(),
        "readable": plan.readable,
        "bytes": plan.listed_bytes,
        "warnings": plan.warnings,
    }


def planned(store: LogStore, engine: Callable[[], Engine], **request: Any) -> VacuumPlan:
    wish = VacuumRequest(retain_ms=0, allow_short_retention=True, allow_nested=True, **request)
    return plan_vacuum(load_snapshot(store, engine), engine, wish, now_ms=NOW_MS)


@pytest.mark.parametrize("prefix", [None, "p=1"])
def test_the_same_files_are_found_and_deleted(
    tmp_path: Path, engine: Callable[[], Engine], prefix: str | None
) -> None:
    table = hostile(tmp_path / "t")
    plan = planned(table.store, engine, prefix=prefix)
    expected = seen(planned(table.store, LocalEngine, prefix=prefix))
    assert seen(plan) == expected
    assert len(expected["names"]) > 15
    done = apply_vacuum(plan, engine, now_ms=lambda: 0)
    assert (done.num_deleted, done.failures) == (len(expected["names"]), [])
    assert not [name for name in expected["names"] if (tmp_path / "t" / name).exists()]
    assert seen(planned(table.store, LocalEngine, prefix=prefix))["names"] == []


@pytest.mark.parametrize("name", UNREFERENCED[::12])
def test_tables_of_others_have_the_same_plan(
    name: str, tmp_path: Path, engine: Callable[[], Engine]
) -> None:
    place = tmp_path / "t"
    shutil.copytree(GOLDEN / name, place, symlinks=True)
    store = LocalStore(str(place))
    try:
        expected = seen(planned(store, LocalEngine))
    except Refused:
        pytest.skip("it may not be written")
    assert seen(planned(store, engine)) == expected


def test_a_file_that_cannot_be_deleted_is_named(
    tmp_path: Path, engine: Callable[[], Engine]
) -> None:
    table = hostile(tmp_path / "t")
    plan = planned(table.store, engine)
    victim = tmp_path / "t" / texts_of(plan.found.names)[0]
    victim.unlink()
    victim.mkdir()
    done = apply_vacuum(plan, engine, now_ms=lambda: 0)
    assert [path for path, _ in done.failures] == [texts_of(plan.found.names)[0]]
    assert done.num_deleted == plan.num_files - 1


def test_names_beyond_one_column_are_all_protected(
    tmp_path: Path, engine: Callable[[], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltacli.local.files._MOST_BYTES", 100)
    table = hostile(tmp_path / "t")
    expected = seen(planned(table.store, LocalEngine))
    assert seen(planned(table.store, engine)) == expected


# -- the commands ------------------------------------------------------------------------


def test_it_is_told_how_far_spark_is(seeded_table: TableBuilder, spark: Any) -> None:
    from deltacli.spark.engine import SparkEngine
    from deltacli.spark.jobs import Jobs

    told: list[tuple[int, int]] = []
    made = SparkEngine(lambda: Jobs(spark, lambda done, total: told.append((done, total))))
    snapshot = load_snapshot(seeded_table.store, lambda: made)
    for _ in range(20):
        snapshot.totals(frozenset(Want), NOW_MS)
        if told:
            break
    assert all(0 <= done <= total for done, total in told)
    assert told


def test_the_commands_take_the_engine(
    seeded_table: TableBuilder, deltacli: Callable[..., Result], spark: Any
) -> None:
    place = seeded_table.store.file_path("")
    for arguments in (("snapshot",), ("snapshot", "--files"), ("snapshot", "--tombstones")):
        command, *rest = arguments
        mine = deltacli(command, place, *rest, "--engine", "spark", "-o", "json")
        other = deltacli(command, place, *rest, "--engine", "local", "-o", "json")
        assert mine.code == other.code == 0, mine.stderr
        assert sorted(map(repr, mine.json)) == sorted(map(repr, other.json))
    told = deltacli("checkpoint", place, "--yes", "--engine", "spark", "-v", "-o", "json")
    assert told.json["engine"] == "spark", told.stderr
    assert "read by the spark engine: it was asked for" in told.stderr
    assert "Spark runs on local[*]" in told.stderr
    refused = deltacli("vacuum", place, "--engine", "local", "--spark-master", "local[1]")
    assert refused.code == 2
    assert "--engine local takes no Spark" in refused.stderr


# -- an object store ---------------------------------------------------------------------


def test_executors_reach_an_object_store(
    s3: Place, engine: Callable[[], Engine], tmp_path: Path
) -> None:
    """Options travel with the job; listing, deletion and upload are the executors' own."""
    store = s3.new()
    table = TableBuilder(store)
    seeded(table, files=300)
    expected = state_of(load_snapshot(store, LocalEngine))
    snapshot = load_snapshot(store, engine)
    assert state_of(snapshot) == expected
    plan = plan_checkpoint(snapshot, kind="v2", now_ms=NOW_MS)
    result = apply_checkpoint(plan, engine())
    assert len(result.files) == 2
    assert state_of(load_snapshot(store, LocalEngine))["files"] == expected["files"]
    kept = [f"p={n}/kept" for n in range(3)]
    gone = [f"p={n % 4}/gone {n}" for n in range(20)] + ["top"]
    for name in (*kept, *gone, "_hidden/x"):
        store.put(name, b"x")
    table.commit(*(add(name) for name in kept))
    later = time.time_ns() // 1_000_000 + 1000
    wish = VacuumRequest(retain_ms=0, allow_short_retention=True)
    made = plan_vacuum(load_snapshot(store, engine), engine, wish, now_ms=later)
    assert sorted(texts_of(made.found.names)) == sorted(gone)
    done = apply_vacuum(made, engine, now_ms=lambda: 0)
    assert (done.num_deleted, done.failures) == (len(gone), [])
    assert store.look(gone[0]) is None
    assert store.look(kept[0]) is not None


def test_asking_for_spark_where_there_is_none_is_an_error(
    tmp_path: Path, deltacli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a table whose log is JSON alone, which no session would start for."""
    TableBuilder(LocalStore(str(tmp_path / "t"))).commit(protocol(), metadata())
    assert deltacli("snapshot", tmp_path / "t", "--engine", "spark").code == 0
    monkeypatch.setattr("deltacli.spark.session.find_spec", lambda name: None)
    for command in ("snapshot", "vacuum", "checkpoint", "head"):
        told = deltacli(command, tmp_path / "t", "--engine", "spark")
        assert (told.code, "pip install 'deltacli[spark]'" in told.stderr) == (7, True)
