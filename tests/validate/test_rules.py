"""Each rule speaks of the table that breaks it, and is silent on that table's sound twin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.checking.model import Level, rule
from deltacli.local.engine import LocalEngine
from deltacli.storage.local import LocalStore
from deltacli.storage.memory import MemoryStore
from deltacli.validate.check import Checked, Means, Request, check_table
from deltacli.validate.registry import BOOK
from tests.validate import twins_files, twins_log
from tests.validate.bench import LATER_MS, TWINS, Log

assert twins_log
assert twins_files

# Rules that no table breaks: they are broken on purpose below.
BY_HAND = {"RUN001", "STO005"}
ON_DISK = {"STO002"}


def no_spark() -> Any:
    raise AssertionError("no rows are looked into here")


def checked(
    log: Log, level: Level, root: Path, spark: Callable[[], Any] = no_spark, *, on_disk: bool = True
) -> Checked:
    store = LocalStore(str(root / "t")) if on_disk else MemoryStore()
    log.write(store)
    means = Means(LocalEngine, spark, LATER_MS)
    return check_table(store, Request(BOOK.chosen(level), level), means)


def told(result: Checked) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in result.tally.found():
        found.setdefault(one.rule.id, []).append(f"{one.finding.message} ({one.finding.path})")
    return found


def compare_twins(rule_id: str, root: Path, spark: Callable[[], Any] = no_spark) -> None:
    twin, level = TWINS[rule_id], BOOK.by_id[rule_id].level
    on_disk = level > Level.FILES or rule_id in ON_DISK
    beside = told(checked(twin.sound, level, root / "sound", spark, on_disk=on_disk))
    assert beside.keys() <= twin.also, beside
    found = told(checked(twin.broken, level, root / "broken", spark, on_disk=on_disk))
    assert rule_id in found, found
    assert found.keys() <= {rule_id, *twin.also}, found


WITHOUT_SPARK = [one.id for one in BOOK.rules if one.id in TWINS and one.level < Level.DATA]


@pytest.mark.parametrize("rule_id", WITHOUT_SPARK)
def test_a_rule_speaks_of_what_breaks_it_and_of_nothing_else(rule_id: str, tmp_path: Path) -> None:
    compare_twins(rule_id, tmp_path)


def test_every_rule_has_its_twins() -> None:
    assert {one.id for one in BOOK.rules} == TWINS.keys() | BY_HAND
    assert all(one.rule not in one.also for one in TWINS.values())


def test_a_rule_that_fails_is_a_finding(tmp_path: Path) -> None:
    from deltacli.validate.commits import Commit

    @rule("XXX001", BOOK.by_id["LOG002"].severity, "Fails", of=Commit)
    def fails(commit: Commit) -> Any:
        """Fails. Why: it must. Fix: none."""
        raise KeyError(commit.version)

    store = MemoryStore()
    TWINS["LOG002"].sound.write(store)
    request = Request([fails, BOOK.by_id["RUN001"], *BOOK.chosen(Level.LOG)])
    found = told(check_table(store, request, Means(LocalEngine, no_spark, LATER_MS)))
    assert found.keys() == {"RUN001"}
    assert "XXX001 could not be decided: KeyError: 0" in found["RUN001"][0]


def test_a_storage_without_put_if_absent_is_told() -> None:
    class Shared(MemoryStore):
        @property
        def creates_exclusively(self) -> bool:
            return False

    store = Shared()
    log = TWINS["DAT001"].sound
    log.write(store)
    request = Request(BOOK.chosen(Level.FILES), Level.FILES)
    found = told(check_table(store, request, Means(LocalEngine, no_spark, LATER_MS)))
    assert found.keys() == {"STO005"}


def test_every_rule_has_a_page() -> None:
    for one in BOOK.rules:
        assert all((one.page.holds, one.page.why, one.page.fix)), one.id
        assert one.page.holds.endswith("."), one.id
        assert len(one.title) <= 60, one.id
    assert len({one.title for one in BOOK.rules}) == len(BOOK.rules)
