"""Rows read without Spark: what tables of other writers hold, and SQL's three-valued logic."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.delta.arrow_types import NoArrowType
from deltacli.delta.predicates import NotSimple, parse_condition
from deltacli.delta.scan import Files
from deltacli.delta.snapshot import load_snapshot
from deltacli.local.engine import LocalEngine
from deltacli.local.filters import holds
from deltacli.local.scan import read_rows
from deltacli.storage import open_store
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, column, features, metadata, protocol, remove
from tests.conftest import Result
from tests.delta.test_bitmaps import inline
from tests.rows import NOT_COMPARED, multiset, with_rows
from tests.test_golden import GOLDEN, expectations

Deltacli = Callable[..., Result]


@pytest.mark.parametrize("name", with_rows())
def test_tables_of_other_writers_have_the_rows_that_are_known(name: str) -> None:
    snapshot = load_snapshot(
        open_store(str(GOLDEN / name)), LocalEngine, allow_catalog_managed=True
    )
    files = Files(snapshot)
    try:
        rows = [
            row
            for batch in read_rows(files, files.live(), files.schema)
            for row in batch.to_pylist()
        ]
    except NoArrowType:
        assert "variant" in json.dumps(expectations()[name]["schema"])
        return
    assert len(rows) == expectations()[name]["rows"]
    if name in NOT_COMPARED:
        return
    deltalake = pytest.importorskip("deltalake", reason="the peer is not installed")
    try:
        theirs = deltalake.DeltaTable(GOLDEN / name).to_pyarrow_table()
    except Exception as reason:
        pytest.skip(f"the peer cannot read it: {str(reason)[:80]}")
    assert multiset(rows) == multiset(theirs.to_pylist())


DATA = pa.table(
    {
        "i": pa.array([1, 2, None, 4], pa.int32()),
        "d": pa.array(
            [Decimal("1.10"), Decimal("2.00"), None, Decimal("-3.5")], pa.decimal128(6, 2)
        ),
        "f": [1.5, float("nan"), None, -1.0],
        "s": ["a", "b%", None, "it's"],
        "b": [True, False, None, True],
        "t": pa.array([0, 86_400_000_000, None, 1], pa.timestamp("us", "UTC")),
        "day": pa.array([0, 1, None, 2], pa.date32()),
        "n": [{"x y": 1}, {"x y": None}, None, {"x y": 3}],
        "a.b": [1, 2, 3, 4],
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 1", "TF?F"), ("i == 1", "TF?F"), ("i <> 1", "FT?T"), ("i != 1", "FT?T"),
        ("i > 1", "FT?T"), ("1 < i", "FT?T"), ("2 >= i", "TT?F"), ("i <= -1", "FF?F"),
        ("NOT i = 1", "FT?T"), ("i = 1 OR i IS NULL", "TFTF"), ("i = 1 or s = 'b%'", "TT?F"),
        ("i > 0 AND b", "TF?T"), ("i = 9 and s = 'nope'", "FF?F"), ("not (i = 1 or b)", "FT?F"),
        ("i IN (1, 4)", "TF?T"), ("i not in (1, 4)", "FT?F"), ("i in (1, null)", "T???"),
        ("i BETWEEN 2 AND 4", "FT?T"), ("i not between 2 and 4", "TF?F"),
        ("s like '%''s'", "FF?T"), ("s LIKE '_'", "TF?F"), ("s not like 'a%'", "FT?T"),
        ("i is null", "FFTF"), ("i is not null", "TTFT"), ("i <=> null", "FFTF"),
        ("i <=> 1", "TFFF"), ("i = null", "????"),
        ("d = 1.1", "TF?F"), ("d > 1", "TT?F"), ("d < -3.49", "FF?T"),
        ("f > 1", "TT?F"), ("f >= 1.5", "TT?F"), ("f < 100", "TF?T"), ("f <> 1.5", "FT?T"),
        ("f > null", "????"), ("f >= null", "????"),
        ("f = 1.5e0", "TF?F"), ("b = true", "TF?T"), ("b", "TF?T"),
        ("t = '1970-01-01'", "TF?F"), ("t > TIMESTAMP '1970-01-01T12:00:00Z'", "FT?F"),
        ("day = DATE '1970-01-02'", "FT?F"), ("day >= '1970-01-02'", "FT?T"),
        ("n.`x y` = 3", "F??T"), ("n is null", "FFTF"), ("`a.b` > 2", "FFTT"), ("I = 1", "TF?F"),
    ],
)  # fmt: skip
def test_conditions_are_decided_as_sql_does(text: str, expected: str) -> None:
    (batch,) = DATA.to_batches()
    got = holds(parse_condition(text), batch).to_pylist()
    assert "".join({True: "T", False: "F", None: "?"}[one] for one in got) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "i", "i =", "= 1", "i = 1 and", "(i = 1", "i = 1)", "i + 1 = 2", "abs(i) = 1", "1 = 1",
        "s = 1", "i = 'x'", "i = '1'", "b = 1", "nope = 1", "i in ()", "i between 1", "s like 1",
        "n.z = 1", "s.x = 1", "i = 1; drop", "i = 99999999999999999999", "day = 'today'",
        "i = 1.5", "f = f", "i = d", "d not", "i = 1 i = 2", "s = 'a\\nb'", "i like 'x'",
    ],
)  # fmt: skip
def test_what_takes_a_whole_sql_engine_is_not_guessed_at(text: str) -> None:
    (batch,) = DATA.to_batches()
    with pytest.raises(NotSimple):
        holds(parse_condition(text), batch)


def make(root: Path) -> Path:
    table = TableBuilder(LocalStore(str(root)))
    table.commit(
        protocol(),
        metadata(
            column("id"), column("name", "string"), column("p", "integer"), partition_by=["p"]
        ),
    )
    for part in (1, 2):
        ids = list(range(part * 100, part * 100 + 5))
        data = pa.table({"id": ids, "name": [f"n\t{one}" for one in ids]})
        pq.write_table(data, root / f"{part}.parquet")
        table.commit(add(f"{part}.parquet", partitionValues={"p": str(part)}))
    return root


def test_head_shows_rows_in_every_format(tmp_path: Path, deltacli: Deltacli) -> None:
    table = make(tmp_path / "t")
    rows = deltacli("head", table, "-o", "json").json
    assert len(rows) == 10
    assert {"id": 100, "name": "n\t100", "p": 1} in rows
    at = ("--at", "1", "-n", "2")
    assert deltacli("head", table, *at).stdout == "100\tn\\t100\t1\n101\tn\\t101\t1\n"
    assert deltacli("head", table, "-n", "0", "-o", "json").json == []
    assert deltacli("head", table, "--columns", "P,id", *at[:2], "-n", "1", "-o", "jsonl").rows == [
        {"p": 1, "id": 100}
    ]
    assert deltacli("head", table, *at[:2], "--fields", "id", "-n", "1").stdout == "100\n"
    assert len(deltacli("head", table, "--at", "1", "-o", "json").json) == 5
    where = deltacli(
        "head", table, "--where", "id > 103 and p = 2", "-o", "json", "--columns", "id"
    )
    assert [row["id"] for row in where.json] == [200, 201, 202, 203, 204]


def test_files_that_partition_values_rule_out_are_not_opened(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    table = make(tmp_path / "t")
    os.unlink(table / "1.parquet")
    found = deltacli("head", table, "--where", "p = 2 and id <> 202", "-o", "json")
    assert (found.code, len(found.json)) == (0, 4)
    broken = deltacli("head", table, "--where", "p < 2")
    assert (broken.code, broken.stdout) == (5, "")
    assert broken.stderr.startswith("error: the data file 1.parquet")
    (table / "2.parquet").write_bytes(b"PAR1 no")
    assert deltacli("head", table, "--where", "p = 2").code == 5


def test_wrong_requests_are_clear_errors(tmp_path: Path, deltacli: Deltacli) -> None:
    table = make(tmp_path / "t")
    for code, *arguments in (
        (3, "--columns", "nope"),
        (2, "--columns", "id,,name"),
        (2, "-n", "-1"),
        (2, "--fields", "nope"),
        (2, "--where", "abs(id) = 1", "--engine", "local"),
        (3, "--where", "nope = 1", "--engine", "local"),
        (3, "--at", "9"),
    ):
        result = deltacli("head", table, *arguments)
        assert (result.code, result.stdout) == (code, ""), arguments
        assert "hint: " in result.stderr


def test_values_are_shown_exactly(tmp_path: Path, deltacli: Deltacli) -> None:
    root = tmp_path / "t"
    table = TableBuilder(LocalStore(str(root)))
    struct = {"type": "struct", "fields": [column("a", "decimal(38,3)")]}
    texts = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    kinds = {
        "d": "decimal(38,3)", "f": "double", "y": "binary", "t": "timestamp",
        "u": "timestamp_ntz", "e": "date", "s": struct, "m": {**texts, "keyType": "integer"},
        "k": texts, "l": "long",
    }  # fmt: skip
    table.commit(protocol(), metadata(*(column(name, kind) for name, kind in kinds.items())))
    big = Decimal("12345678901234567890123456789012345.678")
    data = {
        "d": pa.array([big], pa.decimal128(38, 3)),
        "f": [float("inf")],
        "y": [b"\x00\xff"],
        "t": pa.array([1], pa.timestamp("us", "UTC")),
        "u": pa.array([1], pa.timestamp("us")),
        "e": pa.array([-1], pa.date32()),
        "s": pa.array([{"a": big}], pa.struct([("a", pa.decimal128(38, 3))])),
        "m": pa.array([[(1, "x")]], pa.map_(pa.int32(), pa.string())),
        "k": pa.array([[("a", None)]], pa.map_(pa.string(), pa.string())),
        "l": [2**63 - 1],
    }
    pq.write_table(pa.table(data), root / "f.parquet")
    table.commit(add("f.parquet"))
    text = deltacli("head", root, "-o", "jsonl").stdout
    assert text == (
        '{"d":12345678901234567890123456789012345.678,"f":"Infinity","y":"AP8=",'
        '"t":"1970-01-01T00:00:00.000001Z","u":"1970-01-01T00:00:00.000001","e":"1969-12-31",'
        '"s":{"a":12345678901234567890123456789012345.678},"m":[{"key":1,"value":"x"}],'
        '"k":{"a":null},"l":9223372036854775807}\n'
    )


# -- found by looking for trouble -------------------------------------------------------------


def one_file(root: Path, data: pa.Table, *columns: Any, head: Any = None, **more: Any) -> Path:
    """A table of one file."""
    root.mkdir(parents=True, exist_ok=True)
    row_group_size = more.pop("row_group_size", None)
    pq.write_table(data, root / "f.parquet", row_group_size=row_group_size)
    table = TableBuilder(LocalStore(str(root)))
    table.commit(head or protocol(), metadata(*columns), add("f.parquet", **more))
    return root


def test_vectors_fit_wherever_a_batch_begins(tmp_path: Path, deltacli: Deltacli) -> None:
    """A dictionary column makes batches begin at any row."""
    count = 20_000
    gone = set(range(0, count, 7)) | {65_535, 0, 8190, 8191, 8192}
    texts = pa.array([f"t{n % 5}" for n in range(count)]).dictionary_encode()
    data = pa.table({"id": list(range(count)), "s": texts})
    table = one_file(
        tmp_path / "t", data, column("id"), column("s", "string"),
        head=features("deletionVectors"), row_group_size=1001, deletionVector=inline(gone),
    )  # fmt: skip
    rows = deltacli("head", table, "-n", "100000", "-o", "jsonl").rows
    assert [row["id"] for row in rows] == [n for n in range(count) if n not in gone]


def test_vectors_of_files_that_are_not_read_are_not_read(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    root = make(tmp_path / "t")
    missing = {"storageType": "p", "pathOrInlineDv": f"file://{root}/no.bin", "offset": 1,
               "sizeInBytes": 40, "cardinality": 1}  # fmt: skip
    more = [features("deletionVectors"), remove("1.parquet")]
    again = add("1.parquet", partitionValues={"p": "1"}, deletionVector=missing)
    table = TableBuilder(LocalStore(str(root)))
    table.commit(*more, again, version=3)
    assert len(deltacli("head", root, "--where", "p = 2", "-o", "json").json) == 5
    assert deltacli("head", root, "-n", "0").code == 0
    assert deltacli("head", root, "--where", "p = 1").code == 5


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("integer", pa.array([2**40])), ("short", pa.array([70_000], pa.int32())),
        ("long", pa.array([1.9])), ("long", pa.array([2**64 - 1], pa.uint64())),
        ("float", pa.array([1e300])), ("timestamp", pa.array([5])), ("date", pa.array(["x"])),
        ("decimal(6,2)", pa.array([Decimal("1.2345")])), ("string", pa.array([1])),
        ({"type": "array", "elementType": "long", "containsNull": True}, pa.array([1])),
        ({"type": "struct", "fields": [column("a")]}, pa.array([1])),
        ("decimal(5,1)", pa.array(["1"])),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_the_schema_is_no_guess(
    tmp_path: Path, deltacli: Deltacli, kind: Any, data: Any
) -> None:
    table = one_file(tmp_path / "t", pa.table({"c": data}), column("c", kind))
    result = deltacli("head", table, "--engine", "local")
    assert (result.code, result.stdout) == (5, ""), result.stdout
    assert "f.parquet" in result.stderr
    assert "Traceback" not in result.stderr


def test_odd_but_sound_arrow_types_are_read(tmp_path: Path, deltacli: Deltacli) -> None:
    numbers = {"type": "array", "elementType": "long", "containsNull": True}
    data = pa.table(
        {
            "fixed": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2)),
            "large": pa.array([[1], None], pa.large_list(pa.int64())),
            "text": pa.array(["a", None], pa.large_string()),
            "ns": pa.array([-1, 1_001], pa.timestamp("ns")),
            "small": pa.array([1, 2], pa.uint8()),
        }
    )
    columns = [
        column("fixed", numbers), column("large", numbers), column("text", "string"),
        column("ns", "timestamp_ntz"), column("small", "integer"),
    ]  # fmt: skip
    table = one_file(tmp_path / "t", data, *columns)
    assert [list(row.values()) for row in deltacli("head", table, "-o", "jsonl").rows] == [
        [[1, 2], [1], "a", "1969-12-31T23:59:59.999999", 1],
        [[3, 4], None, None, "1970-01-01T00:00:00.000001", 2],
    ]


def test_values_that_python_has_not_are_shown_all_the_same(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    data = pa.table(
        {
            "day": pa.array([10_000_000], pa.int32()).cast(pa.date32()),
            "moment": pa.array([2**60], pa.timestamp("us", "UTC")),
            "text": broken,
            "empty": pa.array([[]], pa.map_(pa.string(), pa.int64())),
        }
    )
    longs = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    columns = [
        column("day", "date"), column("moment", "timestamp"), column("text", "string"),
        column("empty", longs),
    ]  # fmt: skip
    table = one_file(tmp_path / "t", data, *columns)
    result = deltacli("head", table, "-o", "json", "--engine", "local")
    assert result.code == 0, result.stderr
    assert result.json[0]["empty"] == {}
    assert result.json[0]["day"].startswith("29349-")
    assert result.json[0]["text"] == "\ufffd"


def test_a_column_is_named_once(tmp_path: Path, deltacli: Deltacli) -> None:
    assert deltacli("head", make(tmp_path / "t"), "--columns", "id,ID").code == 2


@pytest.mark.parametrize(
    "text",
    ["(" * 3000 + "i = 1" + ")" * 3000, "d = " + "1" * 80, "f = 1" + "0" * 400, "i = 1and b",
     "f = 1e400", "day = '20240131'", "day = date '2024-W05-3'", "i = " + "9" * 6000],
)  # fmt: skip
def test_conditions_beyond_measure_are_left_to_spark(text: str) -> None:
    (batch,) = DATA.to_batches()
    with pytest.raises(NotSimple):
        holds(parse_condition(text), batch)
