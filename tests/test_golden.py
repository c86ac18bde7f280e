"""Every table that other writers made agrees with what is known of it.

The tables lie outside of the project; without them the tests skip.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.columns import texts_of
from deltacli.delta.engine import FileBatch, Want
from deltacli.delta.history import in_commit_times
from deltacli.delta.paths import decode_path
from deltacli.delta.schema import parse_schema, type_tree
from deltacli.delta.segment import list_log
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import DeltaCliError, Refused
from deltacli.local.engine import LocalEngine
from deltacli.operations.describe import describe_snapshot
from deltacli.operations.history import HistoryRange, describe_history
from deltacli.operations.vacuum import VacuumPlan, plan_vacuum
from deltacli.operations.vacuum_apply import apply_vacuum
from deltacli.operations.vacuum_request import VacuumRequest
from deltacli.storage import open_store
from tests.conftest import ROOT

SHARED = Path(os.environ.get("DELTACLI_TEST_TABLES", ROOT.parent / "shared"))
GOLDEN = SHARED / "golden"
NOW_MS = 1_795_000_000_000


@cache
def expectations() -> dict[str, Any]:
    path = SHARED / "golden-expected.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


def names(*classes: str) -> list[Any]:
    found = [name for name, one in expectations().items() if one["class"] in classes]
    skipped = pytest.param("none", marks=pytest.mark.skip(reason=f"no tables in {GOLDEN}"))
    return found or [skipped]


READABLE = names("valid", "valid, log only", "valid, hole in old log", "valid, some files missing")
PUBLISHED = names("catalog-managed")


def load(name: str, version: int | None = None) -> Snapshot:
    return load_snapshot(
        open_store(str(GOLDEN / name)), LocalEngine, version=version, allow_catalog_managed=True
    )


def bodies(snapshot: Snapshot, action: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for item in snapshot.files(action, ("path", "size", "partitionValues", "deletionVector")):
        found += item.columns.to_pylist() if isinstance(item, FileBatch) else [dict(item)]
    return found


def test_all_tables_are_compared() -> None:
    if not expectations():
        pytest.skip(f"no tables in {GOLDEN}")
    paimon = names("paimon")
    compared = READABLE + PUBLISHED + FAILING + LENIENT
    assert len(compared) + len(paimon) == len(expectations())


@pytest.mark.parametrize("name", READABLE + PUBLISHED)
def test_the_newest_state_agrees(name: str) -> None:
    expected = expectations()[name]
    snapshot = load(name)
    totals = snapshot.totals(frozenset(Want), NOW_MS)
    assert snapshot.version == expected["version"]
    assert totals.files == expected["num_files"]
    assert totals.bytes == expected["total_size"]
    adds = bodies(snapshot, "add")
    assert sorted(add["path"] for add in adds) == expected["files"]
    assert sorted(decode_path(add["path"]) for add in adds) == expected["files_decoded"]
    assert len(bodies(snapshot, "remove")) == expected["num_tombstones"]
    if expected["num_records_in_stats"] is not None:
        assert totals.records == expected["num_records_in_stats"]
        assert totals.without_records == 0
    else:
        assert totals.without_records > 0 or totals.files == 0
    if "dv" in expected:
        assert totals.vectors == expected["dv"]["files_with_dv"]
        assert totals.deleted_records == expected["dv"]["deleted_rows"]
    if expected["rows"] is not None and not totals.without_records:
        assert totals.records - totals.deleted_records == expected["rows"]


@pytest.mark.parametrize("name", READABLE + PUBLISHED)
def test_schema_protocol_and_settings_agree(name: str) -> None:
    expected = expectations()[name]
    snapshot = load(name)
    document = describe_snapshot(snapshot, now_ms=NOW_MS).values
    assert document["schema"] == expected["schema"]
    assert document["properties"] == expected["metadata"]["configuration"]
    assert document["partitionColumns"] == expected["partition_columns"]
    for key in ("id", "name", "description"):
        assert document[key] == expected["metadata"][key]
    assert snapshot.metadata.created_time == expected["metadata"]["createdTime"]
    protocol = expected["protocol"]
    assert document["minReaderVersion"] == protocol["minReaderVersion"]
    assert document["minWriterVersion"] == protocol["minWriterVersion"]
    for key in ("readerFeatures", "writerFeatures"):
        assert set(document[key] or ()) == set(protocol.get(key) or ())
    transactions = {app: one["version"] for app, one in document["transactions"].items()}
    raw = {a: v["version"] if isinstance(v, dict) else v for a, v in expected["txns"].items()}
    assert transactions == raw
    live = {
        domain: one
        for domain, one in expected["domain_metadata"].items()
        if not (isinstance(one, dict) and one.get("removed"))
    }
    assert set(document["domains"]) == set(live)
    if "partition_values" in expected:
        by_path = {
            one["path"]: dict(one["partitionValues"] or {}) for one in bodies(snapshot, "add")
        }
        assert by_path == expected["partition_values"]


@pytest.mark.parametrize("name", READABLE + PUBLISHED)
def test_every_loadable_version_agrees(name: str) -> None:
    expected = expectations()[name]
    for version, state in expected["versions"].items():
        snapshot = load(name, int(version))
        totals = snapshot.totals(frozenset({Want.FILES}), NOW_MS)
        assert (totals.files, totals.bytes) == (state["num_files"], state["total_size"]), version
    for version in expected.get("versions_not_loadable", ()):
        with pytest.raises(DeltaCliError) as caught:
            load(name, int(version))
        assert caught.value.exit_code in (3, 5)


@pytest.mark.parametrize("name", READABLE + PUBLISHED)
def test_the_history_agrees(name: str) -> None:
    store = open_store(str(GOLDEN / name))
    found = describe_history(store, list_log(store), HistoryRange(), allow_catalog_managed=True)
    assert found.failure is None
    expected = expectations()[name]["history"]
    assert [row["version"] for row in reversed(found.rows)] == [one["version"] for one in expected]
    for row, one in zip(reversed(found.rows), expected, strict=True):
        assert row["operation"] == one.get("operation")
        assert row["commitInfoTimestamp"] == one.get("timestamp")
        assert row["inCommitTimestamp"] == one.get("inCommitTimestamp")
        loadable = str(row["version"]) in expectations()[name]["versions"]
        assert row["recreatable"] == loadable


@pytest.mark.parametrize("name", READABLE + PUBLISHED)
def test_the_time_of_history_and_snapshot_are_the_same(name: str) -> None:
    snapshot = load(name)
    found = describe_history(
        snapshot.store, snapshot.listing, HistoryRange(), allow_catalog_managed=True
    )
    if not found.rows or found.rows[0]["version"] != snapshot.version:
        pytest.skip("the newest version has no commit file")
    times = in_commit_times(snapshot.metadata.configuration, [])
    assert found.rows[0]["timestampMs"] == snapshot.time.timestamp_ms
    assert (found.rows[0]["timestampSource"] == "inCommitTimestamp") == times.cover(
        snapshot.version
    )


@pytest.mark.parametrize("name", READABLE + PUBLISHED)
def test_schemas_come_back_as_they_were(name: str) -> None:
    text = load(name).metadata.schema_string
    assert text is not None
    assert type_tree(parse_schema(text)) == json.loads(text)


FAILING = names("broken", "unsupported")
LENIENT = names("lenient")
# Words that a clear message must have, for each hint in the expectations.
_WORDS = {
    "no metadata": ("metadata",),
    "no protocol": ("protocol",),
    "missing version / gap in the log": ("missing commit 12", "gap"),
    "unsupported reader feature: catalogOwned": ("unsupported reader feature", "catalogOwned"),
    "unsupported reader version / invalid protocol": ("unsupported reader version",),
    "not a Delta table": ("not a Delta table",),
}
_CODES = {"unsupported": 4, "broken": 5}


@pytest.mark.parametrize("name", FAILING)
def test_a_broken_table_is_refused_with_the_reason(name: str) -> None:
    expected = expectations()[name]
    with pytest.raises(DeltaCliError) as caught:
        load(name)
    for word in _WORDS[expected["expected_error_hint"]]:
        assert word in caught.value.message
    code = 3 if "not a Delta table" in caught.value.message else _CODES[expected["class"]]
    assert caught.value.exit_code == code


@pytest.mark.parametrize("name", LENIENT)
def test_a_table_of_the_first_versions_opens_with_a_warning(name: str) -> None:
    state = expectations()[name]["state_if_read_anyway"]
    snapshot = load(name)
    totals = snapshot.totals(frozenset(Want), NOW_MS)
    assert (snapshot.version, totals.files) == (state["version"], state["num_files"])
    assert any("schemaString" in warning for warning in snapshot.warnings)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_catalog_managed_table_needs_a_flag(name: str) -> None:
    with pytest.raises(DeltaCliError, match="catalog-managed") as caught:
        load_snapshot(open_store(str(GOLDEN / name)), LocalEngine)
    assert caught.value.exit_code == 4
    assert any("catalog" in warning for warning in load(name).warnings)


def test_checksums_of_other_writers_hints_agree() -> None:
    from deltacli.delta.hint import parse_hint

    hints = [path.read_bytes() for path in sorted(GOLDEN.glob("*/*/_delta_log/_last_checkpoint"))]
    with_checksum = [hint for hint in hints if b'"checksum"' in hint]
    if not with_checksum:
        pytest.skip(f"no tables in {GOLDEN}")
    for hint in with_checksum:
        assert parse_hint(hint).version >= 0
    assert len(with_checksum) > 10


UNREFERENCED = [
    name
    for name in READABLE
    if isinstance(name, str) and expectations()[name].get("unreferenced_files") is not None
] or names("none")


# Its newest commit is missing.
NOT_WRITABLE = ("delta-rs/table-with-domain-metadata",)


def plan_of_zero_hours(place: str) -> VacuumPlan:
    request = VacuumRequest(retain_ms=0, allow_short_retention=True, allow_nested=True)
    snapshot = load_snapshot(open_store(place), LocalEngine)
    return plan_vacuum(snapshot, LocalEngine, request, now_ms=time.time_ns() // 1_000_000)


@pytest.mark.parametrize("name", UNREFERENCED)
def test_a_vacuum_of_zero_hours_finds_what_nothing_refers_to(name: str, tmp_path: Path) -> None:
    expected = expectations()[name]
    place = tmp_path / "table"
    shutil.copytree(GOLDEN / name, place, symlinks=True)
    if name in NOT_WRITABLE:
        with pytest.raises(Refused):
            plan_of_zero_hours(str(place))
        return
    plan = plan_of_zero_hours(str(place))
    assert sorted(texts_of(plan.found.names)) == sorted(expected["unreferenced_files"])
    before = load_snapshot(open_store(str(place)), LocalEngine).all_live()
    present = [path for path, _ in before.values() if (place / decode_path(path)).exists()]
    done = apply_vacuum(plan, LocalEngine, now_ms=lambda: 0)
    assert (done.failures, done.num_deleted) == ([], plan.num_files)
    assert load_snapshot(open_store(str(place)), LocalEngine).all_live() == before
    assert [path for path, _ in before.values() if (place / decode_path(path)).exists()] == present
    assert plan_of_zero_hours(str(place)).num_files == 0


# -- validation --------------------------------------------------------------------------

# What is wrong with tables that can be read all the same.
_BROKEN_ALL_THE_SAME = {
    # A commit's own time is before that of the commit before it, and not its checksum's.
    "delta-rs/cdc_ict_table": {"ICT002", "CRC006"},
    # Its last commit is not there.
    "delta-rs/table-with-domain-metadata": {"LOG005"},
    # The checkpoint was written for another table.
    "kernel-rs/parquet_row_group_skipping": {"CKP004"},
}
_FITTING = {
    "delta-golden/data-reader-absolute-paths-escaped-chars": "ACT014",
    "delta-golden/deltalog-state-reconstruction-from-checkpoint-missing-metadata": "CKP003",
    "delta-golden/deltalog-state-reconstruction-without-protocol": "ACT014",
    "delta-rs-err/table_c": "LOG002",
    "kernel-rs-golden/no-delta-log-folder": "LOG001",
}


def errors_of(name: str) -> dict[str, list[str | None]]:
    from deltacli.checking.model import Level, Severity
    from deltacli.validate.check import Means, Request, check_table
    from deltacli.validate.registry import BOOK

    request = Request(BOOK.chosen(Level.FOOTERS), Level.FOOTERS, most=None)
    means = Means(LocalEngine, lambda: None, time.time_ns() // 1_000_000)
    found: dict[str, list[str | None]] = {}
    for one in check_table(open_store(str(GOLDEN / name)), request, means).tally.found():
        if one.rule.severity is Severity.ERROR:
            found.setdefault(one.rule.id, []).append(one.finding.path)
    return found


@pytest.mark.parametrize("name", READABLE)
def test_a_sound_table_has_no_error(name: str) -> None:
    expected = expectations()[name]
    found = errors_of(name)
    missing = {"DAT001", "DVX002"} if expected.get("missing_files") else set()
    assert found.keys() - missing == _BROKEN_ALL_THE_SAME.get(name, set())
    if "DAT001" in found:
        assert set(found["DAT001"]) <= set(expected["files"])


@pytest.mark.parametrize("name", names("broken"))
def test_a_broken_table_has_the_fitting_error(name: str) -> None:
    assert _FITTING[name] in errors_of(name)


@pytest.mark.parametrize("name", names("unsupported", "catalog-managed", "lenient"))
def test_a_table_that_is_not_read_says_why(name: str) -> None:
    assert errors_of(name)
