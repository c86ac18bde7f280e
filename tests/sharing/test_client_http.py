"""Servers that fail, lie or never end: one clear error in good time, and nothing made up."""

from __future__ import annotations

import gzip
import io
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.errors import CorruptLog, DeltaCliError, StorageError
from deltacli.sharing.client.http import BadAnswer, Http, Patience, Request
from deltacli.sharing.client.rows import open_version
from deltacli.sharing.client.server import NEWEST, At, Query
from tests.conftest import Result
from tests.sharing.client import client, rows_of, table
from tests.sharing.scripted import (
    METADATA,
    NDJSON,
    PROTOCOL,
    Asked,
    Say,
    Script,
    file_line,
    lines,
    scripted,
    told,
)

Deltacli = Callable[..., Result]
TABLE = table("a.b.c")


def parquet(rows: int = 10, **more: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(rows))}), sink, **more)
    return sink.getvalue()


def always(say: Say) -> Script:
    return lambda _: say


@pytest.fixture
def run(deltacli: Deltacli, tmp_path: Path) -> Callable[..., Result]:
    def invoke(url: str, *arguments: str) -> Result:
        profile = tmp_path / "me.share"
        body = {"shareCredentialsVersion": 1, "endpoint": url, "bearerToken": "t0ken"}
        profile.write_text(json.dumps(body))
        profile.chmod(0o600)
        begun = time.monotonic()
        result = deltacli(*arguments, "--profile", profile, "--timeout", "1s")
        assert time.monotonic() - begun < 15
        assert "Traceback" not in result.stderr
        assert "t0ken" not in result.stderr + result.stdout
        if result.code:
            first, second = result.stderr.splitlines()[-2:]
            assert first.startswith("error: ")
            assert second.startswith("hint: ")
        return result

    return invoke


# -- what servers say went wrong ---------------------------------------------------------


ERROR = {"errorCode": "SOME_CODE", "message": "what is wrong"}


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 4), (401, 7), (403, 7), (404, 3), (405, 4), (418, 4), (429, 7), (500, 7), (501, 7),
     (502, 7), (503, 7), (504, 7)],
)  # fmt: skip
@pytest.mark.parametrize(
    "command",
    [("shares",), ("schemas", "a"), ("tables", "a"), ("version", "a.b.c"), ("metadata", "a.b.c"),
     ("files", "a.b.c"), ("changes", "a.b.c", "--from", "0"), ("head", "a.b.c")],
)  # fmt: skip
def test_every_refusal_has_its_message_and_its_exit_code(
    status: int, code: int, command: tuple[str, ...], run: Callable[..., Result]
) -> None:
    with scripted(always(Say(status, json.dumps(ERROR).encode()))) as server:
        result = run(server.url, "share", *command)
    assert result.code == code
    # An answer to HEAD, the last way to ask for a version, has no body.
    assert "SOME_CODE: what is wrong" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"errorCode":"A","message":"b"}', "A: b"),
        (b'{"error_code":"A","message":"b","details":"c"}', "A: b"),
        (b'{"message":"b"}', "b"),
        (b'{"error":"invalid","error_description":"why"}', "invalid: why"),
        (b"<html><h1>Bad Gateway</h1></html>", None),
        (b"plain words", "plain words"),
        (b"", None),
        (b'["x"]', None),
        (b'{"errorCode":5}', None),
        (json.dumps({"message": "\x1b[2J\x07\u202eevil"}).encode(), "evil"),
        (b"x" * 100_000, "x" * 500 + "…"),
    ],
)  # fmt: skip
def test_errors_are_read_in_every_spelling(
    body: bytes, said: str | None, run: Callable[..., Result]
) -> None:
    with scripted(always(Say(400, body))) as server:
        result = run(server.url, "share", "shares")
    first = result.stderr.splitlines()[0]
    assert first.isprintable()
    assert first.endswith(f": {said}" if said and said != "evil" else "evil" if said else "shares")


