"""Action reconciliation (rules R-1 … R-23), against a model that a reader can check by eye."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.delta.actions import vector_id
from deltacli.delta.engine import FileBatch, Want
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import CorruptLog, Refused
from deltacli.local.engine import LocalEngine
from deltacli.operations.changes import diff_snapshots, sizes_over_time
from deltacli.storage.memory import MemoryStore
from tests.builder import (
    DAY_MS,
    NOW_MS,
    TableBuilder,
    add,
    commit_info,
    domain,
    features,
    metadata,
    protocol,
    remove,
    txn,
    vector,
)

ALL = frozenset(Want)


def load(table: TableBuilder, version: int | None = None) -> Snapshot:
    return load_snapshot(table.store, LocalEngine, version=version)


def live(snapshot: Snapshot, action: str = "add") -> dict[tuple[str, str | None], int]:
    found: dict[tuple[str, str | None], int] = {}
    for item in snapshot.files(action, ("path", "size", "deletionVector")):
        for body in item.columns.to_pylist() if isinstance(item, FileBatch) else [item]:
            found[body["path"], vector_id(body.get("deletionVector"))] = body.get("size")
    return found


def test_the_newest_protocol_and_metadata_win_whole(table: TableBuilder) -> None:
    table.commit(protocol(1, 2), metadata(configuration={"a": "1", "b": "2"}, name="old"))
    table.commit(protocol(1, 4), metadata(configuration={"a": "3"}))
    snapshot = load(table)
    assert snapshot.protocol.min_writer_version == 4
    assert snapshot.metadata.configuration == {"a": "3"}
    assert snapshot.metadata.name is None


def test_transactions_go_by_commit_order_not_by_their_number(table: TableBuilder) -> None:
    table.start(txn("app", 9), txn("other", 1))
    table.commit(txn("app", 3, NOW_MS))
    found = load(table).state.txns
    assert (found["app"].version, found["app"].last_updated) == (3, NOW_MS)
    assert found["other"].version == 1


def test_a_removed_domain_hides_the_older_one(table: TableBuilder) -> None:
    table.commit(features("domainMetadata"), metadata(), domain("a", "1"), domain("b", "1"))
    table.commit(domain("a", "", removed=True), domain("b", "2"))
    assert {name: one.configuration for name, one in load(table).domains.items()} == {"b": "2"}


def test_a_file_comes_goes_and_comes_again(table: TableBuilder) -> None:
    table.start(add("a", 1))
    table.commit(remove("a"))
    assert not live(load(table))
    assert live(load(table), "remove")
    table.commit(add("a", 2))
    assert live(load(table)) == {("a", None): 2}
    assert not live(load(table), "remove")


def test_a_file_with_a_new_vector_is_another_key(table: TableBuilder) -> None:
    first, second = vector(offset=1), vector(offset=2)
    table.start(add("a", 1, deletionVector=first))
    table.commit(add("a", 1, deletionVector=second), remove("a", deletionVector=first))
    snapshot = load(table)
    assert live(snapshot) == {("a", vector_id(second)): 1}
    assert live(snapshot, "remove").keys() == {("a", vector_id(first))}
    totals = snapshot.totals(ALL, NOW_MS)
    assert (totals.files, totals.records, totals.deleted_records) == (1, 10, 3)


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize(
    ("added", "removed"),
    [("a%20b", "a b"), ("/x/a", "file:/x/a"), ("file:///x/a", "/x/a"), ("a%2Fb", "a/b")],
)
def test_two_spellings_are_one_file(
    table: TableBuilder, added: str, removed: str, checkpoint: bool
) -> None:
    table.start(add(added), add("other"))
    if checkpoint:
        table.checkpoint(0, [protocol(), metadata(), add(added), add("other")])
    table.commit(remove(removed))
    assert live(load(table)).keys() == {("other", None)}
    assert load(table).totals(ALL, NOW_MS).files == 1


def test_tombstones_expire_by_the_tables_retention(table: TableBuilder) -> None:
    configuration = {"delta.deletedFileRetentionDuration": "interval 2 days"}
    removes = [
        remove("young", NOW_MS - 2 * DAY_MS + 1, 5),
        remove("at the limit", NOW_MS - 2 * DAY_MS, 7),
        remove("without a time", None, 9),
        remove("without a size", NOW_MS, None),
    ]
    table.start(*removes, configuration=configuration)
    totals = load(table).totals(ALL, NOW_MS)
    assert (totals.tombstones, totals.tombstone_bytes) == (2, 5)
    table.checkpoint(0, [protocol(), metadata(configuration=configuration), *removes])
    totals = load(table).totals(ALL, NOW_MS)
    assert (totals.tombstones, totals.tombstone_bytes) == (2, 5)


def test_an_unreadable_retention_warns_and_is_the_default(table: TableBuilder) -> None:
    configuration = {"delta.deletedFileRetentionDuration": "interval 1 month"}
    table.start(remove("a", NOW_MS - 6 * DAY_MS), configuration=configuration)
    snapshot = load(table)
    assert snapshot.totals(ALL, NOW_MS).tombstones == 1
    assert any("1 month" in warning for warning in snapshot.warnings)


@pytest.mark.parametrize(
    ("action", "error", "words"),
    [
        (protocol(99, 7), Refused, "reader version 99"),
        (protocol(3, 7, ["fancy"], ["fancy"]), Refused, "reader feature: fancy"),
        (protocol(3, 7, ["adaptiveMetadata"], []), Refused, "adaptiveMetadata"),
        (protocol(3, 7, ["catalogManaged"], ["catalogManaged"]), Refused, "catalog-managed"),
        (protocol(3, 7, None, []), CorruptLog, "no readerFeatures"),
        (protocol(0, 0), CorruptLog, "not possible"),
    ],
)
def test_what_may_not_be_read_is_refused(
    table: TableBuilder, action: dict[str, Any], error: type[Exception], words: str
) -> None:
    table.commit(action, metadata())
    with pytest.raises(error, match=words):
        load(table)


def test_an_unknown_writer_feature_only_warns(table: TableBuilder) -> None:
    table.commit(protocol(1, 7, None, ["fancy"]), metadata())
    assert any("fancy" in warning for warning in load(table).warnings)


@pytest.mark.parametrize(
    ("reader", "writer", "absent", "present"),
    [
        (1, 2, {"checkConstraints"}, {"appendOnly", "invariants"}),
        (1, 5, {"columnMapping"}, {"changeDataFeed", "generatedColumns"}),
        (2, 5, {"identityColumns"}, {"columnMapping"}),
        (2, 6, set(), {"identityColumns", "columnMapping"}),
        (1, 1, {"appendOnly"}, set()),
    ],
)
def test_legacy_versions_imply_features(
    table: TableBuilder, reader: int, writer: int, absent: set[str], present: set[str]
) -> None:
    table.commit(protocol(reader, writer), metadata())
    found = set(load(table).features)
    assert present <= found
    assert not absent & found


# -- a random table against a naive model ------------------------------------------------

PATHS = st.sampled_from(["a", "b", "p=1/c", "sp%20ace", "per%25cent", "/abs/d", "é", "x:y"])
VECTORS = st.sampled_from([None, 1, 2])


@st.composite
def histories(draw: st.DrawFn) -> list[list[tuple[str, str, int | None, int]]]:
    """Commits of (add or remove, path, vector, size), legal ones: a path once a commit."""
    commits = []
    for _ in range(draw(st.integers(1, 7))):
        actions = draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["add", "remove"]), PATHS, VECTORS, st.integers(0, 2**40)
                ),
                max_size=5,
                unique_by=lambda action: action[1],
            )
        )
        commits.append(actions)
    return commits


def as_action(kind: str, path: str, number: int | None, size: int) -> dict[str, Any]:
    more = {} if number is None else {"deletionVector": vector(offset=number)}
    return add(path, size, **more) if kind == "add" else remove(path, NOW_MS, size, **more)


def model(commits: list[list[tuple[str, str, int | None, int]]]) -> dict[Any, tuple[str, int]]:
    state: dict[Any, tuple[str, int]] = {}
    for commit in commits:
        for kind, path, number, size in commit:
            state[path, number and vector_id(vector(offset=number))] = (kind, size)
    return state


@settings(max_examples=60, deadline=None)
@given(histories(), st.data())
def test_any_history_equals_the_model_with_or_without_a_checkpoint(
    commits: list[list[tuple[str, str, int | None, int]]], data: st.DataObject
) -> None:
    table = TableBuilder(MemoryStore())
    head = [features("deletionVectors"), metadata()]
    for version, actions in enumerate(commits):
        own = [as_action(*action) for action in actions]
        table.commit(commit_info(), *(head if version == 0 else []), *own)
    last = len(commits) - 1
    at = data.draw(st.none() | st.integers(0, last), label="checkpoint")
    if at is not None:
        numbers = {vector_id(vector(offset=n)): n for n in (1, 2)}
        state = model(commits[: at + 1]).items()
        rows = [as_action(k, p, v and numbers[v], s) for (p, v), (k, s) in state]
        size = data.draw(st.integers(1, 4), label="row group")
        table.checkpoint(at, [*head, *rows], row_group_size=size)
        for version in range(at + 1):
            if data.draw(st.booleans(), label="cleaned"):
                table.store.delete(f"_delta_log/{version:020}.json")
    expected = model(commits)
    snapshot = load(table)
    for kind in ("add", "remove"):
        wanted = {key: size for key, (one, size) in expected.items() if one == kind}
        assert live(snapshot, kind) == wanted
    totals = snapshot.totals(ALL, NOW_MS)
    adds = [size for one, size in expected.values() if one == "add"]
    removes = [size for one, size in expected.values() if one == "remove"]
    assert (totals.files, totals.bytes) == (len(adds), sum(adds))
    assert (totals.tombstones, totals.tombstone_bytes) == (len(removes), sum(removes))
    assert totals.records == 10 * len(adds)
    assert totals.without_records == 0


@settings(max_examples=40, deadline=None)
@given(histories(), st.data())
def test_differences_equal_those_of_the_models(
    commits: list[list[tuple[str, str, int | None, int]]], data: st.DataObject
) -> None:
    table = TableBuilder(MemoryStore())
    for version, actions in enumerate(commits):
        head = [features("deletionVectors"), metadata()] if version == 0 else []
        table.commit(commit_info(), *head, *(as_action(*action) for action in actions))
    last = len(commits) - 1
    old, new = (data.draw(st.integers(0, last)) for _ in range(2))
    states = {
        version: {k: s for k, (one, s) in model(commits[: version + 1]).items() if one == "add"}
        for version in range(last + 1)
    }
    document = diff_snapshots(load(table, old), load(table, new)).values
    # A file that got another vector is a changed one, neither added nor removed.
    here = {path for path, vector_ in states[new].keys() - states[old].keys()}
    gone = {path for path, vector_ in states[old].keys() - states[new].keys()}
    added = [s for k, s in states[new].items() if k not in states[old] and k[0] not in gone]
    removed = [s for k, s in states[old].items() if k not in states[new] and k[0] not in here]
    changed = [k for k in states[new].keys() - states[old].keys() if k[0] in gone]
    assert (document["numFilesAdded"], document["bytesAdded"]) == (len(added), sum(added))
    assert (document["numFilesRemoved"], document["bytesRemoved"]) == (len(removed), sum(removed))
    assert document["numFilesChanged"] == len(changed)
    start = min(old, new)
    series = sizes_over_time(load(table, start), last)
    for version in range(start, last + 1):
        sizes = states[version].values()
        assert series[version] == (len(sizes), sum(sizes))


def test_numbers_of_records_wherever_they_stand(table: TableBuilder) -> None:
    texts = [
        '{"numRecords":1}',
        ' { "numRecords" : 2 , "minValues":{"numRecords":99}}',
        '{"minValues":{"numRecords":99},"numRecords":4}',
        '{"numRecords":8,"x":1e400}',
    ]
    without = [None, "", "{}", "garbage", '{"numRecords":null}', '{"numRecords":1.5}', "[]", "null"]
    files = [add(f"f{n}", rows=None, stats=text) for n, text in enumerate([*texts, *without])]
    table.start(*files)
    totals = load(table).totals(ALL, NOW_MS)
    assert (totals.records, totals.without_records) == (15, len(without))
    table.checkpoint(0, [protocol(), metadata(), *files])
    totals = load(table).totals(ALL, NOW_MS)
    assert (totals.records, totals.without_records) == (15, len(without))


def test_unknown_fields_of_actions_do_not_disturb(table: TableBuilder) -> None:
    body = json.loads(json.dumps(metadata()["metaData"])) | {"newField": {"x": 1}}
    table.commit(protocol(), {"metaData": body}, add("a", future=[1, 2]))
    snapshot = load(table)
    assert snapshot.metadata.extra == {"newField": {"x": 1}}
    assert live(snapshot)
