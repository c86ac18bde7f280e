"""Shared tables in Spark: batches, changes and streams, from a server of ours."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")
from pyspark.errors import PySparkException

from deltacli.sharing import datasource
from tests.conftest import ROOT
from tests.rows import multiset
from tests.sharing.living import LivingTable, Row, replayed
from tests.sharing.serving import Server, one_share, serving, shared
from tests.sharing.test_client_tables import called, expected_rows
from tests.test_golden import GOLDEN, READABLE

EVERYTHING = ("append", "append", "delete_file", "delete_rows", "update", "compact", "touch")


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The beginning of addresses of all tables of other writers."""
    tables = [shared(called(one), GOLDEN / one) for one in READABLE if isinstance(one, str)]
    with serving(one_share(*tables)) as server:
        profile = server.profile(tmp_path_factory.mktemp("profile") / "me.share")
        yield f"{profile}#share.schema."


@pytest.fixture
def source(spark: Any) -> Any:
    datasource.register(spark)
    return lambda: spark.read.format(datasource.NAME)


@pytest.mark.parametrize("name", READABLE[::2])
def test_rows_of_other_writers_tables_are_the_same_in_spark(
    name: str, golden: str, source: Any
) -> None:
    expected = expected_rows(name)
    if not isinstance(expected, dict):
        with pytest.raises(PySparkException):
            source().load(golden + called(name)).toArrow()
        return
    assert multiset(source().load(golden + called(name)).toArrow().to_pylist()) == expected


# -- other ways to read ------------------------------------------------------------------


@pytest.fixture
def living(tmp_path: Path) -> Iterator[tuple[LivingTable, Server, str]]:
    made = LivingTable(tmp_path / "t")
    with serving(one_share(shared("t", made.folder))) as server:
        yield made, server, f"{server.profile(tmp_path / 'me.share')}#share.schema.t"


def counted(frame: Any) -> Counter[Row]:
    return Counter((row["id"], row["word"]) for row in frame.toArrow().to_pylist())


def test_any_version_and_what_changed_can_be_read(
    living: tuple[LivingTable, Server, str], source: Any, spark: Any
) -> None:
    made, _, address = living
    made.append(3)
    states = {made.version: made.rows}
    while made.version < 12:
        made.live(1, *EVERYTHING)
        states[made.version] = made.rows
    for version in range(1, 13, 4):
        assert counted(source().option("versionAsOf", version).load(address)) == states[version]
    changes = source().option("readChangeFeed", "true").option("startingVersion", 0)
    rows = changes.load(address).toArrow().to_pylist()
    assert replayed(rows) == states[12]
    assert replayed([row for row in rows if row["_commit_version"] <= 6]) == states[6]
    middle = changes.option("startingVersion", 4).option("endingVersion", 6).load(address)
    told = middle.toArrow().to_pylist()
    assert {row["_commit_version"] for row in told} <= {4, 5, 6}
    before = [row for row in rows if row["_commit_version"] < 4]
    assert replayed(before + told) == states[6]
    with pytest.raises(PySparkException, match="version 99"):
        source().option("versionAsOf", 99).load(address).count()


def test_filters_are_told_to_the_server_when_that_is_switched_on(
    living: tuple[LivingTable, Server, str], source: Any
) -> None:
    made, server, address = living
    made.append(9)
    wanted = min(number for number, _ in made.rows)
    for switch, is_told in (("false", False), ("true", True)):
        server.spy.seen.clear()
        frame = source().option("pushdown", switch).load(address)
        rows = frame.where(f"id = {wanted} and word like 'w%'").toArrow().to_pylist()
        assert [row["id"] for row in rows] == [wanted]
        queries = [one for one in server.spy.seen if one.path.endswith("/query")]
        assert (b"jsonPredicateHints" in queries[-1].asked) is is_told


def test_columns_can_be_left_out(living: tuple[LivingTable, Server, str], source: Any) -> None:
    made, _, address = living
    made.append(2)
    frame = source().option("columns", "WORD").load(address)
    assert frame.columns == ["word"]
    assert frame.count() == sum(made.rows.values())
    with pytest.raises(PySparkException, match="no column 'nope'"):
        source().option("columns", "nope").load(address)


