"""What a server is told of a condition: never more than the condition says."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.delta.predicates import parse_condition
from deltacli.delta.schema import parse_schema
from deltacli.local.filters import holds
from deltacli.sharing.hint_trees import json_hint
from deltacli.sharing.hints import BadHint, check_json_hint, read_hints
from tests.builder import column

COLUMNS = (
    column("i", "integer"),
    column("l", "long"),
    column("s", "string"),
    column("b", "boolean"),
    column("f", "double"),
    column("g", "float"),
    column("day", "date"),
    column("t", "timestamp"),
    column("d", "decimal(6,2)"),
    column("n", {"type": "struct", "fields": [column("x", "integer"), column("a.b", "integer")]}),
    column("c", "string", __COLLATIONS={"c": "ICU.UNICODE_CI"}),
)
SCHEMA = parse_schema(json.dumps({"type": "struct", "fields": list(COLUMNS)}))
NAN = float("nan")
_SPAN = (-1, 0, 1, 2, None)
ROWS = pa.record_batch(
    {
        "i": pa.array([one for one in _SPAN for _ in _SPAN], pa.int32()),
        "l": pa.array([*_SPAN] * 5, pa.int64()),
        "s": pa.array(["a", "b", "", "ab", None] * 5),
        "b": pa.array([True, False, None, True, False] * 5),
        "f": pa.array([0.0, NAN, -1.5, 2.0, None] * 5),
        "day": pa.array([date(2026, 1, n) if n else None for n in (1, 2, 3, 4, 0)] * 5),
        "t": pa.array(
            [datetime(2026, 1, 1, 0, 0, n, 500, UTC) if n else None for n in (1, 2, 3, 4, 0)] * 5,
            pa.timestamp("us", "UTC"),
        ),
        "n": pa.array([{"x": one} for one in _SPAN] * 5, pa.struct([("x", pa.int32())])),
    }
)
_LITERALS = {
    "i": ("0", "1", "-1", "null", "99999999999"),
    "l": ("0", "2", "null"),
    "s": ("'a'", "''", "'ab'"),
    "f": ("0", "-1.5", "2.0", "1e0"),
    "day": ("date '2026-01-02'", "'2026-01-03'"),
    "t": ("timestamp '2026-01-01T00:00:02.0005Z'", "timestamp '2026-01-01T00:00:03Z'"),
    "n.x": ("0", "1"),
}
leaf = st.one_of(
    *(
        st.tuples(
            st.just(name),
            st.sampled_from(("=", "<>", "<", "<=", ">", ">=", "<=>")),
            st.sampled_from(values),
        ).map(" ".join)
        for name, values in _LITERALS.items()
    ),
    st.sampled_from(("i in (0, 1)", "i in (1, null)", "s in ('a', '')", "i between 0 and 1",
                     "s like 'a%'", "b", "not b", "s is null", "i is not null", "i = n.x")),
)  # fmt: skip
condition = st.recursive(
    leaf,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(("and", "or")), inner).map(lambda x: f"({' '.join(x)})"),
        inner.map(lambda text: f"not ({text})"),
    ),
    max_leaves=8,
)


@settings(max_examples=600)
@given(condition)
def test_every_row_of_a_condition_is_one_of_its_hint(text: str) -> None:
    parsed = parse_condition(text)
    hint = json_hint(parsed, SCHEMA)
    if hint is None:
        return
    assert '"not"' not in hint
    assert '"isNull"' not in hint
    check_json_hint(hint, SCHEMA)
    hints = read_hints((), hint, SCHEMA)
    assert hints.skipped == ()
    wanted = holds(parsed, ROWS).to_pylist()
    (told,) = (holds(one, ROWS).to_pylist() for one in hints.conditions)
    assert all(is_told for is_wanted, is_told in zip(wanted, told, strict=True) if is_wanted)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 1", "(i = 1)"),
        ("1 < i", "(i > 1)"),
        ("not (i < 1)", "(i >= 1)"),
        ("not (i = 1 or i > 5)", "(i <= 5)"),
        ("i = 1 and s like 'a%'", "(i = 1)"),
        ("i = 1 or s like 'a%'", None),
        ("i <> 1", None),
        ("i is null", None),
        ("i is not null and l >= 3", "(l >= 3)"),
        ("i in (1, 2)", "((i = 1) or (i = 2))"),
        (f"i in ({','.join(map(str, range(21)))})", None),
        ("i <=> 1", "(i = 1)"),
        ("i = null", None),
        ("s = 'it''s'", "(s = it's)"),
        ("f < 1.5", "(f < 1.5)"),
        ("f > 1.5", None),
        ("g < 1.5", None),
        ("d = 1.5", None),
        ("c = 'x'", None),
        ("b = true", "(b = true)"),
        ("n.x = 1", "(n.x = 1)"),
        ("n.`a.b` = 1", None),
        ("nope = 1", None),
        ("day = date '2026-01-02'", "(day = 2026-01-02)"),
        (
            "t = timestamp '2026-01-01 00:00:00'",
            "((t >= 2025-12-31T23:59:59.999000Z) and (t <= 2026-01-01T00:00:00.000000Z))",
        ),
        ("t > timestamp '0001-01-01 00:00:00'", None),
    ],
)
def test_what_of_a_condition_can_be_told(text: str, expected: str | None) -> None:
    hint = json_hint(parse_condition(text), SCHEMA)
    assert (None if hint is None else shown(json.loads(hint))) == expected


_SHOWN = {"equal": "=", "lessThan": "<", "lessThanOrEqual": "<=", "greaterThan": ">",
          "greaterThanOrEqual": ">="}  # fmt: skip


def shown(node: Any) -> str:
    if "children" not in node:
        return str(node.get("name", node.get("value")))
    word = f" {_SHOWN.get(node['op'], node['op'])} "
    return f"({word.join(map(shown, node['children']))})"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "5", '{"op":"="}', '{"op":"equal","children":[]}',
     '{"jsonPredicateHints":{}}',
     '{"op":"equal","children":[{"op":"column","name":"i","valueType":"integer"},'
     '{"op":"literal","value":"1","valueType":"integer"}]}',
     '{"op":"equal","children":[{"op":"column","name":"nope","valueType":"int"},'
     '{"op":"literal","value":"1","valueType":"int"}]}'],
)  # fmt: skip
def test_a_hint_that_would_be_passed_over_is_named(text: str) -> None:
    with pytest.raises(BadHint):
        check_json_hint(text, SCHEMA)
