"""Commit times, time travel and what history tells (facts 4 and 5.1)."""

from __future__ import annotations

from typing import Any

import pytest

from deltacli.delta.history import (
    InCommitTimes,
    commit_info_of,
    file_times,
    version_at,
)
from deltacli.delta.segment import list_log
from deltacli.errors import CorruptLog, UsageError
from deltacli.operations.history import History, HistoryRange, describe_history
from deltacli.storage.memory import MemoryStore
from tests.builder import NOW_MS, TableBuilder, add, commit_info, lines, metadata, protocol

HOUR_MS = 3_600_000


def history(table: TableBuilder, **bounds: Any) -> History:
    return describe_history(table.store, list_log(table.store), HistoryRange(**bounds))


def versions(found: History) -> list[int]:
    return [row["version"] for row in found.rows]


def timed(table: TableBuilder, *times: int) -> TableBuilder:
    for version, at_ms in enumerate(times):
        head = [protocol(), metadata()] if version == 0 else []
        table.commit(commit_info(timestamp=at_ms), *head, at_ms=at_ms)
    return table


def test_newest_first_and_the_limit_takes_the_newest(table: TableBuilder) -> None:
    timed(table, *range(10, 60, 10))
    assert versions(history(table)) == [4, 3, 2, 1, 0]
    assert versions(history(table, limit=2)) == [4, 3]
    assert versions(history(table, first=1, last=3)) == [3, 2, 1]
    assert versions(history(table, first=1, last=3, limit=1)) == [3]
    assert versions(history(table, limit=99)) == [4, 3, 2, 1, 0]


