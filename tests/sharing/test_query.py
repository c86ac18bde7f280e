"""Version, metadata and snapshot queries: what is answered, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.storage.local import LocalStore
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
from tests.sharing.serving import DELTA, Server, one_share, serving, shared, table_path

HOUR = 3_600_000
TABLE = "t"


def times(version: int) -> int:
    return NOW_MS + version * HOUR


def partitioned(number: int, **more: Any) -> dict[str, Any]:
    """A file of partition number % 3 with ten rows whose ids begin at ten times the number."""
    stats = {
        "numRecords": 10,
        "minValues": {"id": number * 10},
        "maxValues": {"id": number * 10 + 9},
        "nullCount": {"id": 0},
    }
    path = f"p={number % 3}/part-{number}.parquet"
    return add(
        path, 100 + number, partitionValues={"p": str(number % 3)}, stats=json.dumps(stats), **more
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables: `t` has six versions an hour apart, `vec` a deletion vector, and so on."""
    root = tmp_path_factory.mktemp("tables")
    table = TableBuilder(LocalStore(str(root / "t")))
    table.commit(
        commit_info(),
        protocol(),
        metadata(
            column("id", comment="the id", secret="x"),
            column("p", "integer"),
            partition_by=["p"],
            configuration={"delta.appendOnly": "false", "owner": "alice@example.com"},
            name="orders",
            description="of a shop",
        ),
        at_ms=times(0),
    )
    for version in range(1, 5):
        files = [partitioned(version * 10 + one) for one in range(10)]
        table.commit(commit_info(), *files, at_ms=times(version))
    table.commit(
        commit_info("DELETE"),
        remove("p=1/part-10.parquet", partitionValues={"p": "1"}, size=110),
        at_ms=times(5),
    )
    vec = TableBuilder(LocalStore(str(root / "vec")))
    vec.commit(features("deletionVectors"), metadata(), add("plain.parquet"))
    vec.commit(add("a.parquet", deletionVector=vector(cardinality=4)))
    mapped = TableBuilder(LocalStore(str(root / "mapped")))
    own = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    mapped.commit(
        protocol(2, 5),
        metadata(
            column("id", **own, **{"delta.generationExpression": "1"}),
            configuration={
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": "1",
                "delta.enableInCommitTimestamps": "true",
            },
        ),
        add("a.parquet"),
    )
    far = TableBuilder(LocalStore(str(root / "far")))
    far.start(add("/etc/passwd"))
    return root


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    names = ("t", "vec", "mapped", "far")
    tables = [shared(name, folder / name) for name in names]
    tables.append(shared("now", folder / "t", history_shared=False))
    tables.append(shared("since3", folder / "t", start_version=3))
    tables.append(shared("future", folder / "t", start_version=9))
    tables.append(shared("gone", folder / "nowhere"))
    tables.append(shared("some", folder / "t", partition_filter="p = 1"))
    tables.append(shared("odd", folder / "t", partition_filter="id = 1"))
    with serving(one_share(*tables)) as running:
        yield running


def ids(server: Server, body: Any, table: str = TABLE) -> list[str]:
    return [one["id"] for one in server.query(table, body).files()]


# -- version ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "end"), [("GET", "/version"), ("HEAD", ""), ("HEAD", "/version")]
)
def test_the_version_is_a_header_of_an_empty_answer(server: Server, method: str, end: str) -> None:
    reply = server.request(method, f"{table_path(TABLE)}{end}")
    assert (reply.status, reply.content, reply.version) == (200, b"", 5)


@pytest.mark.parametrize(
    ("moment", "version"),
    [
        ("2000-01-01T00:00:00Z", 0),
        (times(2), 2),
        (times(2) + 1, 3),
        (times(2) - 1, 2),
        (times(5), 5),
    ],
)
def test_the_first_version_at_or_after_a_time(server: Server, moment: Any, version: int) -> None:
    text = moment if isinstance(moment, str) else iso(moment)
    reply = server.get(f"{table_path(TABLE)}/version?startingTimestamp={text}")
    assert reply.version == version


def iso(timestamp_ms: int) -> str:
    from deltacli.units import iso_time

    return str(iso_time(timestamp_ms))


