"""`paimon convert`: from Delta to Paimon and back; what is lost has a name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.delta import schema as delta
from deltacli.delta.actions import Format, Metadata
from deltacli.delta.column_mapping import ColumnMapping
from deltacli.delta.snapshot import load_snapshot
from deltacli.local.engine import LocalEngine
from deltacli.paimon.from_delta import from_delta
from deltacli.paimon.losses import Losses
from deltacli.paimon.schema_file import field_tree
from deltacli.paimon.to_delta import to_delta
from deltacli.paimon.types import walk_fields
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, protocol
from tests.builder import column as delta_column
from tests.builder import metadata as _metadata
from tests.conftest import ROOT, Result
from tests.paimon.builder import PaimonTable, column, parsed, schema

Deltacli = Callable[..., Result]

# -- there and back ----------------------------------------------------------------------

SAME = st.sampled_from(
    ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(20, 4)",
     "STRING", "VARCHAR(7)", "CHAR(3)", "BYTES", "DATE", "TIMESTAMP(6)",
     "TIMESTAMP(6) WITH LOCAL TIME ZONE", "VARIANT"]
)  # fmt: skip
NULLS = st.sampled_from(["", " NOT NULL"])


def _rows(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda kinds, null: {
            "type": f"ROW{null}",
            "fields": [column(0, f"f{at}", kind) for at, kind in enumerate(kinds)],
        },
        st.lists(inner, min_size=1, max_size=3),
        NULLS,
    )


TYPES = st.recursive(
    st.builds(lambda kind, null: kind + null, SAME, NULLS),
    lambda inner: (
        _rows(inner)
        | st.builds(lambda e, null: {"type": f"ARRAY{null}", "element": e}, inner, NULLS)
        | st.builds(
            lambda k, v, null: {"type": f"MAP{null}", "key": f"{k} NOT NULL", "value": v},
            SAME, inner, NULLS,
        )
    ),
    max_leaves=6,
)  # fmt: skip


def _numbered(tree: Any, ids: list[int]) -> Any:
    """A tree whose fields have the ids, whatever they are, in some order."""
    if isinstance(tree, list):
        return [_numbered(one, ids) for one in tree]
    if not isinstance(tree, dict):
        return tree
    own = {key: _numbered(value, ids) for key, value in tree.items()}
    return {**own, "id": ids.pop()} if "name" in tree else own


@given(st.lists(TYPES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_schema_survives_the_way_there_and_back(kinds: list[Any], random: Any) -> None:
    ids = list(range(1, 200))
    random.shuffle(ids)
    columns = [column(0, f"c{at}", kind, description=f"d{at}") for at, kind in enumerate(kinds)]
    tree = schema(fields=_numbered(columns, ids), highestFieldId=500, comment="t")
    before = parsed(tree)
    table = to_delta(before, [], Losses())
    metadata = Metadata("m", None, table.description, Format(), None, (), table.configuration, 1)
    read = delta.parse_schema(json.dumps(delta.type_tree(table.schema)))
    after = from_delta(read, metadata, (), Losses(), 1)
    assert [field_tree(one) for one in after.fields] == tree["fields"]
    assert (after.highest_field_id, after.comment) == (500, "t")


def test_without_mapping_ids_are_given_out_as_paimon_does() -> None:
    table = to_delta(
        parsed(schema(fields=[
            column(7, "a", {"type": "ROW", "fields": [
                column(9, "x", "INT"),
                column(8, "y", {"type": "ROW", "fields": [column(3, "z", "INT")]})]}),
            column(1, "b", "INT"),
        ])), [], Losses(), ColumnMapping.NONE)  # fmt: skip
    metadata = Metadata("m", None, None, Format(), None, ("b",), {}, 1)
    after = from_delta(table.schema, metadata, (), Losses(), 1)
    ids = {".".join(path): one.id for path, one in walk_fields(after.fields)}
    assert ids == {"a": 0, "a.x": 1, "a.y.z": 2, "a.y": 3, "b": 4}
    assert after.highest_field_id == 4
    assert after.partition_keys == ("b",)


# -- to Delta ----------------------------------------------------------------------------


def _history(*kinds: Any, **members: Any) -> list[Any]:
    return [
        parsed(schema(number, fields=[column(0, "a", kind)], **members))
        for number, kind in enumerate(kinds)
    ]


def changes_of(*kinds: Any) -> tuple[Any, list[str]]:
    *older, newest = _history(*kinds)
    losses = Losses()
    table = to_delta(newest, older, losses)
    found = table.schema.fields[0].metadata.get("delta.typeChanges")
    enabled = table.configuration.get("delta.enableTypeWidening") == "true"
    assert enabled == bool(found) == ("typeWidening" in (table.protocol.reader_features or ()))
    return found, [one.message for one in losses.found]


def _step(old: str, new: str, path: str | None = None) -> dict[str, str]:
    told = {"fromType": old, "toType": new}
    return told if path is None else {**told, "fieldPath": path}


def test_type_history_is_told_where_delta_knows_it() -> None:
    both = [_step("byte", "integer"), _step("integer", "long")]
    assert changes_of("TINYINT", "INT", "BIGINT") == (both, [])
    assert changes_of("INT", "INT NOT NULL")[0] is None
    assert changes_of("VARCHAR(3)", "VARCHAR(9)")[0] is None
    # What Delta cannot tell hides what was before it.
    found, losses = changes_of("TINYINT", "INT", "STRING")
    assert found is None
    assert "INT before schema 2" in losses[0]
    found, losses = changes_of("INT", "DECIMAL(9, 2)", "DECIMAL(12, 2)")
    assert found == [_step("decimal(9,2)", "decimal(12,2)")]
    assert len(losses) == 1
    array = [{"type": "ARRAY", "element": one} for one in ("INT", "BIGINT")]
    assert changes_of(*array)[0] == [_step("integer", "long", "element")]
    deep = [{"type": "MAP", "key": "INT NOT NULL", "value": one} for one in array]
    assert changes_of(*deep)[0] == [_step("integer", "long", "value.element")]


def test_what_became_text_as_a_whole_is_told(tmp_path: Path, deltacli: Deltacli) -> None:
    table = PaimonTable(tmp_path / "table")
    kinds = [{"type": "ARRAY", "element": "INT"}, {"type": "ARRAY", "element": "BIGINT"}, "STRING"]
    for schema_id, kind in enumerate(kinds):
        table.add_schema(schema(schema_id, fields=[column(0, "c", kind), column(1, "n", "INT")]))
    found = deltacli("paimon", "convert", table.root, "-o", "json")
    assert any("ARRAY<BIGINT> before schema 2" in one["loss"] for one in found.json["losses"])
    assert "delta.typeChanges" not in found.json["schema"]["fields"][0]["metadata"]


def test_renamed_columns_keep_their_history() -> None:
    old = parsed(schema(0, fields=[column(0, "a", "INT"), column(1, "gone", "INT")]))
    new = parsed(schema(1, fields=[column(0, "b", "BIGINT")]))
    table = to_delta(new, [old], Losses())
    assert table.schema.fields[0].metadata["delta.typeChanges"] == [_step("integer", "long")]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([column(0, "a", "INT"), column(1, "A", "INT")], "only by case"),
        ([column(0, "a", "GEOMETRY")], "no type for GEOMETRY"),
        ([column(0, "a", "TIME(3)")], "TIME becomes an integer"),
    ],
)
def test_what_delta_cannot_hold_is_refused(
    fields: list[Any], message: str, tmp_path: Path, deltacli: Deltacli
) -> None:
    table = PaimonTable(tmp_path / "table")
    table.add_schema(schema(fields=fields))
    found = deltacli("paimon", "convert", table.root, "--create", tmp_path / "new")
    assert found.code == 4
    assert message in found.stderr
    assert not (tmp_path / "new").exists()


def test_columns_that_need_mapping_get_it(tmp_path: Path, deltacli: Deltacli) -> None:
    table = PaimonTable(tmp_path / "table")
    table.add_schema(schema(0, fields=[column(0, "old", "INT")]))
    own = ("paimon", "convert", table.root, "-o", "json", "--column-mapping")
    assert deltacli(*own, "none").json["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert deltacli(*own, "id").json["configuration"] == {
        "delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": "1",
    }  # fmt: skip
    table.add_schema(schema(1, fields=[column(0, "new", "INT")]))
    assert deltacli(*own, "none").code == 4
    table.add_schema(schema(2, fields=[column(0, "old", "INT"), column(1, "a b", "INT")]))
    assert deltacli(*own, "none").code == 4
    (column_a, column_b) = deltacli(*own, "name").json["schema"]["fields"]
    assert column_a["metadata"]["delta.columnMapping.id"] == 1
    assert column_b["metadata"]["delta.columnMapping.physicalName"] == "col-2"


@pytest.mark.parametrize(
    ("kind", "default", "sql"),
    [
        ("INT", "7", "7"), ("INT", "+7.5", "7"), ("STRING", "it's", "'it\\'s'"),
        ("STRING", "'x'", "'x'"), ("BOOLEAN", "y", "true"), ("DATE", "2024-01-31",
        "DATE '2024-01-31'"), ("DOUBLE", "1e3", "1e3"), ("DOUBLE", "NaN", None),
        ("BYTES", "x", None),
    ],
)  # fmt: skip
def test_defaults_become_literals(kind: str, default: str, sql: str | None) -> None:
    losses = Losses()
    one = column(1, "a", kind, defaultValue=default)
    table = to_delta(parsed(schema(fields=[one])), [], losses)
    assert table.schema.fields[0].metadata.get("CURRENT_DEFAULT") == sql
    assert ("allowColumnDefaults" in (table.protocol.writer_features or ())) == (sql is not None)
    assert bool(losses.found) == (sql is None)


def test_a_new_delta_table_is_sound(tmp_path: Path, deltacli: Deltacli) -> None:
    target = tmp_path / "new"
    made = deltacli("paimon", "convert", ROOT / "examples/customers", "--create", target,
                    "-o", "json")  # fmt: skip
    assert made.code == 0, made.stderr
    assert made.json["created"] == f"file://{target}"
    assert deltacli("validate", target, "--fail-on", "info").code == 0
    store = LocalStore(str(target))
    snapshot = load_snapshot(store, lambda: LocalEngine(store, {}))
    assert snapshot.metadata.partition_columns == ("country",)
    again = deltacli("paimon", "convert", ROOT / "examples/customers", "--create", target)
    assert again.code == 4
    assert "not empty" in again.stderr


# -- to Paimon ---------------------------------------------------------------------------


def test_what_paimon_does_not_hold_has_a_name(tmp_path: Path, deltacli: Deltacli) -> None:
    def told(name: str, kind: Any, **metadata: Any) -> dict[str, Any]:
        return {"name": name, "type": kind, "nullable": True, "metadata": metadata}

    nested = {"type": "struct", "fields": [told("x", "string")]}
    fields = [
        told("gen", "integer", **{"delta.generationExpression": "1"}),
        told("ident", "long", **{"delta.identity.start": 1}),
        told("wide", "long", **{"delta.typeChanges": [_step("integer", "long")]}),
        told("expr", "integer", CURRENT_DEFAULT="rand()"),
        told("lit", "string", CURRENT_DEFAULT="'it''s'"),
        told("len", nested, __CHAR_VARCHAR_TYPE_STRING="struct<x:varchar(5)>"),
        told("list", {"type": "array", "elementType": "string", "containsNull": True},
             __CHAR_VARCHAR_TYPE_STRING="array<char(2)>"),
    ]  # fmt: skip
    table = tmp_path / "table"
    (table / "_delta_log").mkdir(parents=True)
    features = ["typeWidening"]
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
                      "writerFeatures": [*features, "generatedColumns", "identityColumns",
                                         "checkConstraints", "allowColumnDefaults",
                                         "changeDataFeed"]}},
        {"metaData": {"id": "m", "format": {"provider": "parquet", "options": {}},
                      "schemaString": json.dumps({"type": "struct", "fields": fields}),
                      "partitionColumns": [], "description": "all", "createdTime": 1,
                      "configuration": {"delta.constraints.c": "gen > 0", "own": "1",
                                        "delta.enableChangeDataFeed": "true"}}},
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, actions))
    (table / "_delta_log" / f"{0:020}.json").write_text(text)
    found = deltacli("paimon", "convert", table, "--create", tmp_path / "new", "-o", "json")
    assert found.code == 0, found.stderr
    losses = {(one["column"], one["loss"].split(",")[0]) for one in found.json["losses"]}
    assert losses == {
        ("gen", "its generation expression"),
        ("ident", "that it is an identity column"),
        ("wide", "the history of its type"),
        ("expr", "its default rand()"),
        ("lit", "its default is the text 'it''s'"),
        (None, "the constraint c: gen > 0"),
        (None, "the change data feed"),
        (None, "table properties: own"),
    }
    made = json.loads((tmp_path / "new/schema/schema-0").read_bytes())
    types = {one["name"]: one["type"] for one in made["fields"]}
    assert made["fields"][4]["defaultValue"] == "'it's'"
    assert types["len"]["fields"][0]["type"] == "VARCHAR(5)"
    assert types["list"]["element"] == "CHAR(2)"
    assert made["comment"] == "all"
    assert deltacli("paimon", "validate", tmp_path / "new", "--fail-on", "info").code == 0


def test_reserved_names_are_refused(tmp_path: Path, deltacli: Deltacli) -> None:
    store = LocalStore(str(tmp_path / "table"))
    TableBuilder(store).commit(protocol(), _metadata(delta_column("rowkind", "integer")))
    found = deltacli("paimon", "convert", tmp_path / "table")
    assert found.code == 4
    assert "rowkind" in found.stderr


BROKEN = [
    ({"fields": [column(1, "a", "INT"), column(1, "b", "INT")]}, "used twice"),
    ({"partitionKeys": ["nope"]}, "does not exist"),
    ({"partitionKeys": ["k", "k"]}, "named twice"),
    ({"partitionKeys": ["k", "v"]}, "every column is a partition key"),
    ({"fields": []}, "has no columns"),
    ({"fields": [column(-5, "a", "INT")]}, "outside 0..1073741822"),
    ({"fields": [column(1, " ", "INT")]}, "blank"),
]


@pytest.mark.parametrize(("members", "message"), BROKEN, ids=[one for _, one in BROKEN])
def test_broken_tables_make_no_delta_tables(
    members: dict[str, Any], message: str, tmp_path: Path, deltacli: Deltacli
) -> None:
    table = PaimonTable(tmp_path / "table")
    table.add_schema(schema(**members))
    found = deltacli("paimon", "convert", table.root, "--create", tmp_path / "new")
    # Those without a column for rows are sound, and nothing for Delta.
    assert found.code == (4 if "column" in message else 5)
    assert message in found.stderr
    assert not (tmp_path / "new").exists()


def test_a_version_that_cannot_be_read_hides_what_was_before(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    table = PaimonTable(tmp_path / "table")
    table.add_schema(schema(0, fields=[column(0, "a", "INT")]))
    table.put("schema/schema-1", "{")
    table.add_schema(schema(2, fields=[column(0, "a", "BIGINT")]))
    found = deltacli("paimon", "convert", table.root, "-o", "json").json
    assert "delta.typeChanges" not in found["schema"]["fields"][0]["metadata"]
    assert found["losses"][0]["loss"].endswith("schema 1, which cannot be read")


@pytest.mark.parametrize(
    "metadata",
    [
        {"__CHAR_VARCHAR_TYPE_STRING": "array<varchar("},
        {"__CHAR_VARCHAR_TYPE_STRING": "varchar(99999999999)"},
        {"__CHAR_VARCHAR_TYPE_STRING": f"varchar({'9' * 5000})"},
        {"__CHAR_VARCHAR_TYPE_STRING": "array<" * 5000},
        {"__CHAR_VARCHAR_TYPE_STRING": "struct<a"},
        {"comment": "x\ud800"},
        {"CURRENT_DEFAULT": "rand("},
    ],
    ids=range(7),
)
def test_odd_metadata_of_delta_gets_a_clear_answer(
    metadata: dict[str, str], tmp_path: Path, deltacli: Deltacli
) -> None:
    store = LocalStore(str(tmp_path / "table"))
    own = {**metadata, "delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "a"}
    settings = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9" * 5000}
    TableBuilder(store).commit(
        protocol(2, 5),
        _metadata(delta_column("a", "string", **own), configuration=settings),
    )
    found = deltacli("paimon", "convert", tmp_path / "table", "--create", tmp_path / "new")
    assert found.code in (0, 4), found.stderr
    if found.code == 0:
        assert deltacli("paimon", "show", tmp_path / "new").code == 0
    else:
        assert not (tmp_path / "new").exists()


def test_places_that_are_taken_are_refused(tmp_path: Path, deltacli: Deltacli) -> None:
    own = ("paimon", "convert", ROOT / "examples/customers", "--create")
    (tmp_path / "file").write_text("x")
    assert deltacli(*own, tmp_path / "file").code == 4
    assert deltacli(*own, "").code == 2
    assert deltacli("paimon", "convert", f"{ROOT}/examples/customers@v3").code == 2
    assert deltacli("paimon", "convert", ROOT / "examples/customers", "--at", "9" * 5000).code == 2
