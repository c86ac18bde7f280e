"""Commits: the conflict matrix, rebasing, unknown outcomes, and races of processes."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Sequence
from typing import Any

import pytest

from deltacli.delta.commit import Change, Committed, Moment, commit
from deltacli.delta.segment import list_log
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import AlreadyExists, Busy, Conflict, Refused, StorageError
from deltacli.local.engine import LocalEngine
from deltacli.operations.checkpoint import commit_and_checkpoint
from deltacli.storage import LogStore
from deltacli.storage.memory import MemoryStore
from tests.builder import (
    NOW_MS,
    Action,
    TableBuilder,
    add,
    commit_info,
    domain,
    features,
    metadata,
    protocol,
    remove,
    txn,
)
from tests.places import KINDS, Place, PlaceOf, on_places


def load(store: LogStore) -> Snapshot:
    return load_snapshot(store, LocalEngine)


def change(*actions: Action, operation: str = "TEST", **more: Any) -> Change:
    return Change(operation, {"a": 1}, lambda moment: list(actions), **more)


def put(
    snapshot: Snapshot, *actions: Action, now_ms: int = NOW_MS + 5000, **more: Any
) -> Committed:
    return commit(
        snapshot, change(*actions, **more), now_ms=lambda: now_ms, pause=lambda seconds: None
    )


def lines_of(store: LogStore, version: int) -> list[Any]:
    content = store.read(f"_delta_log/{version:020}.json")
    return [json.loads(line) for line in content.splitlines()]


def test_a_commit_has_its_info_first_and_its_actions_behind(table: TableBuilder) -> None:
    table.start()
    done = put(load(table.store), txn("app", 7), metrics={"n": "1"})
    first, *rest = lines_of(table.store, 1)
    info = first["commitInfo"]
    assert done.version == 1
    assert rest == [txn("app", 7)]
    assert (info["operation"], info["readVersion"], info["txnId"]) == ("TEST", 0, done.txn_id)
    assert info["engineInfo"].startswith("deltacli/")
    assert info["operationMetrics"] == {"n": "1"}
    assert info["isBlindAppend"] is True
    assert "inCommitTimestamp" not in info
    assert load(table.store).state.txns["app"].version == 7


@pytest.mark.parametrize("clock", [NOW_MS - 10**9, NOW_MS, NOW_MS + 10**9])
def test_in_commit_times_rise_whatever_the_clock_says(table: TableBuilder, clock: int) -> None:
    configuration = {"delta.enableInCommitTimestamps": "true"}
    head = [protocol(1, 7, None, ["inCommitTimestamp"]), metadata(configuration=configuration)]
    table.commit(commit_info(inCommitTimestamp=NOW_MS), *head)
    times = [NOW_MS]
    for _ in range(3):
        done = put(load(table.store), now_ms=clock)
        info = lines_of(table.store, done.version)[0]["commitInfo"]
        assert next(iter(info)) == "inCommitTimestamp"
        times.append(info["inCommitTimestamp"])
    assert times == sorted(set(times))
    assert times[1] == max(clock, NOW_MS + 1)


def test_row_tracking_is_said_to_be_preserved(table: TableBuilder) -> None:
    names = ["rowTracking", "domainMetadata"]
    configuration = {"delta.enableRowTracking": "true"}
    table.commit(protocol(1, 7, None, names), metadata(configuration=configuration))
    put(load(table.store))
    tags = lines_of(table.store, 1)[0]["commitInfo"]["tags"]
    assert tags == {"delta.rowTracking.preserved": "true"}


MATRIX: list[tuple[str, list[Action], list[Action], bool]] = [
    ("appends go with metadata", [metadata(name="x")], [add("new")], True),
    ("removes go with metadata", [metadata(name="x")], [remove("old")], True),
    ("an empty commit goes with all", [metadata(name="x")], [], True),
    ("a txn goes with metadata", [metadata(name="x")], [txn("a", 1)], True),
    ("two txns of one app do not", [txn("a", 2)], [txn("a", 1)], False),
    ("txns of two apps do", [txn("a", 2)], [txn("b", 1)], True),
    ("two metadata do not", [metadata(name="x")], [metadata(name="y")], False),
    ("equal metadata do not either", [metadata()], [metadata()], False),
    ("metadata go with a commit without", [txn("a", 1)], [metadata(name="y")], True),
    ("two domains go", [domain("a")], [domain("b")], True),
    ("one domain does not", [domain("a")], [domain("a", "2")], False),
    ("a harmless feature goes", [metadata(name="x")], [features("deletionVectors")], True),
    ("a disturbing one does not", [], [protocol(1, 7, None, ["checkConstraints"])], False),
    ("an unknown one does not", [], [protocol(3, 7, ["fancy"], ["fancy"])], False),
    ("two protocols do not", [protocol(1, 4)], [protocol(1, 3)], False),
    ("a dropped feature does not", [], [protocol(1, 1)], False),
    ("one file does not", [remove("old")], [remove("old")], False),
]


@pytest.mark.parametrize(
    ("ours", "winner", "fits"), [row[1:] for row in MATRIX], ids=[r[0] for r in MATRIX]
)
def test_the_conflict_matrix(
    table: TableBuilder, ours: list[Action], winner: list[Action], fits: bool
) -> None:
    if winner and "protocol" in winner[0] and winner[0]["protocol"].get("writerFeatures"):
        for names in ("readerFeatures", "writerFeatures"):
            listed = winner[0]["protocol"].get(names)
            if listed is not None and names == "writerFeatures":
                winner = [
                    {
                        "protocol": {
                            **winner[0]["protocol"],
                            names: [*listed, "appendOnly", "invariants"],
                        }
                    }
                ]
    table.start(add("old"))
    snapshot = load(table.store)
    table.commit(commit_info(), *winner)
    table.commit(commit_info())
    if fits:
        done = put(snapshot, *ours)
        assert (done.version, done.attempts) == (3, 2)
        assert lines_of(table.store, 3)[0]["commitInfo"]["readVersion"] == 0
    else:
        with pytest.raises(Conflict, match="commit 1 of another writer"):
            put(snapshot, *ours)
        assert list_log(table.store).latest == 2


def test_each_attempt_is_made_for_its_own_version(table: TableBuilder) -> None:
    table.start()
    snapshot = load(table.store)
    table.commit(commit_info())
    seen: list[Moment] = []

    def actions(moment: Moment) -> Sequence[Action]:
        seen.append(moment)
        return [txn("app", moment.version)]

    done = commit(snapshot, Change("X", {}, actions), pause=lambda seconds: None)
    assert [moment.version for moment in seen] == [1, 2]
    assert lines_of(table.store, done.version)[1] == txn("app", 2)


def test_a_winner_that_switches_on_in_commit_times_is_followed(table: TableBuilder) -> None:
    table.start()
    snapshot = load(table.store)
    configuration = {"delta.enableInCommitTimestamps": "true"}
    table.commit(
        commit_info(inCommitTimestamp=NOW_MS + 9000), metadata(configuration=configuration)
    )
    put(snapshot, txn("a", 1), now_ms=NOW_MS)
    info = lines_of(table.store, 2)[0]["commitInfo"]
    assert info["inCommitTimestamp"] == NOW_MS + 9001


class Unsure(MemoryStore):
    """A store whose next creation of a commit fails after, before or without writing it."""

    mode = ""

    def put_if_absent(self, path: str, content: bytes) -> None:
        if not path.endswith(".json") or not self.mode:
            return super().put_if_absent(path, content)
        mode, self.mode = self.mode, ""
        if mode == "written":
            super().put_if_absent(path, content)
        if mode == "repeated by the driver":
            super().put_if_absent(path, content)
            raise AlreadyExists(path)
        raise StorageError("timeout")


@pytest.mark.parametrize("mode", ["written", "repeated by the driver"])
def test_after_an_unknown_outcome_our_own_commit_is_recognised(mode: str) -> None:
    table = TableBuilder(Unsure())
    table.start()
    snapshot = load(table.store)
    table.store.mode = mode
    assert put(snapshot, txn("a", 1)).version == 1
    assert load(table.store).version == 1


def test_after_a_failure_that_wrote_nothing_the_error_is_told() -> None:
    table = TableBuilder(Unsure())
    table.start()
    snapshot = load(table.store)
    table.store.mode = "not written"
    with pytest.raises(StorageError, match="timeout"):
        put(snapshot, txn("a", 1))
    assert load(table.store).version == 0


class Deaf(Unsure):
    """As before, and the first read after that fails."""

    deaf = False

    def read(self, path: str) -> bytes:
        if self.deaf and path.endswith(".json"):
            self.deaf = False
            raise StorageError("503")
        return super().read(path)


@pytest.mark.parametrize("actions", [[], [txn("a", 1)]])
def test_our_commit_is_recognised_even_if_it_cannot_be_read_at_once(actions: list[Action]) -> None:
    table = TableBuilder(Deaf())
    table.start()
    snapshot = load(table.store)
    table.store.mode = "repeated by the driver"
    table.store.deaf = True
    assert put(snapshot, *actions).version == 1
    assert list_log(table.store).latest == 1


def test_a_store_that_is_busy_is_asked_again() -> None:
    class BusyOnce(MemoryStore):
        busy = 2

        def put_if_absent(self, path: str, content: bytes) -> None:
            if path.endswith("1.json") and self.busy:
                self.busy -= 1
                raise Busy("409")
            super().put_if_absent(path, content)

    table = TableBuilder(BusyOnce())
    table.start()
    assert put(load(table.store), txn("a", 1)).version == 1


def test_giving_up_is_a_conflict(table: TableBuilder) -> None:
    table.start()
    snapshot = load(table.store)

    def actions(moment: Moment) -> Sequence[Action]:
        table.commit(commit_info(), version=moment.version)
        return []

    with pytest.raises(Conflict, match="gave up after 15 attempts"):
        commit(snapshot, Change("X", {}, actions), pause=lambda seconds: None)


REFUSED = [
    (protocol(1, 8), "writer version 8"),
    (protocol(1, 7, None, ["fancy"]), "fancy"),
    (protocol(1, 7, None, ["coordinatedCommits-preview"]), "coordinator"),
    (protocol(1, 7, None, ["redirectWriterOnly-preview"]), "another location"),
    (protocol(1, 7, None, None), "no writerFeatures"),
]


@pytest.mark.parametrize(("action", "words"), REFUSED)
def test_tables_that_may_not_be_written(table: TableBuilder, action: Action, words: str) -> None:
    table.commit(action, metadata())
    with pytest.raises(Refused, match=words):
        put(load(table.store))
    assert load(table.store).version == 0


def test_a_table_read_with_warnings_is_not_written(table: TableBuilder) -> None:
    table.start(configuration={"delta.deletedFileRetentionDuration": "one month"})
    snapshot = load(table.store)
    snapshot.setting("delta.deletedFileRetentionDuration")
    with pytest.raises(Refused, match=r"deletedFileRetentionDuration.*unclear"):
        put(snapshot)
    table.commit(metadata(schemaString=None))
    with pytest.raises(Refused, match=r"not sound enough.*schemaString"):
        put(load(table.store))


def test_a_store_that_overwrites_is_refused() -> None:
    class Forgetful(MemoryStore):
        def put_if_absent(self, path: str, content: bytes) -> None:
            self.put(path, content)

    table = TableBuilder(Forgetful())
    table.start()
    with pytest.raises(Refused, match="overwrites"):
        put(load(table.store))
    assert load(table.store).version == 0


def test_the_version_checksum_is_carried_forward_only_if_it_is_true(table: TableBuilder) -> None:
    table.start(add("a", 5))
    true = {"tableSizeBytes": 5, "numFiles": 1, "numMetadata": 1, "numProtocol": 1}
    table.put(f"{0:020}.crc", json.dumps(true).encode())
    done = put(load(table.store))
    carried = json.loads(table.store.read(f"_delta_log/{1:020}.crc"))
    assert carried == {**true, "txnId": done.txn_id}
    put(load(table.store), metadata(name="new"), txn("a", 1))
    carried = json.loads(table.store.read(f"_delta_log/{2:020}.crc"))
    assert carried["metadata"] == metadata(name="new")["metaData"]
    assert "setTransactions" not in carried
    complete = {**true, "setTransactions": [txn("a", 1)["txn"], txn("b", 2)["txn"]]}
    table.put(f"{2:020}.crc", json.dumps(complete).encode())
    put(load(table.store), txn("a", 7))
    carried = json.loads(table.store.read(f"_delta_log/{3:020}.crc"))
    assert carried["setTransactions"] == [txn("b", 2)["txn"], txn("a", 7)["txn"]]
    table.put(f"{3:020}.crc", json.dumps({**true, "numFiles": 9}).encode())
    put(load(table.store), txn("a", 1))
    assert load(table.store).version == 4
    assert 4 not in load(table.store).listing.checksums


# -- races --------------------------------------------------------------------------------


def write_many(place: Place, process: int, count: int) -> None:
    store = place.store("raced")
    for number in range(count):
        for _ in range(50):
            try:
                commit_and_checkpoint(
                    load(store), change(txn(f"{process}-{number}", number)), LocalEngine
                )
                break
            except Conflict:
                continue
    os._exit(0)


@pytest.mark.parametrize("kind", on_places(*KINDS))
@pytest.mark.timeout(600)
def test_processes_that_commit_at_once_leave_every_change_once(
    kind: str, place_of: PlaceOf
) -> None:
    # A protocol server takes minutes for 400 commits; RACES=50 does them all.
    processes, count = 8, 50 if kind == "local" else int(os.environ.get("RACES", "3"))
    place = place_of(kind)
    store = place.store("raced")
    TableBuilder(store).start()
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=write_many, args=(place, number, count))
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    snapshot = load(store)
    assert snapshot.version == processes * count
    expected = {f"{p}-{n}" for p in range(processes) for n in range(count)}
    assert set(snapshot.state.txns) == expected
    ids = [lines_of(store, v)[0]["commitInfo"]["txnId"] for v in range(1, snapshot.version + 1)]
    assert len(set(ids)) == processes * count
