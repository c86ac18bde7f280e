"""Data changes for streams, and the change data feed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.storage.local import LocalStore
from deltacli.units import iso_time
from tests.builder import (
    NOW_MS,
    TableBuilder,
    add,
    column,
    commit_info,
    features,
    metadata,
    protocol,
    remove,
    vector,
)
from tests.sharing.serving import DELTA, Server, one_share, serving, shared

HOUR = 3_600_000
CDF = {"delta.enableChangeDataFeed": "true"}


def times(version: int) -> int:
    return NOW_MS + version * HOUR


def iso(timestamp_ms: int) -> str:
    return str(iso_time(timestamp_ms))


def cdc(path: str, **more: Any) -> dict[str, Any]:
    return {"cdc": {"path": path, "partitionValues": {}, "size": 7, "dataChange": False, **more}}


def build(root: Path, name: str, *commits: list[Any]) -> TableBuilder:
    table = TableBuilder(LocalStore(str(root / name)))
    for version, actions in enumerate(commits):
        table.commit(*actions, at_ms=times(version))
    return table


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("tables")
    schema = (column("id"), column("note", "string"))
    build(
        root,
        "t",
        [commit_info("CREATE"), protocol(1, 4), metadata(configuration=CDF)],
        [commit_info(), add("a.parquet"), add("b.parquet")],
        [commit_info("UPDATE"), remove("a.parquet"), add("c.parquet"),
         cdc("_change_data/cdc-1.parquet")],
        [commit_info("OPTIMIZE"), remove("b.parquet", dataChange=False),
         add("d.parquet", dataChange=False)],
        [commit_info("ADD COLUMNS"), metadata(*schema, configuration=CDF)],
        [commit_info("DELETE"), remove("c.parquet")],
        [commit_info("MERGE", operationMetrics={"numTargetRowsInserted": "0",
          "numTargetRowsUpdated": "0", "numTargetRowsDeleted": "0"}),
         remove("d.parquet"), add("e.parquet")],
    )  # fmt: skip
    build(
        root,
        "late",
        [commit_info(), protocol(1, 4), metadata()],
        [commit_info(), metadata(configuration=CDF), add("a.parquet")],
        [commit_info(), add("b.parquet")],
        [commit_info(), metadata()],
        [commit_info(), metadata(configuration=CDF)],
    )
    build(
        root,
        "vec",
        [commit_info(), features("deletionVectors"), metadata(configuration=CDF), add("a.parquet")],
        [commit_info("DELETE"), remove("a.parquet"), add("a.parquet", deletionVector=vector())],
        [commit_info(), add("b.parquet")],
    )
    build(
        root,
        "bare",
        [commit_info(), protocol(1, 4), metadata(column("p"), partition_by=["p"],
          configuration=CDF), add("p=1/a", 11, partitionValues={"p": "1"})],
        [commit_info(), add("p=2/b", 22, partitionValues={"p": "2"})],
        [commit_info(), remove("p=1/a", size=None), remove("p=2/b", size=None)],
    )  # fmt: skip
    tables = [shared(name, root / name) for name in ("t", "late", "vec", "bare")]
    tables.append(shared("off", root / "t", change_data=False))
    tables.append(shared("since2", root / "t", start_version=2))
    with serving(one_share(*tables)) as running:
        yield running


def told(lines: list[Any]) -> list[tuple[str, int | None]]:
    """Each line's kind, and the version it is about."""
    found = []
    for line in lines:
        ((kind, body),) = line.items()
        found.append((kind, body.get("version")))
    return found


# -- streams ---------------------------------------------------------------------------


def test_a_stream_reads_data_changes_and_every_new_definition(server: Server) -> None:
    reply = server.query("t", {"startingVersion": 1})
    assert reply.version == 1
    assert told(reply.lines) == [
        ("protocol", None), ("metaData", 1), ("add", 1), ("add", 1), ("remove", 2), ("add", 2),
        ("metaData", 4), ("remove", 5), ("remove", 6), ("add", 6),
    ]  # fmt: skip
    first = reply.files("add")[0]
    assert set(first) == {
        "url", "id", "partitionValues", "size", "stats", "version", "timestamp",
        "expirationTimestamp",
    }  # fmt: skip
    assert first["timestamp"] == times(1)
    gone = reply.files("remove")[0]
    assert "stats" not in gone
    assert gone["id"] == first["id"]