def test_nothing_of_a_server_steers_a_terminal(run: Callable[..., Result]) -> None:
    evil = "\x1b]0;title\x07\x1b[31mred\r\n"
    page = {"items": [{"name": evil, "share": evil, "schema": evil}]}
    shown = told(file_line("https://x/" + evil, 5, evil, stats=evil))
    shown.body = shown.body.replace(b'"id": "t"', json.dumps({"id": evil}).encode()[1:-1])

    def script(asked: Asked) -> Say:
        return shown if "/tables/" in asked.path else Say(200, json.dumps(page).encode())

    with scripted(script) as server:
        for command in (("shares",), ("tables", "a"), ("files", "a.b.c"), ("metadata", "a.b.c")):
            for output in ("table", "tsv", "csv", "json", "jsonl"):
                result = run(server.url, "share", *command, "-o", output)
                assert result.code == 0
                assert "\x1b" not in result.stdout or output == "csv"
                assert "\x07" not in result.stdout or output == "csv"


# -- asking again ------------------------------------------------------------------------


def failing(times: int, say: Say, then: Say) -> Script:
    left = [times]

    def script(_: Asked) -> Say:
        left[0] -= 1
        return say if left[0] >= 0 else then

    return script


SHARES = Say(200, b'{"items":[{"name":"s"}]}')


