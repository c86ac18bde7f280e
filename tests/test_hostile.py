"""Hostile tables, servers and neighbours: nothing outside is touched, nothing is shown or taken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.delta.snapshot import load_snapshot
from deltacli.local.engine import LocalEngine
from deltacli.operations.vacuum import plan_vacuum
from deltacli.operations.vacuum_apply import apply_vacuum
from deltacli.operations.vacuum_request import VacuumRequest
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, column, features, metadata, protocol
from tests.conftest import ROOT, Result
from tests.sharing.scripted import Say, scripted
from tests.terminal import on_terminal

Deltacli = Callable[..., Result]
OLD = 1_500_000_000
RED = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return TableBuilder(LocalStore(str(tmp_path / "table")))


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A neighbour's folder, with old files."""
    folder = tmp_path / "victim"
    folder.mkdir()
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), folder / "x.parquet")
    for path in folder.iterdir():
        os.utime(path, (OLD, OLD))
    return folder


# -- files outside -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["../victim/x.parquet", "%2e%2e%2fvictim%2fx.parquet", "link/x.parquet"]
)
def test_a_rewrite_stays_in_the_table(
    path: str, table: TableBuilder, victim: Path, tmp_path: Path, deltacli: Deltacli
) -> None:
    before = tree(victim)
    change = {"fromType": "integer", "toType": "long"}
    wide = {**column("id", "long"), "metadata": {"delta.typeChanges": [change]}}
    on = {"delta.enableTypeWidening": "true"}
    file = add(path, (victim / "x.parquet").stat().st_size, 1)
    table.commit(features("typeWidening"), metadata(wide, configuration=on), file)
    (tmp_path / "table/link").symlink_to(victim)
    done = deltacli(
        "widen-type", tmp_path / "table", "--rewrite", "--yes", "--engine", "local", "-q"
    )
    assert done.code == 0, done.stderr
    assert tree(victim) == before
    (new,) = [one for one in os.listdir(tmp_path / "table") if one.startswith("part-")]
    assert deltacli("head", tmp_path / "table", "-q", "-o", "json").json == [{"id": 1}]
    assert new.endswith(".parquet")


