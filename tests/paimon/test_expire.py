"""`paimon expire`: what is needed stays, whatever happens; what nobody needs goes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.errors import CorruptLog, DeltaCliError, Refused
from deltacli.operations.paimon_expire import Expired, ExpireWish, apply_expire, plan_expire
from deltacli.paimon.table import Branch
from deltacli.storage import Entry, LogStore
from deltacli.storage.local import LocalStore
from tests.conftest import ROOT, Result
from tests.faulty import FaultyStore
from tests.paimon.builder import ADD, DELETE, PaimonTable, schema

Deltacli = Callable[..., Result]
NOW = 2_000_000_000_000
ALL_AGES = ExpireWish(older_than_ms=0)
CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    return PaimonTable(tmp_path / "table")


def expire(table: PaimonTable, wish: ExpireWish = ALL_AGES, branch: str = "main") -> list[int]:
    plan = plan_expire(Branch(table.store, branch), wish, NOW)
    done = apply_expire(plan)
    assert [one.id for one in done.deleted] == [one.id for one in plan.expired]
    return [one.id for one in done.deleted]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(6))
def test_what_stays_is_what_something_names(seed: int, codec: str, tmp_path: Path) -> None:
    """Random tables against a model that knows what it wrote."""
    rng = random.Random(seed)
    table = PaimonTable(tmp_path / "table", codec)
    count = rng.randrange(2, 30)
    table.add_schemas(count)
    table.add_schemas(count, "b")
    needed: dict[str, set[int]] = {"": {count - 1}, "b": {count - 1}}
    for branch, ids in needed.items():
        for number in range(1, rng.randrange(2, 6)):
            entries = [
                (rng.choice([ADD, ADD, DELETE]), rng.randrange(count))
                for _ in range(rng.randrange(5))
            ]
            own = rng.randrange(count)
            statistics = f"stats-{branch}{number}" if rng.random() < 0.3 else None
            changelog = [(ADD, rng.randrange(count))] if rng.random() < 0.3 else None
            tree = table.snapshot(
                number, own, entries, branch=branch, statistics=statistics, changelog=changelog
            )
            ids |= {own, *(one for _, one in (*entries, *(changelog or ())))}
            if statistics:
                of_statistics = rng.randrange(count)
                table.put(f"statistics/{statistics}", {"snapshotId": 1, "schemaId": of_statistics})
                ids.add(of_statistics)
            folder = f"branch/branch-{branch}/" if branch else ""
            if rng.random() < 0.5:
                tagged = rng.randrange(count)
                table.put(f"{folder}tag/tag-t{number}", {**tree, "schemaId": tagged})
                ids.add(tagged)
            if rng.random() < 0.3:
                logged = rng.randrange(count)
                table.put(f"{folder}changelog/changelog-{number}", {**tree, "schemaId": logged})
                ids.add(logged)
    assert expire(table) == sorted(set(range(count)) - needed[""])
    assert table.schema_ids == sorted(needed[""])
    assert expire(table, branch="b") == sorted(set(range(count)) - needed["b"])
    assert expire(table) == []


def test_only_old_versions_go_and_the_last_stay(table: PaimonTable) -> None:
    for schema_id in range(6):
        table.add_schema(schema(schema_id, timeMillis=NOW - (6 - schema_id) * 1000))
        os.utime(table.root / f"schema/schema-{schema_id}", (1, 1))
    # A file that was put there later than it says is as young as its file.
    os.utime(table.root / "schema/schema-1", (NOW / 1000 - 1, NOW / 1000 - 1))
    assert expire(table, ExpireWish(older_than_ms=3500)) == [0, 2]
    assert expire(table, ExpireWish(older_than_ms=0, keep_last=2)) == [1, 3]
    assert table.schema_ids == [4, 5]


def test_a_version_of_unknown_age_stays(table: PaimonTable) -> None:
    for schema_id in range(3):
        table.add_schema(schema(schema_id, timeMillis=0))
        os.utime(table.root / f"schema/schema-{schema_id}", (0, 0))
    assert expire(table) == []


def test_external_paths_and_iceberg_keep_versions(table: PaimonTable) -> None:
    paths = ["s3://a/x", "s3://a/x,s3://b/y", None, "s3://c", "s3://c", None]
    for schema_id, path in enumerate(paths):
        options = {"data-file.external-paths": path} if path else {}
        table.add_schema(schema(schema_id, options=options))
    assert expire(table) == [0, 2, 3]
    table.add_schema(schema(7, options={"metadata.iceberg.storage": "hadoop-catalog"}))
    assert expire(table) == []
    table.add_schema(schema(8))
    # Metadata that lies there is published again by a job that asks for it.
    table.put("metadata/v1.metadata.json", "{}")
    assert expire(table) == []
    (table.root / "metadata/v1.metadata.json").unlink()
    assert expire(table) == [5, 7]


def _damage(table: PaimonTable, name: str) -> None:
    root = table.root
    files = sorted((root / "manifest").iterdir())
    manifest = next(one for one in files if "list" not in one.name)
    in_list = json.loads((root / "snapshot/snapshot-2").read_bytes())["deltaManifestList"]
    if name == "manifest gone":
        manifest.unlink()
    elif name == "manifest cut":
        manifest.write_bytes(manifest.read_bytes()[:-9])
    elif name == "manifest of another kind":
        manifest.write_bytes(b"ORC" + manifest.read_bytes()[3:])
    elif name == "manifest of other bytes":
        content = bytearray(manifest.read_bytes())
        content[-60:-20] = os.urandom(40)
        manifest.write_bytes(content)
    elif name == "manifest empty":
        manifest.write_bytes(b"")
    elif name == "list gone":
        (root / "manifest" / in_list).unlink()
    elif name == "list cut":
        file = root / "manifest" / in_list
        file.write_bytes(file.read_bytes()[:-1])
    elif name == "list elsewhere":
        _edit(root / "snapshot/snapshot-2", deltaManifestList="../../etc/passwd")
    elif name == "snapshot of a newer format":
        _edit(root / "snapshot/snapshot-1", version=9)
    elif name == "snapshot without a list":
        _edit(root / "snapshot/snapshot-1", baseManifestList=None)
    elif name == "snapshot without a schema":
        _edit(root / "snapshot/snapshot-1", schemaId="3")
    elif name == "snapshot is no JSON":
        (root / "snapshot/snapshot-1").write_bytes(b"{")
    elif name == "tag is empty":
        table.put("tag/tag-a", "")
    elif name == "statistics gone":
        _edit(root / "snapshot/snapshot-1", statistics="stats-1")
    elif name == "schema gone":
        (root / "schema/schema-1").unlink()
    elif name == "schema is no JSON":
        (root / "schema/schema-0").write_bytes(b"")
    elif name == "snapshot cannot be opened":
        (root / "snapshot/snapshot-9").mkdir()
        (root / "tag").mkdir()
        (root / "tag/tag-x").symlink_to(root / "nowhere")


def _edit(file: Path, **members: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **members}))


DAMAGES = (
    "manifest gone", "manifest cut", "manifest of another kind", "manifest of other bytes",
    "manifest empty", "list gone", "list cut", "list elsewhere", "snapshot of a newer format",
    "snapshot without a list", "snapshot without a schema", "snapshot is no JSON", "tag is empty",
    "statistics gone", "schema gone", "schema is no JSON", "snapshot cannot be opened",
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_where_something_cannot_be_read_nothing_goes(
    damage: str, table: PaimonTable, deltacli: Deltacli
) -> None:
    table.add_schemas(6)
    table.snapshot(1, 1, [(ADD, 1), (DELETE, 0)])
    table.snapshot(2, 3, [(ADD, 3)])
    _damage(table, damage)
    before = {one: one.read_bytes() for one in table.root.rglob("*") if one.is_file()}
    found = deltacli("paimon", "expire", table.root, "--older-than", "0s", "--yes")
    assert found.code in (4, 5, 7), found.stdout
    assert found.stderr.count("error: ") == 1
    assert "hint: " in found.stderr
    assert "Traceback" not in found.stderr
    assert {one: one.read_bytes() for one in table.root.rglob("*") if one.is_file()} == before
    checked = deltacli("paimon", "validate", table.root)
    assert checked.code in (1, 7)
    assert deltacli("paimon", "list", table.root).code in (0, 7)


def test_what_expires_with_a_snapshot_may_be_gone(table: PaimonTable) -> None:
    """A changelog outlives the lists and statistics of its snapshot, a tag the changelog."""
    table.add_schemas(8)
    table.snapshot(1, 1, [(ADD, 1)], changelog=[(ADD, 2)])
    old = table.snapshot(2, 3, [(ADD, 3)], changelog=[(ADD, 4)])
    table.put("tag/tag-a", old)
    for name in (old["changelogManifestList"],):
        (table.root / "manifest" / name).unlink()
    assert expire(table) == [0, 4, 5, 6]
    kept = table.snapshot(3, 7, [(ADD, 7)], changelog=[(ADD, 7)], statistics="stats-3")
    (table.root / "snapshot/snapshot-3").rename(table.root / "snapshot/of-changelog")
    table.put("changelog/changelog-3", kept)
    for name in (kept["baseManifestList"], kept["deltaManifestList"]):
        (table.root / "manifest" / name).unlink()
    assert expire(table) == []
    (table.root / "manifest" / kept["changelogManifestList"]).unlink()
    with pytest.raises(DeltaCliError, match="is missing"):
        expire(table)


def test_folders_and_other_files_among_tags_are_passed_over(table: PaimonTable) -> None:
    table.add_schemas(3)
    table.put("tag/tag-success-file/v1_SUCCESS", "x")
    table.put("snapshot/snapshot-x", "no snapshot")
    table.put("snapshot/.snapshot-1.0.tmp", "")
    table.put("schema/.schema-9.0.tmp", "")
    table.put("schema/schema-01", "{}")
    assert expire(table) == [0, 1]


class _Acting(LocalStore):
    """A store that does something after it deleted its first schema."""

    def __init__(self, root: str, act: Callable[[], object]):
        super().__init__(root)
        self._act: Callable[[], object] | None = act

    def delete(self, path: str) -> None:
        super().delete(path)
        if self._act and path.startswith("schema/schema-"):
            act, self._act = self._act, None
            act()


def meanwhile(table: PaimonTable, act: Callable[[], object]) -> Expired:
    """What comes of a plan if something happens before the second deletion."""
    store = _Acting(str(table.root), act)
    plan = plan_expire(Branch(store), ALL_AGES, NOW)
    assert len(plan.expired) > 1
    return apply_expire(plan)


def test_a_reference_that_comes_meanwhile_keeps_its_version(table: PaimonTable) -> None:
    table.add_schemas(5)
    done = meanwhile(table, lambda: table.snapshot(1, 4, [(ADD, 2)]))
    assert [one.id for one in done.deleted] == [0, 1, 3]
    assert done.spared == {2: "1 manifest entry"}
    # A snapshot that is written over, and a tag that is moved, are read again.
    table.add_schemas(5)
    tree = table.snapshot(1, 4, [(ADD, 4)])
    table.put("tag/tag-a", tree)
    done = meanwhile(table, lambda: table.put("tag/tag-a", {**tree, "schemaId": 3}))
    assert done.spared == {3: "tag a"}


@pytest.mark.parametrize(
    "act",
    [
        lambda table: (table.root / "schema/schema-4").unlink(),
        lambda table: table.add_schema(schema(5, options={"metadata.iceberg.storage": "x"})),
        lambda table: table.put("metadata/v1.metadata.json", "{}"),
        lambda table: table.put("snapshot/snapshot-1", "{"),
    ],
    ids=["the newest is gone", "a newer one", "Iceberg", "what cannot be read"],
)
def test_a_plan_that_does_not_hold_any_more_ends(
    act: Callable[[PaimonTable], object],
    table: PaimonTable,
    deltacli: Deltacli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table.add_schemas(5)
    done = meanwhile(table, lambda: act(table))
    assert [one.id for one in done.deleted] == [0]
    failure = done.failure("x")
    assert failure is not None
    assert failure.exit_code == 8
    assert failure.message.startswith("deleted 1 file, then: ")


@pytest.mark.parametrize(
    "break_it",
    [
        lambda root: (root / "snapshot").rename(root / "elsewhere"),
        lambda root: [one.unlink() for one in (root / "snapshot").glob("snapshot-*")],
        lambda root: ((root / "snapshot").rename(root / "x"), (root / "snapshot").symlink_to("y")),
        lambda root: ((root / "snapshot").rename(root / "x"), (root / "snapshot").write_text("")),
        lambda root: ((root / "snapshot/snapshot-2").unlink(),
                      (root / "snapshot/snapshot-2").mkdir()),
    ],
    ids=["gone", "only hints", "a broken link", "a file", "a snapshot that is a folder"],
)  # fmt: skip
def test_snapshots_that_cannot_be_seen_are_no_absence(
    break_it: Callable[[Path], object], table: PaimonTable
) -> None:
    table.add_schemas(4)
    table.snapshot(1, 1, [(ADD, 1)])
    table.snapshot(2, 2, [(ADD, 2)])
    break_it(table.root)
    with pytest.raises(CorruptLog):
        plan_expire(Branch(table.store), ALL_AGES, NOW)
    # A tag that can be seen says nothing of the snapshots.
    if not (table.root / "snapshot").is_dir() and os.path.lexists(table.root / "snapshot"):
        table.put("tag/tag-a", table.snapshot(1, 0, [], branch="other"))
        assert (table.root / "tag/tag-a").is_file()
    with pytest.raises(CorruptLog):
        plan_expire(Branch(table.store), ALL_AGES, NOW)
    assert table.schema_ids == [0, 1, 2, 3]


def test_a_manifest_has_as_many_entries_as_its_list_says(table: PaimonTable) -> None:
    table.add_schemas(3)
    record = table.manifest([(ADD, 0)])
    # Where no size is told, only the number of entries tells a file that was cut.
    name, size = table.manifest_list([{**record, "_FILE_SIZE": 0, "_NUM_ADDED_FILES": 2}])
    tree = table.snapshot(1, 2, [])
    tree |= {"baseManifestList": name, "baseManifestListSize": size}
    table.put("snapshot/snapshot-1", tree)
    with pytest.raises(CorruptLog, match="has 1 entries, and its list says 2"):
        plan_expire(Branch(table.store), ALL_AGES, NOW)


def test_a_list_that_was_cut_is_not_an_empty_one(table: PaimonTable) -> None:
    table.add_schemas(3)
    tree = table.snapshot(1, 2, [(ADD, 0)])
    name, _ = table.manifest_list([])
    content = (table.root / "manifest" / name).read_bytes()
    (table.root / "manifest" / tree["deltaManifestList"]).write_bytes(content)
    del tree["deltaManifestListSize"]
    table.put("snapshot/snapshot-1", tree)
    with pytest.raises(CorruptLog, match="is empty, but there are rows"):
        plan_expire(Branch(table.store), ALL_AGES, NOW)


def test_a_snapshot_that_expires_meanwhile_is_no_damage(table: PaimonTable) -> None:
    table.add_schemas(4)
    table.snapshot(1, 1, [(ADD, 1)])
    lists = json.loads((table.root / "snapshot/snapshot-1").read_bytes())
    table.snapshot(2, 2, [(ADD, 2)])
    gone = table.root / "manifest" / lists["deltaManifestList"]

    class Expiring(LocalStore):
        def open(self, path: str) -> Any:
            # What only the first snapshot names goes while it is looked at.
            if path.endswith(gone.name):
                (table.root / "snapshot/snapshot-1").unlink(missing_ok=True)
                gone.unlink(missing_ok=True)
            return super().open(path)

    plan = plan_expire(Branch(Expiring(str(table.root))), ALL_AGES, NOW)
    # The second snapshot still has the file that was written with version 1.
    assert [one.id for one in plan.expired] == [0]
    # What somebody else needs as well is no less missing for it.
    table.put("snapshot/snapshot-1", lists)
    table.put("tag/tag-a", lists)
    with pytest.raises(CorruptLog, match="is missing"):
        plan_expire(Branch(Expiring(str(table.root))), ALL_AGES, NOW)


def _run(store: LogStore) -> None:
    apply_expire(plan_expire(Branch(store), ALL_AGES, NOW))


def _small(root: Path) -> PaimonTable:
    table = PaimonTable(root)
    table.add_schemas(5)
    table.snapshot(1, 1, [(ADD, 1)], statistics=None)
    table.snapshot(2, 3, [(DELETE, 1)])
    return table


@pytest.mark.parametrize("mode", ["before", "after"])
def test_any_operation_may_fail(mode: str, tmp_path: Path) -> None:
    counting = FaultyStore(_small(tmp_path / "count").store)
    _run(counting)
    for number in range(counting.count):
        table = _small(tmp_path / str(number))
        with contextlib.suppress(DeltaCliError):
            _run(FaultyStore(table.store, number, mode))
        assert {1, 3, 4} <= set(table.schema_ids)
        _run(table.store)
        assert table.schema_ids == [1, 3, 4]


def test_a_failure_to_delete_is_told(
    table: PaimonTable, deltacli: Deltacli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltacli.errors import StorageError

    table.add_schemas(3)
    table.snapshot(1, 2, [(ADD, 2)])
    delete = LocalStore.delete

    def failing(store: LocalStore, path: str) -> None:
        if path == "schema/schema-0":
            raise StorageError("permission denied")
        delete(store, path)

    monkeypatch.setattr(LocalStore, "delete", failing)
    own = ("paimon", "expire", table.root, "--older-than", "0s", "-o", "json")
    found = deltacli(*own, "--yes")
    assert found.code == 8
    assert found.json["failures"] == [{"path": "schema/schema-0", "error": "permission denied"}]
    assert [one["id"] for one in found.json["files"]] == [1]
    assert "hint: " in found.stderr or "hint" in json.loads(found.stderr.splitlines()[-1])


def test_without_an_answer_nothing_is_deleted(table: PaimonTable, deltacli: Deltacli) -> None:
    table.add_schemas(3)
    found = deltacli("paimon", "expire", table.root, "--older-than", "0s")
    assert found.code == 2
    assert "--yes" in found.stderr
    assert "--dry-run" in found.stderr
    assert table.schema_ids == [0, 1, 2]
    # By default only what is older than a week: the files are new.
    assert deltacli("paimon", "expire", table.root, "--yes").code == 0
    assert table.schema_ids == [0, 1, 2]


def test_manifests_are_read_one_after_the_other(tmp_path: Path) -> None:
    """Many entries take no more memory than few."""
    script = """
