"""`paimon alter`: words, what they make, what is refused, and who else writes meanwhile."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.errors import AlreadyExists, Conflict, DeltaCliError, StorageError, UsageError
from deltacli.operations.paimon_alter import Wish, apply_alter, plan_alter
from deltacli.paimon.change_json import parse_changes
from deltacli.paimon.change_text import parse_change
from deltacli.paimon.table import Branch
from deltacli.storage import LogStore
from deltacli.storage.local import LocalStore
from tests.conftest import ROOT, Result
from tests.faulty import FaultyStore
from tests.paimon.builder import PaimonTable, column, schema

Deltacli = Callable[..., Result]

ROW = {"type": "ROW", "fields": [column(3, "a", "INT"), column(4, "b c", "STRING")]}
FIELDS = [
    column(0, "k", "BIGINT NOT NULL"),
    column(1, "v", "INT", description="old", defaultValue="7"),
    column(2, "r", ROW),
    column(5, "items", {"type": "ARRAY", "element": {
        "type": "ROW", "fields": [column(6, "n", "INT NOT NULL")]}}),
    column(7, "m", {"type": "MAP", "key": "STRING NOT NULL", "value": "FLOAT"}),
    column(8, "dt", "STRING NOT NULL"),
]  # fmt: skip
KEYED = schema(
    fields=FIELDS,
    primaryKeys=["k", "dt"],
    partitionKeys=["dt"],
    options={"bucket": "2", "sequence.field": "v", "merge-engine": "aggregation",
             "fields.v.ignore-retract": "true"},
)  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    made = PaimonTable(tmp_path / "table")
    made.add_schema(KEYED)
    return made


def newest(table: PaimonTable) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (table.root / f"schema/schema-{table.schema_ids[-1]}").read_bytes()
    )
    return found


# -- words -------------------------------------------------------------------------------

SAME = [
    ("add column note STRING", {"action": "addColumn", "fieldNames": ["note"],
     "dataType": "STRING"}),
    ("ADD n decimal(10,2) comment 'it''s' FIRST", {"action": "addColumn", "fieldNames": ["n"],
     "dataType": "DECIMAL(10, 2)", "comment": "it's", "move": {"type": "FIRST"}}),
    ("add column r.`x y` ARRAY<ROW<a INT, b MAP<STRING, INT>>> after a",
     {"action": "addColumn", "fieldNames": ["r", "x y"],
      "dataType": {"type": "ARRAY", "element": {"type": "ROW", "fields": [
          {"id": 0, "name": "a", "type": "INT"},
          {"id": 1, "name": "b", "type": {"type": "MAP", "key": "STRING NOT NULL",
                                          "value": "INT"}}]}},
      "move": {"type": "AFTER", "referenceFieldName": "a"}}),
    ("add column t TIMESTAMP(3) WITH LOCAL TIME ZONE before v",
     {"action": "addColumn", "fieldNames": ["t"], "dataType": "TIMESTAMP_LTZ(3)",
      "move": {"type": "BEFORE", "referenceFieldName": "v"}}),
    ("rename column v to w", {"action": "renameColumn", "fieldNames": ["v"], "newName": "w"}),
    ("rename r.a b", {"action": "renameColumn", "fieldNames": ["r", "a"], "newName": "b"}),
    ("drop column items.element.n", {"action": "dropColumn",
                                     "fieldNames": ["items", "element", "n"]}),
    ("drop column", {"action": "dropColumn", "fieldNames": ["column"]}),
    ("drop primary key", {"action": "dropPrimaryKey"}),
    ("alter type v BIGINT", {"action": "updateColumnType", "fieldNames": ["v"],
     "newDataType": "BIGINT", "keepNullability": True}),
    ("alter column m.value type DOUBLE NULL", {"action": "updateColumnType",
     "fieldNames": ["m", "value"], "newDataType": "DOUBLE", "keepNullability": False}),
    ("type v INT NOT NULL", {"action": "updateColumnType", "fieldNames": ["v"],
     "newDataType": "INT NOT NULL"}),
    ("nullability items.element.n NULL", {"action": "updateColumnNullability",
     "fieldNames": ["items", "element", "n"], "newNullability": True}),
    ("alter column v set not null", {"action": "updateColumnNullability", "fieldNames": ["v"],
     "newNullability": False}),
    ("comment v 'new'", {"action": "updateColumnComment", "fieldNames": ["v"],
     "newComment": "new"}),
    ("alter comment v null", {"action": "updateColumnComment", "fieldNames": ["v"],
     "newComment": None}),
    ("default v -1.5", {"action": "updateColumnDefaultValue", "fieldNames": ["v"],
     "newDefaultValue": "-1.5"}),
    ("alter column v drop default", {"action": "updateColumnDefaultValue", "fieldNames": ["v"],
     "newDefaultValue": None}),
    ("position v after r", {"action": "updateColumnPosition", "move": {"fieldName": "v",
     "type": "AFTER", "referenceFieldName": "r"}}),
    ("alter position v last", {"action": "updateColumnPosition", "move": {"fieldName": "v",
     "type": "LAST"}}),
    ("set option snapshot.num-retained.min = 5", {"action": "setOption",
     "key": "snapshot.num-retained.min", "value": "5"}),
    ("SET OPTION 'a.b'='x = y'", {"action": "setOption", "key": "a.b", "value": "x = y"}),
    ("unset option bucket", {"action": "removeOption", "key": "bucket"}),
    ("table comment 'all orders'", {"action": "updateComment", "comment": "all orders"}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tree"), SAME, ids=[text for text, _ in SAME])
def test_words_mean_what_the_json_means(text: str, tree: dict[str, Any]) -> None:
    assert parse_change(text) == parse_changes(json.dumps(tree))
    assert parse_change(text) == parse_changes(json.dumps([tree]))


def test_a_default_can_come_with_the_column() -> None:
    both = parse_change("add column n INT default '5' after v")
    assert both == parse_change("add column n INT after v") + parse_change("default n 5")


@pytest.mark.parametrize(
    "text",
    ["", "   ", "destroy v", "add column", "add column a", "add column a TEXT",
     "add column a INT x", "add column a INT after", "rename v", "rename v to", "rename v to a b",
     "drop column a b",
     "alter type v", "alter type v INT(3)", "nullability v", "nullability v maybe",
     "comment v", "comment v text", "position v", "position v after", "position r.a first",
     "set option", "set option a", "unset option", "table", "table comment", "default v",
     "{", "[1]", '{"action": "fly"}', '{"action": "dropColumn"}',
     '{"action": "addColumn", "fieldNames": ["a"], "dataType": "TEXT"}',
     '{"action": "updateColumnPosition", "move": {"fieldName": "v", "type": "AFTER"}}',
     '{"action": "dropColumn", "fieldNames": []}', "[" * 5000],
)  # fmt: skip
def test_what_is_no_change_is_wrong_usage(
    text: str, table: PaimonTable, deltacli: Deltacli
) -> None:
    found = deltacli("paimon", "alter", table.root, text, "--yes")
    assert found.code == 2
    assert found.stderr.count("error: ") == 1
    assert "hint: " in found.stderr
    assert table.schema_ids == [0]


# -- what they make ----------------------------------------------------------------------


def test_a_batch_is_one_version(table: PaimonTable, deltacli: Deltacli) -> None:
    found = deltacli(
        "paimon", "alter", table.root, "rename v to w", "rename w to x", "rename k to key",
        "add column r.z ROW<p INT, q ROW<w INT>, e INT>", "drop column m",
        "comment x 'twice renamed'", "table comment 't'", "--yes", "-o", "json",
    )  # fmt: skip
    assert found.code == 0, found.stderr
    made = newest(table)
    assert table.schema_ids == [0, 1]
    assert (made["version"], made["id"], made["comment"]) == (3, 1, "t")
    assert [one["name"] for one in made["fields"]] == ["key", "x", "r", "items", "dt"]
    # Keys and options follow each rename, one after the other.
    assert made["primaryKeys"] == ["key", "dt"]
    assert made["options"] == {"bucket": "2", "sequence.field": "x", "merge-engine": "aggregation",
                               "fields.x.ignore-retract": "true"}  # fmt: skip
    inner = made["fields"][2]["type"]["fields"][2]
    # The column takes its id first, then what is in it, inner fields before outer ones.
    assert inner["id"] == 9
    assert [(one["name"], one["id"]) for one in inner["type"]["fields"]] == [
        ("p", 10), ("q", 12), ("e", 13),
    ]  # fmt: skip
    assert inner["type"]["fields"][1]["type"]["fields"][0]["id"] == 11
    assert made["highestFieldId"] == 13
    changes = {(one["change"], one["name"]) for one in found.json["changes"]}
    assert ("renamed", "x") in changes
    assert ("dropped", "m") in changes
    assert deltacli("paimon", "validate", table.root, "--fail-on", "warning").code == 0


def test_a_swap_through_another_name_works(table: PaimonTable, deltacli: Deltacli) -> None:
    found = deltacli("paimon", "alter", table.root, "rename v to t", "rename m to v",
                     "rename t to m", "--yes")  # fmt: skip
    assert found.code == 0, found.stderr
    made = newest(table)
    assert {one["name"]: one["id"] for one in made["fields"]}["m"] == 1
    assert made["options"]["sequence.field"] == "m"


def test_old_formats_are_spelled_out(tmp_path: Path, deltacli: Deltacli) -> None:
    old = schema(primaryKeys=["k"])
    del old["version"]
    table = PaimonTable(tmp_path / "table")
    table.add_schema(old)
    assert deltacli("paimon", "alter", table.root, "add column n INT", "--yes").code == 0
    made = newest(table)
    assert made["version"] == 3
    assert made["options"] == {"bucket": "1", "file.format": "orc"}


def test_an_append_table_of_the_first_format_cannot_be_changed(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    table = PaimonTable(tmp_path / "table")
    table.add_schema(schema(version=1))
    assert deltacli("paimon", "validate", table.root).code == 0
    found = deltacli("paimon", "alter", table.root, "add column n INT", "--yes")
    assert found.code == 4
    assert "bucket-key" in found.stderr


@pytest.mark.parametrize("change", ["set option note = 1", "type v INT", "nullability v NULL"])
def test_what_changes_nothing_writes_nothing(
    change: str, table: PaimonTable, deltacli: Deltacli
) -> None:
    table.add_schema({**KEYED, "options": {**KEYED["options"], "note": "1"}})
    found = deltacli("paimon", "alter", table.root, change)
    assert found.code == 0
    assert "nothing is different" in found.stderr
    assert table.schema_ids == [0]


REFUSED = [
    "add column v INT", "add column n INT NOT NULL", "add column rowkind INT",
    "add column _KEY_a INT", "add column n INT after nope", "add column nope.a INT",
    "add column v.a INT", "add column m.key.a INT", "add column m.a INT", "add column items.a INT",
    "add column ` ` INT", "add column b BLOB",
    "rename dt to d", "rename v to k", "rename nope to a", "rename r.a to `b c`",
    "drop column k", "drop column dt", "drop column v", "drop column nope", "drop column r.nope",
    "drop column items.element.n",
    "alter type k INT", "alter type dt BYTES", "alter type r STRING NOT NULL",
    "alter type items ARRAY<BIGINT>", "alter type m.key BIGINT", "alter type m.value BOOLEAN",
    "alter type v DATE", "nullability v NOT NULL", "nullability k NULL", "nullability m.key NULL",
    "default v x", "default items 5", "comment items.element 'x'", "position k first",
    "position nope first", "set option merge-engine = upsert", "set option bucket = 0",
    "set option type = format-table", "set option path = /x", "unset option type",
    "set option changelog-producer = nope", "set option primary-key = v",
    "set option sequence.field = nope", "comment v '__BLOB_FIELD; x'",
]  # fmt: skip


@pytest.mark.parametrize(
    "highest", [0, 1], ids=["below its own ids", "below those of a dropped column"]
)
def test_an_id_is_never_given_twice(highest: int, tmp_path: Path, deltacli: Deltacli) -> None:
    table = PaimonTable(tmp_path / "table")
    columns = [column(0, "k", "INT"), column(1, "v", "INT"), column(2, "old", "INT")]
    table.add_schema(schema(0, fields=columns))
    table.add_schema(schema(1, fields=columns[:2], highestFieldId=highest))
    for changes in (["add column z STRING"], ["drop column v", "add column z STRING"]):
        found = deltacli("paimon", "alter", table.root, *changes, "--yes")
        assert found.code == 4
        assert "highestFieldId is too low" in found.stderr
    assert table.schema_ids == [0, 1]


@pytest.mark.parametrize(
    "change",
    ["comment v 'x\udcff'", "add column a\udcff INT", "table comment '\udcff'",
     '{"action": "updateComment", "comment": "\\ud800"}'],
)  # fmt: skip
def test_what_could_not_be_read_again_is_not_written(
    change: str, table: PaimonTable, deltacli: Deltacli
) -> None:
    found = deltacli("paimon", "alter", table.root, change, "--yes")
    assert found.code == 4, found.stderr
    assert "could not be read again" in found.stderr
    assert table.schema_ids == [0]


HUGE = [
    "default v '" + "9" * 5000 + "'", "alter type v DECIMAL(" + "9" * 5000 + ")",
    "add column z ARRAY<FLOAT> comment '__VECTOR_FIELD;" + "9" * 5000 + "'",
    "add column z " + "ARRAY<" * 3000 + "INT" + ">" * 3000,
    "add column z " + "ARRAY<" * 70 + "INT" + ">" * 70,
    json.dumps({"action": "addColumn", "fieldNames": ["z"], "dataType": "X"}).replace(
        '"X"', '{"type":"ARRAY","element":' * 400 + '"INT"' + "}" * 400),
    "set option bucket = " + "9" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("change", HUGE, ids=range(len(HUGE)))
def test_nothing_is_too_long_or_deep_for_a_clear_answer(
    change: str, table: PaimonTable, deltacli: Deltacli
) -> None:
    found = deltacli("paimon", "alter", table.root, change, "--yes")
    assert found.code in (2, 4), found.stderr[-300:]
    assert "hint: " in found.stderr
    assert table.schema_ids == [0]


def test_there_is_a_last_id(tmp_path: Path, deltacli: Deltacli) -> None:
    table = PaimonTable(tmp_path / "table")
    table.add_schema(schema(2**31 - 1))
    assert deltacli("paimon", "alter", table.root, "add column n INT", "--yes").code == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("add column x INTT", "no such type"), ("renmae v to x", "did you mean 'rename'"),
        ("comment v \"x\"", "single quotes"), ("set option", "no key and value"),
        ("drop primary key junk", "not expected"), ("add", "quotes of its own"),
        ('{"action": "dropColumn", "fieldNames": "v"}', "no list of names"),
        ('{"action": "dropColum", "fieldNames": ["v"]}', "did you mean 'dropColumn'"),
        ('{"action": "dropColumn", "fieldNames": ["v"], "extra": 1}', "no member 'extra'"),
        ('[{"action": "dropPrimaryKey"}, "x"]', "is an object"),
        ('{"action": "updateColumnPosition", "move": {"fieldName": "v", "type": "UP"}}',
         "a move is FIRST"),
    ],
)  # fmt: skip
def test_slips_of_the_pen_are_understood(
    change: str, message: str, table: PaimonTable, deltacli: Deltacli
) -> None:
    found = deltacli("paimon", "alter", table.root, change, "--yes")
    assert found.code == 2
    assert message in found.stderr


def test_the_body_of_a_request_to_a_catalog_is_taken(table: PaimonTable) -> None:
    body = {"changes": [{"action": "renameColumn", "fieldNames": ["v"], "newName": "w"}]}
    assert parse_changes(json.dumps(body)) == parse_change("rename v to w")


@pytest.mark.parametrize("change", REFUSED)
def test_what_paimon_would_not_take_is_refused(
    change: str, table: PaimonTable, deltacli: Deltacli
) -> None:
    found = deltacli("paimon", "alter", table.root, change, "--yes", "--allow-lossy")
    assert found.code in (3, 4), found.stdout + found.stderr
    assert found.stderr.count("error: ") == 1
    assert "hint: " in found.stderr
    assert table.schema_ids == [0]
    assert [one.name for one in (table.root / "schema").iterdir()] == ["schema-0"]


AFTER_DATA = [
    "set option merge-engine = deduplicate", "set option bucket = -1", "unset option bucket",
    "set option bucket-key = k", "set option rowkind.field = v", "drop primary key",
    "set option deletion-vectors.enabled = true", "set option row-tracking.enabled = true",
]  # fmt: skip


@pytest.mark.parametrize("change", AFTER_DATA)
def test_some_things_stay_once_there_is_data(
    change: str, table: PaimonTable, deltacli: Deltacli
) -> None:
    table.snapshot(1, 0)
    found = deltacli("paimon", "alter", table.root, change, "--yes")
    assert found.code == 4
    assert table.schema_ids == [0]


def test_without_explicit_casts_a_type_stays_nullable(
    table: PaimonTable, deltacli: Deltacli
) -> None:
    switches = {"disable-explicit-type-casting": "true",
                "alter-column-null-to-not-null.disabled": "false"}  # fmt: skip
    table.add_schema({**KEYED, "options": {**KEYED["options"], **switches}})
    own = ("paimon", "alter", table.root)
    assert deltacli(*own, "alter type v BIGINT NOT NULL", "--yes").code == 4
    assert deltacli(*own, "alter type v BIGINT", "--yes").code == 0


def test_losses_need_to_be_allowed(table: PaimonTable, deltacli: Deltacli) -> None:
    own = ("paimon", "alter", table.root, "alter type v SMALLINT", "--yes", "-o", "json")
    found = deltacli(*own)
    assert found.code == 4
    assert "--allow-lossy" in json.loads(found.stderr.splitlines()[-1])["hint"]
    assert table.schema_ids == [0]
    found = deltacli(*own, "--allow-lossy")
    assert found.code == 0
    assert found.json["losses"] == ["v: INT to SMALLINT: numbers that do not fit wrap around"]


def test_flaws_that_were_there_do_not_stand_in_the_way(tmp_path: Path, deltacli: Deltacli) -> None:
    flawed = {"type": "MAP", "key": "STRING", "value": "INT"}
    table = PaimonTable(tmp_path / "table")
    table.add_schema(schema(fields=[column(0, "a", "INT"), column(1, "m", flawed)]))
    assert deltacli("paimon", "alter", table.root, "rename m to n", "--yes").code == 0
    assert newest(table)["fields"][1]["type"] == flawed
    # What is new is written right, whatever was asked for.
    tree = json.dumps({"action": "addColumn", "fieldNames": ["o"], "dataType": flawed})
    assert deltacli("paimon", "alter", table.root, tree, "--yes").code == 0
    assert newest(table)["fields"][2]["type"]["key"] == "STRING NOT NULL"
    # An id that would come twice is a new flaw.
    table.add_schema(schema(3, highestFieldId=0))
    found = deltacli("paimon", "alter", table.root, "add column x INT", "--yes")
    assert found.code == 4
    assert "highestFieldId is too low" in found.stderr


def test_what_paimon_refuses_is_mended_before_anything_else(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    table = PaimonTable(tmp_path / "table")
    table.add_schema(schema(primaryKeys=["k"], options={"bucket": "0"}))
    found = deltacli("paimon", "alter", table.root, "add column n INT", "--yes")
    assert found.code == 4
    assert "bucket 0" in found.stderr
    own = ("paimon", "alter", table.root, "add column n INT", "set option bucket = 4", "--yes")
    assert deltacli(*own).code == 0


def test_a_plan_is_shown_and_nothing_is_done(table: PaimonTable, deltacli: Deltacli) -> None:
    own = ("paimon", "alter", table.root, "add column n INT", "-o", "json")
    planned = deltacli(*own, "--dry-run")
    assert planned.code == 0
    assert planned.json["dryRun"] is True
    assert planned.json["id"] == 1
    assert "metastore" in planned.json["warnings"][-1]
    assert not deltacli(*own, "--dry-run", "--filesystem-catalog").json["warnings"]
    assert deltacli(*own).code == 2
    assert table.schema_ids == [0]


def test_a_branch_has_versions_of_its_own(table: PaimonTable, deltacli: Deltacli) -> None:
    table.add_schema(KEYED, "dev")
    own = ("paimon", "alter", table.root, "add column n INT", "--yes", "--branch")
    assert deltacli(*own, "dev").code == 0
    assert table.schema_ids == [0]
    assert (table.root / "branch/branch-dev/schema/schema-1").is_file()
    found = deltacli(*own, "nope")
    assert found.code == 3
    assert "main, dev" in found.stderr
    assert deltacli(*own, "../..").code == 2
    # An empty variable of a shell is no wish for the main branch.
    assert deltacli(*own, "").code == 2
    found = deltacli("paimon", "list", table.root / "branch/branch-dev")
    assert found.code == 2
    assert "--branch dev" in found.stderr


@pytest.mark.parametrize(
    ("tree", "code"),
    [({**KEYED, "version": 4}, 4), ({**KEYED, "id": 7}, 5), ("{", 5)],
    ids=["newer format", "other id", "no JSON"],
)
def test_a_schema_that_is_not_understood_is_left_alone(
    tree: Any, code: int, tmp_path: Path, deltacli: Deltacli
) -> None:
    table = PaimonTable(tmp_path / "table")
    table.put("schema/schema-0", tree)
    found = deltacli("paimon", "alter", table.root, "add column n INT", "--yes")
    assert found.code == code
    assert table.schema_ids == [0]


# -- others ------------------------------------------------------------------------------


def _wish(*texts: str) -> Wish:
    return Wish([one for text in texts for one in parse_change(text)], has_metastore=False)


def _alter(store: LogStore, *texts: str) -> None:
    wish = _wish(*texts)
    plan = plan_alter(Branch(store), wish, 1)
    apply_alter(plan, wish, lambda: 1, pause=lambda _: None)


class _Racing(LocalStore):
    """A store in which somebody else is faster once."""

    def __init__(self, root: str, theirs: Callable[[LocalStore], None]):
        super().__init__(root)
        self._theirs: Callable[[LocalStore], None] | None = theirs

    def put_if_absent(self, path: str, content: bytes) -> None:
        if "probe" not in path and self._theirs is not None:
            theirs, self._theirs = self._theirs, None
            theirs(LocalStore(self.root))
        super().put_if_absent(path, content)


def test_another_version_meanwhile_is_built_upon(table: PaimonTable) -> None:
    store = _Racing(str(table.root), lambda other: _alter(other, "add column theirs INT"))
    _alter(store, "rename v to ours")
    made = newest(table)
    assert table.schema_ids == [0, 1, 2]
    names = [one["name"] for one in made["fields"]]
    assert "ours" in names
    assert "theirs" in names


def test_a_change_that_would_do_something_else_is_given_up(table: PaimonTable) -> None:
    store = _Racing(str(table.root), lambda other: _alter(other, "add column theirs INT"))
    # The id that was shown is taken.
    with pytest.raises(Conflict):
        _alter(store, "add column ours INT")
    assert table.schema_ids == [0, 1]
    store = _Racing(str(table.root), lambda other: _alter(other, "add column x STRING"))
    with pytest.raises(DeltaCliError, match="already exists"):
        _alter(store, "add column x INT")


def test_many_writers_lose_nothing(table: PaimonTable) -> None:
    script = """