def test_an_ending_version_is_kept(server: Server) -> None:
    reply = server.query("t", {"startingVersion": 1, "endingVersion": 2})
    assert {one["version"] for one in reply.files("add", "remove")} == {1, 2}
    nothing = server.query("t", {"startingVersion": 3, "endingVersion": 3})
    assert told(nothing.lines) == [("protocol", None), ("metaData", 3)]


def test_a_stream_needs_no_change_data(server: Server) -> None:
    assert server.query("late", {"startingVersion": 0}).status == 200
    assert server.query("off", {"startingVersion": 0}).status == 200


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pages_of_changes_together_are_the_whole(server: Server, size: int) -> None:
    for ask, whole in (
        (lambda token: server.query("t", {"startingVersion": 0, "maxFiles": size, **token}),
         server.query("t", {"startingVersion": 0})),
        (lambda token: server.changes("t", "&".join(["startingVersion=0",
            f"maxFiles={size}", "includeHistoricalMetadata=True",
            *(f"{key}={value}" for key, value in token.items())])),
         server.changes("t", "startingVersion=0&includeHistoricalMetadata=true")),
    ):  # fmt: skip
        seen: list[Any] = []
        token: dict[str, str] = {}
        while True:
            first, second, *lines, end = ask(token).lines
            assert [first, second] == whole.lines[:2]
            seen += lines
            if "nextPageToken" not in end["endStreamAction"]:
                break
            token = {"pageToken": end["endStreamAction"]["nextPageToken"]}
        assert told(seen) == told(whole.lines[2:])


# -- change data feed ------------------------------------------------------------------


def test_a_commit_with_change_data_tells_only_that(server: Server) -> None:
    reply = server.changes("t", "startingVersion=0")
    assert reply.version == 0
    assert told(reply.lines) == [
        ("protocol", None), ("metaData", 6), ("add", 1), ("add", 1), ("cdf", 2), ("remove", 5),
    ]  # fmt: skip
    (change,) = reply.files("cdf")
    assert set(change) == {
        "url", "id", "partitionValues", "size", "version", "timestamp", "expirationTimestamp",
    }  # fmt: skip
    assert change["timestamp"] == times(2)
    assert reply.lines[1]["metaData"]["configuration"] == {"enableChangeDataFeed": "true"}


def test_historical_metadata_begins_with_the_first_version(server: Server) -> None:
    for flag in ("true", "True", "TRUE"):
        reply = server.changes("t", f"startingVersion=1&includeHistoricalMetadata={flag}")
        assert [version for kind, version in told(reply.lines) if kind == "metaData"] == [1, 4]
    narrow = server.changes("t", "startingVersion=5&includeHistoricalMetadata=true")
    assert [version for kind, version in told(narrow.lines) if kind == "metaData"] == [5]
    assert len(json.loads(narrow.lines[1]["metaData"]["schemaString"])["fields"]) == 2


