"""`head` by Spark, and that the engines cannot be told apart by their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.builder import TableBuilder, add, column, metadata, protocol
from tests.conftest import Result
from tests.operations.test_head import DATA, make
from tests.rows import multiset

pytest.importorskip("pyspark", reason="PySpark is not installed")
from deltacli.delta.predicates import parse_condition
from deltacli.local.filters import holds
from deltacli.storage.local import LocalStore

Deltacli = Callable[..., Result]

_COMPARE = ("=", "<>", "<", "<=", ">", ">=", "<=>")
_LEAVES = {
    "i": ("-1", "0", "1", "2", "4", "null"),
    "d": ("1.1", "2", "-3.5", "0.005", "null"),
    "f": ("1.5e0", "-1", "2.25"),
    "s": ("'a'", "'b%'", "'it''s'", "''", "null"),
    "t": ("'1970-01-01'", "timestamp '1970-01-02T00:00:00Z'"),
    "day": ("date '1970-01-02'", "'1970-01-03'"),
    "n.`x y`": ("1", "3"),
}
leaf = st.one_of(
    *(
        st.tuples(st.just(name), st.sampled_from(_COMPARE), st.sampled_from(values)).map(" ".join)
        for name, values in _LEAVES.items()
    ),
    st.sampled_from([f"{name} is null" for name in _LEAVES]),
    st.sampled_from([f"{name} is not null" for name in _LEAVES]),
    st.sampled_from(
        ["b", "not b", "i in (1, 4)", "i in (2, null)", "i between 1 and 3", "s like '%''%'",
         "s not like '_'", "d in (1.1, 2.0)", "day between '1970-01-01' and '1970-01-02'"]
    ),
)  # fmt: skip
condition = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda x: f"({' '.join(x)})"),
        inner.map(lambda text: f"not ({text})"),
    ),
    max_leaves=6,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(texts=st.lists(condition, min_size=12, max_size=12))
def test_conditions_mean_here_what_they_mean_to_spark(spark: Any, texts: list[str]) -> None:
    (batch,) = DATA.to_batches()
    frame = spark.createDataFrame(DATA)
    columns = [f"({text}) as c{number}" for number, text in enumerate(texts)]
    theirs = frame.selectExpr(*columns).toArrow()
    for number, text in enumerate(texts):
        assert (
            holds(parse_condition(text), batch).to_pylist() == theirs.column(number).to_pylist()
        ), text


def test_both_engines_give_the_same_rows(spark: Any, tmp_path: Path, deltacli: Deltacli) -> None:
    table = make(tmp_path / "t")
    for arguments in (
        (), ("--where", "id > 102 and p = 1"), ("--columns", "P,name"), ("--at", "1"),
        ("--where", "name is null"),
    ):  # fmt: skip
        answers = [
            deltacli("head", table, *arguments, "-n", "100", "-o", "json", "--engine", engine)
            for engine in ("local", "spark")
        ]
        assert [one.code for one in answers] == [0, 0], answers[1].stderr
        assert multiset(answers[0].json) == multiset(answers[1].json)
        assert [list(row) for row in answers[0].json] == [list(row) for row in answers[1].json]


def test_what_takes_sql_goes_to_spark(spark: Any, tmp_path: Path, deltacli: Deltacli) -> None:
    table = make(tmp_path / "t")
    found = deltacli("head", table, "--where", "pmod(id, 100) = 1", "-o", "json", "-v")
    assert found.code == 0, found.stderr
    assert Counter(row["id"] for row in found.json) == Counter([101, 201])
    assert "rows are read by the spark engine" in found.stderr
    assert len(deltacli("head", table, "--where", "id > 1", "-n", "3", "-o", "json").json) == 3
    for wrong in ("id >", "count(*) > 1", "1 / 0 = id", "name + 1 = 2"):
        result = deltacli("head", table, "--where", wrong)
        assert (result.code, result.stdout) == (2, ""), result.stderr
        assert "hint: " in result.stderr
    assert deltacli("head", table, "--spark-conf", "x", "--where", "abs(id) = 1").code == 2
    assert deltacli("head", table, "--spark-conf", "a=b", "--engine", "local").code == 2
    assert "Traceback" not in found.stderr


def test_rows_with_nan_are_not_passed_over(spark: Any, tmp_path: Path, deltacli: Deltacli) -> None:
    """Footers leave NaN out of the greatest value; Spark takes it for the greatest."""
    root = tmp_path / "t"
    root.mkdir()
    table = TableBuilder(LocalStore(str(root)))
    table.commit(protocol(), metadata(column("x", "double"), column("g", "float")))
    data = pa.table({"x": [float("nan"), 1.0], "g": pa.array([float("nan"), 1.0], pa.float32())})
    pq.write_table(data, root / "f.parquet")
    table.commit(add("f.parquet"))
    for condition in ("x > 5", "x != 1", "not x <= 5", "g > 5"):
        found = deltacli("head", root, "--where", condition, "--engine", "spark", "-o", "json")
        assert found.json == [{"x": "NaN", "g": "NaN"}], condition


def test_a_missing_file_is_a_clear_error(spark: Any, tmp_path: Path, deltacli: Deltacli) -> None:
    table = make(tmp_path / "t")
    (table / "1.parquet").unlink()
    result = deltacli("head", table, "--engine", "spark")
    assert result.code == 5
    assert result.stderr.startswith("error: a data file is missing or broken")
    assert "1.parquet" in result.stderr
    assert "Traceback" not in result.stderr


def test_variants_are_shown_as_what_they_hold(spark: Any, deltacli: Deltacli) -> None:
    from tests.test_golden import GOLDEN

    name = "delta-spark/variant-stats-no-checkpoint"
    if not (GOLDEN / name).exists():
        pytest.skip(f"no tables in {GOLDEN}")
    rows = deltacli("head", GOLDEN / name, "-o", "json").json
    assert rows
    assert all(isinstance(value, dict) for row in rows for value in list(row.values())[1:])
