"""The standard library's stand-in for orjson: the same values, texts and refusals."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta import plain_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True, width=32)
    | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def outcome(action: Any, *arguments: Any) -> Any:
    try:
        return action(*arguments)
    except (TypeError, ValueError) as error:
        return "refused", isinstance(error, TypeError)


@given(values)
def test_what_is_written_is_the_same(value: Any) -> None:
    mine, other = outcome(plain_json.dumps, value), outcome(orjson.dumps, value)
    if isinstance(other, bytes):
        assert isinstance(mine, bytes)
        assert orjson.loads(mine) == orjson.loads(other)
        assert b" " not in mine or b" " in other
    else:
        assert mine == other


@given(values)
def test_what_is_read_is_the_same(value: Any) -> None:
    text = json.dumps(value).encode()
    mine, other = outcome(plain_json.loads, text), outcome(orjson.loads, text)
    assert mine == other
    assert json.dumps(mine) == json.dumps(other)


@pytest.mark.parametrize("text", ["", "{", "nul", "NaN", "[1,]", '{"a":1}x', "1e999", '"\\ud800"'])
def test_broken_texts_are_refused_alike(text: str) -> None:
    assert outcome(plain_json.loads, text.encode()) == outcome(orjson.loads, text.encode())


def test_nesting_has_an_end() -> None:
    with pytest.raises(ValueError, match="deeply"):
        plain_json.loads("[" * 200_000)


def test_fragments_stand_as_they_are() -> None:
    assert plain_json.dumps({"a": plain_json.Fragment("1.50")}) == b'{"a":1.50}'
    indented = plain_json.dumps({"a": [1]}, option=plain_json.OPT_INDENT_2)
    assert indented == orjson.dumps({"a": [1]}, option=orjson.OPT_INDENT_2)