def cut(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")


def cut_chunk(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{")


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()


@pytest.mark.parametrize(
    "failure",
    [Say(429), Say(502), Say(503), Say(504), Say(raw=lambda _: None), Say(raw=cut),
     Say(raw=cut_chunk), Say(raw=reset), Say(200, b"{", claims=50)],
)  # fmt: skip
def test_what_fails_for_now_is_asked_again(failure: Say) -> None:
    with scripted(failing(2, failure, SHARES)) as server:
        assert [one["name"] for one in client(server.url).shares()] == ["s"]
        assert len(server.asked) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 501])
def test_what_stays_wrong_is_asked_once(status: int) -> None:
    with scripted(always(Say(status))) as server:
        with pytest.raises(DeltaCliError):
            list(client(server.url).shares())
        assert len(server.asked) == 1


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_a_server_that_names_a_time_is_left_alone_until_then(form: str) -> None:
    import email.utils

    pauses: list[float] = []
    http = Http(Patience(5, 60), pause=pauses.append)
    text = "7" if form == "seconds" else email.utils.formatdate(time.time() + 8, usegmt=True)
    busy = Say(503, headers={"Retry-After": text})
    with scripted(failing(1, busy, SHARES)) as server:
        assert http.ask(Request("GET", server.url)).status == 200
    assert 6 <= pauses[0] <= 8


def test_a_server_that_wants_too_much_time_is_given_up_at_once(run: Callable[..., Result]) -> None:
    with scripted(always(Say(429, headers={"Retry-After": "3600"}))) as server:
        result = run(server.url, "share", "shares")
    assert result.code == 7
    assert "3600 s" in result.stderr
    assert len(server.asked) == 1


def test_pauses_grow_and_end() -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        time.sleep(min(seconds, 0.05))

    http = Http(Patience(5, 1.0), pause=pause)
    with scripted(always(Say(503))) as server, pytest.raises(StorageError, match="503"):
        http.ask(Request("GET", server.url))
    assert pauses[2] > pauses[0]
    assert max(pauses) <= 1.0


def test_a_kept_connection_that_was_closed_meanwhile_is_no_failure() -> None:
    closing = Say(200, b'{"items":[]}', {"Connection": "keep-alive"})
    with scripted(always(closing)) as server:
        asking = client(server.url)
        list(asking.shares())
        for idle in asking.http._idle.values():
            for one in idle:
                one.sock.shutdown(socket.SHUT_RDWR)
        assert list(asking.shares()) == []


# -- waiting -----------------------------------------------------------------------------


def test_a_server_that_says_nothing_is_given_up(run: Callable[..., Result]) -> None:
    with scripted(always(Say(raw=lambda _: time.sleep(5)))) as server:
        result = run(server.url, "share", "shares")
    assert result.code == 7
    assert "does not answer" in result.stderr


def test_a_server_that_drips_is_given_up() -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        for _ in range(100):
            connection.sendall(b" ")
            time.sleep(0.05)

    http = Http(Patience(0.3, 0.3))
    with scripted(always(Say(raw=drip))) as server, pytest.raises(StorageError, match="bytes in"):
        http.ask(Request("GET", server.url))


def test_nobody_listens(run: Callable[..., Result]) -> None:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        result = run(f"http://127.0.0.1:{own.getsockname()[1]}", "share", "shares")
    assert result.code == 7
    assert "cannot be reached" in result.stderr


def test_there_is_no_such_host(run: Callable[..., Result]) -> None:
    result = run("https://nowhere.invalid", "share", "shares")
    assert result.code == 7
    assert "nowhere.invalid" in result.stderr


# -- what is no answer -------------------------------------------------------------------


@pytest.mark.parametrize(
    "say",
    [
        Say(200, b"not json"),
        Say(200, b"[]"),
        Say(200, b'{"items":{"a":1}}'),
        Say(200, b'{"items":[{}]}'),
        Say(200, b'{"items":["s"]}'),
        Say(200, b'{"items":[{"name":5}]}'),
        Say(200, b'{"items":[],"nextPageToken":5}'),
        Say(200, b"x", {"Content-Encoding": "br"}),
        Say(200, b"not gzip at all", {"Content-Encoding": "gzip"}),
        Say(302, b"", {"Location": "/shares"}),
        Say(302, b"", {"Location": "ftp://elsewhere/"}),
        Say(raw=lambda connection: connection.sendall(b"SSH-2.0-OpenSSH\r\n")),
        Say(raw=lambda connection: connection.sendall(
            b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 500 + b"\r\n")),
    ],
)  # fmt: skip
def test_what_is_no_list_is_an_error(say: Say, run: Callable[..., Result]) -> None:
    with scripted(always(say)) as server:
        assert run(server.url, "share", "shares").code == 7


HEADER = {**NDJSON, "Delta-Table-Version": "3"}
BIG = 10**30
BROKEN = [
    told(file_line("https://x/", 1, "\ud800")),
    told(file_line("https://x/", 1 << 60)),
    told(file_line("https://x/", 1, version=BIG)),
    told(file_line("https://x/", 1, timestamp=10**16)),
    told({"endStreamAction": {}}, file_line("https://x/", 1)),
    Say(200, lines(PROTOCOL, METADATA) + b'{ "endStreamAction" : {"errorMessage": "no"} }', HEADER),
    Say(200, b"", HEADER),
    Say(200, lines(PROTOCOL), HEADER),
    Say(200, lines(METADATA, PROTOCOL), HEADER),
    Say(200, lines(PROTOCOL, METADATA), NDJSON),
    Say(200, lines(PROTOCOL, METADATA), {**NDJSON, "Delta-Table-Version": "new"}),
    Say(200, lines(PROTOCOL, METADATA) + b"{", HEADER),
    Say(200, lines(PROTOCOL, METADATA) + b"[1]\n", HEADER),
    Say(200, lines(PROTOCOL, {"metaData": {"id": "x", "schemaString": "{"}}), HEADER),
    Say(200, lines({"protocol": {"minReaderVersion": "x"}}, METADATA), HEADER),
    told({"file": {"id": "x"}}),
    told({"file": {"id": "x", "url": "https://x/", "size": -1}}),
    told({"file": {"id": "x", "url": "https://x/", "size": 1, "partitionValues": {"a": 5}}}),
    told({"file": []}),
    told({"queryStatus": {"queryId": "1"}}),
    told({"endStreamAction": {"errorMessage": "it broke"}}),
    told(**{"delta-sharing-capabilities": "responseformat=parquet;includeendstreamaction=true"}),
]


@pytest.mark.parametrize("say", BROKEN)
def test_what_is_no_answer_about_files_is_an_error(say: Say, run: Callable[..., Result]) -> None:
    with scripted(always(say)) as server:
        for command in ("files", "head"):
            assert run(server.url, "share", command, "a.b.c").code == 7


def test_a_protocol_from_the_future_is_refused_for_rows(run: Callable[..., Result]) -> None:
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["timeTravel2030"], "writerFeatures": ["timeTravel2030"]}
    delta = {"protocol": {"deltaProtocol": {**versions, **features}}}
    metadata = {"metaData": {"deltaMetadata": METADATA["metaData"]}}
    with scripted(always(Say(200, lines(delta, metadata), HEADER))) as server:
        result = run(server.url, "share", "head", "a.b.c")
    assert result.code == 4
    assert "timeTravel2030" in result.stderr