@pytest.mark.parametrize("name", ["d", "d/e"])
def test_a_link_that_comes_after_the_plan_is_not_followed(
    name: str, table: TableBuilder, victim: Path, tmp_path: Path
) -> None:
    (victim / "e").mkdir()
    shutil.copy2(victim / "x.parquet", victim / "e/x.parquet")
    before = tree(victim)
    table.commit(protocol(), metadata())
    folder = tmp_path / "table" / name
    folder.mkdir(parents=True)
    (folder / "x.parquet").write_bytes(b"nobody needs this")
    for path in (folder / "x.parquet", folder):
        os.utime(path, (OLD, OLD))
    store = LocalStore(str(tmp_path / "table"))
    engine = LocalEngine
    snapshot = load_snapshot(store, engine)
    plan = plan_vacuum(snapshot, engine, VacuumRequest(), now_ms=time.time_ns() // 1_000_000)
    shutil.move(tmp_path / "table/d", tmp_path / "away")
    (tmp_path / "table/d").symlink_to(victim)
    done = apply_vacuum(plan, engine, now_ms=lambda: time.time_ns() // 1_000_000)
    assert tree(victim) == before
    assert done.num_deleted == 0


def test_a_linked_log_is_read_and_never_changed(tmp_path: Path, deltacli: Deltacli) -> None:
    shutil.copytree(ROOT / "examples/orders", tmp_path / "own")
    before = tree(tmp_path / "own")
    (tmp_path / "t").mkdir()
    (tmp_path / "t/_delta_log").symlink_to(tmp_path / "own/_delta_log")
    assert deltacli("history", tmp_path / "t").code == 0
    for words in (
        ("checkpoint", tmp_path / "t", "--yes"),
        ("checkpoint", tmp_path / "t", "--cleanup", "--yes"),
        ("widen-type", tmp_path / "t", "amount", "decimal(12,4)", "--enable", "--yes"),
    ):
        result = deltacli(*words)
        assert (result.code, "through a link" in result.stderr) == (7, True), result.stderr
    assert tree(tmp_path / "own") == before


def test_a_linked_schema_folder_is_not_expired(tmp_path: Path, deltacli: Deltacli) -> None:
    shutil.copytree(ROOT / "examples/customers", tmp_path / "own")
    for path in (tmp_path / "own/schema").iterdir():
        os.utime(path, (OLD, OLD))
    before = tree(tmp_path / "own")
    (tmp_path / "t").mkdir()
    (tmp_path / "t/schema").symlink_to(tmp_path / "own/schema")
    for words in (
        ("expire", tmp_path / "t", "--older-than", "30d", "--yes"),
        ("alter", tmp_path / "t", "add column n INT", "--yes"),
    ):
        assert deltacli("paimon", *words).code in (4, 7, 8)
    assert tree(tmp_path / "own") == before


def test_a_temporary_name_that_is_taken_is_left_alone(tmp_path: Path) -> None:
    """Whatever another process calls its files in a folder of all."""
    script = (
        'echo precious > out.json.$$.tmp; exec "$0" -m deltacli history "$1" -q '
        "--output-file out.json"
    )
    command = ["sh", "-c", script, sys.executable, str(ROOT / "examples/orders")]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert (tmp_path / "out.json").exists()
    (kept,) = tmp_path.glob("*.tmp")
    assert kept.read_text() == "precious\n"


# -- what never ends ---------------------------------------------------------------------


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "name",
    [
        "_delta_log/00000000000000000001.json",
        "_delta_log/00000000000000000000.crc",
        "_delta_log/_last_checkpoint",
        "a",
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "link to itself"])
def test_pipes_and_devices_are_no_files(
    kind: str, name: str, table: TableBuilder, tmp_path: Path, deltacli: Deltacli
) -> None:
    table.commit(protocol(), metadata(), add("a", 100, 1))
    place = tmp_path / "table" / name
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero" if kind == "device" else place)
    for words in (
        ("snapshot",), ("history",), ("head", "--engine", "local"), ("vacuum", "--dry-run"),
        ("validate", "--level", "footers"), ("checkpoint", "--dry-run"),
    ):  # fmt: skip
        result = deltacli(words[0], tmp_path / "table", *words[1:])
        assert result.code in (0, 1, 5, 7), (words, result.stderr)
        # What is wrong with one file is a finding beside the others.
        assert words[0] != "validate" or result.code == 1, result.stderr


def test_a_number_that_arrow_does_not_survive(table: TableBuilder, tmp_path: Path) -> None:
    table.commit(
        protocol(),
        metadata(column("p", "decimal(10,2)"), column("v"), partition_by=["p"]),
        add("a", partitionValues={"p": "1e-999999999"}),
    )
    command = [
        sys.executable,
        "-m",
        "deltacli",
        "head",
        str(tmp_path / "table"),
        "--engine",
        "local",
    ]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr.startswith("error: ")) == (5, True)


def endless(text: bytes, pause: float = 0.0) -> Callable[[Any], None]:
    def send(sock: Any) -> None:
        try:
            while True:
                sock.sendall(text)
                time.sleep(pause)
        except OSError:
            return

    return send


def after(head: bytes, more: Callable[[Any], None]) -> Callable[[Any], None]:
    def send(sock: Any) -> None:
        sock.sendall(head)
        more(sock)

    return send


def _gzip(content: bytes) -> bytes:
    import gzip

    return gzip.compress(content)