def test_changes_in_deltas_format(server: Server) -> None:
    reply = server.changes("t", "startingVersion=1", DELTA)
    assert {next(iter(one["deltaSingleAction"])) for one in reply.files()} == {
        "add", "cdc", "remove",
    }  # fmt: skip
    (change,) = (one for one in reply.files() if "cdc" in one["deltaSingleAction"])
    assert set(change["deltaSingleAction"]["cdc"]) == {
        "path", "partitionValues", "size", "dataChange",
    }  # fmt: skip
    body = reply.lines[1]["metaData"]["deltaMetadata"]
    assert body["configuration"] == {"delta.enableChangeDataFeed": "true"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("startingVersion=1&endingVersion=2", (1, {1, 2})),
        ("startingVersion=1&endingVersion=99", (1, {1, 2, 5})),
        (f"startingTimestamp={iso(times(1))}&endingTimestamp={iso(times(2))}", (1, {1, 2})),
        (f"startingTimestamp={iso(times(1) - 1)}&endingVersion=1", (1, {1})),
        (f"startingTimestamp={iso(times(1) + 1)}&endingTimestamp={iso(times(5) - 1)}", (2, {2})),
        ("startingTimestamp=2000-01-01T00:00:00%2B00:00", (0, {1, 2, 5})),
        ("startingTimestamp=2000-01-01T00:00:00+00:00&endingVersion=1", (0, {1})),
        (f"startingVersion=0&endingTimestamp={iso(times(99))}", (0, {1, 2, 5})),
    ],
)
def test_a_range_by_versions_or_times(server: Server, query: str, expected: Any) -> None:
    reply = server.changes("t", query)
    versions = {one["version"] for one in reply.files("add", "cdf", "remove")}
    assert (reply.version, versions) == expected


@pytest.mark.parametrize(
    "query",
    [
        "", "endingVersion=3", "startingVersion=x", "startingVersion=-1", "startingVersion=7",
        "startingVersion=3&endingVersion=2",
        "startingVersion=1&startingTimestamp=2024-01-01T00:00:00Z",
        f"startingVersion=1&endingVersion=2&endingTimestamp={iso(times(2))}",
        "startingTimestamp=2100-01-01T00:00:00Z", "startingTimestamp=now",
        "startingVersion=1&endingTimestamp=2000-01-01T00:00:00Z", "startingVersion=1.5",
        f"startingTimestamp={iso(times(4))}&endingTimestamp={iso(times(3))}",
        "startingVersion=0&includeHistoricalMetadata=maybe", "startingVersion=0&maxFiles=0",
        "startingVersion=0&pageToken=x", "startingVersion=99999999999999999999",
    ],
)  # fmt: skip
def test_a_range_that_cannot_be_is_refused(server: Server, query: str) -> None:
    reply = server.changes("t", query)
    assert (reply.status, reply.json["errorCode"]) == (400, "INVALID_PARAMETER_VALUE")


def test_change_data_must_be_recorded_over_the_whole_range(server: Server) -> None:
    assert server.changes("late", "startingVersion=1&endingVersion=2").status == 200
    before = server.changes("late", "startingVersion=0&endingVersion=2")
    assert "was not recorded for version [0]" in before.json["message"]
    within = server.changes("late", "startingVersion=1")
    assert "was not recorded for version [3]" in within.json["message"]
    assert before.status == within.status == 400


def test_change_data_can_be_kept_back(server: Server) -> None:
    reply = server.changes("off", "startingVersion=0")
    assert reply.json["message"] == "cdf is not enabled on table share.schema.off"
    assert server.metadata("off").lines[1]["metaData"]["configuration"] == {}


def test_changes_before_the_start_version_are_hidden(server: Server) -> None:
    assert server.changes("since2", "startingVersion=1").status == 400
    assert server.changes("since2", "startingVersion=2").status == 200
    assert server.changes("since2", "startingTimestamp=2000-01-01T00:00:00Z").status == 400
    later = server.changes("since2", f"startingTimestamp={iso(times(1) + 1)}")
    assert later.version == 2


def test_deletion_vectors_of_changes_need_deltas_format(server: Server) -> None:
    assert server.changes("vec", "startingVersion=0").status == 400
    assert server.query("vec", {"startingVersion": 1}).status == 400
    assert server.query("vec", {"startingVersion": 2}).status == 200
    files = server.changes("vec", "startingVersion=1&endingVersion=1", DELTA).files()
    gone, new = (one["deltaSingleAction"] for one in files)
    assert "deletionVector" not in gone["remove"]
    assert new["add"]["deletionVector"]["storageType"] == "p"
    assert "deletionVectorFileId" in files[1]


