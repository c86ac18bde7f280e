"""Streams lose no row and tell none twice, whatever happens to the table and to the reader."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from deltacli.delta.schema import Struct, parse_schema
from deltacli.errors import DeltaCliError, Refused, UsageError
from deltacli.sharing.client import answer
from deltacli.sharing.client import server as sharing_server
from deltacli.sharing.client.server import BOTH, At
from deltacli.sharing.source.offsets import parse_offset
from deltacli.sharing.source.options import Place, StreamOptions, parse_batch, parse_stream
from deltacli.sharing.source.parts import read_part, with_changes
from deltacli.sharing.source.stream import Stream
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, column, commit_info, metadata, protocol, remove
from tests.sharing import scripted as scripts
from tests.sharing.client import client, table
from tests.sharing.living import COLUMNS, LivingTable, Row, replayed
from tests.sharing.serving import Server, one_share, serving, shared

pytestmark = pytest.mark.xdist_group("sharing_client")
SCHEMA = parse_schema(json.dumps({"type": "struct", "fields": list(COLUMNS)}))
ALL = ("append", "append", "append", "delete_file", "delete_rows", "update", "compact", "touch")


class Crash(Exception):
    """The reader is killed."""


class Engine:
    """Structured Streaming as far as a source sees it: two logs, a sink that knows its batches.

    `crashes` says at which of its steps it is killed; what it logged before stays.
    """

    def __init__(self, server: Server, options: StreamOptions, seed: int = 0):
        self.server = server
        self.options = options
        self.random = random.Random(seed)
        self.offsets: list[Any] = []
        self.commits = 0
        self.batches: dict[int, list[dict[str, Any]]] = {}
        self.crash_chance = 0.0

    def run(self, *, frozen: bool = True) -> None:
        """Read all there is, as Trigger.AvailableNow does."""
        reads_changes = self.options.place.reads_changes
        schema = with_changes(SCHEMA) if reads_changes else SCHEMA
        stream = Stream(client(self.server), self.options, schema)
        first = through_json(stream.beginning().json())
        if frozen:
            stream.freeze()
        if len(self.offsets) > self.commits:
            self._batch(stream, first, schema)
        while True:
            start = self.offsets[-1] if self.offsets else first
            end = through_json(stream.latest(parse_offset(start)).json())
            if end == start:
                return
            self.offsets.append(end)
            self._crash()
            self._batch(stream, first, schema)

    def _batch(self, stream: Stream, first: Any, schema: Struct) -> None:
        number = self.commits
        # Of its first batch Spark knows the end only.
        start = self.offsets[number - 1] if number else first
        parts = stream.parts(parse_offset(start), parse_offset(self.offsets[number]))
        rows = [row for part in parts for batch in read_part(part, schema)
                for row in batch.to_pylist()]  # fmt: skip
        self._crash()
        self.batches[number] = rows
        self._crash()
        self.commits += 1

    def _crash(self) -> None:
        if self.random.random() < self.crash_chance:
            raise Crash

    @property
    def sink(self) -> list[dict[str, Any]]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    @property
    def rows(self) -> Counter[Row]:
        return Counter((row["id"], row["word"]) for row in self.sink)


def through_json(offset: dict[str, Any]) -> Any:
    return json.loads(json.dumps(offset))


def options(**more: Any) -> StreamOptions:
    reads_changes = more.pop("reads_changes", False)
    place = Place("-", table("t"), reads_changes=reads_changes, partition_bytes=10 << 20)
    return StreamOptions(place, **{"max_files": 2, "max_versions": 3, **more})


@pytest.fixture
def living(tmp_path: Path) -> Iterator[tuple[LivingTable, Server]]:
    made = LivingTable(tmp_path / "t")
    with serving(one_share(shared("t", made.folder))) as server:
        yield made, server


WAYS = {
    "appended": (options(skips_change_commits=True, start=At(version=0)), ALL),
    "without deletes": (
        options(ignores_deletes=True, start=At(version=0)),
        ("append", "append", "delete_file", "compact", "touch"),
    ),
    "all files": (options(ignores_changes=True, start=At(version=0)), ALL),
    "changes": (options(reads_changes=True, start=At(version=0)), ALL),
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", WAYS)
def test_a_stream_that_is_killed_again_and_again_tells_each_row_once(
    way: str, seed: int, living: tuple[LivingTable, Server]
) -> None:
    made, server = living
    asked, happenings = WAYS[way]
    engine = Engine(server, asked, seed)
    made.random.seed(seed)
    engine.crash_chance = 0.3
    for _ in range(25):
        made.live(2, *happenings)
        try:
            engine.run()
        except Crash:
            continue
    engine.crash_chance = 0.0
    engine.run()
    assert made.version > 30
    if way == "changes":
        assert replayed(engine.sink) == made.rows
    elif way == "all files":
        assert engine.rows == made.emitted
    else:
        assert engine.rows == made.appended


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reads_changes", [False, True])
def test_a_stream_that_begins_with_a_snapshot_goes_on_from_there(
    seed: int, reads_changes: bool, living: tuple[LivingTable, Server]
) -> None:
    """Also if it is killed in its first batch, while the table goes on."""
    made, server = living
    made.random.seed(seed)
    made.live(8, *ALL)
    made.append(5)
    before, appended = made.rows, made.appended.copy()
    engine = Engine(
        server, options(skips_change_commits=not reads_changes, reads_changes=reads_changes), seed
    )
    engine.crash_chance = 1.0
    with pytest.raises(Crash):
        engine.run()
    # It had planned its first batch; what comes now is newer than its snapshot.
    made.live(6, *ALL)
    engine.crash_chance = 0.3
    for _ in range(30):
        made.live(1, *ALL)
        try:
            engine.run()
        except Crash:
            continue
    engine.crash_chance = 0.0
    engine.run()
    if reads_changes:
        assert replayed(engine.sink) == made.rows
    else:
        assert engine.rows == before + (made.appended - appended)


def test_vacuum_does_not_hurt_a_stream_that_keeps_up(living: tuple[LivingTable, Server]) -> None:
    made, server = living
    engine = Engine(server, options(skips_change_commits=True, start=At(version=0)))
    for _ in range(12):
        made.live(3, *ALL)
        engine.run()
        made.vacuum()
    assert engine.rows == made.appended


def test_a_stream_that_lags_behind_vacuum_says_what_is_missing(
    living: tuple[LivingTable, Server],
) -> None:
    made, server = living
    made.append()
    made.compact()
    made.vacuum()
    engine = Engine(server, options(start=At(version=0)))
    with pytest.raises(DeltaCliError, match="not there any more") as caught:
        engine.run()
    assert caught.value.exit_code == 5


def test_admission_is_by_files_and_by_bytes_and_at_least_one(
    living: tuple[LivingTable, Server],
) -> None:
    made, server = living
    made.append(7)
    for more, expected in (
        ({"max_files": 3}, [3, 3, 1]),
        ({"max_files": None, "max_bytes": 1}, [1] * 7),
        ({"max_files": 2, "max_bytes": 1}, [1] * 7),
        ({"max_files": None, "max_bytes": 1 << 30}, [7]),
    ):
        engine = Engine(server, options(start=At(version=1), **more))
        engine.run()
        files = [planned(engine, number) for number in range(len(engine.offsets))]
        assert files == expected, more


def planned(engine: Engine, number: int) -> int:
    """How many files a batch has, planned anew as after a restart."""
    stream = Stream(client(engine.server), engine.options, SCHEMA)
    end = parse_offset(engine.offsets[number])
    start = parse_offset(engine.offsets[number - 1]) if number else end.beginning
    groups = [group for part in stream.parts(start, end) for group in part.groups]
    return sum(len(one.lines) for one in groups)


@pytest.mark.parametrize("knows_header", [True, False])
@pytest.mark.parametrize("formats", [("parquet", "delta"), ("delta", "parquet")])
def test_a_version_is_counted_the_same_way_in_either_format(
    knows_header: bool, formats: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids of files, and so their order, may differ by format; a server may change it any time."""
    small(tmp_path / "t", HEAD)
    built = TableBuilder(LocalStore(str(tmp_path / "t")))
    names = [f"{number}.parquet" for number in range(9)]
    built.commit(commit_info(), *map(add, names), version=1)
    if not knows_header:
        monkeypatch.setattr(answer, "ID_HASH", "nobody-knows")
        monkeypatch.setattr(sharing_server, "ID_HASH", "nobody-knows")
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        seen: list[str] = []
        at = None
        for turn in range(5):
            # It answers in one format, and in the other the next time.
            reader = client(server, BOTH)
            wished = reader.asking_in
            reader.asking_in = lambda ids, n=turn, ask=wished: ask(ids or formats[n % 2])  # type: ignore[method-assign]
            stream = Stream(reader, options(start=At(version=0)), SCHEMA)
            at = at or stream.beginning()
            end = parse_offset(through_json(stream.latest(at).json()))
            for part in stream.parts(at, end):
                seen += [line.data.url for group in part.groups for line in group.lines]
            at = end
    assert len(seen) == len({path_of(one) for one in seen}) == 9


