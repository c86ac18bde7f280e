"""Each rule finds the table that breaks just it, and nothing in a sound one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from deltacli.paimon.book import BOOK
from deltacli.paimon.check import check_table
from deltacli.storage.local import LocalStore
from tests.conftest import Result
from tests.paimon.builder import ADD, PaimonTable, column, schema

Deltacli = Callable[..., Result]
Trees = list[dict[str, Any]]

ROW = {"type": "ROW", "fields": [column(3, "a", "INT"), column(4, "b", "STRING")]}
FIELDS = [
    column(0, "k", "BIGINT NOT NULL"),
    column(1, "v", "INT"),
    column(2, "r", ROW),
    column(5, "m", {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}),
    column(6, "dt", "STRING NOT NULL"),
    column(7, "t", "TIMESTAMP(3)"),
]


def append(**options: str) -> dict[str, Any]:
    """An append table with these options; an underscore is a minus, two are a dot."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return schema(fields=FIELDS, options=named)


def keyed(**options: str) -> dict[str, Any]:
    return {**append(**{"bucket": "2", **options}), "primaryKeys": ["k"]}


def parted(**options: str) -> dict[str, Any]:
    return {**keyed(**options), "primaryKeys": ["k", "dt"], "partitionKeys": ["dt"]}


def fields(*own: dict[str, Any], **members: Any) -> dict[str, Any]:
    return schema(fields=list(own), **members)


def kind(of: Any, **members: Any) -> dict[str, Any]:
    return fields(column(0, "k", "INT"), column(1, "c", of), **members)


def then(first: Mapping[str, Any], *more: Mapping[str, Any]) -> Trees:
    """Versions, each with what is different from the first."""
    trees = [dict(first)]
    for number, one in enumerate(more, 1):
        trees.append({**first, "timeMillis": first["timeMillis"] + number, **one, "id": number})
    return trees


