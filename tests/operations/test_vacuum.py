"""Vacuum: exactly what no kept version needs goes (facts 7; each rule is named)."""

from __future__ import annotations

import json
import os
import socket
import threading
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from deltacli.delta.columns import texts_of
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import Conflict, CorruptLog, DeltaCliError, Refused, StorageError, UsageError
from deltacli.local.engine import LocalEngine
from deltacli.operations.checkpoint import apply_checkpoint, plan_checkpoint
from deltacli.operations.vacuum import VacuumPlan, plan_vacuum
from deltacli.operations.vacuum_apply import Deletion, apply_vacuum
from deltacli.operations.vacuum_explain import explain_vacuum
from deltacli.operations.vacuum_report import plan_values
from deltacli.operations.vacuum_request import VacuumRequest
from deltacli.storage import LogStore
from deltacli.storage.local import LocalStore
from deltacli.storage.memory import MemoryStore
from tests.builder import (
    DAY_MS,
    NOW_MS,
    TableBuilder,
    add,
    column,
    commit_info,
    features,
    metadata,
    parquet_rows,
    protocol,
    remove,
    vector,
)

WEEK_MS = 7 * DAY_MS
VECTOR_FILE = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
UUID = "^-aqEH.-t@S}K{vb[*k^"  # the same vector's name without its prefix


def put(table: TableBuilder, path: str, days: float = 30, content: bytes = b"data") -> str:
    """A file on storage, last modified some days ago."""
    stamp = int(NOW_MS - days * DAY_MS)
    store = table.store
    if isinstance(store, MemoryStore):
        store.now_ms = stamp
    store.put(path, content)
    whole = store.file_path(path)
    if whole:
        os.utime(whole, (stamp / 1000, stamp / 1000))
    return path


def load(store: LogStore) -> Snapshot:
    return load_snapshot(store, LocalEngine)


def plan(table: TableBuilder, now_ms: int = NOW_MS, **request: Any) -> VacuumPlan:
    return plan_vacuum(load(table.store), LocalEngine, VacuumRequest(**request), now_ms=now_ms)


def found(table: TableBuilder, **request: Any) -> list[str]:
    return texts_of(plan(table, **request).found.names)


def apply(plan: VacuumPlan, **options: Any) -> Deletion:
    clock = plan.delete_before_ms + plan.retention_ms
    if isinstance(plan.store, MemoryStore):
        plan.store.now_ms = clock
    else:
        options.setdefault("now_ms", lambda: 0)
    return apply_vacuum(plan, LocalEngine, **{"now_ms": lambda: clock, **options})


def explain(table: TableBuilder, path: str, **request: Any) -> dict[str, Any]:
    snapshot = load(table.store)
    wish = VacuumRequest(**request)
    return dict(explain_vacuum(snapshot, LocalEngine, wish, path, now_ms=NOW_MS).values)


def age_log(table: TableBuilder, days: float = 30) -> None:
    """Make the commits of a folder old."""
    store = table.store
    assert isinstance(store, LocalStore)
    for name in os.listdir(f"{store.root}/_delta_log"):
        stamp = (NOW_MS - days * DAY_MS) / 1000
        os.utime(f"{store.root}/_delta_log/{name}", (stamp, stamp))


# -- what is protected ----------------------------------------------------------------------


def test_live_files_stay_and_all_others_go(table: TableBuilder) -> None:
    table.start(add(put(table, "a")), add(put(table, "b")), at_ms=NOW_MS - 20 * DAY_MS)
    table.commit(remove("b", NOW_MS - 10 * DAY_MS), at_ms=NOW_MS - 10 * DAY_MS)
    put(table, "never committed")
    assert found(table) == ["b", "never committed"]


@pytest.mark.parametrize(("age_ms", "goes"), [(WEEK_MS - 1, 0), (WEEK_MS, 0), (WEEK_MS + 1, 1)])
def test_a_tombstone_younger_than_the_retention_keeps_its_file(
    table: TableBuilder, age_ms: int, goes: int
) -> None:
    """V-11: equal to the threshold is kept."""
    table.start(add(put(table, "a")), at_ms=NOW_MS - 20 * DAY_MS)
    table.commit(remove("a", NOW_MS - age_ms), at_ms=NOW_MS - 20 * DAY_MS)
    assert len(found(table)) == goes


@pytest.mark.parametrize(("age_ms", "goes"), [(WEEK_MS - 1, 0), (WEEK_MS, 0), (WEEK_MS + 1, 1)])
def test_an_uncommitted_file_is_kept_for_the_retention(
    table: TableBuilder, age_ms: int, goes: int
) -> None:
    """V-27, VL-1: a writer may be about to commit it."""
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a", age_ms / DAY_MS)
    assert len(found(table)) == goes


def test_a_tombstone_without_a_time_is_as_old_as_its_commit(table: TableBuilder) -> None:
    """VL-15, R-22: also when a checkpoint has forgotten it."""
    table.start(
        add(put(table, "old")),
        add(put(table, "new")),
        add(put(table, "forgotten")),
        at_ms=NOW_MS - 20 * DAY_MS,
    )
    table.commit(remove("old", None), at_ms=NOW_MS - 15 * DAY_MS)
    table.commit(remove("new", None), at_ms=NOW_MS - 2 * DAY_MS)
    assert found(table) == ["old"]
    table.commit(remove("forgotten", None), at_ms=NOW_MS - DAY_MS)
    apply_checkpoint(plan_checkpoint(load(table.store), now_ms=NOW_MS), LocalEngine())
    table.commit(commit_info(), at_ms=NOW_MS)
    assert found(table) == ["old"]


def test_a_tombstone_without_a_time_in_a_young_checkpoint_protects(table: TableBuilder) -> None:
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a")
    table.put("00000000000000000001.json", b'{"commitInfo":{}}\n', at_ms=NOW_MS - 20 * DAY_MS)
    state = [protocol(), metadata(), remove("a", None)]
    table.put("00000000000000000001.checkpoint.parquet", parquet_rows(state), at_ms=NOW_MS)
    assert found(table) == []
    table.put(
        "00000000000000000001.checkpoint.parquet",
        parquet_rows(state),
        at_ms=NOW_MS - 10 * DAY_MS,
    )
    assert found(table) == ["a"]


@pytest.mark.parametrize("state", ["live", "tombstone"])
@pytest.mark.parametrize(
    ("descriptor", "file"),
    [
        (vector(UUID), VECTOR_FILE),
        (vector("ab" + UUID), f"ab/{VECTOR_FILE}"),
        ({**vector(), "storageType": "p", "pathOrInlineDv": "memory://table/x%20y.bin"}, "x y.bin"),
        ({**vector(), "storageType": "p", "pathOrInlineDv": "memory://table/x y.bin"}, "x y.bin"),
    ],
)
def test_vector_files_are_protected_with_their_data_file(
    table: TableBuilder, state: str, descriptor: dict[str, Any], file: str
) -> None:
    """V-12, V-15, VL-6."""
    old = NOW_MS - 20 * DAY_MS
    table.commit(features("deletionVectors"), metadata(), at_ms=old)
    table.commit(add(put(table, "a"), deletionVector=descriptor), at_ms=old)
    put(table, file)
    put(table, "ab/deletion_vector_00000000-0000-0000-0000-000000000000.bin")
    if state == "tombstone":
        table.commit(remove("a", NOW_MS - DAY_MS, deletionVector=descriptor), at_ms=NOW_MS)
    assert found(table) == ["ab/deletion_vector_00000000-0000-0000-0000-000000000000.bin"]


