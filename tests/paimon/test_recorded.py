"""Tables of other writers, and the answers of Paimon's Java, held against ours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.paimon.casts import cast_of
from deltacli.paimon.references import ReferenceScan
from deltacli.paimon.schema_file import parse_schema, parse_type, schema_text, type_tree
from deltacli.paimon.table import branch_names, open_branch
from deltacli.paimon.types import BadType, sql_text
from deltacli.storage.local import LocalStore
from tests.conftest import Result
from tests.paimon.builder import parse_sql
from tests.paimon.recorded import RECORDED, answers, copied, names, needs_recorded

pytestmark = needs_recorded
Deltacli = Callable[..., Result]
SCHEMA_FILES = answers("schema_files/expected.json")
HISTORIES = answers("histories/expected.json")
EVOLVE = answers("cases/evolve_cases.json")
TYPES = answers("cases/type_cases.json")
CASTS = answers("cases/cast_cases.json")
MAPPINGS = answers("cases/mapping_cases.json")
# Where we do something else than Java, as the recommendations with the cases ask for.
REFUSED_BY_US = {"add nested in map key", "null map key", "opt path"}
NOTHING_NEW = {"type bool->bool", "opt primary-key same", "empty changes", "null nested"}


def verdict(result: Result) -> str:
    (table,) = result.json["tables"]
    summary = table["summary"]
    return next((one for one in ("error", "warning") if summary[one]), "ok")


@pytest.mark.parametrize("command", [("paimon", "validate"), ("validate",)], ids=["own", "all"])
@pytest.mark.parametrize("name", SCHEMA_FILES)
def test_a_schema_file_gets_the_recorded_verdict(
    name: str, command: tuple[str, ...], deltacli: Deltacli
) -> None:
    found = deltacli(*command, RECORDED / "schema_files" / name, "-o", "json")
    expected = SCHEMA_FILES[name]["verdict"]
    assert verdict(found) == expected, found.json
    assert found.code == (expected == "error")


@pytest.mark.parametrize(
    "name", [n for n, one in SCHEMA_FILES.items() if "options_effective" in one]
)
def test_options_are_those_that_hold(name: str, deltacli: Deltacli) -> None:
    expected = SCHEMA_FILES[name]
    found = deltacli("paimon", "show", RECORDED / "schema_files" / name, "-o", "json")
    if expected["java"]["parse"] != "ok" and found.code == 5:
        return
    assert found.json["options"] == expected["options_effective"]
    if "fields" in expected["java"] and name != "pypaimon_20_map":
        assert found.json["schema"] == expected["java"]["fields"]


@pytest.mark.parametrize("name", HISTORIES)
def test_a_history_gets_the_recorded_verdict(name: str, deltacli: Deltacli) -> None:
    expected, place = HISTORIES[name], RECORDED / "histories" / name
    found = deltacli("paimon", "validate", place, "-o", "json")
    assert verdict(found) == expected["verdict"], found.json
    listed = deltacli("paimon", "list", place, "-o", "json").json
    assert sorted(one["id"] for one in listed) == expected["schema_ids"]
    assert [one["id"] for one in listed if one["isNewest"]] == [expected["latest_schema_id"]]
    for step, changes in expected.get("diff", {}).items():
        first, _, second = step.partition("->")
        rows = deltacli("paimon", "diff", place, first, second, "-o", "json").json
        assert [[one["change"], one["fieldId"]] for one in rows] == [
            [change[0], change[2]] for change in changes
        ]


@pytest.mark.parametrize("name", names("tables"))
def test_references_are_the_recorded_ones(name: str) -> None:
    expected = json.loads((RECORDED / "tables" / name / "expected.json").read_bytes())
    store = LocalStore(str(RECORDED / "tables" / name / "table"))
    assert set(branch_names(store)) == set(expected["branches"])
    for branch, answer in expected["branches"].items():
        found = ReferenceScan(open_branch(store, branch)).run()
        wanted = answer["references"]
        assert {str(key): one for key, one in found.snapshots.items()} == wanted["snapshots"]
        assert found.tags == wanted["tags"]
        assert {str(key): one for key, one in found.changelogs.items()} == wanted["changelogs"]
        assert found.statistics == wanted["statistics"]
        assert sorted(found.manifests.adds) == wanted["manifest_entries_add"]
        assert sorted(found.manifests.deletes) == wanted["manifest_entries_delete"]
        assert sorted(found.manifests.lists) == wanted["manifest_list_meta"]
        assert sorted(found.ids) == wanted["referenced_ids"]


@pytest.mark.parametrize("name", names("tables"))
def test_expire_deletes_the_recorded_versions(
    name: str, tmp_path: Path, deltacli: Deltacli
) -> None:
    place = RECORDED / "tables" / name
    expected = json.loads((place / "expected.json").read_bytes())
    for branch, answer in expected["branches"].items():
        table = copied(f"tables/{name}/table", tmp_path / branch)
        own = ("paimon", "expire", table, "--branch", branch, "--older-than", "0s")
        planned = deltacli(*own, "--dry-run", "-o", "json").json
        assert [one["id"] for one in planned["files"]] == answer["may_delete"]
        assert sorted(map(int, planned["kept"])) == answer["must_keep"]
        counted = deltacli(*own, "--keep-for-merges", "--dry-run", "-o", "json").json
        assert [one["id"] for one in counted["files"]] == answer[
            "may_delete_if_ids_of_other_branches_count"
        ]
        done = deltacli(*own, "--yes", "-o", "json").json
        assert [one["id"] for one in done["files"]] == answer["may_delete"]
        rest = deltacli("paimon", "list", table, "--branch", branch, "-o", "json").json
        assert sorted(one["id"] for one in rest) == answer["must_keep"]
        assert deltacli("paimon", "validate", table).code == 0


@pytest.mark.parametrize("name", names("damaged"))
def test_a_damaged_table_is_found_and_nothing_goes(
    name: str, tmp_path: Path, deltacli: Deltacli
) -> None:
    table = copied(f"damaged/{name}/table", tmp_path / "table")
    before = {one: one.read_bytes() for one in table.rglob("*") if one.is_file()}
    assert deltacli("paimon", "validate", table).code == 1
    found = deltacli("paimon", "expire", table, "--older-than", "0s", "--yes")
    assert found.code == 5
    assert "error: " in found.stderr
    assert {one: one.read_bytes() for one in table.rglob("*") if one.is_file()} == before
    assert deltacli("paimon", "list", table).code == 0


@pytest.mark.parametrize("case", EVOLVE, ids=lambda case: case["name"])
def test_a_batch_of_changes_makes_what_java_makes(
    case: dict[str, Any], tmp_path: Path, deltacli: Deltacli
) -> None:
    table = tmp_path / "table"
    old = case["schema"]
    (table / "schema").mkdir(parents=True)
    (table / f"schema/schema-{old['id']}").write_text(json.dumps(old))
    if case["has_snapshots"]:
        (table / "snapshot").mkdir()
        (table / "snapshot/snapshot-1").write_text("{}")
    own = ("paimon", "alter", table, json.dumps(case["changes"]), "--yes")
    lossy = "lossy flag" in (case.get("recommended") or "")
    if lossy:
        refused = deltacli(*own)
        assert refused.code == 4
        assert "--allow-lossy" in refused.stderr
    found = deltacli(*own, "--allow-lossy")
    written = table / f"schema/schema-{old['id'] + 1}"
    if case["name"] in NOTHING_NEW:
        assert found.code == 0
        assert not written.exists()
    elif case["name"] in REFUSED_BY_US or not case["java"]["ok"]:
        assert found.code in (3, 4), found.stderr
        assert not written.exists()
    else:
        assert found.code == 0, found.stderr
        made = json.loads(written.read_bytes())
        assert {**made, "timeMillis": 0} == {**case["java"]["schema"], "timeMillis": 0}
        # The text is laid out as Java does it.
        assert schema_text(parse_schema(written.read_bytes())) == written.read_bytes()


@pytest.mark.parametrize("name", names("java_written"))
def test_histories_of_java_are_made_again(name: str, tmp_path: Path, deltacli: Deltacli) -> None:
    place = RECORDED / "java_written" / name
    expected = json.loads((place / "expected.json").read_bytes())
    table = tmp_path / "table"
    (table / "schema").mkdir(parents=True)
    shutil.copyfile(place / "table/schema/schema-0", table / "schema/schema-0")
    for commit in expected["commits"]:
        path = f"schema/schema-{commit['schema_id']}"
        theirs = (place / "table" / path).read_bytes()
        if commit["changes"]:
            own = ("paimon", "alter", table, json.dumps(commit["changes"]), "--yes")
            found = deltacli(*own, "--allow-lossy")
            assert found.code == 0, found.stderr
            ours = json.loads((table / path).read_bytes())
            assert {**ours, "timeMillis": 0} == {**json.loads(theirs), "timeMillis": 0}
        # Go on from theirs, laid out as it is there.
        (table / path).write_bytes(theirs)
        assert schema_text(parse_schema(theirs)) == theirs


@pytest.mark.parametrize("case", TYPES, ids=lambda case: json.dumps(case["input"])[:60])
def test_a_type_reads_as_in_java(case: dict[str, Any]) -> None:
    if not case["ok"]:
        with pytest.raises(BadType) as error:
            parse_type(case["input"])
        told = case["error"].partition(": ")[2].replace("\n ", " ")
        assert str(error.value) == told or "NullPointer" in case["error"]
        return
    kind = parse_type(case["input"])
    assert sql_text(kind) == case["sql"]
    assert type_tree(kind) == case["json"]


def test_casts_are_those_of_java() -> None:
    differ = []
    for source, target, expected in CASTS:
        found = cast_of(parse_sql(source), parse_sql(target))
        if (found.value if found else "none") != expected:
            differ.append((source, target, expected, found))
    assert differ == []


@pytest.mark.parametrize("case", MAPPINGS, ids=lambda case: case["name"])
def test_schemas_map_as_in_paimon_on_spark(
    case: dict[str, Any], tmp_path: Path, deltacli: Deltacli
) -> None:
    table, answer = tmp_path / "table", case["oracle"]
    if "paimon" in case:
        (table / "schema").mkdir(parents=True)
        (table / "schema/schema-0").write_text(json.dumps(case["paimon"]))
        options: tuple[str, ...] = ("--column-mapping", "none")
    else:
        _write_delta(table, case["delta"])
        options = ()
    own = ("paimon", "convert", table, "-o", "json", *options)
    found = deltacli(*own)
    if case["name"] in ("d2p_void", "p2d_time"):
        assert found.code == 4
        assert "--allow-lossy" in found.stderr
        found = deltacli(*own, "--allow-lossy")
    assert found.code == 0, found.stderr
    made = dict(found.json["schema"])
    made.pop("timeMillis", None)
    assert bool(found.json["losses"]) == bool(case["lossy"] and case["name"] != "d2p_varchar")
    if case["name"] == "d2p_varchar":
        # Lengths are read out of the metadata, as the case asks for.
        assert [one["type"] for one in made["fields"]] == ["VARCHAR(10)", "CHAR(3)"]
    elif answer["ok"]:
        assert made == answer.get("paimon", answer.get("delta"))


def _write_delta(table: Path, schema: Any) -> None:
    features = ["timestampNtz", "typeWidening"]
    actions = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": [*features, "allowColumnDefaults"],
            }
        },
        {
            "metaData": {
                "id": "m",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {},
                "createdTime": 1,
            }
        },
    ]
    (table / "_delta_log").mkdir(parents=True)
    text = "\n".join(map(json.dumps, actions))
    (table / "_delta_log" / f"{0:020}.json").write_text(text)
