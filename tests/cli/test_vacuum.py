"""`deltacli vacuum` as its users meet it: a person, cron, a monitoring system."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, remove
from tests.conftest import Result
from tests.places import Place

Deltacli = Callable[..., Result]


def make(place: Path, garbage: int = 2, live_bytes: int = 1000, **settings: Any) -> Path:
    """A table with one live file, one expired tombstone and some garbage, all old."""
    store = LocalStore(str(place))
    table = TableBuilder(store)
    table.start(add("live", size=live_bytes), add("gone"), **settings)
    table.commit(remove("gone", 0))
    store.put("live", b"x" * live_bytes)
    store.put("gone", b"gone")
    for number in range(garbage):
        store.put(f"p=1/g{number}.parquet", b"x" * number)
    for folder, _, names in os.walk(place, topdown=False):
        for one in (*(f"{folder}/{name}" for name in names), folder):
            os.utime(one, (1e9, 1e9))
    return place


def files(place: Path) -> set[str]:
    found = (str(one.relative_to(place)) for one in place.rglob("*") if one.is_file())
    return {name for name in found if not name.startswith("_delta_log")}


def test_a_dry_run_lists_every_file_in_every_format(tmp_path: Path, deltacli: Deltacli) -> None:
    place = make(tmp_path / "t", garbage=1200)
    before = files(place)
    plain = deltacli("vacuum", place, "--dry-run")
    assert (plain.code, plain.stderr) == (0, "note: empty folders that would go too: 1\n")
    rows = [line.split("\t") for line in plain.stdout.splitlines()]
    assert rows[0] == ["gone", "4", "2001-09-09T01:46:40.000Z", "tombstone"]
    assert len(rows) == 1201
    document = deltacli("vacuum", place, "--dry-run", "-o", "json").json
    assert [[str(v) for v in one.values()] for one in document["files"]] == rows
    assert (document["numFiles"], document["dryRun"], document["numDirectories"]) == (1201, True, 1)
    *lines, summary = deltacli("vacuum", place, "--dry-run", "-o", "jsonl").rows
    assert lines == document["files"]
    assert {**summary, "deleteBefore": 0} == {
        key: value for key, value in {**document, "deleteBefore": 0}.items() if key != "files"
    }
    text = deltacli("vacuum", place, "--dry-run", "-o", "csv").stdout
    assert list(csv.reader(io.StringIO(text)))[1:] == rows
    table = deltacli("vacuum", place, "--dry-run", "-o", "table").stdout
    assert table.count("unreferenced") == 1201
    assert table.index("p=1/g1199") < table.index("earliestReadableVersion")
    few = deltacli("vacuum", place, "--dry-run", "--fields", "numFiles,sizeInBytes", "-o", "json")
    assert few.json == {"numFiles": 1201, "sizeInBytes": document["sizeInBytes"]}
    paths = deltacli("vacuum", place, "--dry-run", "--fields", "path").stdout.splitlines()
    assert paths == [row[0] for row in rows]
    assert deltacli("vacuum", place, "--dry-run", "--fields", "path,nope").code == 2
    assert files(place) == before


def test_cron_deletes_and_says_nothing(tmp_path: Path, deltacli: Deltacli) -> None:
    place = make(tmp_path / "t")
    refused = deltacli("vacuum", place)
    assert (refused.code, refused.stdout) == (2, "")
    assert "--yes" in refused.stderr
    assert "--dry-run" in refused.stderr
    assert files(place) == {"live", "gone", "p=1/g0.parquet", "p=1/g1.parquet"}
    assert deltacli("vacuum", place, "--yes", "-q") == Result(0, "", "")
    assert files(place) == {"live"}
    assert not (place / "p=1").exists()
    again = deltacli("vacuum", place, "--yes", "-o", "json").json
    assert (again["numDeleted"], again["startVersion"], again["files"]) == (0, None, [])
    assert deltacli("vacuum", place, "--yes", "-q", "--fields", "numDeleted").stdout != ""


def test_the_result_tells_what_was_done(tmp_path: Path, deltacli: Deltacli) -> None:
    place = make(tmp_path / "t")
    result = deltacli("vacuum", place, "--yes", "-o", "json")
    body = result.json
    assert (body["dryRun"], body["numDeleted"], body["bytesDeleted"]) == (False, 3, 5)
    assert (body["numDirectoriesDeleted"], body["failures"]) == (1, [])
    assert (body["startVersion"], body["endVersion"]) == (2, 3)
    history = deltacli("history", place, "--fields", "operation", "--limit", "2").stdout
    assert history == "VACUUM END\nVACUUM START\n"
    for fmt in ("tsv", "csv", "table", "jsonl"):
        chosen = ("--fields", "path", "-o", fmt)
        text = deltacli("vacuum", make(tmp_path / fmt), "--yes", *chosen).stdout
        assert [name in text for name in ("gone", "g0.parquet", "numDeleted")] == [
            True,
            True,
            False,
        ]
    place = make(tmp_path / "u")
    deltacli("vacuum", place, "--yes", "--no-log-commits")
    assert deltacli("snapshot", place, "--fields", "version").stdout == "version\t1\n"


@pytest.mark.parametrize("live_bytes", [5, 4])
def test_most_of_the_table_takes_its_own_flag(
    tmp_path: Path, deltacli: Deltacli, live_bytes: int
) -> None:
    """VL-8: five bytes would go; half is allowed, more is not."""
    place = make(tmp_path / "t", live_bytes=live_bytes)
    result = deltacli("vacuum", place, "--yes")
    assert result.code == (0 if live_bytes == 5 else 4)
    if result.code:
        assert "--allow-large" in result.stderr
        assert "gone" in files(place)
        assert deltacli("vacuum", place, "--yes", "--allow-large").code == 0
    assert files(place) == {"live"}


def test_a_short_retention_takes_its_own_flag(tmp_path: Path, deltacli: Deltacli) -> None:
    place = make(tmp_path / "t")
    (place / "new").write_bytes(b"x")
    for retain in ("6d", "0h", "1h30m", "0"):
        assert deltacli("vacuum", place, "--dry-run", "--retain", retain).code in (2, 4)
    result = deltacli("vacuum", place, "--dry-run", "--retain", "0h")
    assert result.code == 4
    assert "168 hours" in result.stderr
    assert "--allow-short-retention" in result.stderr
    short = ("--retain", "0h", "--allow-short-retention", "--dry-run")
    result = deltacli("vacuum", place, *short, "--fields", "path")
    assert "new\n" in result.stdout
    assert "warning: " in result.stderr
    for wrong in ("junk", "-1h", "", "7 apples", "1 month"):
        result = deltacli("vacuum", place, "--dry-run", f"--retain={wrong}")
        assert result.code == 2, wrong
        assert "hint: " in result.stderr


def test_several_tables_are_all_tried_and_the_worst_code_counts(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    good, also = make(tmp_path / "good"), make(tmp_path / "also")
    broken = make(tmp_path / "broken")
    (broken / "_delta_log" / f"{1:020}.json").write_text("{")
    missing = tmp_path / "missing"
    result = deltacli("vacuum", good, missing, broken, also, "--yes", "-o", "jsonl")
    assert result.code == 5
    assert files(good) == files(also) == {"live"}
    assert len(files(broken)) == 4
    errors = [json.loads(line) for line in result.stderr.splitlines()]
    assert [one["exitCode"] for one in errors] == [3, 5]
    plans = deltacli("vacuum", broken, good, also, "--dry-run", "-o", "json")
    assert plans.code == 5
    assert [one["location"] for one in plans.json] == [f"file://{good}", f"file://{also}"]
    make(tmp_path / "more")
    lines = deltacli("vacuum", good, tmp_path / "more", "--dry-run").stdout.splitlines()
    assert lines[0].split("\t")[0] == f"file://{tmp_path}/more/gone"
    assert deltacli("vacuum").code == 2
    assert deltacli("vacuum", f"{good}@v0", "--dry-run").code == 2


def test_a_file_that_cannot_be_deleted_ends_in_exit_code_8(
    tmp_path: Path, deltacli: Deltacli, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make(tmp_path / "t")
    real = os.unlink

    def unlink(path: str, **more: Any) -> None:
        if str(path).endswith("gone"):
            raise PermissionError(13, "Permission denied", path)
        real(path, **more)

    monkeypatch.setattr(os, "unlink", unlink)
    metrics = tmp_path / "m.prom"
    result = deltacli("vacuum", place, "--yes", "-o", "json", "--metrics-file", metrics)
    assert result.code == 8
    assert result.json["failures"][0]["path"] == "gone"
    assert result.json["numDeleted"] == 2
    assert json.loads(result.stderr)["error"] == "PartlyDone"
    assert f'deltacli_vacuum_failed_files{{table="file://{place}"}} 1\n' in metrics.read_text()
    assert "last_success" not in metrics.read_text()


def gauges(path: Path) -> dict[str, dict[str, float]]:
    """A Prometheus text, parsed strictly."""
    found: dict[str, dict[str, float]] = {}
    helped: set[str] = set()
    for line in path.read_text().splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split()[2])
        elif line.startswith("# TYPE "):
            assert line.split()[3] == "gauge"
            assert line.split()[2] in helped
        else:
            name, _, rest = line.partition("{table=")
            label, _, value = rest.rpartition("} ")
            assert name in helped
            found.setdefault(name, {})[json.loads(label)] = float(value)
    return found


def test_metrics_are_whole_and_remember_the_last_success(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    place = make(tmp_path / 'a "b"')
    path = tmp_path / "vacuum.prom"
    path.write_text("old")
    path.chmod(0o644)
    location = f"file://{place}"
    deltacli("vacuum", place, "--dry-run", "--metrics-file", path)
    assert "deltacli_vacuum_last_success_timestamp_seconds" not in gauges(path)
    assert gauges(path)["deltacli_vacuum_planned_files"] == {location: 3}
    deltacli("vacuum", place, "--yes", "--metrics-file", path)
    done = gauges(path)
    assert done["deltacli_vacuum_deleted_files"] == {location: 3}
    assert done["deltacli_vacuum_exit_code"] == {location: 0}
    success = done["deltacli_vacuum_last_success_timestamp_seconds"]
    (place / "_delta_log" / f"{9:020}.json").write_text("{")
    assert deltacli("vacuum", place, "--yes", "--metrics-file", path).code == 5
    failed = gauges(path)
    assert failed["deltacli_vacuum_exit_code"] == {location: 5}
    assert failed["deltacli_vacuum_last_success_timestamp_seconds"] == success
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("vacuum")] == [path.name]
    assert deltacli("vacuum", place, "--metrics-file", tmp_path / "no" / "dir").code in (5, 7)


def inventory_of(place: Path, *extra: tuple[str, int, bool, int]) -> pa.Table:
    rows = [
        (f"file://{one}", one.stat().st_size, one.is_dir(), 1_000_000_000_000)
        for one in place.rglob("*")
    ]
    columns = zip(*rows, *extra, strict=True)
    names = ("path", "length", "isDir", "modificationTime")
    return pa.table(dict(zip(names, map(list, columns), strict=True)))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_an_inventory_file_replaces_the_listing(
    tmp_path: Path, deltacli: Deltacli, kind: str
) -> None:
    place = make(tmp_path / "t")
    listing = inventory_of(place)
    path = tmp_path / f"inventory.{kind}"
    if kind == "csv":
        pa.csv.write_csv(listing, path)
    else:
        pa.parquet.write_table(listing, path)
    result = deltacli("vacuum", place, "--inventory", path, "--dry-run", "-o", "json")
    listed = deltacli("vacuum", place, "--dry-run", "-o", "json")
    assert result.json["files"] == listed.json["files"]
    assert result.json["mode"] == "inventory"


def test_an_inventory_may_be_url_encoded(tmp_path: Path, deltacli: Deltacli) -> None:
    """V-52."""
    place = make(tmp_path / "t", garbage=0)
    path = tmp_path / "i.csv"
    head = "path,length,isDir,modificationTime,extra\n"
    path.write_text(f"{head}file://{place}/a+b%20c,1,false,1000000000000,x\n")
    for encoding, name in (("none", "a+b%20c"), ("url", "a b c")):
        (place / name).touch()
        os.utime(place / name, (1e9, 1e9))
        result = deltacli(
            "vacuum", place, "--inventory", path, "--dry-run", "--inventory-encoding", encoding,
            "--fields", "path",
        )  # fmt: skip
        assert result.stdout == f"{name}\n"
    assert deltacli("vacuum", place, "--dry-run", "--inventory-encoding", "url").code == 2


@pytest.mark.parametrize(
    "content",
    [
        "", "hi\n", "file:///x/junk.txt,0,false,1700000000000\n", "path,length\n",
        "path,length,isDir\nfile:///x,1,false\n", "path,length,isDir,modificationTime\n",
        "path,length,isDir,modificationTime\nfile:///elsewhere,1,false,1000000000000\n",
        "path,length,isDir,modificationTime\nfile://T/gone,1,false,1000000000\n",
        "path,length,isDir,modificationTime\nfile://T/a,one,false,5\n",
        "path,length,isDir,modificationTime\nfile://T/a,1,false,\n",
        "path,length,isDir,modificationTime\nfile://T/a,1,maybe,5\n",
        "path,length,isDir,modificationTime\n,1,false,5\n",
        "path,length,isDir,modificationTime\nfile://T/a,1\n",
    ],
)  # fmt: skip
def test_a_broken_inventory_is_a_clear_error(
    tmp_path: Path, deltacli: Deltacli, content: str
) -> None:
    """V-50, V-51."""
    place = make(tmp_path / "t")
    path = tmp_path / "i.csv"
    path.write_text(content.replace("T", str(place)))
    result = deltacli("vacuum", place, "--inventory", path, "--yes")
    assert result.code == 2
    assert result.stderr.startswith("error: ")
    assert "hint: " in result.stderr
    assert len(files(place)) == 4
    assert deltacli("vacuum", place, "--inventory", tmp_path / "none.csv", "--yes").code == 3


def test_one_file_is_explained(tmp_path: Path, deltacli: Deltacli) -> None:
    place = make(tmp_path / "t")
    verdict = deltacli("vacuum", place, "--explain", "live", "-o", "json").json
    assert (verdict["decision"], verdict["rule"], verdict["path"]) == ("kept", "live", "live")
    assert deltacli("vacuum", place, "--explain", "nope").code == 3
    assert deltacli("vacuum", place, "--explain", "/etc/passwd").code == 2
    assert deltacli("vacuum", place, place, "--explain", "live").code == 2
    assert deltacli("vacuum", place, "--explain", "live", "--mode", "lite").code == 2


def test_vacuum_on_an_object_store(s3: Place, tmp_path: Path, deltacli: Deltacli) -> None:
    store = s3.store("vacuumed")
    TableBuilder(store).start(add("p=a%20b/live"), add("s3a://tables/vacuumed/abs"))
    for name in ("p=a b/live", "p=a b/garbage", "p=a%20b/live", "abs", "x"):
        store.put(name, b"x")
    table, options = store.location, s3.flags
    short = ("--retain", "0h", "--allow-short-retention", "--allow-large")
    kept = deltacli("vacuum", table, *options, "--dry-run", "-o", "json")
    assert (kept.code, kept.json["numFiles"], kept.json["numSpared"]) == (0, 0, 3)
    import time

    time.sleep(1.1)  # the server tells times in whole seconds
    done = deltacli("vacuum", table, *options, *short, "--yes", "-o", "json")
    assert done.code == 0, done.stderr
    assert [one["path"] for one in done.json["files"]] == ["p=a b/garbage", "p=a%20b/live", "x"]
    assert (done.json["numDeleted"], done.json["startVersion"]) == (3, 1)
    assert store.look("p=a b/live") is not None
    assert store.look("abs") is not None
    assert store.look("x") is None


def test_what_is_wrong_with_the_output_is_said_before_anything_is_deleted(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    place = make(tmp_path / "t")
    before = files(place)
    nowhere = tmp_path / "no" / "x"
    for code, *arguments in (
        (2, "--fields", "nope"),
        (2, "--fields", "path,numFiles"),
        (7, "--output-file", nowhere),
        (7, "--metrics-file", nowhere),
        (7, "--metrics-file", tmp_path),
    ):
        result = deltacli("vacuum", place, "--yes", *arguments)
        assert (result.code, result.stdout) == (code, ""), arguments
        assert "hint: " in result.stderr
        assert files(place) == before


def test_the_shape_of_the_output_goes_by_the_tables_asked_for(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    place = make(tmp_path / "t")
    result = deltacli("vacuum", place, tmp_path / "missing", "--dry-run", "-o", "json")
    assert result.code == 3
    assert [one["location"] for one in result.json] == [f"file://{place}"]
    also = make(tmp_path / "u")
    lines = deltacli("vacuum", place, also, "--dry-run", "-o", "csv").stdout.splitlines()
    assert lines[0] == "path,sizeInBytes,modificationTime,reason,location"
    assert len(lines) == 1 + 3 + 3
    assert len(deltacli("vacuum", place, also, "--yes", "-o", "csv").stdout.splitlines()) == 3


def test_odd_requests_are_refused(tmp_path: Path, deltacli: Deltacli) -> None:
    place = make(tmp_path / "t")
    (tmp_path / "pipe").write_text("")
    os.mkfifo(tmp_path / "fifo")
    head = tmp_path / "i.csv"
    head.write_text("path,path,length,isDir,modificationTime\na,b,1,false,1000000000000\n")
    for arguments in (
        ("--prefix", "", "--dry-run"),
        ("--metrics-file", tmp_path / "fifo", "--dry-run"),
        ("--inventory", head, "--dry-run"),
        ("--explain", "p=1"),
        ("--explain", "live", "--yes"),
    ):
        result = deltacli("vacuum", place, *arguments)
        assert (result.code, result.stdout) == (2, ""), arguments
    assert deltacli("vacuum", f"{place}@v0", "--explain", "live").code == 2
    assert deltacli("vacuum", "a", "b", "--dry-run", "-o", "json").json == []
    several = deltacli("vacuum", place, "nowhere", "--dry-run", "-q").stderr
    assert "nowhere does not exist" in several


def test_names_of_files_do_not_forge_lines(tmp_path: Path, deltacli: Deltacli) -> None:
    place = make(tmp_path / "t", garbage=0)
    store = LocalStore(str(place))
    evil = "x\n/etc/passwd\t1\u202e\x9b\x7f"
    store.put(evil, b"")
    os.utime(place / evil, (1e9, 1e9))
    for fmt in ("tsv", "table"):
        text = deltacli("vacuum", place, "--dry-run", "-o", fmt).stdout
        assert all(one.isprintable() for line in text.split("\n") for one in line.replace("\t", ""))
        assert not any(line.startswith("/etc") for line in text.splitlines())