TWO = [column(0, "a", "INT"), column(1, "b", "INT")]
BROKEN: list[tuple[str, Any]] = [
    ("PMF001", "{"),
    ("PMF001", ""),
    ("PMF001", "[]"),
    ("PMF001", {**schema(), "fields": None}),
    ("PMF001", {**schema(), "id": "0"}),
    ("PMF001", {**schema(), "primaryKeys": "k"}),
    ("PMF001", kind("TEXT")),
    ("PMF001", kind({"type": "ROW", "fields": [column(2, "x", "INT"), column(3, "x", "INT")]})),
    ("PMF001", json.dumps(schema()).replace('"STRING"', '{"type": "ARRAY", "element":' * 3000)),
    ("PMF002", {**schema(), "id": 5}),
    ("PMF003", {**schema(), "version": 4}),
    ("PMF004", {**schema(), "options": {"a": 1}}),
    ("PMF006", kind({"type": "MAP<STRING NOT NULL, INT>", "key": "STRING NOT NULL",
                     "value": "INT", "nullable": True})),
    ("PMF007", {**schema(), "comment": None}),
    ("PMT001", kind({"type": "MAP", "key": "STRING", "value": "INT"})),
    ("PMT001", kind({"type": "ARRAY", "element": {"type": "MAP", "key": "INT", "value": "INT"}})),
    ("PMT002", fields(column(1, "a", "INT"), column(1, "b", "INT"))),
    ("PMT002", fields(column(4, "a", "INT"), column(2, "r", ROW))),
    ("PMT003", {**schema(), "highestFieldId": 0}),
    ("PMT003", {**kind(ROW), "highestFieldId": 1}),
    ("PMT004", fields(column(-1, "a", "INT"), column(1, "b", "INT"))),
    ("PMS001", fields(column(0, "a", "INT"), column(1, "a", "INT"))),
    ("PMS002", fields(column(0, " ", "INT"))),
    ("PMS003", fields(column(0, "rowkind", "INT"))),
    ("PMS003", fields(column(0, "_KEY_x", "INT"))),
    ("PMS004", fields(column(0, "a", "INT"), column(1, "A", "INT"))),
    ("PMS005", fields()),
    ("PMS006", {**append(), "partitionKeys": ["nope"]}),
    ("PMS006", {**append(), "partitionKeys": ["m"]}),
    ("PMS006", {**append(), "partitionKeys": ["dt", "dt"]}),
    ("PMS007", {**keyed(), "primaryKeys": ["k", "nope"]}),
    ("PMS007", {**keyed(), "primaryKeys": ["k", "k"]}),
    ("PMS008", {**keyed(), "primaryKeys": ["k", "v"]}),
    ("PMS009", {**parted(), "primaryKeys": ["dt"]}),
    ("PMS010", fields(column(0, "a", "INT", defaultValue="x"))),
    ("PMO001", append(bucket="four")),
    ("PMO001", keyed(merge_engine="upsert")),
    ("PMO001", append(write_only="maybe")),
    ("PMO002", append(bucket="0")),
    ("PMO002", append(bucket="-2")),
    ("PMO003", append(bucket="2")),
    ("PMO003", append(bucket_key="k")),
    ("PMO003", append(bucket="2", bucket_key="nope")),
    ("PMO003", append(bucket="2", bucket_key="k, v")),
    ("PMO003", append(bucket="2", bucket_key="m")),
    ("PMO003", keyed(bucket_key="v")),
    ("PMO003", parted(bucket_key="dt")),
    ("PMO004", keyed(sequence__field="nope")),
    ("PMO004", keyed(sequence__field="v,v")),
    ("PMO004", keyed(sequence__field="v", merge_engine="first-row")),
    ("PMO004", keyed(sequence__field="v", fields__v__aggregate_function="max")),
    ("PMO004", {**parted(sequence__field="v"), "primaryKeys": ["k"]}),
    ("PMO005", keyed(fields__nope__ignore_retract="true")),
    ("PMO005", keyed(fields__r__a__ignore_retract="true")),
    ("PMO005", keyed(merge_engine="partial-update", fields__t__sequence_group="nope")),
    ("PMO005", keyed(merge_engine="partial-update", fields__t__sequence_group="k")),
    ("PMO006", append(changelog_producer="input")),
    ("PMO006", keyed(changelog_producer="input", merge_engine="first-row")),
    ("PMO006", keyed(changelog_producer="full-compaction", deletion_vectors__enabled="true")),
    ("PMO006", keyed(changelog_producer="lookup", full_compaction__delta_commits="5")),
    ("PMO006", append(streaming_read_overwrite="true")),
    ("PMO007", append(snapshot__num_retained__min="0")),
    ("PMO007", append(snapshot__num_retained__min="5", snapshot__num_retained__max="3")),
    ("PMO007", append(changelog__num_retained__min="20", changelog__num_retained__max="3")),
    ("PMO008", keyed(rowkind__field="nope")),
    ("PMO008", keyed(record_level__time_field="dt")),
    ("PMO008", append(vector_field="v")),
    ("PMO008", append(blob_field="v")),
    ("PMO008", keyed(pk_btree__index__columns="nope")),
    ("PMO009", keyed(row_tracking__enabled="true")),
    ("PMO009", append(data_evolution__enabled="true")),
    ("PMO009", kind("BLOB")),
    ("PMO009", kind({"type": "ROW", "fields": [column(2, "b", "BLOB")]},
                    options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"},
                    highestFieldId=2)),
    ("PMO009", {**kind("BLOB"), "primaryKeys": ["k"],
                "fields": [column(0, "k", "INT NOT NULL"), column(1, "c", "BLOB")],
                "options": {"changelog-producer": "input"}}),
    ("PMO010", append(primary_key__nullable="true")),
    ("PMO010", keyed(merge_engine="first-row", deletion_vectors__enabled="true")),
    ("PMO010", keyed(sequence__snapshot_ordering="true")),
    ("PMO010", keyed(clustering__incremental="true")),
    ("PMO010", append(manifest_sort__enabled="true")),
    ("PMO010", keyed(pk_clustering_override="true", deletion_vectors__enabled="true")),
    ("PMO004", keyed(sequence__field="")),
    ("PMO005", keyed(merge_engine="partial-update", fields__t__sequence_group="v",
                     fields__dt__sequence_group="v")),
    ("PMO007", append(changelog__num_retained__min="0")),
    ("PMO007", append(target_file_row_num="0")),
    ("PMO008", append(blob_field="m")),
    ("PMO020", keyed(merge_engine="partial-update", ignore_delete="true",
                     partial_update__remove_record_on_delete="true")),
    ("PMO020", keyed(merge_engine="partial-update", fields__t__sequence_group="v",
                     partial_update__remove_record_on_sequence_group="dt")),
    ("PMO011", append(scan__version="3")),
    ("PMO015", append(file__format="")),
    ("PMO015", append(file__format="csv")),
    ("PMO015", kind("VARIANT", options={"file.format": "orc"})),
    ("PMO015", {**kind({"type": "ARRAY", "element": "VARIANT"}), "version": 2}),
    ("PMO015", kind("TIMESTAMP(9)", options={"file.format": "Avro"})),
    ("PMO016", {**append(primary_key="k"), "primaryKeys": ["k"]}),
    ("PMO017", append(file__format="parqet")),
    ("PMO018", append(file_index__bloom_filter__columns="v,nope")),
    ("PMO018", append(file_index__bsi__columns="dt")),
    ("PMO018", append(file_index__bitmap__columns="v[a]")),
    ("PMO019", append(fields__v__map__storage_layout="default")),
    ("PMO019", append(fields__m__map__storage_layout="shredded")),
    ("PMO019", append(fields__m__map__storage_layout="shared-shredding", file__format="json")),
    ("PMO011", append(scan__mode="from-timestamp")),
    ("PMO011", append(scan__mode="latest", scan__snapshot_id="3")),
    ("PMO011", append(scan__snapshot_id="3", scan__timestamp="2020-01-01 00:00:00")),
    ("PMO012", append(partition="dt")),
    ("PMO013", keyed(merge_engine="aggregation", fields__v__aggregate_function="nope")),
    ("PMO013", keyed(merge_engine="partial-update", fields__v__aggregate_function="sum")),
    ("PMO014", append(scan__fallback_branch="nope")),
    ("PMH001", then(keyed(), {"primaryKeys": ["k", "dt"]})),
    ("PMH002", then({**append(), "primaryKeys": ["k"]}, {"primaryKeys": []})),
    ("PMH003", then(append(), {"partitionKeys": ["dt"]})),
    ("PMH004", then(fields(*TWO), {"fields": TWO[:1]},
                    {"fields": [TWO[0], column(1, "c", "INT")]})),
    ("PMH005", then({**fields(*TWO), "highestFieldId": 9}, {"highestFieldId": 1})),
    ("PMH006", then(kind("INT"), {"fields": kind("DATE")["fields"]})),
    ("PMH006", then({**kind(ROW), "highestFieldId": 4}, {"fields": kind("INT")["fields"]})),
    ("PMH006", then(kind("DATE NOT NULL"), {"fields": kind("STRING NOT NULL")["fields"]})),
    ("PMH007", then(kind("BIGINT"), {"fields": kind("INT")["fields"]})),
    ("PMH007", then(kind({"type": "ARRAY", "element": "INT"}),
                    {"fields": kind({"type": "ARRAY", "element": "SMALLINT"})["fields"]})),
    ("PMH008", then({**fields(*TWO), "highestFieldId": 9},
                    {"fields": [*TWO, column(2, "c", "INT NOT NULL")]})),
    ("PMH009", then(fields(*TWO), {"timeMillis": 5})),
]  # fmt: skip


