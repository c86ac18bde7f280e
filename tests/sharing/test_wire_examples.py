"""Every example of the protocol's document, asked of a real server.

What an example leaves to the server (URLs, ids of files, tokens) may differ; all else is
as in the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.schema import parse_schema
from deltacli.sharing.capabilities import Capabilities, parse_capabilities
from deltacli.sharing.hints import read_hints
from deltacli.sharing.profile import Bearer, Profile
from deltacli.sharing.server.config import Config, SchemaEntry, ShareEntry, TableEntry
from deltacli.sharing.server.lines import told_schema
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, column, commit_info, metadata, protocol, remove
from tests.sharing.serving import DELTA, Server, serving

FREE = {"url", "nextPageToken", "expirationTimestamp", "path"}
VACCINES, SALES = "edacc4a7-6600-4fbb-85f3-a62a5ce6761f", "3e979c79-6399-4dac-bcf8-54e268f48515"
SCHEMA = (
    '{"type":"struct","fields":[{"name":"eventTime","type":"timestamp","nullable":true,'
    '"metadata":{}},{"name":"date","type":"date","nullable":true,"metadata":{}}]}'
)
STATS = (
    '{"numRecords":1,"minValues":{"eventTime":"2021-04-28T23:33:48.719Z"},'
    '"maxValues":{"eventTime":"2021-04-28T23:33:48.719Z"},"nullCount":{"eventTime":0}}'
)
ID = "f8d5c169-3d01-4ca3-ad9e-7dc3355aedb2"
VERSION_TIMES = (1652140000000, 1652141000000, 1652142000000)
DATE = {"date": "2021-04-28"}


def example(answer: Any, expected: Any, free_ids: bool = False) -> None:
    """Check that an answer has all that an example has."""
    free = FREE | ({"id"} if free_ids else set())
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert key in answer, key
            if key in free:
                assert type(answer[key]) is type(value)
            else:
                example(answer[key], value, free_ids)
    elif isinstance(expected, list):
        assert len(answer) == len(expected)
        for one, other in zip(answer, expected, strict=True):
            example(one, other, free_ids)
    else:
        assert answer == expected


def table(name: str, location: Path, table_id: str) -> TableEntry:
    return TableEntry(str(location), name, table_id, history_shared=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("tables")
    definition = metadata(
        column("eventTime", "timestamp"),
        column("date", "date"),
        partition_by=["date"],
        configuration={"delta.enableChangeDataFeed": "true"},
        id=ID,
    )
    data = {"partitionValues": DATE, "stats": STATS}
    feed = TableBuilder(LocalStore(str(root / "cdf")))
    first = [commit_info(), protocol(1, 4), definition, add("date=2021-04-28/a", 573, **data)]
    change = {"path": "_change_data/b", "partitionValues": DATE, "size": 689, "dataChange": False}
    feed.commit(*first, at_ms=VERSION_TIMES[0])
    feed.commit(commit_info(), {"cdc": change}, at_ms=VERSION_TIMES[1])
    feed.commit(
        commit_info(), remove("date=2021-04-28/a", size=573, partitionValues=DATE),
        at_ms=VERSION_TIMES[2],
    )  # fmt: skip
    plain = TableBuilder(LocalStore(str(root / "plain")))
    definition["metaData"]["configuration"] = {}
    plain.commit(protocol(), definition, *(add(name, 573, **data) for name in "ab"))
    for _ in range(123):
        plain.commit(commit_info())
    patients = [
        table("vaccine_ingredients", root / "cdf", "dcb1e680-7da4-4041-9be8-88aff508d001"),
        table("vaccine_patients", root / "plain", "c48f3e19-2c29-4ea3-b6f7-3899e53338fa"),
    ]
    schemas = (
        SchemaEntry("acme_vaccine_data", tuple(patients)),
        SchemaEntry("other", (table("t", root / "cdf", "x"),)),
    )
    shares = (
        ShareEntry("vaccine_share", VACCINES, schemas),
        ShareEntry("sales_share", SALES),
        ShareEntry("z", None),
    )
    with serving(Config(shares=shares)) as running:
        yield running


ACME = "vaccine_share.acme_vaccine_data"


def test_list_shares(server: Server) -> None:
    expected = {
        "items": [
            {"name": "sales_share", "id": SALES},
            {"name": "vaccine_share", "id": VACCINES},
        ],
        "nextPageToken": "...",
    }
    example(server.get("/shares?maxResults=2").json, expected)


def test_get_share(server: Server) -> None:
    expected = {"share": {"name": "vaccine_share", "id": VACCINES}}
    example(server.get("/shares/vaccine_share").json, expected)


def test_list_schemas(server: Server) -> None:
    expected = {
        "items": [{"name": "acme_vaccine_data", "share": "vaccine_share"}],
        "nextPageToken": "...",
    }
    example(server.get("/shares/vaccine_share/schemas?maxResults=1").json, expected)


TABLES = {
    "items": [
        {
            "share": "vaccine_share",
            "schema": "acme_vaccine_data",
            "name": "vaccine_ingredients",
            "shareId": VACCINES,
            "id": "dcb1e680-7da4-4041-9be8-88aff508d001",
        },
        {
            "share": "vaccine_share",
            "schema": "acme_vaccine_data",
            "name": "vaccine_patients",
            "shareId": VACCINES,
            "id": "c48f3e19-2c29-4ea3-b6f7-3899e53338fa",
        },
    ]
}


def test_list_tables(server: Server) -> None:
    path = "/shares/vaccine_share/schemas/acme_vaccine_data/tables?maxResults=10"
    example(server.get(path).json, TABLES)


def test_list_all_tables(server: Server) -> None:
    path = "/shares/vaccine_share/all-tables?maxResults=2"
    example(server.get(path).json, {**TABLES, "nextPageToken": "..."})


def test_query_table_version(server: Server) -> None:
    path = "/shares/vaccine_share/schemas/acme_vaccine_data/tables/vaccine_patients/version"
    reply = server.get(path)
    assert (reply.status, reply.headers["delta-table-version"], reply.content) == (200, "123", b"")


PROTOCOL = {"protocol": {"minReaderVersion": 1}}
METADATA = {
    "metaData": {
        "id": ID,
        "format": {"provider": "parquet"},
        "schemaString": SCHEMA,
        "partitionColumns": ["date"],
    }
}
FILE = {"url": "...", "id": "...", "partitionValues": DATE, "size": 573, "stats": STATS}


def test_query_table_metadata(server: Server) -> None:
    reply = server.metadata(f"{ACME}.vaccine_patients")
    assert reply.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert reply.version == 123
    assert reply.lines[0] == PROTOCOL
    example(reply.lines[1], METADATA)


def test_read_data_from_a_table(server: Server) -> None:
    body = {
        "predicateHints": ["date >= '2021-01-01'", "date <= '2021-12-31'"],
        "limitHint": 1000,
        "version": 123,
    }
    reply = server.query(f"{ACME}.vaccine_patients", body)
    assert reply.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    assert reply.version == 123
    first, second, *files = reply.lines
    assert first == PROTOCOL
    example(second, METADATA)
    for one in files:
        example(one["file"], FILE, free_ids=True)
    assert len(files) == 2
    narrow = {**body, "predicateHints": ["date >= '2021-01-01'", "date <= '2021-01-31'"]}
    assert server.query(f"{ACME}.vaccine_patients", narrow).files() == []


def test_read_change_data_feed_from_a_table(server: Server) -> None:
    reply = server.changes(f"{ACME}.vaccine_ingredients", "startingVersion=0&endingVersion=2")
    first, second, *changes = reply.lines
    assert first == PROTOCOL
    example(second, METADATA)
    assert second["metaData"]["configuration"] == {"enableChangeDataFeed": "true"}
    plain = {"url": "...", "id": "...", "partitionValues": DATE}
    expected = [
        {"add": {**FILE, "timestamp": VERSION_TIMES[0], "version": 0}},
        {"cdf": {**plain, "size": 689, "timestamp": VERSION_TIMES[1], "version": 1}},
        {"remove": {**plain, "size": 573, "timestamp": VERSION_TIMES[2], "version": 2}},
    ]
    assert [set(one) for one in changes] == [set(one) for one in expected]
    example(changes, expected, free_ids=True)


def test_the_parquet_format(server: Server) -> None:
    told = server.metadata(f"{ACME}.vaccine_patients").lines[1]
    example(told, {"metaData": {**METADATA["metaData"], "size": 2 * 573, "numFiles": 2}})
    file = server.query(f"{ACME}.vaccine_patients").files()[0]
    example(file, {**FILE, "expirationTimestamp": 1652140800000}, free_ids=True)
    changes = server.changes(f"{ACME}.vaccine_ingredients", "startingVersion=0")
    for one in changes.files("add", "cdf", "remove"):
        assert type(one["expirationTimestamp"]) is int


def test_the_delta_format(server: Server) -> None:
    reply = server.query(f"{ACME}.vaccine_patients", {"version": 123}, DELTA)
    first, second, *_ = reply.lines
    versions = first["protocol"]["deltaProtocol"]
    assert {"minReaderVersion", "minWriterVersion"} <= set(versions)
    own = {**METADATA["metaData"]}
    example(
        second,
        {"metaData": {"version": 123, "size": 1146, "numFiles": 2, "deltaMetadata": own}},
    )
    action = {"add": {"path": "...", "partitionValues": DATE, "stats": STATS}}
    for one in reply.files():
        expected = {"id": "...", "expirationTimestamp": 0, "deltaSingleAction": action}
        example(one, expected, free_ids=True)
        assert one["version"] == 123


def test_the_schema_object() -> None:
    text = json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": "a", "type": "integer", "nullable": False,
                 "metadata": {"comment": "this is a comment"}},
                {"name": "b", "nullable": True, "metadata": {}, "type": {
                    "type": "struct", "fields": [
                    {"name": "d", "type": "integer", "nullable": False, "metadata": {}}]}},
                {"name": "c", "nullable": True, "metadata": {},
                 "type": {"type": "array", "elementType": "integer", "containsNull": False}},
                {"name": "e", "nullable": True, "metadata": {}, "type": {
                    "type": "array", "containsNull": True, "elementType": {"type": "struct",
                    "fields": [{"name": "d", "type": "integer", "nullable": False,
                                "metadata": {}}]}}},
                {"name": "f", "nullable": True, "metadata": {}, "type": {
                    "type": "map", "keyType": "string", "valueType": "string",
                    "valueContainsNull": True}},
            ],
        }
    )  # fmt: skip
    assert json.loads(told_schema(parse_schema(text), frozenset())) == json.loads(text)


def test_the_capabilities_header() -> None:
    for text in ("responseformat=delta;readerfeatures=deletionvectors,columnmapping",
                 "responseFormat=Delta;readerFeatures=deletionVectors,columnMapping"):  # fmt: skip
        assert parse_capabilities([text]) == Capabilities(
            ("delta",), frozenset(("deletionvectors", "columnmapping"))
        )
    assert parse_capabilities(["responseFormat=delta,parquet"]).formats == ("delta", "parquet")
    assert parse_capabilities([]).formats == ("parquet",)


def test_the_timestamp_format(server: Server) -> None:
    early = server.query(f"{ACME}.vaccine_ingredients", {"timestamp": "2022-01-01T00:00:00Z"})
    assert "no shared version is as old" in early.json["message"]
    moment = datetime.fromtimestamp(VERSION_TIMES[1] / 1000, UTC).isoformat().replace("+00:00", "Z")
    assert server.query(f"{ACME}.vaccine_ingredients", {"timestamp": moment}).version == 1


@pytest.mark.parametrize(
    "text",
    ["col = 123", "name > 'foo'", "'foo' < name", "col >= 123", "123 <= col", "name <> 'foo'",
     "col IS NULL", "col IS NOT NULL"],
)  # fmt: skip
def test_sql_expressions_for_filtering(text: str) -> None:
    fields = [column("col"), column("name", "string")]
    schema = parse_schema(json.dumps({"type": "struct", "fields": fields}))
    hints = read_hints([text], None, schema)
    assert (len(hints.conditions), hints.skipped) == (1, ())


HIRED = {
    "op": "equal",
    "children": [
        {"op": "column", "name": "hireDate", "valueType": "date"},
        {"op": "literal", "value": "2021-04-29", "valueType": "date"},
    ],
}


@pytest.mark.parametrize(
    "tree",
    [
        HIRED,
        {"op": "and", "children": [HIRED, {"op": "lessThan", "children": [
            {"op": "column", "name": "id", "valueType": "int"},
            {"op": "literal", "value": "25", "valueType": "int"}]}]},
        {"op": "not", "children": [{"op": "isNull", "children": [
            {"op": "column", "name": "id", "valueType": "int"}]}]},
    ],
)  # fmt: skip
def test_json_predicates_for_filtering(tree: Any) -> None:
    fields = [column("hireDate", "date"), column("id", "integer")]
    schema = parse_schema(json.dumps({"type": "struct", "fields": fields}))
    hints = read_hints([], json.dumps(tree), schema)
    assert (len(hints.conditions), hints.skipped) == (1, ())


def test_the_profile_file() -> None:
    expires_ms = int(datetime(2021, 11, 12, 0, 12, 29, tzinfo=UTC).timestamp() * 1000)
    profile = Profile("https://sharing.delta.io/delta-sharing/", Bearer("<token>"), expires_ms)
    assert json.loads(profile.text) == {
        "shareCredentialsVersion": 1,
        "endpoint": "https://sharing.delta.io/delta-sharing/",
        "bearerToken": "<token>",
        "expirationTime": "2021-11-12T00:12:29.000Z",
    }
