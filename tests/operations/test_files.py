"""Rows of files: columns at once and rows one by one say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.engine import ADD_FIELDS, FileBatch, Want
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import CorruptLog, Refused, UnreadableCheckpoint
from deltacli.local.engine import LocalEngine
from deltacli.operations.file_columns import file_columns
from deltacli.operations.file_names import FileNames
from deltacli.operations.files import (
    FILE_FIELDS,
    file_row,
    list_files,
    list_partitions,
    list_tombstones,
)
from deltacli.operations.records import Columns, Listing
from deltacli.render.formats import Format
from deltacli.render.records import render_listing
from deltacli.storage import open_store
from tests.builder import (
    NOW_MS,
    TableBuilder,
    add,
    column,
    features,
    metadata,
    protocol,
    remove,
    vector,
)
from tests.test_golden import GOLDEN, PUBLISHED, READABLE

STATS = '{"numRecords":7,"minValues":{"id":1.50,"s":"a\\"b"},"nullCount":{}}'
HOSTILE = [
    add("plain", 1, tags={"k": "v"}, partitionValues={"p": "1", "q": "x"}, stats=STATS),
    add("sp%20ace/[bold]", 2, partitionValues={"p": None, "q": ""}, stats="{broken"),
    add('quote"\\back', 3, partitionValues={"p": "2", "q": 'a"b\\c\nd'}, stats=""),
    add("/abs/x", 4, rows=None, partitionValues={"q": "é", "p": "3"}),
    add("s3://other/y", 5, partitionValues={"p": "4", "q": "z"}, stats='{"a":\n1}'),
    add("dv", 6, partitionValues={"p": "5", "q": "z"}, deletionVector=vector()),
    add("rows", 7, partitionValues={"p": "6", "q": "z"}, baseRowId=5, defaultRowCommitVersion=1),
    add("late", 8, partitionValues={"p": "7", "q": "z"}, modificationTime=2**60),
    add("early", 9, partitionValues={"p": "8", "q": "z"}, modificationTime=-5),
    add("stray", 10, partitionValues={"p": "9", "q": "z", "r": "1"}),
]
COLUMNS = (column("id"), column("p", "integer"), column("q", "string"))


def jsonl(listing: Listing) -> list[Any]:
    written: list[bytes] = []
    render_listing(listing, None, Format.JSONL, lambda block: written.append(bytes(block)))
    return [json.loads(line) for line in b"".join(written).splitlines()]


def load(table: TableBuilder) -> Snapshot:
    return load_snapshot(table.store, LocalEngine)


def by_path(rows: list[Any]) -> dict[str, Any]:
    return {row["path"]: row for row in rows}


@pytest.mark.parametrize("partitioned", [(), ("q",), ("p", "q")])
def test_rows_of_a_checkpoint_equal_rows_of_commits(
    table: TableBuilder, partitioned: tuple[str, ...]
) -> None:
    head = [features("deletionVectors"), metadata(*COLUMNS, partition_by=partitioned)]
    table.commit(*head, *HOSTILE)
    from_commits = by_path(jsonl(list_files(load(table))))
    table.checkpoint(0, [*head, *HOSTILE], row_group_size=3)
    from_checkpoint = by_path(jsonl(list_files(load(table))))
    assert from_checkpoint == from_commits
    assert len(from_commits) == len(HOSTILE)


def test_each_field_of_a_row(table: TableBuilder) -> None:
    table.commit(features("deletionVectors"), metadata(*COLUMNS, partition_by=("p", "q")), *HOSTILE)
    rows = by_path(jsonl(list_files(load(table))))
    plain = rows["plain"]
    assert plain["location"] == "memory://table/plain"
    assert plain["partitionValues"] == {"p": "1", "q": "x"}
    assert plain["stats"]["minValues"] == {"id": 1.5, "s": 'a"b'}
    assert (plain["numRecords"], plain["size"], plain["tags"]) == (7, 1, {"k": "v"})
    assert plain["modificationTime"] == "2023-11-14T22:13:20.000Z"
    assert plain["deletionVector"] is None
    odd = rows["sp%20ace/[bold]"]
    assert odd["location"] == "memory://table/sp ace/[bold]"
    assert odd["partitionValues"] == {"p": None, "q": None}
    assert odd["stats"] is None
    assert rows["s3://other/y"]["location"] == "s3://other/y"
    assert rows["dv"]["deletionVector"]["location"].endswith(".bin")
    assert rows["rows"]["baseRowId"] == 5


def test_numbers_in_statistics_keep_their_digits_in_the_output(table: TableBuilder) -> None:
    exact = '{"numRecords":1,"minValues":{"d":12345678901234567890.1230}}'
    files = [add("a", stats=exact)]
    table.start(*files)
    table.checkpoint(0, [protocol(), metadata(), *files])
    for checkpoint in (True, False):
        written: list[bytes] = []
        if not checkpoint:
            table.store.delete(f"_delta_log/{0:020}.checkpoint.parquet")
        listing = list_files(load(table))
        render_listing(listing, None, Format.JSONL, lambda b, w=written: w.append(bytes(b)))  # type: ignore[misc]
        assert b"12345678901234567890.1230" in b"".join(written)


def test_mapped_columns_are_shown_by_their_names(table: TableBuilder) -> None:
    columns = [
        column("id", **{"delta.columnMapping.physicalName": "c1"}),
        column("p", "string", **{"delta.columnMapping.physicalName": "c2"}),
    ]
    configuration = {"delta.columnMapping.mode": "name"}
    table_metadata = metadata(*columns, partition_by=["p"], configuration=configuration)
    head = [features("columnMapping"), table_metadata]
    stats = '{"numRecords":1,"minValues":{"c1":5},"nullCount":{"c1":0}}'
    files = [add("a", partitionValues={"c2": "x"}, stats=stats)]
    table.commit(*head, *files)
    expected = {"numRecords": 1, "minValues": {"id": 5}, "nullCount": {"id": 0}}
    for _ in range(2):
        (row,) = jsonl(list_files(load(table)))
        assert (row["partitionValues"], row["stats"]) == ({"p": "x"}, expected)
        assert list_partitions(load(table)).rows[0]["partitionValues"] == {"p": "x"}  # type: ignore[index]
        table.checkpoint(0, [*head, *files])


@pytest.mark.parametrize("name", READABLE + PUBLISHED)
def test_columns_and_rows_agree_on_tables_of_other_writers(name: str) -> None:
    store = open_store(str(GOLDEN / name))
    snapshot = load_snapshot(store, LocalEngine, allow_catalog_managed=True)
    names = FileNames.of(snapshot)
    for item in snapshot.files("add", ADD_FIELDS):
        if not isinstance(item, FileBatch):
            continue
        columns = file_columns(item, names, FILE_FIELDS)
        if not isinstance(columns, Columns):
            continue
        rows = [file_row(body, names) for body in item.columns.to_pylist()]
        one: list[bytes] = []
        listing = Listing(rows, FILE_FIELDS, ("path",))
        render_listing(listing, None, Format.JSONL, lambda b, w=one: w.append(bytes(b)))  # type: ignore[misc]
        from deltacli.render.columns import json_objects

        many = bytes(json_objects(columns, FILE_FIELDS, b"\n"))
        parsed = [json.loads(line) for line in many.splitlines()]
        assert parsed == [json.loads(line) for line in b"".join(one).splitlines()]


@pytest.mark.parametrize("name", READABLE + PUBLISHED)
def test_partitions_add_up_to_the_table(name: str) -> None:
    store = open_store(str(GOLDEN / name))
    snapshot = load_snapshot(store, LocalEngine, allow_catalog_managed=True)
    totals = snapshot.totals(frozenset(Want), NOW_MS)
    rows: list[Any] = list(list_partitions(snapshot).rows)
    assert sum(row["numFiles"] for row in rows) == totals.files
    assert sum(row["sizeInBytes"] for row in rows) == totals.bytes
    if not totals.without_records:
        records = sum(row["numRecords"] for row in rows)
        assert records == totals.records - totals.deleted_records


def test_partitions_are_sorted_by_value_and_show_skew(table: TableBuilder) -> None:
    head = [protocol(), metadata(column("p", "integer"), partition_by=["p"])]
    files = [
        add(f"f{p}", size, partitionValues={"p": p})
        for p, size in (("10", 300), ("9", 50), (None, 10))
    ]
    table.commit(*head, *files)
    rows: list[Any] = list(list_partitions(load(table)).rows)
    assert [row["partitionValues"]["p"] for row in rows] == [None, "9", "10"]
    assert [row["skew"] for row in rows] == [0.08, 0.42, 2.5]


def test_tombstones_tell_whether_they_expired(table: TableBuilder) -> None:
    removes = [remove("old", NOW_MS - 8 * 86_400_000), remove("young"), remove("never", None)]
    table.start(*removes)
    for _ in range(2):
        rows = by_path(jsonl(list_tombstones(load(table), now_ms=NOW_MS)))
        assert {path: row["expired"] for path, row in rows.items()} == {
            "old": True,
            "young": False,
            "never": True,
        }
        table.checkpoint(0, [protocol(), metadata(), *removes])


def test_a_listing_of_nothing_is_an_empty_array(table: TableBuilder, tmp_path: Path) -> None:
    table.start()
    written: list[bytes] = []
    render_listing(list_files(load(table)), None, Format.JSON, lambda b: written.append(bytes(b)))
    assert json.loads(b"".join(written)) == []


# -- checkpoints that lie ------------------------------------------------------------------


def rewritten(table: TableBuilder, version: int, change: Any) -> None:
    """The classic checkpoint of a version with its Arrow table changed."""
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    name = f"{version:020}.checkpoint.parquet"
    whole = pq.read_table(io.BytesIO(table.store.read(f"_delta_log/{name}")))
    columns = {one: whole.column(one).combine_chunks() for one in whole.column_names}
    columns["add"] = change(pa, columns["add"])
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    table.put(name, sink.getvalue())


def with_field(name: str, make: Any) -> Any:
    """A change of one field of the add struct; `make` gives its new values, or None to drop it."""

    def change(pa: Any, adds: Any) -> Any:
        fields = {adds.type.field(i).name: adds.field(i) for i in range(adds.type.num_fields)}
        made = make(pa, fields.get(name))
        fields.pop(name, None)
        if made is not None:
            fields[name] = made
        return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=adds.is_null())

    return change


def strings(pa: Any, one: Any) -> Any:
    return pa.array(["x"] * len(one))


def numbers(pa: Any, one: Any) -> Any:
    return pa.array([7] * len(one), pa.int64())


LIES = {
    "no path": ("path", lambda pa, one: None),
    "path of numbers": ("path", numbers),
    "no size": ("size", lambda pa, one: None),
    "size of texts": ("size", strings),
    "null sizes": ("size", lambda pa, one: pa.nulls(len(one), pa.int64())),
    "times of texts": ("modificationTime", strings),
    "partition values of numbers": ("partitionValues", numbers),
    "tags of texts": ("tags", strings),
    "vectors of texts": ("deletionVector", strings),
    "stats of numbers": ("stats", numbers),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_checkpoint_with_wrong_columns_is_passed_by(table: TableBuilder, lie: str) -> None:
    head = [protocol(), metadata(*COLUMNS, partition_by=("p",))]
    files = [add(f"f{n}", 5, partitionValues={"p": str(n)}) for n in range(3)]
    table.commit(*head, *files)
    table.checkpoint(0, [*head, *files])
    rewritten(table, 0, with_field(*LIES[lie]))
    table.commit(add("late", 5, partitionValues={"p": "9"}))
    snapshot = load(table)
    assert snapshot.totals(frozenset(Want), NOW_MS).files == 4
    assert any("checkpoint.parquet" in warning for warning in snapshot.warnings)
    assert len(jsonl(list_files(snapshot))) == 4
    assert len(list(list_partitions(snapshot).rows)) == 4
    table.store.delete(f"_delta_log/{0:020}.json")
    with pytest.raises(UnreadableCheckpoint):
        load(table)


ODD = {
    "large strings": ("path", lambda pa, one: one.cast(pa.large_string())),
    "string views": ("clusteringProvider", lambda pa, one: one.cast(pa.string_view())),
    "dictionaries": ("path", lambda pa, one: one.dictionary_encode()),
    "small sizes": ("size", lambda pa, one: one.cast(pa.int32())),
    "parsed stats without counts": (
        "stats_parsed",
        lambda pa, one: pa.array([{"minValues": {"id": 1}}] * 6),
    ),
    "parsed stats in nanoseconds": (
        "stats_parsed",
        lambda pa, one: pa.array(
            [{"numRecords": 10, "minValues": {"t": 1_700_000_000_123_456_789}}] * 6,
            pa.struct(
                [
                    ("numRecords", pa.int32()),
                    ("minValues", pa.struct([("t", pa.timestamp("ns", "UTC"))])),
                ]
            ),
        ),
    ),
}


@pytest.mark.parametrize("oddity", ODD)
def test_what_other_engines_may_write_is_read(table: TableBuilder, oddity: str) -> None:
    head = [protocol(), metadata(*COLUMNS, partition_by=("p",))]
    files = [add(f"f{n}", 5, partitionValues={"p": str(n)}) for n in range(4)]
    table.checkpoint(0, [*head, *files])
    try:
        rewritten(table, 0, with_field(*ODD[oddity]))
    except NotImplementedError:
        pytest.skip("this pyarrow cannot write such a file")
    snapshot = load(table)
    totals = snapshot.totals(frozenset(Want), NOW_MS)
    assert (totals.files, totals.bytes, totals.records) == (4, 20, 40)
    rows = jsonl(list_files(snapshot))
    assert {row["path"] for row in rows} == {f"f{n}" for n in range(4)}
    assert all(row["numRecords"] == 10 for row in rows)
    assert len(list(list_partitions(snapshot).rows)) == 4


@pytest.mark.parametrize("seed", range(30))
def test_a_flipped_byte_gives_the_right_answer_or_a_clean_error(
    table: TableBuilder, seed: int
) -> None:
    import random

    chance = random.Random(seed)
    head = [protocol(), metadata(*COLUMNS, partition_by=("p",))]
    files = [add(f"file-{n:06}", 5, partitionValues={"p": str(n % 7)}) for n in range(300)]
    table.commit(*head, *files)
    table.checkpoint(0, [*head, *files])
    name = f"{0:020}.checkpoint.parquet"
    content = bytearray(table.store.read(f"_delta_log/{name}"))
    for _ in range(chance.choice([1, 3, 50])):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    table.put(name, bytes(content))
    try:
        snapshot = load(table)
        snapshot.totals(frozenset(Want), NOW_MS)
        jsonl(list_files(snapshot))
        list(list_partitions(snapshot).rows)
    except CorruptLog:
        pass
    except Refused as error:
        assert "unsupported" in error.message  # noqa: PT017


def test_broken_pages_fall_back_to_the_commits(table: TableBuilder) -> None:
    head = [protocol(), metadata(*COLUMNS)]
    files = [add(f"{n:064}", n) for n in range(3000)]
    table.commit(*head, *files)
    table.checkpoint(0, [*head, *files], row_group_size=5000)
    name = f"{0:020}.checkpoint.parquet"
    content = bytearray(table.store.read(f"_delta_log/{name}"))
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    table.put(name, bytes(content))
    snapshot = load(table)
    assert snapshot.totals(frozenset(Want), NOW_MS).bytes == sum(range(3000))
    assert any("cannot be read" in warning for warning in snapshot.warnings)
    assert len(jsonl(list_files(load(table)))) == 3000
