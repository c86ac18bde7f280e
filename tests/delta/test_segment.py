"""Listing, hints, gaps, checkpoints: which files make a version (facts 1.2 to 1.6)."""

from __future__ import annotations

import json

import pytest

from deltacli.delta.hint import BadHint, hint_checksums, parse_hint
from deltacli.delta.paths import Kind
from deltacli.delta.segment import earliest_rebuildable, list_for_latest, list_log, segments
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import CorruptLog, DeltaCliError, NotFound, Refused, UnreadableCheckpoint
from deltacli.local.engine import LocalEngine
from deltacli.storage.memory import MemoryStore
from tests.builder import (
    TableBuilder,
    add,
    column,
    commit_info,
    features,
    lines,
    metadata,
    protocol,
    remove,
)

U1, U2 = "0e42c15b-17cc-4918-990d-2ff76e918e4d", "fe42c15b-17cc-4918-990d-2ff76e918e4d"
STATE = [protocol(), metadata()]


def load(table: TableBuilder, version: int | None = None) -> Snapshot:
    return load_snapshot(table.store, LocalEngine, version=version)


def paths(snapshot: Snapshot) -> set[str]:
    found: set[str] = set()
    for item in snapshot.files("add", ("path",)):
        if isinstance(item, dict):
            found.add(item["path"])
        else:
            found.update(item.columns.column("path").to_pylist())
    return found


def grown(table: TableBuilder, last: int) -> TableBuilder:
    """Commits 0..last; commit n adds file n."""
    table.start(add("0"))
    for version in range(1, last + 1):
        table.commit(add(str(version)))
    return table


def checkpointed(table: TableBuilder, version: int, name: str | None = None) -> None:
    table.checkpoint(version, [*STATE, *(add(str(v)) for v in range(version + 1))], name)


def drop(table: TableBuilder, *versions: int) -> None:
    for version in versions:
        table.store.delete(f"_delta_log/{version:020}.json")


def test_without_a_checkpoint_all_commits_count(table: TableBuilder) -> None:
    (segment,) = segments(list_log(grown(table, 3).store))
    assert segment.checkpoint is None
    assert [commit.version for commit in segment.commits] == [0, 1, 2, 3]


def test_the_newest_checkpoint_not_after_the_target_is_used(table: TableBuilder) -> None:
    grown(table, 6)
    checkpointed(table, 2)
    checkpointed(table, 4)
    best = [next(segments(list_log(table.store), version)) for version in (1, 2, 3, 4, 6)]
    bases = [segment.checkpoint.version if segment.checkpoint else None for segment in best]
    assert bases == [None, 2, 2, 4, 4]
    assert paths(load(table, 3)) == {"0", "1", "2", "3"}


def test_at_one_version_a_uuid_name_is_preferred_then_more_parts(table: TableBuilder) -> None:
    grown(table, 4)
    checkpointed(table, 4)
    for part in (1, 2):
        checkpointed(table, 4, f"{4:020}.checkpoint.{part:010}.{2:010}.parquet")
    for part in (1, 2, 3):
        checkpointed(table, 4, f"{4:020}.checkpoint.{part:010}.{3:010}.parquet")
    for own in (U1, U2):
        checkpointed(table, 4, f"{4:020}.checkpoint.{own}.parquet")
    ranked = [one.checkpoint for one in segments(list_log(table.store)) if one.checkpoint]
    assert [(one.kind, len(one.files)) for one in ranked] == [
        (Kind.UUID_CHECKPOINT, 1),
        (Kind.UUID_CHECKPOINT, 1),
        (Kind.MULTIPART_CHECKPOINT, 3),
        (Kind.MULTIPART_CHECKPOINT, 2),
        (Kind.CLASSIC_CHECKPOINT, 1),
    ]
    assert U2 in ranked[0].files[0].name.text


