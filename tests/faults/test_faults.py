"""Every operation of every changing command fails, and dies: the table is sound each time.

An ordinary run takes a sample; FAULTS=all takes every operation in every way.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Result
from tests.faults.injected import CHANGING, injected, run_dying
from tests.faults.kinds import KINDS
from tests.faults.replayed import State, named_alike, replayed, rows_of

Deltacli = Callable[..., Result]

COMMANDS = {
    "widen": ("widen-type", "T", "id", "bigint", "--enable", "--yes"),
    "checkpoint": ("checkpoint", "T", "--force", "--yes", "--engine", "local"),
    "cleanup": ("checkpoint", "T", "--stats", "both", "--cleanup", "--yes", "--engine", "local"),
    "vacuum": ("vacuum", "T", "--yes", "--allow-large", "--engine", "local"),
    "lite": ("vacuum", "T", "--mode", "lite", "--yes", "--allow-large", "--engine", "local"),
    "rewrite": ("widen-type", "T", "--rewrite", "--yes", "--engine", "local"),
    "drop": ("widen-type", "T", "--drop-feature", "--yes", "--engine", "local"),
}
CASES = [
    (command, kind)
    for command in COMMANDS
    for kind in KINDS
    if (command in ("rewrite", "drop")) == (kind == "widened")
    or (kind == "widened" and command in ("checkpoint", "vacuum"))
]
WAYS = (
    ("before", False), ("after", False), ("before", True), ("after", True), ("halfway", True),
)  # fmt: skip


def ways(case: str, names: list[str]) -> Iterator[tuple[int, str, bool]]:
    """Where to fail and how; reads have no middle, and nothing is left by one that dies."""
    whole = os.environ.get("FAULTS") == "all"
    for at, name in enumerate(names):
        changes = name in CHANGING
        for mode, kill in WAYS:
            if not changes and (mode != "before" or kill):
                continue
            chance = zlib.crc32(f"{case} {at} {mode} {kill}".encode()) % 100
            if whole or chance < (35 if changes else 10):
                yield at, mode, kill


def files_of(table: Path) -> set[str]:
    """All but the log's and what a dead process left under hidden names."""
    found = (path.relative_to(table) for path in table.rglob("*") if path.is_file())
    return {str(one) for one in found if one.parts[0] != "_delta_log" and one.suffix != ".tmp"}


class Trial:
    """One command on one kind of table, and what comes of it where nothing fails."""

    def __init__(self, deltacli: Deltacli, command: str, kind: str, folder: Path):
        self.deltacli = deltacli
        self.words = COMMANDS[command]
        self.base = folder / "base"
        KINDS[kind](self.base)
        made = deltacli("checkpoint", self.base, "--at", "1", "--yes", "--engine", "local")
        assert made.code == 0, made.stderr
        if command == "drop":
            assert self.run(self.base, COMMANDS["rewrite"]).code == 0
        self.before = replayed(self.base)
        self.whole = folder / "whole"
        shutil.copytree(self.base, self.whole)
        with injected() as count:
            done = self.run(self.whole)
        # A feature goes in two steps, the second when older versions are gone.
        assert done.code == (8 if command == "drop" else 0), done.stderr
        self.names = count.names
        self.after = replayed(self.whole)
        self.errors = self.errors_of(self.base)

    def run(self, table: Path, words: tuple[str, ...] | None = None) -> Result:
        return self.deltacli(*self.filled(table, words or self.words), "-q")

    def filled(self, table: Path, words: tuple[str, ...]) -> list[str]:
        return [str(table) if one == "T" else one for one in words]

    def errors_of(self, table: Path) -> set[tuple[str, str]]:
        told = self.deltacli(
            "validate", table, "--level", "files", "--fail-on", "never", "-q", "-o", "json"
        )
        assert told.code == 0, told.stderr
        (one,) = told.json["tables"]
        return {
            (found["rule"], found["message"])
            for found in one["findings"]
            if found["severity"] == "error"
        }

    def check(self, table: Path) -> None:
        """Sound, and either as it was or as it should be; and the work can be finished."""
        state = replayed(table)
        assert rows_of(table, state) == rows_of(self.base, self.before)
        assert self.meant(state) in (self.meant(self.before), self.meant(self.after))
        assert self.errors_of(table) <= self.errors
        if self.meant(state) != self.meant(self.after) or self.words[1] != "id":
            again = self.run(table)
            # What was done already may be nothing to do, or no change.
            assert again.code in (0, 8) or self.meant(state) == self.meant(self.after), again.stderr
        last = replayed(table)
        assert self.meant(last) == self.meant(self.after)
        # What a dead rewrite leaves behind is for vacuum.
        assert len(files_of(table)) >= len(files_of(self.whole))
        if "--rewrite" not in self.words:
            assert files_of(table) == files_of(self.whole)

    def meant(self, state: State) -> State:
        """What a command is for: not how often it noted that it was there."""
        return {**named_alike(state), "version": None}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("command", "kind"), CASES)
