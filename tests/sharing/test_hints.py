"""Hints leave out only files without a row that matches (reference 2.3, 2.4)."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.delta.schema import Struct, parse_schema
from deltacli.sharing.hints import read_hints
from deltacli.sharing.server.sieve import Partitions, Sieve
from tests.builder import column

Tree = dict[str, Any]


def schema_of(**types: Any) -> Struct:
    fields = [
        kind if isinstance(kind, dict) else column(name, kind) for name, kind in types.items()
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": fields}))


def col(name: str, kind: str) -> Tree:
    return {"op": "column", "name": name, "valueType": kind}


def lit(value: str, kind: str) -> Tree:
    return {"op": "literal", "value": value, "valueType": kind}


def op(name: str, *children: Tree) -> Tree:
    return {"op": name, "children": list(children)}


def keeps(
    schema: Struct,
    hint: Tree | str,
    stats: Mapping[str, Any] | str | None = None,
    partition: Mapping[str, str | None] | None = None,
    *,
    is_mapped: bool = False,
) -> bool:
    """Whether a file with these statistics and partition values is in the answer."""
    partitions = Partitions(schema, tuple(partition or ()), is_mapped=is_mapped)
    texts = {partitions.keys[name]: value for name, value in (partition or {}).items()}
    if isinstance(hint, str):
        hints = read_hints([hint], None, schema)
    else:
        hints = read_hints([], json.dumps(hint), schema)
    if not hints.conditions:
        return True
    sieve = Sieve(hints.conditions, partitions, with_statistics=True)
    text = stats if isinstance(stats, str) else None if stats is None else json.dumps(stats)
    quoted = None if text is None else json.dumps(text)
    return sieve.lets_through(json.dumps(texts), quoted)


def of(name: str, low: Any, high: Any, nulls: int = 0, rows: int = 10, **more: Any) -> Any:
    return {
        "numRecords": rows,
        "minValues": {name: low},
        "maxValues": {name: high},
        "nullCount": {name: nulls},
        **more,
    }


LONG, INT = schema_of(x="long"), schema_of(x="integer")
TEXT, DOUBLE = schema_of(s="string"), schema_of(f="double")
IS_NULL = op("isNull", col("x", "long"))
EQ5 = op("equal", col("x", "long"), lit("5", "long"))


def test_what_cannot_match_is_left_out() -> None:
    assert keeps(LONG, EQ5, of("x", 5, 5))
    assert not keeps(LONG, EQ5, of("x", 6, 9))
    assert not keeps(LONG, "x < 5 and x > 1", of("x", 6, 9))


def test_1_not_inverts_what_is_true_not_what_may_match() -> None:
    assert keeps(LONG, op("not", EQ5), of("x", 5, 6))
    assert keeps(LONG, "not (x = 5)", of("x", 1, 9))
    assert not keeps(LONG, op("not", EQ5), of("x", 5, 5))


def test_2_a_file_may_have_both_nulls_and_values() -> None:
    assert keeps(LONG, IS_NULL, of("x", 1, 9, nulls=1))
    assert keeps(LONG, op("not", IS_NULL), of("x", 1, 9, nulls=1))
    assert not keeps(LONG, IS_NULL, of("x", 1, 9))


def test_3_a_null_partition_value_is_null() -> None:
    assert keeps(LONG, IS_NULL, None, {"x": None})
    assert not keeps(LONG, op("not", IS_NULL), None, {"x": None})
    assert not keeps(LONG, EQ5, None, {"x": None})


def test_4_without_statistics_nothing_is_known() -> None:
    assert keeps(LONG, op("not", IS_NULL))
    assert keeps(LONG, op("not", IS_NULL), {"numRecords": 3})
    assert keeps(LONG, IS_NULL, {"numRecords": 3})


@pytest.mark.parametrize("text", ["abc", "a" * 32])
def test_5_the_greatest_text_may_have_been_cut(text: str) -> None:
    assert keeps(TEXT, f"s = '{text}zz'", of("s", "a", text))
    assert keeps(TEXT, f"s > '{text}'", of("s", "a", text))
    assert not keeps(TEXT, "s > 'b'", of("s", "a", text))


def test_6_times_in_statistics_are_cut_to_milliseconds() -> None:
    schema = schema_of(t="timestamp")
    hint = op("greaterThan", col("t", "timestamp"), lit("2024-01-01T00:00:00.000500Z", "timestamp"))
    assert keeps(schema, hint, of("t", "2024-01-01T00:00:00.000Z", "2024-01-01T00:00:00.000Z"))


def test_7_a_literal_with_a_zone_says_nothing_about_times_without() -> None:
    schema = schema_of(t="timestamp_ntz")
    hint = op("equal", col("t", "timestamp"), lit("2030-01-01T00:00:00Z", "timestamp"))
    assert keeps(schema, hint, of("t", "2024-01-01T00:00:00", "2024-01-01T00:00:00"))


def test_8_nan_is_above_everything_and_in_no_statistics() -> None:
    for hint in ("f > 100", "f >= 100", "not (f = 1)", "not (f < 9)", "not (f <= 9)"):
        assert keeps(DOUBLE, hint, of("f", 1.0, 1.0)), hint
    assert keeps(DOUBLE, "f = 0", of("f", -0.0, -0.0))


def test_9_numbers_are_exact() -> None:
    schema = schema_of(d="decimal(38,18)")
    text = '{"numRecords":1,"minValues":{"d":0.1},"maxValues":{"d":0.100000000000000001}}'
    assert keeps(schema, "d = 0.100000000000000001", text)
    big = 2**53 + 1
    assert keeps(LONG, f"x = {big}", of("x", big, big))
    assert not keeps(LONG, f"x = {big - 1}", of("x", big, big))


def test_10_loose_bounds_are_bounds_and_counts_only_at_their_ends() -> None:
    loose = of("x", 1, 9, nulls=10, tightBounds=False)
    assert keeps(LONG, EQ5, loose)
    assert not keeps(LONG, "x > 9", of("x", 1, 9, tightBounds=False))
    assert keeps(LONG, IS_NULL, of("x", 1, 9, nulls=3, tightBounds=False))


def test_14_hints_have_logical_names() -> None:
    mapped = schema_of(
        x=column("x", "long", **{"delta.columnMapping.physicalName": "col-1"}),
        p=column("p", "long", **{"delta.columnMapping.physicalName": "col-2"}),
    )
    assert not keeps(mapped, EQ5, of("col-1", 6, 9), is_mapped=True)
    assert keeps(mapped, EQ5, of("x", 6, 9), is_mapped=True)
    assert not keeps(mapped, "p = 4", None, {"p": "5"}, is_mapped=True)


def test_15_case_does_not_matter_and_dots_are_ambiguous() -> None:
    assert not keeps(LONG, op("equal", col("X", "long"), lit("5", "long")), of("x", 6, 9))
    nested = {"type": "struct", "fields": [column("b", "long")]}
    both = parse_schema(
        json.dumps({"type": "struct", "fields": [column("a", nested), column("a.b", "long")]})
    )
    hint = op("equal", col("a.b", "long"), lit("5", "long"))
    stats = {"numRecords": 1, "minValues": {"a": {"b": 9}, "a.b": 9}, "maxValues": {"a.b": 9}}
    assert keeps(both, hint, stats)
    alone = parse_schema(json.dumps({"type": "struct", "fields": [column("a", nested)]}))
    inside = {"numRecords": 1, "minValues": {"a": {"b": 9}}, "maxValues": {"a": {"b": 9}}}
    assert not keeps(alone, hint, inside)


@pytest.mark.parametrize(
    ("kind", "text", "matching", "other"),
    [
        ("long", "10", "p > 9", "p < 9"),
        ("date", "2024-02-01", "p = date '2024-02-01'", "p < date '2024-01-31'"),
        ("boolean", "TRUE", "p = true", "p = false"),
        ("boolean", "true", "not (p = false)", "not (p = true)"),
        ("timestamp", "2024-01-01 00:00:00.123456", "p >= timestamp '2023-12-31 00:00:00Z'",
         "p > timestamp '2024-02-01 00:00:00Z'"),
        ("timestamp", "2024-01-01T00:00:00Z", "p < '2025-01-01'", "p < '2023-01-01'"),
        ("string", "10", "p < '9'", "p > '9'"),
        ("decimal(4,1)", "9.5", "p > 9.25", "p > 10.25"),
    ],
)  # fmt: skip
def test_16_partition_texts_compare_as_their_types(
    kind: str, text: str, matching: str, other: str
) -> None:
    schema = schema_of(p=kind)
    assert keeps(schema, matching, None, {"p": text})
    assert not keeps(schema, other, None, {"p": text})
    assert keeps(schema, other, None, {"p": "not like this"}) or kind == "string"


def test_17_an_empty_partition_text_is_null() -> None:
    schema = schema_of(p="string")
    assert keeps(schema, "p is null", None, {"p": ""})
    assert not keeps(schema, "p = ''", None, {"p": ""})


@pytest.mark.parametrize(
    ("column_type", "value_type", "value"),
    [
        ("string", "int", "5"),
        ("string", "long", "5"),
        ("long", "int", "5"),
        ("long", "string", "5"),
        ("double", "float", "5"),
        ("timestamp", "date", "2030-01-01"),
        ("date", "timestamp", "2030-01-01T00:00:00Z"),
        ("integer", "bool", "true"),
    ],
)
def test_18_a_value_type_that_changes_the_order_says_nothing(
    column_type: str, value_type: str, value: str
) -> None:
    schema = schema_of(x=column_type)
    hint = op("equal", col("x", value_type), lit(value, value_type))
    low = "2024-01-01" if column_type in ("timestamp", "date") else 9
    assert keeps(schema, hint, of("x", low, low))
    assert keeps(schema, hint, None, {"x": str(low)})


def test_18_a_wider_value_type_keeps_the_order() -> None:
    assert not keeps(INT, EQ5, of("x", 6, 9))
    schema = schema_of(x="float")
    assert not keeps(schema, op("equal", col("x", "double"), lit("5", "double")), of("x", 6, 9))


def test_19_what_is_unknown_is_neither_true_nor_false() -> None:
    unknown = op("equal", col("nobody", "long"), lit("1", "long"))
    never = op("equal", col("x", "long"), lit("99", "long"))
    stats = of("x", 1, 9)
    assert keeps(LONG, op("or", never, unknown), stats)
    assert not keeps(LONG, op("and", never, unknown), stats)
    assert keeps(LONG, op("not", op("and", op("not", never), unknown)), stats)
    assert not keeps(LONG, op("not", op("or", op("not", never), unknown)), stats)


@pytest.mark.parametrize(
    "field",
    [
        column("s", "string", __COLLATIONS={"s": "spark.UTF8_LCASE"}),
        column("s", "string", __CHAR_VARCHAR_TYPE_STRING="char(5)"),
        column("s", "binary"),
    ],
)
def test_20_texts_with_an_order_of_their_own_say_nothing(field: dict[str, Any]) -> None:
    assert keeps(schema_of(s=field), "s = 'zz'", of("s", "a", "b"))
    assert keeps(schema_of(s=field), "s = 'zz'", None, {"s": "a"})


def test_21_bounds_of_a_narrower_type_compare_in_the_wider() -> None:
    changes = [{"fromType": "integer", "toType": "double"}]
    schema = schema_of(x=column("x", "double", **{"delta.typeChanges": changes}))
    assert keeps(schema, "x = 5", of("x", 5, 5))
    assert not keeps(schema, "x < 5", of("x", 5, 5))
    was_float = [{"fromType": "float", "toType": "double"}]
    schema = schema_of(x=column("x", "double", **{"delta.typeChanges": was_float}))
    assert keeps(schema, "x = 0.10000000149011612", of("x", 0.1, 0.1))


def test_a_comparison_with_null_says_nothing() -> None:
    assert keeps(LONG, "x = null", of("x", 1, 9))
    assert keeps(LONG, "not (x = null)", of("x", 1, 9))
    assert not keeps(LONG, "x <=> null", of("x", 1, 9))


@pytest.mark.parametrize(
    "text",
    ["(d = CAST('2021-04-28' AS DATE))", "(`d` <=> CAST('2021-04-28' AS DATE))",
     "((d >= DATE '2021-04-28') AND NOT (d > '2021-04-30'))", "d IN ('2021-04-28')",
     "d between '2021-04-27' and '2021-04-29'", "'2021-04-28' = d"],
)  # fmt: skip
def test_sql_as_clients_write_it_is_understood(text: str) -> None:
    schema = schema_of(d="date")
    assert keeps(schema, text, None, {"d": "2021-04-28"})
    assert not keeps(schema, text, None, {"d": "2021-05-28"})


def test_numbers_may_be_marked_as_spark_marks_them() -> None:
    for text in ("x = 5L", "(x = 5S)", "x = 5Y", "x = 5.0BD", "x = 5.0D", "x = 5bd"):
        assert keeps(LONG, text, of("x", 5, 5))
    assert not keeps(LONG, "x = 5L", of("x", 6, 9))
    assert not keeps(DOUBLE, "f < 1.5D", of("f", 2, 3))
    assert read_hints(["x = 5.5L"], None, LONG).conditions == ()


def test_odd_numbers_in_a_log_are_no_reason_to_fail() -> None:
    schema = schema_of(d="decimal(4,1)")
    for text in ("NaN", "sNaN", "Infinity", "-Infinity", "1e999999"):
        assert keeps(schema, "d > 5", None, {"d": text})
    stats = '{"numRecords":1,"minValues":{"d":1e999999999},"maxValues":{"d":1e999999999}}'
    assert keeps(schema, "d > 5", stats)
    assert keeps(schema, "d is null", stats)


def test_sql_texts_have_their_escapes() -> None:
    assert keeps(TEXT, r"s = 'it\'s'", None, {"s": "it's"})
    assert keeps(TEXT, "s = 'it''s'", None, {"s": "it's"})
    assert not keeps(TEXT, r"s = 'it\'s'", None, {"s": "its"})


GARBAGE: list[Any] = [
    "", "{", "[]", "null", "5", '"x"', "{}", '{"op":"="}', '{"op":"equal"}',
    '{"op":"equal","children":[]}', '{"op":"and","children":[]}', '{"op":"not","children":5}',
    '{"jsonPredicateHints":{}}', json.dumps(op("equal", col("x", "integer"), lit("5", "integer"))),
    json.dumps(op("equal", col("x", "long"), lit("five", "long"))),
    json.dumps(op("equal", col("x", "long"), lit("\u0661", "long"))),
    json.dumps(op("equal", col("x", "double"), lit("1_0", "double"))),
    '{"op":["x"],"children":[1,2]}', '{"op":{"a":1},"children":[{},{}]}',
    json.dumps(op("equal", col("x", "long"), {"op": "literal", "valueType": "long"})),
    json.dumps(op("isNull", lit("5", "long"))), json.dumps(op("isNull", op("not", IS_NULL))),
    json.dumps(op("equal", col("x", "long"), EQ5)), "[" * 5000, '{"op":' * 900,
    json.dumps(col("x", "long")), {"op": "equal"}, 5, ["x"], True, "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("hint", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_passed_over(hint: Any) -> None:
    hints = read_hints([], hint, LONG)
    assert hints.conditions == ()
    assert len(hints.skipped) == 1


def test_deep_and_long_hints_are_passed_over() -> None:
    deep: Tree = EQ5
    for _ in range(101):
        deep = op("not", deep)
    assert not read_hints([], json.dumps(deep), LONG).conditions
    assert not read_hints([], json.dumps(deep)[:-1] + " " * (1 << 20) + "}", LONG).conditions
    assert not read_hints(["x = 1 or " * 20_000 + "x = 1"], None, LONG).conditions
    assert not read_hints(["(" * 3000 + "x = 1" + ")" * 3000], None, LONG).conditions
    assert not read_hints(["not " * 3000 + "x = 1"], None, LONG).conditions
    assert not read_hints(["x = 1"] * 1500, None, LONG).conditions
    assert len(read_hints(["x = 1"] * 10, None, LONG).conditions) == 10
    assert len(read_hints(["x = 1"] * 100_000, None, LONG).skipped) <= 2


# -- against an oracle -----------------------------------------------------------------

KINDS = {"i": "int", "n": "long", "s": "string", "d": "date", "t": "timestamp", "f": "double",
         "b": "bool", "p": "int"}  # fmt: skip
TYPES = {"i": "integer", "n": "long", "s": "string", "d": "date", "t": "timestamp",
         "f": "double", "b": "boolean", "p": "integer"}  # fmt: skip
SCHEMA = schema_of(**TYPES)
DAY, MOMENT = date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "n": st.integers(-3, 3).map(lambda one: one + 2**53),
    "s": st.text("ab\U0001f600", max_size=3),
    "d": st.integers(0, 4).map(lambda one: DAY + timedelta(days=one)),
    "t": st.integers(-3, 3).map(lambda one: MOMENT + timedelta(days=one, microseconds=7)),
    "f": st.sampled_from([-1.0, -0.0, 0.0, 1.5, float("nan"), float("inf")]),
    "b": st.booleans(),
}
row = st.fixed_dictionaries({name: st.none() | one for name, one in VALUES.items()})
SIGNS = {"equal": operator.eq, "lessThan": operator.lt, "lessThanOrEqual": operator.le,
         "greaterThan": operator.gt, "greaterThanOrEqual": operator.ge}  # fmt: skip


def text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)


def comparison(name: str) -> st.SearchStrategy[Tree]:
    kind = KINDS[name]
    values = st.integers(0, 2) if name == "p" else VALUES[name].filter(lambda one: one == one)
    return st.tuples(st.sampled_from(sorted(SIGNS)), values, st.booleans()).map(
        lambda x: op(x[0], *([col(name, kind), lit(text_of(x[1]), kind)][:: -1 if x[2] else 1]))
    )


leaf = st.sampled_from(sorted(KINDS)).flatmap(
    lambda name: comparison(name) | st.just(op("isNull", col(name, KINDS[name])))
)
tree = st.recursive(
    leaf,
    lambda inner: st.one_of(
        inner.map(lambda one: op("not", one)),
        st.lists(inner, min_size=2, max_size=3).map(lambda all_: op("and", *all_)),
        st.lists(inner, min_size=2, max_size=3).map(lambda all_: op("or", *all_)),
    ),
    max_leaves=6,
)
PARSE: dict[str, Any] = {
    "int": int, "long": int, "string": str, "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat, "double": float, "bool": lambda one: one == "true",
}  # fmt: skip


def verdict(node: Tree, values: Mapping[str, Any]) -> bool | None:
    """SQL's three-valued answer for one row, NaN above everything."""
    kind, children = node["op"], node.get("children", [])
    if kind == "not":
        inner = verdict(children[0], values)
        return None if inner is None else not inner
    if kind in ("and", "or"):
        answers = [verdict(one, values) for one in children]
        decisive = kind == "or"
        return decisive if decisive in answers else None if None in answers else not decisive
    sides = [
        values[one["name"]] if one["op"] == "column" else PARSE[one["valueType"]](one["value"])
        for one in children
    ]
    if kind == "isNull":
        return sides[0] is None
    if None in sides:
        return None
    left, right = ((one != one, 0.0 if one != one else one) for one in sides)
    return bool(SIGNS[kind](left, right))