def test_an_incomplete_checkpoint_does_not_count(table: TableBuilder) -> None:
    grown(table, 4)
    checkpointed(table, 2)
    checkpointed(table, 4, f"{4:020}.checkpoint.{1:010}.{2:010}.parquet")
    table.put(f"{3:020}.checkpoint.parquet", b"")
    listing = list_log(table.store)
    assert [one.version for one in listing.checkpoints] == [2]
    assert {file.version for file in listing.incomplete} == {3, 4}
    snapshot = load(table)
    assert paths(snapshot) == set("01234")
    assert any("incomplete" in warning for warning in snapshot.warnings)


def test_a_huge_number_of_parts_costs_nothing(table: TableBuilder) -> None:
    grown(table, 1)
    table.put(f"{1:020}.checkpoint.{1:010}.{9_999_999_999:010}.parquet", b"x")
    assert len(list_log(table.store).incomplete) == 1


def test_a_gap_is_named(table: TableBuilder) -> None:
    drop(grown(table, 6), 2, 4, 5)
    with pytest.raises(CorruptLog, match="missing commit 2, 4 to 5"):
        load(table)
    assert paths(load(table, 1)) == {"0", "1"}


def test_a_gap_behind_the_last_checkpoint_is_an_error(table: TableBuilder) -> None:
    grown(table, 6)
    checkpointed(table, 3)
    drop(table, 5)
    with pytest.raises(CorruptLog, match="missing commit 5"):
        load(table)
    assert paths(load(table, 4)) == set("01234")


def test_a_gap_before_the_checkpoint_hurts_only_time_travel(table: TableBuilder) -> None:
    grown(table, 6)
    checkpointed(table, 4)
    drop(table, 2)
    assert paths(load(table)) == set("0123456")
    with pytest.raises(CorruptLog, match="missing commit 2"):
        load(table, 3)
    listing = list_log(table.store)
    assert [v for v, possible in listing.rebuildable().items() if possible] == [0, 1, 4, 5, 6]
    assert earliest_rebuildable(listing) == 4


def test_a_far_gap_does_not_count_every_version_in_between(table: TableBuilder) -> None:
    table.start()
    table.commit(add("x"), version=2**62)
    with pytest.raises(CorruptLog, match=f"missing commit 1 to {2**62 - 1}"):
        load(table)


def test_a_cleaned_log_reads_from_its_checkpoint_on(table: TableBuilder) -> None:
    grown(table, 6)
    checkpointed(table, 4)
    drop(table, 0, 1, 2, 3)
    assert paths(load(table)) == set("0123456")
    with pytest.raises(NotFound) as caught:
        load(table, 2)
    assert "4 to 6" in (caught.value.hint or "")


def test_a_truncated_log_without_a_checkpoint_says_so(table: TableBuilder) -> None:
    drop(grown(table, 3), 0)
    with pytest.raises(CorruptLog, match="truncated"):
        load(table)


def test_only_a_checkpoint_is_a_state(table: TableBuilder) -> None:
    checkpointed(table, 4)
    snapshot = load(table)
    assert (snapshot.version, paths(snapshot)) == (4, set("01234"))
    assert snapshot.time.timestamp_ms is None
    assert snapshot.warnings


@pytest.mark.parametrize("version", [-1, 7, 2**63])
def test_a_version_outside_the_log_is_not_clamped(table: TableBuilder, version: int) -> None:
    grown(table, 3)
    with pytest.raises(NotFound, match="does not exist") as caught:
        load(table, version)
    assert "0 to 3" in (caught.value.hint or "")


