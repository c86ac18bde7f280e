"""Log cleanup: what is expired goes, what any kept version needs stays (facts 6.6)."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import CorruptLog, Refused, StorageError
from deltacli.local.engine import LocalEngine
from deltacli.operations.checkpoint import plan_checkpoint
from deltacli.operations.cleanup import CleanupPlan, apply_cleanup, plan_cleanup
from deltacli.operations.maintain import apply_maintenance, plan_maintenance
from deltacli.storage import LogStore
from deltacli.storage.local import LocalStore
from tests.builder import (
    DAY_MS,
    NOW_MS,
    Action,
    TableBuilder,
    add,
    commit_info,
    features,
    lines,
    metadata,
    protocol,
)
from tests.conftest import Result
from tests.faulty import FaultyStore

U1, U2 = "0e42c15b-17cc-4918-990d-2ff76e918e4d", "fe42c15b-17cc-4918-990d-2ff76e918e4d"


def load(store: LogStore, version: int | None = None) -> Snapshot:
    return load_snapshot(store, LocalEngine, version=version)


def plan(table: TableBuilder, **options: Any) -> CleanupPlan:
    return plan_cleanup(load(table.store), LocalEngine, now_ms=NOW_MS, **options)


def names(found: CleanupPlan) -> list[str]:
    return [file.path.removeprefix("_delta_log/") for file in found.files]


def aged(
    table: TableBuilder, days: list[int], head: list[Action] | None = None, **more: Any
) -> TableBuilder:
    """Commit n was made days[n] days ago and adds file n."""
    head = head or [protocol(), metadata(**more)]
    for version, age in enumerate(days):
        own = head if version == 0 else []
        table.commit(commit_info(), *own, add(str(version)), at_ms=NOW_MS - age * DAY_MS)
    return table


def checkpointed(table: TableBuilder, version: int, age: int, name: str | None = None) -> None:
    rows = [protocol(), metadata(), *(add(str(v)) for v in range(version + 1))]
    table.checkpoint(version, rows, name)
    del age


def test_without_a_checkpoint_nothing_goes(table: TableBuilder) -> None:
    aged(table, [90, 80, 70])
    found = plan(table)
    assert (found.anchor, names(found)) == (None, [])


def test_everything_before_the_newest_old_checkpoint_goes_in_order(table: TableBuilder) -> None:
    aged(table, [90, 80, 70, 60, 50, 40, 10, 5])
    for version in (2, 4, 6):
        checkpointed(table, version, 0)
    for version in (1, 4):
        table.put(f"{version:020}.crc", b"{}")
    table.put(f"{1:020}.{4:020}.compacted.json", b"")
    table.put("stray.tmp", b"")
    found = plan(table)
    # Commits 0 to 5 are old; the newest checkpoint among them is at 4.
    assert found.anchor == 4
    assert names(found) == [
        *(f"{version:020}.json" for version in range(4)),
        f"{1:020}.crc",
        f"{1:020}.{4:020}.compacted.json",
        f"{2:020}.checkpoint.parquet",
    ]
    apply_cleanup(found, LocalEngine)
    assert load(table.store, 4).version == 4
    assert load(table.store).totals(frozenset(), 0).files == 0
    assert names(plan(table)) == []


def test_a_young_commit_holds_back_all_after_it(table: TableBuilder) -> None:
    # The file of commit 1 was touched (copied, say): its time pushes all later ones.
    aged(table, [90, 1, 80, 70, 60])
    for version in (0, 3):
        checkpointed(table, version, 0)
    found = plan(table)
    assert found.anchor == 0
    assert names(found) == []


def test_an_incomplete_checkpoint_is_no_anchor(table: TableBuilder) -> None:
    aged(table, [90, 80, 70, 60])
    checkpointed(table, 1, 0)
    checkpointed(table, 3, 0, f"{3:020}.checkpoint.{1:010}.{2:010}.parquet")
    found = plan(table)
    assert found.anchor == 1
    assert names(found) == [f"{0:020}.json"]


def test_the_checkpoint_about_to_be_written_may_be_the_anchor(table: TableBuilder) -> None:
    aged(table, [90, 80, 70])
    both = plan_maintenance(
        plan_checkpoint(load(table.store), now_ms=NOW_MS), LocalEngine, cleanup=True, force=False
    )
    assert both.cleanup is not None
    assert names(both.cleanup) == [f"{0:020}.json", f"{1:020}.json"]
    done = apply_maintenance(both, LocalEngine)
    assert done.document().values["cleanup"]["deleted"] is True
    left = [entry.name for entry in table.store.list_from("_delta_log")]
    assert left == [f"{2:020}.checkpoint.parquet", f"{2:020}.json", "_last_checkpoint"]
    assert load(table.store).version == 2


def test_the_threshold_is_the_day_not_the_hour(table: TableBuilder) -> None:
    midnight = (NOW_MS - 30 * DAY_MS) // DAY_MS * DAY_MS
    for version, at_ms in enumerate((midnight - 1, midnight, midnight + 1)):
        own = [protocol(), metadata()] if version == 0 else []
        table.commit(commit_info(), *own, at_ms=at_ms)
    for version in range(3):
        table.checkpoint(version, [protocol(), metadata()])
    assert plan(table).anchor == 1


@pytest.mark.parametrize(
    ("configuration", "words", "forced"),
    [
        ({"delta.enableExpiredLogCleanup": "false"}, "enableExpiredLogCleanup", True),
        ({"delta.logRetentionDuration": "interval 3 days"}, "shorter than", False),
    ],
)
def test_settings_that_forbid_it(
    table: TableBuilder, configuration: dict[str, str], words: str, forced: bool
) -> None:
    aged(table, [90, 80], configuration=configuration)
    with pytest.raises(Refused, match=words):
        plan(table)
    if forced:
        assert plan(table, force=True).anchor is None
    else:
        with pytest.raises(Refused, match=words):
            plan(table, force=True)


def test_protected_checkpoints_are_left_alone(table: TableBuilder) -> None:
    configuration = {"delta.requireCheckpointProtectionBeforeVersion": "5"}
    head = [protocol(1, 7, None, ["checkpointProtection"]), metadata(configuration=configuration)]
    aged(table, [90, 80], head)
    with pytest.raises(Refused, match="protects its checkpoints before version 5"):
        plan(table)


def sidecar_checkpoint(table: TableBuilder, version: int, own: str, sidecars: list[str]) -> None:
    head = [features("v2Checkpoint"), metadata(), {"checkpointMetadata": {"version": version}}]
    named = [
        {"sidecar": {"path": name, "sizeInBytes": 1, "modificationTime": 1}} for name in sidecars
    ]
    table.put(f"{version:020}.checkpoint.{own}.json", lines([*head, *named]))


def test_sidecars_go_when_no_checkpoint_names_them(table: TableBuilder) -> None:
    aged(table, [90, 80, 70, 60], [features("v2Checkpoint"), metadata()])
    for name, age in (("shared", 90), ("old", 90), ("young", 31), ("lost", 90)):
        table.checkpoint(0, [add("x")], f"_sidecars/{name}.parquet")
        content = table.store.read(f"_delta_log/_sidecars/{name}.parquet")
        table.put(f"_sidecars/{name}.parquet", content, at_ms=NOW_MS - age * DAY_MS)
    sidecar_checkpoint(table, 1, U1, ["old.parquet", "shared.parquet", "young.parquet"])
    sidecar_checkpoint(table, 3, U2, ["shared.parquet"])
    found = plan(table)
    assert found.anchor == 3
    assert names(found)[-3:] == [
        f"{1:020}.checkpoint.{U1}.json",
        "_sidecars/lost.parquet",
        "_sidecars/old.parquet",
    ]


def test_an_unreadable_checkpoint_keeps_all_sidecars(table: TableBuilder) -> None:
    aged(table, [90, 80, 70, 60], [features("v2Checkpoint"), metadata()])
    table.put("_sidecars/x.parquet", b"", at_ms=NOW_MS - 90 * DAY_MS)
    table.checkpoint(1, [features("v2Checkpoint"), metadata()])
    table.put(f"{3:020}.checkpoint.{U1}.json", b"{")
    found = plan(table)
    assert found.anchor == 1
    assert names(found) == [f"{0:020}.json"]


def test_a_broken_main_file_keeps_all_sidecars_but_stops_nothing_else(table: TableBuilder) -> None:
    aged(table, [90, 80, 70, 60, 50], [features("v2Checkpoint"), metadata()])
    table.put("_sidecars/x.parquet", b"", at_ms=NOW_MS - 90 * DAY_MS)
    head = [features("v2Checkpoint"), metadata()]
    for version in (1, 3):
        table.checkpoint(version, [*head, *(add(str(v)) for v in range(version + 1))])
    table.put(f"{4:020}.checkpoint.{U1}.json", b"{")
    found = plan(table)
    assert found.anchor == 3
    assert f"{1:020}.checkpoint.parquet" in names(found)
    assert not any("sidecar" in name for name in names(found))
    assert any(U1 in warning for warning in found.warnings)


def damaged(table: TableBuilder, version: int) -> None:
    """A checkpoint whose footer is fine and whose pages are not."""
    name = f"{version:020}.checkpoint.parquet"
    content = bytearray(table.store.read(f"_delta_log/{name}"))
    content[4 : len(content) // 3] = bytes(len(content) // 3 - 4)
    table.put(name, bytes(content))


@pytest.mark.parametrize("broken", ["garbage", "pages", "sidecar"])
def test_a_checkpoint_that_cannot_be_read_is_no_anchor(table: TableBuilder, broken: str) -> None:
    head = [features("v2Checkpoint"), metadata()]
    aged(table, [90, 80, 70, 60, 50], head)
    table.checkpoint(1, [*head, *(add(str(v)) for v in range(2))])
    if broken == "garbage":
        table.put(f"{3:020}.checkpoint.parquet", b"garbage")
    elif broken == "pages":
        table.checkpoint(3, [*head, *(add(str(v)) for v in range(4))])
        damaged(table, 3)
    else:
        sidecar_checkpoint(table, 3, U1, ["gone.parquet"])
    found = plan(table)
    assert found.anchor == 1
    apply_cleanup(found, LocalEngine)
    assert len(load(table.store).all_live()) == 5


def test_an_anchor_that_breaks_after_the_plan_stops_the_deletion(table: TableBuilder) -> None:
    aged(table, [90, 80, 70, 60])
    checkpointed(table, 2, 0)
    found = plan(table)
    assert names(found)
    damaged(table, 2)
    with pytest.raises(CorruptLog):
        apply_cleanup(found, LocalEngine)
    table.store.delete(f"_delta_log/{2:020}.checkpoint.parquet")
    with pytest.raises(CorruptLog, match="nothing was deleted"):
        apply_cleanup(found, LocalEngine)
    assert list(load(table.store).listing.commits) == [0, 1, 2, 3]


def test_old_clients_are_left_a_classic_name(table: TableBuilder) -> None:
    aged(table, [90, 80, 70], [features("v2Checkpoint"), metadata()])
    both = plan_maintenance(
        plan_checkpoint(load(table.store), kind="v2", now_ms=NOW_MS),
        LocalEngine,
        cleanup=True,
        force=False,
    )
    apply_maintenance(both, LocalEngine)
    left = [entry.name for entry in table.store.list_from("_delta_log")]
    assert f"{2:020}.checkpoint.parquet" in left
    assert load(table.store).version == 2


# -- crashes ----------------------------------------------------------------------------------


def old_table(place: Path) -> LocalStore:
    table = TableBuilder(LocalStore(str(place)))
    aged(table, [90, 80, 70, 60, 50, 10])
    for version in (1, 3):
        checkpointed(table, version, 0)
    return LocalStore(str(place))


def clean(store: LogStore) -> None:
    apply_cleanup(plan_cleanup(load(store), LocalEngine, now_ms=NOW_MS), LocalEngine)


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_failure_at_any_operation_leaves_a_readable_end(tmp_path: Path, mode: str) -> None:
    base = tmp_path / "base"
    old_table(base)
    shutil.copytree(base, tmp_path / "count")
    counting = FaultyStore(LocalStore(str(tmp_path / "count")))
    clean(counting)
    assert counting.count > 5
    for number in range(counting.count):
        place = tmp_path / f"t{number}"
        shutil.copytree(base, place)
        store = LocalStore(str(place))
        # A hint that cannot be read is only a hint; all else is an error.
        with contextlib.suppress(StorageError):
            clean(FaultyStore(store, number, mode))
        still_sound(store)
        clean(store)
        still_sound(store)


def still_sound(store: LogStore) -> None:
    """Every version from the anchor on reads, and the commits left are contiguous."""
    for version in (3, 4, 5):
        snapshot = load(store, version)
        assert len(list(snapshot.all_live())) == version + 1
    commits = list(load(store).listing.commits)
    assert commits == list(range(commits[0], 6))


def test_the_command_plans_shows_and_deletes(
    deltacli: Callable[..., Result], tmp_path: Path
) -> None:
    store = old_table(tmp_path / "t")
    # File times are those of now; make them as old as the table says.
    import time

    now = time.time()
    for version, age in enumerate([90, 80, 70, 60, 50, 10]):
        stamp = now - age * 86_400
        os.utime(tmp_path / "t" / "_delta_log" / f"{version:020}.json", (stamp, stamp))
    planned = deltacli("checkpoint", tmp_path / "t", "--cleanup", "--dry-run", "-o", "json").json
    assert planned["cleanup"]["files"] == 4
    assert planned["cleanup"]["deleted"] is False
    assert planned["cleanup"]["earliestVersionAfter"] == 3
    assert load(store).listing.commits.keys() == set(range(6))
    for older in ([tmp_path / "t", "--at", "4"], [f"{tmp_path / 't'}@v4"]):
        assert deltacli("checkpoint", *older, "--cleanup", "--yes").code == 2
    assert load(store).listing.commits.keys() == set(range(6))
    done = deltacli("checkpoint", tmp_path / "t", "--cleanup", "--yes", "-o", "json").json
    assert done["cleanup"]["deleted"] is True
    assert load(store).listing.commits.keys() == {3, 4, 5}
    still_sound(store)