def test_lines_of_unknown_kinds_are_passed_over() -> None:
    data = parquet()
    end = {"endStreamAction": {"minUrlExpirationTimestamp": 5, "more": True}}

    def script(asked: Asked) -> Say:
        if asked.method == "GET":
            return Say(200, data)
        return told({"later": {"x": 1}}, file_line(f"{url[0]}/f", len(data)), {}, end)

    url = [""]
    with scripted(script) as server:
        url[0] = server.url
        version = open_version(client(server.url), TABLE, Query(NEWEST))
        assert len(rows_of(version)) == 10


@pytest.mark.parametrize("kind", ["same", "new"])
def test_pages_that_never_end_do(kind: str) -> None:
    count = [0]

    def script(asked: Asked) -> Say:
        count[0] += 1
        token = "again" if kind == "same" else f"page{count[0]}"
        if asked.method == "GET":
            return Say(200, json.dumps({"items": [], "nextPageToken": token}).encode())
        return told({"endStreamAction": {"nextPageToken": token}})

    with scripted(script) as server:
        with pytest.raises(BadAnswer, match="never ends"):
            list(client(server.url).shares())
        with pytest.raises(BadAnswer, match="never ends"):
            list(client(server.url).query(TABLE, Query()).files())
    assert count[0] < 400


@pytest.mark.parametrize("form", ['{ "endStreamAction" : %s }', '{"endStreamAction":%s}  ', " %s"])
def test_the_last_line_counts_however_it_is_written(form: str) -> None:
    """Also one that is longer than most answers."""
    token = "t" * (200_000 if form == " %s" else 5)
    body = json.dumps({"nextPageToken": token})
    line = form % (body if form != " %s" else json.dumps({"endStreamAction": json.loads(body)}))
    count = [0]

    def script(_: Asked) -> Say:
        count[0] += 1
        return Say(200, lines(PROTOCOL, METADATA) + line.encode() + b"\n", HEADER)

    with scripted(script) as server, pytest.raises(BadAnswer, match="never ends"):
        list(client(server.url).query(TABLE, Query()).files())
    assert count[0] == 2


def test_two_readers_of_one_answer_have_all_of_it() -> None:
    files = [file_line("https://x/", 1, f"f{number}") for number in range(9)]
    with scripted(always(told(*files))) as server:
        answer = client(server.url).query(TABLE, Query())
        assert len(list(zip(answer.files(), answer.files(), strict=True))) == 9


def test_a_file_that_is_told_twice_is_not_read_twice() -> None:
    line = file_line("https://x/", 1)
    with scripted(always(told(line, line))) as server:
        version = open_version(client(server.url), TABLE, Query(NEWEST))
        with pytest.raises(BadAnswer, match="twice"):
            list(version.lines())


def test_a_server_that_answers_of_another_version_is_not_believed(
    run: Callable[..., Result],
) -> None:
    with scripted(always(told(version=9))) as server:
        for command in ("head", "files", "metadata"):
            assert run(server.url, "share", command, "a.b.c", "--at", "9").code == 0
            result = run(server.url, "share", command, "a.b.c", "--at", "3")
            assert result.code == 7
            assert "version 9 of a.b.c, where 3 was asked" in result.stderr