def test_an_unreadable_checkpoint_falls_back_with_a_warning(table: TableBuilder) -> None:
    grown(table, 6)
    checkpointed(table, 2)
    checkpointed(table, 4)
    whole = table.store.read(f"_delta_log/{4:020}.checkpoint.parquet")
    table.put(f"{4:020}.checkpoint.parquet", whole[: len(whole) // 2])
    snapshot = load(table)
    assert paths(snapshot) == set("0123456")
    assert snapshot.segment.checkpoint is not None
    assert snapshot.segment.checkpoint.version == 2
    assert any(f"{4:020}.checkpoint.parquet" in warning for warning in snapshot.warnings)
    drop(table, 0, 1, 2, 3)
    table.store.delete(f"_delta_log/{2:020}.checkpoint.parquet")
    with pytest.raises(UnreadableCheckpoint):
        load(table)


def test_a_missing_sidecar_makes_its_checkpoint_unusable(table: TableBuilder) -> None:
    table.commit(features("v2Checkpoint"), metadata(), add("0"))
    table.commit(add("1"))
    state = [features("v2Checkpoint"), metadata(), {"checkpointMetadata": {"version": 1}}]
    side = {"sidecar": {"path": "gone.parquet", "sizeInBytes": 1, "modificationTime": 1}}
    for name, content in (("json", lines([*state, side])), ("parquet", None)):
        if content:
            table.put(f"{1:020}.checkpoint.{U1}.{name}", content)
        else:
            table.checkpoint(1, [*state, side], f"{1:020}.checkpoint.{U2}.parquet")
    snapshot = load(table)
    assert paths(snapshot) == {"0", "1"}
    assert sum("gone.parquet" in warning for warning in snapshot.warnings) == 2


@pytest.mark.parametrize("main", ["json", "parquet"])
@pytest.mark.parametrize("inline", [False, True])
def test_v2_checkpoints_with_and_without_sidecars(
    table: TableBuilder, main: str, inline: bool
) -> None:
    state = [features("v2Checkpoint"), metadata(), {"checkpointMetadata": {"version": 1}}]
    table.commit(*state[:2], add("0"), remove("old"))
    table.commit(add("1"))
    files = [add("0"), add("1"), remove("old")]
    if not inline:
        table.checkpoint(1, files, "_sidecars/s.parquet")
        files = [{"sidecar": {"path": "s.parquet", "sizeInBytes": 9, "modificationTime": 1}}]
    name = f"{1:020}.checkpoint.{U1}.{main}"
    if main == "json":
        table.put(name, lines([*state, *files]))
    else:
        table.checkpoint(1, [*state, *files], name)
    drop(table, 0, 1)
    table.commit(remove("1"), add("2"), version=2)
    snapshot = load(table)
    assert paths(snapshot) == {"0", "2"}
    assert sum(1 for _ in snapshot.files("remove", ("path",))) == 2
    assert not snapshot.warnings


def test_compacted_commits_change_nothing(table: TableBuilder) -> None:
    grown(table, 3)
    table.put(f"{1:020}.{3:020}.compacted.json", lines([add("wrong")]))
    assert paths(load(table)) == set("0123")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"size":1}', b'{"version":"x"}', b'{"version":1,"version":1}']
)
def test_a_broken_hint_is_ignored_with_a_warning(table: TableBuilder, content: bytes) -> None:
    grown(table, 4)
    checkpointed(table, 2)
    table.put("_last_checkpoint", content)
    snapshot = load(table)
    assert paths(snapshot) == set("01234")
    assert any("_last_checkpoint" in warning for warning in snapshot.warnings)


def test_a_stale_hint_is_normal_and_one_to_nowhere_warns(table: TableBuilder) -> None:
    grown(table, 6)
    checkpointed(table, 2)
    checkpointed(table, 4)
    table.hint(2)
    assert not load(table).warnings
    table.hint(5)
    assert any("version 5" in warning for warning in load(table).warnings)
    table.hint(99)
    snapshot = load(table)
    assert paths(snapshot) == set("0123456")
    assert any("ends before it" in warning for warning in snapshot.warnings)


class Remote(MemoryStore):
    """A store on which listing is dear: it counts from where lists begin."""

    reads_are_remote = True

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[str] = []

    def list_from(self, folder: str, start: str = ""):  # type: ignore[no-untyped-def]
        self.starts.append(start)
        return super().list_from(folder, start)


