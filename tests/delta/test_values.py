"""Schemas, partition values, statistics, vectors, properties: values of the log, exactly."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from deltacli.delta import json_text
from deltacli.delta.features import FEATURES
from deltacli.delta.partitions import logical_partition_values, partition_value
from deltacli.delta.properties import PROPERTIES, read_property
from deltacli.delta.schema import (
    BadSchema,
    Primitive,
    logical_names,
    maps_columns,
    parse_schema,
    type_text,
    type_tree,
)
from deltacli.delta.stats import is_stats_line, num_records, parse_stats, stats_of_struct
from deltacli.delta.vectors import vector_location, vector_path, z85_decode
from tests.builder import column

NESTED = {
    "type": "struct",
    "fields": [
        column("a", "decimal(38, 10)", False, comment="c"),
        column(
            "m",
            {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": False},
        ),
        column(
            "l",
            {
                "type": "array",
                "elementType": {"type": "struct", "fields": [column("x", "variant")]},
                "containsNull": True,
                "unknownKey": [1],
            },
        ),
        {**column("later", "geometry(OGC:CRS84)"), "newKey": {"y": 1.50}},
    ],
}


def test_a_schema_comes_back_without_loss() -> None:
    schema = parse_schema(json.dumps(NESTED))
    assert json.loads(json_text.dump(type_tree(schema))) == NESTED
    assert schema["a"].type == Primitive("decimal(38, 10)")
    assert Primitive("decimal(38, 10)").decimal == (38, 10)
    assert type_text(schema["l"].type) == "array<struct<x: variant>>"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '"long"',
        '{"type":"struct"}',
        '{"type":"struct","fields":[{}]}',
        '{"type":"struct","fields":[{"name":"a","type":{"type":"odd"}}]}',
        '{"type":"struct","fields":[{"name":"a","type":7}]}',
        '{"type":"array","elementType":"long"}',
        '{"type":"struct","fields":[{"name":"a","type":"long","metadata":[1]}]}',
        '{"type":"array","elementType":' * 50_000,
    ],
)
def test_a_broken_schema_is_told(text: str) -> None:
    with pytest.raises(BadSchema):
        parse_schema(text)


def test_physical_names_are_translated_at_every_depth() -> None:
    inner = {
        "type": "struct",
        "fields": [column("x", **{"delta.columnMapping.physicalName": "c2"})],
    }
    schema = parse_schema(
        json.dumps(
            {
                "type": "struct",
                "fields": [
                    column("s", inner, **{"delta.columnMapping.physicalName": "c1"}),
                    column("p"),
                ],
            }
        )
    )
    assert maps_columns(schema)
    tree = {"c1": {"c2": 1, "other": 2}, "p": 3}
    assert logical_names(schema, tree) == {"s": {"x": 1, "other": 2}, "p": 3}


@pytest.mark.parametrize(
    ("text", "type_name", "value"),
    [
        (None, "long", None),
        ("", "string", None),
        ("12", "long", 12),
        ("-1.50", "decimal(10,2)", Decimal("-1.50")),
        ("true", "boolean", True),
        ("2026-01-31", "date", date(2026, 1, 31)),
        ("2026-01-31 10:00:00.123456", "timestamp", datetime(2026, 1, 31, 10, 0, 0, 123456, UTC)),
        ("2026-01-31T10:00:00.000000Z", "timestamp", datetime(2026, 1, 31, 10, tzinfo=UTC)),
        ("2026-01-31 10:00:00", "timestamp_ntz", datetime(2026, 1, 31, 10)),
        ("__HIVE_DEFAULT_PARTITION__", "string", "__HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_partition_values_are_typed(text: str | None, type_name: str, value: Any) -> None:
    assert partition_value(text, Primitive(type_name)) == value


def test_a_partition_value_of_the_wrong_type() -> None:
    with pytest.raises(ValueError, match="not a date"):
        partition_value("soon", Primitive("date"))


def test_partition_values_by_logical_name() -> None:
    values = {"col-1": "x", "col-2": "", "stray": None}
    named = logical_partition_values(values, {"a": "col-1", "b": "col-2", "c": "col-3"})
    assert named == {"a": "x", "b": None, "c": None, "stray": None}


def test_statistics_keep_every_digit() -> None:
    text = '{"numRecords":2,"minValues":{"d":12345678901234567890.123,"n":9007199254740993}}'
    stats = parse_stats(text)
    assert stats is not None
    assert stats["minValues"]["d"] == Decimal("12345678901234567890.123")
    assert json_text.dump(stats).decode() == text


@pytest.mark.parametrize("text", [None, "", "{", "[]", "7", "null", '{"a":NaN}'])
def test_unreadable_statistics_are_none(text: str | None) -> None:
    assert parse_stats(text) is None
    assert num_records(text) is None
    assert text is None or not is_stats_line(text)


def test_statistics_of_a_struct_have_the_form_of_their_json() -> None:
    struct = {
        "numRecords": 1,
        "minValues": {
            "d": date(2026, 1, 31),
            "t": datetime(2026, 1, 31, 1, 2, 3, 456789, UTC),
            "n": datetime(2026, 1, 31, 1, 2, 3),
            "f": float("-inf"),
            "s": {"x": Decimal("1.10"), "y": None},
        },
        "nullCount": None,
    }
    assert json_text.dump(stats_of_struct(struct)).decode() == (
        '{"numRecords":1,"minValues":{"d":"2026-01-31","t":"2026-01-31T01:02:03.456Z",'
        '"n":"2026-01-31T01:02:03.000","f":"-Infinity","s":{"x":1.10}}}'
    )


def test_the_protocols_example_of_a_vector_path() -> None:
    # PROTOCOL "Derived Fields": the example of a relative path.
    descriptor = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"}
    assert vector_path(descriptor) == (
        "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    )
    assert vector_path({**descriptor, "pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^"}) == (
        "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    )
    absolute = {"storageType": "p", "pathOrInlineDv": "s3://b/t/deletion_vector_x.bin"}
    assert vector_location(absolute, "file:///t") == "s3://b/t/deletion_vector_x.bin"
    assert vector_location({"storageType": "i", "pathOrInlineDv": "0000"}, "file:///t") is None


@pytest.mark.parametrize("text", ["abc", "abcd\\", "ab cd"])
def test_what_is_no_z85(text: str) -> None:
    with pytest.raises(ValueError, match="Z85"):
        z85_decode(text)


def test_defaults_of_properties_are_the_protocols() -> None:
    day = 86_400_000
    assert read_property({}, "delta.deletedFileRetentionDuration") == 7 * day
    assert read_property({}, "delta.logRetentionDuration") == 30 * day
    assert read_property({}, "delta.checkpoint.writeStatsAsStruct") is False
    assert read_property({"delta.appendOnly": "TRUE"}, "delta.appendOnly") is True
    with pytest.raises(ValueError, match=r"delta\.appendOnly"):
        read_property({"delta.appendOnly": "yes"}, "delta.appendOnly")
    assert len({row.key for row in PROPERTIES}) == len(PROPERTIES)


def test_features_are_one_row_each_and_their_companions_exist() -> None:
    names = {feature.name for feature in FEATURES}
    assert len(names) == len(FEATURES)
    assert all(set(feature.requires) <= names for feature in FEATURES)


@pytest.mark.parametrize(
    "value",
    [{"a": Decimal("1.0")}, {"big": 2**70}, {"s": "\ud800"}, {"n": None, "l": [1, "x"]}, 2**63],
)
def test_any_value_has_a_json_text(value: Any) -> None:
    assert json.loads(json_text.dump(value)) == json.loads(json.dumps(value, default=float))
