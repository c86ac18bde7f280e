"""Real Delta Spark reads what deltacli wrote, and writes what deltacli must equal."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli.delta.feature_use import FIELD_FEATURES
from deltacli.delta.snapshot import load_snapshot
from deltacli.errors import Refused
from deltacli.local.engine import LocalEngine
from deltacli.operations.checkpoint import apply_checkpoint, plan_checkpoint
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, column, metadata, protocol
from tests.conftest import ROOT, Result
from tests.operations.test_checkpoint import drop_older_than
from tests.peers.process import peer
from tests.test_golden import GOLDEN, expectations

PEER = Path(os.environ.get("DELTACLI_SPARK_PEER", ROOT / ".ci" / ".spark"))
pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("delta-spark"), pytest.mark.timeout(1200)]
NOW_MS = 1_795_000_000_000
Ask = Callable[..., Any]

# One of each kind; DELTACLI_PEER_ALL=1 takes all that are sound.
SOME = (
    "dat/nested_types",
    "dat/multi_partitioned_2",
    "delta-golden/dv-with-columnmapping",
    "delta-golden/multi-part-checkpoint",
    "delta-golden/v2-checkpoint-json",
    "kernel-rs/partition_cm__name",
    "kernel-rs/v1-multi-part-partitioned-struct-stats-only",
    "kernel-rs/v2-checkpoints-parquet-with-sidecars",
)


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    if not (PEER / "bin" / "python").exists() or not list(PEER.glob("jars/*.jar")):
        pytest.skip(f"no Delta Spark in {PEER}: .ci/delta-spark/install puts it there")
    command = [PEER / "bin" / "python", ROOT / "tests/peers/spark_peer.py", PEER / "jars"]
    with peer(command, says_ready=True) as told:
        yield lambda op, **job: told({"op": op, **job})


def tables() -> list[str]:
    if os.environ.get("DELTACLI_PEER_ALL"):
        return [name for name, one in expectations().items() if one["class"].startswith("valid")]
    return [name for name in SOME if name in expectations()]


@pytest.mark.parametrize(
    "name", tables() or [pytest.param("", marks=pytest.mark.skip(reason=f"no tables in {GOLDEN}"))]
)
def test_spark_reads_a_table_from_our_checkpoint_alone(ask: Ask, tmp_path: Path, name: str) -> None:
    shutil.copytree(GOLDEN / name, tmp_path / "t")
    store = LocalStore(str(tmp_path / "t"))
    snapshot = load_snapshot(store, LocalEngine)
    if snapshot.version not in snapshot.listing.commits:
        pytest.skip("the table has its newest version as a checkpoint only")
    before = ask("state", path=str(tmp_path / "t"))
    kinds = ["classic"]
    kinds += ["v2", "v2-parquet"] if "v2Checkpoint" in snapshot.features else []
    for kind in kinds:
        place = tmp_path / kind
        shutil.copytree(tmp_path / "t", place)
        own = LocalStore(str(place))
        try:
            plan = plan_checkpoint(
                load_snapshot(own, LocalEngine), kind=kind, force=True, now_ms=NOW_MS
            )
        except Refused as refusal:
            pytest.skip(refusal.message)
        result = apply_checkpoint(plan, LocalEngine())
        commit = f"_delta_log/{snapshot.version:020}.json"
        drop_older_than(own, snapshot.version, {result.files[0]["path"], commit})
        assert ask("state", path=str(place)) == before


def test_spark_reads_what_took_the_place_of_its_own_files(
    ask: Ask, tmp_path: Path, deltacli: Callable[..., Result]
) -> None:
    """On a local disk Spark has a checksum beside each file, and believes in it."""
    place = tmp_path / "t"
    table = f"delta.`{place}`"
    every = "('delta.checkpointInterval' = '1')"
    create = f"CREATE TABLE {table} USING delta TBLPROPERTIES {every} AS SELECT 1 a"
    assert ask("sql", statements=[create, f"INSERT INTO {table} VALUES (2)"]) is None
    assert (place / "_delta_log" / f".{1:020}.checkpoint.parquet.crc").exists()
    before = ask("state", path=str(place))
    assert deltacli("checkpoint", place, "--force", "--yes", "-q").code == 0
    drop_older_than(
        LocalStore(str(place)),
        1,
        {f"_delta_log/{1:020}.{end}" for end in ("json", "checkpoint.parquet")},
    )
    after = ask("state", path=str(place))
    assert (after, after["rows"]) == (before, 2)


def test_spark_opens_tables_of_old_protocols_with_wider_types(
    ask: Ask, tmp_path: Path, deltacli: Callable[..., Result]
) -> None:
    """All that their metadata uses is listed in the new protocol."""
    for number, (versions, what) in enumerate(
        [
            ((1, 1), {"delta.appendOnly": "true"}),
            ((1, 2), {"delta.enableChangeDataFeed": "true"}),
            ((1, 2), {"delta.constraints.few": "d < 9"}),
            ((1, 1), {"delta.invariants": '{"expression":{"expression":"d < 9"}}'}),
            ((1, 2), {"delta.identity.start": 1, "delta.identity.step": 1,
                      "delta.identity.allowExplicitInsert": True}),
            ((1, 2), {"delta.generationExpression": "1"}),
        ]
    ):  # fmt: skip
        is_of_field = any(key in FIELD_FEATURES for key in what)
        place = tmp_path / str(number)
        head = metadata(
            column("c", "integer"), column("d", "long", **(what if is_of_field else {})),
            configuration={} if is_of_field else what,
        )  # fmt: skip
        TableBuilder(LocalStore(str(place))).commit(protocol(*versions), head)
        done = deltacli("widen-type", place, "c", "long", "--enable", "--yes", "-q")
        assert done.code == 0, done.stderr
        assert ask("state", path=str(place))["rows"] == 0, what
        assert deltacli("validate", place, "--select", "PRT009", "-q").stdout.count("\n") <= 1


TYPES = (
    "y TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n DECIMAL(38,10), t STRING, "
    "b BOOLEAN, x BINARY, e DATE, z TIMESTAMP, w TIMESTAMP_NTZ, "
    "st STRUCT<a: INT, deep: STRUCT<c: STRING, q: ARRAY<INT>>>, ar ARRAY<INT>, mp MAP<STRING, INT>"
)
ROWS = (
    "(1Y, 2S, 3, 4L, CAST(1.5 AS FLOAT), 2.5D, 12345678901234567890.1234567890BD, 'abc', true, "
    "X'00', DATE'2026-01-31', TIMESTAMP'2026-01-31 10:00:00.123456', "
    "TIMESTAMP_NTZ'2026-01-31 10:00:00.123456', NAMED_STRUCT('a', 1, 'deep', "
    "NAMED_STRUCT('c', 'x', 'q', ARRAY(1))), ARRAY(1, 2), MAP('k', 1), 1, '2026-01-31', 'p q')",
    "(-1Y, -2S, -3, -4L, CAST('NaN' AS FLOAT), CAST('-Infinity' AS DOUBLE), -0.5BD, "
    "REPEAT('é', 50), false, X'FF', DATE'1582-01-01', TIMESTAMP'1960-01-01 00:00:00.000001', "
    "NULL, NULL, NULL, NULL, 1, '2026-01-31', 'p q')",
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
    "NULL, NULL, NULL, NULL)",
)


@pytest.mark.parametrize("mapping", ["none", "name"])
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_struct_statistics_equal_those_of_spark(
    ask: Ask, tmp_path: Path, mapping: str, vectors: str
) -> None:
    place = tmp_path / "t"
    table = f"delta.`{place}`"
    properties = {
        "delta.checkpointInterval": "1",
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "true",
        "delta.columnMapping.mode": mapping,
        "delta.enableDeletionVectors": vectors,
    }
    settings = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    create = (
        f"CREATE TABLE {table} ({TYPES}, p1 INT, p2 DATE, p3 STRING) USING delta "
        f"PARTITIONED BY (p1, p2, p3) TBLPROPERTIES ({settings})"
    )
    inserts = [f"INSERT INTO {table} VALUES {row}" for row in ROWS]
    answer = ask("sql", statements=[create, *inserts])
    assert answer is None, answer
    store = LocalStore(str(place))
    version = load_snapshot(store, LocalEngine).version
    theirs = pq.read_table(place / "_delta_log" / f"{version:020}.checkpoint.parquet")
    for name in list(os.listdir(place / "_delta_log")):
        if "checkpoint" in name:
            os.unlink(place / "_delta_log" / name)
    plan = plan_checkpoint(load_snapshot(store, LocalEngine), stats="both", now_ms=NOW_MS)
    result = apply_checkpoint(plan, LocalEngine())
    ours = pq.read_table(place / result.files[0]["path"])
    for name in ("stats_parsed", "partitionValues_parsed"):
        left, right = rows_of(ours, name), rows_of(theirs, name)
        assert left == right
        left_type = type_of(ours, name)
        assert left_type == type_of(theirs, name)
    assert rows_of(ours, "stats") == rows_of(theirs, "stats")
    # And Spark reads the table from our checkpoint as from its own.
    state = ask("state", path=str(place))
    assert state["rows"] == len(ROWS)


def rows_of(table: Any, column: str) -> dict[str, Any]:
    rows = [row for row in table.column("add").to_pylist() if row]
    return {row["path"]: comparable(row[column]) for row in rows}


def comparable(value: Any) -> Any:
    """NaN equals NaN; a struct of nothing is nothing; Spark's INT96 times have no zone."""
    if isinstance(value, dict):
        fields = {key: comparable(one) for key, one in value.items()}
        return fields if any(one is not None for one in fields.values()) else None
    if isinstance(value, datetime):
        value = value.replace(tzinfo=None)
    return repr(value) if value is not None else None


