"""The real delta-sharing client reads from our server, and a checker tries its description."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.peers.process import PeerError, peer
from tests.sharing.serving import Server, one_share, serving, shared
from tests.sharing.shapes import check
from tests.test_golden import GOLDEN, expectations

deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
pa = pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.peer, pytest.mark.xdist_group("sharing")]

HOME = Path(os.environ.get("DELTACLI_SHARING_PEER") or ROOT / ".ci/.sharing")
# What the client's own kernel cannot read at all.
NOT_FOR_PYTHON = {"typeWidening", "typeWidening-preview", "variantType", "variantType-preview",
                  "geospatial", "geospatial-dev", "variantShredding-preview"}  # fmt: skip
Ask = Callable[..., Any]


@pytest.fixture(scope="session")
def client() -> Iterator[Ask]:
    python = HOME / "bin/python"
    if not python.exists():
        pytest.skip(f"no client: .ci/delta-sharing/install {HOME} puts one there")
    with peer([python, ROOT / "tests/peers/sharing_peer.py"], PYTHONPATH="") as ask:

        def do(what: str, profile: Path, table: str = "", **options: Any) -> Any:
            job = {"do": what, "profile": str(profile), "table": f"share.schema.{table}"}
            return ask({**job, "options": options})["found"]

        yield do


def frame(first: int, count: int, note: str | None = "x") -> Any:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "part": pa.array([f"p {one % 3}" if one % 7 else None for one in numbers]),
            "note": pa.array([note if one % 5 else None for one in numbers]),
            "price": pa.array([one / 4 for one in numbers], pa.float64()),
            "day": pa.array([18_000 + one for one in numbers], pa.int32()).cast(pa.date32()),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables by deltalake: `t` with changes of every kind, `wide` with many files."""
    root = tmp_path_factory.mktemp("tables")
    own = {"delta.enableChangeDataFeed": "true"}
    path = str(root / "t")
    deltalake.write_deltalake(path, frame(0, 30), partition_by=["part"], configuration=own)
    deltalake.write_deltalake(path, frame(30, 10), mode="append")
    table = deltalake.DeltaTable(path)
    table.update(predicate="id > 35", updates={"note": "'new'"})
    table.delete("id < 4")
    table.optimize.compact()
    source = frame(38, 4, "merged")
    table.merge(source, "t.id = s.id", "s", "t").when_matched_update_all(
    ).when_not_matched_insert_all().execute()  # fmt: skip
    table.create_checkpoint()
    deltalake.write_deltalake(path, frame(60, 5), mode="append")
    for number in range(12):
        deltalake.write_deltalake(str(root / "wide"), frame(number * 10, 10), mode="append")
    return root


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serving(one_share(shared("t", folder / "t"), shared("wide", folder / "wide"))) as running:
        yield running
        for one in running.spy.seen:
            check(one)


