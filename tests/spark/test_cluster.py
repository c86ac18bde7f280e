"""A standalone cluster on loopback: a master and two workers as processes of their own.

Its executors run a Python that has PySpark and PyArrow, and nothing else.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder
from tests.operations.test_head import make

pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed")
import py4j  # noqa: E402

from tests.spark.test_engine import hostile, seeded  # noqa: E402

# A Spark of its own: another worker can run it beside the others.
pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("cluster")]


@dataclass
class Cluster:
    url: str
    python: Path
    log: Path

    def run(self, *commands: Sequence[object]) -> list[Any]:
        """What commands say in JSON, having worked there; all in one session."""
        conf = {
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
            "spark.pyspark.python": str(self.python),
        }
        place = ["-o", "json", "--engine", "spark", "--spark-master", self.url]
        for key, value in conf.items():
            place += ["--spark-conf", f"{key}={value}"]
        script = (
            "import json, sys; from deltacli.cli.app import run\n"
            "for one in json.load(sys.stdin):\n"
            "    assert run(one) == 0\n"
            "    print(chr(0), flush=True)"
        )
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
        environment.pop("PYSPARK_PYTHON", None)
        done = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps([[*map(str, one), *place] for one in commands]),
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        assert done.returncode == 0, done.stderr + self.log.read_text()[-3000:]
        return [json.loads(text) for text in done.stdout.split("\0")[:-1]]


def alone(*arguments: object) -> Any:
    """The same by the local engine."""
    command = [sys.executable, "-m", "deltacli", *map(str, arguments), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def bare_python(place: Path) -> Path:
    """A Python whose only packages are PySpark and PyArrow."""
    site = place / "site"
    site.mkdir()
    for package in (pyspark, py4j, pyarrow):
        folder = Path(package.__file__).parent
        (site / folder.name).symlink_to(folder)
        for libraries in folder.parent.glob(f"{folder.name}.libs"):
            (site / libraries.name).symlink_to(libraries)
    script = place / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    for missing in ("deltacli", "orjson", "typer"):
        command = [script, "-c", f"import {missing}"]
        done = subprocess.run(command, check=False, capture_output=True, cwd=place)
        assert b"ModuleNotFoundError" in done.stderr, missing
    subprocess.run([script, "-c", "import pyspark, pyarrow.parquet"], check=True, cwd=place)
    return script


def start(commands: Sequence[Sequence[str]], home: Path, java: str, log: Path) -> list[Any]:
    environment = {"JAVA_HOME": java, "PATH": "/usr/bin:/bin", "SPARK_HOME": str(home)}
    with open(log, "ab") as out:
        return [
            subprocess.Popen(one, env=environment, stdout=out, stderr=out, cwd="/")
            for one in commands
        ]


def wait_for(what: str, log: Path, count: int) -> None:
    for _ in range(600):
        if log.read_text().count(what) >= count:
            return
        time.sleep(0.1)
    raise AssertionError(f"the cluster does not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    from deltacli.errors import StorageError
    from deltacli.spark.java import find_java

    try:
        java = find_java().home
    except StorageError as error:
        pytest.skip(error.message)
    place = tmp_path_factory.mktemp("cluster")
    home = Path(pyspark.__file__).parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    spark_class = [str(home / "bin" / "spark-class")]
    common = ["--host", "127.0.0.1", "--webui-port", "0"]
    deploy = "org.apache.spark.deploy"
    master = [*spark_class, f"{deploy}.master.Master", *common, "--port", str(port)]
    workers = [
        [
            *spark_class, f"{deploy}.worker.Worker", *common, "--cores", "1", "--memory", "1g",
            "--work-dir", str(place / f"work{number}"), url,
        ]
        for number in range(2)
    ]  # fmt: skip
    log = place / "log"
    log.touch()
    processes = start([master], home, java, log)
    try:
        wait_for("I have been elected leader", log, 1)
        processes += start(workers, home, java, log)
        wait_for("Registering worker", log, 2)
        yield Cluster(url, bare_python(place), log)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def test_two_workers_do_all_jobs(cluster: Cluster, tmp_path: Path) -> None:
    rows, log, names = tmp_path / "rows", tmp_path / "log", tmp_path / "names"
    make(rows)
    seeded(TableBuilder(LocalStore(str(log))))
    hostile(names)
    fields = ("--fields", "version,numFiles,sizeInBytes,numRecords,numTombstones")
    wish = ("vacuum", names, "--retain", "0h", "--allow-short-retention", "--allow-large")
    checkpoint = ("--kind", "v2", "--stats", "both", "--yes")
    expected = [
        alone("snapshot", log, *fields),
        alone("snapshot", log, "--files"),
        alone(*wish, "--dry-run"),
    ]
    shutil.copytree(log, tmp_path / "other")
    other = alone("checkpoint", tmp_path / "other", *checkpoint)
    found, totals, files, written, planned, done = cluster.run(
        ("head", rows, "--where", "pmod(id, 2) = 1"),
        ("snapshot", log, *fields),
        ("snapshot", log, "--files"),
        ("checkpoint", log, *checkpoint),
        (*wish, "--dry-run"),
        (*wish, "--yes"),
    )
    assert sorted(row["id"] for row in found) == [101, 103, 201, 203]
    assert totals == expected[0]
    assert in_order(files) == in_order(expected[1])
    assert (written["engine"], other["engine"]) == ("spark", "local")
    for one in ("numAddFiles", "numActions"):
        assert written[one] == other[one]
    assert in_order(alone("snapshot", log, "--files")) == in_order(files)
    for plan in (planned, expected[2]):
        plan.pop("deleteBefore")
    assert planned == expected[2]
    assert (done["numDeleted"], done["failures"]) == (planned["numFiles"], [])
    assert alone(*wish, "--dry-run")["numFiles"] == 0


def in_order(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))
