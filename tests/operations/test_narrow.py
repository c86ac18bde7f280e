"""Narrow files: found, written anew, and the feature dropped; whatever happens meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.delta.data_files import rewrite_target
from deltacli.delta.engine import FileBatch
from deltacli.delta.paths import decode_path
from deltacli.delta.scan import Files
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import Conflict, CorruptLog, DeltaCliError, Refused
from deltacli.local.engine import LocalEngine
from deltacli.local.scan import read_rows
from deltacli.operations.drop_widening import DropPlan, apply_drop, plan_drop
from deltacli.operations.narrow import (
    RewriteResult,
    Status,
    apply_rewrite,
    find_narrow,
    plan_rewrite,
)
from deltacli.storage import LogStore
from deltacli.storage.local import LocalStore
from tests.builder import NOW_MS, TableBuilder, add, column, features, metadata
from tests.builder import remove as remove_of
from tests.conftest import Result
from tests.delta.test_bitmaps import inline
from tests.faulty import FaultyStore
from tests.rows import multiset
from tests.test_golden import GOLDEN

Deltacli = Callable[..., Result]
NARROW = pa.table({
    "id": pa.array(range(60), pa.int32()),
    "amount": pa.array([n / 4 for n in range(60)], pa.float32()),
    "tags": [[n, None] for n in range(60)],
})  # fmt: skip
WIDE = NARROW.set_column(0, "id", NARROW["id"].cast(pa.int64()))


def widened(place: Path) -> TableBuilder:
    """Two narrow files, one with deleted rows, and a wide one; some commits."""
    table = TableBuilder(LocalStore(str(place)))
    changes = [{"fromType": "integer", "toType": "long"}]
    columns = [column("id", "long", **{"delta.typeChanges": changes}), column("amount", "double"),
               column("tags", {"type": "array", "elementType": "long", "containsNull": True}),
               column("p", "string")]  # fmt: skip
    settings = {"delta.enableTypeWidening": "true"}
    actions = []
    for path, data, vector in (
        ("p=a%20b/1.parquet", NARROW, inline(range(0, 60, 7))),
        ("2.parquet", NARROW, None),
        ("3.parquet", WIDE.set_column(1, "amount", WIDE["amount"].cast(pa.float64())), None),
    ):
        target = place / decode_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(data, target)
        more = {"deletionVector": vector} if vector else {}
        actions.append(add(path, target.stat().st_size, 60, partitionValues={"p": "a b"}, **more))
    head = [features("deletionVectors", "typeWidening"),
            metadata(*columns, partition_by=["p"], configuration=settings)]  # fmt: skip
    table.commit(*head, *actions[:1])
    table.commit(*actions[1:])
    return table


@pytest.fixture
def place(tmp_path: Path) -> Path:
    widened(tmp_path / "t")
    return tmp_path / "t"


def load(store: LogStore) -> Snapshot:
    return load_snapshot(store, LocalEngine)


def status(store: LogStore) -> Status:
    return find_narrow(load(store), LocalEngine(), {})


def rewrite(store: LogStore, found: Status | None = None) -> RewriteResult:
    plan = plan_rewrite(found or status(store))
    return apply_rewrite(plan, LocalEngine, {})


def rows_of(store: LogStore) -> Any:
    files = Files(load(store))
    batches = read_rows(files, files.live(), files.schema)
    return multiset([row for batch in batches for row in batch.to_pylist()])


def live(store: LogStore) -> set[str]:
    return {path for path, _ in load(store).all_live().values()}


def tombstones(store: LogStore) -> set[str]:
    found: set[str] = set()
    for item in load(store).files("remove", ("path",)):
        if isinstance(item, FileBatch):
            found |= set(item.columns["path"].to_pylist())
        else:
            found.add(item["path"])
    return found


def test_narrow_files_are_told_by_column(place: Path, deltacli: Deltacli) -> None:
    told = deltacli("widen-type", place, "--status", "-o", "json").json
    assert (told["numFiles"], told["numNarrowFiles"]) == (3, 2)
    assert [(c["column"], c["storedType"], c["type"], c["numFiles"], c["numRecords"])
            for c in told["columns"]] == [
        ("id", "integer", "long", 2, 120), ("amount", "float", "double", 2, 120),
    ]  # fmt: skip
    assert sum(c["sizeInBytes"] for c in told["columns"]) == 2 * told["narrowBytes"]
    paths = {row["path"] for row in told["files"]}
    assert paths == {"p=a%20b/1.parquet", "2.parquet"}


def test_files_that_cannot_be_read_are_told_and_stop_the_rest(
    place: Path, deltacli: Deltacli
) -> None:
    (place / "2.parquet").write_bytes(b"no parquet")
    told = deltacli("widen-type", place, "--status", "-o", "json")
    assert told.code == 8
    assert [one["path"] for one in json.loads(told.stdout)["unreadable"]] == ["2.parquet"]
    for what in ("--rewrite", "--drop-feature"):
        refused = deltacli("widen-type", place, what, "--yes")
        assert (refused.code, "2.parquet" in refused.stderr) == (5, True)


def test_narrow_files_are_written_anew(place: Path, deltacli: Deltacli) -> None:
    check_rewriting(place, deltacli, "local")


def check_rewriting(place: Path, deltacli: Deltacli, engine: str) -> None:
    store = LocalStore(str(place))
    before, old = rows_of(store), live(store)
    dry = deltacli("widen-type", place, "--rewrite", "--dry-run", "-o", "json")
    assert (dry.json["numFilesRemoved"], dry.json["dryRun"]) == (2, True)
    done = deltacli("widen-type", place, "--rewrite", "--yes", "--engine", engine, "-o", "json")
    assert (done.code, done.json["numFilesAdded"]) == (0, 2), done.stderr
    assert rows_of(store) == before
    assert status(store).files == ()
    assert "3.parquet" in live(store)
    assert tombstones(store) == old - live(store)
    new = live(store) - old
    assert {one.rpartition("/")[0] for one in new} == {"p=a%20b", ""}
    again = deltacli("widen-type", place, "--rewrite", "--yes")
    assert (again.code, load(store).version) == (0, done.json["version"])
    # And vacuum deletes what was replaced.
    for path in place.rglob("*.parquet"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    swept = deltacli("vacuum", place, "--retain", "0h", "--allow-short-retention",
                     "--allow-large", "--yes", "-o", "json")  # fmt: skip
    assert swept.json["numDeleted"] == 2, swept.stderr
    assert not (place / "2.parquet").exists()
    assert rows_of(store) == before


def test_rows_are_tracked_only_by_those_who_can(tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(tmp_path)))
    table.commit(features("typeWidening", "rowTracking", "domainMetadata"), metadata())
    with pytest.raises(Refused, match="tracks rows"):
        plan_rewrite(status(table.store))


def test_a_file_that_another_writer_took_away_is_a_conflict(place: Path) -> None:
    store = LocalStore(str(place))
    found = status(store)
    store.put(f"_delta_log/{2:020}.json", json.dumps(remove_of("2.parquet", NOW_MS)).encode())
    before, files = rows_of(store), sorted(place.rglob("*.parquet"))
    with pytest.raises(Conflict, match=r"2\.parquet"):
        rewrite(store, found)
    assert rows_of(store) == before
    assert sorted(place.rglob("*.parquet")) == files


def test_what_others_append_meanwhile_stays(place: Path) -> None:
    store = LocalStore(str(place))
    found = status(store)
    pq.write_table(WIDE, place / "late.parquet")
    late = add("late.parquet", (place / "late.parquet").stat().st_size, 60)
    store.put(f"_delta_log/{2:020}.json", json.dumps(late).encode())
    before = rows_of(store)
    assert rewrite(store, found).committed.version == 3
    assert rows_of(store) == before
    assert "late.parquet" in live(store)


def put(store: LogStore, version: int, *actions: Any) -> None:
    """Another writer's commit."""
    text = "\n".join(json.dumps(one) for one in actions)
    store.put(f"_delta_log/{version:020}.json", text.encode())


