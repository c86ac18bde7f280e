"""What people are shown, on terminals of every width."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, column, metadata, protocol
from tests.conftest import ROOT, Result
from tests.terminal import on_terminal

Cli = Callable[..., Result]


@pytest.fixture
def screen(deltacli: Cli, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def shown(width: int, *words: str | Path) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        result = deltacli(*words, "-o", "table", "-q")
        assert result.code == 0, result.stderr
        assert max(map(len, result.stdout.splitlines())) <= width
        return result.stdout

    return shown


@pytest.mark.parametrize("seed", range(30))
def test_every_value_of_a_row_is_shown_whole(
    seed: int, screen: Callable[..., str], tmp_path: Path
) -> None:
    chance = random.Random(seed)
    columns, values = [], {}
    for number in range(chance.randint(1, 6)):
        name = f"{number}{'n' * chance.choice((1, 5, 40, 80))}"
        columns.append(column(name, "string"))
        values[name] = chr(ord("A") + number) * chance.choice((1, 7, 30, 100))
    table = TableBuilder(LocalStore(str(tmp_path)))
    table.commit(protocol(), metadata(*columns), add("a"))
    pq.write_table(pa.Table.from_pylist([values]), tmp_path / "a")
    for width in (30, 40, 79, 80, 200):
        text = screen(width, "head", tmp_path, "--engine", "local")
        for value in values.values():
            assert text.count(value[0]) == len(value), (width, text)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_versions_are_never_cut(width: int, screen: Callable[..., str]) -> None:
    text = screen(width, "paimon", "list", ROOT / "examples/customers")
    found = {int(one) for one in re.findall(r"^(?:id)? *(\d+)\b", text, re.MULTILINE)}
    assert found >= set(range(4)), text


def test_texts_of_partitions_are_no_times(screen: Callable[..., str], tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(tmp_path)))
    schema = column("timestamp", "string"), column("size", "string"), column("v")
    table.commit(protocol(), metadata(*schema, partition_by=["timestamp", "size"]))
    for number, value in enumerate(("3d", "today", "2026-01-01 10:00:00.123456", "-", None)):
        table.commit(add(f"f{number}", partitionValues={"timestamp": value, "size": "2048"}))
    text = screen(140, "snapshot", tmp_path, "--partitions")
    for value in ("3d", "today", "2026-01-01 10:00:00.123456", "-", "null"):
        assert f"timestamp = {value}, size = 2048" in text


def test_a_terminal_gets_what_somebody_may_read(screen: Callable[..., str], tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(tmp_path)))
    table.commit(protocol(), metadata(column("id")), *(add(f"f{one}") for one in range(3000)))
    code, shown = on_terminal("snapshot", str(tmp_path), "--files")
    assert (code, shown.count("100 B")) == (0, 2000)
    assert "only the first 2,000 are shown; -o jsonl shows all" in shown
    assert screen(80, "snapshot", tmp_path, "--files").count("100 B") == 3000
