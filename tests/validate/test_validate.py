"""`deltacli validate` as a command: exit codes, formats, choices, baselines."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.storage.local import LocalStore
from tests.builder import add, commit_info
from tests.conftest import Result
from tests.validate.bench import Log, c, start
from tests.validate.twins_log import REMOVE, A, B

Cli = Callable[..., Result]


def table(root: Path, name: str, *commits: Any) -> Path:
    path = root / name
    Log(list(commits)).write(LocalStore(str(path)))
    return path


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    return table(tmp_path, "sound", start(A), c(B))


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """One error (ACT003), one warning (ACT015) and one remark (JSN009)."""
    odd = add("x", modificationTime=-1, colour="red")
    return table(tmp_path, "broken", start(A), [B], c(odd))


@pytest.fixture(autouse=True)
def not_in_a_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def test_a_sound_table_passes_and_prints_nothing(deltacli: Cli, sound: Path) -> None:
    assert deltacli("validate", sound) == Result(0, "", "")


def test_errors_fail_and_the_document_is_complete(deltacli: Cli, broken: Path) -> None:
    result = deltacli("validate", broken, "-o", "json")
    assert (result.code, result.stderr) == (1, "")
    (one,) = result.json["tables"]
    assert one["location"] == f"file://{broken}"
    assert (one["version"], one["level"]) == (2, "log")
    assert one["rulesRun"] > 150
    assert [found["rule"] for found in one["findings"]] == ["ACT003", "ACT015", "JSN009"]
    assert {key: one["summary"][key] for key in ("error", "warning", "info", "known")} == {
        "error": 1, "warning": 1, "info": 1, "known": 0,
    }  # fmt: skip
    error = one["findings"][0]
    assert error["file"] == "_delta_log/00000000000000000002.json"
    assert (error["line"], error["version"], error["path"]) == (2, 2, "x")
    assert error["severity"] == "error"
    assert error["hint"]


@pytest.mark.parametrize(
    ("fail_on", "ignored", "code"),
    [
        ("error", "", 1),
        ("error", "ACT003", 0),
        ("warning", "ACT003", 1),
        ("warning", "ACT", 0),
        ("info", "ACT", 1),
        ("never", "", 0),
    ],
)
def test_the_least_severity_that_fails(
    deltacli: Cli, broken: Path, fail_on: str, ignored: str, code: int
) -> None:
    more = ["--ignore", ignored] if ignored else []
    assert deltacli("validate", broken, "--fail-on", fail_on, *more).code == code


def test_rules_are_chosen_by_the_longest_beginning(deltacli: Cli, broken: Path) -> None:
    def found(*options: str) -> list[str]:
        rows = deltacli("validate", broken, "-o", "jsonl", *options).rows
        return [row["rule"] for row in rows]

    assert found("--select", "ACT") == ["ACT003", "ACT015"]
    assert found("--select", "act003,JSN") == ["ACT003", "JSN009"]
    assert found("--select", "ACT", "--ignore", "ACT003") == ["ACT015"]
    assert found("--ignore", "ACT", "--select", "ACT003") == ["ACT003"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--select", "NOPE"], "no rule begins with 'NOPE'"),
        (["--select", "DAT001"], "no rule is left at level log"),
        (["--sample", "1/7"], "--sample chooses the files"),
        (["--level", "footers", "--sample", "8/7"], "is no share"),
        (["--explain", "LOG002"], "take no table"),
        (["--fields", "colour"], "there is no field 'colour'"),
        (["--fields", "rule", "-o", "junit"], "--fields has no place in junit"),
        (["--select", ""], "--select names no rule"),
    ],
)
def test_wrong_use_is_told(deltacli: Cli, sound: Path, options: list[str], message: str) -> None:
    result = deltacli("validate", sound, *options)
    assert result.code == 2
    assert message in result.stderr
    assert "hint:" in result.stderr


def test_many_tables_and_patterns_end_with_the_worst_code(
    deltacli: Cli, sound: Path, broken: Path, tmp_path: Path
) -> None:
    (tmp_path / "no_table").mkdir()
    result = deltacli("validate", f"{tmp_path}/*", "-o", "json")
    assert result.code == 1
    assert [Path(one["location"]).name for one in result.json["tables"]] == ["broken", "sound"]
    result = deltacli("validate", sound, tmp_path / "gone", broken, "-o", "json")
    assert result.code == 3
    assert [one["error"] is None for one in result.json["tables"]] == [True, False, True]
    assert "does not exist" in result.stderr


def test_a_folder_without_a_log_is_a_finding(deltacli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("x")
    result = deltacli("validate", tmp_path, "-o", "jsonl")
    assert (result.code, result.rows[0]["rule"]) == (1, "LOG001")


def test_a_baseline_passes_over_what_is_known(deltacli: Cli, broken: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    assert deltacli("validate", broken, "--write-baseline", known).code == 0
    result = deltacli("validate", broken, "--baseline", known, "--fail-on", "info", "-o", "json")
    assert result.code == 0
    assert result.json["tables"][0]["summary"]["known"] == 3
    Log([c(add("y", modificationTime=-5))], first=3).write(LocalStore(str(broken)))
    result = deltacli("validate", broken, "--baseline", known, "-o", "jsonl")
    assert (result.code, [one["path"] for one in result.rows]) == (1, ["y"])


@pytest.mark.parametrize("content", ["{", "{}", '{"deltacliBaseline": 9, "tables": {}}', "[]"])
def test_a_baseline_that_is_none_is_refused(
    deltacli: Cli, sound: Path, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(content)
    result = deltacli("validate", sound, "--baseline", path)
    assert result.code == 2
    assert "is no baseline" in result.stderr


def test_findings_of_a_rule_are_capped_and_all_counted(deltacli: Cli, tmp_path: Path) -> None:
    many = table(tmp_path, "many", start(*[add(f"f{n}", rows=None) for n in range(30)]))
    result = deltacli("validate", many, "-o", "json")
    (one,) = result.json["tables"]
    assert (len(one["findings"]), one["summary"]["byRule"]) == (20, {"STA002": 30})
    assert len(deltacli("validate", many, "--max-findings", "0", "-o", "jsonl").rows) == 30
    assert "and 10 more" in deltacli("validate", many, "-o", "table").stdout


def test_junit_has_a_case_a_rule(deltacli: Cli, sound: Path, broken: Path) -> None:
    result = deltacli("validate", broken, sound, "-o", "junit")
    suites = ET.fromstring(result.stdout).findall("testsuite")
    assert [one.get("failures") for one in suites] == ["1", "0"]
    for suite in suites:
        cases = suite.findall("testcase")
        assert len(cases) == int(suite.get("tests") or 0) > 150
        assert len({case.get("name") for case in cases}) == len(cases)
    failed = suites[0].find("testcase/failure")
    assert failed is not None
    assert "modificationTime is -1" in (failed.text or "")
    beside = [one.get("name") for one in suites[0].findall("testcase") if one.find("system-out")
              is not None]  # fmt: skip
    assert beside == ["JSN009 Every field is known", "ACT015 Commits tell who made them"]


def test_sarif_has_rules_with_help_and_places(
    deltacli: Cli, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(broken.parent)
    document = deltacli("validate", "broken", "-o", "sarif").json
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(one["help"]["markdown"] and one["shortDescription"]["text"] for one in rules)
    results = run["results"]
    assert [one["level"] for one in results] == ["error", "warning", "note"]
    for one in results:
        assert rules[one["ruleIndex"]]["id"] == one["ruleId"]
        assert one["message"]["text"]
        place = one["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"].startswith("broken/_delta_log/0000")
    assert results[0]["locations"][0]["physicalLocation"]["region"] == {"startLine": 2}
    prints = [one["partialFingerprints"]["finding/v1"] for one in results]
    again = deltacli("validate", "broken", "-o", "sarif").json["runs"][0]["results"]
    assert prints == [one["partialFingerprints"]["finding/v1"] for one in again]
    assert len(set(prints)) == 3


def test_a_workflow_of_github_gets_annotations(
    deltacli: Cli, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.chdir(broken.parent)
    lines = deltacli("validate", "broken").stdout.splitlines()
    assert lines[0] == (
        "::error file=broken/_delta_log/00000000000000000002.json,line=2,"
        "title=ACT003 Sizes and times are not negative::add.modificationTime is -1: x"
    )
    assert lines[1].startswith("::warning file=broken/_delta_log/")
    assert lines[2].startswith("::notice ")
    assert deltacli("validate", "broken", "-o", "tsv").stdout.startswith("ACT003\terror\t")


def test_no_text_of_a_table_steers_what_reads_the_findings(deltacli: Cli, tmp_path: Path) -> None:
    evil = "a\n::error::x\x1b[31m]]>&<%0A"
    path = table(tmp_path, "evil", start(add(evil, size=-1), add("[bold]", size=-1)))
    for form in ("table", "tsv", "github", "junit", "sarif"):
        out = deltacli("validate", path, "-o", form).stdout
        assert "\x1b" not in out, form
        if form == "github":
            starts = ("::", str(path), "STA", "file://")
            assert all(line.startswith(starts) for line in out.splitlines())
        if form == "junit":
            ET.fromstring(out)
        if form == "table":
            assert "[bold]" in out


def test_a_rule_is_explained_and_all_are_listed(deltacli: Cli) -> None:
    for words in (("--list-rules",), ("--explain", "LOG001")):
        assert deltacli("validate", *words, "-o", "sarif").code == 2
    page = deltacli("validate", "--explain", "ckp005", "-o", "json").json
    assert (page["rule"], page["severity"], page["level"]) == ("CKP005", "error", "log")
    assert all(page[key] for key in ("holds", "why", "fix", "title"))
    unknown = deltacli("validate", "--explain", "CKP905")
    assert unknown.code == 2
    assert "did you mean" in unknown.stderr
    listed = deltacli("validate", "--list-rules", "-o", "jsonl").rows
    assert len(listed) == len({one["rule"] for one in listed}) > 230
    only = deltacli("validate", "--list-rules", "--select", "LCP", "-o", "jsonl").rows
    assert [one["rule"] for one in only if not one["rule"].startswith("RUN")] == [
        f"LCP00{number}" for number in range(1, 9)
    ]


def test_the_newest_version_need_not_load_for_its_log_to_be_checked(
    deltacli: Cli, tmp_path: Path
) -> None:
    path = table(tmp_path, "cut", start(A), c(REMOVE), b'{"add":{"path":')
    result = deltacli("validate", path, "--level", "footers", "-o", "jsonl")
    assert result.code == 1
    assert [one["rule"] for one in result.rows] == ["JSN001", "ACT015"]
    assert "only its log was checked" in result.stderr


def test_a_sample_looks_into_the_same_files_each_time(deltacli: Cli, tmp_path: Path) -> None:
    files = [add(f"f{number}") for number in range(60)]
    path = table(tmp_path, "t", start(*files))
    for one in files:
        (path / one["add"]["path"]).write_bytes(b"x" * 100)
    options = ("--level", "footers", "--select", "DAT003", "--max-findings", "0", "-o", "jsonl")
    every = {one["path"] for one in deltacli("validate", path, *options).rows}
    assert len(every) == 60
    parts = [
        {one["path"] for one in deltacli("validate", path, *options, "--sample", share).rows}
        for share in ("1/3", "1/3", "2/3")
    ]
    assert parts[0] == parts[1] < parts[2] < every


def test_nothing_is_changed(deltacli: Cli, broken: Path) -> None:
    before = {path: path.read_bytes() for path in broken.rglob("*") if path.is_file()}
    deltacli("validate", broken, "--level", "footers")
    assert {path: path.read_bytes() for path in broken.rglob("*") if path.is_file()} == before


def test_a_large_checkpoint_is_checked_by_two_processes_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltacli.checking.model import Level
    from deltacli.local.engine import LocalEngine
    from deltacli.storage.memory import MemoryStore
    from deltacli.validate import portions
    from deltacli.validate.check import Means, Request, check_table
    from deltacli.validate.registry import BOOK
    from tests.builder import NOW_MS, metadata, parquet_rows, protocol

    files = [add(f"f{n}", rows=None if n % 3 else 9, size=-n) for n in range(5000)]
    content = parquet_rows([protocol(), metadata(), *files], row_group_size=500)
    log = Log([[commit_info()]], {f"{1:020}.checkpoint.parquet": content}, first=1)
    found = []
    for least in (1 << 60, 1):
        monkeypatch.setattr(portions, "_LEAST_BYTES", least)
        monkeypatch.setattr(portions, "pays_off", lambda: True)
        monkeypatch.setattr("deltacli.validate.checkpoint_reading.ROWS", 700)
        store = MemoryStore()
        log.write(store)
        request = Request(BOOK.chosen(Level.LOG))
        result = check_table(store, request, Means(LocalEngine, lambda: None, NOW_MS))
        found.append((result.tally.counts, [one.finding for one in result.tally.found()]))
    assert found[0] == found[1]
    assert found[0][0]["STA002"] == 3333