@pytest.mark.parametrize("spelling", ["2%2Eparquet", "2.parquet"])
def test_a_file_is_the_same_in_every_spelling(place: Path, spelling: str) -> None:
    store = LocalStore(str(place))
    found = status(store)
    put(store, 2, remove_of(spelling, NOW_MS))
    with pytest.raises(Conflict, match="changed the file"):
        rewrite(store, found)


def test_rows_that_are_tracked_from_now_on_are_a_conflict(place: Path) -> None:
    store = LocalStore(str(place))
    found = status(store)
    put(store, 2, features("deletionVectors", "typeWidening", "rowTracking", "domainMetadata"))
    with pytest.raises(Conflict, match="rowTracking"):
        rewrite(store, found)


def test_iceberg_and_variants_are_left_to_others(tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(tmp_path / "a")))
    table.commit(features("columnMapping", "icebergCompatV2", "typeWidening"), metadata())
    with pytest.raises(Refused, match="icebergCompatV2"):
        plan_rewrite(status(table.store))
    table = TableBuilder(LocalStore(str(tmp_path / "b")))
    table.commit(features("variantType", "typeWidening"), metadata(column("v", "variant")))
    with pytest.raises(Refused, match="it is variant"):
        plan_rewrite(status(table.store))


def one_file(place: Path, data: Any, kind: str, path: str = "f.parquet") -> LocalStore:
    """A table of one file with one column `c`."""
    table = TableBuilder(LocalStore(str(place)))
    target = place / decode_path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"c": data}), target)
    table.commit(features("typeWidening", "timestampNtz"),
                 metadata(column("c", kind), configuration={"delta.enableTypeWidening": "true"}),
                 add(path, target.stat().st_size, len(data)))  # fmt: skip
    return LocalStore(str(place))