def test_on_an_object_store_listing_begins_at_the_hint() -> None:
    table = TableBuilder(Remote())
    grown(table, 6)
    checkpointed(table, 4)
    table.hint(4)
    table.store.starts.clear()
    listing = list_for_latest(table.store)
    assert table.store.starts == [f"{4:020}"]
    assert (listing.latest, listing.start) == (6, 4)
    assert paths(load(table)) == set("0123456")
    # A table that was made anew under an old hint is found all the same.
    table.hint(50)
    assert load(table).version == 6


def test_a_corrupt_checkpoint_at_the_hint_is_passed_by_on_an_object_store() -> None:
    table = TableBuilder(Remote())
    grown(table, 6)
    table.put(f"{4:020}.checkpoint.parquet", b"garbage")
    table.hint(4)
    snapshot = load(table)
    assert paths(snapshot) == set("0123456")
    assert any("cannot be read" in warning for warning in snapshot.warnings)


def test_an_empty_log_is_not_a_table(table: TableBuilder) -> None:
    with pytest.raises(NotFound, match="not a Delta table"):
        load(table)
    table.put("_last_checkpoint", b'{"version":1}')
    with pytest.raises(NotFound, match="not a Delta table"):
        load(table)


BAD_COMMITS = [
    (b'{"add":{"path":"x"', "line 1"),
    (lines([add("x")]) + b'{"add":', "line 2"),
    (b"\xff\xfe\x00binary", "line 1"),
    (b"", "is empty"),
    (b"\n\n", "is empty"),
    (b"\xef\xbb\xbf" + lines([add("x")]), "line 1"),
    (b"[1]", "not a JSON object"),
    (b'{"add":{"size":1}}', "no path"),
    (b'{"add":{"path":1,"size":1}}', "no path"),
    (b'{"add":{"path":"x","size":"1"}}', "size of add is not a long"),
    (b'{"add":[]}', "not an object"),
    (b'{"protocol":{"minReaderVersion":"1"}}', "not an integer"),
    (b'{"txn":{"appId":"a"}}', "version is missing"),
    (b"[" * 100_000, "line 1"),
    (b'{"a":' * 100_000, "line 1"),
    (b'{"add":{"path":"x","size":NaN}}', "line 1"),
    (b'{"add":{"path":"x","size":1%s}}' % (b"0" * 400), "size of add is not a long"),
    (b'{"add":{"path":"x","size":1,"deletionVector":"x"}}', "deletionVector"),
    (b'{"add":{"path":"x","size":1,"deletionVector":[1]}}', "deletionVector"),
    (b'{"add":{"path":"x","size":1,"deletionVector":{"cardinality":"x"}}}', "deletionVector"),
    (b'{"add":{"path":"x","size":1,"tags":5}}', "tags of add is not a map"),
    (b'{"add":{"path":"x","size":1,"partitionValues":[1]}}', "partitionValues of add"),
    (b'{"add":{"path":"x","size":1,"modificationTime":"1"}}', "modificationTime of add"),
    (b'{"remove":{"path":"x","deletionTimestamp":1.5}}', "deletionTimestamp of remove"),
    (b'{"metaData":{"id":"x","configuration":[1]}}', "map of strings"),
    (b'{"metaData":{"id":"x","format":{"options":[1]}}}', "map of strings"),
    (b'{"protocol":5}', "not an object"),
]


@pytest.mark.parametrize(("content", "words"), BAD_COMMITS)
def test_a_commit_is_applied_whole_or_not_at_all(
    table: TableBuilder, content: bytes, words: str
) -> None:
    table.start(add("0"))
    table.commit_bytes(content)
    with pytest.raises(CorruptLog) as caught:
        load(table)
    assert f"{1:020}.json" in caught.value.message
    assert words in caught.value.message
    assert paths(load(table, 0)) == {"0"}


