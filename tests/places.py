"""Where tables can lie: this disk, and the real protocols of S3, Azure, GCS and HDFS on loopback.

The servers are started by the tests that want them. Those that pip cannot install are put by
`.ci/stores/install DIR` into DIR, which is `.ci/.stores` or what DELTACLI_STORES says.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from deltacli.storage import LogStore, open_store

INSTALLED = Path(
    os.environ.get("DELTACLI_STORES") or Path(__file__).resolve().parents[1] / ".ci" / ".stores"
)
KINDS = ("local", "s3", "azure", "gcs", "hdfs")
REMOTE = KINDS[1:]
# Everybody's: the account and the key that the emulator is shipped with.
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Place:
    """A folder of tables, and how to reach it. It can be sent to other processes."""

    kind: str
    root: str
    options: Mapping[str, str] = field(default_factory=dict)
    # The server's address, for what speaks HTTP.
    endpoint: str = ""

    def url(self, table: str) -> str:
        return f"{self.root}/{table}"

    def store(self, table: str) -> LogStore:
        return open_store(self.url(table), self.options)

    def new(self) -> LogStore:
        """The store of a table that is nowhere yet."""
        return self.store(f"t-{uuid.uuid4().hex}")

    @property
    def flags(self) -> list[str]:
        """The options of a command line."""
        return [f"--storage-option={key}={value}" for key, value in self.options.items()]

    def through(self, endpoint: str) -> Place:
        """The same place behind another address."""
        options = {
            key: value.replace(self.endpoint, endpoint) for key, value in self.options.items()
        }
        return replace(self, options=options, endpoint=endpoint)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _running(command: Sequence[str | Path], port: int, *, log: Path) -> Iterator[None]:
    """A server, from when it listens on."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.PIPE, start_new_session=True
        )
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None:
                break
            time.sleep(0.1)
        else:
            raise AssertionError(f"{command[0]} does not listen")
        if process.poll() is not None:
            raise AssertionError(f"{command[0]} ended: {log.read_text()[-1000:]}")
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _asked(url: str, method: str, body: bytes = b"", **headers: str) -> None:
    """A request to a server that has just begun to listen."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    for attempt in range(20):
        try:
            urllib.request.urlopen(request).close()
            return
        except (urllib.error.URLError, ConnectionError):
            if attempt == 19:
                raise
            time.sleep(0.25)


def _needs(package: str) -> None:
    # Importing a driver here would keep the product from settings that it makes before.
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


@contextmanager
def _s3(scratch: Path) -> Iterator[Place]:
    _needs("moto")
    _needs("s3fs")
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    server = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _running(server, port, log=scratch / "log"):
        _asked(f"{endpoint}/tables", "PUT")
        options = {
            "key": "test",
            "secret": "test",
            "region_name": "us-east-1",
            "endpoint_url": endpoint,
        }
        yield Place("s3", "s3://tables", options, endpoint)


@contextmanager
def _azure(scratch: Path) -> Iterator[Place]:
    _needs("adlfs")
    from azure.storage.blob import BlobServiceClient

    azurite = INSTALLED / "azurite/node_modules/.bin/azurite-blob"
    if not azurite.exists():
        pytest.skip("azurite is not installed (.ci/stores/install)")
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    server = [azurite, "--inMemoryPersistence", "--skipApiVersionCheck", "--silent",
              "--blobHost", "127.0.0.1", "--blobPort", str(port)]  # fmt: skip
    connection = (
        f"DefaultEndpointsProtocol=http;AccountName={_ACCOUNT};AccountKey={_KEY};"
        f"BlobEndpoint={endpoint}/{_ACCOUNT};"
    )
    with _running(server, port, log=scratch / "log"):
        BlobServiceClient.from_connection_string(connection).create_container("tables")
        root = f"abfss://tables@{_ACCOUNT}.dfs.core.windows.net"
        yield Place("azure", root, {"connection_string": connection}, endpoint)


@contextmanager
def _gcs(scratch: Path) -> Iterator[Place]:
    _needs("gcsfs")
    server = INSTALLED / "bin/fake-gcs-server"
    if not server.exists():
        pytest.skip("fake-gcs-server is not installed (.ci/stores/install)")
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [server, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port),
               "-backend", "memory", "-log-level", "error"]  # fmt: skip
    with _running(command, port, log=scratch / "log"):
        kind = {"Content-Type": "application/json"}
        _asked(f"{endpoint}/storage/v1/b?project=tests", "POST", b'{"name": "tables"}', **kind)
        options = {"endpoint_url": endpoint, "token": "anon"}
        yield Place("gcs", "gs://tables", options, endpoint)


@contextmanager
def _hdfs(scratch: Path) -> Iterator[Place]:
    _needs("hdfs_native")
    jars = INSTALLED / "hadoop"
    if not jars.is_dir():
        pytest.skip("Hadoop is not installed (.ci/stores/install)")
    port = free_port()
    details = scratch / "details.json"
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
               "-cp", f"{jars}/*", f"-Dtest.build.data={scratch}/data",
               "org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1",
               "-nnport", str(port), "-writeDetails", str(details),
               "-D", "dfs.replication=1", "-D", "fs.permissions.umask-mode=022"]  # fmt: skip
    with _running(command, port, log=scratch / "log"):
        for _ in range(300):
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                if json.loads(details.read_text()):
                    break
            time.sleep(0.1)
        else:
            raise AssertionError("HDFS does not start")
        yield Place("hdfs", f"hdfs://127.0.0.1:{port}/tables")


_SERVERS = {"s3": _s3, "azure": _azure, "gcs": _gcs, "hdfs": _hdfs}
PlaceOf = Callable[[str], Place]


@pytest.fixture(scope="session")
def place_of() -> Iterator[PlaceOf]:
    """A place of each kind; its server starts when it is asked for first."""
    started: dict[str, Place] = {}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deltacli-places-")))

        def get(kind: str) -> Place:
            if kind not in started:
                folder = scratch / kind
                folder.mkdir(exist_ok=True)
                if kind == "local":
                    started[kind] = Place("local", str(folder))
                else:
                    started[kind] = stack.enter_context(_SERVERS[kind](folder))
            return started[kind]

        yield get


def on_places(*kinds: str) -> Sequence[object]:
    """Parameters of these kinds; the slowest server runs once."""
    slow = pytest.mark.xdist_group("hdfs")
    return [pytest.param(kind, marks=slow) if kind == "hdfs" else kind for kind in kinds]


@pytest.fixture
def s3(place_of: PlaceOf) -> Place:
    return place_of("s3")