def test_what_old_commits_do_not_tell_of_removed_files_is_looked_up(server: Server) -> None:
    for query in ("startingVersion=0", "startingVersion=2"):
        files = server.changes("bare", query).files("remove")
        assert [(one["partitionValues"], one["size"]) for one in files] == [
            ({"p": "1"}, 11),
            ({"p": "2"}, 22),
        ]


def test_a_range_whose_commits_are_gone_is_told_so(tmp_path: Path) -> None:
    start = [commit_info(), protocol(1, 4), metadata(configuration=CDF), add("a")]
    table = build(tmp_path, "t", start, [add("b")], [add("c")], [add("d")])
    table.checkpoint(2, [protocol(1, 4), metadata(configuration=CDF), add("a"), add("b"), add("c")])
    for version in (0, 1):
        (tmp_path / f"t/_delta_log/{version:020}.json").unlink()
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        for reply in (
            server.changes("t", "startingVersion=0"),
            server.query("t", {"startingVersion": 1}),
            server.query("t", {"version": 1}),
        ):
            assert reply.status == 400
            assert "earliest is 2" in reply.json["message"]
        assert server.changes("t", "startingVersion=2").status == 200


def test_a_log_may_be_cleaned_up_while_the_newest_version_stays(tmp_path: Path) -> None:
    start = [commit_info(), protocol(1, 4), metadata(configuration=CDF), add("a")]
    table = build(tmp_path, "t", start, [add("b")], [add("c")], [add("d")])
    head = [protocol(1, 4), metadata(configuration=CDF)]
    table.checkpoint(1, [*head, add("a"), add("b")])
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        assert len(server.query("t").files()) == 4
        assert len(server.query("t", {"version": 2}).files()) == 3
        table.checkpoint(3, [*head, *(add(one) for one in "abcd")])
        for name in ("0.json", "1.json", "1.checkpoint.parquet", "2.json"):
            number, _, end = name.partition(".")
            (tmp_path / f"t/_delta_log/{int(number):020}.{end}").unlink()
        assert len(server.query("t").files()) == 4
        for reply in (server.query("t", {"version": 2}), server.changes("t", "startingVersion=2")):
            assert "earliest is 3" in reply.json["message"]
        assert server.changes("t", "startingVersion=3").status == 200


def test_a_renamed_column_is_told_by_the_definition_that_its_files_have(tmp_path: Path) -> None:
    own = {**CDF, "delta.columnMapping.mode": "name"}
    mapped = column("b", **{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "a"})
    build(
        tmp_path,
        "t",
        [commit_info(), protocol(1, 4), metadata(column("a"), configuration=CDF), add("x")],
        [commit_info(), protocol(2, 5), metadata(mapped, configuration=own)],
    )
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        query = "startingVersion=0&endingVersion=0"
        assert server.changes("t", query).status == 400
        told = server.changes("t", query, DELTA).lines[1]["metaData"]["deltaMetadata"]
        assert told["configuration"]["delta.columnMapping.mode"] == "name"
        assert server.changes("t", f"{query}&includeHistoricalMetadata=true").status == 200


def test_pages_of_changes_keep_what_the_first_one_said(tmp_path: Path) -> None:
    start = [commit_info(), protocol(1, 4), metadata(column("a"), configuration=CDF)]
    table = build(tmp_path, "t", [*start, add("x"), add("y"), add("z")])
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        first = server.changes("t", "startingVersion=0&maxFiles=1").lines
        token = first[-1]["endStreamAction"]["nextPageToken"]
        table.commit(metadata(column("a"), column("b"), configuration=CDF))
        table.commit(metadata(column("a"), column("b")), add("w"))
        query = f"startingVersion=0&maxFiles=9&pageToken={token}"
        assert server.changes("t", query).lines[:2] == first[:2]
        assert len(server.changes("t", query).files("add")) == 2
        assert server.changes("t", query, DELTA).status == 400
        assert server.changes("t", "startingVersion=0").status == 400


