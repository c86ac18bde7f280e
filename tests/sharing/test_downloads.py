"""Files behind the server's own URLs: bytes and ranges, and who gets none."""

from __future__ import annotations

import contextlib
import os
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fsspec
import pytest

from deltacli.sharing.server.recipients import EVERY_SHARE, Recipient, RecipientState, new_token
from deltacli.sharing.server.seals import Seals
from deltacli.sharing.server.service import Access
from deltacli.storage.local import LocalStore
from tests.builder import NOW_MS, TableBuilder, add, vector
from tests.places import Place
from tests.sharing.serving import DELTA, Server, one_share, serving, shared

CONTENT = bytes(range(256)) * 2000
SECRET = "dcs_the-same-for-many-servers"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    table = TableBuilder(LocalStore(str(root / "t")))
    table.start(
        add("a.parquet", len(CONTENT)),
        add("p=a%2520b/%C3%A9%20%23%3F.parquet", 5),
        add("empty.parquet", 0),
        add("gone.parquet"),
    )
    (root / "t/a.parquet").write_bytes(CONTENT)
    (root / "t/p=a%20b").mkdir()
    (root / "t/p=a%20b/é #?.parquet").write_bytes(b"hello")
    (root / "t/empty.parquet").touch()
    return root


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serving(one_share(shared("t", folder / "t"), shared("u", folder / "t"))) as running:
        yield running


def urls(server: Server, table: str = "t", **headers: Any) -> dict[int, str]:
    """URLs by the sizes of their files."""
    return {one["size"]: one["url"] for one in server.query(table, {}, **headers).files()}


def get(server: Server, url: str, **headers: str) -> Any:
    # Readers send no token to file URLs.
    return server.request("GET", url, None, {"Authorization": "", **headers})


def test_a_file_is_served_whole(server: Server) -> None:
    url = urls(server)[len(CONTENT)]
    reply = get(server, url)
    assert (reply.status, reply.content) == (200, CONTENT)
    assert reply.headers["content-length"] == str(len(CONTENT))
    assert reply.headers["accept-ranges"] == "bytes"
    assert "content-encoding" not in reply.headers
    head = server.request("HEAD", url)
    assert (head.status, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(CONTENT))
    assert head.headers["etag"] == reply.headers["etag"]
    # Nobody encodes any character of it anew, and it looks like a signed URL of a data file.
    path, query = urlsplit(url).path, urlsplit(url).query
    assert path.endswith(".parquet")
    assert "sp=r" in query.split("&")
    assert all(one.isalnum() or one in "-_./" for one in path)


def test_paths_of_the_log_are_decoded_once(server: Server) -> None:
    assert get(server, urls(server)[5]).content == b"hello"


def test_an_empty_file_is_empty(server: Server) -> None:
    url = urls(server)[0]
    assert (get(server, url).status, get(server, url).content) == (200, b"")
    assert get(server, url, Range="bytes=0-").status == 416


SIZE = len(CONTENT)


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [
        ("bytes=0-0", 0, 1), ("bytes=10-19", 10, 20), ("bytes=5-", 5, SIZE),
        ("bytes=-8", SIZE - 8, SIZE), (f"bytes=-{SIZE * 9}", 0, SIZE),
        (f"bytes={SIZE - 1}-", SIZE - 1, SIZE), (f"bytes=7-{SIZE * 9}", 7, SIZE),
        ("bytes= 3-4", 3, 5),
    ],
)  # fmt: skip
def test_a_range_is_served(server: Server, wanted: str, start: int, end: int) -> None:
    reply = get(server, urls(server)[SIZE], Range=wanted)
    assert reply.status == 206
    assert reply.content == CONTENT[start:end]
    assert reply.headers["content-range"] == f"bytes {start}-{end - 1}/{SIZE}"
    assert reply.headers["content-length"] == str(end - start)


@pytest.mark.parametrize("wanted", [f"bytes={SIZE}-", f"bytes={SIZE}-{SIZE + 5}", "bytes=-0"])
def test_a_range_beyond_the_end_is_refused(server: Server, wanted: str) -> None:
    reply = get(server, urls(server)[SIZE], Range=wanted)
    assert reply.status == 416
    assert reply.headers["content-range"] == f"bytes */{SIZE}"


@pytest.mark.parametrize(
    "wanted",
    ["bytes", "bytes=", "bytes=x-5", "bytes=5-3", "rows=0-5", "bytes=0-1,5-6", "bytes=--5"],
)
def test_what_is_no_single_range_of_bytes_is_passed_over(server: Server, wanted: str) -> None:
    reply = get(server, urls(server)[SIZE], Range=wanted)
    assert (reply.status, len(reply.content)) == (200, SIZE)


