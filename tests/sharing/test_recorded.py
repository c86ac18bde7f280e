"""What the reference server really answered, told to our client once more.

`recorded/reference.json` holds exchanges with the reference implementation (its main branch of
August 2026) in front of an S3 emulator, the files that it shared, and the rows of its tables by
another reader. Signatures are cut off; tokens, and times but for the ends of URLs, are as they
came.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from deltacli.delta.schema import Struct
from deltacli.errors import DeltaCliError, NotFound, Refused, StorageError
from deltacli.local.scan import read_rows
from deltacli.sharing.client.http import Http
from deltacli.sharing.client.rows import open_changes, open_version, schema_of
from deltacli.sharing.client.server import BOTH, NEWEST, At, Query, Range, SharingServer
from deltacli.sharing.profile import Bearer, Profile
from deltacli.sharing.source.options import Place, StreamOptions
from deltacli.sharing.source.parts import read_part, with_changes
from deltacli.sharing.source.stream import Stream
from tests.rows import multiset
from tests.sharing.client import SOON, rows_of, table
from tests.sharing.scripted import Asked, Say, scripted

RECORDED = Path(__file__).with_name("recorded") / "reference.json"
FILES = "http://files.invalid"
PREFIX = "/delta-sharing"
EVERY = ("append", "cm", "dv", "evol", "plain", "widen")
SIMPLE = ("append", "evol", "plain")


@cache
def recorded() -> dict[str, Any]:
    return dict(json.loads(RECORDED.read_text()))


def key(method: str, path: str, formats: str, token: str, body: Any) -> str:
    """What makes two requests the same question."""
    parts = urlsplit(path)
    query = sorted(parse_qsl(parts.query))
    return json.dumps([method, parts.path, query, formats, token, body], sort_keys=True)


def key_of(asked: Asked) -> str:
    words = dict(
        one.partition("=")[::2]
        for one in asked.headers.get("delta-sharing-capabilities", "").split(";")
    )
    formats = words.get("responseformat", "")
    body = json.loads(asked.body) if asked.body else None
    if body and "refreshToken" in body:
        body["refreshToken"] = "of the first answer, which is the same whenever it was asked"
    return key(asked.method, asked.path, formats, asked.headers.get("authorization", ""), body)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that says what the reference server said."""
    place = [""]

    def script(asked: Asked) -> Say:
        if not asked.path.startswith(PREFIX):
            content = recorded()["files"].get(urlsplit(asked.path).path)
            return Say(404) if content is None else Say(200, base64.b64decode(content))
        answer = recorded()["exchanges"].get(key_of(asked))
        if answer is None:
            return Say(418, f"nobody asked this when it was recorded: {key_of(asked)}".encode())
        body = answer["body"].replace(FILES, place[0])
        # URLs are as good as they were then: for an hour.
        ends = f'"expirationTimestamp":{time.time_ns() // 1_000_000 + 3_600_000}'
        body = re.sub('"expirationTimestamp":[0-9]+', ends, body).encode()
        return Say(answer["status"], body, answer["headers"])

    with scripted(script) as server:
        place[0] = server.url
        yield server.url + PREFIX


def asking(
    url: str, formats: Sequence[str] = BOTH, size: int | None = None, token: str = "reftoken"
) -> SharingServer:
    return SharingServer(Profile(url, Bearer(token)), Http(SOON), formats=formats, page_size=size)


def expected(name: str, version: int | None = None) -> Counter[str]:
    rows = recorded()["rows"][name]
    return Counter(rows[str(max(map(int, rows)) if version is None else version)])


def of(name: str) -> Any:
    return table(f"s1.default.{name}")


def test_lists(url: str) -> None:
    server = asking(url)
    assert [one["name"] for one in server.shares()] == ["s1", "s2", "s3"]
    assert [one["name"] for one in server.schemas("s1")] == ["default", "empty"]
    assert list(server.schemas("s3")) == []
    assert list(server.tables("s1", "empty")) == []
    assert {"plain", "dv", "cm"} <= {one["name"] for one in server.tables("s1")}


