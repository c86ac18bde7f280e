"""A standalone cluster on loopback: a master and a worker as processes of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.operations.test_head import make

pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Its URL."""
    from deltacli.errors import StorageError
    from deltacli.spark.java import find_java

    try:
        java = find_java()
    except StorageError as error:
        pytest.skip(error.message)
    home = Path(pyspark.__file__).parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    # Executors of a cluster have neither this package nor its environment.
    environment = {"JAVA_HOME": java.home, "PATH": "/usr/bin:/bin", "SPARK_HOME": str(home)}
    spark_class = [str(home / "bin" / "spark-class")]
    place = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [
        [*spark_class, "org.apache.spark.deploy.master.Master", *place, "--port", str(port)],
        [
            *spark_class, "org.apache.spark.deploy.worker.Worker", *place, "--cores", "2",
            "--memory", "1g", "--work-dir", str(tmp_path / "work"), url,
        ],
    ]  # fmt: skip
    processes = []
    with open(tmp_path / "cluster.log", "wb") as log:
        for command in commands:
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
            for _ in range(300):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
    yield url
    for process in processes:
        process.terminate()
        process.wait()


@pytest.mark.timeout(240)
def test_a_cluster_needs_nothing_of_ours(master: str, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    command = [sys.executable, "-m", "deltacli", "head", str(table), "-o", "json", "--engine",
               "spark", "--where", "pmod(id, 2) = 1", "--spark-master", master,
               "--spark-conf", "spark.executor.memory=512m", "--spark-conf",
               "spark.cores.max=2"]  # fmt: skip
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert sorted(row["id"] for row in json.loads(done.stdout)) == [101, 103, 201, 203]