def test_a_range_is_of_the_file_that_is_meant(server: Server, folder: Path) -> None:
    url = urls(server)[SIZE]
    etag = get(server, url).headers["etag"]
    part = {"Range": "bytes=0-3", "If-Range": etag}
    assert get(server, url, **part).status == 206
    path = folder / "t/a.parquet"
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 10**9))
    assert get(server, url, **part).status == 200
    assert get(server, url).headers["etag"] != etag


def test_a_file_that_was_vacuumed_is_missing(server: Server) -> None:
    reply = get(server, urls(server)[100])
    assert reply.status == 404
    assert "vacuumed" in reply.json["message"]


def test_other_methods_are_not_for_files(server: Server) -> None:
    assert server.request("PUT", urls(server)[SIZE], b"x").status == 403


def test_no_character_of_a_url_can_be_changed(server: Server) -> None:
    url = urls(server)[SIZE]
    begin = url.index("/files/") + len("/files/")
    name = url.rindex("/")
    for place in range(begin, len(url)):
        one = url[place]
        other = "A" if one != "A" else "B"
        if one.isdigit():
            other = str((int(one) + 1) % 10)
        reply = get(server, url[:place] + other + url[place + 1 :])
        assert reply.status in (403, 404), place
        assert reply.content != CONTENT
        if place < name:
            assert reply.json["message"] == "the URL of the file is not valid, or not any more"
    for wrong in (url.split("?")[0], url.split("&sig")[0], url.replace("sig=", "sig=%00"),
                  url.replace("se=", "se=9"), f"{url}0", f"{url}&se=9999999999"):  # fmt: skip
        assert get(server, wrong).status == 403


def test_a_url_expires(folder: Path) -> None:
    now = [NOW_MS]
    config = one_share(shared("t", folder / "t"), url_seconds=2)
    with serving(config, clock=lambda: now[0]) as server:
        file = next(one for one in server.query("t").files() if one["size"] == SIZE)
        assert file["expirationTimestamp"] == NOW_MS + 2000
        assert server.get(file["url"]).status == 200
        now[0] += 2000
        assert get(server, file["url"]).status == 403


def test_a_url_outlives_a_restart_but_not_its_key(folder: Path) -> None:
    config = one_share(shared("t", folder / "t"))
    with serving(config, secret=SECRET) as server:
        url = urls(server)[SIZE]
    path = url[url.index("/files/") :]
    with serving(config, secret=SECRET) as server:
        assert get(server, server.url + path).status == 200
    with serving(config, secret=SECRET, seals=Seals(b"x" * 32)) as server:
        assert get(server, server.url + path).status == 403
    with serving(one_share(shared("t", f"{folder}/t/.")), secret=SECRET) as server:
        assert get(server, server.url + path).status == 403


def test_a_revoked_or_ungranted_recipient_gets_no_file(folder: Path, tmp_path: Path) -> None:
    state = RecipientState(str(tmp_path / "state"))
    secret, token = new_token(0, None)
    recipient = Recipient("bob", ("share",), (token,), 0)
    with state.changing() as recipients:
        state.save(recipients.with_one(recipient))
    config = one_share(shared("t", folder / "t"))
    with serving(config, access=Access(state)) as server:
        server.token = secret
        url = urls(server)[SIZE]

        def change(**what: Any) -> None:
            with state.changing() as recipients:
                state.save(recipients.with_one(replace(recipient, **what)))

        assert get(server, url).status == 200
        change(shares=())
        assert get(server, url).status == 403
        assert server.query("t").status == 404
        change(shares=(EVERY_SHARE,))
        assert get(server, url).status == 200
        change(tokens=())
        assert get(server, url).status == 403
        assert server.query("t").status == 401
        # Another token of the same recipient does not bring old URLs back.
        change(tokens=(new_token(0, None)[1],))
        assert get(server, url).status == 403


def test_a_table_that_is_shared_no_more_has_no_files(folder: Path) -> None:
    both = one_share(shared("t", folder / "t"), shared("u", folder / "t"))
    with serving(both, secret=SECRET) as server:
        url = urls(server, "u")[SIZE]
        path = url[url.index("/files/") :]
    with serving(one_share(shared("t", folder / "t")), secret=SECRET) as server:
        assert get(server, server.url + path).status == 403


# -- confinement -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "../secret.parquet", "x/../../secret.parquet", "%2e%2e/secret.parquet",
        "..%2Fsecret.parquet",
        "{outside}", "file:{outside}", "file://{outside}", "_delta_log/00000000000000000000.json",
        "x/_delta_log/y", "_delta%5Flog/00000000000000000000.json", "/etc/passwd", "s3://bucket/x",
        "./../secret.parquet", "x\0y", "x%00y", "\ud800", ".hidden/x", "a/.x",
    ],
)  # fmt: skip
def test_a_log_that_leads_out_of_its_table_shares_nothing(tmp_path: Path, path: str) -> None:
    outside = tmp_path / "secret.parquet"
    outside.write_bytes(b"secret")
    TableBuilder(LocalStore(str(tmp_path / "t"))).start(add(path.format(outside=outside)))
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        for reply in (
            server.query("t"),
            server.query("t", {"startingVersion": 0}),
            server.query("t", {}, DELTA),
            server.query("t", {"predicateHints": ["id = 1"], "limitHint": 1}),
        ):
            assert reply.status == 400
            assert b"secret" not in reply.content
            assert str(tmp_path).encode() not in reply.content