def path_of(url: str) -> str:
    """The file that a URL of ours stands for."""
    grant = urlsplit(url).path.rsplit("/", 2)[1]
    return base64.urlsafe_b64decode(grant + "=" * (-len(grant) % 4)).rsplit(b"\0", 1)[1].decode()


def test_a_commit_of_changes_is_never_split(living: tuple[LivingTable, Server]) -> None:
    made, server = living
    made.append(5)
    engine = Engine(server, options(reads_changes=True, start=At(version=0), max_files=1))
    engine.run()
    assert len(engine.sink) == sum(made.rows.values())
    assert len([one for one in engine.batches.values() if one]) == 1


def test_what_comes_after_the_freeze_waits(living: tuple[LivingTable, Server]) -> None:
    made, server = living
    made.append()
    stream = Stream(client(server), options(start=At(version=0)), SCHEMA)
    stream.freeze()
    made.append()
    end = stream.latest(stream.beginning())
    assert end.position.version == 2
    assert stream.latest(end) == end


def test_the_server_is_not_asked_too_often(living: tuple[LivingTable, Server]) -> None:
    made, server = living
    now = [0.0]
    asked = options(start=At(version=0), interval_s=30)
    stream = Stream(client(server), asked, SCHEMA, clock=lambda: now[0])
    at = stream.latest(stream.beginning())
    made.append()
    for now[0] in (1.0, 10.0, 29.9):
        assert stream.latest(at) == at
    now[0] = 30.0
    assert stream.latest(at) != at
    asked_for = [one.path for one in server.spy.seen if one.path.endswith("/version")]
    assert len(asked_for) == 2