def test_folders_that_look_like_a_scheme_stay_folders(tmp_path: Path) -> None:
    store = one_file(tmp_path, pa.array([1, 2], pa.int32()), "long", "d%3Ax/f.parquet")
    before = rows_of(store)
    rewrite(store)
    assert rows_of(store) == before
    assert all(path.startswith("d%3Ax/") for path in live(store))


@pytest.mark.parametrize("kind", ["date", "timestamp_ntz"])
def test_the_end_of_time_has_no_bounds(tmp_path: Path, kind: str) -> None:
    days = pa.array([0, 2_932_896], pa.int32()).cast(pa.date32())
    store = one_file(tmp_path, days, "timestamp_ntz")
    if kind == "date":
        rewrite(store)
        return
    other = tmp_path / "late"
    table = TableBuilder(LocalStore(str(other)))
    other.mkdir(exist_ok=True)
    late = pa.table({"c": pa.array([253402300799999999], pa.timestamp("us")),
                     "n": pa.array([1], pa.int32())})  # fmt: skip
    pq.write_table(late, other / "f.parquet")
    table.commit(features("typeWidening", "timestampNtz"),
                 metadata(column("c", "timestamp_ntz"), column("n", "long")),
                 add("f.parquet", (other / "f.parquet").stat().st_size, 1))  # fmt: skip
    rewrite(table.store)
    (item,) = load(table.store).files("add", ("path", "stats"))
    stats = json.loads(item["stats"])  # type: ignore[index]
    assert "c" not in stats["maxValues"]
    assert stats["maxValues"]["n"] == 1


def test_ids_of_other_tables_do_not_count(tmp_path: Path) -> None:
    """In mode `name` a column is found by its name, whatever ids its file has."""
    field = pa.field("c", pa.int32(), metadata={"PARQUET:field_id": "7"})
    table = TableBuilder(LocalStore(str(tmp_path)))
    pq.write_table(pa.table([pa.array([1], pa.int32())], schema=pa.schema([field])),
                   tmp_path / "f.parquet")  # fmt: skip
    own = [column("c", "long", **{"delta.columnMapping.id": 1,
                                  "delta.columnMapping.physicalName": "c"}),
           column("d", "string", **{"delta.columnMapping.id": 7,
                                    "delta.columnMapping.physicalName": "d"})]  # fmt: skip
    table.commit(features("typeWidening", "columnMapping"),
                 metadata(*own, configuration={"delta.columnMapping.mode": "name"}),
                 add("f.parquet", (tmp_path / "f.parquet").stat().st_size, 1))  # fmt: skip
    assert len(status(table.store).files) == 1