def write(root: Path, trees: Any) -> PaimonTable:
    table = PaimonTable(root)
    for number, one in enumerate(trees if isinstance(trees, list) else [trees]):
        table.put(f"schema/schema-{number}", one)
    return table


def found_in(table: PaimonTable) -> set[str]:
    checked = check_table(LocalStore(str(table.root)), BOOK.rules)
    assert all(one.finding.message for one in checked.tally.found())
    return set(checked.tally.counts)


@pytest.mark.parametrize(
    ("rule_id", "trees"), BROKEN, ids=[f"{one}-{at}" for at, (one, _) in enumerate(BROKEN)]
)
def test_a_rule_finds_what_breaks_it(rule_id: str, trees: Any, tmp_path: Path) -> None:
    assert found_in(write(tmp_path / "t", trees)) == {rule_id}


def test_every_rule_has_a_table_that_breaks_it() -> None:
    elsewhere = {"PMF005", "PMR001", "PMR002", "RUN001"}
    assert {one.id for one in BOOK.rules} == {rule_id for rule_id, _ in BROKEN} | elsewhere


SOUND = [
    schema(),
    append(), append(bucket="4", bucket_key="k,v"), append(bucket="-1"),
    {**append(), "version": 1, "options": {"bucket": "1"}},
    keyed(), keyed(bucket="-2"), keyed(bucket="-1"), parted(bucket_key="k"),
    keyed(sequence__field="v, t"), keyed(rowkind__field="dt"),
    keyed(merge_engine="aggregation", fields__default_aggregate_function="last_value",
          fields__v__aggregate_function="sum", fields__m__map__storage_layout="default"),
    keyed(merge_engine="partial-update", fields__t__sequence_group="v,m"),
    keyed(changelog_producer="lookup", record_level__time_field="t"),
    keyed(primary_key__nullable="true"),
    parted(scan__mode="from-snapshot", scan__tag_name="a"),
    append(file_index__bloom_filter__columns="v, m[a]", scan__snapshot_id="1"),
    append(row_tracking__enabled="true", data_evolution__enabled="true"),
    append(unknown__option="anything"), append(file__format="ORC"),
    append(scan__creation_time_millis="5"),
    append(fields__m__map__storage_layout="shared-shredding"),
    keyed(merge_engine="partial-update", fields__t__sequence_group="v",
          fields__v__aggregate_function="sum"),
    kind("BLOB", options={"row-tracking.enabled": "true", "data-evolution.enabled": "true",
                          "blob-field": "c"}),
    then(keyed(), {"primaryKeys": ["key"],
                   "fields": [column(0, "key", "BIGINT NOT NULL"), *FIELDS[1:]]}),
    then(kind("INT"), {"fields": kind("BIGINT")["fields"]}),
    then(kind("INT"), {"fields": kind("INT NOT NULL")["fields"]}),
    then({**kind(ROW), "highestFieldId": 9},
         {"fields": kind({**ROW, "fields": [*ROW["fields"], column(8, "n", "INT")]})["fields"]}),
]  # fmt: skip