def test_a_vector_that_was_replaced_goes_after_the_retention(table: TableBuilder) -> None:
    old = NOW_MS - 20 * DAY_MS
    table.commit(features("deletionVectors"), metadata(), at_ms=old)
    table.commit(add(put(table, "a"), deletionVector=vector(UUID)), at_ms=old)
    other = vector("xy" + UUID)
    table.commit(
        remove("a", NOW_MS - 10 * DAY_MS, deletionVector=vector(UUID)),
        add("a", deletionVector=other),
        at_ms=old,
    )
    put(table, VECTOR_FILE)
    put(table, f"xy/{VECTOR_FILE}")
    assert found(table) == [VECTOR_FILE]
    values = plan_values(plan(table), dry_run=True)
    assert values["byReason"] == {"dv": {"files": 1, "bytes": 4}}


NAMES = [
    "p=a b/f", "p=100%/f", "p=a%20b/f", "p=a+b/f", "p=a#b/f", "p=a?b/f", "p=a%3Ab/f", "p=a=b/f",
    "p=é/f", unicodedata.normalize("NFD", "p=é/f"), "p=a%253Dc/f", "p=[x]/f", "p=日本/f", "a:b",
    "p='/f", "p=\"/f", "p=a\nb/f", "p= /f", "p=%25/f",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_decoded_exactly_once(local_table: TableBuilder, name: str) -> None:
    """V-19, VL-2: not more (its file would go), not less (the look-alike would stay)."""
    encoded = quote(name)
    local_table.start(add(encoded), partition_by=["p"])
    put(local_table, name)
    twice = quote(encoded)
    assert found(local_table) == []
    if encoded != name:
        put(local_table, encoded)
        put(local_table, twice)
        assert found(local_table) == sorted({encoded, twice} - {name})


@pytest.mark.parametrize(
    "spelling",
    [
        "file://{root}/a%20b", "file:{root}/a%20b", "{root}/a b", "{root}/a%20b",
        "file:////{root}/a b", "{root}/./a%20b", "{root}/x/../a%20b", "{root}//a%20b", "./a%20b",
        "x/../a%20b", "{link}/a%20b", "file://{link}/a%20b",
    ],
)  # fmt: skip
@pytest.mark.parametrize("opened_by", ["root", "link"])
def test_every_spelling_of_a_path_below_the_table_protects(
    tmp_path: Path, spelling: str, opened_by: str
) -> None:
    """V-13, VL-10: also where the root is reached through a link."""
    root, link = tmp_path / "t", tmp_path / "l"
    root.mkdir()
    link.symlink_to(root)
    table = TableBuilder(LocalStore(str(root if opened_by == "root" else link)))
    table.start(add(spelling.format(root=root, link=link)))
    put(table, "a b")
    put(table, "b")
    assert found(table) == ["b"]


def test_absolute_paths_elsewhere_are_of_no_concern(local_table: TableBuilder) -> None:
    """V-14."""
    local_table.start(add("file:///somewhere/else/a"), add("s3://bucket/t/b"), add("../c"))
    for name in ("a", "b", "c"):
        put(local_table, name)
    assert found(local_table) == ["a", "b", "c"]


def test_names_that_are_not_utf8_are_found_and_deleted(local_table: TableBuilder) -> None:
    store = local_table.store
    assert isinstance(store, LocalStore)
    odd = os.fsdecode(b"p=\xff/f\xfe")
    live = os.fsdecode(b"p=\xff/live")
    local_table.start(add("p=%FF/live"), partition_by=["p"])
    put(local_table, odd)
    put(local_table, live)
    age_log(local_table)
    one = plan(local_table)
    assert texts_of(one.found.names) == [odd]
    apply(one)
    assert os.listdir(os.fsencode(store.root) + b"/p=\xff") == [b"live"]


def test_links_are_neither_followed_nor_deleted(local_table: TableBuilder, tmp_path: Path) -> None:
    """V-20."""
    store = local_table.store
    assert isinstance(store, LocalStore)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    local_table.start()
    put(local_table, "inside/garbage")
    os.symlink(outside, f"{store.root}/inside/folder")
    os.symlink(outside / "precious", f"{store.root}/file")
    os.symlink(store.root, f"{store.root}/loop")
    os.mkfifo(f"{store.root}/pipe")
    one = plan(local_table, now_ms=NOW_MS * 2)
    assert texts_of(one.found.names) == ["inside/garbage"]
    assert one.found.folders == ()
    assert explain(local_table, "file")["rule"] == "link"


def test_lite_does_not_reach_through_links(local_table: TableBuilder, tmp_path: Path) -> None:
    store = local_table.store
    assert isinstance(store, LocalStore)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "f").write_text("precious")
    local_table.start(add("l/f"), add("../outside/f"))
    local_table.commit(remove("l/f", NOW_MS - 20 * DAY_MS), remove("../outside/f", 0))
    os.symlink(tmp_path / "outside", f"{store.root}/l")
    age_log(local_table, 20)
    assert found(local_table, mode="lite") == []


@pytest.mark.parametrize(
    ("live", "link", "target"),
    [("l/p", "l", "real"), ("p", "p", "store/p"), ("x/l/p", "x/l", "../real"), ("l/p", "l", ".")],
)
def test_what_a_live_link_leads_to_is_kept(
    local_table: TableBuilder, live: str, link: str, target: str
) -> None:
    """V-20: the log names a file by a link, the listing by itself."""
    store = local_table.store
    assert isinstance(store, LocalStore)
    local_table.start(add(live))
    for name in ("real/p", "real/q", "store/p", "x/f", *(["p"] if target == "." else [])):
        put(local_table, name)
    os.symlink(target, f"{store.root}/{link}")
    kept = os.path.relpath(os.path.realpath(f"{store.root}/{live}"), store.root)
    planned = found(local_table)
    assert kept not in planned
    assert "real/q" in planned
    assert explain(local_table, kept)["rule"] == "sameFile"


