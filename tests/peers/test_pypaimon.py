"""The real pypaimon reads tables whose schemas we changed and whose versions we deleted."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.paimon.references import ReferenceScan
from deltacli.paimon.table import list_schemas, open_branch
from deltacli.storage.local import LocalStore
from tests.conftest import ROOT, Result
from tests.paimon.recorded import copied, names, needs_recorded
from tests.peers.process import PeerError, peer

pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("pypaimon")]

HOME = Path(os.environ.get("DELTACLI_PAIMON_PEER") or ROOT / ".ci/.paimon")
Ask = Callable[..., Any]
Deltacli = Callable[..., Result]


@pytest.fixture(scope="module")
def pypaimon() -> Iterator[Ask]:
    python = HOME / "bin/python"
    if not python.exists():
        pytest.skip(f"no pypaimon: .ci/paimon/install {HOME} puts one there")
    command = [python, ROOT / "tests/peers/paimon_peer.py"]
    with peer(command, PYTHONPATH="") as ask:

        def do(what: str, warehouse: Path, table: str = "t", **job: Any) -> Any:
            return ask({"do": what, "warehouse": str(warehouse), "table": table, **job})["ok"]

        yield do


def place(warehouse: Path, table: str = "t") -> Path:
    return warehouse / "db.db" / table


@needs_recorded
@pytest.mark.parametrize("name", names("tables"))
def test_rows_of_recorded_tables_stay_the_same(
    name: str, tmp_path: Path, pypaimon: Ask, deltacli: Deltacli
) -> None:
    table = copied(f"tables/{name}/table", place(tmp_path))
    before = pypaimon("rows", tmp_path)
    assert before
    gone = deltacli("paimon", "expire", table, "--older-than", "0s", "--yes", "-o", "json")
    assert gone.code == 0, gone.stderr
    assert pypaimon("rows", tmp_path) == before
    changed = deltacli(
        "paimon", "alter", table, "add column extra STRING first", "set option a = b", "--yes"
    )
    assert changed.code == 0, changed.stderr
    assert pypaimon("rows", tmp_path) == [{**row, "extra": None} for row in before]


@pytest.mark.parametrize("seed", range(4))
def test_a_long_life_keeps_every_row(
    seed: int, tmp_path: Path, pypaimon: Ask, deltacli: Deltacli
) -> None:
    """Writers, changes and expiry take turns; the rows are those of a model, column by column."""
    rng = random.Random(seed)
    keys = ["id"] if seed % 2 else None
    options = {"bucket": "2"} if keys else {"bucket": "-1"}
    columns = [["id", "int64"], ["n", "int32"], ["s", "string"]]
    pypaimon("create", tmp_path, columns=columns, keys=keys, options=options)
    table = place(tmp_path)
    life = _Life(rng)
    for step in range(24):
        if step % 3 == 0:
            rows = life.new_rows()
            pypaimon("write", tmp_path, rows=rows)
        elif step % 3 == 1:
            changed = deltacli("paimon", "alter", table, life.change(), "--yes")
            assert changed.code == 0, changed.stderr
        elif step % 6 == 2:
            pypaimon("alter", tmp_path, change=["set_option", "note", str(step)])
        else:
            gone = deltacli("paimon", "expire", table, "--older-than", "0s", "--yes")
            assert gone.code == 0, gone.stderr
        assert pypaimon("rows", tmp_path) == life.rows()
        assert deltacli("paimon", "validate", table, "--fail-on", "error").code == 0
    branch = open_branch(LocalStore(str(table)))
    needed = ReferenceScan(branch).run().ids
    assert deltacli("paimon", "expire", table, "--older-than", "0s", "--yes").code == 0
    kept = [one.id for one in list_schemas(branch).entries]
    assert kept == sorted({*needed, kept[-1]})
    # Each of those that are left is really needed: without it some row cannot be read.
    for schema_id in kept[:-1]:
        file = table / f"schema/schema-{schema_id}"
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(PeerError):
            pypaimon("rows", tmp_path)
        file.write_bytes(content)


class _Life:
    """What the table holds: the values of each column by their row, whatever its name is."""

    def __init__(self, rng: random.Random):
        self._rng = rng
        self._names = {0: "id", 1: "n", 2: "s"}
        self._numbers = {1}
        self._values: list[dict[int, Any]] = []
        self._next = 3

    def new_rows(self) -> list[dict[str, Any]]:
        made = []
        for _ in range(self._rng.randrange(1, 4)):
            values: dict[int, Any] = {}
            for column in self._names:
                if column == 0:
                    values[column] = len(self._values)
                else:
                    number = self._rng.randrange(1000)
                    values[column] = number if column in self._numbers else f"t{number}"
            self._values.append(values)
            made.append({name: values[column] for column, name in self._names.items()})
        return made

    def change(self) -> str:
        others = [column for column in self._names if column]
        kind = self._rng.choice(["add", "add", "rename", "drop", "widen", "move", "comment"])
        if kind == "drop" and len(others) > 2:
            column = self._rng.choice(others)
            return f"drop column {self._names.pop(column)}"
        if kind == "widen" and 1 in self._names:
            return f"alter type {self._names[1]} BIGINT"
        if kind == "move" and len(others) > 1:
            return f"position {self._names[self._rng.choice(others[1:])]} after id"
        column = self._rng.choice(others)
        if kind == "comment":
            return f"comment {self._names[column]} 'c{self._rng.random()}'"
        if kind == "rename":
            old, new = self._names[column], f"c{self._rng.randrange(10**9)}"
            self._names[column] = new
            return f"rename {old} to {new}"
        self._names[self._next] = f"c{self._next}"
        self._next += 1
        return f"add column {self._names[self._next - 1]} STRING"

    def rows(self) -> list[dict[str, Any]]:
        found = [
            {name: values.get(column) for column, name in self._names.items()}
            for values in self._values
        ]
        return sorted(found, key=lambda row: json.dumps(row, default=str, sort_keys=True))