@pytest.mark.parametrize("name", EVERY)
def test_rows_are_those_of_another_reader(name: str, url: str) -> None:
    for formats in (BOTH, ("delta",), ("parquet",)):
        server = asking(url, formats)
        assert server.version(of(name)) == max(map(int, recorded()["rows"][name]))
        if formats == ("parquet",) and name not in SIMPLE:
            with pytest.raises(Refused):
                rows_of(open_version(server, of(name), Query(NEWEST)))
            continue
        assert multiset(rows_of(open_version(server, of(name), Query(NEWEST)))) == expected(name)


@pytest.mark.parametrize("name", SIMPLE)
@pytest.mark.parametrize("formats", [("parquet",), ("delta",)])
def test_pages_and_versions(name: str, formats: tuple[str], url: str) -> None:
    paged = asking(url, formats, 1)
    assert multiset(rows_of(open_version(paged, of(name), Query(NEWEST)))) == expected(name)
    server = asking(url, formats)
    for version in map(int, recorded()["rows"][name]):
        found = rows_of(open_version(server, of(name), Query(At(version=version))))
        assert multiset(found) == expected(name, version), version


@pytest.mark.parametrize("formats", [("parquet",), ("delta",)])
@pytest.mark.parametrize("size", [None, 2])
def test_changes(formats: tuple[str], size: int | None, url: str) -> None:
    changes = open_changes(asking(url, formats, size), of("plain"), Range(At(version=0)))
    wanted = with_changes(changes.schema)
    rows = [row for files, one in changes.scan() for batch in read_rows(files, [one], wanted)
            for row in batch.to_pylist()]  # fmt: skip
    assert left(rows, changes.schema) == expected("plain")


def left(changes: list[dict[str, Any]], schema: Struct) -> Counter[str]:
    """The rows that are left after changes."""
    gone = [one for one in changes if one["_change_type"] in ("delete", "update_preimage")]
    come = [one for one in changes if one not in gone]
    plain = [[{field.name: one[field.name] for field in schema.fields} for one in rows]
             for rows in (come, gone)]  # fmt: skip
    return multiset(plain[0]) - multiset(plain[1])


@pytest.mark.parametrize("formats", [("parquet",), ("delta",)])
@pytest.mark.parametrize("name", ["append", "plain"])
@pytest.mark.parametrize("from_snapshot", [True, False])
def test_streams(name: str, formats: tuple[str], from_snapshot: bool, url: str) -> None:
    server = asking(url, formats)
    schema = schema_of(server.metadata(of(name)).head[1].metadata)
    reads_changes = name == "plain"
    start = NEWEST if from_snapshot else At(version=0)
    place = Place("-", of(name), formats=formats, reads_changes=reads_changes)
    wanted = with_changes(schema) if reads_changes else schema
    stream = Stream(server, StreamOptions(place, start, max_files=2, max_versions=2), wanted)
    rows, at = [], stream.beginning()
    while (end := stream.latest(at)) != at:
        for part in stream.parts(at, end):
            rows += [row for batch in read_part(part, wanted) for row in batch.to_pylist()]
        at = end
    assert (left(rows, schema) if reads_changes else multiset(rows)) == expected(name)


def test_refusals(url: str) -> None:
    server = asking(url)
    with pytest.raises(NotFound, match="nix"):
        server.version(table("s1.default.nix"))
    with pytest.raises(NotFound, match="99"):
        server.query(of("plain"), Query(At(version=99)))
    with pytest.raises(Refused, match="history sharing is not enabled"):
        server.query(table("s2.nohist.plain"), Query(At(version=1)))
    with pytest.raises(StorageError, match="credentials"):
        list(asking(url, token="wrong").shares())
    with pytest.raises(DeltaCliError, match="missing"):
        server.metadata(table("s2.nohist.gone"))


def test_a_refresh_token_gives_the_same_files(url: str) -> None:
    for formats in (("parquet",), ("delta",)):
        version = open_version(asking(url, formats), of("plain"), Query(NEWEST))
        first = {line.id for line in version.lines()}
        assert first
        assert {line.id for line in version.renewal()} == first
