"""Commands from end to end: exit code, standard output and standard error, apart."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.operations.records import Listing
from deltacli.render.table import People, show_listing
from tests.builder import (
    TableBuilder,
    add,
    column,
    commit_info,
    features,
    metadata,
    protocol,
    remove,
)
from tests.conftest import Result

Cli = Callable[..., Result]


@pytest.fixture
def orders(local_table: TableBuilder) -> Path:
    """A small table with three versions."""
    head = [protocol(), metadata(column("id"), column("p", "string"), partition_by=["p"])]
    now = time.time_ns() // 1_000_000
    local_table.commit(commit_info("CREATE TABLE", timestamp=now), *head)
    files = [add(f"p={p}/{p}.parquet", 1000, partitionValues={"p": p}) for p in "ab"]
    local_table.commit(
        commit_info("WRITE", timestamp=now, operationMetrics={"numFiles": "2"}), *files
    )
    gone = remove("p=a/a.parquet", partitionValues={"p": "a"}, size=1000)
    local_table.commit(commit_info("DELETE", timestamp=now, userName="eve"), gone)
    return Path(local_table.store.location.removeprefix("file://"))


def test_snapshot_as_json_has_the_documented_fields(deltacli: Cli, orders: Path) -> None:
    result = deltacli("snapshot", orders, "-o", "json")
    assert (result.code, result.stderr) == (0, "")
    document = result.json
    assert list(document)[:6] == [
        "location",
        "format",
        "version",
        "timestamp",
        "timestampMs",
        "timestampSource",
    ]
    assert document["location"] == f"file://{orders}"
    assert (document["version"], document["numFiles"], document["sizeInBytes"]) == (2, 1, 1000)
    assert (document["numRecords"], document["numFilesWithoutStats"]) == (10, 0)
    assert document["partitionColumns"] == ["p"]
    assert document["checkpoint"] is None
    assert document["commitsSinceCheckpoint"] == 3
    assert document["earliestVersion"] == 0
    assert document["tableFeatures"] == ["appendOnly", "invariants"]
    assert document["schema"]["fields"][0]["name"] == "id"
    assert document["warnings"] == []
    assert document["timestamp"].endswith("Z")


def test_fields_choose_and_order(deltacli: Cli, orders: Path) -> None:
    result = deltacli("snapshot", orders, "--fields", "numFiles,version", "-o", "json")
    assert result.stdout == '{\n  "numFiles": 1,\n  "version": 2\n}\n'
    lines = deltacli("history", orders, "--fields", "version,operation").stdout
    assert lines == "2\tDELETE\n1\tWRITE\n0\tCREATE TABLE\n"
    for command in ("snapshot", "history"):
        result = deltacli(command, orders, "--fields", "verson")
        assert result.code == 2
        assert "did you mean 'version'" in result.stderr


def test_the_formats_of_a_listing_agree(deltacli: Cli, orders: Path) -> None:
    as_json = deltacli("history", orders, "-o", "json").json
    as_lines = deltacli("history", orders, "-o", "jsonl").rows
    as_csv = list(csv.DictReader(io.StringIO(deltacli("history", orders, "-o", "csv").stdout)))
    assert as_json == as_lines
    assert [row["version"] for row in as_json] == [2, 1, 0]
    assert [int(row["version"]) for row in as_csv] == [2, 1, 0]
    assert as_csv[0].keys() == as_json[0].keys()
    assert json.loads(as_csv[1]["operationMetrics"]) == {"numFiles": "2"}
    table = deltacli("history", orders, "-o", "table").stdout
    assert "DELETE" in table
    assert "eve" in table


@pytest.mark.parametrize(
    ("view", "count"),
    [
        ("--files", 1),
        ("--tombstones", 1),
        ("--partitions", 1),
        ("--transactions", 0),
        ("--domains", 0),
        ("--schema", 2),
    ],
)
@pytest.mark.parametrize("fmt", ["json", "jsonl", "csv", "tsv", "table"])
def test_every_view_in_every_format(
    deltacli: Cli, orders: Path, view: str, count: int, fmt: str
) -> None:
    result = deltacli("snapshot", orders, view, "-o", fmt)
    assert (result.code, result.stderr) == (0, "")
    if fmt == "json":
        assert len(result.json) == count
    elif fmt in ("jsonl", "tsv"):
        assert len(result.stdout.splitlines()) == count
    elif fmt == "csv":
        assert len(list(csv.reader(io.StringIO(result.stdout)))) == count + 1


def test_two_views_are_one_too_many(deltacli: Cli, orders: Path) -> None:
    result = deltacli("snapshot", orders, "--files", "--schema")
    assert result.code == 2
    assert "--files and --schema" in result.stderr


def test_diff_and_chart(deltacli: Cli, orders: Path) -> None:
    document = deltacli("snapshot", orders, "--diff", "1", "-o", "json").json
    assert (document["fromVersion"], document["toVersion"]) == (1, 2)
    assert [one["path"] for one in document["filesRemoved"]] == ["p=a/a.parquet"]
    rows = deltacli("history", orders, "--chart", "-o", "json").json
    assert [(row["numFiles"], row["sizeInBytes"]) for row in rows] == [(1, 1000), (2, 2000), (0, 0)]
    assert "numFiles" in deltacli("history", orders, "--chart", "-o", "table").stdout


@pytest.mark.parametrize("at", ["1", "v1"])
def test_a_version_can_be_asked_for(deltacli: Cli, orders: Path, at: str) -> None:
    assert deltacli("snapshot", orders, "--at", at, "-o", "json").json["numFiles"] == 2
    assert deltacli("snapshot", f"{orders}@v1", "-o", "json").json["numFiles"] == 2
    assert deltacli("snapshot", f"{orders}@v1", "--at", at).code == 2


def test_a_folder_with_an_at_in_its_name_wins(deltacli: Cli, orders: Path) -> None:
    other = orders.with_name(f"{orders.name}@v1")
    other.symlink_to(orders)
    assert deltacli("snapshot", other, "-o", "json").json["version"] == 2


def test_a_time_can_be_asked_for(deltacli: Cli, orders: Path) -> None:
    for version in range(3):
        stamp = time.time() - 3600 * (10 - version)
        os.utime(orders / "_delta_log" / f"{version:020}.json", (stamp, stamp))
    result = deltacli("snapshot", orders, "--at", "510 minutes ago", "--fields", "version")
    assert (result.stdout, result.code) == ("version\t1\n", 0)
    assert "is version 1" in result.stderr
    for late in ("1 hour ago", "1h", "now"):
        assert deltacli("snapshot", orders, "--at", late, "-o", "json").json["version"] == 2
    future = deltacli("snapshot", orders, "--at", "2999-01-01")
    assert future.code == 3
    assert "in the future" in future.stderr
    early = deltacli("snapshot", orders, "--at", "2020-01-01")
    assert early.code == 3
    assert "no version is as old" in early.stderr
    assert deltacli("snapshot", orders, "--at", "some day").code == 2


BAD = [
    (["history"], 2, "error: missing argument 'TABLE'\n"),
    (["histry", "."], 2, "Did you mean 'history'"),
    (["history", ".", "--nope"], 2, "error: no such option: --nope"),
    (["history", ".", "--limit", "x"], 2, "--limit"),
    (["history", "EMPTY", "--limit", "0"], 2, "at least 1"),
    (["snapshot", "NOWHERE"], 3, "does not exist"),
    (["snapshot", "EMPTY"], 3, "has no _delta_log"),
    (["snapshot", "FILE"], 3, "not a Delta table"),
    (["snapshot", "TABLE/_delta_log"], 3, "inside a table"),
    (["snapshot", "TABLE/p=a"], 3, "inside a table"),
    (["snapshot", "TABLE", "--at", "9"], 3, "version 9 does not exist"),
    (["snapshot", "TABLE", "--tz", "Mars"], 2, "time zone"),
    (["snapshot", "TABLE", "--storage-option", "x"], 2, "KEY=VALUE"),
    (["snapshot", "wasbs://c@a/t"], 2, "abfss"),
    (["snapshot", "TABLE", "--output-file", "NOWHERE/out"], 7, "cannot write"),
    (["snapshot", "TABLE", "--output-file", ""], 2, "names no file"),
    (["snapshot", "TABLE", "--output-file", "NOWHERE/out"], 7, "there is no folder"),
    (["snapshot", "s3://"], 2, "names no bucket"),
    (["history", "TABLE", "--from", "yesterday"], 2, "is no whole number"),
    (["history", "TABLE", "--limit"], 2, "see `deltacli history --help`"),
    (["vacuum", "TABLE", "--dry-run", "--inventory", "NOWHERE"], 3, "does not exist"),
    (["validate", "TABLE", "--select", ","], 2, "--select names no rule"),
    (["completion", "tcsh"], 2, "tcsh"),
    (["history", "-x"], 2, "-x"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), BAD)
def test_bad_input_is_one_clear_error(
    deltacli: Cli, orders: Path, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    places = {
        "TABLE": str(orders),
        "EMPTY": str(tmp_path / "empty"),
        "FILE": str(tmp_path / "file"),
        "NOWHERE": str(tmp_path / "nowhere"),
    }
    arguments = [
        places[word] + slash + rest if word in places else one
        for one in arguments
        for word, slash, rest in [one.partition("/")]
    ]
    result = deltacli(*arguments)
    assert result.code == code
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0].startswith("error: ")
    assert len(lines) == 2
    assert lines[1].startswith("hint: ")
    assert words in result.stderr
    as_json = deltacli(*arguments, "-o", "json")
    assert as_json.code == code
    body = json.loads(as_json.stderr)
    assert body.keys() == {"error", "message", "hint", "exitCode", "location"}
    assert body["exitCode"] == code


def test_corrupt_logs_name_file_and_line(deltacli: Cli, orders: Path) -> None:
    (orders / "_delta_log" / f"{2:020}.json").write_bytes(b'{"commitInfo":{}}\n{"add":')
    result = deltacli("snapshot", orders)
    assert result.code == 5
    assert f"{2:020}.json, line 2" in result.stderr
    result = deltacli("history", orders, "-o", "json")
    assert result.code == 5
    assert [row["version"] for row in result.json] == [2, 1, 0]
    assert result.json[0]["error"]


def test_a_refused_table(deltacli: Cli, local_table: TableBuilder) -> None:
    local_table.commit(features("fancy"), metadata())
    location = local_table.store.location
    result = deltacli("snapshot", location)
    assert result.code == 4
    assert "unsupported reader feature: fancy" in result.stderr
    assert deltacli("history", location).code == 0


def test_no_permission_is_exit_7(tmp_path: Path, orders: Path) -> None:
    if os.geteuid() == 0 and not Path("/usr/bin/setpriv").exists():
        pytest.skip("root may read everything")
    (orders / "_delta_log").chmod(0)
    command = [sys.executable, "-m", "deltacli", "snapshot", str(orders)]
    if os.geteuid() == 0:
        for folder in (orders, *orders.parents):
            if folder.is_relative_to(tmp_path.parent.parent):
                folder.chmod(0o755)
        drop = "--bounding-set=-all --inh-caps=-all --ambient-caps=-all"
        command = ["setpriv", *drop.split(), *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (orders / "_delta_log").chmod(0o755)
    assert done.returncode == 7
    assert "no permission" in done.stderr


def test_names_are_never_markup(deltacli: Cli, local_table: TableBuilder) -> None:
    hostile = "[bold]x[/bold] \x1b[31m :cat:"
    local_table.start(add(hostile), name=hostile)
    location = local_table.store.location
    for arguments in (["snapshot", location], ["snapshot", location, "--files"]):
        shown = deltacli(*arguments, "-o", "table").stdout
        assert "[bold]x[/bold]" in shown
        assert ":cat:" in shown
        assert "\x1b" not in shown
        lines = deltacli(*arguments, "-o", "tsv").stdout
        assert "[bold]x[/bold]" in lines
        assert "\x1b" not in lines
    assert deltacli("snapshot", location, "--files", "-o", "json").json[0]["path"] == hostile


def test_a_folder_called_like_an_option(
    deltacli: Cli, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (orders.parent / "-x").symlink_to(orders)
    monkeypatch.chdir(orders.parent)
    for arguments in (["--", "-x"], ["./-x"], ["-o", "tsv", "--", "-x"]):
        assert deltacli("history", *arguments).stdout.count("\n") == 3


def test_a_table_without_files(deltacli: Cli, local_table: TableBuilder) -> None:
    local_table.start()
    document = deltacli("snapshot", local_table.store.location, "-o", "json").json
    assert (document["numFiles"], document["sizeInBytes"], document["numRecords"]) == (0, 0, 0)


def test_the_output_file_is_whole_or_absent(deltacli: Cli, orders: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    result = deltacli("history", orders, "-o", "jsonl", "--output-file", target)
    assert (result.code, result.stdout) == (0, "")
    assert len(target.read_text().splitlines()) == 3
    target.unlink()
    assert deltacli("snapshot", orders, "--at", "9", "--output-file", target).code == 3
    (orders / "_delta_log" / f"{1:020}.json").write_bytes(b"{")
    assert deltacli("snapshot", orders, "--files", "--output-file", target).code == 5
    assert sorted(one.name for one in tmp_path.iterdir()) == ["table"]


def test_the_output_file_keeps_what_it_is(deltacli: Cli, orders: Path, tmp_path: Path) -> None:
    target, link, fifo = tmp_path / "target", tmp_path / "link", tmp_path / "fifo"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    assert deltacli("history", orders, "-o", "json", "--output-file", link).code == 0
    assert link.is_symlink()
    assert len(json.loads(target.read_text())) == 3
    assert target.stat().st_mode & 0o777 == 0o600
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE)
    assert deltacli("history", orders, "-o", "json", "--output-file", fifo).code == 0
    assert len(json.loads(reader.communicate()[0])) == 3
    assert fifo.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
def test_a_full_device_is_a_storage_error(orders: Path) -> None:
    for arguments in (["history", str(orders), "-o", "json"], ["--version"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "deltacli", *arguments],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == 7
        assert "cannot write standard output" in done.stderr


def test_closed_streams_do_not_mix(orders: Path) -> None:
    program = f"{sys.executable} -m deltacli"
    done = subprocess.run(
        ["bash", "-c", f"{program} snapshot {orders} -o json >&-"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 7
    done = subprocess.run(
        ["bash", "-c", f"{program} snapshot /no/where 2>&-"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.parametrize("flags", [["-qo", "json"], ["-vojson"], ["--output=jsonl"]])
def test_errors_are_json_wherever_json_is_asked_for(deltacli: Cli, flags: list[str]) -> None:
    result = deltacli("snapshot", "/no/where", *flags)
    assert json.loads(result.stderr.splitlines()[-1])["exitCode"] == 3


@pytest.mark.parametrize(
    "arguments",
    [["--at", "9" * 5000], ["--at", f"{'9' * 5000} days ago"], ["--at", "\u0663"], ["--diff", "x"]],
)
def test_odd_versions_are_usage_errors(deltacli: Cli, orders: Path, arguments: list[str]) -> None:
    assert deltacli("snapshot", orders, *arguments).code == 2
    assert deltacli("snapshot", "").code == 2
    assert deltacli("history", orders, "--from", "-5").code == 2
    assert deltacli("history", f"{orders}@v99").code == 3


def test_deep_nesting_is_no_bug(deltacli: Cli, local_table: TableBuilder) -> None:
    deep = "[" * 900 + "]" * 900
    head = json.dumps(protocol()) + "\n" + json.dumps(metadata()) + "\n"
    stats = json.dumps('{"numRecords":1,"x":' + "[" * 500 + "]" * 500 + "}")
    local_table.commit_bytes(
        f'{head}{{"commitInfo":{{"operation":{deep}}}}}\n'
        f'{{"add":{{"path":"a","size":1,"stats":{stats}}}}}\n'.encode()
    )
    location = local_table.store.location
    assert deltacli("history", location, "-o", "json").code == 5
    for view in ([], ["--files"], ["--partitions"]):
        assert deltacli("snapshot", location, *view, "-o", "json").code in (0, 5)


def test_options_before_the_command_and_from_the_environment(
    deltacli: Cli, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert deltacli("-o", "json", "history", orders).json[0]["version"] == 2
    monkeypatch.setenv("DELTACLI_OUTPUT", "jsonl")
    monkeypatch.setenv("DELTACLI_HISTORY_LIMIT", "1")
    assert [row["version"] for row in deltacli("history", orders).rows] == [2]


def test_warnings_go_to_stderr_and_can_be_silenced(
    deltacli: Cli, local_table: TableBuilder
) -> None:
    local_table.commit(protocol(1, 7, None, ["fancy"]), metadata())
    location = local_table.store.location
    loud = deltacli("snapshot", location, "-o", "json")
    assert loud.stderr.startswith("warning: unknown writer feature fancy")
    assert len(loud.json["warnings"]) == 1
    assert deltacli("snapshot", location, "-q", "-o", "json").stderr == ""


def test_debug_shows_the_traceback_and_nothing_else_does(
    deltacli: Cli, monkeypatch: pytest.MonkeyPatch, orders: Path
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("deltacli.operations.describe.describe_snapshot", broken)
    plain = deltacli("snapshot", orders)
    assert plain.code == 70
    assert "Traceback" not in plain.stderr
    assert "bug in deltacli" in plain.stderr
    assert "Traceback" in deltacli("snapshot", orders, "--debug").stderr


def test_version_help_and_no_arguments(deltacli: Cli) -> None:
    from deltacli import __version__

    for argument in ("--version", "-V"):
        assert deltacli(argument).stdout == f"deltacli {__version__}\n"
    for arguments in (["--help"], ["-h"], ["help"]):
        result = deltacli(*arguments)
        assert result.code == 0
        assert "snapshot" in result.stdout
    assert deltacli().code == 2
    for arguments in (["help", "history"], ["history", "--help"], ["history", "-h"]):
        assert "--limit" in deltacli(*arguments).stdout


def test_doctor_names_versions_and_hides_secrets(
    deltacli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "hidden-key")
    result = deltacli("doctor", "-o", "json")
    assert result.json["packages"]["pyarrow"][0].isdigit()
    assert result.json["credentials"]["s3"] == ["AWS_ACCESS_KEY_ID"]
    assert "hidden-key" not in result.stdout


def run(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deltacli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


def test_a_closed_pipe_ends_quietly(local_table: TableBuilder) -> None:
    local_table.start(*(add(f"{number:0200}") for number in range(3000)))
    location = local_table.store.location
    for fmt in ("tsv", "json", "table"):
        script = f"{sys.executable} -m deltacli snapshot {location} --files -o {fmt} | head -1"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {script}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("\n") == 1


SLOW = """
import time, sys
from deltacli.operations.records import Listing
from deltacli.render.table import People, show_listing
from deltacli.storage.local import LocalStore
LocalStore.read = lambda self, path: (print("reading", flush=True), time.sleep(60))
from deltacli.cli.app import run
sys.exit(run(["snapshot", sys.argv[1]]))
"""


def test_ctrl_c_is_130(orders: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, str(orders)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr == "interrupted\n"


FORBIDDEN = {"pyarrow", "fsspec", "pyspark", "pydantic", "asyncio", "numpy", "pandas", "concurrent"}
IMPORTS = """
import sys, json
from deltacli.cli.app import run
code = run(sys.argv[1:])
print(json.dumps([code, sorted({name.partition(".")[0] for name in sys.modules})]), file=sys.stderr)
"""


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["history"], ["snapshot"]])
def test_start_up_imports_nothing_heavy(orders: Path, arguments: list[str]) -> None:
    if not arguments[0].startswith("-"):
        arguments = [*arguments, str(orders), "-o", "json"]
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, *arguments], capture_output=True, text=True, check=True
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    assert not FORBIDDEN & set(modules)
    if arguments[0] != "--help":
        assert "rich" not in modules


@pytest.mark.parametrize("width", [40, 80, 200])
def test_help_names_every_option_whole(
    deltacli: Cli, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    from deltacli.cli.tree import command_tree

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for command in command_tree():
        result = deltacli(*command.name.split(), "--help")
        assert result.code == 0
        assert "Common options:" in result.stdout
        assert "\x1b" not in result.stdout
        words = set(re.split(r"[\s,]+", result.stdout))
        named = {name for one in command.options for name in one.names}
        assert named <= words, named - words
        choices = {f"<{'|'.join(one.choices)}>" for one in command.options if one.choices}
        assert choices <= words, choices - words


def test_help_is_utf_8_whatever_the_environment_says(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "deltacli", "vacuum", "--help"]
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert "k8s://…" in done.stdout.decode()


@pytest.mark.parametrize(
    "words",
    [("validate", "x"), ("snapshot", "x"), ("history", "."), ("vacuum", "x", "--yes"),
     ("paimon", "list", "x"), ("snapshot", "x", "-o", "json")],
)  # fmt: skip
def test_a_folder_that_is_gone_is_told(tmp_path: Path, words: tuple[str, ...]) -> None:
    line = 'cd "$0" && rmdir "$0" && exec "$@"'
    (tmp_path / "gone").mkdir()
    command = ["sh", "-c", line, str(tmp_path / "gone"), sys.executable, "-m", "deltacli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert "the current folder is gone" in done.stderr
    assert done.stderr.startswith(("error: ", '{"error"'))
    assert "Traceback" not in done.stderr


def test_changes_begin_with_the_newest_version(deltacli: Cli, orders: Path) -> None:
    before = sorted(orders.rglob("*"))
    for words in (("id", "long", "--enable"), ("--enable",), ("--rewrite",), ("--drop-feature",)):
        result = deltacli("widen-type", f"{orders}@v1", *words, "--yes")
        assert (result.code, result.stdout) == (2, "")
        assert "only the newest version can be changed" in result.stderr
    assert sorted(orders.rglob("*")) == before


def test_nothing_to_do_is_silent_where_nobody_wants_to_hear_of_it(
    deltacli: Cli, orders: Path
) -> None:
    assert deltacli("widen-type", orders, "--enable", "--yes", "-q").code == 0
    for words in (
        ("checkpoint",), ("checkpoint", "--cleanup"), ("widen-type", "id", "long"),
        ("widen-type", "--enable"), ("vacuum",),
    ):  # fmt: skip
        for _ in range(2):
            result = deltacli(words[0], orders, *words[1:], "--yes", "-q")
            assert (result.code, result.stdout, result.stderr) == (0, "", ""), words
    told = deltacli("checkpoint", orders, "--yes", "-q", "-o", "json", "--stats", "struct").json
    assert (told["written"], told["existed"], told["stats"]) == (False, True, None)
    told = deltacli("checkpoint", orders, "--yes", "-q", "-o", "json", "--force").json
    assert (told["written"], told["existed"]) == (True, True)
    told = deltacli("widen-type", orders, "--enable", "--yes", "-q", "-o", "json").json
    assert told["dryRun"] is False


def test_conditions_that_are_none_are_told_at_once(deltacli: Cli, orders: Path) -> None:
    for text in ("", "  ", "id = '\udcff'"):
        result = deltacli("head", orders, "--where", text)
        assert (result.code, result.stderr.partition("\n")[0]) == (
            2, "error: --where is no condition",
        )  # fmt: skip


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_times_in_rows_are_of_the_zone_that_is_asked_for(
    deltacli: Cli, local_table: TableBuilder, tmp_path: Path, zone: str
) -> None:
    local_table.commit(
        protocol(), metadata(column("t", "timestamp"), column("f", "float")), add("a")
    )
    place = Path(local_table.store.location.removeprefix("file://"))
    moment = datetime(2026, 3, 2, 16, 25, 55, 1, UTC)
    rows = {"t": [moment], "f": pa.array([0.234], pa.float32())}
    pq.write_table(pa.table(rows), place / "a")
    shown = deltacli("head", place, "--engine", "local", "-o", "table", "--tz", zone).stdout
    expected = "2026-03-02T16:25:55.000001Z"
    assert (expected if zone == "UTC" else "2026-03-03T01:25:55.000001+09:00") in shown
    (row,) = deltacli("head", place, "--engine", "local", "-o", "json", "--tz", zone).json
    assert row == {"t": expected, "f": 0.234}


def test_a_data_file_that_is_damaged_is_no_matter_of_the_storage(
    deltacli: Cli, orders: Path
) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(1000))}), sink)
    content = bytearray(sink.getvalue())
    content[-200:-180] = bytes(20)
    (orders / "p=b").mkdir()
    (orders / "p=b/b.parquet").write_bytes(content)
    result = deltacli("head", orders, "--engine", "local")
    assert result.code == 5
    assert "cannot be read" in result.stderr


def test_a_comment_adds_no_line_of_its_own(deltacli: Cli, local_table: TableBuilder) -> None:
    local_table.commit(protocol(), metadata(column("id", comment="one\nversion  99")))
    shown = deltacli("snapshot", local_table.store.location, "-o", "table").stdout
    assert "one\\nversion  99" in shown
    assert not re.search(r"^version +99", shown, re.MULTILINE)


def test_devices_and_pipes_are_written_as_they_are(orders: Path) -> None:
    command = [sys.executable, "-m", "deltacli", "snapshot", str(orders)]
    done = subprocess.run(
        [*command, "--output-file", "/dev/stdout"], capture_output=True, check=True, text=True
    )
    assert done.stdout.startswith("location\t")


@pytest.mark.parametrize(
    "arguments", [("checkpoint", "--force"), ("widen-type", "--enable", "id", "decimal(20,0)")]
)
@pytest.mark.parametrize("wish", [("--fields", "nope"), ("--output-file", "{root}/no/x.json")])
def test_a_result_that_cannot_be_shown_is_told_before_anything_is_done(
    deltacli: Cli, orders: Path, tmp_path: Path, arguments: tuple[str, ...], wish: tuple[str, ...]
) -> None:
    before = sorted(orders.rglob("*"))
    command, *rest = arguments
    own = (*rest, "--yes", *(one.format(root=tmp_path) for one in wish))
    found = deltacli(command, orders, *own)
    assert found.code in (2, 7)
    assert sorted(orders.rglob("*")) == before


def test_an_error_names_the_table_once(deltacli: Cli, orders: Path) -> None:
    for arguments in (("snapshot", orders, "--at", "99"), ("head", orders, "--at", "99")):
        error = deltacli(*arguments).stderr.splitlines()[0]
        assert error.count(str(orders)) == 1
    # What is wrong is the command line, not the table.
    error = deltacli("snapshot", orders, "--fields", "nope").stderr.splitlines()[0]
    assert error.startswith("error: there is no field 'nope'")
    assert str(orders) not in error
    log = orders / "_delta_log"
    (log / f"{1:020}.json").write_text("{")
    error = deltacli("history", orders, "-o", "table").stderr + deltacli("snapshot", orders).stderr
    assert str(orders) in error


def test_a_table_of_a_relative_name_is_told_as_it_was_written(
    deltacli: Cli, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(orders.parent)
    error = deltacli("snapshot", "./table", "--at", "99").stderr.splitlines()[0]
    assert error == "error: version 99 does not exist: the newest is 2 (./table)"
    error = deltacli("snapshot", "./nope").stderr.splitlines()[0]
    assert error == f"error: not a Delta table: file://{orders.parent}/nope does not exist"


def test_columns_of_zeros_are_shown_and_empty_ones_are_not() -> None:
    rows = [{"zero": 0, "no": None, "none": [], "loss": [{"column": "a", "loss": "its length"}]}]
    names = tuple(rows[0])
    file = io.StringIO()
    people = People(file, zone=UTC, now_ms=0, color=False)
    show_listing(Listing(rows, names, names), None, people)
    title, line = file.getvalue().splitlines()
    assert title.split() == ["zero", "loss"]
    assert line.split() == ["0", "a:", "its", "length"]