@pytest.mark.parametrize("trees", SOUND)
def test_nothing_is_found_in_a_sound_table(trees: Any, tmp_path: Path) -> None:
    assert found_in(write(tmp_path / "t", trees)) == set()


def test_what_refers_to_a_version_is_followed(tmp_path: Path) -> None:
    table = write(tmp_path / "t", [schema(0), schema(1), schema(2)])
    table.snapshot(1, 2, [(ADD, 0)])
    table.add_schema(schema(0), "b")
    table.snapshot(1, 0, [(ADD, 0)], branch="b")
    assert found_in(table) == set()
    (table.root / "schema/schema-1").unlink()
    assert found_in(table) == set()
    (table.root / "schema/schema-0").unlink()
    assert found_in(table) == {"PMR002"}
    (table.root / "branch/branch-b/snapshot/snapshot-1").write_text("x")
    assert found_in(table) == {"PMR001", "PMR002"}


def test_other_files_are_told(tmp_path: Path) -> None:
    table = write(tmp_path / "t", schema())
    table.put("schema/schema-01", "{}")
    assert found_in(table) == {"PMF005"}


def test_flaws_that_stay_are_told_once(tmp_path: Path, deltacli: Deltacli) -> None:
    flawed = kind({"type": "MAP", "key": "STRING", "value": "INT"})
    table = write(tmp_path / "t", then(flawed, *[{"comment": str(one)} for one in range(30)]))
    found = deltacli("paimon", "validate", table.root, "-o", "json")
    assert found.code == 1
    (one,) = found.json["tables"][0]["findings"]
    assert (one["rule"], one["file"]) == ("PMT001", "schema/schema-0")
    for switch in (("--allow-nullable-map-keys",), ("--ignore", "PMT001")):
        assert deltacli("paimon", "validate", table.root, *switch).code == 0
    assert deltacli("validate", table.root, "--ignore", "PMT").code == 0


def test_both_commands_find_the_same_in_every_format(tmp_path: Path, deltacli: Deltacli) -> None:
    table = write(tmp_path / "t", keyed(merge_engine="upsert"))
    for form in ("json", "jsonl", "csv", "sarif", "junit", "github", "table"):
        own = deltacli("paimon", "validate", table.root, "-o", form)
        general = deltacli("validate", table.root, "-o", form)
        assert own.code == general.code == 1
        assert "PMO001" in own.stdout
        if form in ("jsonl", "csv", "github"):
            assert own.stdout == general.stdout
    many = deltacli("validate", f"{tmp_path}/*", "-o", "json")
    assert [one["location"] for one in many.json["tables"]] == [f"file://{table.root}"]
    only = deltacli("paimon", "validate", table.root, "--branch", "nope")
    assert only.code == 3
    assert deltacli("paimon", "validate", tmp_path / "nope").code == 3


def test_rules_are_explained(deltacli: Deltacli) -> None:
    listed = deltacli("validate", "--list-rules", "-o", "json").json
    assert {one.id for one in BOOK.rules} <= {one["rule"] for one in listed}
    for one in BOOK.rules:
        page = one.page
        assert page.holds.endswith(".")
        assert page.why.endswith(".")
        assert page.fix.endswith(".")
    assert deltacli("validate", "--explain", "PMT001").code == 0
