"""The commands of a recipient, against a server of ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from deltacli.sharing.server.config import Config, SchemaEntry, ShareEntry
from tests.conftest import ROOT, Result
from tests.rows import multiset
from tests.sharing import scripted as scripts
from tests.sharing.living import LivingTable, replayed
from tests.sharing.serving import Server, one_share, serving, shared
from tests.sharing.test_client_tables import downloaded

pytestmark = pytest.mark.xdist_group("sharing_client")
Deltacli = Callable[..., Result]
ORDERS = ROOT / "examples/orders"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    orders = shared("orders", ORDERS)
    here = ShareEntry("sales.eu", None, (SchemaEntry("main", (orders,)), SchemaEntry("old", ())))
    secret = shared("secret", ORDERS, history_shared=False)
    other = ShareEntry("other", "id-1", (SchemaEntry("main", (secret,)),))
    with serving(Config(shares=(here, other), page_size=2)) as running:
        yield running


@pytest.fixture
def share(server: Server, deltacli: Deltacli, tmp_path: Path) -> Deltacli:
    profile = server.profile(tmp_path / "me.share")
    profile.chmod(0o600)

    def invoke(command: str, *arguments: Any) -> Result:
        return deltacli("share", command, *map(str, arguments), "--profile", profile)

    return invoke


ADDRESS = "sales.eu.main.orders"


def test_what_is_shared_is_listed(share: Deltacli) -> None:
    assert [one["name"] for one in share("shares", "-o", "json").json] == ["other", "sales.eu"]
    assert [one["name"] for one in share("schemas", "sales.eu", "-o", "json").json] == [
        "main",
        "old",
    ]
    tables = share("tables", "-o", "json").json
    assert [(one["share"], one["schema"], one["name"]) for one in tables] == [
        ("other", "main", "secret"),
        ("sales.eu", "main", "orders"),
    ]
    assert share("tables", "sales.eu", "--schema", "old", "-o", "json").json == []
    assert share("tables", "nope").code == 3
    assert share("tables", "--schema", "main").code == 2


def test_a_version_is_told_now_and_at_a_time(share: Deltacli) -> None:
    assert share("version", ADDRESS, "-o", "json").json == {"table": ADDRESS, "version": 11}
    since = share("version", ADDRESS, "--from", "2026-03-08", "-o", "json").json
    assert since["version"] == 6
    assert share("version", ADDRESS, "--from", "2030-01-01").code == 4
    assert share("version", "other.main.secret", "--from", "2026-03-08").code == 4


def test_metadata_is_that_of_the_table(share: Deltacli, deltacli: Deltacli) -> None:
    own = deltacli("snapshot", ORDERS, "-o", "json").json
    told = share("metadata", ADDRESS, "-o", "json").json
    for name in ("version", "id", "partitionColumns", "numFiles", "sizeInBytes", "schema"):
        assert told[name] == own[name], name
    assert told["responseFormat"] == "parquet"
    assert share("metadata", ADDRESS, "--format", "delta", "-o", "json").json[
        "responseFormat"
    ] == "delta"  # fmt: skip
    assert share("metadata", ADDRESS, "--at", "3", "-o", "json").json["version"] == 3
    assert share("metadata", ADDRESS, "--at", "2026-03-09", "-o", "json").json["version"] == 6


@pytest.mark.parametrize("answers", ["auto", "parquet", "delta"])
@pytest.mark.parametrize("pages", [(), ("--page-size", "1")])
def test_files_are_those_of_the_table(
    answers: str, pages: tuple[str, ...], share: Deltacli, deltacli: Deltacli
) -> None:
    own = deltacli("snapshot", ORDERS, "--files", "-o", "jsonl").rows
    rows = share("files", ADDRESS, "--format", answers, *pages, "-o", "jsonl").rows
    fields = ("partitionValues", "size", "numRecords", "stats")
    pick = lambda found: sorted(json.dumps([one[name] for name in fields]) for one in found)  # noqa: E731
    assert pick(rows) == pick(own)
    assert all(one["url"].startswith("http://") and one["expiresAt"] for one in rows)


def test_files_of_older_versions_and_ranges(share: Deltacli, deltacli: Deltacli) -> None:
    assert len(share("files", ADDRESS, "--at", "6", "-o", "json").json) == 16
    added = share("files", ADDRESS, "--from", "3", "--to", "4", "-o", "json").json
    assert {one["version"] for one in added} == {3, 4}
    assert {one["action"] for one in added} == {"add"}
    for wrong in (["--to", "3"], ["--from", "4", "--to", "3"], ["--from", "3", "--at", "3"],
                  ["--from", "3", "--where", "order_id = 1"], ["--from", "3", "--limit", "1"],
                  ["--where", "a = 1", "--json-hint", "{}"], ["--json-hint", "{}"],
                  ["--where", "year(ordered_at) = 2026"],
                  ["--where", "order_id = 'x'"],
                  ["--where", "country = 'DE'", "--limit", "3"]):  # fmt: skip
        assert share("files", ADDRESS, *wrong).code == 2, wrong
    assert share("files", ADDRESS, "--where", "nope = 1").code == 3
    assert share("files", "other.main.secret", "--at", "3").code == 4


def test_a_condition_leaves_files_out_at_the_server_and_here(
    share: Deltacli, server: Server
) -> None:
    server.spy.seen.clear()
    found = share("files", ADDRESS, "--where", "country = 'DE' and amount > 860", "-o", "json").json
    assert {one["partitionValues"]["country"] for one in found} == {"DE"}
    asked = json.loads(server.spy.seen[-1].asked)
    assert json.loads(asked["jsonPredicateHints"])["children"][0]["name"] == "country"
    hint = share("files", ADDRESS, "--json-hint", asked["jsonPredicateHints"], "-o", "json").json
    assert {one["partitionValues"]["country"] for one in hint} == {"DE"}
    share("files", ADDRESS, "--sql-hint", "country = 'PL'", "--limit", "3")
    assert json.loads(server.spy.seen[-1].asked)["predicateHints"] == ["country = 'PL'"]
    assert len(share("files", ADDRESS, "--limit", "1", "-o", "json").json) == 1
    assert share("files", ADDRESS, "--limit", "0", "-o", "json").json == []


def test_rows_are_those_of_the_table(share: Deltacli, deltacli: Deltacli, server: Server) -> None:
    for more in ([], ["--where", "country = 'DE' and amount > 860"], ["--columns", "amount"],
                 ["--at", "6"], ["--where", "order_id in (1, 2)", "--columns", "COUNTRY,order_id"],
                 ["--where", "country is null or not (amount <> 5)"]):  # fmt: skip
        own = deltacli("head", ORDERS, "-n", "5000", *more, "-o", "jsonl").rows
        rows = share("head", ADDRESS, "-n", "5000", *more, "-o", "jsonl").rows
        assert multiset(rows) == multiset(own), more
    server.spy.seen.clear()
    assert len(share("head", ADDRESS, "-n", "2", "-o", "jsonl").rows) == 2
    queries = [one for one in server.spy.seen if one.method == "POST"]
    assert json.loads(queries[0].asked)["limitHint"] == 2
    assert share("head", ADDRESS, "-n", "0").stdout == ""
    assert share("head", ADDRESS, "--columns", "nope").code == 3
    assert share("head", "sales.eu.main.nope").code == 3
    assert share("head", ADDRESS, "--at", "99").code == 3


@pytest.fixture
def living(tmp_path: Path, deltacli: Deltacli) -> Iterator[tuple[LivingTable, Deltacli]]:
    """A table with deletion vectors and changes, and `share` with its address."""
    made = LivingTable(tmp_path / "living")
    made.random.seed(3)
    made.live(25, "append", "append", "delete_rows", "update", "compact", "delete_file")
    with serving(one_share(shared("t", made.folder))) as server:
        profile = server.profile(tmp_path / "profile")
        profile.chmod(0o600)

        def invoke(command: str, *arguments: Any) -> Result:
            return deltacli("share", command, f"{profile}#share.schema.t", *map(str, arguments))

        yield made, invoke


def test_changes_are_those_of_the_table(living: tuple[LivingTable, Deltacli]) -> None:
    made, share = living
    rows = share("changes", "--from", "0", "--rows", "-o", "jsonl").rows
    assert replayed(rows) == made.rows
    assert all(one["_commit_timestamp"].endswith("Z") for one in rows)
    paged = share("changes", "--from", "0", "--rows", "--page-size", "2", "-o", "jsonl").rows
    assert multiset(paged) == multiset(rows)
    part = share("changes", "--from", "3", "--to", "5", "--rows", "-o", "jsonl").rows
    expected = [one for one in rows if 3 <= one["_commit_version"] <= 5]
    assert multiset(part) == multiset(expected)
    files = share("changes", "--from", "yesterday", "-o", "jsonl").rows
    assert {one["action"] for one in files} <= {"add", "remove", "cdc"}
    assert share("changes", "--from", "999").code == 4
    assert share("changes", "--from", "5", "--to", "3").code == 4


def test_a_downloaded_table_is_a_sound_table(
    living: tuple[LivingTable, Deltacli], deltacli: Deltacli, tmp_path: Path
) -> None:
    made, share = living
    for kind in ("delta", "parquet"):
        where = f"file://{tmp_path / kind}"
        target = where if kind == "delta" else tmp_path / kind
        done = share("download", target, "--as", kind, "-o", "json").json
        assert done["location"] == where
        assert done["version"] == made.version
        assert done["numRecords"] == sum(made.rows.values())
        rows = downloaded(tmp_path / kind, kind)
        assert sorted((one["id"], one["word"]) for one in rows) == sorted(made.rows.elements())
    found = deltacli("validate", tmp_path / "delta", "--level", "footers", "-o", "json")
    assert found.code == 0
    assert {one["severity"] for one in found.json["tables"][0]["findings"]} <= {"info"}
    least = min(number for number, _ in made.rows)
    some = ["--as", "parquet", "--where", f"id = {least}", "--columns", "id"]
    assert share("download", tmp_path / "some", *some).code == 0
    assert downloaded(tmp_path / "some", "parquet") == [{"id": least}]


def test_a_downloaded_table_needs_what_it_has_and_no_more(
    tmp_path: Path, deltacli: Deltacli
) -> None:
    """Whatever a server tells of the provider's own log."""
    metadata = scripts.METADATA["metaData"]
    ntz = {"name": "n", "type": "timestamp_ntz", "nullable": True, "metadata": {}}
    schema = {"type": "struct", "fields": [*json.loads(metadata["schemaString"])["fields"], ntz]}
    told = {
        **metadata,
        "schemaString": json.dumps(schema),
        "configuration": {
            "delta.enableInCommitTimestamps": "true",
            "delta.enableRowTracking": "true",
            "delta.checkpointPolicy": "v2",
            "delta.minWriterVersion": "7",
        },
    }
    names = ["inCommitTimestamp", "rowTracking", "v2Checkpoint", "domainMetadata", "timestampNtz"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": names,
                "readerFeatures": ["v2Checkpoint", "timestampNtz"]}  # fmt: skip
    for form in ("delta", "parquet"):
        head = [{"protocol": {"deltaProtocol": protocol}}, {"metaData": {"deltaMetadata": told}}]
        if form == "parquet":
            head = [scripts.PROTOCOL, {"metaData": told}]
        header = {**scripts.NDJSON, "Delta-Table-Version": "3"}
        with scripts.scripted(lambda _: scripts.Say(200, scripts.lines(*head), header)) as server:  # noqa: B023
            profile = tmp_path / "me.share"
            profile.write_text(json.dumps({"shareCredentialsVersion": 1, "endpoint": server.url,
                                           "bearerToken": "t"}))  # fmt: skip
            target = tmp_path / form
            assert deltacli("share", "download", f"{profile}#a.b.c", target).code == 0
        found = deltacli("validate", target, "-o", "json")
        assert found.code == 0, found.stdout
        body = deltacli("snapshot", target, "-o", "json").json
        assert body["readerFeatures"] == ["timestampNtz"]