def test_a_fault_at_any_operation_leaves_a_sound_table(
    command: str, kind: str, tmp_path: Path, deltacli: Deltacli
) -> None:
    trial = Trial(deltacli, command, kind, tmp_path)
    assert len(trial.names) > 10
    met: Counter[bool] = Counter()
    chosen = list(ways(f"{command} {kind}", trial.names))
    for at, mode, kill in chosen:
        table = tmp_path / f"{at}-{mode}-{kill}"
        shutil.copytree(trial.base, table)
        where = (at, trial.names[at], mode, kill)
        if kill:
            # Reads in other threads may come in another order: then it ends by itself.
            code = run_dying([*trial.filled(table, trial.words), "-q"], at, mode)
            assert code in (-9, 0, 7, 8), where
            met[kill] += code == -9
        else:
            with injected(at, mode):
                told = trial.run(table)
            assert told.code in (0, 4, 5, 6, 7, 8), (where, told.stderr)
            assert told.code == 0 or told.stderr.startswith("error: "), (where, told.stderr)
            met[kill] += told.code != 0
            assert not list(table.rglob("*.tmp")), where
        try:
            trial.check(table)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from error
        shutil.rmtree(table)
    assert {kill for *_, kill in chosen} == {kill for kill in met if met[kill]}


PAIMON = {
    "alter": ("paimon", "alter", "T", "add column n INT", "--yes"),
    "expire": ("paimon", "expire", "T", "--older-than", "30d", "--yes"),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", PAIMON)
def test_a_fault_at_any_operation_leaves_sound_schemas(
    command: str, tmp_path: Path, deltacli: Deltacli
) -> None:
    base = tmp_path / "base"
    shutil.copytree(ROOT / "examples/customers", base)
    for path in (base / "schema").iterdir():
        os.utime(path, (0, 0))

    def run(table: Path) -> Result:
        return deltacli(*(table if one == "T" else one for one in PAIMON[command]), "-q")

    def versions(table: Path) -> list[str]:
        return sorted(one.name for one in (table / "schema").iterdir() if one.name[0] != ".")

    whole = tmp_path / "whole"
    shutil.copytree(base, whole)
    with injected() as count:
        assert run(whole).code == 0
    for at, mode, kill in ways(command, count.names):
        table = tmp_path / f"{at}-{mode}-{kill}"
        shutil.copytree(base, table)
        where = (at, count.names[at], mode, kill)
        if kill:
            words = [str(table) if one == "T" else one for one in PAIMON[command]]
            assert run_dying([*words, "-q"], at, mode) in (-9, 0, 7, 8), where
        else:
            with injected(at, mode):
                told = run(table)
            assert told.code in (0, 4, 5, 7, 8), (where, told.stderr)
            assert not list(table.rglob("*.tmp")), where
        assert deltacli("paimon", "validate", table, "--fail-on", "error").code == 0, where
        if versions(table) != versions(whole):
            assert run(table).code == 0, where
        assert versions(table) == versions(whole), where
        shutil.rmtree(table)