def test_one_file_under_two_spellings_is_one_file(local_table: TableBuilder) -> None:
    """VL-12: as on a file system where case or Unicode form do not count."""
    store = local_table.store
    assert isinstance(store, LocalStore)
    composed, apart = "é.parquet", unicodedata.normalize("NFD", "é.parquet")
    local_table.start(add(quote(composed)))
    put(local_table, composed)
    put(local_table, "É.parquet")
    os.link(f"{store.root}/{composed}", f"{store.root}/{apart}")
    assert found(local_table) == ["É.parquet"]


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("_SUCCESS", True), (".part.crc", True), ("_committed_1", True), ("_started_1", True),
        ("_temporary/0/f", True), ("_symlink_format_manifest/manifest", True), (".x/f", True),
        ("_checkpoints/f", True), ("_spark_metadata/0", True), ("d/_delta_log_backup/f", True),
        ("a/_b/c/f", True), ("_date", True), ("_dates=1/f", True), ("_delta_logs/f", True),
        ("_delta_index/f", False), ("_delta_index_1", False), ("_change_data/f", False),
        ("_change_data/_x", True), ("_date=2024-01-01/f", False), ("a/_date=1/f", False),
        ("col-ab12=1/f", False), ("_p=1/f", False), ("metadata/f", False), ("f.crc", False),
        ("f", False), ("x/y/z/f.unknown", False), ("empty", False),
    ],
)  # fmt: skip
def test_the_hidden_rule_goes_by_each_part_of_a_path(
    local_table: TableBuilder, name: str, is_hidden: bool
) -> None:
    """V-17, V-21, V-23 to V-25, V-34, VL-9."""
    columns = [column("_date", "string", **{"delta.columnMapping.physicalName": "_p",
                                           "delta.columnMapping.id": 1})]  # fmt: skip
    local_table.commit(
        features("columnMapping"),
        metadata(
            *columns, partition_by=["_date"], configuration={"delta.columnMapping.mode": "name"}
        ),
    )
    put(local_table, name, content=b"")
    assert found(local_table) == ([] if is_hidden else [name])
    assert explain(local_table, name)["rule"] == ("hidden" if is_hidden else reason_of(name))


def reason_of(name: str) -> str:
    return "cdc" if name.startswith("_change_data/") else "unreferenced"


def test_a_partition_column_called_like_the_log_does_not_unhide_the_log(
    local_table: TableBuilder,
) -> None:
    """V-23."""
    local_table.start(partition_by=["_delta_log", "_d"])
    put(local_table, "_delta_log=1/f")
    put(local_table, "_delta_log/_delta_log=1")
    put(local_table, "_delta/f")
    age_log(local_table)
    assert found(local_table) == ["_delta_log=1/f"]


@pytest.mark.parametrize(("formats", "stays"), [("iceberg", True), ("hudi, ICEBERG", True),
                                                ("hudi", False), (None, False)])  # fmt: skip
def test_iceberg_metadata_is_hidden_while_uniform_is_on(
    local_table: TableBuilder, formats: str | None, stays: bool
) -> None:
    """V-22, VL-3."""
    key = "delta.universalFormat.enabledFormats"
    local_table.start(configuration={key: formats} if formats else {})
    put(local_table, "metadata/v1.metadata.json")
    put(local_table, "a/metadata/x")
    assert found(local_table) == ([] if stays else ["a/metadata/x", "metadata/v1.metadata.json"])


@pytest.mark.parametrize("kind", ["local", "memory"])
def test_a_table_inside_the_table_is_left_alone(
    local_table: TableBuilder, table: TableBuilder, kind: str
) -> None:
    """V-7, VL-4."""
    one = local_table if kind == "local" else table
    one.start(at_ms=NOW_MS - 20 * DAY_MS)
    for name in (
        "Inner/a",
        "Inner/p=1/b",
        "Inner/_delta_log/00000000000000000000.json",
        "Inner2/c",
    ):
        put(one, name)
    found_plan = plan(one)
    assert texts_of(found_plan.found.names) == ["Inner2/c"]
    assert found_plan.found.nested == ("Inner",)
    assert any("Inner" in warning for warning in found_plan.warnings)
    assert explain(one, "Inner/p=1/b")["rule"] == "nested"
    with pytest.raises(Refused):
        plan(one, prefix="Inner/p=1")


def test_a_table_that_lies_in_another_one_is_refused(tmp_path: Path) -> None:
    """V-7."""
    TableBuilder(LocalStore(str(tmp_path / "t"))).start()
    inner = TableBuilder(LocalStore(str(tmp_path / "t" / "x" / "inner")))
    inner.start()
    put(inner, "garbage")
    with pytest.raises(Refused, match="inside another one"):
        plan(inner)
    assert found(inner, allow_nested=True) == ["garbage"]


def test_a_file_of_unknown_or_future_age_is_kept(table: TableBuilder) -> None:
    """V-32, V-33."""
    table.start(at_ms=NOW_MS)
    put(table, "future", days=-1)
    put(table, "unknown")
    store = table.store
    assert isinstance(store, MemoryStore)
    store._files["unknown"] = (b"", None)  # type: ignore[assignment]
    assert found(table, retain_ms=0, allow_short_retention=True) == []
    assert explain(table, "future")["rule"] == "future"
    assert explain(table, "unknown")["rule"] == "unknownAge"


def test_change_data_goes_by_age_alone(table: TableBuilder) -> None:
    """V-26: and that the feed breaks is said."""
    table.start(add(put(table, "a")), at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "_change_data/old")
    put(table, "_change_data/new", days=1)
    one = plan(table)
    assert texts_of(one.found.names) == ["_change_data/old"]
    assert plan_values(one, dry_run=True)["byReason"] == {"cdc": {"files": 1, "bytes": 4}}
    assert any("change feed" in warning for warning in one.warnings)


def test_a_file_that_was_removed_and_added_again_is_live(table: TableBuilder) -> None:
    """V-44."""
    old = NOW_MS - 20 * DAY_MS
    table.start(add(put(table, "a")), at_ms=old)
    table.commit(remove("a", old), at_ms=old)
    table.commit(add("a"), at_ms=old)
    assert found(table) == []
    assert found(table, mode="lite") == []


# -- retention ------------------------------------------------------------------------------


def test_less_than_the_table_keeps_is_refused(table: TableBuilder) -> None:
    """V-4, VL-1: the hours are named rounded up, zero takes the flag as well."""
    table.start(configuration={"delta.deletedFileRetentionDuration": "interval 90 minutes"})
    put(table, "a", days=1 / 24)
    with pytest.raises(Refused, match="for 2 hours"):
        plan(table, retain_ms=5_000_000)
    with pytest.raises(Refused):
        plan(table, retain_ms=0)
    zero = plan(table, retain_ms=0, allow_short_retention=True)
    assert texts_of(zero.found.names) == ["a"]
    assert any("readers" in warning for warning in zero.warnings)


def gap(table: TableBuilder) -> None:
    """`a` was removed 20 days ago; the checkpoint of 5 days ago has forgotten it."""
    table.start(add(put(table, "a", 60)), at_ms=NOW_MS - 60 * DAY_MS)
    table.commit(remove("a", NOW_MS - 20 * DAY_MS), at_ms=NOW_MS - 20 * DAY_MS)
    store = table.store
    assert isinstance(store, MemoryStore)
    table.commit(commit_info(), at_ms=NOW_MS - 6 * DAY_MS)
    store.now_ms = NOW_MS - 5 * DAY_MS
    written = plan_checkpoint(load(store), now_ms=NOW_MS - 5 * DAY_MS)
    apply_checkpoint(written, LocalEngine())
    table.commit(commit_info(), at_ms=NOW_MS - DAY_MS)


