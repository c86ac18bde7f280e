"""Checkpoints: what they hold, how they are published, and that nothing is ever lost."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli.delta.actions import vector_id
from deltacli.delta.checkpoint import hint_text, move_hint_forward
from deltacli.delta.engine import FileBatch, Want
from deltacli.delta.hint import parse_hint
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import CorruptLog, Refused, StorageError
from deltacli.local.engine import LocalEngine
from deltacli.operations.checkpoint import (
    CheckpointResult,
    apply_checkpoint,
    commit_and_checkpoint,
    plan_checkpoint,
)
from deltacli.operations.maintain import apply_maintenance, plan_maintenance
from deltacli.storage import LogStore
from deltacli.storage.local import LocalStore
from tests.builder import (
    DAY_MS,
    NOW_MS,
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
    vector,
)
from tests.conftest import Result
from tests.delta.test_commit import change
from tests.faulty import FaultyStore
from tests.test_golden import GOLDEN, READABLE, expectations

ALL = frozenset(Want)


def load(store: LogStore, version: int | None = None) -> Snapshot:
    return load_snapshot(store, LocalEngine, version=version)


def write(snapshot: Snapshot, now_ms: int = NOW_MS, **options: Any) -> CheckpointResult:
    plan = plan_checkpoint(snapshot, now_ms=now_ms, **options)
    return apply_checkpoint(plan, LocalEngine())


def state_of(snapshot: Snapshot, now_ms: int = NOW_MS) -> dict[str, Any]:
    """Everything that the protocol says a snapshot is, comparable."""
    names = (
        "path",
        "partitionValues",
        "size",
        "modificationTime",
        "tags",
        "stats",
        "deletionVector",
        "baseRowId",
        "defaultRowCommitVersion",
        "clusteringProvider",
    )
    files: dict[Any, Any] = {}
    for item in snapshot.files("add", (*names, "stats_parsed")):
        for body in item.columns.to_pylist() if isinstance(item, FileBatch) else [item]:
            vector_ = {k: v for k, v in (body.get("deletionVector") or {}).items() if v is not None}
            row = {name: body.get(name) for name in names}
            row["deletionVector"] = vector_ or None
            for name in ("partitionValues", "tags"):
                row[name] = dict(row[name]) if row[name] is not None else None
            if row["stats"] is None and body.get("stats_parsed"):
                row["stats"] = json.dumps({"numRecords": body["stats_parsed"]["numRecords"]})
            row["stats"] = json.loads(row["stats"])["numRecords"] if row["stats"] else None
            files[body["path"], vector_id(vector_)] = row
    return {
        "version": snapshot.version,
        "protocol": snapshot.protocol,
        "metadata": snapshot.metadata,
        "txns": snapshot.state.txns,
        "domains": snapshot.domains,
        "files": files,
        "totals": snapshot.totals(ALL, now_ms),
    }


def drop_older_than(store: LogStore, version: int, keep: set[str]) -> None:
    """Delete all log files up to a version but those named."""
    for entry in list(store.list_from("_delta_log")):
        if not entry.is_folder and entry.name[:20].isdigit() and int(entry.name[:20]) <= version:
            path = f"_delta_log/{entry.name}"
            if path not in keep:
                store.delete(path)


def rows_of(store: LogStore, path: str) -> Any:
    return pq.read_table(io.BytesIO(store.read(path)))


# -- tables of other writers -----------------------------------------------------------------


def writable(name: str) -> bool:
    return name in expectations() and "checkpoint_with_partitions" not in name


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("kind", ["classic", "v2", "v2-parquet"])
def test_a_checkpoint_alone_is_the_same_table(tmp_path: Path, name: str, kind: str) -> None:
    shutil.copytree(GOLDEN / name, tmp_path / "t", symlinks=True)
    store = LocalStore(str(tmp_path / "t"))
    before = load(store)
    if before.version not in before.listing.commits:
        pytest.skip("the table has its newest version as a checkpoint only")
    if kind != "classic" and "v2Checkpoint" not in before.features:
        with pytest.raises(Refused, match="v2Checkpoint"):
            plan_checkpoint(before, kind=kind, now_ms=NOW_MS)
        return
    now_ms = 1_795_000_000_000
    try:
        plan = plan_checkpoint(before, kind=kind, force=True, now_ms=now_ms)
    except Refused as refusal:
        # What may not be written: a feature we do not write, or a table with a wound.
        known = ("feature", "not sound enough")
        if not any(word in refusal.message for word in known):
            raise
        return
    expected = state_of(before, now_ms)
    retain = before.setting("delta.setTransactionRetentionDuration")
    if retain is not None:
        expected["txns"] = {
            app: one
            for app, one in expected["txns"].items()
            if (one.last_updated or 0) > now_ms - retain
        }
    result = apply_checkpoint(plan, LocalEngine())
    main = result.files[0]["path"]
    commit = f"_delta_log/{before.version:020}.json"
    drop_older_than(store, before.version, {main, commit})
    after = load(store)
    assert after.segment.checkpoint is not None
    assert after.segment.checkpoint.files[0].path == main
    assert state_of(after, now_ms) == expected
    assert list(tmp_path.rglob(".*checkpoint*.tmp")) == []


# -- what it holds -----------------------------------------------------------------------


def rich_table(store: LogStore) -> TableBuilder:
    """A table with one of everything."""
    table = TableBuilder(store)
    names = ("deletionVectors", "v2Checkpoint", "domainMetadata")
    head = [
        features(*names),
        metadata(column("id"), column("p", "string"), partition_by=["p"]),
    ]
    table.commit(commit_info("CREATE TABLE"), *head, domain("live", "1"), domain("gone", "1"))
    table.commit(
        commit_info(),
        add("a%20b", partitionValues={"p": None}, tags={"k": None, "l": "v"}, baseRowId=7),
        add("c", partitionValues={"p": ""}, deletionVector=vector()),
        add("d", partitionValues={"p": "é"}, rows=None, clusteringProvider="liquid"),
        add("e", partitionValues={"p": "x"}),
        txn("app", 3, NOW_MS),
    )
    table.commit(
        commit_info(),
        remove("e", NOW_MS - DAY_MS, partitionValues={"p": "x"}, extendedFileMetadata=True),
        remove("old", NOW_MS - 8 * DAY_MS),
        remove("timeless", None),
        domain("gone", "", removed=True),
        txn("app", 2),
    )
    return table


@pytest.mark.parametrize("kind", ["classic", "v2", "v2-parquet"])
def test_everything_that_counts_is_kept_and_nothing_else(table: TableBuilder, kind: str) -> None:
    rich_table(table.store)
    expected = state_of(load(table.store))
    result = write(load(table.store), kind=kind)
    drop_older_than(table.store, 2, {result.files[0]["path"]})
    after = load(table.store)
    assert state_of(after) == expected
    hint = parse_hint(table.store.read("_delta_log/_last_checkpoint")).body
    assert ("v2Checkpoint" in hint) == (kind != "classic")
    if kind != "classic":
        assert result.files[0]["path"].endswith(hint["v2Checkpoint"]["path"])
        assert len(hint["v2Checkpoint"]["sidecarFiles"]) == 1
    paths = {b["path"] for i in after.files("remove", ("path",)) for b in i.columns.to_pylist()}  # type: ignore[union-attr]
    assert paths == {"e"}
    assert after.state.domains.keys() == {"live"}
    assert result.document().values["numAddFiles"] == 3
    assert result.hint_moved


def test_the_columns_are_those_of_the_protocol(table: TableBuilder) -> None:
    rich_table(table.store)
    result = write(load(table.store), stats="both")
    whole = rows_of(table.store, result.files[0]["path"])
    assert whole.schema.names == ["txn", "add", "remove", "metaData", "protocol", "domainMetadata"]
    adds = [row for row in whole.column("add").to_pylist() if row]
    removes = [row for row in whole.column("remove").to_pylist() if row]
    assert all(row["dataChange"] is False for row in adds + removes)
    assert not {"stats", "tags"} & removes[0].keys()
    by_path = {row["path"]: row for row in adds}
    assert dict(by_path["c"]["partitionValues"]) == {"p": ""}
    assert dict(by_path["a%20b"]["tags"]) == {"k": None, "l": "v"}
    assert by_path["c"]["partitionValues_parsed"] == {"p": None}
    assert by_path["d"]["partitionValues_parsed"] == {"p": "é"}
    assert by_path["c"]["stats_parsed"]["numRecords"] == 10
    assert by_path["d"]["stats_parsed"] is None
    file = pq.ParquetFile(io.BytesIO(table.store.read(result.files[0]["path"])))
    assert b"ARROW:schema" not in (file.metadata.metadata or {})


TYPES = {
    "y": ("byte", "1", 1),
    "s": ("short", "-2", -2),
    "i": ("integer", "3", 3),
    "l": ("long", "9007199254740993", 9007199254740993),
    "f": ("float", "1.5", 1.5),
    "d": ("double", '"-Infinity"', float("-inf")),
    "n": ("decimal(38,3)", "12345678901234567890.123", "12345678901234567890.123"),
    "t": ("string", '"x"', "x"),
    "e": ("date", '"2026-01-31"', "2026-01-31"),
    "z": ("timestamp", '"2026-01-31T10:00:00.123+01:00"', "2026-01-31 09:00:00.123000+00:00"),
    "w": ("timestamp_ntz", '"2026-01-31T10:00:00.123"', "2026-01-31 10:00:00.123000"),
    "b": ("boolean", "true", None),
    "x": ("binary", '"q"', None),
}


def test_statistics_as_a_struct_have_the_columns_types(table: TableBuilder) -> None:
    columns = [column(name, kind) for name, (kind, _, _) in TYPES.items()]
    values = ",".join(f'"{name}":{text}' for name, (_, text, _) in TYPES.items())
    counts = ",".join(f'"{name}":0' for name in TYPES)
    sides = f'"minValues":{{{values}}},"maxValues":{{{values}}}'
    stats = f'{{"numRecords":1,{sides},"nullCount":{{{counts}}}}}'
    table.commit(protocol(), metadata(*columns), add("a", stats=stats), add("b", rows=None))
    result = write(load(table.store), stats="struct")
    rows = [
        row
        for row in rows_of(table.store, result.files[0]["path"]).column("add").to_pylist()
        if row
    ]
    assert "stats" not in rows[0]
    parsed = next(row["stats_parsed"] for row in rows if row["path"] == "a")
    expected = {name: value for name, (_, _, value) in TYPES.items() if value is not None}
    for side in ("minValues", "maxValues"):
        assert parsed[side].keys() == expected.keys()
        for name, value in expected.items():
            got = parsed[side][name]
            assert (str(got) if isinstance(value, str) else got) == value
    assert parsed["nullCount"] == dict.fromkeys(TYPES, 0)
    drop_older_than(table.store, 0, {result.files[0]["path"]})
    # From the struct alone the text is made again, every digit in place (K-14).
    table.store.put("_delta_log/00000000000000000000.json", b'{"commitInfo":{}}\n')
    again = write(load(table.store), stats="json", force=True)
    text = next(
        row["stats"]
        for row in rows_of(table.store, again.files[0]["path"]).column("add").to_pylist()
        if row and row["stats"]
    )
    assert '"n":12345678901234567890.123' in text
    assert '"d":"-Infinity"' in text


def test_texts_of_statistics_are_not_touched(table: TableBuilder) -> None:
    odd = ' {"numRecords" : 1, "minValues":{"id":1.50e0}} '
    table.start(add("a", stats=odd))
    result = write(load(table.store))
    rows = rows_of(table.store, result.files[0]["path"]).column("add").to_pylist()
    assert [row["stats"] for row in rows if row] == [odd]


def test_many_files_go_to_several_sidecars(table: TableBuilder, monkeypatch: Any) -> None:
    monkeypatch.setattr("deltacli.operations.checkpoint._SIDECAR_ROWS", 100)
    head = [features("v2Checkpoint"), metadata()]
    table.commit(*head, *(add(f"f{n}") for n in range(450)), *(remove(f"r{n}") for n in range(50)))
    expected = state_of(load(table.store))
    result = write(load(table.store), kind="v2")
    assert len(result.files) == 6
    drop_older_than(table.store, 0, {result.files[0]["path"]})
    assert state_of(load(table.store)) == expected


# -- how it is published --------------------------------------------------------------------


def test_one_that_is_there_is_left_alone(table: TableBuilder) -> None:
    table.start(add("a"))
    write(load(table.store))
    plan = plan_checkpoint(load(table.store), now_ms=NOW_MS)
    assert not plan.changes_anything
    assert plan.document().values["existed"]
    forced = plan_checkpoint(load(table.store), force=True, now_ms=NOW_MS)
    assert forced.writes
    assert apply_checkpoint(forced, LocalEngine()).document().values["existed"]


@pytest.mark.parametrize("hint", [None, b"{broken", b'{"version":0,"size":3}'])
def test_a_hint_that_was_left_behind_is_moved(table: TableBuilder, hint: bytes | None) -> None:
    """As after a writer that died between the checkpoint and the hint (LE-9)."""
    table.start(add("a"))
    write(load(table.store))
    table.commit(add("b"))
    write(load(table.store))
    table.store.delete("_delta_log/_last_checkpoint")
    if hint is not None:
        table.put("_last_checkpoint", hint)
    plan = plan_maintenance(
        plan_checkpoint(load(table.store), now_ms=NOW_MS), LocalEngine, cleanup=False, force=False
    )
    assert plan.changes_anything
    done = apply_maintenance(plan, LocalEngine).document().values
    assert (done["written"], done["lastCheckpointUpdated"]) == (False, True)
    assert parse_hint(table.store.read("_delta_log/_last_checkpoint")).version == 1
    assert not plan_checkpoint(load(table.store), now_ms=NOW_MS).changes_anything
    # An older one is not for those that look for the newest.
    assert not plan_checkpoint(load(table.store, 0), now_ms=NOW_MS).changes_anything


def test_the_hint_has_all_fields_a_checksum_and_never_goes_back(table: TableBuilder) -> None:
    table.start(add("a"))
    table.commit(add("b"))
    write(load(table.store))
    hint = parse_hint(table.store.read("_delta_log/_last_checkpoint"))
    assert (hint.version, hint.size) == (1, 4)
    assert {"sizeInBytes", "numOfAddFiles", "checkpointSchema", "checksum"} <= hint.body.keys()
    result = write(load(table.store, 0))
    assert not result.hint_moved
    assert parse_hint(table.store.read("_delta_log/_last_checkpoint")).version == 1
    assert not move_hint_forward(table.store, {"version": 0, "size": 1})
    table.put("_last_checkpoint", b"{broken")
    assert not move_hint_forward(table.store, {"version": 0, "size": 1})
    assert "checksum" not in json.loads(hint_text({"version": 1, "x": list(range(11))}))


def test_a_state_that_its_checksum_denies_is_not_made_permanent(table: TableBuilder) -> None:
    table.start(add("a", 5))
    crc = {"tableSizeBytes": 5, "numFiles": 2, "numMetadata": 1, "numProtocol": 1}
    table.put(f"{0:020}.crc", json.dumps(crc).encode())
    with pytest.raises(CorruptLog, match=r"numFiles \(checksum: 2, log: 1\)"):
        write(load(table.store))
    assert not load(table.store).listing.checkpoints


def test_a_version_without_its_commit_gets_no_checkpoint(table: TableBuilder) -> None:
    table.start(add("a"))
    write(load(table.store))
    table.store.delete(f"_delta_log/{0:020}.json")
    with pytest.raises(Refused):
        write(load(table.store), force=True)


def test_a_miscounted_file_is_not_published(table: TableBuilder, monkeypatch: Any) -> None:
    table.start(add("a"), add("b"))
    monkeypatch.setattr("deltacli.local.checkpoint.count_rows", lambda path: (1, 0))
    with pytest.raises(CorruptLog, match="not published"):
        write(load(table.store))
    assert not load(table.store).listing.checkpoints


def test_a_commit_writes_the_checkpoint_that_is_due(table: TableBuilder) -> None:
    table.start(configuration={"delta.checkpointInterval": "3"})
    for _ in range(7):
        commit_and_checkpoint(load(table.store), change(txn("a", 1)), LocalEngine)
    assert [one.version for one in load(table.store).listing.checkpoints] == [3, 6]


def test_a_checkpoint_that_fails_never_fails_the_commit(
    table: TableBuilder, monkeypatch: Any
) -> None:
    table.start(configuration={"delta.checkpointInterval": "1"})

    def fail(*_: Any) -> None:
        raise StorageError("no space")

    monkeypatch.setattr("deltacli.operations.checkpoint.apply_checkpoint", fail)
    done = commit_and_checkpoint(load(table.store), change(txn("a", 1)), LocalEngine)
    assert done.version == 1
    assert "no space" in done.warnings[0]


def test_broken_pages_are_replaced_by_a_good_checkpoint(table: TableBuilder) -> None:
    head = [protocol(), metadata()]
    table.commit(*head, *(add(f"{n:064}", n) for n in range(500)), remove("gone"))
    write(load(table.store))
    name = f"{0:020}.checkpoint.parquet"
    content = bytearray(table.store.read(f"_delta_log/{name}"))
    content[4 : len(content) // 3] = bytes(len(content) // 3 - 4)
    table.put(name, bytes(content))
    table.commit(commit_info(), add("late"))
    result = write(load(table.store))
    assert result.plan.totals.files == 501
    table.store.delete(f"_delta_log/{name}")
    assert len(load(table.store).all_live()) == 501
    # And the broken one itself is no reason to leave it alone.
    table.put(name, bytes(content))
    assert plan_checkpoint(load(table.store, 0), now_ms=NOW_MS).existing is None


def test_statistics_missing_in_a_struct_are_taken_from_the_text(table: TableBuilder) -> None:
    import pyarrow as pa

    text = '{"numRecords":7,"minValues":{"id":1},"maxValues":{"id":2},"nullCount":{"id":0}}'
    head = [protocol(), metadata()]
    files = [add("a", stats=text)]
    table.commit(*head, *files)
    for struct in ({"numRecords": None}, {"numRecords": 7}):
        table.checkpoint(0, [*head, *files])
        name = f"{0:020}.checkpoint.parquet"
        whole = rows_of(table.store, f"_delta_log/{name}")
        adds = whole.column("add").combine_chunks()
        fields = {one.name: adds.field(one.name) for one in adds.type}
        fields["stats_parsed"] = pa.array(
            [struct] * len(adds), pa.struct([("numRecords", pa.int64())])
        )
        made = pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=adds.is_null())
        sink = io.BytesIO()
        columns = {one: whole.column(one) for one in whole.column_names}
        pq.write_table(pa.table({**columns, "add": made}), sink)
        table.put(name, sink.getvalue())
        result = write(load(table.store), force=True, stats="struct")
        rows = rows_of(table.store, result.files[0]["path"]).column("add").to_pylist()
        (parsed,) = [row["stats_parsed"] for row in rows if row]
        assert parsed["numRecords"] == 7
        assert parsed["minValues"] == {"id": 1}


@pytest.mark.parametrize(
    "odd",
    [
        {"path": "\ud800"},
        {"deletionVector": {**vector(), "offset": "1"}},
        {"stats": json.dumps({"numRecords": 1, "minValues": {"t": "\ud800"}})},
        {"partitionValues": {"z": "0001-01-01T00:00:00+05:00"}},
    ],
)
def test_odd_values_never_end_in_a_bug(table: TableBuilder, odd: dict[str, Any]) -> None:
    columns = [column("t", "string"), column("z", "timestamp")]
    table.commit(protocol(), metadata(*columns, partition_by=["z"]), add("a") | {})
    table.commit(commit_info(), {"add": {**add("b")["add"], **odd}})
    try:
        write(load(table.store), stats="both")
    except CorruptLog:
        assert not load(table.store).listing.checkpoints
    else:
        assert load(table.store).totals(ALL, NOW_MS).files == 2


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
@pytest.mark.parametrize("kind", ["classic", "v2"])
def test_no_space_is_an_error_that_leaves_nothing(
    tmp_path: Path, monkeypatch: Any, kind: str
) -> None:
    store = LocalStore(str(tmp_path))
    rich_table(store)
    before = sorted(tmp_path.rglob("*"))
    full = tmp_path.with_name("full")
    full.symlink_to("/dev/full")
    monkeypatch.setattr(store, "scratch", lambda path: str(full))
    with pytest.raises(StorageError, match="No space left"):
        write(load(store), kind=kind)
    assert sorted(tmp_path.rglob("*")) == before
    assert not full.is_symlink()


def test_two_that_write_the_same_checkpoint_do_not_disturb_each_other(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    rich_table(LocalStore(str(tmp_path)))
    expected = state_of(load(LocalStore(str(tmp_path))))
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(write, load(LocalStore(str(tmp_path)))) for _ in range(8)]
        assert all(job.result().files for job in jobs)
    assert state_of(load(LocalStore(str(tmp_path)))) == expected


# -- faults, every one -----------------------------------------------------------------------


def operations_of(action: Callable[[LogStore], Any], store: LogStore) -> int:
    counting = FaultyStore(store)
    action(counting)
    return counting.count


def do_checkpoint(store: LogStore) -> None:
    write(load(store), force=True)


def do_v2(store: LogStore) -> None:
    write(load(store), kind="v2", force=True)


def do_commit(store: LogStore) -> None:
    commit_and_checkpoint(load(store), change(txn("new", 1)), LocalEngine)


ACTIONS = {"checkpoint": do_checkpoint, "v2": do_v2, "commit": do_commit}


def readable_state(store: LogStore) -> dict[str, Any]:
    snapshot = load(store)
    state = state_of(snapshot)
    state["txns"] = {app: one for app, one in state["txns"].items() if app != "new"}
    state["metadata"] = state["metadata"].id
    del state["version"]
    return state


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_failure_at_any_operation_leaves_the_table_as_it_was(
    tmp_path: Path, name: str, mode: str
) -> None:
    base = tmp_path / "base"
    rich_table(LocalStore(str(base)))
    expected = readable_state(LocalStore(str(base)))
    shutil.copytree(base, tmp_path / "count")
    total = operations_of(ACTIONS[name], LocalStore(str(tmp_path / "count")))
    assert total > 5
    for number in range(total):
        place = tmp_path / f"t{number}"
        shutil.copytree(base, place)
        store = LocalStore(str(place))
        with contextlib.suppress(Refused, CorruptLog, StorageError):
            ACTIONS[name](FaultyStore(store, number, mode))
        assert readable_state(store) == expected, number
        assert list(place.rglob("*.tmp")) == []
        # And the work can be done afterwards.
        ACTIONS[name](store)
        assert readable_state(store) == expected


# -- the command -----------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rich_table(LocalStore(str(tmp_path / "t")))
    return tmp_path / "t"


def test_the_command_needs_a_word_where_nobody_can_be_asked(
    deltacli: Callable[..., Result], place: Path
) -> None:
    result = deltacli("checkpoint", place)
    assert result.code == 2
    assert "--yes" in result.stderr
    assert "--dry-run" in result.stderr
    planned = deltacli("checkpoint", place, "--dry-run", "-o", "json").json
    assert planned["written"] is False
    assert not list(place.glob("_delta_log/*.checkpoint.*"))
    done = deltacli("checkpoint", place, "--yes", "-o", "json").json
    assert (done["written"], done["kind"], done["numAddFiles"]) == (True, "classic", 3)
    assert done["files"][0]["sizeInBytes"] == os.path.getsize(place / done["files"][0]["path"])
    again = deltacli("checkpoint", place, "--yes", "-o", "json")
    assert again.code == 0
    assert again.json["written"] is False
    assert "--force" in again.stderr


def test_the_command_refuses_what_the_protocol_forbids(
    deltacli: Callable[..., Result], local_table: TableBuilder
) -> None:
    local_table.commit(protocol(1, 7, None, ["fancy"]), metadata())
    result = deltacli("checkpoint", local_table.store.location, "--yes")
    assert result.code == 4
    assert "fancy" in result.stderr
    local_table.commit(protocol(1, 2))
    assert deltacli("checkpoint", local_table.store.location, "--yes", "--kind", "v2").code == 4


def test_a_store_that_may_not_be_written_is_said_and_kept(
    deltacli: Callable[..., Result], place: Path
) -> None:
    before = sorted(os.listdir(place / "_delta_log"))
    taken = place / "_delta_log" / f"{2:020}.checkpoint.parquet" / "x"
    taken.mkdir(parents=True)
    result = deltacli("checkpoint", place, "--yes", "--force")
    assert result.code == 7
    taken.rmdir()
    taken.parent.rmdir()
    after = sorted(os.listdir(place / "_delta_log"))
    assert [name for name in after if "checkpoint" not in name] == before
    assert deltacli("snapshot", place, "--fields", "numFiles").stdout == "numFiles\t3\n"


@pytest.mark.parametrize(("answer", "written"), [("n", False), ("", False), ("y", True)])
def test_on_a_terminal_the_plan_is_shown_and_asked_about(
    place: Path, answer: str, written: bool
) -> None:
    import pty

    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "deltacli", "checkpoint", str(place), "--no-color"],
        stdin=child,
        stdout=subprocess.PIPE,
        stderr=child,
    )
    os.close(child)
    seen = b""
    while b"[y/N]" not in seen:
        seen += os.read(parent, 4096)
    assert b"numAddFiles" in seen
    os.write(parent, f"{answer}\n".encode())
    stdout, _ = process.communicate(timeout=60)
    os.close(parent)
    assert process.returncode == 0
    assert bool(list(place.glob("_delta_log/*.checkpoint.parquet"))) is written
    assert (b"written\ttrue" in stdout) is written
