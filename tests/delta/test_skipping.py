"""Files are left out only if no row of theirs can match."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.delta.arrow_types import arrow_type
from deltacli.delta.predicates import parse_condition
from deltacli.delta.schema import parse_schema
from deltacli.delta.skipping import may_match
from deltacli.delta.stats import parse_stats
from deltacli.local.filters import holds
from tests.builder import column

KINDS = {"i": "integer", "d": "decimal(8,2)", "f": "double", "s": "string", "t": "timestamp",
         "day": "date", "p": "integer"}  # fmt: skip
SCHEMA = parse_schema(
    json.dumps({"type": "struct", "fields": [column(name, kind) for name, kind in KINDS.items()]})
)
MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "d": st.integers(-300, 300).map(lambda one: Decimal(one) / 100),
    "f": st.sampled_from([-1.0, 0.0, -0.0, 1.5, float("nan"), float("inf")]),
    "s": st.text("ab\u00e9\U0001f600", max_size=40),
    "t": st.integers(-100, 100).map(lambda one: MOMENT + timedelta(minutes=one, microseconds=7)),
    "day": st.integers(0, 5).map(lambda one: date(2024, 1, 1) + timedelta(days=one)),
}
row = st.fixed_dictionaries({name: st.none() | one for name, one in VALUES.items()})
LITERALS = {
    "i": st.integers(-4, 4).map(str),
    "d": st.integers(-4, 4).map(lambda one: f"{one}.25"),
    "f": st.sampled_from(["-1e0", "0", "1.5e0", "2"]),
    "s": st.text("ab\u00e9", max_size=3).map(lambda one: f"'{one}'"),
    "t": st.integers(-2, 2).map(lambda one: f"'{(MOMENT + timedelta(hours=one)).isoformat()}'"),
    "day": st.integers(0, 6).map(lambda one: f"date '2024-01-0{one + 1}'"),
    "p": st.integers(0, 2).map(str),
}
leaf = st.sampled_from(sorted(LITERALS)).flatmap(
    lambda name: st.one_of(
        st.tuples(
            st.just(name), st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]), LITERALS[name]
        ).map(" ".join),
        st.lists(LITERALS[name] | st.just("null"), min_size=1, max_size=3).map(
            lambda values: f"{name} in ({', '.join(values)})"
        ),
        st.sampled_from([f"{name} is null", f"{name} is not null", f"{name} <=> null"]),
    )
)
condition = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda x: f"({' '.join(x)})"),
        inner.map(lambda text: f"not ({text})"),
    ),
    max_leaves=5,
)


def statistics(rows: list[dict[str, Any]], tight: bool) -> str:
    """What a writer keeps of rows: bounds cut as Delta Spark cuts them, times to milliseconds."""
    low, high, nulls = {}, {}, {}
    for name in VALUES:
        values = [one[name] for one in rows if one[name] is not None]
        nulls[name] = len(rows) - len(values)
        plain = [one for one in values if one == one]
        if not plain:
            continue
        first, last = min(plain), max(plain)
        if name == "s":
            first = first[:5]
            last = last if len(last) <= 5 else last[:5] + "\U0010ffff"
        if name == "t":
            first, last = (f"{one:%Y-%m-%dT%H:%M:%S}.{one.microsecond // 1000:03}Z"
                           for one in (first, last))  # fmt: skip
        if name == "day":
            first, last = first.isoformat(), last.isoformat()
        if name == "f" and float("inf") in (first, last):
            continue
        low[name], high[name] = first, last
    text = json.dumps(
        {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls,
         "tightBounds": tight},
        default=lambda one: f"@{one}@",
    )  # fmt: skip
    return text.replace('"@', "").replace('@"', "")


@settings(max_examples=400, deadline=None)
@given(
    rows=st.lists(row, min_size=1, max_size=6),
    text=condition,
    part=st.none() | st.integers(0, 2),
    deleted=st.booleans(),
)
def test_a_file_with_a_matching_row_is_never_left_out(
    rows: list[dict[str, Any]], text: str, part: int | None, deleted: bool
) -> None:
    stats = statistics(rows, tight=not deleted)
    if deleted:  # a vector takes rows away, the statistics stay
        rows = rows[::2]
    data = {name: [one[name] for one in rows] for name in VALUES} | {"p": [part] * len(rows)}
    types = {one.name: arrow_type(one.type) for one in SCHEMA.fields}
    table = pa.table({name: pa.array(values, types[name]) for name, values in data.items()})
    tree = parse_condition(text)
    matches = any(any(holds(tree, batch).to_pylist()) for batch in table.to_batches())
    found = may_match(tree, SCHEMA, {"p": part}, parse_stats(stats), is_mapped=False)
    assert found or not matches


STATS = (
    '{"numRecords":4,"minValues":{"i":2,"s":"bb","d":1.10,"day":"2024-01-02"},'
    '"maxValues":{"i":5,"s":"cc","d":9.99,"day":"2024-01-03"},'
    '"nullCount":{"i":0,"s":4,"d":1,"day":0}}'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 1", False), ("i = 2", True), ("i > 5", False), ("i >= 5", True), ("i < 2", False),
        ("i <> 3", True), ("i in (0, 1, 6)", False), ("i in (0, 3)", True), ("i is null", False),
        ("i is not null", True), ("not i >= 2", False), ("not (i < 9)", False), ("s = 'bb'", False),
        ("s is null", True), ("s is not null", False), ("d > 10", False), ("d < 1.11", True),
        ("day = '2024-01-01'", False), ("day > date '2024-01-02'", True), ("p = 1", True),
        ("p = 2", False), ("p <> 1", False), ("p is null", False), ("i = 1 or p = 2", False),
        ("i = 3 and p = 2", False), ("i = 1 or d > 5", True), ("i = null", False),
        ("i <=> null", False), ("f > 1e9", True), ("t = '2024-01-01'", True),
    ],
)  # fmt: skip
def test_files_are_left_out_where_the_log_says_enough(text: str, expected: bool) -> None:
    got = may_match(parse_condition(text), SCHEMA, {"p": 1}, parse_stats(STATS), is_mapped=False)
    assert got is expected


def test_broken_statistics_leave_nothing_out() -> None:
    for stats in (
        None,
        "",
        "{",
        "[]",
        '{"minValues":3,"maxValues":{"i":"x"},"nullCount":{"i":"0"}}',
    ):
        facts = parse_stats(stats)
        assert may_match(parse_condition("i = 1"), SCHEMA, {}, facts, is_mapped=False)


def test_bounds_hold_whatever_a_writer_rounds_or_cuts() -> None:
    kinds = {"d": "decimal(22,2)", "f": "float", "s": "string", "n": "timestamp_ntz"}
    tree = {"type": "struct", "fields": [column(name, kind) for name, kind in kinds.items()]}
    schema = parse_schema(json.dumps(tree))
    rounded = (
        '{"numRecords":1,"minValues":{"d":1.2345678901234567e+19,"f":0.7,"s":"a"},'
        '"maxValues":{"d":1.2345678901234567e+19,"f":0.7,"s":"aa\\ufffd"},"nullCount":{"d":0}}'
    )
    for text in (
        "d = 12345678901234567890.12", "d > 12345678901234567890.11", "f < 0.7",
        "s > 'aa😀'", "n > '2024-01-01'",
    ):  # fmt: skip
        partition = {"n": datetime(2024, 1, 1, 12)}
        facts = parse_stats(rounded)
        assert may_match(parse_condition(text), schema, partition, facts, is_mapped=False), text
