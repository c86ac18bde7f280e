"""A real S3 protocol server on loopback, for the tests that want one."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

from deltacli.storage import LogStore, open_store

S3_OPTIONS = {"key": "test", "secret": "test", "region_name": "us-east-1"}


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """Its URL; it has the bucket `tables`."""
    pytest.importorskip("moto.server", reason="moto[server] is not installed")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    bucket = urllib.request.Request(f"http://127.0.0.1:{port}/tables", method="PUT")
    urllib.request.urlopen(bucket).close()
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.wait()


def s3_store(endpoint: str, table: str) -> LogStore:
    options = {**S3_OPTIONS, "endpoint_url": endpoint}
    return open_store(f"s3a://tables/{table}", options)