@pytest.mark.parametrize("bounds", [{"limit": 0}, {"limit": -1}, {"first": 3, "last": 2}])
def test_bounds_that_make_no_sense(bounds: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        HistoryRange(**bounds)


def test_an_operation_is_looked_for_beyond_the_limit(table: TableBuilder) -> None:
    table.start()
    for name in ("MERGE", "WRITE", "WRITE", "MERGE", "WRITE"):
        table.commit(commit_info(name))
    assert versions(history(table, operation="merge", limit=2)) == [4, 1]
    assert versions(history(table, operation="MERGE", limit=1)) == [4]
    assert versions(history(table, operation="nothing")) == []


def test_file_times_rise_strictly(table: TableBuilder) -> None:
    timed(table, 1000, 1000, 500, 2000, 2000)
    assert list(file_times(list_log(table.store)).values()) == [1000, 1001, 1002, 2000, 2001]
    rows = history(table, limit=2).rows
    assert [row["timestampMs"] for row in rows] == [2001, 2000]


def test_commits_with_their_own_time_use_it(table: TableBuilder) -> None:
    table.start(at_ms=NOW_MS)
    table.commit(commit_info(), at_ms=NOW_MS + 5)
    first = commit_info(inCommitTimestamp=NOW_MS + 7)
    table.commit(first, protocol(1, 7, None, ("inCommitTimestamp",)), at_ms=NOW_MS + 100)
    table.commit(commit_info(inCommitTimestamp=NOW_MS + 9), at_ms=NOW_MS + 200)
    rows = history(table).rows
    assert [row["timestampMs"] - NOW_MS for row in rows] == [9, 7, 5, 0]
    sources = [row["timestampSource"] for row in rows]
    assert sources == ["inCommitTimestamp"] * 2 + ["fileModificationTime"] * 2
    # Switched off again: all times are those of the files.
    table.commit(commit_info(), at_ms=NOW_MS + 300)
    assert [row["timestampMs"] - NOW_MS for row in history(table).rows] == [300, 200, 100, 5, 0]


def test_a_time_in_the_commit_counts_only_with_the_feature(table: TableBuilder) -> None:
    """T-1: some writers add it to all tables."""
    table.start(at_ms=NOW_MS)
    table.commit(commit_info(inCommitTimestamp=NOW_MS + 7), at_ms=NOW_MS + 100)
    (row, _) = history(table).rows
    assert (row["timestampMs"], row["timestampSource"]) == (NOW_MS + 100, "fileModificationTime")
    assert row["inCommitTimestamp"] == NOW_MS + 7


def test_every_key_of_commit_info_is_kept(table: TableBuilder) -> None:
    info = {
        "operationParameters": {"a": "1", "b": 2, "c": True, "d": None, "e": [1], "f": {"g": 1}},
        "operationMetrics": {"numFiles": "1", "time": 12345678901234567890.5},
        "userName": "x",
        "clientVersion": "delta-rs.1",
        "version": 77,
        "nested": {"deep": [1, 2]},
        "tags": {"t": "1"},
    }
    table.start()
    table.commit(commit_info(**info))
    row = history(table).rows[0]
    assert row["version"] == 1
    assert row["operationParameters"] == info["operationParameters"]
    assert row["extra"] == {
        "clientVersion": "delta-rs.1",
        "version": 77,
        "nested": {"deep": [1, 2]},
    }
    assert row["tags"] == {"t": "1"}
    assert row["userId"] is None


def test_numbers_stay_as_they_stand() -> None:
    text = b'{"commitInfo":{"operationMetrics":{"x":0.1000000000000000055511151231257827,"y":1e3}}}'
    info = commit_info_of(text)
    assert info is not None
    metrics = info["operationMetrics"]
    assert str(metrics["x"]) == "0.1000000000000000055511151231257827"
    assert metrics["y"] == 1000


def test_commit_info_may_stand_anywhere(table: TableBuilder) -> None:
    table.start()
    table.commit(
        add('x","commitInfo":{"operation":"FAKE"}'), commit_info("REAL"), commit_info("2nd")
    )
    table.commit(add("y"))
    found = history(table)
    assert [row["operation"] for row in found.rows] == [None, "REAL", "CREATE TABLE"]
    assert found.rows[0]["timestampMs"] is not None


def test_an_unreadable_commit_is_a_row_and_a_failure(table: TableBuilder) -> None:
    table.start()
    table.commit_bytes(lines([add("x")])[:-5])
    table.commit(commit_info("WRITE"))
    found = history(table)
    assert versions(found) == [2, 1, 0]
    assert found.rows[1]["error"]
    assert isinstance(found.failure, CorruptLog)
    assert f"{1:020}.json" in found.failure.message


def test_cleaned_history_and_gaps_are_said(table: TableBuilder) -> None:
    timed(table, 10, 20, 30, 40, 50)
    table.checkpoint(2, [protocol(), metadata()])
    table.store.delete(f"_delta_log/{0:020}.json")
    found = history(table)
    assert any("starts at version 1" in note for note in found.notes)
    assert [row["recreatable"] for row in found.rows] == [True, True, True, False]
    table.store.delete(f"_delta_log/{3:020}.json")
    found = history(table)
    assert any("missing before version 4" in warning for warning in found.warnings)
    assert [row["recreatable"] for row in found.rows] == [False, True, False]


def test_a_copied_table_is_noticed(table: TableBuilder) -> None:
    for version in range(4):
        head = [protocol(), metadata()] if version == 0 else []
        table.commit(commit_info(timestamp=NOW_MS - 100 * HOUR_MS), *head, at_ms=NOW_MS + version)
    assert any("copied" in warning for warning in history(table).warnings)
    original = timed(TableBuilder(MemoryStore()), NOW_MS, NOW_MS + 5)
    assert not history(original).warnings


def test_unsupported_features_do_not_stop_history(table: TableBuilder) -> None:
    table.commit(protocol(3, 7, ["fancy"], ["fancy"]), metadata(), commit_info("WRITE"))
    found = history(table)
    assert versions(found) == [0]
    assert any("fancy" in warning for warning in found.warnings)


class Counting(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        return super().read(path)


def test_a_limited_history_reads_no_checkpoint_and_few_commits() -> None:
    table = TableBuilder(Counting())
    timed(table, *range(100))
    table.checkpoint(90, [protocol(), metadata()])
    table.hint(90)
    table.store.reads.clear()
    history(table, limit=3)
    assert len(table.store.reads) <= 5
    assert not any("checkpoint" in path for path in table.store.reads)


def at(table: TableBuilder, stamp: int, since: int | None = None) -> int | None:
    listing = list_log(table.store)
    candidates = [v for v, possible in listing.rebuildable().items() if possible]
    return version_at(stamp, table.store, listing, InCommitTimes(since), candidates)[0]


def test_time_travel_takes_the_newest_version_not_after(table: TableBuilder) -> None:
    timed(table, 1000, 1000, 2000)
    expected = {999: None, 1000: 0, 1001: 1, 1999: 1, 2000: 2, 9999: 2}
    assert {stamp: at(table, stamp) for stamp in expected} == expected


def test_time_travel_over_the_switch_to_in_commit_times(table: TableBuilder) -> None:
    table.start(at_ms=1000)
    table.commit(commit_info(), at_ms=5000)
    table.commit(commit_info(inCommitTimestamp=3000), at_ms=6000)
    table.commit(commit_info(inCommitTimestamp=3500), at_ms=7000)
    # From the first own time on only such commits count; before it only the files' times.
    expected = {999: None, 1000: 0, 2999: 0, 3000: 2, 3499: 2, 3500: 3, 9000: 3}
    assert {stamp: at(table, stamp, since=2) for stamp in expected} == expected