def test_a_longer_retention_closes_the_tombstone_gap(table: TableBuilder) -> None:
    """V-5, V-18, VL-14: the state has forgotten the tombstone, the log has not."""
    gap(table)
    assert found(table) == ["a"]
    assert found(table, retain_ms=15 * DAY_MS) == ["a"]
    assert found(table, retain_ms=25 * DAY_MS) == []


def test_a_retention_that_the_log_does_not_cover_is_refused(table: TableBuilder) -> None:
    """V-18."""
    gap(table)
    for version in (0, 1):
        table.store.delete(f"_delta_log/{version:020}.json")
    assert found(table, retain_ms=9 * DAY_MS) == ["a"]  # the checkpoint reaches back 12 days
    with pytest.raises(Refused, match="does not reach back") as refused:
        plan(table, retain_ms=25 * DAY_MS)
    assert "12d" in (refused.value.hint or "")


def test_a_clock_in_the_future_is_warned_about(table: TableBuilder) -> None:
    """V-6, VL-13."""
    table.start(at_ms=NOW_MS + 600_000)
    assert any("clock" in warning for warning in plan(table).warnings)


def test_a_clock_ahead_of_the_storage_stops_the_deletion(table: TableBuilder) -> None:
    """V-6, VL-13."""
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a")
    one = plan(table)
    store = table.store
    assert isinstance(store, MemoryStore)
    store.now_ms = NOW_MS - 600_000
    with pytest.raises(Refused, match="ahead"):
        apply_vacuum(one, LocalEngine, now_ms=lambda: NOW_MS)
    assert store.look("a") is not None
    assert [entry.name for entry in store.list_from("_delta_log")] == ["00000000000000000000.json"]


@pytest.mark.parametrize(
    "head",
    [
        protocol(3, 7, [], ["somethingNew"]),
        protocol(3, 7, ["catalogManaged"], ["catalogManaged"]),
        protocol(1, 8),
    ],
)
def test_what_may_not_be_written_is_not_vacuumed(table: TableBuilder, head: Any) -> None:
    """V-2, V-3, VL-16: the writer's protocol counts, also for a plan only."""
    table.commit(head, metadata())
    snapshot = load_snapshot(table.store, LocalEngine, allow_catalog_managed=True)
    with pytest.raises(Refused):
        plan_vacuum(snapshot, LocalEngine, VacuumRequest(), now_ms=NOW_MS)