def test_a_link_that_leads_out_of_the_table_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    TableBuilder(LocalStore(str(tmp_path / "t"))).start(
        add("link.parquet", 1),
        add("folder/secret", 2),
        add("inside.parquet", 3),
        add("log.parquet", 4),
        add("pipe.parquet", 5),
    )
    os.mkfifo(tmp_path / "t/pipe.parquet")
    (tmp_path / "t/log.parquet").symlink_to("_delta_log/00000000000000000000.json")
    (tmp_path / "t/link.parquet").symlink_to(tmp_path / "secret")
    (tmp_path / "t/folder").symlink_to(tmp_path)
    (tmp_path / "t/real").write_bytes(b"abc")
    (tmp_path / "t/inside.parquet").symlink_to("real")
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        found = urls(server)
        assert {get(server, found[size]).status for size in (1, 2, 4, 5)} == {403}
        assert get(server, found[3]).content == b"abc"


def test_a_deletion_vector_elsewhere_is_not_shared(tmp_path: Path) -> None:
    from tests.builder import features, metadata

    away = {**vector(), "storageType": "p", "pathOrInlineDv": f"{tmp_path}/dv.bin"}
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    table.commit(features("deletionVectors"), metadata(), add("a", deletionVector=away))
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        assert server.query("t", {}, DELTA).status == 400


def test_files_elsewhere_are_shared_where_the_provider_allows_it(tmp_path: Path) -> None:
    (tmp_path / "origin").mkdir()
    (tmp_path / "origin/a.parquet").write_bytes(b"cloned")
    TableBuilder(LocalStore(str(tmp_path / "t"))).start(add(f"{tmp_path}/origin/a.parquet", 6))
    entry = shared("t", tmp_path / "t", roots=(str(tmp_path / "origin"),))
    with serving(one_share(entry)) as server:
        assert get(server, urls(server)[6]).content == b"cloned"


def test_an_inline_deletion_vector_is_passed_on(tmp_path: Path) -> None:
    from tests.builder import features, metadata

    inline = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lk"
              "bi5=-{L", "sizeInBytes": 40, "cardinality": 6}  # fmt: skip
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    table.commit(features("deletionVectors"), metadata(), add("a", deletionVector=inline))
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        (file,) = server.query("t", {}, DELTA).files()
        assert file["deltaSingleAction"]["add"]["deletionVector"] == inline
        assert "deletionVectorFileId" not in file


# -- other storage ---------------------------------------------------------------------


def test_a_storage_without_signed_urls_is_served_by_us() -> None:
    fs = fsspec.filesystem("memory")
    table = "memory://shared-table"
    with contextlib.suppress(FileNotFoundError):
        fs.rm("/shared-table", recursive=True)
    from deltacli.storage import open_store
    from tests.builder import commit_info, lines, metadata, protocol

    fs.pipe_file(
        "/shared-table/_delta_log/00000000000000000000.json",
        lines([commit_info(), protocol(), metadata(), add("a.parquet", 5)]),
    )
    fs.pipe_file("/shared-table/a.parquet", b"bytes")
    assert open_store(table).read("a.parquet") == b"bytes"
    with serving(one_share(shared("t", table))) as server:
        url = urls(server)[5]
        assert get(server, url).content == b"bytes"
        assert get(server, url, Range="bytes=1-2").content == b"yt"
        assert server.request("HEAD", url).headers["content-length"] == "5"


def test_s3_signs_its_own_urls(s3: Place) -> None:
    store = s3.store("signed")
    TableBuilder(store).start(add("p=a%20b/x.parquet", 5))
    store.put("p=a b/x.parquet", b"in s3")
    config = one_share(
        shared("t", "s3a://tables/signed", storage_options=s3.options),
        shared("ours", "s3://tables/signed", storage_options=s3.options, links="proxy"),
        url_seconds=60,
    )
    with serving(config) as server:
        url = urls(server)[5]
        assert url.startswith(s3.endpoint)
        for key in ("X-Amz-Signature=", "X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Expires=60"):
            assert key in url
        with urllib.request.urlopen(url) as answer:
            assert answer.read() == b"in s3"
        own = urls(server, "ours")[5]
        assert own.startswith(server.url)
        assert get(server, own).content == b"in s3"
        assert get(server, own, Range="bytes=3-").content == b"s3"
