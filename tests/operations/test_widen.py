"""`widen-type`: the matrix, every reason to refuse, what the commit holds, and other writers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli.delta.feature_use import FIELD_FEATURES
from deltacli.delta.predicates import parse_condition
from deltacli.delta.references import referenced_columns, speaks_of
from deltacli.delta.scan import Files
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.delta.widening import is_allowed, type_named
from deltacli.errors import Conflict, DeltaCliError, NotFound, Refused, UsageError
from deltacli.local.engine import LocalEngine
from deltacli.operations.widen import WidenPlan, Wish, apply_widen, plan_widen
from deltacli.storage import LogStore
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, column, features, metadata, protocol
from tests.conftest import Result
from tests.operations.test_checkpoint import write
from tests.test_golden import GOLDEN

Deltacli = Callable[..., Result]
ON = {"delta.enableTypeWidening": "true"}

# -- the matrix, written down once more ---------------------------------------------------

TYPES = ("byte", "short", "integer", "long", "float", "double", "decimal(10,2)", "decimal(22,2)",
         "date", "timestamp", "timestamp_ntz", "string")  # fmt: skip
# The protocol's rows, for these types: source, target, and whether Iceberg allows it.
ALLOWED = {
    ("byte", "short"): True, ("byte", "integer"): True, ("byte", "long"): True,
    ("byte", "double"): False, ("byte", "decimal(22,2)"): False,
    ("short", "integer"): True, ("short", "long"): True,
    ("short", "double"): False, ("short", "decimal(22,2)"): False,
    ("integer", "long"): True, ("integer", "double"): False, ("integer", "decimal(22,2)"): False,
    ("long", "decimal(22,2)"): False,
    ("float", "double"): True,
    ("decimal(10,2)", "decimal(22,2)"): True,
    ("date", "timestamp_ntz"): False,
}  # fmt: skip


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


def mapping(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def struct(*fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


# Where a type may stand: its whole column, its path, the field with the entry, fieldPath.
PLACES: dict[str, tuple[Callable[[str], Any], str, tuple[str, ...], str | None]] = {
    "top": (lambda t: t, "c", ("c",), None),
    "struct": (lambda t: struct(column("x y", t)), "c.x y", ("c", "x y"), None),
    "array": (array, "c.element", ("c",), "element"),
    "key": (lambda t: mapping(t, "string"), "c.key", ("c",), "key"),
    "value": (lambda t: mapping("string", t), "C.Value", ("c",), "value"),
    "deep": (lambda t: array(mapping("string", t)), "c.element.value", ("c",), "element.value"),
    "inner": (lambda t: array(struct(column("d.e", t))), "c.element.`d.e`",
              ("c", "element", "d.e"), None),
    "key in key": (lambda t: mapping(array(t), "long"), "c.key.element", ("c",), "key.element"),
}  # fmt: skip


def at(
    table: TableBuilder, kind: Any, *more: Any, configuration: Any = None, names: Any = ()
) -> Snapshot:
    """A table whose column `c` has a type, with the feature on."""
    known = features("typeWidening", "timestampNtz", *names)
    own = metadata(column("c", kind), *more, configuration={**ON, **(configuration or {})})
    table.commit(known, own, add("a"))
    return load(table.store)


def load(store: LogStore) -> Snapshot:
    return load_snapshot(store, LocalEngine)


def plan(snapshot: Snapshot, *pairs: str, enable: bool = False) -> WidenPlan:
    wishes = [Wish(*pair) for pair in zip(pairs[::2], pairs[1::2], strict=True)]
    return plan_widen(snapshot, wishes, enable=enable)


def do(snapshot: Snapshot, *pairs: str, enable: bool = False) -> dict[str, Any]:
    """Widen; the actions of the commit by their names."""
    wishes = [Wish(*pair) for pair in zip(pairs[::2], pairs[1::2], strict=True)]
    _, done = apply_widen(
        plan_widen(snapshot, wishes, enable=enable), wishes, LocalEngine, enable=enable
    )
    lines = snapshot.store.read(f"_delta_log/{done.version:020}.json").splitlines()
    return {key: body for line in lines for key, body in json.loads(line).items()}


def field_at(schema: Any, path: tuple[str, ...]) -> Any:
    inside = schema
    for name in path:
        if name == "element":
            inside = inside["elementType"]
        else:
            inside = next(one for one in inside["fields"] if one["name"] == name)
            found = inside
            inside = inside["type"]
    return found


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("source", TYPES)
def test_the_matrix_is_the_protocols(table: TableBuilder, source: str, place: str) -> None:
    make, path, holder, field_path = PLACES[place]
    snapshot = at(table, make(source))
    for target in TYPES:
        if target == source:
            again = plan(snapshot, path, target)
            assert not again.changes_anything
            assert len(again.already) == 1
        elif (source, target) in ALLOWED:
            assert is_allowed(source, target)
            made = plan(snapshot, path, target)
            schema = json.loads(made.schema_string(1))
            expected = json.loads(json.dumps(struct(column("c", make(target)))))
            entry = {"fromType": source, "toType": target}
            if field_path:
                entry["fieldPath"] = field_path
            field_at(expected, holder)["metadata"]["delta.typeChanges"] = [entry]
            assert schema == expected
        else:
            assert not is_allowed(source, target)
            with pytest.raises(Refused, match=r"cannot be widened|does not take in"):
                plan(snapshot, path, target)


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("version", ["1", "2"])
def test_iceberg_allows_less(table: TableBuilder, source: str, version: str) -> None:
    """W-19."""
    names = ("columnMapping", f"icebergCompatV{version}")
    snapshot = at(table, source, names=names, configuration={"delta.columnMapping.mode": "name"})
    for target in TYPES:
        if ALLOWED.get((source, target)):
            assert plan(snapshot, "c", target).widenings
        elif (source, target) in ALLOWED:
            with pytest.raises(Refused, match=f"not possible with icebergCompatV{version}"):
                plan(snapshot, "c", target)


@pytest.mark.parametrize(
    ("source", "target", "smallest"),
    [
        ("byte", "decimal(5,0)", "decimal(10,0)"), ("integer", "decimal(11,2)", "decimal(12,2)"),
        ("long", "decimal(19,0)", "decimal(20,0)"), ("long", "decimal(21,2)", "decimal(22,2)"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("decimal(10,2)", "decimal(11,1)", "decimal(11,2)"),
    ],
)  # fmt: skip
def test_the_smallest_legal_decimal_is_told(
    table: TableBuilder, source: str, target: str, smallest: str
) -> None:
    """W-4, W-5."""
    snapshot = at(table, source)
    with pytest.raises(Refused) as caught:
        plan(snapshot, "c", target)
    assert caught.value.hint == f"the smallest that does is {smallest}"
    assert plan(snapshot, "c", smallest).widenings


def test_a_step_may_be_skipped(table: TableBuilder) -> None:
    """W-6."""
    (one,) = plan(at(table, "byte"), "c", "bigint").widenings
    assert (one.from_type, one.to_type) == ("byte", "long")


@pytest.mark.parametrize(
    ("text", "name"),
    [("TINYINT", "byte"), ("smallint", "short"), ("Int", "integer"), ("BIGINT", "long"),
     ("real", "float"), ("numeric( 12 , 3 )", "decimal(12,3)"), ("decimal", "decimal(10,0)"),
     ("dec(5)", "decimal(5,0)"), ("timestamp_ntz", "timestamp_ntz"), ("integer", "integer"),
     ("decimal(39,1)", None), ("decimal(3,4)", None), ("int(4)", None), ("number", None)],
)  # fmt: skip
def test_types_have_names_in_sql_and_in_delta(text: str, name: str | None) -> None:
    """W-8."""
    assert type_named(text) == name


# -- reasons to refuse -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "error", "says"),
    [
        (("d", "long"), NotFound, "no column 'd'"),
        (("c.x", "long"), NotFound, "has no fields"),
        (("arr.value", "long"), NotFound, "it is an array"),
        (("m.element", "long"), NotFound, "it is a map"),
        (("s", "long"), Refused, "single values"),
        (("arr", "long"), Refused, "single values"),
        (("s.nested.y", "long"), NotFound, "no column 'y'"),
        (("c", "number"), UsageError, "is not a type"),
        (("c..x", "long"), UsageError, "not the path"),
        (("c", "long", "C", "double"), UsageError, "named twice"),
        (("v", "long"), Refused, "cannot be widened"),
    ],
)
def test_a_wrong_column_or_type_is_named(
    table: TableBuilder, pairs: tuple[str, ...], error: type[DeltaCliError], says: str
) -> None:
    """W-7, W-13, W-14."""
    inner = struct(column("nested", struct(column("x", "integer"))))
    more = (column("arr", array("integer")), column("m", mapping("string", "integer")),
            column("s", inner), column("v", "void"))  # fmt: skip
    snapshot = at(table, "integer", *more)
    with pytest.raises(error, match=says):
        plan(snapshot, *pairs)


def test_near_names_are_suggested(table: TableBuilder) -> None:
    snapshot = at(table, "integer", column("Amount", "integer"))
    with pytest.raises(NotFound) as caught:
        plan(snapshot, "amuont", "long")
    assert caught.value.hint == "did you mean 'Amount'?"
    assert plan(snapshot, "aMOUNT", "long").widenings[0].column == "Amount"


@pytest.mark.parametrize(
    ("field", "more", "configuration", "says"),
    [
        # W-15
        ({}, (), {"delta.constraints.pos": "c > 0 and other < 1"}, "constraint pos"),
        ({}, (), {"delta.constraints.deep": "abs(`C`) > 0"}, "constraint deep"),
        # W-16
        ({"delta.generationExpression": "1"}, (), {}, "is a generated column"),
        ({}, (column("g", "long", **{"delta.generationExpression": "c + 1"}),), {}, "column g"),
        # W-17
        ({"delta.invariants": json.dumps({"expression": {"expression": "c > 3"}})}, (), {},
         "has an invariant"),
        ({}, (column("i", "long", **{
            "delta.invariants": json.dumps({"expression": {"expression": "i > c"}})}),), {},
         "invariant of i: i > c"),
        # W-18
        ({"delta.identity.start": 1}, (), {}, "identity column"),
        # W-20
        ({"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}, (), {}, "texts are not widened"),
    ],
)  # fmt: skip
def test_what_was_written_for_the_old_type_forbids_a_new_one(
    table: TableBuilder,
    field: dict[str, Any],
    more: tuple[Any, ...],
    configuration: dict[str, str],
    says: str,
) -> None:
    names = ("checkConstraints", "generatedColumns", "invariants", "identityColumns")
    own = [column("c", "integer", **field), column("free", "integer"), *more]
    table.commit(features("typeWidening", *names),
                 metadata(*own, configuration={**ON, **configuration}))  # fmt: skip
    snapshot = load(table.store)
    with pytest.raises(Refused, match=says):
        plan(snapshot, "c", "long")
    assert plan(snapshot, "free", "long").widenings


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("a > 0 AND b.c < 1", {("a",), ("b", "c")}),
        ("`x.y`.z is null or length(name) > 3", {("x.y", "z"), ("name",)}),
        ("t = 'c is > 1' and \"D e\" = r'\\' -- c", {("t",), ("d e",)}),
        ("/* c */ m['c'] = arr[0].f", {("m",), ("arr",)}),
        ("exists(arr, x -> x > 1e5)", {("arr",), ("x",)}),
    ],
)
def test_columns_are_found_in_expressions(expression: str, columns: set[Any]) -> None:
    found = referenced_columns(expression)
    assert columns <= found
    assert ("c",) not in found
    assert ("length",) not in found


def test_parents_and_children_depend_on_each_other() -> None:
    assert speaks_of("s.a > 1", ("s",))
    assert speaks_of("s is not null", ("s", "a"))
    assert not speaks_of("s.a > 1", ("s", "b"))


def test_it_must_be_switched_on(table: TableBuilder) -> None:
    """W-11."""
    table.commit(protocol(), metadata(column("c", "integer")))
    with pytest.raises(Refused) as caught:
        plan(load(table.store), "c", "long")
    assert "--enable turns it on" in str(caught.value.hint)


def test_a_property_without_its_feature_contradicts_itself(table: TableBuilder) -> None:
    """W-12."""
    table.commit(protocol(), metadata(column("c", "integer"), configuration=ON))
    snapshot = load(table.store)
    with pytest.raises(Refused, match="the protocol has no feature"):
        plan(snapshot, "c", "long")
    assert "typeWidening" in (
        plan(snapshot, "c", "long", enable=True).protocol.writer_features or ()
    )


@pytest.mark.parametrize(
    ("versions", "what", "feature"),
    [
        ((1, 1), {"delta.appendOnly": "true"}, "appendOnly"),
        ((1, 2), {"delta.enableChangeDataFeed": "true"}, "changeDataFeed"),
        ((1, 2), {"delta.constraints.few": "d < 9"}, "checkConstraints"),
        ((1, 1), {"delta.invariants": "{}"}, "invariants"),
        ((1, 2), {"delta.identity.start": 1}, "identityColumns"),
        ((1, 3), {"delta.generationExpression": "1"}, "generatedColumns"),
        ((1, 2), {"delta.enableDeletionVectors": "true"}, None),
        ((1, 2), {"delta.enableInCommitTimestamps": "true"}, None),
        ((1, 2), {"delta.enableRowTracking": "true"}, None),
        ((1, 4), {"delta.columnMapping.mode": "name"}, None),
    ],
)
def test_a_protocol_that_lists_features_lists_all_that_are_in_use(
    table: TableBuilder, versions: tuple[int, int], what: dict[str, Any], feature: str | None
) -> None:
    """Delta Spark opens no table whose metadata uses what its protocol does not list."""
    is_property = all(isinstance(one, str) for one in what.values())
    is_of_field = any(key in FIELD_FEATURES for key in what)
    head = metadata(
        column("c", "integer"), column("d", "integer", **(what if is_of_field else {})),
        configuration=what if is_property and not is_of_field else {},
    )  # fmt: skip
    table.commit(protocol(*versions), head)
    snapshot = load(table.store)
    if feature is None:
        with pytest.raises(Refused, match="but the protocol has no feature"):
            plan(snapshot, "c", "long", enable=True)
        return
    made = plan(snapshot, "c", "long", enable=True)
    assert made.protocol.reader_features == ("typeWidening",)
    assert feature in (made.protocol.writer_features or ())
    assert any(f"listed from now on: {feature}" in one for one in made.warnings)


def test_a_table_that_may_not_be_written_is_refused(table: TableBuilder) -> None:
    """W-10."""
    table.commit(protocol(3, 8), metadata(column("c", "integer"), configuration=ON))
    with pytest.raises(DeltaCliError):
        plan(load(table.store), "c", "long")


def test_times_without_a_zone_need_their_own_feature(table: TableBuilder) -> None:
    """W-21."""
    table.commit(features("typeWidening"), metadata(column("c", "date"), configuration=ON))
    snapshot = load(table.store)
    with pytest.raises(Refused, match="timestampNtz"):
        plan(snapshot, "c", "timestamp_ntz")
    made = plan(snapshot, "c", "timestamp_ntz", enable=True)
    assert made.protocol.reader_features == ("timestampNtz", "typeWidening")


def test_partition_values_must_be_of_the_new_type(table: TableBuilder) -> None:
    """W-22."""
    head = [features("typeWidening", "timestampNtz"),
            metadata(column("c", "date"), column("n", "integer"), partition_by=["c", "n"],
                     configuration=ON)]  # fmt: skip
    table.commit(*head, add("a", partitionValues={"c": "2024-01-01", "n": "1"}))
    assert plan(load(table.store), "c", "timestamp_ntz", "n", "decimal(12,2)").widenings
    table.commit(add("b", partitionValues={"c": None, "n": "one"}))
    with pytest.raises(Refused, match="partition column with the value 'one'"):
        plan(load(table.store), "n", "decimal(12,2)")


def test_features_whose_rules_are_not_known_forbid_all_changes(table: TableBuilder) -> None:
    """W-23: icebergWriterCompatV1 forbids map keys; tables with it are not written at all."""
    names = ("columnMapping", "icebergCompatV2", "icebergWriterCompatV1", "typeWidening")
    own = column("c", mapping("integer", "long"))
    table.commit(features(*names), metadata(own, configuration=ON))
    with pytest.raises(Refused, match="icebergWriterCompatV1"):
        plan(load(table.store), "c.key", "long")


def test_columns_that_only_files_have_cannot_be_named(table: TableBuilder) -> None:
    """W-27."""
    settings = {"delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1"}
    snapshot = at(table, "integer", configuration=settings)
    with pytest.raises(NotFound, match="_row-id-col-1"):
        plan(snapshot, "_row-id-col-1", "decimal(20,0)")


def test_recorded_changes_that_nobody_knows_are_refused(table: TableBuilder) -> None:
    """W-28."""
    odd = column("c", "long", **{"delta.typeChanges": [{"fromType": "string", "toType": "long"}]})
    table.commit(features("typeWidening"), metadata(odd, configuration=ON))
    with pytest.raises(DeltaCliError, match="string"):
        load(table.store)


# -- what is warned of -------------------------------------------------------------------


def test_what_breaks_downstream_is_told(table: TableBuilder) -> None:
    """W-24 to W-26, W-29, W-30, CO-2, FN-3."""
    settings = {"delta.enableChangeDataFeed": "true",
                "delta.compatibility.symlinkFormatManifest.enabled": "true"}  # fmt: skip
    own = column("d", "integer", CURRENT_DEFAULT="now()", **{"delta.bloomFilter.fpp": "0.1"})
    names = ("changeDataFeed", "allowColumnDefaults")
    snapshot = at(table, "integer", own, configuration=settings, names=names)
    told = " ".join(plan(snapshot, "d", "long").warnings)
    for word in ("writers that are at work", "streams", "change data feed", "symlink manifests",
                 "bloom filter", "the default of d, now()"):  # fmt: skip
        assert word in told
    assert "protocol goes" not in told


# -- the commit --------------------------------------------------------------------------


def test_only_the_leaf_and_the_record_differ(table: TableBuilder) -> None:
    """W-40 to W-47: unknown keys, odd letters, exact numbers, the order of all."""
    odd = {"type": "struct", "odd": [1.5], "fields": [
        {"name": "é \u0001", "type": array("integer"), "nullable": False,
         "metadata": {"comment": "ü", "delta.columnMapping.id": 3, "x": 1.5,
                      "delta.columnMapping.nested.ids": {"a.element": 9}},
         "later": True},
        {"name": "z", "nullable": True, "type": "integer", "metadata": {
            "delta.typeChanges": [{"fromType": "short", "toType": "integer"}], "zz": None}},
    ]}  # fmt: skip
    action = metadata(configuration=ON)
    action["metaData"]["schemaString"] = json.dumps(odd, ensure_ascii=False)
    action["metaData"]["unknownKey"] = {"kept": True}
    table.commit(features("typeWidening"), action, add("a"))
    done = do(load(table.store), "é \u0001.element", "long", "z", "long")
    body = done["metaData"]
    schema = json.loads(body.pop("schemaString"))
    before = dict(action["metaData"])
    before.pop("schemaString")
    assert body == before
    expected = json.loads(json.dumps(odd))
    expected["fields"][0]["type"]["elementType"] = "long"
    expected["fields"][0]["metadata"]["delta.typeChanges"] = [
        {"fromType": "integer", "toType": "long", "fieldPath": "element"}
    ]
    expected["fields"][1]["type"] = "long"
    expected["fields"][1]["metadata"]["delta.typeChanges"].append(
        {"fromType": "integer", "toType": "long"}
    )
    assert schema == expected
    assert list(schema["fields"][0]) == list(odd["fields"][0])
    assert "protocol" not in done
    assert set(done) == {"commitInfo", "metaData"}
    info = done["commitInfo"]
    assert (info["operation"], info["isBlindAppend"], info["operationMetrics"]) == (
        "CHANGE COLUMNS", True, {},
    )  # fmt: skip
    told = json.loads(info["operationParameters"]["columns"])
    assert [one["type"] for one in told] == ["long", "long"]


def test_one_column_is_told_alone(table: TableBuilder) -> None:
    info = do(at(table, "integer"), "c", "long")["commitInfo"]
    assert info["operation"] == "CHANGE COLUMN"
    told = json.loads(info["operationParameters"]["column"])
    changes = [{"fromType": "integer", "toType": "long"}]
    assert told == {"name": "c", "type": "long", "nullable": True,
                    "metadata": {"delta.typeChanges": changes}}  # fmt: skip


@pytest.mark.parametrize(
    "names", [("typeWidening-preview",), ("typeWidening-preview", "typeWidening")]
)
def test_preview_tables_record_the_version(table: TableBuilder, names: tuple[str, ...]) -> None:
    """W-50 to W-53; the version is that of the commit, also if another one came first."""
    table.commit(features(*names), metadata(column("c", "byte"), configuration=ON))
    stale = load(table.store)
    table.commit(add("a"))
    done = do(stale, "c", "integer")
    (entry,) = json.loads(done["metaData"]["schemaString"])["fields"][0]["metadata"][
        "delta.typeChanges"
    ]
    assert entry == {"fromType": "byte", "toType": "integer", "tableVersion": 2}
    again = do(load(table.store), "c", "long")
    changes = json.loads(again["metaData"]["schemaString"])["fields"][0]["metadata"]
    assert [one["tableVersion"] for one in changes["delta.typeChanges"]] == [2, 3]
    assert "protocol" not in again


@pytest.mark.parametrize(
    ("before", "reader", "writer"),
    [
        # W-60, F-1 to F-6
        (protocol(1, 2), ["typeWidening"], ["appendOnly", "invariants", "typeWidening"]),
        (protocol(2, 5), ["columnMapping", "typeWidening"],
         ["appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "generatedColumns",
          "invariants", "typeWidening"]),
        ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 7,
                       "writerFeatures": ["appendOnly", "domainMetadata"]}},
         ["typeWidening"], ["appendOnly", "domainMetadata", "typeWidening"]),
        (features("deletionVectors"), ["deletionVectors", "typeWidening"],
         ["deletionVectors", "typeWidening"]),
    ],
)  # fmt: skip
def test_enabling_carries_everything_over(
    table: TableBuilder, before: Any, reader: list[str], writer: list[str]
) -> None:
    # W-61: another spelling of the property goes.
    old = {"DELTA.enabletypewidening": "false", "other": "x"}
    table.commit(before, metadata(column("c", "integer"), configuration=old))
    done = do(load(table.store), "c", "long", enable=True)
    assert done["protocol"] == {"minReaderVersion": 3, "minWriterVersion": 7,
                                "readerFeatures": reader, "writerFeatures": writer}  # fmt: skip
    assert done["metaData"]["configuration"] == {"other": "x", **ON}
    assert done["commitInfo"]["operation"] == "CHANGE COLUMN"


def test_it_can_be_enabled_alone_and_only_once(table: TableBuilder) -> None:
    table.commit(protocol(), metadata(column("c", "integer")))
    done = do(load(table.store), enable=True)
    assert done["commitInfo"]["operation"] == "SET TBLPROPERTIES"
    assert not plan(load(table.store), enable=True).changes_anything


# -- other writers -----------------------------------------------------------------------


def test_data_of_others_does_not_disturb(table: TableBuilder) -> None:
    stale = at(table, "integer", column("other", "integer"))
    table.commit(add("theirs"))
    assert do(stale, "c", "long")["metaData"]
    assert load(table.store).version == 2


def test_another_widening_is_planned_again(table: TableBuilder) -> None:
    """CO-1, CO-4."""
    stale = at(table, "integer", column("other", "integer"))
    do(load(table.store), "other", "long")
    do(stale, "c", "long")
    schema = json.loads(load(table.store).metadata.schema_string or "")
    assert [one["type"] for one in schema["fields"]] == ["long", "long"]


def test_the_same_column_widened_by_another_writer_is_a_conflict(table: TableBuilder) -> None:
    stale = at(table, "byte")
    do(load(table.store), "c", "integer")
    with pytest.raises(Conflict, match="metadata"):
        do(stale, "c", "long")


def test_a_constraint_that_came_meanwhile_is_seen(table: TableBuilder) -> None:
    stale = at(table, "integer", names=("checkConstraints",))
    later = metadata(column("c", "integer"), configuration={**ON, "delta.constraints.k": "c > 1"})
    table.commit(later)
    with pytest.raises(Refused, match="constraint k"):
        do(stale, "c", "long")


# -- tables of other writers -------------------------------------------------------------


@pytest.mark.parametrize("name", ["delta-golden/type-widening", "kernel-rs/type-widening"])
def test_tables_that_others_widened_show_their_changes(name: str, deltacli: Deltacli) -> None:
    if not (GOLDEN / name).exists():
        pytest.skip(f"no tables in {GOLDEN}")
    snapshot = load(LocalStore(str(GOLDEN / name)))
    schema = json.loads(snapshot.metadata.schema_string or "")
    changed = {
        one["name"]: one["metadata"]["delta.typeChanges"]
        for one in schema["fields"]
        if one["metadata"].get("delta.typeChanges")
    }
    assert len(changed) > 5
    shown = deltacli("snapshot", GOLDEN / name, "--schema", "-o", "json").json
    for row in shown:
        if row["column"] in changed:
            assert row["metadata"]["delta.typeChanges"] == changed[row["column"]]
    status = deltacli("widen-type", GOLDEN / name, "--status", "-o", "json").json
    assert {one["column"] for one in status["columns"]} <= set(changed)
    assert status["numNarrowFiles"] >= 1
    for one in status["columns"]:
        assert {"fromType": one["storedType"], "toType": one["type"]}.items() <= {
            **changed[one["column"]][-1], "fromType": one["storedType"],
        }.items()  # fmt: skip


# -- the command -------------------------------------------------------------------------


@pytest.fixture
def place(tmp_path: Path) -> Path:
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    at(table, "integer")
    return tmp_path / "t"


def test_the_plan_is_shown_and_the_commit_asked_for(place: Path, deltacli: Deltacli) -> None:
    dry = deltacli("widen-type", place, "c", "bigint", "--dry-run", "-o", "json")
    assert (dry.code, dry.json["dryRun"], dry.json["version"]) == (0, True, 0)
    assert dry.json["changes"] == [
        {"column": "c", "fieldPath": None, "fromType": "integer", "toType": "long"}
    ]
    asked = deltacli("widen-type", place, "c", "bigint")
    assert asked.code == 2
    done = deltacli("widen-type", place, "c", "bigint", "--yes", "-o", "json")
    assert (done.code, done.json["dryRun"], done.json["version"]) == (0, False, 1)
    again = deltacli("widen-type", place, "c", "bigint", "--yes")
    assert again.code == 0
    assert "has that type already" in again.stderr
    assert load(LocalStore(str(place))).version == 1


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("c",), 2, "to which type is 'c' to go?"),
        (("c", "long", "d"), 2, "'d' has no type behind it"),
        ((), 2, "nothing is to be changed"),
        (("c", "long", "--status"), 2, "--status stands alone"),
        (("--rewrite", "--drop-feature"), 2, "--rewrite stands alone"),
        (("x", "long"), 3, "there is no column 'x'"),
        (("c", "string"), 4, "cannot be widened"),
    ],
)
def test_wrong_calls_end_in_one_error(
    place: Path, deltacli: Deltacli, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = deltacli("widen-type", place, *arguments)
    assert done.code == code
    assert says in done.stderr
    assert done.stderr.count("error:") == 1


# -- statistics and partition values afterwards --------------------------------------------


def stats_of(low: Any, high: Any) -> str:
    """A text of statistics, its values as they are written here."""
    body = '{{"numRecords":2,"minValues":{{{}}},"maxValues":{{{}}},"nullCount":{{"c":0}}}}'
    return body.format(f'"c":{low}', f'"c":{high}')


@pytest.mark.parametrize(
    ("source", "target", "low", "high", "typed"),
    [
        ("integer", "long", "-5", "12", (-5, 12)),
        ("byte", "double", "-1", "7", (-1.0, 7.0)),
        ("integer", "decimal(12,2)", "1", "12", (Decimal("1.00"), Decimal("12.00"))),
        ("decimal(5,2)", "decimal(10,4)", "1.10", "999.99",
         (Decimal("1.1000"), Decimal("999.9900"))),
        ("decimal(30,2)", "decimal(38,3)", "1234567890123456789012345678.10",
         "1234567890123456789012345678.11",
         (Decimal("1234567890123456789012345678.100"),
          Decimal("1234567890123456789012345678.110"))),
        ("date", "timestamp_ntz", '"2024-01-01"', '"2024-02-29"',
         (datetime(2024, 1, 1), datetime(2024, 2, 29))),
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", ["text", "struct"])
def test_statistics_of_narrow_files_read_exactly(
    table: TableBuilder, before: str, source: str, target: str, low: str, high: str, typed: Any
) -> None:
    """W-70 to W-74: from JSON, and from the struct of an older checkpoint."""
    table.commit(
        features("typeWidening", "timestampNtz"),
        metadata(column("c", source), configuration=ON),
        add("a", stats=stats_of(low, high)),
    )
    if before == "struct":
        write(load(table.store), stats="struct")
    do(load(table.store), "c", target)
    snapshot = load(table.store)
    result = write(snapshot, stats="both")
    rows = pq.read_table(io.BytesIO(table.store.read(result.files[0]["path"])))
    (row,) = [one for one in rows.column("add").to_pylist() if one]
    parsed = row["stats_parsed"]
    assert (parsed["minValues"]["c"], parsed["maxValues"]["c"]) == typed
    assert parsed["numRecords"] == 2
    told = json.loads(row["stats"], parse_float=Decimal)
    assert told["numRecords"] == 2
    if before == "text":
        # Texts stay what they were.
        assert row["stats"] == stats_of(low, high)
    (one,) = Files(load(table.store)).live()
    assert one.stats is not None
    # Files are skipped by such statistics, and none that matters.
    below = typed[0] - timedelta(days=2) if target == "timestamp_ntz" else -(10**9)
    files = Files(snapshot)
    assert not list(files.matching([one], parse_condition(f"c < {sql_of(below)}")))
    assert list(files.matching([one], parse_condition(f"c <= {sql_of(typed[0])}")))
    assert list(files.matching([one], parse_condition(f"c >= {sql_of(typed[1])}")))


def sql_of(value: Any) -> str:
    return f"'{value}'" if isinstance(value, datetime) else str(value)


def test_partition_values_are_read_as_the_new_type(table: TableBuilder) -> None:
    """W-75."""
    table.commit(
        features("typeWidening", "timestampNtz"),
        metadata(column("c", "date"), column("x"), partition_by=["c"], configuration=ON),
        add("a", partitionValues={"c": "2024-02-29"}),
    )
    done = do(load(table.store), "c", "timestamp_ntz")
    assert "add" not in done
    (one,) = Files(load(table.store)).live()
    assert one.partition == {"c": datetime(2024, 2, 29)}


# -- odd tables --------------------------------------------------------------------------


def test_names_with_blanks_are_other_names(table: TableBuilder) -> None:
    own = (column("a", "integer"), column(" a", "integer"))
    table.commit(features("typeWidening"), metadata(*own, configuration=ON))
    (one,) = plan(load(table.store), "` a`", "long").widenings
    assert one.path == (" a",)
    schema = json.loads(plan(load(table.store), "` a`", "long").schema_string(1))
    assert [field["type"] for field in schema["fields"]] == ["integer", "long"]


@pytest.mark.parametrize("key", ["delta.generationExpression", "delta.invariants"])
def test_what_is_said_of_a_struct_counts_for_its_fields(table: TableBuilder, key: str) -> None:
    own = column("s", struct(column("a", "integer")), **{key: "named_struct('a', 1)"})
    table.commit(features("typeWidening", "generatedColumns", "invariants"),
                 metadata(own, configuration=ON))  # fmt: skip
    with pytest.raises(Refused, match=r"is a generated column|has an invariant"):
        plan(load(table.store), "s.a", "long")


@pytest.mark.parametrize(
    "text",
    ['"C" > 0', "c.b < 1", "t.c < 1", "1c < 10", "r'\\' = x or c < 10", "array_max(c.d) < 9"],
)
def test_references_are_found_in_all_spellings(table: TableBuilder, text: str) -> None:
    kind = array(struct(column("b", "integer"), column("d", "integer")))
    name = "1c" if text.startswith("1c") else "c"
    own = [column(name, "integer") if "c." not in text or "t." in text else column("c", kind)]
    settings = {**ON, "delta.constraints.k": text}
    table.commit(features("typeWidening", "checkConstraints"),
                 metadata(*own, configuration=settings))  # fmt: skip
    path = name if own[0]["type"] == "integer" else f"c.element.{'d' if 'd' in text else 'b'}"
    with pytest.raises(Refused, match="constraint k"):
        plan(load(table.store), path, "long")


def test_a_column_of_the_same_name_inside_another_is_another(table: TableBuilder) -> None:
    own = [column("a", "integer"), column("s", struct(column("a", "integer")))]
    settings = {**ON, "delta.constraints.k": "s.a > 1"}
    table.commit(features("typeWidening", "checkConstraints"),
                 metadata(*own, configuration=settings))  # fmt: skip
    assert plan(load(table.store), "a", "long").widenings
    with pytest.raises(Refused, match="constraint k"):
        plan(load(table.store), "s.a", "long")


@pytest.mark.parametrize(
    ("reader", "writer", "readers", "writers"),
    [(1, 7, None, ["typeWidening"]), (3, 7, ["typeWidening"], []), (3, 7, [], ["typeWidening"])],
)
def test_the_feature_must_be_in_both_lists(
    table: TableBuilder, reader: int, writer: int, readers: Any, writers: Any
) -> None:
    """W-11."""
    body = {"minReaderVersion": reader, "minWriterVersion": writer, "writerFeatures": writers}
    if readers is not None:
        body["readerFeatures"] = readers
    table.commit({"protocol": body}, metadata(column("c", "integer"), configuration=ON))
    snapshot = load(table.store)
    with pytest.raises(Refused):
        plan(snapshot, "c", "long")
    if not any("readerFeatures" in one for one in snapshot.warnings):
        after = plan(snapshot, "c", "long", enable=True).protocol
        assert after.reader_features == after.writer_features == ("typeWidening",)


@pytest.mark.parametrize("own", [None, {}, {"delta.typeChanges": None}, {"delta.typeChanges": []}])
def test_metadata_that_is_nothing_is_no_trouble(table: TableBuilder, own: Any) -> None:
    action = metadata(configuration=ON)
    field = {"name": "c", "type": "decimal(5, 2)", "nullable": True, "metadata": own}
    action["metaData"]["schemaString"] = json.dumps(struct(field))
    table.commit(features("typeWidening"), action)
    assert not plan(load(table.store), "c", "decimal(5,2)").changes_anything
    done = do(load(table.store), "c", "decimal(7,2)")
    (changed,) = json.loads(done["metaData"]["schemaString"])["fields"]
    assert changed["metadata"]["delta.typeChanges"] == [
        {"fromType": "decimal(5,2)", "toType": "decimal(7,2)"}
    ]
