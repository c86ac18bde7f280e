"""Types and schema files: what is read is written again, whatever it looked like."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.paimon.schema_file import (
    BadSchema,
    parse_schema,
    parse_type,
    schema_text,
    schema_tree,
    type_tree,
)
from deltacli.paimon.type_text import parse_atomic
from deltacli.paimon.types import (
    MAX_LENGTH,
    TIMESTAMP_LTZ,
    Array,
    Atomic,
    BadType,
    DataType,
    Field,
    Map,
    Multiset,
    Row,
    Vector,
    as_nullable,
    sql_text,
)
from tests.paimon.builder import column, parse_sql, schema

LENGTHS = st.integers(1, 300) | st.just(MAX_LENGTH)
DIGITS = st.integers(0, 9)
NAMES = st.text(min_size=1, max_size=8).filter(lambda text: text.strip())
CRS = st.sampled_from(["OGC:CRS84", "EPSG:4326", "4326", "a b", "it's", "(x)", "a,b"])

BARE: st.SearchStrategy[DataType] = st.one_of(
    st.sampled_from(
        [Atomic(one) for one in ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT",
                                 "DOUBLE", "DATE", "VARIANT", "BLOB")]
    ),
    st.builds(lambda root, n: Atomic(root, (n,)),
              st.sampled_from(["CHAR", "VARCHAR", "BINARY", "VARBINARY"]), LENGTHS),
    st.builds(lambda root, n: Atomic(root, (n,)),
              st.sampled_from(["TIME", "TIMESTAMP", TIMESTAMP_LTZ]), DIGITS),
    st.integers(1, 38).flatmap(
        lambda p: st.integers(0, p).map(lambda s: Atomic("DECIMAL", (p, s)))),
    st.builds(lambda crs: Atomic("GEOMETRY", (crs,)), CRS),
    st.builds(lambda crs: Atomic("GEOGRAPHY", (crs, "karney")), CRS),
)  # fmt: skip
ATOMIC = st.builds(as_nullable, BARE, st.booleans())


def rows(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    fields = st.lists(
        st.tuples(NAMES, inner, st.none() | st.text(min_size=1)), max_size=3,
        unique_by=lambda one: one[0],
    )  # fmt: skip
    return st.builds(
        lambda some, null: Row(
            tuple(Field(at, name, kind, text) for at, (name, kind, text) in enumerate(some)), null
        ),
        fields,
        st.booleans(),
    )


TYPES = st.recursive(
    ATOMIC,
    lambda inner: st.one_of(
        st.builds(Array, inner, st.booleans()),
        st.builds(Multiset, inner, st.booleans()),
        st.builds(Map, ATOMIC, inner, st.booleans()),
        st.builds(lambda n, null: Vector(Atomic("FLOAT"), n, null), st.integers(1, 9),
                  st.booleans()),
        rows(inner),
    ),
    max_leaves=8,
)  # fmt: skip


@given(ATOMIC)
def test_the_text_of_a_type_is_read_as_that_type(kind: DataType) -> None:
    text = sql_text(kind)
    assert parse_atomic(text) == kind
    assert parse_sql(text) == kind
    if "'" not in text:
        assert parse_atomic(f"  {text.lower().replace(' ', '   ')} ") is not None


@given(TYPES)
def test_the_json_of_a_type_is_read_as_that_type(kind: DataType) -> None:
    assert parse_type(json.loads(json.dumps(type_tree(kind)))) == kind


def _with_keys(kind: DataType) -> DataType:
    """As people's types come out: keys are never null, ids are counted in each ROW."""
    match kind:
        case Map(key, value, nullable):
            return Map(as_nullable(key, False), _with_keys(value), nullable)
        case Array(element, nullable):
            return Array(_with_keys(element), nullable)
        case Multiset(element, nullable):
            return Multiset(_with_keys(element), nullable)
        case Row(fields, nullable):
            own = (
                Field(at, one.name, _with_keys(one.type), one.description)
                for at, one in enumerate(fields)
            )
            return Row(tuple(own), nullable)
        case _:
            return kind


@given(TYPES)
def test_people_can_write_every_type_as_it_is_shown(kind: DataType) -> None:
    assert parse_sql(sql_text(kind)) == _with_keys(kind)


TEXT = st.text(max_size=12)


@given(
    st.lists(st.tuples(TEXT, TYPES, st.none() | TEXT, st.none() | TEXT), max_size=4),
    st.dictionaries(TEXT, TEXT, max_size=4),
    st.none() | TEXT,
    st.integers(0, 2**60),
)
def test_a_schema_file_is_written_as_it_is_read(
    columns: list[Any], options: dict[str, str], comment: str | None, time_ms: int
) -> None:
    fields = [
        {"id": at, "name": name, "type": type_tree(kind), "description": text, "defaultValue": own}
        for at, (name, kind, text, own) in enumerate(columns)
    ]
    for one in fields:
        for name in ("description", "defaultValue"):
            if one[name] is None:
                del one[name]
    tree = schema(fields=fields, options=options, timeMillis=time_ms)
    if comment is not None:
        tree["comment"] = comment
    read = parse_schema(json.dumps(tree).encode())
    assert schema_tree(read) == tree
    assert json.loads(schema_text(read)) == tree
    assert parse_schema(schema_text(read)) == read


@given(st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from([*schema(), "type", "name", "element", "key", "value", "length"]), inner,
        max_size=9), max_leaves=20,
).map(lambda tree: json.dumps(tree).encode()))  # fmt: skip
def test_any_bytes_are_a_schema_or_refused(content: bytes) -> None:
    with contextlib.suppress(BadSchema):
        parse_schema(content)


@given(st.text(alphabet="INT ARRAYMPOW<>(),'`.0129:NULLdecimal", max_size=30))
def test_any_text_is_a_type_or_refused(text: str) -> None:
    for parse in (parse_atomic, parse_sql):
        with contextlib.suppress(BadType):
            kind = parse(text)
            assert parse_sql(sql_text(kind)) == kind


@pytest.mark.parametrize("depth", [50, 20_000])
def test_deep_types_are_read_or_refused(depth: int) -> None:
    tree: Any = "INT"
    text = '{"type":"ARRAY","element":' * depth + '"INT"' + "}" * depth
    whole = json.dumps(schema(fields=[column(0, "a", tree)])).replace('"INT"', text)
    if depth > 1000:
        with pytest.raises(BadSchema):
            parse_schema(whole.encode())
        return
    assert json.loads(schema_text(parse_schema(whole.encode()))) == json.loads(whole)