def test_append_only_tables_are_vacuumed(table: TableBuilder) -> None:
    """V-75."""
    table.start(configuration={"delta.appendOnly": "true"}, at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a")
    assert apply(plan(table)).num_deleted == 1


def test_a_state_that_its_checksum_denies_is_not_trusted(table: TableBuilder) -> None:
    """VL-7, VL-8."""
    table.start(add(put(table, "a")))
    table.put(
        "00000000000000000000.crc", json.dumps({"numFiles": 2, "tableSizeBytes": 100}).encode()
    )
    with pytest.raises(CorruptLog, match="numFiles"):
        plan(table)


def test_more_than_half_of_the_bytes_is_large(table: TableBuilder) -> None:
    """VL-8."""
    table.start(add(put(table, "a", content=b"x" * 100), size=100))
    put(table, "b", content=b"x" * 100)
    assert not plan(table).is_large
    put(table, "c", content=b"x")
    assert plan(table).is_large


# -- LITE and inventory ---------------------------------------------------------------------


def lite_table(table: TableBuilder) -> None:
    old = NOW_MS - 30 * DAY_MS
    table.start(*(add(put(table, name, 40)) for name in "abcd"), at_ms=old)
    table.commit(remove("a", NOW_MS - 20 * DAY_MS), at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "_change_data/c", 20)
    table.commit(
        {"cdc": {"path": "_change_data/c", "size": 1, "partitionValues": {}, "dataChange": False}},
        remove("b", NOW_MS - 10 * DAY_MS),
        at_ms=NOW_MS - 10 * DAY_MS,
    )
    table.commit(remove("c", NOW_MS - DAY_MS), at_ms=NOW_MS - DAY_MS)
    put(table, "never committed", 40)


def state(table: TableBuilder) -> Any:
    body = json.loads(table.store.read("_delta_log/_last_vacuum_info"))
    return body["latestCommitVersionOutsideOfRetentionWindow"]


def test_lite_takes_what_the_log_says_was_removed(table: TableBuilder) -> None:
    """V-40, V-43, V-47: sizes are those on storage."""
    lite_table(table)
    one = plan(table, mode="lite")
    assert texts_of(one.found.names) == ["_change_data/c", "a", "b"]
    assert one.size == 12
    apply(one)
    assert state(table) == 2
    assert found(table, mode="lite") == []
    assert found(table) == ["never committed"]


def test_lite_goes_on_where_the_last_vacuum_ended(table: TableBuilder) -> None:
    """V-40, V-42: a full run leaves the state; what came before it is not looked at again."""
    lite_table(table)
    apply(plan(table))
    assert state(table) == 2
    put(table, "a")  # not listed and removed before: out of sight for lite
    later = NOW_MS + 30 * DAY_MS
    assert texts_of(plan(table, mode="lite", now_ms=later).found.names) == ["c"]


def test_lite_needs_all_removals_since_the_last_vacuum(table: TableBuilder) -> None:
    """V-42."""
    lite_table(table)
    apply_checkpoint(plan_checkpoint(load(table.store), now_ms=NOW_MS), LocalEngine())
    table.store.delete("_delta_log/00000000000000000000.json")
    with pytest.raises(Refused, match="does not tell"):
        plan(table, mode="lite")
    table.put("_last_vacuum_info", b'{"latestCommitVersionOutsideOfRetentionWindow": 0}')
    with pytest.raises(Refused):
        plan(table, mode="lite")
    table.put("_last_vacuum_info", b'{"latestCommitVersionOutsideOfRetentionWindow": 1}')
    assert found(table, mode="lite") == ["_change_data/c", "b"]
    table.put("_last_vacuum_info", b'{"')
    with pytest.raises(Refused):
        plan(table, mode="lite")


def test_lite_does_not_pass_over_what_is_not_due_yet(table: TableBuilder) -> None:
    """A writer whose clock was ahead: its tombstone is younger than its commit."""
    table.start(add(put(table, "a", 40)), at_ms=NOW_MS - 30 * DAY_MS)
    table.commit(remove("a", NOW_MS - 6 * DAY_MS), at_ms=NOW_MS - 8 * DAY_MS)
    apply(plan(table, mode="lite"))
    assert state(table) == 0
    assert texts_of(plan(table, mode="lite", now_ms=NOW_MS + 2 * DAY_MS).found.names) == ["a"]


def test_lite_skips_what_is_gone_already(table: TableBuilder) -> None:
    """V-46."""
    lite_table(table)
    table.store.delete("a")
    assert found(table, mode="lite") == ["_change_data/c", "b"]


def test_a_failure_or_a_part_does_not_move_the_state(table: TableBuilder) -> None:
    lite_table(table)
    apply(plan(table, prefix="_change_data"))
    with pytest.raises(StorageError):
        table.store.read("_delta_log/_last_vacuum_info")

    class Stubborn(MemoryStore):
        def delete(self, path: str) -> None:
            if path == "a":
                raise StorageError("no permission for a")
            super().delete(path)

    table.store.__class__ = Stubborn
    done = apply(plan(table))
    assert done.failures == [("a", "no permission for a")]
    assert done.num_deleted == 2
    with pytest.raises(StorageError):
        table.store.read("_delta_log/_last_vacuum_info")


def rows(*rows: tuple[str, int, int]) -> Callable[[], Iterator[tuple[str, int, int]]]:
    return lambda: iter(rows)


def test_an_inventory_stands_for_the_listing(table: TableBuilder) -> None:
    """V-50, V-51: only what lies below the table, by the same rules."""
    old, new = NOW_MS - 20 * DAY_MS, NOW_MS - DAY_MS
    table.start(add(put(table, "a")), at_ms=old)
    inventory = rows(
        ("memory://table/a", 1, old), ("memory://table/b%20c", 7, old),
        ("memory://other/x", 1, old), ("memory://table2/y", 1, old),
        ("memory://table/new", 1, new), ("memory://table/_z/f", 1, old),
    )  # fmt: skip
    one = plan(table, inventory=inventory)
    assert (texts_of(one.found.names), one.size, one.mode) == (["b%20c"], 7, "inventory")
    assert apply(one).num_deleted == 1
    with pytest.raises(UsageError, match="below the table"):
        plan(table, inventory=rows(("s3://table/a", 1, old)))


def test_a_prefix_limits_the_listing(local_table: TableBuilder) -> None:
    local_table.start(add("p=1/live"), partition_by=["p"])
    for name in ("p=1/live", "p=1/a", "p=1/x/b", "p=10/c", "d"):
        put(local_table, name)
    assert found(local_table, prefix="p=1") == ["p=1/a", "p=1/x/b"]
    assert found(local_table, prefix="p=1/x/") == ["p=1/x/b"]
    for wrong in ("nope", "..", "p=1/../p=10", "_delta_log", "/", "d"):
        with pytest.raises(UsageError):
            plan(local_table, prefix=wrong)
    with pytest.raises(UsageError):
        plan(local_table, prefix="p=1", mode="lite")


# -- what is said ---------------------------------------------------------------------------


def test_the_plan_is_whole_and_adds_up(table: TableBuilder) -> None:
    """V-66."""
    old = NOW_MS - 20 * DAY_MS
    table.start(*(add(put(table, f"r/{n}")) for n in range(5)), at_ms=old)
    table.commit(*(remove(f"r/{n}", old) for n in range(5)), at_ms=old)
    for number in range(1500):
        put(table, f"p={number % 3}/{number}.parquet", content=b"x" * (number % 3))
    put(table, "_change_data/1.x")
    put(table, "young", days=1)
    values = plan_values(plan(table), dry_run=True)
    assert values["numFiles"] == 1506
    assert values["byReason"] == {
        "tombstone": {"files": 5, "bytes": 20},
        "unreferenced": {"files": 1500, "bytes": 1500},
        "cdc": {"files": 1, "bytes": 4},
    }
    assert values["byFolder"] == {
        "p=2": {"files": 500, "bytes": 1000},
        "p=1": {"files": 500, "bytes": 500},
        "r": {"files": 5, "bytes": 20},
        "_change_data": {"files": 1, "bytes": 4},
        "p=0": {"files": 500, "bytes": 0},
    }
    assert values["byExtension"] == {
        ".parquet": {"files": 1500, "bytes": 1500},
        "": {"files": 5, "bytes": 20},
        ".x": {"files": 1, "bytes": 4},
    }
    assert (values["numSpared"], values["sparedBytes"]) == (1, 4)


def test_the_oldest_version_that_stays_readable_is_told(table: TableBuilder) -> None:
    for name in "abc":
        put(table, name, 40)
    table.start(*map(add, "abc"), at_ms=NOW_MS - 30 * DAY_MS)
    table.commit(remove("a", NOW_MS - 20 * DAY_MS), at_ms=NOW_MS - 20 * DAY_MS)
    table.commit(remove("b", NOW_MS - 10 * DAY_MS), at_ms=NOW_MS - 10 * DAY_MS)
    table.commit(remove("c", NOW_MS - DAY_MS), at_ms=NOW_MS - DAY_MS)
    one = plan(table)
    assert (one.readable.earliest, one.readable.lost) == (2, (0, 1))
    assert plan(table, retain_ms=15 * DAY_MS).readable.earliest == 1
    assert plan(table, retain_ms=25 * DAY_MS).readable.earliest == 0
    apply(plan(table, retain_ms=15 * DAY_MS))
    # What was lost before counts as well.
    assert plan(table, retain_ms=15 * DAY_MS).readable.earliest == 1


def test_every_file_is_explained_as_it_is_planned(local_table: TableBuilder) -> None:
    """V-67: the plan and the explanation agree about every file there is."""
    day = NOW_MS - DAY_MS
    local_table.commit(
        features("deletionVectors"), metadata(partition_by=["p"]), add("live"),
        add("vector", deletionVector=vector(UUID)), add("r"), add("old"), add("a%20b"),
    )  # fmt: skip
    local_table.commit(remove("r", day), remove("old", NOW_MS - 20 * DAY_MS))
    expected = {
        "live": "live", VECTOR_FILE: "vector", "r": "tombstone", "old": "tombstone",
        "_hidden": "hidden", "garbage": "unreferenced", "_change_data/x": "cdc", "vector": "live",
        "deletion_vector_0.bin": "dv", "n/_delta_log/0": "hidden", "n/f": "nested", "a b": "live",
    }  # fmt: skip
    for name in expected:
        put(local_table, name)
    put(local_table, "young", days=1)
    expected["young"] = "young"
    age_log(local_table)
    planned = found(local_table)
    for name, rule in expected.items():
        verdict = explain(local_table, name)
        assert (name, verdict["rule"]) == (name, rule)
        assert (verdict["decision"] == "deleted") == (name in planned)
    assert explain(local_table, "a%20b")["path"] == "a b"
    store = local_table.store
    assert explain(local_table, f"{store.location}/r")["deletableAfter"].startswith("2023-11-20")
    assert explain(local_table, "young")["deletableAfter"].startswith("2023-11-20")
    for wrong in ("nope", "../x", "/etc/passwd", "."):
        with pytest.raises(DeltaCliError):
            explain(local_table, wrong)


# -- deletion -------------------------------------------------------------------------------


def test_start_and_end_are_in_the_log(table: TableBuilder) -> None:
    """V-70 to V-72."""
    old = NOW_MS - 20 * DAY_MS
    table.commit(
        protocol(1, 7, None, ["inCommitTimestamp"]),
        metadata(configuration={"delta.enableInCommitTimestamps": "true"}),
        at_ms=old,
    )
    table.commit(commit_info(inCommitTimestamp=old), at_ms=old)
    put(table, "a")
    put(table, "b", content=b"xy")
    done = apply(plan(table, retain_ms=WEEK_MS))
    infos = []
    for version in (done.start_version, done.end_version):
        lines = table.store.read(f"_delta_log/{version:020}.json").splitlines()
        assert len(lines) == 1
        infos.append(json.loads(lines[0])["commitInfo"])
    start, end = infos
    assert (done.start_version, done.end_version) == (2, 3)
    assert start["operation"] == "VACUUM START"
    assert start["operationParameters"] == {
        "retentionCheckEnabled": True,
        "defaultRetentionMillis": WEEK_MS,
        "specifiedRetentionMillis": WEEK_MS,
        "typeOfVacuum": "FULL",
    }
    assert start["operationMetrics"] == {"numFilesToDelete": "2", "sizeOfDataToDelete": "6"}
    assert end["operation"] == "VACUUM END"
    assert end["operationParameters"] == {"status": "COMPLETED"}
    assert end["operationMetrics"] == {"numDeletedFiles": "2", "numVacuumedDirectories": "0"}
    for number, info in enumerate(infos):
        assert (info["isBlindAppend"], info["isolationLevel"]) == (True, "SnapshotIsolation")
        assert info["readVersion"] == 1 + number
        assert info["inCommitTimestamp"] > old


def test_without_work_there_are_no_commits(table: TableBuilder) -> None:
    """V-73."""
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    done = apply(plan(table))
    assert (done.start_version, done.end_version) == (None, None)
    assert state(table) == 0


def test_a_start_that_fails_stops_the_deletion(table: TableBuilder) -> None:
    """V-73."""
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a")
    one = plan(table)

    class Full(MemoryStore):
        def put_if_absent(self, path: str, content: bytes) -> None:
            if path.endswith(".json"):
                raise StorageError("no space left")
            super().put_if_absent(path, content)

    table.store.__class__ = Full
    with pytest.raises(StorageError):
        apply(one)
    assert table.store.look("a") is not None


class Overwriting(MemoryStore):
    def put_if_absent(self, path: str, content: bytes) -> None:
        self.put(path, content)


def test_a_storage_that_overwrites_is_vacuumed_without_commits(table: TableBuilder) -> None:
    """V-71."""
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a")
    table.store.__class__ = Overwriting
    with pytest.raises(Refused):
        apply(plan(table), log_commits=True)
    assert table.store.look("a") is not None
    done = apply(plan(table))
    assert (done.num_deleted, done.start_version) == (1, None)
    assert any("VACUUM START" in warning for warning in done.warnings)


def test_start_and_end_count_towards_the_checkpoint_interval(table: TableBuilder) -> None:
    """V-74."""
    table.start(configuration={"delta.checkpointInterval": "2"}, at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a")
    apply(plan(table))
    assert load(table.store).segment.checkpoint is not None


def test_a_file_that_came_back_since_the_plan_is_kept(table: TableBuilder) -> None:
    """V-62: RESTORE by another writer, encoded as it likes."""
    old = NOW_MS - 20 * DAY_MS
    table.start(add(put(table, "a")), at_ms=old)
    table.commit(remove("a", old), at_ms=old)
    put(table, "b c")
    put(table, "d")
    one = plan(table)
    table.commit(add("a"), add("b%20c"), at_ms=NOW_MS)
    done = apply(one)
    assert (done.num_deleted, len(done.kept)) == (1, 2)
    assert table.store.look("a") is not None
    assert table.store.look("d") is None


def test_a_file_that_comes_back_during_the_deletion_is_kept(
    table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """V-62: looked at again as time passes."""
    monkeypatch.setattr("deltacli.operations.vacuum_apply._LOOK_SECONDS", -1.0)
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    for number in range(5000):
        put(table, f"{number:05}")
    one = plan(table)

    class Restoring(MemoryStore):
        def delete_all(self, paths: Any) -> Any:
            if paths[0] == "00000":
                TableBuilder(self).commit(add("04999"), version=1)
            return super().delete_all(paths)

    table.store.__class__ = Restoring
    done = apply(one, log_commits=False)
    assert len(done.kept) == 1
    assert table.store.look("04999") is not None


def test_a_change_of_the_table_itself_since_the_plan_stops_it(table: TableBuilder) -> None:
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a")
    one = plan(table)
    table.commit(protocol(), metadata(), at_ms=NOW_MS)  # as it is; RESTORE writes so
    table.commit(metadata(partition_by=["_x"]), at_ms=NOW_MS)
    with pytest.raises(Conflict, match=r"0{19}2\.json"):
        apply(one)
    assert table.store.look("a") is not None


def test_files_that_are_gone_count_as_deleted(table: TableBuilder) -> None:
    """V-61."""
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a")
    one = plan(table)
    table.store.delete("a")
    assert apply(one).failures == []


def test_a_failed_run_says_so_in_the_log(table: TableBuilder) -> None:
    """V-61, V-64: the others are deleted all the same."""
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    for name in "abc":
        put(table, name)

    class Stubborn(MemoryStore):
        def delete(self, path: str) -> None:
            if path == "b":
                raise StorageError("no permission for b")
            super().delete(path)

    table.store.__class__ = Stubborn
    done = apply(plan(table))
    assert (done.num_deleted, len(done.failures)) == (2, 1)
    info = json.loads(table.store.read("_delta_log/00000000000000000002.json"))["commitInfo"]
    assert info["operationParameters"] == {"status": "FAILED"}
    assert info["operationMetrics"] == {}


def test_empty_old_folders_go_bottom_up(local_table: TableBuilder) -> None:
    """V-28, V-29: emptied by this run or before, old by themselves, and nothing else."""
    store = local_table.store
    assert isinstance(store, LocalStore)
    local_table.start(add("live/f"))
    for name in ("live/f", "gone/x/y/f", "young/f", "both/f", "both/_hidden", "kept/sub/f"):
        put(local_table, name)
    put(local_table, "kept/new", days=1)
    for name in ("empty/a/b", "_hidden/e", "fresh"):
        os.makedirs(f"{store.root}/{name}")
    for folder, _, _ in os.walk(store.root, topdown=False):
        stamp = (NOW_MS - 30 * DAY_MS) / 1000
        os.utime(folder, (stamp, stamp))
    for name in ("young", "fresh"):
        os.utime(f"{store.root}/{name}", (NOW_MS / 1000, NOW_MS / 1000))
    age_log(local_table)
    one = plan(local_table)
    expected = ["gone/x/y", "empty/a/b", "gone/x", "empty/a", "kept/sub", "empty", "gone"]
    assert sorted(one.found.folders) == sorted(expected)
    assert apply(one).num_directories == len(expected)
    assert sorted(os.listdir(store.root)) == [
        "_delta_log", "_hidden", "both", "fresh", "kept", "live", "young"
    ]  # fmt: skip


def test_a_folder_that_is_used_again_stays(local_table: TableBuilder) -> None:
    store = local_table.store
    assert isinstance(store, LocalStore)
    local_table.start()
    put(local_table, "p/f")
    os.utime(f"{store.root}/p", (0, 0))
    age_log(local_table)
    one = plan(local_table)
    assert one.found.folders == ("p",)
    put(local_table, "p/new", days=0)
    assert apply(one).num_directories == 0
    assert store.look("p/new") is not None


def test_pipes_and_sockets_stay(local_table: TableBuilder) -> None:
    store = local_table.store
    assert isinstance(store, LocalStore)
    local_table.start()
    os.mkfifo(f"{store.root}/pipe")
    listening = socket.socket(socket.AF_UNIX)
    place = os.getcwd()
    os.chdir(store.root)
    try:
        listening.bind("sock")
    finally:
        os.chdir(place)
        listening.close()
    assert found(local_table, retain_ms=0, allow_short_retention=True) == []


def test_two_vacuums_at_once_do_no_harm(table: TableBuilder) -> None:
    table.start(add(put(table, "live")), at_ms=NOW_MS - 20 * DAY_MS)
    for number in range(3000):
        put(table, f"{number}")
    plans = [plan(table) for _ in range(4)]
    results: list[Deletion] = []
    threads = [threading.Thread(target=lambda one=one: results.append(apply(one))) for one in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(not one.failures for one in results)
    assert found(table) == []
    assert table.store.look("live") is not None
    assert load(table.store).version == 8


# -- found by looking for trouble -------------------------------------------------------------


def test_a_file_that_comes_back_right_before_start_is_kept(table: TableBuilder) -> None:
    """V-62: START stands after that commit, so it is read."""
    old = NOW_MS - 20 * DAY_MS
    table.start(add(put(table, "a")), at_ms=old)
    table.commit(remove("a", old), at_ms=old)
    one = plan(table)

    class Restoring(MemoryStore):
        def put_if_absent(self, path: str, content: bytes) -> None:
            if "probe" in path and not self.look(f"_delta_log/{2:020}.json"):
                TableBuilder(self).commit(add("a"), version=2)
            super().put_if_absent(path, content)

    table.store.__class__ = Restoring
    done = apply(one)
    assert (done.start_version, len(done.kept)) == (3, 1)
    assert table.store.look("a") is not None


def test_an_inventory_does_not_reach_through_links_or_believe_old_times(
    local_table: TableBuilder, tmp_path: Path
) -> None:
    store = local_table.store
    assert isinstance(store, LocalStore)
    local_table.start()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "f").write_text("precious")
    os.symlink(tmp_path / "other", f"{store.root}/link")
    put(local_table, "young", days=1)
    put(local_table, "old")
    old = NOW_MS - 20 * DAY_MS
    names = ("link/f", "young", "old", "old", "never")
    listing = rows(*((f"{store.location}/{name}", 1, old) for name in names))
    assert found(local_table, inventory=listing) == ["old"]


def test_an_inventory_need_not_list_the_logs_of_inner_tables(table: TableBuilder) -> None:
    """VL-4."""
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "x/inner/_delta_log/00000000000000000000.json")
    old = NOW_MS - 20 * DAY_MS
    inventory = rows(("memory://table/x/inner/p=1/f", 1, old), ("memory://table/x/f", 1, old))
    assert found(table, inventory=inventory) == ["x/f"]


def test_a_tombstone_whose_time_is_null_is_one_without_a_time(table: TableBuilder) -> None:
    """VL-15."""
    table.start(add(put(table, "a")), at_ms=NOW_MS - 20 * DAY_MS)
    body = {"path": "a", "dataChange": True, "deletionTimestamp": None}
    table.commit({"remove": body}, at_ms=NOW_MS - DAY_MS)
    assert found(table) == []


@pytest.mark.parametrize("root", ["s3://bucket", "s3://bucket/a/b", "gs://x/y"])
@pytest.mark.parametrize("path", ["{root}/p", "../{name}/p", "{other}/p"])
def test_spellings_below_an_object_store(root: str, path: str) -> None:
    """V-13: also where the table is a whole bucket."""
    name = root.rsplit("/", 1)[-1]
    other = root.replace("s3:", "s3a:")
    table = TableBuilder(MemoryStore(location=root))
    if path.startswith("..") and root == "s3://bucket":
        return
    table.start(add(path.format(root=root, name=name, other=other)), at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "p")
    put(table, "q")
    assert found(table) == ["q"]


def test_lite_takes_only_what_a_removal_means_exactly(table: TableBuilder) -> None:
    """Protection is generous, condemnation is not."""
    old = NOW_MS - 20 * DAY_MS
    paths = ["file:///other/x", "%2Fabs%2Fx", "s3://bucket/table/p", "../up", "d//p", "a%00b"]
    table.start(add("abs/x"), *map(add, paths), at_ms=old)
    table.commit(*(remove(path, old) for path in paths), at_ms=old)
    for name in ("abs/x", "p", "x", "other/x", "up", "d/p"):
        put(table, name)
    assert found(table, mode="lite") == ["d/p"]
    assert "abs/x" not in found(table)


def test_lite_looks_at_the_age_on_storage_too(table: TableBuilder) -> None:
    """A file that was written again is no old one; and it is found when it is."""
    old = NOW_MS - 20 * DAY_MS
    table.start(add(put(table, "a")), at_ms=old)
    table.commit(remove("a", old), at_ms=old)
    table.commit(commit_info(), at_ms=old)
    put(table, "a", days=1)
    apply(plan(table, mode="lite"))
    assert state(table) == 0
    later = NOW_MS + 10 * DAY_MS
    assert texts_of(plan(table, mode="lite", now_ms=later).found.names) == ["a"]
    full = plan(table)
    assert full.vacuumed_up_to() is None  # a full one would make lite pass over it


def test_a_state_from_the_future_is_no_state(table: TableBuilder) -> None:
    lite_table(table)
    table.put("_last_vacuum_info", b'{"latestCommitVersionOutsideOfRetentionWindow": 100}')
    assert found(table, mode="lite") == ["_change_data/c", "a", "b"]


def test_a_table_reached_by_a_link_still_lies_where_it_lies(tmp_path: Path) -> None:
    """V-7."""
    TableBuilder(LocalStore(str(tmp_path / "t"))).start()
    TableBuilder(LocalStore(str(tmp_path / "t" / "inner"))).start()
    (tmp_path / "link").symlink_to(tmp_path / "t" / "inner")
    with pytest.raises(Refused, match="inside another one"):
        plan(TableBuilder(LocalStore(str(tmp_path / "link"))))


def test_folders_of_an_inner_table_stay(local_table: TableBuilder) -> None:
    store = local_table.store
    assert isinstance(store, LocalStore)
    local_table.start()
    os.makedirs(f"{store.root}/inner/_delta_log")
    os.makedirs(f"{store.root}/inner/p=1")
    for folder, _, _ in os.walk(store.root, topdown=False):
        os.utime(folder, (0, 0))
    assert plan(local_table).found.folders == ()


def test_large_is_about_what_was_looked_at() -> None:
    """VL-8: not about live files elsewhere, or outside of the prefix."""
    table = TableBuilder(MemoryStore(location="memory://bucket/table"))
    table.start(
        add("s3://elsewhere/x", size=10**9), add("q=1/live", size=100), add("p", size=10**9)
    )
    put(table, "q=1/garbage", content=b"x" * 200)
    assert plan(table, prefix="q=1").is_large
    assert not plan(table).is_large
    assert any("outside of the table" in warning for warning in plan(table).warnings)


BROKEN_BODIES = [
    {"path": "a", "deletionVector": "x"},
    {"path": "a", "deletionVector": {"storageType": 3, "pathOrInlineDv": "x"}},
    {"path": "a", "deletionVector": {"storageType": "u", "pathOrInlineDv": 5}},
    {"path": "a", "deletionVector": {"pathOrInlineDv": "x"}},
    {"path": "a", "deletionVector": {"storageType": "u", "pathOrInlineDv": "short"}},
    {"size": 1},
]


@pytest.mark.parametrize("body", BROKEN_BODIES)
@pytest.mark.parametrize("when", ["now", "before a checkpoint", "after the plan"])
def test_a_broken_file_action_is_a_clear_error(
    table: TableBuilder, body: dict[str, Any], when: str
) -> None:
    table.start(at_ms=NOW_MS)
    put(table, "garbage")
    whole = {"dataChange": True, "size": 1, "partitionValues": {}, **body}
    one = plan(table)
    if when == "after the plan":
        table.commit({"add": whole}, at_ms=NOW_MS)
        with pytest.raises(CorruptLog):
            apply(one)
    else:
        table.commit({"remove": whole}, at_ms=NOW_MS)
        if when == "before a checkpoint":
            table.commit(commit_info(), at_ms=NOW_MS)
            table.checkpoint(2, [protocol(), metadata()])
        with pytest.raises(CorruptLog):
            plan(table)
    assert table.store.look("garbage") is not None


def test_names_that_cannot_be_on_a_disk_do_no_harm(local_table: TableBuilder) -> None:
    store = local_table.store
    assert isinstance(store, LocalStore)
    paths = ["x" * 300, "a%00b", f"{store.root}/c%00d/e", "l/" * 2000 + "f"]
    local_table.start(*map(add, paths))
    local_table.commit(*(remove(path, 0) for path in paths[:2]))
    put(local_table, "garbage")
    age_log(local_table)
    assert found(local_table) == ["garbage"]
    assert found(local_table, mode="lite") == []


def test_what_stops_the_deletion_is_told_with_how_far_it_came(
    table: TableBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltacli.operations.vacuum_apply._LOOK_SECONDS", -1.0)
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    for number in range(5000):
        put(table, f"{number:05}")
    one = plan(table)

    class Changing(MemoryStore):
        def delete_all(self, paths: Any) -> Any:
            if paths[0] == "00000":
                TableBuilder(self).commit(metadata(name="other"), version=2)
            return super().delete_all(paths)

    table.store.__class__ = Changing
    done = apply(one)
    assert isinstance(done.stopped, Conflict)
    assert f"{done.num_deleted:,} of 5,000 files" in done.stopped.message
    assert 1000 <= done.num_deleted < 5000
    assert done.end_version == 3


def test_readable_versions_are_those_that_can_be_rebuilt(table: TableBuilder) -> None:
    old = NOW_MS - 20 * DAY_MS
    table.start(add(put(table, "a")), at_ms=old)
    table.commit(remove("a", old), at_ms=old)
    for _ in range(3):
        table.commit(commit_info(), at_ms=old)
    apply_checkpoint(plan_checkpoint(load(table.store), now_ms=old), LocalEngine())
    table.store.delete(f"_delta_log/{0:020}.json")
    one = plan(table)
    assert (one.readable.earliest, one.readable.lost) == (4, ())


def test_a_restore_of_many_files_loses_no_version(table: TableBuilder) -> None:
    old = NOW_MS - 20 * DAY_MS
    names = [put(table, f"{number}") for number in range(1500)]
    table.start(*map(add, names), at_ms=old)
    table.commit(*(remove(name, old) for name in names), at_ms=old)
    table.commit(*map(add, names), at_ms=old)
    one = plan(table)
    assert (one.num_files, one.readable.earliest) == (0, 0)
    table.commit(*(remove(name, old) for name in names), at_ms=old)
    put(table, "p/x")
    assert plan(table, prefix="p").readable.earliest is None  # it would take a listing


def test_a_file_that_comes_back_while_it_is_deleted_is_told(table: TableBuilder) -> None:
    """V-62: no look is fast enough; then at least nobody is left in the dark."""
    table.start(at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a")
    one = plan(table)

    class Restoring(MemoryStore):
        def delete_all(self, paths: Any) -> Any:
            TableBuilder(self).commit(protocol(), metadata(), add("a"), version=2)
            return super().delete_all(paths)

    table.store.__class__ = Restoring
    done = apply(one)
    assert done.stopped is not None
    assert done.stopped.exit_code == 8
    assert "brought back 1 file during" in done.stopped.message
    info = json.loads(table.store.read(f"_delta_log/{3:020}.json"))["commitInfo"]
    assert info["operationParameters"] == {"status": "FAILED"}


def test_a_retention_longer_than_time_itself_keeps_everything(table: TableBuilder) -> None:
    table.start(
        configuration={"delta.deletedFileRetentionDuration": "interval 99999999999 weeks"},
        at_ms=NOW_MS - 20 * DAY_MS,
    )
    put(table, "a")
    values = plan_values(plan(table), dry_run=True)
    assert (values["numFiles"], values["deleteBefore"]) == (0, "1970-01-01T00:00:00.000Z")


def test_names_with_colons_are_explained(local_table: TableBuilder) -> None:
    local_table.start()
    put(local_table, "a:b.parquet")
    assert explain(local_table, "a:b.parquet")["decision"] == "deleted"


def test_what_an_engine_left_untold_is_not_claimed(table: TableBuilder) -> None:
    class Dying(LocalEngine):
        def delete(self, store: Any, batches: Any, on_done: Any) -> None:
            next(batches)
            raise KeyboardInterrupt

    table.start(add(put(table, "live")), at_ms=NOW_MS - 20 * DAY_MS)
    put(table, "a")
    put(table, "b")
    made = plan(table)
    assert isinstance(table.store, MemoryStore)
    table.store.now_ms = NOW_MS
    done = apply_vacuum(made, Dying, now_ms=lambda: NOW_MS)
    assert done.stopped is not None
    assert "0 of 2 files are deleted (and up to 2 more), the table is sound" in done.stopped.message
