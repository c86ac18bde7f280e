"""Clients and tables that mean no good: nothing falls over, and nothing is told (reference 4.4)."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from deltacli.sharing.server import run
from deltacli.sharing.server.config import Limits
from deltacli.sharing.server.recipients import Recipient, RecipientState, kept_token, new_token
from deltacli.sharing.server.service import Access
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, column, commit_info, metadata, protocol, remove
from tests.sharing.serving import Server, one_share, serving, shared, table_path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    TableBuilder(LocalStore(str(root / "t"))).start(add("a.parquet", 6), add("b.parquet", 7))
    (root / "t/a.parquet").write_bytes(b"bytes!")
    many = TableBuilder(LocalStore(str(root / "many")))
    stats = json.dumps({"numRecords": 1, "minValues": {"id": 1}, "maxValues": {"id": 9}})
    many.start(*(add(f"{one}.parquet", stats=stats) for one in range(20_000)))
    return root


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with serving(one_share(shared("t", folder / "t"), shared("many", folder / "many"))) as running:
        yield running


@contextlib.contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    url = urlsplit(server.url)
    with socket.create_connection((url.hostname or "", url.port or 0), timeout=20) as own:
        yield own


def head(server: Server, method: str, path: str, *headers: str, token: str | None = None) -> bytes:
    lines = [
        f"{method} {urlsplit(server.url).path}{path} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {server.token if token is None else token}",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def closed_within(own: socket.socket, seconds: float) -> bytes:
    """All that comes until the other side closes, which it must do in time."""
    own.settimeout(seconds)
    found = b""
    while part := own.recv(1 << 16):
        found += part
    return found


# -- slow and endless clients ------------------------------------------------------------


def test_a_head_that_does_not_arrive_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_HEADER_SECONDS", 0.5)
    with serving(one_share(shared("t", folder / "t"))) as server:
        with connected(server) as own:
            assert closed_within(own, 10) == b""
        with connected(server) as own:
            own.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-A")
            assert closed_within(own, 10) == b""
        with connected(server) as own:
            # A second request on a connection has no longer time.
            own.sendall(head(server, "GET", "/shares"))
            assert b" 200 " in own.recv(1 << 16)
            own.sendall(b"GET / HT")
            assert b"HTTP" not in closed_within(own, 10)


def test_a_body_that_does_not_arrive_is_not_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltacli.sharing.server import http

    monkeypatch.setattr(http, "_BODY_SECONDS", 0.5)
    with connected(server) as own:
        own.sendall(head(server, "POST", f"{table_path('t')}/query", "Content-Length: 100") + b"{")
        assert b"408 Request Timeout" in closed_within(own, 10)


@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_body_without_an_end_is_cut_off(server: Server, token: str | None) -> None:
    for path, method in (("/shares", "GET"), (f"{table_path('t')}/query", "POST")):
        with connected(server) as own:
            own.sendall(head(server, method, path, "Transfer-Encoding: chunked", token=token))
            with pytest.raises(OSError, match=r"reset|pipe"):  # noqa: PT012
                for _ in range(2000):
                    own.sendall(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
                    time.sleep(0.0005)
                closed_within(own, 1)


def test_bodies_have_a_size_and_no_compression(server: Server) -> None:
    path = f"{table_path('t')}/query"
    big = server.request("POST", path, b" " * (2 << 20) + b"{}")
    assert (big.status, big.json["errorCode"]) == (413, "CONTENT_TOO_LARGE")
    packed = server.request("POST", path, b"{}", {"Content-Encoding": "gzip"})
    assert packed.status == 415
    assert server.request("POST", path, b" " * (1 << 20) + b"{}").status == 200


def test_urls_and_headers_have_a_size(server: Server) -> None:
    assert server.get(f"/shares?x={'y' * 40_000}").status == 414
    assert server.get("/shares", {"X-Long": "y" * 70_000}).status in (400, 431)
    with connected(server) as own:
        own.sendall(b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 200_000)
        assert b"400 Bad Request" in own.recv(1 << 16)


def test_what_is_no_http_gets_json(server: Server) -> None:
    with connected(server) as own:
        own.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        found = closed_within(own, 10)
        assert b"application/json" in found
        assert b"MALFORMED_REQUEST" in found


def test_a_body_of_two_lengths_is_refused(server: Server) -> None:
    with connected(server) as own:
        lengths = ("Content-Length: 2", "Transfer-Encoding: chunked")
        own.sendall(head(server, "POST", f"{table_path('t')}/query", *lengths) + b"0\r\n\r\n")
        assert b" 400 " in own.recv(1 << 16)


def test_a_client_that_stops_reading_is_let_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_STALL_SECONDS", 0.5)
    with serving(one_share(shared("many", folder / "many"))) as server:
        with connected(server) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            body = head(server, "POST", f"{table_path('many')}/query", "Content-Length: 2") + b"{}"
            own.sendall(body)
            for _ in range(200):
                if not server.app.metrics.in_flight:
                    break
                time.sleep(0.05)
            assert server.app.metrics.in_flight == 0
        assert server.query("many", {"limitHint": 1}).status == 200


def test_a_client_that_goes_away_leaves_no_work_behind(server: Server) -> None:
    hint = " or ".join(["id = -1"] * 400)
    body = json.dumps({"predicateHints": [hint]}).encode()
    for _ in range(12):
        with connected(server) as own:
            lengths = f"Content-Length: {len(body)}"
            own.sendall(head(server, "POST", f"{table_path('many')}/query", lengths) + body)
            time.sleep(0.05)
    began = time.monotonic()
    assert server.get("/shares").status == 200
    assert server.query("t").status == 200
    while server.app.metrics.in_flight and time.monotonic() < began + 20:
        time.sleep(0.05)
    assert server.app.metrics.in_flight == 0


def test_one_recipient_does_not_take_all_threads(folder: Path) -> None:
    secret, token = new_token(0, None)
    other = Recipient("other", ("*",), (token,), 0)
    tables = (shared("t", folder / "t"), shared("many", folder / "many"))
    with serving(one_share(*tables), other) as server:
        body = {"predicateHints": [" or ".join(["id = -1"] * 10)]}
        threads = [threading.Thread(target=server.query, args=("many", body)) for _ in range(7)]
        for one in threads:
            one.start()
        time.sleep(0.3)
        assert server.app.metrics.in_flight == len(threads)
        assert server.query("t", token=secret).status == 200
        assert server.app.metrics.in_flight > 0
        for one in threads:
            one.join()


def test_a_connection_too_many_is_closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "most_connections", lambda: 3)
    with serving(one_share(shared("t", folder / "t"))) as server, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connected(server)) for _ in range(3)]
        time.sleep(0.2)
        with connected(server) as own, contextlib.suppress(ConnectionResetError):
            assert closed_within(own, 10) == b""
        idle[0].sendall(head(server, "GET", "/shares"))
        assert b" 200 " in idle[0].recv(1 << 16)


# -- limits ------------------------------------------------------------------------------


def test_a_recipient_has_so_many_requests_a_minute(folder: Path) -> None:
    secret, token = new_token(0, None)
    other = Recipient("other", (), (token,), 0)
    config = one_share(shared("t", folder / "t"), limits=Limits(requests_per_minute=5))
    with serving(config, other) as server:
        replies = [server.get("/shares") for _ in range(7)]
        assert [one.status for one in replies] == [200] * 5 + [429] * 2
        assert replies[-1].json["errorCode"] == "RESOURCE_EXHAUSTED"
        assert 1 <= int(replies[-1].headers["retry-after"]) <= 12
        assert server.get("/shares", token=secret).status == 200


def test_a_recipient_has_so_many_requests_at_once(folder: Path) -> None:
    config = one_share(shared("many", folder / "many"), limits=Limits(concurrent_requests=2))
    with serving(config) as server, contextlib.ExitStack() as stack:
        body = head(server, "POST", f"{table_path('many')}/query", "Content-Length: 2") + b"{}"
        for _ in range(2):
            own = stack.enter_context(connected(server))
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            own.sendall(body)
            own.recv(100)
        reply = server.get("/shares")
        assert (reply.status, reply.headers["retry-after"]) == (429, "1")


# -- tables that are broken --------------------------------------------------------------


def test_no_mutated_log_makes_the_server_fail(tmp_path: Path) -> None:
    """Bytes of a log are changed at random: the answer is right, or says what cannot be."""
    from deltacli.storage.patterns import matching_tables

    rng = random.Random(8)
    lines = [
        commit_info(),
        protocol(1, 4),
        metadata(
            column("id"),
            column("p", "integer"),
            partition_by=["p"],
            configuration={"delta.enableChangeDataFeed": "true"},
        ),
        *(add(f"p={one}/f{one}", partitionValues={"p": str(one)}) for one in range(3)),
        remove("p=9/x", partitionValues={"p": "9"}),
        {"cdc": {"path": "_change_data/c", "partitionValues": {"p": "1"}, "size": 1,
                 "dataChange": False}},
    ]  # fmt: skip
    odd = ["5", '"x"', "[]", "{}", "null", "1e999", "-1", '"\\ud800"', '"\\u0000"', "true", "[[1]]"]
    for number in range(60):
        content = [json.dumps(one) for one in lines]
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(content))
            text = content[place]
            parts = text.split(": ")
            if len(parts) > 1 and rng.random() < 0.7:
                spot = rng.randrange(1, len(parts))
                rest = parts[spot].split(",", 1)
                end = "}" * (parts[spot].count("}")) if len(rest) == 1 else "," + rest[1]
                parts[spot] = rng.choice(odd) + end
                content[place] = ": ".join(parts)
            else:
                spot = rng.randrange(len(text))
                content[place] = text[:spot] + rng.choice('{}[]":,x5') + text[spot + 1 :]
        table = TableBuilder(LocalStore(str(tmp_path / f"t{number}")))
        table.commit_bytes("\n".join(content).encode())
        table.commit(add("later", partitionValues={"p": "1"}))
    names = [one.rsplit("/", 1)[-1] for one in matching_tables(f"{tmp_path}/*")]
    tables = [shared(name, tmp_path / name) for name in names]
    with serving(one_share(*tables)) as server:
        for name in names:
            for reply in (
                server.query(name),
                server.query(name, {"predicateHints": ["p = 1"], "limitHint": 1}),
                server.query(name, {"startingVersion": 0}),
                server.changes(name, "startingVersion=0"),
                server.metadata(name),
            ):
                assert reply.status in (200, 400, 404), (name, reply.content)
                if reply.status == 200:
                    assert reply.lines


def test_a_broken_table_does_not_hurt_others(folder: Path, tmp_path: Path) -> None:
    TableBuilder(LocalStore(str(tmp_path / "bad"))).commit_bytes(b"{")
    tables = (shared("bad", tmp_path / "bad"), shared("t", folder / "t"))
    with serving(one_share(*tables)) as server:
        reply = server.query("bad")
        assert reply.status == 400
        assert str(tmp_path) not in reply.content.decode()
        assert server.query("t").status == 200
        assert len(server.get("/shares/share/all-tables").json["items"]) == 2


def test_tokens_of_a_table_that_was_made_anew_are_void(tmp_path: Path) -> None:
    import shutil

    def make(table_id: str, versions: int) -> None:
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        table = TableBuilder(LocalStore(str(tmp_path / "t")))
        table.commit(protocol(), metadata(id=table_id), add("a"), add("b"), add("c"))
        for number in range(versions):
            table.commit(add(f"d{number}"))

    make("first", 2)
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        page = server.query("t", {"maxFiles": 1}).lines[-1]["endStreamAction"]["nextPageToken"]
        fresh = server.query("t", {"includeRefreshToken": True}).lines[-1]["endStreamAction"]
        stream = server.query("t", {"startingVersion": 0, "maxFiles": 1}).lines[-1]
        ranged = stream["endStreamAction"]["nextPageToken"]
        for versions in (9, 0):
            make("second", versions)
            for body in (
                {"maxFiles": 1, "pageToken": page},
                {"refreshToken": fresh["refreshToken"]},
                {"startingVersion": 0, "maxFiles": 1, "pageToken": ranged},
            ):
                assert server.query("t", body).status == 400


# -- what is told ------------------------------------------------------------------------


def test_logs_tell_who_did_what_and_no_secrets(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    audit = tmp_path / "audit.jsonl"
    tables = (shared("t", folder / "t"), shared("gone", tmp_path / "nowhere"))
    config = one_share(*tables, audit_log=str(audit))
    with serving(config) as server:
        page = server.query("t", {"maxFiles": 1, "predicateHints": ["id = 4711"]})
        token = page.lines[-1]["endStreamAction"]["nextPageToken"]
        server.query("t", {"maxFiles": 1, "predicateHints": ["id = 4711"], "pageToken": token})
        for file in page.files():
            server.get(file["url"])
        server.query("gone")
        server.get("/shares", token="dcs_a-wrong-token")
        server.get(f"/shares?pageToken={token}")
        told = server.request("GET", f"{server.admin_url}/-/metrics").content.decode()
    entries = [json.loads(line) for line in audit.read_text().splitlines()]
    first = entries[0]
    assert {key: first[key] for key in ("recipient", "route", "share", "table", "version", "status",
                                        "files", "format", "complete")} == {
        "recipient": "reader", "route": "query", "share": "share", "table": "t", "version": 0,
        "status": 200, "files": 1, "format": "parquet", "complete": True,
    }  # fmt: skip
    assert len({one["requestId"] for one in entries}) == len(entries)
    assert [one["status"] for one in entries] == [200, 200, 200, 404, 401, 400]
    everything = audit.read_text() + told + "".join(capfd.readouterr())
    url = page.files()[0]["url"]
    signature = url.split("sig=")[1]
    for secret in (server.token, token, signature, "4711", "a-wrong-token"):
        assert secret not in everything


def test_answers_tell_no_place_of_the_provider(tmp_path: Path) -> None:
    tables = [shared(name, tmp_path / f"secret-place/{name}") for name in ("gone", "bad", "file")]
    TableBuilder(LocalStore(str(tmp_path / "secret-place/bad"))).commit_bytes(b"{}\n{")
    (tmp_path / "secret-place/file").write_text("no folder")
    with serving(one_share(*tables)) as server:
        for name in ("gone", "bad", "file"):
            for reply in (
                server.query(name),
                server.metadata(name),
                server.changes(name, "startingVersion=0"),
            ):
                assert reply.status in (400, 404)
                assert "secret-place" not in reply.content.decode()


def test_a_name_from_the_host_header_is_believed_only_if_it_is_ours(server: Server) -> None:
    def base(host: str) -> str:
        reply = server.query("t", {}, {"Host": host})
        return str(reply.files()[0]["url"].split("/delta-sharing")[0])

    own = server.url.removesuffix("/delta-sharing")
    assert base("localhost:1234") == "http://localhost:1234"
    for host in ("evil.example.com", 'localhost:"},{', "127.0.0.1:9#", "localhost@evil", ""):
        assert base(host) == own


def test_the_state_may_break_while_the_server_runs(folder: Path, tmp_path: Path) -> None:
    state = RecipientState(str(tmp_path / "state"))
    secret = "dcs_0123456789abcdef"
    with state.changing() as recipients:
        state.save(recipients.with_one(Recipient("bob", ("*",), (kept_token(secret, 0, None),), 0)))
    with serving(one_share(shared("t", folder / "t")), access=Access(state)) as server:
        server.token = secret
        assert server.query("t").status == 200
        for content in ("{", "[]", '{"recipients": [{"name": 5}]}'):
            (tmp_path / "state/recipients.json").write_text(content)
            assert server.query("t").status == 200
            assert server.get("/shares", token="x").status == 401
