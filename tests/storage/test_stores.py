"""What is particular to one store: URL forms, errors, refusals, crashes."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deltacli.errors import AlreadyExists, Refused, StorageError, UsageError
from deltacli.storage import local_path, open_store, retrying
from deltacli.storage.local import LocalStore
from deltacli.storage.memory import MemoryStore
from deltacli.storage.proofs import prove_put_if_absent


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///t/x", "/t/x"),
        ("file:/t/x", "/t/x"),
        ("FILE:///t/x", "/t/x"),
        ("file://localhost/t", "/t"),
        ("./t", "./t"),
        ("a:b", "a:b"),
    ],
)
def test_local_urls_and_paths(url: str, path: str) -> None:
    assert local_path(url) == path
    store = open_store(url)
    assert isinstance(store, LocalStore)
    assert store.root == os.path.abspath(path)


@pytest.mark.parametrize("url", ["file://host/t", "file:t"])
def test_a_file_url_must_be_local_and_absolute(url: str) -> None:
    with pytest.raises(UsageError):
        open_store(url)


@pytest.mark.parametrize(
    "url", ["wasbs://c@a/t", "adl://x/t", "dbfs:/t", "dbfs:///t", "nope://x/t"]
)
def test_schemes_that_cannot_work_say_what_to_use(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url)
    assert caught.value.hint


def test_other_spellings_of_s3_are_s3() -> None:
    pytest.importorskip("s3fs")
    assert open_store("s3a://bucket/t/").location == "s3://bucket/t"


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    # Another test may have loaded it already.
    loaded = importlib.import_module("fsspec.registry")._registry
    for name in ("gs", "gcs"):
        monkeypatch.delitem(loaded, name, raising=False)
    with pytest.raises(StorageError) as caught:
        open_store("gs://bucket/t")
    assert "deltacli[gcs]" in (caught.value.hint or "")
    assert caught.value.exit_code == 7


def test_a_dead_endpoint_is_a_storage_error() -> None:
    pytest.importorskip("s3fs")
    store = open_store(
        "s3://bucket/t",
        {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:9", "region_name": "x"},
    )
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:9"):
        store.read("_delta_log/x")


def test_no_permission_is_said_as_such(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (tmp_path / "_delta_log").mkdir(mode=0)
    with pytest.raises(StorageError, match="no permission"):
        open_store(str(tmp_path)).list_from("_delta_log")


class Forgetful(MemoryStore):
    """A store that overwrites although it was asked not to."""

    def put_if_absent(self, path: str, content: bytes) -> None:
        self.put(path, content)


class HalfForgetful(MemoryStore):
    """A store that says no, and overwrites all the same."""

    def put_if_absent(self, path: str, content: bytes) -> None:
        exists = path in self._files
        self.put(path, content)
        if exists:
            raise AlreadyExists(path)


@pytest.mark.parametrize("kind", [Forgetful, HalfForgetful])
def test_the_probe_refuses_a_store_that_overwrites(kind: type[MemoryStore]) -> None:
    store = kind()
    with pytest.raises(Refused, match="overwrites"):
        prove_put_if_absent(store)
    assert not store._files


def test_a_driver_that_only_looks_first_is_refused() -> None:
    from fsspec.implementations.local import LocalFileSystem

    from deltacli.storage.remote import RemoteStore

    store = RemoteStore("memory://x", {})
    store._fs = LocalFileSystem()  # its `create` looks first and writes then
    with pytest.raises(Refused, match="only if it is absent"):
        store.put_if_absent("_delta_log/x", b"")


def test_transient_failures_are_retried_with_growing_pauses() -> None:
    failures = [ConnectionError(), ConnectionError()]
    pauses: list[float] = []

    def flaky() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert retrying(flaky, is_transient=lambda _: True, pause=pauses.append) == "done"
    assert len(pauses) == 2
    assert pauses[1] > pauses[0]
    with pytest.raises(KeyError):
        retrying({}.popitem, is_transient=lambda error: not isinstance(error, KeyError))


KILLED = """
import os, signal, sys
from deltacli.storage.local import LocalStore
real = os.{call}
def die(*a, **k):
    if {after}:
        real(*a, **k)
    os.kill(os.getpid(), signal.SIGKILL)
os.{call} = die
LocalStore(sys.argv[1]).{method}("_delta_log/x", b"new" * 100000)
"""


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("method", "call"),
    [("put_if_absent", "fsync"), ("put_if_absent", "link"), ("put", "fsync"), ("put", "replace")],
)
def test_a_killed_writer_leaves_the_old_file_or_the_new(
    tmp_path: Path, method: str, call: str, after: bool
) -> None:
    store = LocalStore(str(tmp_path))
    if method == "put":
        store.put("_delta_log/x", b"old")
    script = KILLED.format(call=call, after=after, method=method)
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    found = [entry.name for entry in store.list_from("_delta_log") if entry.name == "x"]
    if found:
        assert store.read("_delta_log/x") in (b"old", b"new" * 100000)
    else:
        assert method == "put_if_absent"


def test_listing_shows_what_another_process_wrote_meanwhile(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.put("_delta_log/a", b"")
    assert [entry.name for entry in store.list_from("_delta_log")] == ["a"]
    (tmp_path / "_delta_log" / "b").write_bytes(b"")
    stamp = time.time() - 1000
    os.utime(tmp_path / "_delta_log" / "b", (stamp, stamp))
    entries = list(store.list_from("_delta_log"))
    assert [entry.name for entry in entries] == ["a", "b"]
    assert entries[1].modified_ms == os.stat(tmp_path / "_delta_log" / "b").st_mtime_ns // 10**6


@pytest.mark.parametrize("how", ["put", "put_file", "put_if_absent"])
def test_a_checksum_of_hadoops_does_not_outlive_its_file(tmp_path: Path, how: str) -> None:
    """Hadoop's local file system checks each file by `.NAME.crc`, and fails where they differ."""
    store = LocalStore(str(tmp_path))
    for name in (".x.crc", ".y.crc"):
        (tmp_path / name).write_bytes(b"crc")
    if how == "put_file":
        scratch = store.scratch("x")
        Path(scratch).write_bytes(b"new")
        store.put_file("x", scratch)
    else:
        getattr(store, how)("x", b"new")
    assert sorted(one.name for one in tmp_path.iterdir()) == [".y.crc", "x"]