def test_removed_files_have_the_partition_columns_of_their_time(tmp_path: Path) -> None:
    fields = (column("p", "string"), column("q", "string"))
    head = metadata(*fields, partition_by=["p"], configuration=CDF)
    other = metadata(*fields, partition_by=["q"], configuration=CDF)
    build(
        tmp_path,
        "t",
        [commit_info(), protocol(1, 4), head, add("p=a/x", partitionValues={"p": "a"})],
        [commit_info(), other, remove("p=a/x", partitionValues={"p": "a"}),
         add("q=b/y", partitionValues={"q": "b"})],
    )  # fmt: skip
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        reply = server.changes("t", "startingVersion=1")
        assert reply.files("remove")[0]["partitionValues"] == {"p": "a"}
        assert reply.files("add")[0]["partitionValues"] == {"q": "b"}


def test_a_filter_that_stops_fitting_is_told_before_the_first_line(tmp_path: Path) -> None:
    head = metadata(column("c", "string"), partition_by=["c"], configuration=CDF)
    files = [add(f"c=US/{one}", partitionValues={"c": "US"}) for one in range(60)]
    build(
        tmp_path,
        "t",
        [commit_info(), protocol(1, 4), head, *files],
        [commit_info(), metadata(column("c", "string"), configuration=CDF)],
        [commit_info(), head],
    )
    entry = shared("t", tmp_path / "t", partition_filter="c = 'US'")
    with serving(one_share(entry)) as server:
        assert server.query("t", {"startingVersion": 0}).status == 400
        assert server.query("t", {"startingVersion": 0, "endingVersion": 0}).status == 200


def test_vectors_of_files_that_are_not_told_do_not_matter(tmp_path: Path) -> None:
    build(
        tmp_path,
        "t",
        [commit_info(), features("deletionVectors"), metadata(configuration=CDF), add("a")],
        [commit_info(), remove("a"), add("a", deletionVector=vector()), cdc("_change_data/x")],
    )
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        assert len(server.changes("t", "startingVersion=1").files("cdf")) == 1
        assert server.query("t", {"startingVersion": 1}).status == 400


def test_times_stay_when_a_table_stops_keeping_its_own(tmp_path: Path) -> None:
    own = {**CDF, "delta.enableInCommitTimestamps": "true"}
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    head = [protocol(1, 7, writer_features=["inCommitTimestamp", "changeDataFeed"])]
    info = commit_info(inCommitTimestamp=times(10))
    table.commit(info, *head, metadata(configuration=own), add("a"), at_ms=times(0))
    table.commit(commit_info(), metadata(configuration=CDF), at_ms=times(1))
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        by_version = server.query("t", {"version": 0}).files()[0]["timestamp"]
        by_change = server.query("t", {"startingVersion": 0}).files("add")[0]["timestamp"]
        assert by_version == by_change == times(0)


def test_times_are_those_of_the_commits_where_a_table_keeps_them(tmp_path: Path) -> None:
    own = {**CDF, "delta.enableInCommitTimestamps": "true"}
    info = [commit_info(inCommitTimestamp=times(10 + one)) for one in range(3)]
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    head = [protocol(1, 7, writer_features=["inCommitTimestamp", "changeDataFeed"])]
    table.commit(info[0], *head, metadata(configuration=own), add("a"), at_ms=times(0))
    table.commit(info[1], add("b"), at_ms=times(1))
    table.commit(info[2], add("c"), at_ms=times(2))
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        stamps = [one["timestamp"] for one in server.changes("t", "startingVersion=0").files("add")]
        assert stamps == [times(10), times(11), times(12)]
        assert server.query("t", {"timestamp": iso(times(11))}).version == 1
        moved = server.get(
            f"/shares/share/schemas/schema/tables/t/version?startingTimestamp={iso(times(11))}"
        )
        assert moved.version == 1
        told_config = server.metadata("t", headers=DELTA).lines[1]["metaData"]["deltaMetadata"]
        assert "delta.enableInCommitTimestamps" not in told_config["configuration"]