def test_an_old_server_tells_an_old_schema_with_its_files() -> None:
    """It passes over the version in a request for metadata."""

    def script(asked: Asked) -> Say:
        return told(version=3 if asked.method == "POST" else 9)

    with scripted(script) as server:
        asking = client(server.url)
        assert asking.metadata(TABLE, At(version=3)).version == 3
        assert asking.metadata(TABLE, At(timestamp="2026-01-01T00:00:00Z")).version == 3
        assert asking.metadata(TABLE).version == 9
        assert server.asked[1].json == {"limitHint": 0, "version": 3}


def test_pages_of_other_versions_are_not_mixed() -> None:
    def script(asked: Asked) -> Say:
        is_first = "pageToken" not in asked.json
        end = {"endStreamAction": {"nextPageToken": "x" if is_first else ""}}
        return told(end, version=3 if is_first else 4)

    with scripted(script) as server, pytest.raises(BadAnswer, match="from page to page"):
        list(client(server.url).query(TABLE, Query()).files())


@pytest.mark.parametrize("token", [None, ""])
def test_no_token_and_an_empty_one_end_a_list(token: str | None) -> None:
    body = json.dumps({"items": [{"name": "s"}], "nextPageToken": token}).encode()
    with scripted(always(Say(200, body))) as server:
        assert len(list(client(server.url).shares())) == 1


def test_an_old_server_without_all_tables_is_walked() -> None:
    def script(asked: Asked) -> Say:
        if asked.path.endswith("/all-tables"):
            return Say(404)
        if asked.path.endswith("/schemas"):
            return Say(200, b'{"items":[{"name":"d","share":"s"}]}')
        return Say(200, b'{"items":[{"name":"t","schema":"d","share":"s"}]}')

    with scripted(script) as server:
        assert [one["name"] for one in client(server.url).tables("s")] == ["t"]


def test_an_old_server_tells_the_version_to_head_only() -> None:
    def script(asked: Asked) -> Say:
        return (
            Say(200, headers={"Delta-Table-Version": "7"}) if asked.method == "HEAD" else Say(404)
        )

    with scripted(script) as server:
        assert client(server.url).version(TABLE) == 7


@pytest.mark.parametrize("is_zipped", [False, True])
def test_a_huge_line_is_an_error_and_not_held(is_zipped: bool) -> None:
    """Also one that comes in a small parcel."""
    import resource

    head = lines(PROTOCOL, METADATA)
    piece = b" " * (1 << 20)

    def send(connection: socket.socket) -> None:
        first = b"HTTP/1.1 200 OK\r\nDelta-Table-Version: 1\r\nConnection: close\r\n"
        if is_zipped:
            pack = zlib.compressobj(1, wbits=31)
            connection.sendall(first + b"Content-Encoding: gzip\r\n\r\n")
            connection.sendall(pack.compress(head + b'{"x":"'))
            for _ in range(400):
                connection.sendall(pack.compress(piece))
            connection.sendall(pack.flush())
            return
        connection.sendall(first + b"\r\n" + head + b'{"x":"')
        for _ in range(100):
            connection.sendall(piece)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (
        scripted(always(Say(raw=send))) as server,
        pytest.raises(BadAnswer, match="a line of the answer is longer"),
    ):
        list(client(server.url).query(TABLE, Query()).files())
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


