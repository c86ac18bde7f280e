"""Writers of all kinds, vacuum, checkpoints, cleanup, wider types and readers, all at once.

A few seconds each in an ordinary run; RACE_SECONDS=300 takes its time.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest

from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, column, features, metadata, protocol
from tests.conftest import ROOT, Result
from tests.faults.replayed import replayed, rows_of
from tests.peers.process import PeerError
from tests.peers.test_delta_spark import Ask, ask
from tests.sharing.serving import DELTA, Server, one_share, serving, shared

__all__ = ["ask"]

pytestmark = [pytest.mark.peer, pytest.mark.timeout(3600)]

SECONDS = float(os.environ.get("RACE_SECONDS", "12"))
WIDE = [f"c{number}" for number in range(8)]
Line = dict[str, Any]


def made(place: Path, head: Any, **more: str) -> None:
    """An empty table that keeps its log for a few seconds."""
    config = {
        **{f"delta.{key}": value for key, value in more.items()},
        "delta.logRetentionDuration": "interval 5 seconds",
        "delta.enableExpiredLogCleanup": "false",
        "delta.checkpointInterval": "7",
    }
    columns = [column("n"), *(column(name, "integer") for name in WIDE), column("batch")]
    schema = metadata(*columns, partition_by=["batch"], configuration=config)
    TableBuilder(LocalStore(str(place))).commit(head, schema)


class Race:
    """What runs at once, and what it told."""

    def __init__(self, table: Path, seconds: float, retain: int):
        self.table = table
        # What writers are doing now, and what readers were told, is younger.
        self.retain = retain
        self.end = time.monotonic() + seconds
        self.seconds = seconds
        self.lines: list[Line] = []
        self.codes: Counter[tuple[str, int]] = Counter()
        self.told: list[tuple[Sequence[str], str]] = []
        self.reads: list[tuple[int, set[int]]] = []
        self.wide: list[str] = []
        self.history = table.parent / "history"
        self.history.mkdir()
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def spawn(self, action: Callable[[], None]) -> None:
        def whole() -> None:
            try:
                action()
            except BaseException as error:
                self._failures.append(error)

        thread = threading.Thread(target=whole)
        thread.start()
        self._threads.append(thread)

    def again_and_again(self, action: Callable[[], None]) -> None:
        def loop() -> None:
            while self._goes_on():
                action()

        self.spawn(loop)

    def _goes_on(self) -> bool:
        """Until the time is over; on a slow machine until enough has happened."""
        late = time.monotonic() - self.end
        if late < 0:
            return True
        return late < 5 * self.seconds and not (len(self.reads) > 3 and self.deleted_files())

    def wait(self) -> None:
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        self.keep_history()

    def deltalake(self, number: int) -> None:
        """A writer in a process of its own."""
        script = ROOT / "tests/peers/race_writer.py"
        command = [sys.executable, script, self.table, str(number), str(self.seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        self.lines += map(json.loads, done.stdout.splitlines())

    def spark(self, ask: Ask) -> None:
        """A writer by Delta Spark."""
        batch, mine = 5, []
        while self._goes_on():
            batch += 10
            columns = ", ".join(f"{batch % 100} AS {name}" for name in WIDE)
            rows = f"SELECT {batch * 100} + id AS n, {columns}, {batch} AS batch FROM range(10)"
            insert = f"INSERT INTO delta.`{self.table}` (n, {', '.join(WIDE)}, batch) {rows}"
            if self._asked(ask, {"op": "add", "batch": batch}, insert):
                mine.append(batch)
            if len(mine) > 2:
                gone = mine.pop(0)
                delete = f"DELETE FROM delta.`{self.table}` WHERE batch = {gone}"
                self._asked(ask, {"op": "delete", "batch": gone}, delete)

    def _asked(self, ask: Ask, line: Line, statement: str) -> bool:
        try:
            ask("sql", statements=[statement])
        except PeerError as error:
            line["error"] = str(error)
        self.lines.append(line)
        return "error" not in line

    def cli(self, *words: str) -> int:
        """A command of ours in a process of its own; what it ends with is noted."""
        command = [sys.executable, "-m", "deltacli", words[0], str(self.table), *words[1:], "-q"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.codes[words[0], done.returncode] += 1
        if done.returncode:
            self.told.append((words, done.stderr))
        return done.returncode

    def widen(self, *more: str) -> None:
        time.sleep(self.seconds / 12)
        name = WIDE[len(self.wide) % len(WIDE)]
        if name in self.wide:
            return
        if self.cli("widen-type", name, "bigint", "--yes", *more) == 0:
            self.wide.append(name)

    def keep_history(self) -> None:
        """Commits, before a cleanup takes them."""
        for path in sorted((self.table / "_delta_log").glob("0*.json")):
            if len(path.name) == 25 and not (self.history / path.name).exists():
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(path, self.history / f".{path.name}")
                    (self.history / f".{path.name}").rename(self.history / path.name)
        time.sleep(0.02)

    def read(self, server: Server) -> None:
        """The newest version as a recipient reads it, file by file."""
        begun = time.monotonic()
        answer = server.query("raced", headers=DELTA)
        assert answer.status == 200, answer.content
        found: dict[int, list[int]] = {}
        for one in answer.files():
            add = one["deltaSingleAction"]["add"] if "deltaSingleAction" in one else one
            if time.monotonic() - begun > self.retain - 2:
                return  # vacuum does not wait so long for a reader
            with urlopen(add.get("url") or add["path"]) as file:
                rows = pq.read_table(io.BytesIO(file.read()))
            batch = int(add["partitionValues"]["batch"])
            found.setdefault(batch, []).extend(rows.column("n").to_pylist())
        for batch, numbers in found.items():
            assert sorted(numbers) == [batch * 100 + number for number in range(10)]
        self.reads.append((answer.version, set(found)))

    # -- what must hold ----------------------------------------------------------------

    def check(self, deltacli: Callable[..., Result]) -> None:
        versions = self._versions()
        assert len(versions) > 3
        state = replayed(self.table)
        live = {int(one["partitionValues"]["batch"]) for one in state["files"].values()}
        assert live == versions[-1]
        assert rows_of(self.table, state) == 10 * len(live)
        self._check_lines(live)
        assert len(self.reads) > 3
        for version, batches in self.reads:
            assert batches == versions[version], version
        fields = {one["name"]: one["type"] for one in state["metaData"]["schemaString"]["fields"]}
        assert {name: fields[name] for name in self.wide} == dict.fromkeys(self.wide, "long")
        told = deltacli("validate", self.table, "--level", "footers", "-q", "-o", "json")
        assert told.code == 0, told.stdout
        # 6 is a conflict that is told, 8 a deletion that something came in between of.
        assert {code for _, code in self.codes} <= {0, 4, 6, 8}, self.told
        assert self.codes["checkpoint", 0] > 0
        assert self.codes["vacuum", 0] > 0

    def _versions(self) -> list[set[int]]:
        """The batches of each version, from every commit there ever was."""
        paths = sorted(self.history.glob("0*.json"))
        assert [int(one.stem) for one in paths] == list(range(len(paths)))
        live: set[int] = set()
        found = []
        for path in paths:
            for line in path.read_text().splitlines():
                action = json.loads(line)
                for kind in ("add", "remove"):
                    if kind in action and action[kind].get("dataChange", True):
                        batch = int(action[kind]["partitionValues"]["batch"])
                        (live.add if kind == "add" else live.discard)(batch)
            found.append(set(live))
        return found

    def deleted_files(self) -> list[str]:
        """What commits have added and vacuum took."""
        added = [
            action["add"]["path"]
            for path in self.history.glob("0*.json")
            for action in map(json.loads, path.read_text().splitlines())
            if "add" in action
        ]
        return [one for one in added if not (self.table / unquote(one)).exists()]

    def _check_lines(self, live: set[int]) -> None:
        """What writers were told to have done is done; what failed may be either."""
        should: dict[int, bool | None] = {}
        for line in self.lines:
            failed = "error" in line
            should[line["batch"]] = None if failed else line["op"] == "add"
        assert {batch for batch, one in should.items() if one} <= live
        assert not {batch for batch, one in should.items() if one is False} & live
        assert live <= {batch for batch, one in should.items() if one is not False}


@pytest.fixture
def race(request: pytest.FixtureRequest, tmp_path: Path) -> Race:
    # Spark needs some seconds for each commit.
    slow = "spark" in request.node.name
    return Race(tmp_path / "t", *((max(SECONDS, 20), 10) if slow else (SECONDS, 6)))


@contextlib.contextmanager
def readers(race: Race) -> Iterator[None]:
    with serving(one_share(shared("raced", race.table))) as server:

        def read() -> None:
            race.read(server)
            time.sleep(0.2)

        race.again_and_again(read)
        yield
        race.wait()


def maintain(race: Race, pause: float = 0.0) -> None:
    def each(*words: str) -> None:
        race.cli(*words)
        time.sleep(pause)

    race.again_and_again(race.keep_history)
    short = ("--retain", f"{race.retain}s", "--allow-short-retention", "--allow-large")
    race.again_and_again(lambda: each("vacuum", *short, "--yes"))
    race.again_and_again(lambda: each("checkpoint", "--force", "--yes"))
    race.again_and_again(lambda: each("checkpoint", "--cleanup", "--yes"))


def test_maintenance_beside_deltalake(race: Race, deltacli: Callable[..., Result]) -> None:
    if find_spec("deltalake") is None:
        pytest.skip("deltalake is not installed")
    made(race.table, protocol())
    with readers(race):
        for number in range(3):
            race.spawn(lambda number=number: race.deltalake(number))  # type: ignore[misc]
        maintain(race)

        def widen_late() -> None:
            # It does not know the feature, and is locked out from then on.
            time.sleep(0.7 * race.seconds)
            race.widen("--enable")

        race.spawn(widen_late)
    race.check(deltacli)
    assert sum("error" not in line for line in race.lines) > 2
    assert race.deleted_files()


@pytest.mark.xdist_group("delta-spark")
def test_maintenance_beside_delta_spark(
    race: Race, ask: Ask, deltacli: Callable[..., Result]
) -> None:
    made(race.table, features("typeWidening"), enableTypeWidening="true")
    warm = race.table.parent / "warm"
    ask("sql", statements=[f"CREATE TABLE delta.`{warm}` USING delta AS SELECT 1 AS n"])
    race.end = time.monotonic() + race.seconds
    with readers(race):
        race.spawn(lambda: race.spark(ask))
        # It needs most of the machine to commit now and then.
        maintain(race, pause=1.5)
        race.again_and_again(race.widen)
    race.check(deltacli)
    assert sum("error" not in line for line in race.lines) > 2
    assert race.wide