def statistics(rows: list[dict[str, Any]], tight: bool) -> dict[str, Any]:
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in VALUES:
        values = [one[name] for one in rows if one[name] is not None]
        nulls[name] = len(rows) - len(values)
        plain = [one for one in values if one == one]
        if not plain or name == "b":
            continue
        first, last = min(plain), max(plain)
        if name == "s":
            first, last = first[:2], last[:2]
        if name == "t":
            first, last = (
                one.isoformat(timespec="milliseconds").replace("+00:00", "Z")
                for one in (first, last)
            )
        low[name] = first.isoformat() if isinstance(first, date) else first
        high[name] = last.isoformat() if isinstance(last, date) else last
    return {"numRecords": len(rows), "minValues": low, "maxValues": high, "nullCount": nulls,
            "tightBounds": tight}  # fmt: skip


@given(
    tree, st.lists(row, min_size=1, max_size=3), st.none() | st.integers(0, 2), st.integers(0, 2)
)
@settings(max_examples=600, deadline=None)
def test_no_file_with_a_matching_row_is_left_out(
    hint: Tree, rows: list[dict[str, Any]], partition: int | None, deleted: int
) -> None:
    # Statistics are of all rows that were written; the last ones may be deleted since.
    stats = statistics(rows, tight=not deleted)
    left = rows[: len(rows) - deleted]
    texts = {"p": None if partition is None else str(partition)}
    if any(verdict(hint, {**one, "p": partition}) for one in left):
        assert keeps(SCHEMA, hint, json.dumps(stats), texts)
