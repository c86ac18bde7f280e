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
                # Names with a space, and names with a percent sign of their own.
                path = f"p={part}/a%20b-{number}" if number % 3 else f"x%253A%2520{number}"
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


def test_a_table_that_was_made_anew_has_only_its_own_files(tmp_path: Path) -> None:
    import shutil

    def make(name: str, versions: int) -> None:
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        table = TableBuilder(LocalStore(str(tmp_path / "t")))
        table.start(add(f"{name}-0"))
        for number in range(1, versions):
            table.commit(add(f"{name}-{number}"))

    with serving(one_share(shared("t", tmp_path / "t"))) as following:
        for name, versions in (("old", 3), ("new", 5), ("newer", 7), ("least", 2)):
            make(name, versions)
            with serving(one_share(shared("t", tmp_path / "t"))) as fresh:
                assert told(following) == told(fresh)
                assert len(told(fresh)) == versions


def test_what_was_given_up_for_room_is_kept_again(tmp_path: Path) -> None:
    for name in "ab":
        table = TableBuilder(LocalStore(str(tmp_path / name)))
        table.start(*(add(f"{one}.parquet") for one in range(500)))
    entries = [shared(name, tmp_path / name) for name in "ab"]
    with serving(one_share(*entries, cache_bytes=60_000)) as server:
        for name in "abab":
            assert len(server.query(name).files()) == 500
            versions = {
                one: server.app.service.find(_caller(server), "share", "schema", one).newest()
                for one in "ab"
            }
            assert versions[name].kept is not None
        assert versions["a"].kept is None


def _caller(server: Server) -> Any:
    return server.app.service.authenticate([f"Bearer {server.token}"])


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
