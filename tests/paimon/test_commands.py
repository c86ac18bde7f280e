"""The commands for Paimon tables as a user meets them: what is asked, told and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deltacli.storage.local import LocalStore
from tests.conftest import ROOT, Result
from tests.paimon.builder import ADD, PaimonTable, column, schema

Deltacli = Callable[..., Result]


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    """Three versions; the snapshot needs the second."""
    made = PaimonTable(tmp_path / "table")
    made.add_schemas(3)
    made.snapshot(1, 1, [(ADD, 1)])
    return made


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "--at", "9"),
        ("show", "--branch", "nope"),
        ("diff", "0", "9"),
        ("alter", "drop column nope", "--yes"),
        ("alter", "alter type v BLOB", "--yes"),
        ("convert", "--at", "9"),
        ("expire", "--yes"),
    ],
)
def test_an_error_names_the_table(
    arguments: tuple[str, ...], table: PaimonTable, deltacli: Deltacli
) -> None:
    (table.root / "snapshot/snapshot-1").write_text("{}")
    command, *rest = arguments
    found = deltacli("paimon", command, table.root, *rest)
    assert found.code in (3, 4, 5)
    error, hint = found.stderr.splitlines()[-2:]
    assert error.startswith("error: ")
    assert str(table.root) in error
    assert hint.startswith("hint: ")
    assert table.schema_ids == [0, 1, 2]


@pytest.mark.parametrize(
    "arguments",
    [("show", "--at", "abc"), ("diff", "x"), ("diff", "0", "-1"), ("convert", "--at=1.5")],
)
def test_what_is_no_id_is_told(
    arguments: tuple[str, ...], table: PaimonTable, deltacli: Deltacli
) -> None:
    command, *rest = arguments
    found = deltacli("paimon", command, table.root, *rest)
    assert found.code == 2
    assert len(found.stderr.splitlines()) == 2


def test_each_kind_of_table_has_its_commands(table: PaimonTable, deltacli: Deltacli) -> None:
    found = deltacli("history", table.root)
    assert found.code == 3
    assert "deltacli paimon" in found.stderr
    found = deltacli("paimon", "show", ROOT / "examples/orders")
    assert found.code == 3
    assert "paimon convert" in found.stderr
    for command in ("list", "show", "expire", "validate"):
        found = deltacli("paimon", command, table.root / "nope")
        assert (found.code, "does not exist" in found.stderr) == (3, True)


def test_what_is_no_table_is_told(tmp_path: Path, deltacli: Deltacli) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/data.parquet").write_bytes(b"PAR1")
    found = deltacli("paimon", "convert", tmp_path / "folder")
    assert (found.code, "neither a Delta table nor a Paimon" in found.stderr) == (3, True)
    found = deltacli("validate", tmp_path / "folder", "-o", "json")
    assert (found.code, "Paimon" in found.json["tables"][0]["notes"][0]) == (1, True)
    for command in (("validate",), ("paimon", "convert")):
        found = deltacli(*command, tmp_path / "nope")
        assert (found.code, "does not exist" in found.stderr) == (3, True)


def test_what_is_done_is_explained(table: PaimonTable, deltacli: Deltacli) -> None:
    assert "3 schema files" in deltacli("paimon", "show", table.root, "-v").stderr
    assert str(table.root) in deltacli("paimon", "validate", table.root, "-v").stderr
    assert deltacli("paimon", "show", table.root).stderr == ""


def test_a_list_tells_every_need(table: PaimonTable, deltacli: Deltacli) -> None:
    def needs() -> list[str]:
        found = deltacli("paimon", "list", table.root, "-o", "jsonl")
        return [", ".join(one["neededBy"] or ["-"]) for one in found.rows]

    assert needs() == ["newest", "snapshot 1, 1 manifest entry", "-"]
    table.add_schema(schema(0, options={"data-file.external-paths": "s3://a/x"}))
    assert needs()[2] == "the only one to name an external path"
    table.put("metadata/v1.metadata.json", "{}")
    table.add_schema(schema(3, options={"metadata.iceberg.storage": "table-location"}))
    assert all("Iceberg metadata" in one for one in needs())


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        ("alter", ("add column n INT", "--yes")),
        ("expire", ("--older-than", "0s", "--yes")),
        ("convert", ("--create", "{new}")),
    ],
)
@pytest.mark.parametrize("wish", [("--fields", "nope"), ("--output-file", "{nowhere}/x.json")])
def test_a_result_that_cannot_be_shown_is_told_before_anything_is_done(
    command: str, rest: tuple[str, ...], wish: tuple[str, ...], table: PaimonTable,
    deltacli: Deltacli, tmp_path: Path,
) -> None:  # fmt: skip
    places = {"new": tmp_path / "new", "nowhere": tmp_path / "nowhere"}
    arguments = [one.format(**places) for one in (*rest, *wish)]
    before = sorted(tmp_path.rglob("*"))
    found = deltacli("paimon", command, table.root, *arguments)
    assert found.code in (2, 7)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_wrong_wish_is_told_alone(table: PaimonTable, deltacli: Deltacli) -> None:
    own = ("paimon", "alter", table.root, "add column n INT", "--dry-run", "--fields")
    assert len(deltacli(*own, "nope").stderr.splitlines()) == 2


def test_columns_with_one_id_are_not_built_upon(tmp_path: Path, deltacli: Deltacli) -> None:
    table = PaimonTable(tmp_path / "table")
    table.add_schema(schema(fields=[column(0, "a", "INT"), column(0, "b", "STRING")]))
    found = deltacli("paimon", "alter", table.root, "comment a 'x'", "--yes")
    assert found.code == 5
    assert "a and b have the same id 0" in found.stderr
    assert table.schema_ids == [0]


def test_all_that_stands_in_the_way_is_told_at_once(tmp_path: Path, deltacli: Deltacli) -> None:
    table = PaimonTable(tmp_path / "table")
    kinds = ("GEOMETRY", "TIME(3)", "VECTOR<INT, 3>", "GEOMETRY")
    fields = [column(number, f"c{number}", kind) for number, kind in enumerate(kinds)]
    table.add_schema(schema(fields=[*fields, column(9, "C0", "INT")]))
    found = deltacli("paimon", "convert", table.root)
    assert found.code == 4
    for name in ("c0: ", "c1: ", "c3: ", "C0"):
        assert name in found.stderr
    assert len(found.stderr.splitlines()) == 2
    delta = tmp_path / "delta/_delta_log"
    delta.mkdir(parents=True)
    types = {"a": "interval month", "b": "void", "c": "interval day"}
    tree = {"type": "struct", "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in types.items()
    ]}  # fmt: skip
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "m", "format": {"provider": "parquet", "options": {}},
                      "schemaString": json.dumps(tree), "partitionColumns": [],
                      "configuration": {}}},
    ]  # fmt: skip
    (delta / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    found = deltacli("paimon", "convert", tmp_path / "delta")
    assert found.code == 4
    assert all(f"{name}: " in found.stderr for name in types)


def test_what_hides_the_needs_is_told_with_its_file(table: PaimonTable, deltacli: Deltacli) -> None:
    manifest = next(one for one in (table.root / "manifest").iterdir() if "list" not in one.name)
    for path, damage in (
        (manifest, b"Obj"),
        (table.root / "snapshot/snapshot-1", b"{}"),
    ):
        sound = path.read_bytes()
        path.write_bytes(damage)
        found = deltacli("paimon", "validate", table.root, "-o", "jsonl", "--select", "PMR")
        assert [(one["rule"], one["file"]) for one in found.rows] == [
            ("PMR001", str(path.relative_to(table.root)))
        ]
        path.write_bytes(sound)


def test_findings_hang_below_their_rule(
    table: PaimonTable, deltacli: Deltacli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (table.root / "schema/schema-1").unlink()
    monkeypatch.setenv("COLUMNS", "50")
    text = deltacli("validate", table.root, "-o", "table").stdout
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if "PMR002" in line)
    assert lines[first].index("schema") == len(lines[first + 1]) - len(lines[first + 1].lstrip())
    assert all(len(line) <= 50 for line in lines)


def test_levels_beyond_the_log_are_those_of_delta(table: PaimonTable, deltacli: Deltacli) -> None:
    found = deltacli("validate", table.root, "--level", "data", "-o", "json")
    assert found.code == 0
    (one,) = found.json["tables"]
    assert one["level"] == "log"
    assert "not looked at" in one["notes"][0]
    assert deltacli("validate", table.root, "-o", "json").json["tables"][0]["notes"] == []


def test_a_baseline_holds_what_repeats(deltacli: Deltacli, tmp_path: Path) -> None:
    table = PaimonTable(tmp_path / "table")
    fields = [column(0, "m", {"type": "MAP", "key": "INT", "value": "INT"})]
    for schema_id in range(2):
        table.add_schema(schema(schema_id, fields=fields, comment=str(schema_id)))
    known = tmp_path / "known.json"
    assert deltacli("validate", table.root, "--write-baseline", known).code == 0
    (table.root / "schema/schema-0").unlink()
    # What the first version told is now told by the second: it was known of both.
    found = deltacli(
        "validate", table.root, "--baseline", known, "--fail-on", "info", "-o", "jsonl"
    )
    assert "PMT001" not in [one["rule"] for one in found.rows]
    both = ("--baseline", known, "--write-baseline", known)
    assert deltacli("validate", table.root, *both).code == 2


def test_rows_are_a_field_of_the_whole(table: PaimonTable, deltacli: Deltacli) -> None:
    alter = ("paimon", "alter", table.root, "add column n INT")
    expire = ("paimon", "expire", table.root, "--older-than", "0s")
    for own, name in ((alter, "changes"), (expire, "files")):
        planned = deltacli(*own, "--dry-run", "--fields", f"dryRun,{name}", "-o", "json").json
        done = deltacli(*own, "--yes", "--fields", f"dryRun,{name}", "-o", "json").json
        assert planned == {**done, "dryRun": True}
        assert done[name]
    found = deltacli(*expire, "--yes", "--fields", "numDeleted,files", "-q")
    assert (found.code, found.stdout) == (0, "numDeleted\t0\nfiles\t[]\n")


def test_what_can_be_lost_is_told_on_a_pipe_too(table: PaimonTable, deltacli: Deltacli) -> None:
    own = ("paimon", "alter", table.root, "alter type k INT NOT NULL", "--filesystem-catalog")
    found = deltacli(*own, "--allow-lossy", "--dry-run")
    assert "warning: values can be lost: k: BIGINT" in found.stderr
    for more, warns in ((), True), (("--filesystem-catalog",), False):
        found = deltacli("paimon", "alter", table.root, "add column n INT", "--dry-run", *more)
        assert ("metastore" in found.stderr) == warns


def test_a_newer_format_is_told(tmp_path: Path, deltacli: Deltacli) -> None:
    table = PaimonTable(tmp_path / "table")
    table.add_schema(schema(version=9))
    assert "format 9" in deltacli("paimon", "show", table.root).stderr
    found = deltacli("paimon", "convert", table.root, "-o", "json")
    assert any("format 9" in one["loss"] for one in found.json["losses"])


def test_a_list_without_needs_reads_no_manifest(table: PaimonTable, deltacli: Deltacli) -> None:
    for one in (table.root / "manifest").iterdir():
        one.write_bytes(b"")
    assert deltacli("paimon", "list", table.root).stderr.startswith("warning: what needs a version")
    assert deltacli("paimon", "list", table.root, "--fields", "id,changes").stderr == ""


def test_a_file_of_another_id_is_told(tmp_path: Path, deltacli: Deltacli) -> None:
    table = PaimonTable(tmp_path / "table")
    table.put("schema/schema-4", schema(7))
    assert "has the id 7" in deltacli("paimon", "show", table.root).stderr


def test_versions_in_names_are_those_of_delta(table: PaimonTable, deltacli: Deltacli) -> None:
    for command in ("list", "show", "expire", "convert"):
        found = deltacli("paimon", command, f"{table.root}@v1")
        assert (found.code, "--at" in found.stderr) == (2, True)
    found = deltacli("paimon", "convert", ROOT / "examples/orders", "--column-mapping", "id")
    assert (found.code, "--column-mapping" in found.stderr) == (2, True)


def test_a_branch_without_a_schema_is_told(table: PaimonTable, deltacli: Deltacli) -> None:
    table.put("branch/branch-b/snapshot/LATEST", "1")
    (one,) = deltacli("paimon", "validate", table.root, "-o", "json").json["tables"]
    assert one["notes"] == ["branch b has no schema"]


@pytest.mark.parametrize("command", [("validate",), ("paimon", "validate")])
def test_both_commands_keep_the_same_promises(
    command: tuple[str, ...], tmp_path: Path, deltacli: Deltacli
) -> None:
    table = PaimonTable(tmp_path / "table")
    keys = [column(one, f"m{one}", {"type": "MAP", "key": "INT", "value": "INT"}) for one in (0, 1)]
    table.add_schema(schema(fields=keys))
    own = (*command, table.root, "-o", "json")
    assert deltacli(*own).code == 1
    assert deltacli(*own, "--fail-on", "never").code == 0
    (one,) = deltacli(*own, "--max-findings", "1").json["tables"]
    assert (len(one["findings"]), one["summary"]["byRule"]) == (1, {"PMT001": 2})
    (one,) = deltacli(*own, "--max-findings", "0").json["tables"]
    assert len(one["findings"]) == 2
    known = tmp_path / "known.json"
    assert deltacli("validate", table.root, "--write-baseline", known).code == 0
    assert deltacli(*own, "--baseline", known).code == 0
    found = deltacli(*command, table.root, "--select", "XYZ")
    rule = found.stderr.split("such as ")[1].split(",")[0]
    assert deltacli(*command, table.root, "--select", rule).code in (0, 1)


@pytest.mark.parametrize("command", [("validate",), ("paimon", "validate")])
@pytest.mark.parametrize("wish", [("--fields", "nope"), ("--output-file", "/nowhere/x")])
def test_what_cannot_be_shown_is_told_before_a_table_is_looked_at(
    command: tuple[str, ...],
    wish: tuple[str, ...],
    table: PaimonTable,
    deltacli: Deltacli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(LocalStore, "list_from", lambda store, *where: looked.append(where))
    found = deltacli(*command, table.root, *wish)
    assert (found.code in (2, 7), looked) == (True, [])


@pytest.mark.parametrize(
    "place", ["schema/schema-2", "snapshot/new", "branch/branch-b/schema/schema-9"]
)
def test_results_do_not_go_into_a_tables_own_files(
    place: str, table: PaimonTable, deltacli: Deltacli
) -> None:
    target = table.put(place, "{}") if "branch" in place else table.root / place
    before = target.read_bytes() if target.exists() else None
    for command in (("paimon", "list"), ("paimon", "validate"), ("validate",)):
        found = deltacli(*command, table.root, "--output-file", target)
        assert (found.code, "own files" in found.stderr) == (2, True)
    found = deltacli("validate", table.root, "--write-baseline", target)
    assert found.code == 2
    assert (target.read_bytes() if target.exists() else None) == before


def test_an_error_is_about_the_table_that_is_wrong(
    table: PaimonTable, deltacli: Deltacli, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").write_text("")
    found = deltacli("paimon", "convert", table.root, "--create", tmp_path / "full")
    assert str(table.root) not in found.stderr
    found = deltacli("validate", f"{tmp_path}/q*")
    assert found.stderr.splitlines()[0].count("q*") == 1
    (table.root / "snapshot/snapshot-1").write_text("{")
    found = deltacli("paimon", "expire", table.root, "-o", "json", "--yes")
    told = json.loads(found.stderr.splitlines()[-1])
    assert told["location"] == f"file://{table.root}/snapshot/snapshot-1"