GZIP_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
    b"Connection: close\r\n\r\n"
)
EMPTY_BLOCKS = b"\x00\x00\x00\xff\xff" * 4000
NEVER_DONE = {
    "junk behind the end": after(GZIP_HEAD + _gzip(b'{"items": []}'), endless(b"x" * 65536)),
    "blocks of nothing": after(GZIP_HEAD + _gzip(b"")[:10], endless(EMPTY_BLOCKS)),
    "go on": endless(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a head in drips": after(b"HTTP/1.1 200 OK\r\nX-Long: ", endless(b"x", 0.3)),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", NEVER_DONE)
def test_a_server_that_never_ends_is_left(name: str, tmp_path: Path, deltacli: Deltacli) -> None:
    with scripted(lambda asked: Say(raw=NEVER_DONE[name])) as server:
        profile = {"shareCredentialsVersion": 1, "endpoint": server.url, "bearerToken": "t"}
        (tmp_path / "p.share").write_text(json.dumps(profile))
        begun = time.monotonic()
        told = deltacli("share", "shares", "--profile", tmp_path / "p.share", "--timeout", "1s")
    assert (told.code, "error: " in told.stderr) == (7, True), told.stderr
    assert time.monotonic() - begun < 45


# -- the terminal ------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["table", "json", "jsonl", "csv", "tsv"])
def test_nothing_in_a_table_steers_the_terminal(
    output: str, table: TableBuilder, tmp_path: Path
) -> None:
    place = tmp_path / "table"
    rows = pa.table({f"n{RED}": [f"v{RED}"], "timestamp": [f"t{RED}"]})
    names = (column(f"n{RED}", "string"), column("timestamp", "string"))
    place.mkdir()
    pq.write_table(rows, place / "a")
    info = {"commitInfo": {"operation": RED, "userName": RED, "operationParameters": {"x": RED}}}
    table.commit(info, protocol(), metadata(*names), add("a", (place / "a").stat().st_size, 1))
    for words in (
        ("head", "--engine", "local"), ("history",), ("snapshot", "--schema"),
        ("validate", "--level", "footers"), ("snapshot", "--files"),
    ):  # fmt: skip
        if words[0] == "validate" and output in ("csv", "tsv"):
            continue
        code, shown = on_terminal(words[0], str(place), *words[1:], "-o", output, "--no-progress")
        assert code in (0, 1), shown
        assert "owned" in shown or words[0] == "validate" or "--files" in words
        for bad in ("\x1b]0;owned", "\x1b[2J", "\x9b", "\u202e", "\x07"):
            assert bad not in shown, (words, output)


# -- secrets -----------------------------------------------------------------------------

SECRET = "S3cr3tW0rd"
ADDRESSES = (
    f"http://user:{SECRET}@127.0.0.1:9/t",
    f"http://127.0.0.1:9/t?sig={SECRET}",
    f"s3://KEY:{SECRET}@bucket/t",
)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "words",
    [
        ("snapshot",),
        ("snapshot", "-o", "json"),
        ("snapshot", "--debug", "-v"),
        ("validate",),
        ("validate", "-o", "sarif"),
        ("validate", "-o", "junit"),
        ("validate", "-o", "github"),
        ("vacuum", "--yes", "--metrics-file", "METRICS"),
    ],
)
def test_no_password_of_an_address_is_shown(
    address: str, words: Sequence[str], tmp_path: Path
) -> None:
    metrics = tmp_path / "m.prom"
    given = [str(metrics) if one == "METRICS" else one for one in words[1:]]
    own = ["--storage-option", "endpoint_url=http://127.0.0.1:9"] if "s3:" in address else []
    command = [sys.executable, "-m", "deltacli", words[0], address, *given, *own]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode in (2, 3, 7), told.stderr
    assert SECRET not in told.stdout + told.stderr
    assert not metrics.exists() or SECRET not in metrics.read_text()


def test_an_option_that_is_wrong_is_not_repeated(deltacli: Deltacli, tmp_path: Path) -> None:
    for text in (SECRET, f"={SECRET}"):
        told = deltacli("snapshot", tmp_path, "--storage-option", text)
        assert (told.code, SECRET in told.stderr) == (2, False)


def test_an_error_is_a_line_that_can_be_read(
    table: TableBuilder, tmp_path: Path, deltacli: Deltacli
) -> None:
    table.commit(protocol(), metadata(), add("a" * 100_000, 5, 1))
    told = deltacli("head", tmp_path / "table", "--engine", "local")
    assert told.code in (5, 7)
    assert len(told.stderr) < 6000


def test_a_few_rows_of_a_bomb_take_little_memory(table: TableBuilder, tmp_path: Path) -> None:
    """A file of a kilobyte whose rows are of sixteen megabytes each."""
    place = tmp_path / "table"
    place.mkdir()
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), ["x" * (16 << 20)])
    options = {"write_statistics": False, "dictionary_pagesize_limit": 1 << 30}
    pq.write_table(pa.table({"s": rows}), place / "a", compression="zstd",
                   store_schema=False, **options)  # fmt: skip
    size = (place / "a").stat().st_size
    assert size < 10_000
    table.commit(protocol(), metadata(column("s", "string")), add("a", size, 2000))
    script = (
        "import sys; from deltacli.cli.app import run; "
        "code = run(['head', sys.argv[1], '-n', '1', '--engine', 'local', '-o', 'json']); "
        "peak = next(one for one in open('/proc/self/status') if one.startswith('VmHWM'));"
        "print(code, peak.split()[1], file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, str(place)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    code, kilobytes = map(int, told.stderr.split()[-2:])
    assert (code, kilobytes < 600_000) == (0, True), told.stderr