def test_lists_of_one_length_are_lists(tmp_path: Path) -> None:
    data = pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2))
    kind: Any = {"type": "array", "elementType": "long", "containsNull": True}
    store = one_file(tmp_path, data, kind)
    assert [one.columns[0].column for one in status(store).files] == ["c.element"]


@pytest.mark.parametrize("mode", ["none", "id"])
def test_fields_of_structs_are_checked_as_well(tmp_path: Path, mode: str) -> None:
    """By their ids where the table goes by ids, whatever their names."""
    metadata_ = {"PARQUET:field_id": "2"} if mode == "id" else None
    name = "other" if mode == "id" else "x"
    kind = pa.struct([pa.field(name, pa.int32(), metadata=metadata_)])
    outer = {"PARQUET:field_id": "1"} if mode == "id" else None
    data = pa.table(
        [pa.array([{name: 2}], kind)], schema=pa.schema([pa.field("c", kind, metadata=outer)])
    )
    pq.write_table(data, tmp_path / "f.parquet")

    def field(own: str, number: int, type_: Any) -> Any:
        ids = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": own}
        return column(own, type_, **(ids if mode == "id" else {}))

    inner = {"type": "struct", "fields": [field("x", 2, "boolean")]}
    table = TableBuilder(LocalStore(str(tmp_path)))
    settings = {"delta.columnMapping.mode": mode}
    table.commit(features("columnMapping"), metadata(field("c", 1, inner), configuration=settings),
                 add("f.parquet", (tmp_path / "f.parquet").stat().st_size, 1))  # fmt: skip
    snapshot = load(table.store)
    (body,) = [dict(one) for one in snapshot.files("add", ("path",))]  # type: ignore[arg-type]
    with pytest.raises(CorruptLog, match="it has int32 where the table has bool"):
        LocalEngine().rewrite_files(
            snapshot.store, Files(snapshot).places, rewrite_target(snapshot), [body]
        )


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (pa.array([2], pa.int32()), "boolean"),
        (pa.array([1.5], pa.float64()), "long"),
        (pa.array(["1"]), "long"),
    ],
)
def test_values_that_would_change_are_not_rewritten(tmp_path: Path, data: Any, kind: str) -> None:
    store = one_file(tmp_path, data, kind)
    (body,) = [dict(one) for one in load(store).files("add", ("path",))]  # type: ignore[arg-type]
    with pytest.raises(CorruptLog, match="cannot be rewritten"):
        LocalEngine().rewrite_files(
            store, Files(load(store)).places, rewrite_target(load(store)), [body]
        )