def test_a_list_of_endless_size_is_an_error() -> None:
    def send(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for _ in range(100):
            connection.sendall(b" " * (1 << 20))

    with (
        scripted(always(Say(raw=send))) as server,
        pytest.raises(BadAnswer, match="more than 67,108,864 bytes"),
    ):
        list(client(server.url).shares())


def test_redirects_keep_credentials_at_home() -> None:
    with scripted(always(Say(200, b'{"items":[]}'))) as other:
        moved = Say(307, headers={"Location": f"{other.url}/elsewhere"})
        with scripted(always(moved)) as server:
            list(client(server.url).shares())
        assert other.asked[0].path == "/elsewhere"
        assert "authorization" not in other.asked[0].headers
        assert server.asked[0].headers["authorization"] == "Bearer token"


def test_answers_may_be_zipped() -> None:
    body = gzip.compress(b'{"items":[{"name":"s"}]}')
    zipped = Say(200, body, {"Content-Encoding": "gzip"})
    with scripted(always(zipped)) as server:
        assert len(list(client(server.url).shares())) == 1
        assert server.asked[0].headers["accept-encoding"] == "gzip"


def test_a_zipped_answer_that_is_cut_is_asked_again() -> None:
    body = gzip.compress(b'{"items":[{"name":"s"}]}')
    half = Say(200, body[:-9], {"Content-Encoding": "gzip"})
    with scripted(failing(1, half, Say(200, body, {"Content-Encoding": "gzip"}))) as server:
        assert len(list(client(server.url).shares())) == 1
        assert len(server.asked) == 2


# -- files -------------------------------------------------------------------------------


class Files:
    """A table of one file at a storage that a test can make lie."""

    def __init__(self, data: bytes, **line: Any):
        self.data = data
        self.size = len(data)
        self.line = line
        self.generation = 0
        self.queries: list[Any] = []
        self.gets: list[Asked] = []
        self.url = ""

    def __call__(self, asked: Asked) -> Say:
        if asked.method == "POST":
            self.queries.append(asked.json)
            self.generation += 1
            line = file_line(f"{self.url}/g{self.generation}", self.size, **self.line)
            return told(line, {"endStreamAction": {"refreshToken": "again"}})
        self.gets.append(asked)
        return self.get(asked)

    def get(self, asked: Asked) -> Say:
        """A range of the file."""
        first, _, last = asked.headers["range"].removeprefix("bytes=").partition("-")
        part = self.data[int(first) : int(last) + 1]
        end = int(first) + len(part) - 1
        return Say(206, part, {"Content-Range": f"bytes {first}-{end}/{len(self.data)}"})

    def rows(self) -> list[dict[str, Any]]:
        with scripted(self) as server:
            self.url = server.url
            return rows_of(open_version(client(server.url), TABLE, Query(NEWEST)))


def test_files_are_read_in_parts_without_credentials() -> None:
    data = parquet(400_000, row_group_size=50_000)
    files = Files(data)
    assert len(files.rows()) == 400_000
    assert len(data) > 1 << 20
    assert len(files.gets) > 2
    assert all("authorization" not in one.headers for one in files.gets)


def test_a_storage_without_ranges_gives_the_whole_file() -> None:
    files = Files(parquet(400_000, row_group_size=50_000))
    files.get = lambda _: Say(200, files.data)  # type: ignore[method-assign]
    assert len(files.rows()) == 400_000
    assert len(files.gets) == 1


@pytest.mark.parametrize("difference", [-1, 1, 1000])
@pytest.mark.parametrize("rows", [10, 400_000])
@pytest.mark.parametrize("has_ranges", [True, False])
def test_a_size_that_is_a_lie_is_found(difference: int, rows: int, has_ranges: bool) -> None:
    files = Files(parquet(rows))
    files.size += difference
    if not has_ranges:
        files.get = lambda _: Say(200, files.data)  # type: ignore[method-assign]
    with pytest.raises(CorruptLog, match="bytes that the server told"):
        files.rows()


def test_another_part_than_was_asked_is_no_answer() -> None:
    files = Files(parquet())
    files.get = lambda _: Say(206, b"PAR1", {"Content-Range": "bytes 0-3/9"})  # type: ignore[method-assign]
    with pytest.raises(DeltaCliError):
        files.rows()


def test_what_is_no_parquet_is_an_error() -> None:
    with pytest.raises(CorruptLog, match="cannot be read"):
        Files(b"this is no parquet file").rows()


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_url_that_has_ended_is_asked_for_again(status: int) -> None:
    """Of the version that was read, by its token."""
    files = Files(parquet())

    def get(asked: Asked) -> Say:
        return Say(status) if asked.path == "/g1" else Files.get(files, asked)

    files.get = get  # type: ignore[method-assign]
    assert len(files.rows()) == 10
    assert files.queries == [{"includeRefreshToken": True}, {"refreshToken": "again"}]


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [(403, StorageError, "refuses to give"), (404, CorruptLog, "not there any more"),
     (500, StorageError, "failed with 500")],
)  # fmt: skip
def test_a_file_that_cannot_be_had_is_an_error(
    status: int, error: type[DeltaCliError], message: str
) -> None:
    files = Files(parquet())
    files.get = lambda _: Say(status, b"<Error>no</Error>")  # type: ignore[method-assign]
    with pytest.raises(error, match=message):
        files.rows()
    assert len(files.queries) <= 2


