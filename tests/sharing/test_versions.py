"""A server that follows a table answers as one that has just been started."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from deltacli.cli.app import run
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, column, commit_info, features, metadata, remove, vector
from tests.sharing.serving import DELTA, Server, one_share, serving, shared, table_path


def told(server: Server, body: Any = None) -> list[str]:
    """The files of an answer without what differs from one server to another."""
    found = []
    for file in server.query("t", body, DELTA).files():
        (action,) = file["deltaSingleAction"].values()
        file.pop("expirationTimestamp")
        action.pop("path")
        if action.get("deletionVector", {}).get("storageType") == "p":
            action["deletionVector"].pop("pathOrInlineDv")
        found.append(json.dumps(file, sort_keys=True))
    return sorted(found)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("filtered", [False, True])
def test_a_server_follows_its_table(tmp_path: Path, seed: int, filtered: bool) -> None:
    rng = random.Random(seed)
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    head = metadata(column("id"), column("p", "integer"), partition_by=["p"])
    table.commit(features("deletionVectors"), head)
    live: dict[tuple[str, int | None], dict[str, Any]] = {}
    entry = shared("t", tmp_path / "t", partition_filter="p = 1" if filtered else None)
    names = iter(range(10**6))
    with serving(one_share(entry)) as following:
        for step in range(40):
            actions = [commit_info()]
            for key in rng.sample(sorted(live, key=str), min(len(live), rng.randint(0, 3))):
                known = live.pop(key)
                path = known["path"]
                # Another spelling of the same path.
                spelled = path.replace("%20", "%20" if rng.random() < 0.5 else "\u0020")
                old = {"deletionVector": known["deletionVector"]} if key[1] is not None else {}
                actions.append(remove(spelled, partitionValues=known["partitionValues"], **old))
                if rng.random() < 0.5:
                    offset = next(names)
                    again = {**known, "deletionVector": vector(offset=offset)}
                    live[path, offset] = again
                    actions.append({"add": again})
            for _ in range(rng.randint(0, 4)):
                number, part = next(names), str(rng.randint(0, 2))
                path = f"p={part}/a%20b-{number}.parquet" if number % 3 else f"f{number}"
                body = add(path, number, partitionValues={"p": part})
                live[path, None] = body["add"]
                actions.append(body)
            if rng.random() < 0.1:
                actions.append(head)
            table.commit(*actions)
            if rng.random() < 0.15:
                assert run(["checkpoint", str(tmp_path / "t"), "--yes", "-q"]) == 0
            if rng.random() < 0.3:
                # Only the version is asked for: nobody looks at this one's files.
                assert following.get(f"{table_path('t')}/version").version == step + 1
                continue
            found = told(following)
            shown = [
                one for one in live.values() if not filtered or one["partitionValues"]["p"] == "1"
            ]
            assert len(found) == len(shown)
            if step % 8 == 0:
                with serving(one_share(entry)) as fresh:
                    assert found == told(fresh)
                    assert following.metadata("t", headers=DELTA).content == fresh.metadata(
                        "t", headers=DELTA
                    ).content  # fmt: skip


@pytest.mark.parametrize("cache_bytes", [0, 20_000, 1 << 28])
def test_answers_do_not_depend_on_what_is_kept(tmp_path: Path, cache_bytes: int) -> None:
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    stats = json.dumps({"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": 2}})
    table.start(*(add(f"f{one}.parquet", one, stats=stats) for one in range(3000)))
    assert run(["checkpoint", str(tmp_path / "t"), "--yes", "-q"]) == 0
    table.commit(remove("f7.parquet"), add("g.parquet", stats=stats))
    with serving(one_share(shared("t", tmp_path / "t"), cache_bytes=cache_bytes)) as server:
        files = server.query("t").files()
        assert len(files) == 3000
        assert all(one["stats"] == stats for one in files)
        told_size = server.metadata("t").lines[1]["metaData"]["size"]
        assert told_size == sum(one["size"] for one in files)
        assert len(server.query("t", {"predicateHints": ["id > 2"]}).files()) == 0
        assert len(server.query("t", {"limitHint": 5}).files()) == 5
        assert len(server.query("t", {"maxFiles": 7}).files()) == 7
        table.commit(remove("f8.parquet"))
        assert len(server.query("t").files()) == 2999


def test_statistics_that_are_only_structs_are_told_as_json(tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    own = {
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
    }
    stats = json.dumps({"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 2},
                        "nullCount": {"id": 0}})  # fmt: skip
    table.start(add("a.parquet", stats=stats), configuration=own)
    assert run(["checkpoint", str(tmp_path / "t"), "--yes", "-q"]) == 0
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        (file,) = server.query("t").files()
        assert json.loads(file["stats"]) == json.loads(stats)
        assert server.query("t", {"predicateHints": ["id = 5"]}).files() == []