def test_a_time_after_the_last_commit_has_no_version(server: Server) -> None:
    late = iso(times(5) + 1)
    assert server.get(f"{table_path(TABLE)}/version?startingTimestamp={late}").status == 400
    assert (
        server.get(f"{table_path('now')}/version?startingTimestamp={iso(times(1))}").status == 400
    )
    early = server.get(f"{table_path('since3')}/version?startingTimestamp={iso(times(1))}")
    assert early.json["message"] == "You can only query table data since version 3"


# -- metadata --------------------------------------------------------------------------


def test_metadata_is_two_lines_that_tell_no_secrets(server: Server) -> None:
    reply = server.metadata(TABLE)
    first, second = reply.lines
    assert first == {"protocol": {"minReaderVersion": 1}}
    body = second["metaData"]
    schema = json.loads(body.pop("schemaString"))
    assert body == {
        "id": "11111111-2222-3333-4444-555555555555",
        "name": "orders",
        "description": "of a shop",
        "format": {"provider": "parquet"},
        "partitionColumns": ["p"],
        "configuration": {},
        "size": sum(100 + one for one in range(11, 50)),
        "numFiles": 39,
    }
    assert schema["fields"][0] == {
        "name": "id", "type": "long", "nullable": True, "metadata": {"comment": "the id"},
    }  # fmt: skip
    assert reply.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert reply.headers["delta-sharing-capabilities"] == "responseformat=parquet"
    assert reply.version == 5