def test_broken_pages_are_the_old_files_fault(place: Path) -> None:
    store = LocalStore(str(place))
    content = bytearray((place / "2.parquet").read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    found = status(store)
    (place / "2.parquet").write_bytes(bytes(content))
    before = sorted(place.rglob("*"))
    with pytest.raises(CorruptLog, match=r"2\.parquet"):
        rewrite(store, found)
    assert sorted(place.rglob("*")) == before


# -- dropping ----------------------------------------------------------------------------


def test_the_feature_goes_step_by_step(place: Path, deltacli: Deltacli) -> None:
    """W-80 to W-82, W-84."""
    store = LocalStore(str(place))
    before = rows_of(store)
    refused = deltacli("widen-type", place, "--drop-feature", "--yes")
    assert (refused.code, "2 files still hold narrower types" in refused.stderr) == (4, True)
    rewrite(store)
    first = deltacli("widen-type", place, "--drop-feature", "--yes", "-o", "json")
    assert first.code == 8
    assert "versions up to 2 need it" in first.stderr
    assert "typeChanges" not in (load(store).metadata.schema_string or "")
    assert "delta.enableTypeWidening" not in load(store).metadata.configuration
    assert "typeWidening" in load(store).features
    waiting = deltacli("widen-type", place, "--drop-feature", "--yes", "-o", "json")
    assert (waiting.code, json.loads(waiting.stdout)["neededBy"]) == (8, 2)
    # The log is cleaned up: nothing before version 3 is left.
    deltacli("checkpoint", place, "--yes", "--force")
    for version in range(3):
        os.unlink(place / "_delta_log" / f"{version:020}.json")
    last = deltacli("widen-type", place, "--drop-feature", "--yes", "-o", "json")
    assert (last.code, last.json["dropsFeature"]) == (0, True), last.stderr
    assert load(store).features == ("deletionVectors",)
    assert rows_of(store) == before
    nothing = deltacli("widen-type", place, "--drop-feature", "--yes")
    assert (nothing.code, "nothing to drop" in nothing.stderr) == (4, True)


def test_a_version_in_a_checkpoint_alone_still_needs_it(place: Path, deltacli: Deltacli) -> None:
    store = LocalStore(str(place))
    rewrite(store)
    deltacli("checkpoint", place, "--yes")
    apply_drop(plan_drop(status(store), LocalEngine), LocalEngine)
    for version in range(3):
        os.unlink(place / "_delta_log" / f"{version:020}.json")
    plan = plan_drop(status(store), LocalEngine)
    assert (plan.needed_by, plan.drops) == (2, False)


def test_what_comes_meanwhile_stops_the_dropping(place: Path) -> None:
    """A narrow file may come back, and another change be recorded."""
    store = LocalStore(str(place))
    rewrite(store)
    first = plan_drop(status(store), LocalEngine)
    put(store, 3, add("2.parquet", 100, 60, dataChange=False))
    with pytest.raises(Conflict, match="added files"):
        apply_drop(first, LocalEngine)
    os.unlink(place / "_delta_log" / f"{3:020}.json")
    apply_drop(first, LocalEngine)
    second = DropPlan(load(store), ("typeWidening",), (), False, None)
    put(store, 4, metadata(column("id", "long")))
    with pytest.raises(Conflict, match="metadata"):
        apply_drop(second, LocalEngine)


def test_a_broken_commit_is_named(place: Path, deltacli: Deltacli) -> None:
    rewrite(LocalStore(str(place)))
    deltacli("checkpoint", place, "--yes")
    (place / "_delta_log" / f"{1:020}.json").write_text('{"metaData": {"id"')
    told = deltacli("widen-type", place, "--drop-feature", "--yes")
    assert (told.code, f"{1:020}.json" in told.stderr) == (5, True)
    assert told.stderr.count("error:") == 1


# -- faults ------------------------------------------------------------------------------


def do_rewrite(store: LogStore) -> None:
    found = status(store)
    if found.files:
        rewrite(store, found)


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_failure_at_any_operation_loses_nothing(tmp_path: Path, mode: str) -> None:
    base = tmp_path / "base"
    widened(base)
    before = rows_of(LocalStore(str(base)))
    shutil.copytree(base, tmp_path / "count")
    counting = FaultyStore(LocalStore(str(tmp_path / "count")))
    do_rewrite(counting)
    assert counting.count > 10
    for number in range(counting.count):
        place = tmp_path / f"t{number}"
        shutil.copytree(base, place)
        store = LocalStore(str(place))
        with contextlib.suppress(DeltaCliError):
            do_rewrite(FaultyStore(store, number, mode))
        assert rows_of(store) == before, number
        assert list(place.rglob("*.tmp")) == []
        do_rewrite(store)
        assert rows_of(store) == before
        assert status(store).files == ()


# -- tables of other writers -------------------------------------------------------------


@pytest.mark.parametrize("name", ["delta-golden/type-widening", "kernel-rs/type-widening"])
def test_tables_that_others_widened_are_written_anew(name: str, tmp_path: Path) -> None:
    if not (GOLDEN / name).exists():
        pytest.skip(f"no tables in {GOLDEN}")
    shutil.copytree(GOLDEN / name, tmp_path / "t")
    store = LocalStore(str(tmp_path / "t"))
    before = rows_of(store)
    assert len(status(store).files) == 1
    rewrite(store)
    assert rows_of(store) == before
    assert status(store).files == ()