def test_all_available_takes_every_window_at_once(living: tuple[LivingTable, Server]) -> None:
    made, server = living
    for _ in range(8):
        made.append(2)
    stream = Stream(client(server), options(start=At(version=0)), SCHEMA)
    end = stream.latest(stream.beginning(), takes_all=True)
    assert end.position.version == 9
    assert sum(len(one.lines) for part in stream.parts(stream.beginning(), end)
               for one in part.groups) == 16  # fmt: skip


# -- what must not happen ----------------------------------------------------------------


def small(folder: Path, *commits: list[Any]) -> None:
    built = TableBuilder(LocalStore(str(folder)))
    for actions in commits:
        built.commit(*actions)


HEAD = [commit_info("CREATE"), protocol(), metadata(*COLUMNS)]


@pytest.mark.parametrize(
    ("commits", "more", "message"),
    [
        ([[remove("a"), add("b")]], {}, "changed rows"),
        ([[remove("a"), add("b")]], {"ignores_deletes": True}, "changed rows"),
        ([[remove("a"), add("b")]], {"ignores_changes": True}, None),
        ([[remove("a"), add("b")]], {"skips_change_commits": True}, None),
        ([[remove("a")]], {}, "deleted rows"),
        ([[remove("a")]], {"ignores_deletes": True}, None),
        ([[remove("a")]], {"ignores_changes": True}, None),
        ([[remove("a")]], {"skips_change_commits": True}, None),
        ([[remove("a", dataChange=False), add("b", dataChange=False)]], {}, None),
        ([[metadata(*COLUMNS, column("more"))]], {}, "more is new"),
        ([[metadata(column("id"), column("Word", "string"))]], {}, "Word is new"),
        ([[metadata(column("id", "integer"), column("word", "string"))]], {}, "id is integer"),
        ([[metadata(column("id"))], [add("c")]], {}, None),
        ([[metadata(*COLUMNS, id="other")]], {}, "made anew"),
    ],
)
def test_what_a_stream_of_rows_cannot_tell_is_an_error(
    commits: list[list[Any]], more: dict[str, bool], message: str | None, tmp_path: Path
) -> None:
    small(tmp_path / "t", HEAD, [commit_info(), add("a")],
          *[[commit_info(), *one] for one in commits])  # fmt: skip
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        stream = Stream(client(server), options(start=At(version=0), **more), SCHEMA)
        start = parse_offset({"v": 1, "tableId": metadata()["metaData"]["id"], "version": 0,
                              "index": 0, "anchor": {"version": 0, "kind": "version"},
                              "cdf": False})  # fmt: skip
        if message is None:
            assert stream.latest(start).position.version > 2
            return
        with pytest.raises(Refused, match=message) as caught:
            stream.latest(start)
        assert caught.value.hint