import resource, sys
from deltacli.operations.paimon_expire import ExpireWish, plan_expire
from deltacli.paimon.table import Branch
from deltacli.storage.local import LocalStore
plan = plan_expire(Branch(LocalStore(sys.argv[1])), ExpireWish(0), 2 * 10**12)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(plan.expired))
"""
    peaks = []
    for count in (10, 400):
        table = PaimonTable(tmp_path / str(count))
        table.add_schemas(3)
        records = [table.manifest([(ADD, 0)] * 200) for _ in range(count)]
        name, size = table.manifest_list(records)
        tree = table.snapshot(1, 0, [])
        table.put(
            "snapshot/snapshot-1", {**tree, "baseManifestList": name, "baseManifestListSize": size}
        )
        command = [sys.executable, "-c", script, str(table.root)]
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        peak, expired = answer.stdout.split()
        assert expired == "1"
        peaks.append(int(peak))
    assert peaks[1] < peaks[0] * 1.2 + 4096


def test_many_manifests_are_read_by_more_than_one(table: PaimonTable) -> None:
    """What other processes find, and what they cannot read, counts as well."""
    table.add_schemas(1000)
    records = [table.manifest([(ADD, number)]) for number in range(700)]
    name, size = table.manifest_list(records)
    tree = table.snapshot(1, 999, [])
    tree |= {"baseManifestList": name, "baseManifestListSize": size}
    table.put("snapshot/snapshot-1", tree)
    plan = plan_expire(Branch(table.store), ALL_AGES, NOW)
    assert [one.id for one in plan.expired] == list(range(700, 999))
    for number in (3, 650):
        file = table.root / "manifest" / records[number]["_FILE_NAME"]
        content = file.read_bytes()
        file.write_bytes(content[:-20])
        with pytest.raises(CorruptLog, match=f"{file.name} .*snapshot 1 needs it"):
            plan_expire(Branch(table.store), ALL_AGES, NOW)
        file.write_bytes(content)


def test_a_clock_that_is_ahead_deletes_nothing(table: PaimonTable) -> None:
    table.add_schemas(3)
    tomorrow = time.time_ns() // 1_000_000 + 86_400_000
    plan = plan_expire(Branch(table.store), ExpireWish(86_400_000), tomorrow)
    assert plan.expired
    with pytest.raises(Refused, match="clock"):
        apply_expire(plan, now_ms=lambda: tomorrow)
    assert table.schema_ids == [0, 1, 2]


def test_folders_that_are_not_there_are_looked_for_once(
    table: PaimonTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.add_schemas(20)
    listed: list[str] = []
    list_from = LocalStore.list_from

    def counting(store: LocalStore, folder: str, start: str = "") -> Iterator[Entry]:
        listed.append(folder)
        return list_from(store, folder, start)

    monkeypatch.setattr(LocalStore, "list_from", counting)
    assert len(expire(table)) == 19
    # The folder of the table may hold a great many partitions.
    assert listed.count("") < 10


def test_a_running_clock_is_used(table: PaimonTable, deltacli: Deltacli) -> None:
    table.add_schemas(3)
    for schema_id in range(3):
        old = time.time() - 8 * 86_400
        os.utime(table.root / f"schema/schema-{schema_id}", (old, old))
    own = ("paimon", "expire", table.root, "--yes", "-o", "json", "--fields")
    assert deltacli(*own, "numDeletd").code == 2
    assert table.schema_ids == [0, 1, 2]
    assert deltacli(*own, "numDeleted,numSchemas").json == {"numDeleted": 2, "numSchemas": 3}
    assert table.schema_ids == [2]