import sys
from deltacli.storage.local import LocalStore
from deltacli.errors import Conflict
from tests.paimon.test_alter import _alter
for number in range(8):
    while True:
        try:
            _alter(LocalStore(sys.argv[1]), f"set option w{sys.argv[2]}.n{number} = 1")
            break
        except Conflict:
            pass
"""
    workers = [
        subprocess.Popen([sys.executable, "-c", script, str(table.root), str(one)], cwd=ROOT)
        for one in range(4)
    ]
    assert [one.wait(120) for one in workers] == [0] * 4
    assert table.schema_ids == list(range(33))
    options = newest(table)["options"]
    assert sum(key.startswith("w") for key in options) == 32


@pytest.mark.parametrize("mode", ["before", "after"])
def test_any_operation_may_fail(mode: str, tmp_path: Path) -> None:
    def made(place: str) -> PaimonTable:
        table = PaimonTable(tmp_path / place)
        table.add_schema(KEYED)
        table.snapshot(1, 0)
        return table

    counting = FaultyStore(made("count").store)
    _alter(counting, "add column n INT")
    for number in range(counting.count):
        table = made(str(number))
        failed = False
        try:
            _alter(FaultyStore(table.store, number, mode), "add column n INT")
        except DeltaCliError:
            failed = True
        assert table.schema_ids in ([0], [0, 1])
        assert failed or table.schema_ids == [0, 1]
        if table.schema_ids == [0]:
            _alter(table.store, "add column n INT")
        assert [one["name"] for one in newest(table)["fields"]][-1] == "n"


class _Unsure(LocalStore):
    """A store whose answer is lost, once the file is there."""

    def put_if_absent(self, path: str, content: bytes) -> None:
        super().put_if_absent(path, content)
        if "probe" not in path:
            raise StorageError("connection reset")


class _Overwriting(LocalStore):
    """A store that does not know put-if-absent."""

    def put_if_absent(self, path: str, content: bytes) -> None:
        with contextlib.suppress(AlreadyExists):
            super().put_if_absent(path, content)
            return
        self.put(path, content)


def test_an_unknown_outcome_is_looked_up(table: PaimonTable) -> None:
    _alter(_Unsure(str(table.root)), "add column n INT")
    assert table.schema_ids == [0, 1]


def test_a_store_that_overwrites_is_refused(table: PaimonTable) -> None:
    with pytest.raises(DeltaCliError, match="overwrites"):
        _alter(_Overwriting(str(table.root)), "add column n INT")
    assert [one.name for one in (table.root / "schema").iterdir()] == ["schema-0"]


def test_usage_errors_come_before_anything_is_read(deltacli: Deltacli, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        parse_change("nonsense")
    assert deltacli("paimon", "alter", tmp_path / "nope", "drop column a").code == 3
    assert deltacli("paimon", "alter", tmp_path / "nope", "nonsense").code == 2