def test_a_start_that_is_far_ahead_is_refused(tmp_path: Path) -> None:
    small(tmp_path / "t", HEAD)
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        assert Stream(client(server), options(start=At(version=1)), SCHEMA).beginning()
        stream = Stream(client(server), options(start=At(version=2)), SCHEMA)
        with pytest.raises(Refused, match="is at version 0"):
            stream.beginning()


def test_a_table_without_history_cannot_be_streamed(tmp_path: Path) -> None:
    small(tmp_path / "t", HEAD)
    with serving(one_share(shared("t", tmp_path / "t", history_shared=False))) as server:
        stream = Stream(client(server), options(), SCHEMA)
        with pytest.raises(Refused, match="needs the table's history"):
            stream.latest(stream.beginning())


def test_a_checkpoint_of_another_stream_is_refused(tmp_path: Path) -> None:
    small(tmp_path / "t", HEAD)
    with serving(one_share(shared("t", tmp_path / "t"))) as server:
        stream = Stream(client(server), options(start=At(version=0)), SCHEMA)
        begun = stream.beginning()
        with pytest.raises(Refused, match="readChangeFeed"):
            stream.latest(replace(begun, reads_changes=True))
        with pytest.raises(Refused, match="made anew"):
            stream.latest(replace(begun, table_id="another"))
    for body in ({}, {"v": 2}, {"v": 1, "tableId": "x"}, {"sourceVersion": 1}):
        with pytest.raises(Refused, match="checkpoint"):
            parse_offset(body)


