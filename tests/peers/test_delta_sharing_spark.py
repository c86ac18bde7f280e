"""The real Delta Sharing connector for Spark reads and streams from our server."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.peers.process import peer
from tests.sharing.living import LivingTable, Row, replayed
from tests.sharing.serving import Server, one_share, serving, shared

SPARK = Path(os.environ.get("DELTACLI_SPARK_PEER", ROOT / ".ci" / ".spark"))
PEER = Path(os.environ.get("DELTACLI_SHARING_SPARK_PEER", ROOT / ".ci" / ".sharing-spark"))
pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("delta-spark"), pytest.mark.timeout(600)]
Ask = Callable[..., Any]
EVERYTHING = ("append", "append", "delete_file", "delete_rows", "update", "compact", "touch")


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    if not (SPARK / "bin/python").exists() or not list(PEER.glob("jars/delta-sharing-*.jar")):
        pytest.skip(f"no connector in {PEER}: .ci/delta-sharing-spark/install may put it there")
    command = [SPARK / "bin/python", ROOT / "tests/peers/spark_peer.py",
               f"{SPARK / 'jars'}:{PEER / 'jars'}"]  # fmt: skip
    with peer(command, says_ready=True) as told:

        def do(op: str, path: str, *, folder: Path | None = None, **options: Any) -> Any:
            job = {"op": op, "path": path, "folder": str(folder), "options": options}
            return [json.loads(line) for line in told(job)]

        yield do


@pytest.fixture
def living(tmp_path: Path) -> Iterator[tuple[LivingTable, Server, str]]:
    made = LivingTable(tmp_path / "t")
    made.append(3)
    with serving(one_share(shared("t", made.folder))) as server:
        yield made, server, f"{server.profile(tmp_path / 'me.share')}#share.schema.t"


def counted(rows: list[dict[str, Any]]) -> Counter[Row]:
    return Counter((row["id"], row["word"]) for row in rows)


def test_the_connector_reads_every_version_and_what_changed(
    living: tuple[LivingTable, Server, str], ask: Ask
) -> None:
    made, server, address = living
    states = {made.version: made.rows}
    while made.version < 15:
        made.live(1, *EVERYTHING)
        states[made.version] = made.rows
    assert counted(ask("read", address)) == made.rows
    for version in (1, 5, 10, 15):
        found = ask("read", address, versionAsOf=str(version), responseFormat="delta")
        assert counted(found) == states[version], version
    changes = {"readChangeFeed": "true", "startingVersion": "0", "responseFormat": "delta"}
    assert replayed(ask("read", address, **changes)) == made.rows
    assert all(one.status < 500 for one in server.spy.seen)


@pytest.mark.parametrize("reads_changes", [False, True])
def test_the_connector_streams_what_comes(
    reads_changes: bool, living: tuple[LivingTable, Server, str], ask: Ask, tmp_path: Path
) -> None:
    """Rows also when it is started again and again, each time with more to read."""
    made, server, address = living
    options = {"startingVersion": "0", "responseFormat": "delta", "maxVersionsPerRpc": "4",
               "readChangeFeed" if reads_changes else "skipChangeCommits": "true"}  # fmt: skip
    rows: list[dict[str, Any]] = []
    # Begun again, it forgets between its own batches that the table records changes.
    for steps in (12,) if reads_changes else (4, 4, 4):
        made.live(steps, *EVERYTHING)
        rows = ask("stream", address, folder=tmp_path, **options)
    if reads_changes:
        assert replayed(rows) == made.rows
    else:
        assert counted(rows) == made.appended
    assert all(one.status < 500 for one in server.spy.seen)


def test_the_connector_reads_plain_tables_as_parquet(ask: Ask, tmp_path: Path) -> None:
    with serving(one_share(shared("orders", ROOT / "examples/orders"))) as server:
        address = f"{server.profile(tmp_path / 'me.share')}#share.schema.orders"
        for answers in ("parquet", "delta"):
            rows = ask("read", address, responseFormat=answers)
            assert len(rows) == 1547
            stream = {"startingVersion": "0", "responseFormat": answers}
            found = ask("stream", address, folder=tmp_path / answers, **stream)
            # What was compacted in this table is made up, and not the same rows.
            assert len(found) == len(rows)