def type_of(table: Any, column: str) -> Any:
    """The columns of a struct with their types, in any order."""
    kind = table.schema.field("add").type
    return shape(kind.field(column).type)


def shape(kind: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return {one.name: shape(one.type) for one in kind}
    # Spark writes instants as INT96, which is neither microseconds nor marked with a zone.
    return "timestamp" if pa.types.is_timestamp(kind) else str(kind)


def eventful(ask: Ask, place: Path, **properties: str) -> None:
    """A table of Delta Spark with everything that leaves files behind."""
    properties = {"delta.checkpointInterval": "100", **properties}
    settings = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    table = f"delta.`{place}`"
    answer = ask(
        "sql",
        statements=[
            "SET spark.databricks.delta.retentionDurationCheck.enabled = false",
            "SET spark.databricks.delta.vacuum.retentionWindowIgnore.enabled = false",
            f"CREATE TABLE {table} (id BIGINT, `_p` STRING) USING delta "
            f"PARTITIONED BY (`_p`) TBLPROPERTIES ({settings})",
            f"INSERT INTO {table} SELECT id, elt(id % 4 + 1, 'a b', 'x%20y', '_', 'é=#') "
            "FROM range(60)",
            f"DELETE FROM {table} WHERE id % 10 = 3",
            f"UPDATE {table} SET id = id + 1000 WHERE id < 20",
            f"DELETE FROM {table} WHERE `_p` = '_'",
            f"INSERT INTO {table} SELECT id, 'a b' FROM range(5000, 5010)",
            f"OPTIMIZE {table} WHERE `_p` = 'a b'",
            f"DELETE FROM {table} WHERE id % 7 = 1",
        ],
    )
    assert answer is None, answer


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true",
         "delta.enableInCommitTimestamps": "true", "delta.enableRowTracking": "true"},
        {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2",
         "delta.minWriterVersion": "5", "delta.checkpointInterval": "3"},
    ],
    ids=["vectors and changes", "mapped"],
)  # fmt: skip
def test_spark_vacuums_the_same_files_and_reads_on(
    ask: Ask, tmp_path: Path, deltacli: Callable[..., Result], properties: dict[str, str]
) -> None:
    place = tmp_path / "t"
    eventful(ask, place, **properties)
    for name in ("orphan.parquet", "_p=zz/orphan", "_hidden/x", ".part.crc"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_bytes(b"x")
    table = f"delta.`{place}`"
    # Spark names folders too: those that were empty before.
    listed = ask("query", text=f"VACUUM {table} RETAIN 0 HOURS DRY RUN")
    assert isinstance(listed, list), listed
    theirs = {json.loads(row)["path"].removeprefix(f"file:{place}/") for row in listed}
    short = ("--retain", "0h", "--allow-short-retention", "--allow-large")
    planned = deltacli("vacuum", place, *short, "--dry-run", "-o", "json").json
    ours = {one["path"] for one in planned["files"]}
    assert ours == {name for name in theirs if not (place / name).is_dir()}
    before = ask("query", text=f"SELECT * FROM {table}")
    done = deltacli("vacuum", place, *short, "--yes", "-o", "json")
    assert done.code == 0, done.stderr
    assert done.json["numDeleted"] == len(ours)
    assert ask("query", text=f"SELECT * FROM {table}") == before
    history = ask("query", text=f"DESCRIBE HISTORY {table} LIMIT 2")
    assert {json.loads(row)["operation"] for row in history} == {"VACUUM END", "VACUUM START"}
    # What we leave behind is what Spark's LITE wants.
    answer = ask(
        "sql",
        statements=[f"DELETE FROM {table} WHERE id % 5 = 2", f"VACUUM {table} LITE RETAIN 0 HOURS"],
    )
    assert answer is None, answer
    after = [json.loads(row) for row in before]
    assert len(ask("query", text=f"SELECT * FROM {table}")) == sum(
        1 for row in after if row["id"] % 5 != 2
    )


# -- widened types ---------------------------------------------------------------------------

# A column, its type, what it becomes, and two values in SQL.
WIDENED = (
    ("b", "TINYINT", "BIGINT", "7Y", "9223372036854775807"),
    ("s", "SMALLINT", "DOUBLE", "-8S", "0.5"),
    ("i", "INT", "DECIMAL(12,2)", "9", "1234567890.12"),
    ("l", "BIGINT", "DECIMAL(22,2)", "10", "0.25"),
    ("f", "FLOAT", "DOUBLE", "CAST(1.5 AS FLOAT)", "1e300"),
    ("d", "DECIMAL(10,2)", "DECIMAL(14,4)", "1.10", "9.9999"),
    ("day", "DATE", "TIMESTAMP_NTZ", "DATE'2024-02-29'", "TIMESTAMP_NTZ'2024-02-29 12:30:00'"),
)
NESTED = (
    ("st", "STRUCT<x: INT, y: STRING>", "st.x", "BIGINT", "NAMED_STRUCT('x', 1, 'y', 'a')",
     "NAMED_STRUCT('x', 5000000000, 'y', 'b')"),
    ("ar", "ARRAY<SMALLINT>", "ar.element", "INT", "ARRAY(1S, NULL)", "ARRAY(70000)"),
    ("mp", "MAP<TINYINT, FLOAT>", "mp.key", "SMALLINT", "MAP(1Y, CAST(2.5 AS FLOAT))",
     "MAP(300S, CAST(3.5 AS FLOAT))"),
)  # fmt: skip


def narrow_table(ask: Ask, place: Path, **properties: str) -> str:
    """A table of Delta Spark, partitioned by a date, with one file of narrow values."""
    table = f"delta.`{place}`"
    columns = [f"{name} {kind}" for name, kind, *_ in (*WIDENED, *NESTED)]
    settings = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    values = [one[3] for one in WIDENED] + [one[4] for one in NESTED]
    answer = ask(
        "sql",
        statements=[
            f"CREATE TABLE {table} ({', '.join(columns)}, p INT) USING delta "
            f"PARTITIONED BY (p) TBLPROPERTIES ({settings})",
            f"INSERT INTO {table} VALUES ({', '.join(values)}, 3)",
            f"INSERT INTO {table} VALUES ({', '.join(values)}, 4)",
        ],
    )
    assert answer is None, answer
    return table


# What must come of it, by partition.
EXPECTED = {
    3: {"b": 7, "s": -8.0, "i": 9, "l": 10, "f": 1.5, "d": 1.1,
        "day": "2024-02-29T00:00:00.000000", "st": {"x": 1, "y": "a"}, "ar": [1, None]},
    5_000_000_000: {"b": 2**63 - 1, "s": 0.5, "i": 1234567890.12, "l": 0.25, "f": 1e300,
                    "d": 9.9999, "day": "2024-02-29T12:30:00.000000",
                    "st": {"x": 5_000_000_000, "y": "b"}, "ar": [70000]},
}  # fmt: skip


def wide_insert(table: str) -> str:
    values = [one[4] for one in WIDENED] + [one[5] for one in NESTED]
    return f"INSERT INTO {table} VALUES ({', '.join(values)}, 5000000000)"


def wishes() -> list[str]:
    pairs = [(name, to) for name, _, to, *_ in WIDENED] + [(one[2], one[3]) for one in NESTED]
    return [word for pair in [*pairs, ("p", "bigint")] for word in pair]


def all_of(table: str) -> str:
    """All columns as text, with their types."""
    names = [*(one[0] for one in (*WIDENED, *NESTED)), "p"]
    chosen = [f"CAST({name} AS STRING) AS {name}, typeof({name}) AS {name}_t" for name in names]
    return f"SELECT {', '.join(chosen)} FROM {table}"


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableDeletionVectors": "true"},
        {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2",
         "delta.minWriterVersion": "5", "delta.checkpoint.writeStatsAsStruct": "true"},
    ],
    ids=["plain", "mapped"],
)  # fmt: skip
def test_spark_reads_what_we_widened_and_goes_on(
    ask: Ask, tmp_path: Path, deltacli: Callable[..., Result], properties: dict[str, str]
) -> None:
    place, other = tmp_path / "ours", tmp_path / "theirs"
    ours, theirs = narrow_table(ask, place, **properties), narrow_table(ask, other, **properties)
    on = f"ALTER TABLE {theirs} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true', "
    on += "'delta.feature.timestampNtz' = 'supported')"
    pairs = wishes()
    changes = [
        f"ALTER TABLE {theirs} ALTER COLUMN {name} TYPE {kind}"
        for name, kind in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    answer = ask("sql", statements=[on, *changes])
    assert answer is None, answer
    done = deltacli("widen-type", place, *pairs, "--enable", "--yes", "-o", "json")
    assert done.code == 0, done.stderr
    assert len(done.json["changes"]) == len(pairs) // 2
    # The same schema, but for the names that mapping made up, and the same rows.
    assert types_of(place) == types_of(other)
    assert ask("query", text=all_of(ours)) == ask("query", text=all_of(theirs))
    for table in (ours, theirs):
        answer = ask("sql", statements=[wide_insert(table), f"DELETE FROM {table} WHERE p = 4"])
        assert answer is None, answer
    rows = ask("query", text=all_of(theirs))
    assert len(rows) == 2
    assert ask("query", text=all_of(ours)) == rows
    # What we read of both, and a checkpoint with statistics of both types.
    shown = [deltacli("head", one, "-o", "json").json for one in (place, other)]
    assert in_order(shown[0]) == in_order(shown[1])
    for rows_shown in shown:
        told = {row["p"]: {key: row[key] for key in EXPECTED[3]} for row in rows_shown}
        assert told == EXPECTED
    assert deltacli("checkpoint", place, "--stats", "both", "--yes").code == 0
    assert ask("query", text=all_of(ours)) == rows
    early = "day < TIMESTAMP_NTZ'2024-02-29 01:00:00'"
    filtered = f"{all_of(ours)} WHERE i > 100 OR {early}"
    assert len(ask("query", text=filtered)) == 2
    # Files written anew are the same to Spark, and the feature can be given up.
    written = deltacli("widen-type", place, "--rewrite", "--yes", "-o", "json")
    assert (written.code, written.json["numFilesRemoved"]) == (0, 1), written.stderr
    assert ask("query", text=all_of(ours)) == rows
    assert len(ask("query", text=filtered)) == 2
    dropped = deltacli("widen-type", place, "--drop-feature", "--yes")
    assert dropped.code == 8
    assert ask("query", text=all_of(ours)) == rows
    answer = ask("sql", statements=[f"INSERT INTO {ours} SELECT * FROM {ours}"])
    assert answer is None, answer
    assert len(ask("query", text=all_of(ours))) == 4


def in_order(rows: list[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def types_of(place: Path) -> Any:
    """Types and recorded changes, by logical names."""
    snapshot = load_snapshot(LocalStore(str(place)), LocalEngine)
    schema = json.loads(snapshot.metadata.schema_string or "")
    for field in fields_in(schema):
        changes = field["metadata"].get("delta.typeChanges")
        field["metadata"] = sorted(json.dumps(one, sort_keys=True) for one in changes or ())
    return schema


def fields_in(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        for one in tree.get("fields", ()):
            yield one
        for key in ("fields", "elementType", "keyType", "valueType", "type"):
            value = tree.get(key)
            for one in value if isinstance(value, list) else [value]:
                yield from fields_in(one)


# -- validation --------------------------------------------------------------------------

_ROWS = "SELECT id, id * 1.5D, concat('a long text, longer than thirty-two signs ', id), "
_ROWS += "timestamp '1969-12-31 23:59:59.123456' + make_interval(0, 0, 0, id) FROM range(40)"
_CHANGES = (
    "INSERT INTO {t} " + _ROWS,
    "DELETE FROM {t} WHERE id % 5 = 0",
    "UPDATE {t} SET d = d + 1 WHERE id % 7 = 0",
    "MERGE INTO {t} USING (SELECT 3L AS id) s ON {t}.id = s.id WHEN MATCHED THEN DELETE",
    "OPTIMIZE {t}",
    "INSERT INTO {t} " + _ROWS,
)
RECIPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "plain": ("", _CHANGES),
    "partitioned": ("PARTITIONED BY (id)", (*_CHANGES[:3],)),
    "vectors, rows, times, feed": (
        "TBLPROPERTIES ('delta.enableDeletionVectors'='true', 'delta.enableRowTracking'='true', "
        "'delta.enableInCommitTimestamps'='true', 'delta.enableChangeDataFeed'='true', "
        "'delta.checkpointInterval'='2')",
        _CHANGES,
    ),
    "v2 checkpoints and mapping": (
        "TBLPROPERTIES ('delta.checkpointPolicy'='v2', 'delta.columnMapping.mode'='name', "
        "'delta.checkpointInterval'='3', 'delta.enableDeletionVectors'='true')",
        (*_CHANGES, "ALTER TABLE {t} RENAME COLUMN s TO u", "ALTER TABLE {t} DROP COLUMN d",
         "INSERT INTO {t} SELECT id, 'x', current_timestamp() FROM range(3)"),
    ),
    "clustered and widened": (
        "TBLPROPERTIES ('delta.enableTypeWidening'='true') CLUSTER BY (id)",
        (_CHANGES[0], "OPTIMIZE {t}", "ALTER TABLE {t} ADD COLUMN n INT",
         "INSERT INTO {t} SELECT id, 1, 'x', current_timestamp(), 7 FROM range(3)",
         "ALTER TABLE {t} ALTER COLUMN n TYPE BIGINT"),
    ),
    "constraints and restored": (
        "TBLPROPERTIES ('delta.checkpointInterval'='2')",
        ("ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id >= 0)", _CHANGES[0],
         "ALTER TABLE {t} ADD COLUMN more STRING", "DELETE FROM {t} WHERE id = 1",
         "RESTORE TABLE {t} TO VERSION AS OF 2"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("recipe", list(RECIPES))
def test_a_fresh_table_of_spark_is_sound(
    ask: Ask, tmp_path: Path, recipe: str, deltacli: Callable[..., Result]
) -> None:
    settings, changes = RECIPES[recipe]
    table = f"delta.`{tmp_path}/t`"
    columns = "(id BIGINT NOT NULL, d DOUBLE, s STRING, ts TIMESTAMP)"
    statements = [f"CREATE TABLE {table} {columns} USING delta {settings}"]
    statements += [one.replace("{t}", table) for one in changes]
    answer = ask("sql", statements=statements)
    assert answer is None, answer
    for level in ("footers", "data"):
        result = deltacli("validate", tmp_path / "t", "--level", level, "-o", "jsonl", "-q")
        wrong = [one for one in result.rows if one["severity"] != "info"]
        assert not wrong, wrong