PATH = {"path": "me.share#a.b.c"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "names no profile"),
        ({"path": "me.share#a.b"}, "is no shared table"),
        ({"startingversion": "0", "startingTimestamp": "2026-01-01"}, "exclude each other"),
        ({"startingVersion": "latest", "startingTimestamp": "2026-01-01"}, "one start"),
        ({"startingVersion": "-1"}, "whole number"),
        ({"startingTimestamp": "soon"}, "no time"),
        ({"queryTableVersionIntervalSeconds": "9"}, "every 10 seconds"),
        ({"maxVersionsPerRpc": "0"}, "whole number from 1"),
        ({"maxFilesPerTrigger": "x"}, "whole number"),
        ({"startingVersion": "1" * 5000}, "whole number"),
        ({"startingTimestamp": "0001-01-01T00:00:00+01:00"}, "no time"),
        ({"timeout": "0s"}, "between 100 ms and a day"),
        ({"maxBytesPerTrigger": "1q"}, "bytes"),
        ({"ignoreChanges": "yes"}, "true or false"),
        ({"responseFormat": "csv"}, "delta, parquet or auto"),
        ({"versionAsOf": "1"}, "is for a batch"),
        ({"maxFilePerTrigger": "1"}, "did you mean maxfilespertrigger"),
    ],
)
def test_options_that_make_no_sense_are_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_stream({**PATH, **given} if given else {})
    assert message in f"{caught.value.message} ({caught.value.hint})"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"versionAsOf": "1", "timestampAsOf": "2026-01-01"}, "exclude each other"),
        ({"startingVersion": "1"}, "for changes"),
        ({"readChangeFeed": "true"}, "needs startingVersion"),
        ({"readChangeFeed": "true", "startingVersion": "1", "versionAsOf": "1"}, "no version"),
        ({"maxFilesPerTrigger": "1"}, "is for a stream"),
    ],
)
def test_options_of_a_batch_that_make_no_sense_are_named(
    given: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        parse_batch({**PATH, **given})


def test_usual_options_are_those_of_other_clients() -> None:
    found = parse_stream(PATH)
    assert (found.max_files, found.max_bytes, found.max_versions, found.interval_s) == (
        1000, None, 100, 30,
    )  # fmt: skip
    assert parse_stream({**PATH, "maxBytesPerTrigger": "1g"}).max_files is None
    assert parse_stream(PATH, 60).interval_s == 60
    with pytest.raises(UsageError, match="every 10 seconds"):
        parse_stream(PATH, 5)
    started = parse_stream({**PATH, "STARTINGTIMESTAMP": "2026-01-01 10:00:00+01:00"})
    assert started.start == At(timestamp="2026-01-01T09:00:00.000Z")


@pytest.mark.parametrize("reads_changes", [False, True])
def test_what_a_server_tells_too_much_is_passed_over(reads_changes: bool) -> None:
    """Later versions than asked for, files without a change of data, and changes told twice."""
    id_only = {"id": "t", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
               "schemaString": scripts.METADATA["metaData"]["schemaString"],
               "configuration": {}}  # fmt: skip
    head = [
        {"protocol": {"deltaProtocol": {"minReaderVersion": 1, "minWriterVersion": 4}}},
        {"metaData": {"deltaMetadata": id_only, "version": 0}},
    ]

    def line(version: int, kind: str, name: str, **more: Any) -> dict[str, Any]:
        body = {"path": f"https://x/{name}", "size": 1, "partitionValues": {}, **more}
        return {"file": {"id": name, "version": version, "timestamp": version,
                         "deltaSingleAction": {kind: body}}}  # fmt: skip

    files = [
        line(0, "add", "a"),
        line(1, "add", "b"),
        *([line(1, "cdc", "c")] if reads_changes else []),
        line(2, "add", "d", dataChange=False),
        line(2, "remove", "a", dataChange=False),
        line(9, "add", "e"),
    ]
    header = {**scripts.NDJSON, "Delta-Table-Version": "0"}

    def script(asked: scripts.Asked) -> scripts.Say:
        if asked.path.endswith("/version"):
            return scripts.Say(200, headers={"Delta-Table-Version": "2"})
        body = scripts.lines(*head) if asked.path.endswith("/metadata") else scripts.lines(
            *head, *files)  # fmt: skip
        return scripts.Say(200, body, header)

    schema = Struct(SCHEMA.fields[:1])
    with scripts.scripted(script) as server:
        asked = options(start=At(version=0), reads_changes=reads_changes, max_files=9)
        wanted = with_changes(schema) if reads_changes else schema
        stream = Stream(client(server.url), asked, wanted)
        start = stream.beginning()
        stream.freeze()
        end = stream.latest(start)
        groups = [group for part in stream.parts(start, end) for group in part.groups]
    assert end.position.version == 3
    told = [one.id for group in groups for one in group.lines]
    assert told == (["a", "c"] if reads_changes else ["a", "b"])