@pytest.mark.parametrize(
    "content",
    [
        lines([add("1")]).rstrip(),
        lines([add("1")]).replace(b"\n", b"\r\n"),
        b"\n" + lines([add("1")]) + b"\n\n",
        b'{"futureAction":{"x":1}}\n' + lines([add("1")]),
        b'{"futureAction":7}\n' + lines([add("1", future={"x": [1]})]),
        b"{}\n" + lines([add("1")]),
        lines([add("1")]).replace(b'"path"', b'"tags":{"x":null},"path"'),
        lines([{"commitInfo": {"big": 1, "e": 0}}, add("1")]).replace(b'"e": 0', b'"e": 1e400'),
    ],
)
def test_what_careless_or_later_writers_do_is_accepted(table: TableBuilder, content: bytes) -> None:
    table.start(add("0"))
    table.commit_bytes(content)
    assert paths(load(table)) == {"0", "1"}


@pytest.mark.parametrize("missing", ["protocol", "metadata"])
def test_protocol_and_metadata_must_be_there(table: TableBuilder, missing: str) -> None:
    table.commit(commit_info(), metadata() if missing == "protocol" else protocol())
    with pytest.raises(CorruptLog, match=f"no {missing}"):
        load(table)


def test_the_checksum_of_the_protocols_example() -> None:
    # The protocol's own test vector.
    body = {
        "k0": "'v 0'",
        "checksum": "adsaskfljadfkjadfkj",
        "k1": {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]},
    }
    assert hint_checksums(body) == ("6a92d155a59bf2eecbd4b4ec7fd1f875",) * 2


def test_a_checksum_is_over_the_text_of_numbers() -> None:
    body = {"version": 3, "x": 1.0, "list": list(range(12))}
    by_path, by_text = hint_checksums(body)
    assert by_path != by_text
    for digest in (by_path, by_text):
        text = json.dumps({**body, "checksum": digest}).encode()
        assert parse_hint(text).version == 3
        with pytest.raises(BadHint, match="checksum"):
            parse_hint(text.replace(b"1.0", b"1.00"))


def test_every_error_has_a_code_and_a_hint(table: TableBuilder) -> None:
    table.start()
    table.commit_bytes(b"{")
    with pytest.raises(DeltaCliError) as caught:
        load(table)
    assert caught.value.exit_code == 5
    assert caught.value.hint


def test_an_unreadable_hint_is_only_a_hint(local_table: TableBuilder) -> None:
    import os

    grown(local_table, 3)
    whole = local_table.store.file_path("_delta_log/_last_checkpoint")
    assert whole is not None
    os.mkdir(whole)
    snapshot = load(local_table)
    assert snapshot.version == 3
    assert any("_last_checkpoint" in warning for warning in snapshot.warnings)


def test_files_that_vanish_after_listing_do_not_matter(local_table: TableBuilder) -> None:
    import os

    from deltacli.operations.describe import describe_snapshot

    grown(local_table, 3)
    folder = local_table.store.file_path("_delta_log")
    assert folder is not None
    # A dangling link is listed and has neither size nor time, as a file just removed.
    for name in (".x.tmp", f"{3:020}.checkpoint.parquet", f"{2:020}.crc"):
        os.symlink("nowhere", f"{folder}/{name}")
    document = describe_snapshot(load(local_table), now_ms=0).values
    assert (document["numFiles"], document["version"]) == (4, 3)


def test_what_a_newer_protocol_looks_like_is_refused_before_it_is_judged(
    table: TableBuilder,
) -> None:
    table.commit(protocol(3, 7, ["adaptiveMetadata"], ["adaptiveMetadata"]), metadata())
    table.commit_bytes(b'{"add":{"contentRoot":"x"}}')
    with pytest.raises(Refused, match="adaptiveMetadata"):
        load(table)


def test_a_type_change_that_no_reader_knows_is_refused(table: TableBuilder) -> None:
    change = {"fromType": "string", "toType": "binary"}
    widened = {"fromType": "byte", "toType": "decimal(4,1)"}
    for changes, allowed in (([widened], True), ([widened, change], False), ([5], False)):
        own = column("a", "binary", **{"delta.typeChanges": changes})
        table.commit(features("typeWidening"), metadata(own), add("x"), version=0)
        if allowed:
            assert load(table).version == 0
        else:
            with pytest.raises(Refused, match="type change"):
                load(table)