def test_urls_that_end_before_they_are_read_are_asked_for_again(
    tmp_path: Path, source: Any
) -> None:
    made = LivingTable(tmp_path / "t")
    made.append(3)
    made.delete_rows()
    config = one_share(shared("t", made.folder), url_seconds=1)
    with serving(config) as server:
        address = f"{server.profile(tmp_path / 'me.share')}#share.schema.t"
        rows = source().load(address).rdd
        # Planned now, read when the URLs have ended.
        assert rows.getNumPartitions() == 1
        time.sleep(2.5)
        assert Counter((row["id"], row["word"]) for row in rows.collect()) == made.rows
        queries = [one for one in server.spy.seen if one.path.endswith("/query")]
        assert len(queries) == 2


def test_errors_say_what_to_do(
    living: tuple[LivingTable, Server, str], source: Any, tmp_path: Path
) -> None:
    _, server, address = living
    profile = address.partition("#")[0]
    with pytest.raises(PySparkException, match="deltacli share tables"):
        source().load(f"{profile}#share.schema.nope")
    with pytest.raises(PySparkException, match="there is no profile"):
        source().load(f"{tmp_path}/nope#share.schema.t")
    with pytest.raises(PySparkException, match="did you mean responseformat"):
        source().option("responseFormt", "delta").load(address)
    # Nothing of what Spark shows has the token in it.
    frame = source().load(address)
    assert server.token not in frame._jdf.queryExecution().toString()


def test_a_schema_that_somebody_gives_is_one_of_the_tables(
    living: tuple[LivingTable, Server, str], source: Any
) -> None:
    made, _, address = living
    made.append(2)
    frame = source().schema("WORD string, id bigint").load(address)
    assert Counter((row["id"], row["WORD"]) for row in frame.collect()) == made.rows
    with pytest.raises(PySparkException, match="no column 'idd'"):
        source().schema("idd bigint").load(address).count()
    with pytest.raises(PySparkException, match="NOT NULL"):
        source().schema("id bigint not null").load(address).count()


# -- streams -----------------------------------------------------------------------------


@pytest.mark.parametrize("reads_changes", [False, True])
def test_a_stream_that_is_killed_fills_its_sink_exactly_once(
    reads_changes: bool, living: tuple[LivingTable, Server, str], tmp_path: Path, spark: Any
) -> None:
    made, _, address = living
    options = {"startingVersion": "0", "maxFilesPerTrigger": "4", "maxVersionsPerRpc": "5"}
    options["readChangeFeed" if reads_changes else "skipChangeCommits"] = "true"
    chance = random.Random(int(reads_changes))
    command = [sys.executable, str(Path(__file__).with_name("sharing_stream.py")), address,
               str(tmp_path), json.dumps(options)]  # fmt: skip
    for kill in (True, *[True] * reads_changes, False):
        if not kill:
            (tmp_path / "stop").touch()
        process = subprocess.Popen(
            command, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE, text=True
        )
        until = time.monotonic() + chance.uniform(6, 12)
        while process.poll() is None and (not kill or time.monotonic() < until):
            if kill:
                made.live(1, *EVERYTHING)
            time.sleep(0.4)
        if kill:
            assert process.poll() is None, process.stderr and process.stderr.read()
            os.killpg(process.pid, signal.SIGKILL)
        _, talk = process.communicate(timeout=60)
        assert kill or process.returncode == 0, talk
    rows = spark.read.parquet(str(tmp_path / "sink")).toArrow().to_pylist()
    if reads_changes:
        assert replayed(rows) == made.rows
    else:
        assert Counter((row["id"], row["word"]) for row in rows) == made.appended


def test_a_running_stream_sees_what_comes(
    living: tuple[LivingTable, Server, str], spark: Any, source: Any, tmp_path: Path
) -> None:
    """From the newest snapshot on, without a start, at the least interval there may be."""
    made, server, address = living
    made.append(3)
    stream = (
        spark.readStream.format(datasource.NAME)
        .option("queryTableVersionIntervalSeconds", 10)
        .load(address)
    )
    query = (
        stream.writeStream.format("memory")
        .queryName("seen")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        wait_for(lambda: counted(spark.table("seen")) == made.rows)
        made.append(2)
        wait_for(lambda: counted(spark.table("seen")) == made.rows)
        polls = [one for one in server.spy.seen if one.path.endswith("/version")]
        assert len(polls) <= 4
    finally:
        query.stop()


def wait_for(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.3)