@pytest.fixture(scope="module")
def profile(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return server.profile(tmp_path_factory.mktemp("profile") / "p.share")


def test_the_client_lists_what_is_shared(client: Ask, profile: Path) -> None:
    assert client("list", profile) == ["share.schema.t", "share.schema.wide"]
    assert client("names", profile) == [1, 1, 2]


FORMATS = pytest.mark.parametrize("in_delta", [None, False, True])


@FORMATS
def test_every_version_has_the_rows_that_the_table_has(
    client: Ask, profile: Path, folder: Path, in_delta: bool | None
) -> None:
    newest = client("version", profile, "t")
    assert newest == deltalake.DeltaTable(str(folder / "t")).version()
    for version in (None, *range(newest + 1)):
        asked = {} if version is None else {"version": version}
        rows = client("rows", profile, "t", use_delta_format=in_delta, **asked)
        assert rows == client("direct", profile, "", path=str(folder / "t"), version=version)


@FORMATS
def test_changes_lead_from_each_version_to_the_next(
    client: Ask, profile: Path, in_delta: bool | None
) -> None:
    newest = client("version", profile, "t")
    asked = {} if in_delta is None else {"use_delta_format": in_delta}
    before: Counter[str] = Counter()
    for version in range(newest + 1):
        changes = client(
            "changes", profile, "t", starting_version=version, ending_version=version, **asked
        )
        for text in changes:
            row = json.loads(text)
            kind = row.pop("_change_type")
            assert row.pop("_commit_version") == version
            row.pop("_commit_timestamp")
            sign = 1 if kind in ("insert", "update_postimage") else -1
            before[json.dumps(row, sort_keys=True)] += sign
        rows = Counter(client("rows", profile, "t", version=version))
        assert +before == rows
        assert not -before
    whole = client("changes", profile, "t", starting_version=0, **asked)
    assert len(whole) > sum(before.values())


def test_a_version_by_its_time(client: Ask, profile: Path, folder: Path) -> None:
    history = deltalake.DeltaTable(str(folder / "t")).history()
    from deltacli.units import iso_time

    log = folder / "t/_delta_log"
    for entry in history:
        moment = (log / f"{entry['version']:020}.json").stat().st_mtime_ns // 10**6
        found = client("version", profile, "t", starting_timestamp=iso_time(moment))
        assert found == entry["version"]


@pytest.mark.parametrize("in_delta", [False, True])
def test_hints_and_limits_lose_no_rows(client: Ask, profile: Path, in_delta: bool) -> None:
    hint = {"op": "and", "children": [
        {"op": "greaterThanOrEqual", "children": [
            {"op": "column", "name": "id", "valueType": "long"},
            {"op": "literal", "value": "55", "valueType": "long"}]},
        {"op": "not", "children": [{"op": "isNull", "children": [
            {"op": "column", "name": "note", "valueType": "string"}]}]}]}  # fmt: skip
    every = client("rows", profile, "wide", use_delta_format=in_delta)
    some = client(
        "rows", profile, "wide", use_delta_format=in_delta, jsonPredicateHints=json.dumps(hint)
    )
    wanted = [one for one in every if json.loads(one)["id"] >= 55 and json.loads(one)["note"]]
    assert not Counter(wanted) - Counter(some)
    assert len(some) < len(every)
    for limit in (0, 1, 10, 11, 119, 120, 500):
        found = client("count", profile, "wide", use_delta_format=in_delta, limit=limit)
        assert found == min(limit, 120)


@pytest.mark.parametrize(
    "options", [{"version": 99}, {"timestamp": "2000-01-01T00:00:00Z"}, {"timestamp": "soon"}]
)
def test_what_cannot_be_is_told_at_once(client: Ask, profile: Path, options: Any) -> None:
    with pytest.raises(PeerError, match="400"):
        client("rows", profile, "t", **options)
    with pytest.raises(PeerError, match="404"):
        client("rows", profile, "nobody")


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="tables of other writers are not here")
def test_tables_of_every_kind(client: Ask, tmp_path: Path) -> None:
    """Each sound table has its rows in both formats, or is refused for a reason."""
    sound = {key: one for key, one in expectations().items() if one.get("rows") is not None}
    names = {key: key.replace("/", "__").replace(".", "_") for key in sound}
    entries = [shared(name, GOLDEN / key) for key, name in names.items()]
    wrong = []
    with serving(one_share(*entries)) as server:
        profile = server.profile(tmp_path / "p.share")
        for key, name in names.items():
            for in_delta in (None, True):
                told = server.metadata(name, headers=_EVERYTHING)
                needs = set()
                if told.status == 200:
                    needs = set(
                        told.lines[0]["protocol"]["deltaProtocol"].get("readerFeatures", ())
                    )
                try:
                    found = client("count", profile, name, use_delta_format=in_delta)
                except PeerError as error:
                    found = str(error)
                if told.status != 200 or needs & NOT_FOR_PYTHON:
                    is_right = "400 Client Error" in str(found)
                else:
                    is_right = found == sound[key]["rows"] or any(
                        reason in str(found) for reason in _CLIENTS_OWN
                    )
                if not is_right:
                    wrong.append((key, in_delta, sound[key]["rows"], str(found)[:300]))
        for one in server.spy.seen:
            check(one)
    assert wrong == []


# What fails within the client: void columns, and answers without a file in Delta's format.
_CLIENTS_OWN = ("void", "Must pass schema, or at least one RecordBatch")
_EVERYTHING = {
    "delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors,"
    "columnmapping,timestampntz,varianttype,varianttype-preview,variantshredding,"
    "variantshredding-preview,typewidening,typewidening-preview,geospatial,geospatial-dev"
}


def test_a_checker_finds_nothing_that_the_description_does_not_say(
    server: Server, tmp_path: Path
) -> None:
    checker = HOME / "bin/schemathesis"
    if not checker.exists():
        pytest.skip(f"no checker: .ci/delta-sharing/install {HOME} puts one there")
    done = subprocess.run(
        [checker, "run", f"{server.url}/openapi.json",
         "--header", f"Authorization: Bearer {server.token}",
         "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,"
         "response_headers_conformance,response_schema_conformance",
         "--max-examples", "15", "--seed", "1", "--no-color"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