def test_metadata_in_deltas_format(server: Server) -> None:
    first, second = server.metadata("mapped", headers=DELTA).lines
    assert first == {
        "protocol": {
            "deltaProtocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["columnMapping"],
                "writerFeatures": ["columnMapping"],
            }
        }
    }
    told = second["metaData"]
    body = told["deltaMetadata"]
    assert set(body) == {"id", "format", "schemaString", "partitionColumns", "configuration"}
    assert body["configuration"] == {
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": "1",
    }
    assert body["format"] == {"provider": "parquet", "options": {}}
    (field,) = json.loads(body["schemaString"])["fields"]
    assert set(field["metadata"]) == {
        "delta.columnMapping.id",
        "delta.columnMapping.physicalName",
    }
    assert (told["size"], told["numFiles"]) == (100, 1)
    plain, _ = server.metadata(TABLE, headers=DELTA).lines
    assert plain["protocol"]["deltaProtocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}


def test_metadata_of_an_older_version(server: Server) -> None:
    for query in ("version=2", f"timestamp={iso(times(2))}", f"timestamp={iso(times(3) - 1)}"):
        reply = server.metadata(TABLE, query)
        assert reply.version == 2
        assert reply.lines[1]["metaData"]["version"] == 2
        assert reply.lines[1]["metaData"]["numFiles"] == 20
    both = "version=2&timestamp=2024-01-01T00:00:00Z"
    for query in (both, "version=-1", "version=x", "version=6", "version=99999999999999999999"):
        assert server.metadata(TABLE, query).status == 400
    assert server.metadata("now", "version=2").status == 400


def test_the_same_metadata_is_the_same_bytes(server: Server) -> None:
    alone = server.metadata(TABLE).content
    for body in ({}, {"limitHint": 3}, {"maxFiles": 4}, {"predicateHints": ["p = 1"]}):
        assert server.query(TABLE, body).content.startswith(alone)


# -- queries ---------------------------------------------------------------------------


def test_a_query_lists_the_live_files(server: Server) -> None:
    reply = server.query(TABLE)
    files = reply.files()
    assert len(files) == 39
    assert reply.version == 5
    one = next(file for file in files if file["size"] == 111)
    assert set(one) == {"url", "id", "partitionValues", "size", "stats", "expirationTimestamp"}
    assert one["partitionValues"] == {"p": "2"}
    assert json.loads(one["stats"])["minValues"] == {"id": 110}
    assert len({file["id"] for file in files}) == 39
    assert [file["id"] for file in files] == ids(server, {})
    assert "part-" not in one["id"]
    assert reply.lines[0] == {"protocol": {"minReaderVersion": 1}}


def test_time_travel_tells_the_version_and_its_time(server: Server) -> None:
    for body in ({"version": 2}, {"version": "2"}, {"timestamp": iso(times(2))},
                 {"timestamp": iso(times(3) - 1)}, {"timestamp": "2023-11-15T00:13:20.000000001Z"},
                 {"timestamp": "2023-11-15T01:13:20.5+01:00"}):  # fmt: skip
        reply = server.query(TABLE, body)
        assert reply.version == 2, body
        assert {(one["version"], one["timestamp"]) for one in reply.files()} == {(2, times(2))}
        assert reply.lines[1]["metaData"]["version"] == 2
        assert len(reply.files()) == 20


REFUSED: list[Any] = [
    {"version": 1, "timestamp": "2024-01-01T00:00:00Z"},
    {"version": 1, "startingVersion": 1},
    {"timestamp": "2024-01-01T00:00:00Z", "startingVersion": 1},
    {"version": -1}, {"startingVersion": -1}, {"version": 6}, {"startingVersion": 6},
    {"startingVersion": 3, "endingVersion": 2}, {"startingVersion": 3, "endingVersion": 6},
    {"timestamp": "yesterday"}, {"timestamp": ""}, {"timestamp": "2024-01-01T00:00:00"},
    {"timestamp": "2024-01-01"},
    {"timestamp": "2000-01-01T00:00:00Z"}, {"timestamp": "2100-01-01T00:00:00Z"},
    {"timestamp": "2024-13-01T00:00:00Z"}, {"timestamp": "9999-12-31T23:59:59-12:00"},
    {"maxFiles": 0}, {"maxFiles": -1}, {"maxFiles": 2**31}, {"version": 2**63},
    {"includeRefreshToken": True, "version": 1}, {"includeRefreshToken": True, "pageToken": "x"},
    {"refreshToken": "x"}, {"refreshToken": "x", "version": 1}, {"pageToken": "x"},
    {"refreshToken": "x", "pageToken": "y"},
]  # fmt: skip
MALFORMED: list[Any] = [
    b"", b" ", b"x", b"[]", b"null", b'"x"', b"{", b'{"version":1}x', b"\xff", b"[" * 3000,
    {"predicateHints": {}}, {"predicateHints": "x"}, {"predicateHints": [1]}, {"version": "x"},
    {"version": 1.5}, {"version": 2**70}, {"version": True}, {"version": []}, {"limitHint": "x"},
    {"timestamp": 5},
    {"maxFiles": "many"}, {"pageToken": 5}, {"includeRefreshToken": "yes"}, {"startingVersion": {}},
]  # fmt: skip


@pytest.mark.parametrize("body", REFUSED, ids=str)
def test_a_value_that_cannot_be_is_refused(server: Server, body: Any) -> None:
    reply = server.query(TABLE, body)
    assert (reply.status, reply.json["errorCode"]) == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize("body", MALFORMED, ids=range(len(MALFORMED)))
def test_a_body_that_cannot_be_read_is_refused(server: Server, body: Any) -> None:
    reply = server.query(TABLE, body)
    assert (reply.status, reply.json["errorCode"]) == (400, "MALFORMED_REQUEST")
    # Parameters are checked before the table is looked for.
    assert server.query("nobody", body).status == 400


def test_what_is_not_known_or_only_a_hint_is_no_reason_to_fail(server: Server) -> None:
    for body in ({"limitHint": -5}, {"limitHint": "7", "purpose": [1]}, {"endingVersion": 3},
                 {"jsonPredicateHints": {"op": "equal"}}, {"jsonPredicateHints": "garbage"},
                 {"predicateHints": ["garbage ((", "p = = 3"]}, {"version": None},
                 {"jsonPredicateHints": '{"op":["x"],"children":[1]}'}, {"endingVersion": -2},
                 {"jsonPredicateHints": '{"op":{"a":1},"children":[{}]}'},
                 {"version": 3.0}):  # fmt: skip
        assert server.query(TABLE, body).status == 200, body


@pytest.mark.parametrize(
    "body", [{"version": 1}, {"timestamp": iso(times(1))}, {"startingVersion": 1}], ids=str
)
def test_without_shared_history_there_is_only_the_newest_version(server: Server, body: Any) -> None:
    reply = server.query("now", body)
    assert reply.status == 400
    assert "history sharing is not enabled on table: share.schema.now" in reply.json["message"]
    assert not {"version", "timestamp"} & set(server.query("now").files()[0])
    assert server.changes("now", "startingVersion=0").status == 400


def test_versions_before_the_start_version_are_hidden(server: Server) -> None:
    assert server.query("since3", {"version": 3}).version == 3
    assert server.query("since3", {"timestamp": iso(times(4))}).version == 4
    for body in ({"version": 2}, {"startingVersion": 2}, {"timestamp": iso(times(2))}):
        assert server.query("since3", body).status == 400
    reply = server.query("since3", {"version": 0})
    assert reply.json["message"] == "You can only query table data since version 3"
    assert server.query("future").status == server.metadata("future").status == 400


def test_a_table_that_is_gone_is_missing(server: Server) -> None:
    for reply in (
        server.query("gone"),
        server.metadata("gone"),
        server.get(f"{table_path('gone')}/version"),
    ):
        assert reply.status == 404
        assert "nowhere" not in reply.content.decode()


def test_hints_leave_files_out(server: Server) -> None:
    equal = {"op": "equal", "children": [
        {"op": "column", "name": "p", "valueType": "int"},
        {"op": "literal", "value": "1", "valueType": "int"}]}  # fmt: skip
    reply = server.query(TABLE, {"jsonPredicateHints": json.dumps(equal)})
    assert {one["partitionValues"]["p"] for one in reply.files()} == {"1"}
    assert reply.headers["x-deltacli-hints"] == "applied=1; skipped=0"
    both = {"jsonPredicateHints": json.dumps(equal), "predicateHints": ["id >= 405", "rubbish("]}
    sizes = sorted(one["size"] for one in server.query(TABLE, both).files())
    assert sizes == [140, 143, 146, 149]


def test_a_limit_stops_at_enough_rows_but_never_with_hints(server: Server) -> None:
    assert len(server.query(TABLE, {"limitHint": 0}).files()) == 0
    assert len(server.query(TABLE, {"limitHint": 25}).files()) == 3
    assert len(server.query(TABLE, {"limitHint": 10**9}).files()) == 39
    assert len(server.query(TABLE, {"limitHint": 1, "predicateHints": ["p = 1"]}).files()) > 1
    # Six of ten rows are left in the file with the vector.
    assert len(server.query("vec", {"limitHint": 11}, DELTA).files()) == 2


def test_files_without_statistics_count_for_no_rows(tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    table.start(*(add(f"{one}.parquet", rows=None) for one in range(5)))
    with serving(one_share(shared("t", tmp_path / "t"))) as own:
        assert len(own.query("t", {"limitHint": 1}).files()) == 5


def test_hints_leave_no_change_out(server: Server) -> None:
    every = server.query(TABLE, {"startingVersion": 0}).files("add", "remove")
    for hint in ({"predicateHints": ["p = 1"]}, {"predicateHints": ["id < 0"]}, {"limitHint": 1}):
        some = server.query(TABLE, {"startingVersion": 0, **hint}).files("add", "remove")
        assert [one["id"] for one in some] == [one["id"] for one in every]


def test_a_partition_filter_shares_only_what_surely_fulfils_it(server: Server) -> None:
    files = server.query("some").files()
    assert {one["partitionValues"]["p"] for one in files} == {"1"}
    told = server.metadata("some").lines[1]["metaData"]
    assert (told["numFiles"], told["size"]) == (len(files), sum(one["size"] for one in files))
    changed = server.query("some", {"startingVersion": 0}).files("add", "remove")
    assert {one["partitionValues"]["p"] for one in changed} == {"1"}
    assert server.query("odd").status == server.query("odd", {"startingVersion": 0}).status == 400
    assert server.get(f"{table_path('odd')}/version").status == 400


# -- formats ---------------------------------------------------------------------------


def asks(text: str) -> dict[str, str]:
    return {"delta-sharing-capabilities": text}


@pytest.mark.parametrize(
    ("table", "header", "expected"),
    [
        ("t", "", "parquet"),
        ("t", "responseformat=parquet", "parquet"),
        ("t", "ResponseFormat=DELTA", "delta"),
        ("t", "responseformat=delta,parquet", "parquet"),
        ("t", "responseformat=iceberg,delta", "delta"),
        ("t", " responseformat = delta ; junk ; a=b=c ;readerfeatures=", "delta"),
        ("t", "responseformat=delta;responseformat=parquet", "parquet"),
        ("t", "responseformat=iceberg", None),
        ("t", "responseformat=", "parquet"),
        ("vec", "", None),
        ("vec", "responseformat=parquet;readerfeatures=deletionvectors", None),
        ("vec", "responseformat=delta", None),
        ("vec", "responseformat=delta;readerfeatures=columnmapping", None),
        ("vec", "responseformat=delta,parquet;readerfeatures=DeletionVectors", "delta"),
        ("mapped", "responseformat=delta,parquet", None),
        ("mapped", "responseformat=delta,parquet;readerfeatures=columnmapping", "delta"),
    ],
)
def test_the_format_is_what_the_answer_needs(
    server: Server, table: str, header: str, expected: str | None
) -> None:
    for reply in (
        server.query(table, {}, asks(header)),
        server.metadata(table, headers=asks(header)),
    ):
        if expected is None:
            assert (reply.status, reply.json["errorCode"]) == (400, "UNSUPPORTED_OPERATION")
        else:
            assert reply.headers["delta-sharing-capabilities"] == f"responseformat={expected}"
            assert ("deltaProtocol" in reply.lines[0]["protocol"]) == (expected == "delta")


def test_a_version_without_deletion_vectors_is_for_everyone(server: Server) -> None:
    assert server.query("vec", {"version": 0}).status == 200
    assert server.query("vec", {"version": 1}).status == 400


def test_a_file_with_a_deletion_vector_in_deltas_format(server: Server) -> None:
    plain, with_vector = sorted(
        server.query("vec", {}, DELTA).files(), key=lambda one: "deletionVectorFileId" in one
    )
    action = with_vector["deltaSingleAction"]["add"]
    assert set(with_vector) == {
        "id", "deletionVectorFileId", "expirationTimestamp", "deltaSingleAction",
    }  # fmt: skip
    assert set(action) == {
        "path", "partitionValues", "size", "modificationTime", "dataChange", "stats",
        "deletionVector",
    }  # fmt: skip
    told = action["deletionVector"]
    assert (told["storageType"], told["offset"], told["sizeInBytes"]) == ("p", 4, 40)
    assert told["cardinality"] == 4
    assert told["pathOrInlineDv"].startswith("http://")
    assert ".bin?sp=r&" in told["pathOrInlineDv"]
    assert "deletionVector" not in plain["deltaSingleAction"]["add"]


def test_the_client_chooses_how_ids_are_made(server: Server) -> None:
    md5, sha256 = ids(server, {})[0], server.query(TABLE, {}, DELTA).files()[0]["id"]
    assert (len(md5), len(sha256)) == (32, 64)
    reply = server.query(TABLE, {}, {"fileidhash": "Delta"})
    assert reply.headers["fileidhash"] == "delta"
    assert reply.files()[0]["id"] == sha256
    assert server.query(TABLE, {}, {"fileidhash": "crc32"}).status == 400


def test_files_outside_of_the_table_are_not_shared(server: Server) -> None:
    for reply in (server.query("far"), server.metadata("far")):
        assert reply.status == 400
        assert "passwd" not in reply.content.decode()


def test_a_header_beyond_all_measure_is_refused(server: Server) -> None:
    assert server.query(TABLE, {}, asks("a=b;" * 3000)).status == 400


# -- pages and tokens ------------------------------------------------------------------


def pages(server: Server, body: dict[str, Any], table: str = TABLE) -> Iterator[Any]:
    """The lines of each page."""
    token = None
    while True:
        reply = server.query(table, {**body, **({"pageToken": token} if token else {})})
        *lines, end = reply.lines
        yield lines
        token = end["endStreamAction"].get("nextPageToken")
        assert end["endStreamAction"]["minUrlExpirationTimestamp"] > 0
        if token is None:
            return


@pytest.mark.parametrize("size", [1, 7, 13, 39, 40, 10**6])
def test_pages_of_files_together_are_the_whole(server: Server, size: int) -> None:
    seen, heads = [], set()
    for protocol_line, metadata_line, *files in pages(server, {"maxFiles": size}):
        heads.add(json.dumps([protocol_line, metadata_line]))
        assert 0 < len(files) <= size
        seen += [one["file"]["id"] for one in files]
    assert sorted(seen) == sorted(ids(server, {}))
    assert len(heads) == 1


def test_pages_are_of_one_version_whatever_is_committed_and_checkpointed(
    tmp_path: Path, server: Server
) -> None:
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    table.start(*(add(f"f{one}.parquet") for one in range(20)))
    with serving(one_share(shared("t", tmp_path / "t", history_shared=False))) as own:
        seen = []
        for number, lines in enumerate(pages(own, {"maxFiles": 6, "predicateHints": []})):
            seen += [one["file"]["id"] for one in lines[2:]]
            table.commit(remove(f"f{number}.parquet"), remove("f19.parquet"), add(f"new{number}"))
            if number == 1:
                from deltacli.cli.app import run

                assert run(["checkpoint", str(tmp_path / "t"), "--yes", "-q"]) == 0
        assert len(seen) == len(set(seen)) == 20


def test_a_page_token_holds_for_its_request_only(server: Server) -> None:
    reply = server.query(TABLE, {"maxFiles": 3, "predicateHints": ["p >= 0"]})
    token = reply.lines[-1]["endStreamAction"]["nextPageToken"]
    again = {"maxFiles": 5, "predicateHints": ["p >= 0"], "pageToken": token}
    assert server.query(TABLE, again).status == 200
    assert server.query(TABLE, {**again, "predicateHints": ["p >= 1"]}).status == 400
    assert server.query("since3", again).status == 400
    assert server.query(TABLE, {"refreshToken": token}).status == 400
    for place in range(0, len(token), 5):
        changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        assert server.query(TABLE, {**again, "pageToken": changed}).status == 400


def test_tokens_expire(tmp_path: Path) -> None:
    TableBuilder(LocalStore(str(tmp_path / "t"))).start(add("a.parquet"), add("b.parquet"))
    now = [NOW_MS]
    config = one_share(shared("t", tmp_path / "t"), page_token_ms=1000, refresh_token_ms=1000)
    with serving(config, clock=lambda: now[0]) as own:
        page = own.query("t", {"maxFiles": 1}).lines[-1]["endStreamAction"]["nextPageToken"]
        refresh = own.query("t", {"includeRefreshToken": True}).lines[-1]["endStreamAction"][
            "refreshToken"
        ]
        assert own.query("t", {"maxFiles": 1, "pageToken": page}).status == 200
        assert own.query("t", {"refreshToken": refresh}).status == 200
        now[0] += 1000
        for body in ({"maxFiles": 1, "pageToken": page}, {"refreshToken": refresh}):
            reply = own.query("t", body)
            assert reply.status == 400
            assert "expired" in reply.json["message"]


def test_a_refresh_token_signs_the_same_files_again(tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    table.start(add("a.parquet"), add("b.parquet"))
    with serving(one_share(shared("t", tmp_path / "t", history_shared=False))) as own:
        first = own.query("t", {"includeRefreshToken": True})
        token = first.lines[-1]["endStreamAction"]["refreshToken"]
        table.commit(remove("a.parquet"))
        again = own.query("t", {"refreshToken": token})
        assert again.version == 0
        assert [one["id"] for one in again.files()] == [one["id"] for one in first.files()]
        # An older version is otherwise not for those who may not see history.
        assert own.query("t", {"version": 0}).status == 400


def test_the_end_of_a_stream_is_told_only_to_those_who_ask(server: Server) -> None:
    assert all("endStreamAction" not in one for one in server.query(TABLE).lines)
    for reply in (
        server.query(TABLE, {}, asks("includeEndStreamAction=true")),
        server.metadata(TABLE, headers=asks("includeendstreamaction=TRUE")),
    ):
        assert "endStreamAction" in reply.lines[-1]
        assert "includeendstreamaction=true" in reply.headers["delta-sharing-capabilities"]
    for body in ({"maxFiles": 100}, {"includeRefreshToken": True}):
        assert "endStreamAction" in server.query(TABLE, body).lines[-1]


def test_a_new_commit_is_in_the_next_answer(tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    table.start(add("a.parquet"))
    with serving(one_share(shared("t", tmp_path / "t"))) as own:
        for number in range(1, 6):
            assert len(own.query("t").files()) == number
            table.commit(add(f"b{number}.parquet"))
            assert own.get(f"{table_path('t')}/version").version == number


def test_a_table_that_was_made_anew_is_another_table(tmp_path: Path) -> None:
    import shutil

    TableBuilder(LocalStore(str(tmp_path / "t"))).start(add("a.parquet"))
    with serving(one_share(shared("t", tmp_path / "t"))) as own:
        before = own.query("t").files()[0]["id"]
        shutil.rmtree(tmp_path / "t")
        assert own.query("t").status == 404
        TableBuilder(LocalStore(str(tmp_path / "t"))).start(add("another.parquet"))
        assert own.query("t").files()[0]["id"] != before