def test_no_rows_are_a_file_with_a_schema(share: Deltacli, tmp_path: Path) -> None:
    target = tmp_path / "none"
    assert (
        share("download", ADDRESS, target, "--as", "parquet", "--where", "order_id < 0").code == 0
    )
    (file,) = target.iterdir()
    assert pq.read_table(file).column_names == ["order_id", "ordered_at", "amount", "country"]


def test_nothing_is_downloaded_by_halves(
    living: tuple[LivingTable, Deltacli], tmp_path: Path
) -> None:
    made, share = living
    next(made.folder.glob("deletion_vector_*")).unlink()
    for name in made.files:
        os.truncate(made.folder / name, made.files[name].size - 1)
    before = sorted(tmp_path.iterdir())
    for kind in ("delta", "parquet"):
        result = share("download", tmp_path / "new", "--as", kind)
        assert result.code in (5, 7), result.stderr
    assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "there").mkdir()
    assert share("download", tmp_path / "there").code == 2
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    assert share("download", tmp_path / "link").code == 2
    assert share("download", tmp_path / "no" / "where").code == 7
    assert share("download", tmp_path / "new", "--columns", "id").code == 2
    assert share("download", "").code == 2
    for code, where in (
        (2, "length(word) > 1"), (3, "nope = 1"), (2, "id = 'x'"), (2, "id ="),
    ):  # fmt: skip
        told = share("download", tmp_path / "new", "--as", "parquet", "--where", where)
        assert told.code == code, where