def test_many_readers_ask_once_for_new_urls() -> None:
    """However many files find their URLs ended at the same time."""
    data = parquet()
    generation = [0]
    queries: list[Any] = []
    url = [""]

    def script(asked: Asked) -> Say:
        if asked.method == "POST":
            queries.append(asked)
            generation[0] += 1
            return told(*(file_line(f"{url[0]}/{generation[0]}/{n}", len(data), f"f{n}")
                          for n in range(16)))  # fmt: skip
        return Say(403) if asked.path.startswith("/1/") else Say(200, data)

    with scripted(script) as server:
        url[0] = server.url
        version = open_version(client(server.url), TABLE, Query(NEWEST))
        for line in version.lines():
            version.store.take(line)
        found: list[int] = []

        def read(number: int) -> None:
            with version.store.open(f"data/f{number}") as file:
                found.append(len(file.read()))

        threads = [threading.Thread(target=read, args=(n,)) for n in range(16)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert found == [len(data)] * 16
    assert len(queries) == 2


def test_a_token_that_has_ended_gives_way_to_the_version() -> None:
    data = parquet()
    url = [""]

    def script(asked: Asked) -> Say:
        if asked.method == "GET":
            return Say(403) if asked.path == "/old" else Say(200, data)
        if "refreshToken" in asked.json:
            return Say(400, json.dumps(ERROR).encode())
        name = "new" if "version" in asked.json else "old"
        return told(file_line(f"{url[0]}/{name}", len(data)),
                    {"endStreamAction": {"refreshToken": "short"}})  # fmt: skip

    with scripted(script) as server:
        url[0] = server.url
        assert len(rows_of(open_version(client(server.url), TABLE, Query(NEWEST)))) == 10


def test_a_full_disk_is_no_fault_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import tempfile

    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", lambda _: Full())
    with (
        scripted(always(SHARES)) as server,
        pytest.raises(StorageError, match="kept on this machine: No space"),
    ):
        list(client(server.url).shares())
    assert len(server.asked) == 1


def test_tls_at_a_port_without_it_is_said_at_once() -> None:
    with (
        scripted(always(SHARES)) as server,
        pytest.raises(StorageError, match="does not speak TLS"),
    ):
        list(client(server.url.replace("http:", "https:")).shares())


def test_without_tokens_and_history_the_same_version_must_still_be_the_newest() -> None:
    data = parquet()
    url, newest = [""], [3]

    def script(asked: Asked) -> Say:
        if asked.method == "GET":
            return Say(403) if asked.path == "/old" else Say(200, data)
        if "version" in asked.json:
            return Say(400, json.dumps(ERROR).encode())
        name = "old" if not asked_before else "new"
        asked_before.append(1)
        return told(file_line(f"{url[0]}/{name}", len(data)), version=newest[0])

    for moves in (False, True):
        asked_before: list[int] = []
        newest[0] = 3
        with scripted(script) as server:
            url[0] = server.url
            version = open_version(client(server.url), TABLE, Query(NEWEST))
            if not moves:
                assert len(rows_of(version)) == 10
                continue
            newest[0] = 4
            with pytest.raises(StorageError, match="is at 4 by now"):
                rows_of(version)


def test_a_table_is_not_refused_for_what_it_has_not() -> None:
    with scripted(always(told())) as server:
        assert rows_of(open_version(client(server.url), TABLE, Query(NEWEST))) == []