def test_ids_of_a_hostile_server_are_no_paths(tmp_path: Path, deltacli: Deltacli) -> None:
    import io

    import pyarrow as pa

    from tests.sharing.scripted import Asked, Say, file_line, scripted, told

    sink = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), sink)
    data = sink.getvalue()
    ids = ["../../evil", "/etc/evil", "a/b", "..", ".", "_hidden", "x" * 5000, "é", "a%2Fb", "a\nb"]
    url = [""]

    def script(asked: Asked) -> Say:
        if asked.method == "GET":
            return Say(200, data)
        return told(*(file_line(f"{url[0]}/f", len(data), one) for one in ids))

    with scripted(script) as server:
        url[0] = server.url
        profile = tmp_path / "me.share"
        profile.write_text(json.dumps({"shareCredentialsVersion": 1, "endpoint": server.url,
                                       "bearerToken": "t"}))  # fmt: skip
        target = tmp_path / "deep" / "in"
        target.parent.mkdir()
        result = deltacli("share", "download", f"{profile}#a.b.c", target, "-q")
    assert result.code == 0, result.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["deep", "me.share"]
    assert [one.name for one in target.parent.iterdir()] == ["in"]
    assert len(downloaded(target, "delta")) == len(ids)


def test_a_download_that_is_interrupted_leaves_nothing(
    living: tuple[LivingTable, Deltacli], tmp_path: Path
) -> None:
    """Where it cannot clean up, what it leaves is no table."""
    made, _ = living
    made.append(30)
    with serving(one_share(shared("t", made.folder))) as server:
        address = f"{server.profile(tmp_path / 'again')}#share.schema.t"
        for chosen in (signal.SIGINT, signal.SIGKILL):
            target = tmp_path / f"new{chosen}"
            process = subprocess.Popen(
                [sys.executable, "-m", "deltacli", "share", "download", address, target, "-q"],
                cwd=ROOT,
            )
            end = time.monotonic() + 20
            while not list(tmp_path.glob("*.part")) and process.poll() is None:
                assert time.monotonic() < end
                time.sleep(0.001)
            process.send_signal(chosen)
            process.wait(20)
            if process.returncode:
                assert not target.exists()
                left = list(tmp_path.glob("*.part"))
                assert not left or chosen == signal.SIGKILL
