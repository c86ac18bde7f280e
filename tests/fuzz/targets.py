"""What is fuzzed: functions of bytes that raise where something ends as nothing should.

Hypothesis runs them in `test_targets.py`, a fuzzer that follows coverage in `guided.py`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.delta.bitmaps import vector_rows
from deltacli.delta.predicates import NotSimple, parse_condition
from deltacli.delta.schema import BadSchema, parse_schema
from deltacli.errors import EXIT_CODES, DeltaCliError
from deltacli.paimon.change_json import parse_changes
from deltacli.paimon.change_text import parse_change
from deltacli.sharing.hints import read_hints
from deltacli.sharing.profile import parse_profile
from deltacli.units import parse_duration
from tests.builder import (
    add,
    column,
    commit_info,
    domain,
    features,
    metadata,
    remove,
    txn,
    vector,
)
from tests.fuzz.mutation import Choices, mutated, places, text_of

Target = Callable[[bytes], None]
KNOWN_CODES = {code for code, _ in EXIT_CODES} - {70}
COMMANDS = (
    ("history", "-o", "json"), ("history",), ("snapshot",), ("snapshot", "--files", "-o", "jsonl"),
    ("snapshot", "--partitions"), ("snapshot", "--tombstones"), ("snapshot", "--diff", "0"),
    ("snapshot", "--schema"), ("validate", "-o", "json"), ("validate", "--level", "files"),
    ("vacuum", "--dry-run"), ("vacuum", "--explain", "a"), ("checkpoint", "--dry-run"),
    ("checkpoint", "--stats", "both", "--force", "--yes"), ("head",), ("head", "--where", "id > 1"),
    ("widen-type", "id", "decimal(30,2)", "--enable", "--dry-run"), ("widen-type", "--status"),
)  # fmt: skip
PAIMON = (
    ("paimon", "list"), ("paimon", "show", "-o", "json"), ("paimon", "validate", "-o", "json"),
    ("paimon", "alter", "drop column name", "--dry-run"), ("paimon", "expire", "--dry-run"),
    ("paimon", "convert", "--allow-lossy"), ("paimon", "diff", "0", "1"),
)  # fmt: skip
STATS = '{"numRecords":10,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
LOG: list[list[Any]] = [
    [
        commit_info(
            "CREATE TABLE", operationMetrics={"numFiles": "1"}, operationParameters={"a": "b"}
        ),
        features("deletionVectors", "domainMetadata", "columnMapping", "v2Checkpoint"),
        metadata(
            column("id"),
            column("p", "decimal(10,2)"),
            column("s", {"type": "array", "elementType": "string", "containsNull": True}),
            partition_by=["p"],
            configuration={"delta.enableDeletionVectors": "true"},
        ),
        add("p=1/a", partitionValues={"p": "1.00"}, stats=STATS, tags={"k": "v"}),
    ],
    [
        commit_info("DELETE"),
        remove("p=1/a", partitionValues={"p": "1.00"}),
        add("p=1/a", partitionValues={"p": "1.00"}, stats=STATS, deletionVector=vector()),
        txn("app", 1),
        domain("app", "{}"),
    ],
]
SCHEMA = json.loads(LOG[0][2]["metaData"]["schemaString"])
HINT = {"version": 0, "size": 3, "sizeInBytes": 10, "numOfAddFiles": 1}
CHECKSUM = {"tableSizeBytes": 100, "numFiles": 1, "numMetadata": 1, "numProtocol": 1,
            "metadata": LOG[0][2]["metaData"], "protocol": LOG[0][1]["protocol"]}  # fmt: skip
PAIMON_SCHEMA = {
    "version": 3,
    "id": 0,
    "fields": [
        {"id": 0, "name": "id", "type": "BIGINT NOT NULL"},
        {"id": 1, "name": "name", "type": "STRING", "description": "a name"},
        {"id": 2, "name": "r", "type": {"type": "ROW", "fields": [
            {"id": 3, "name": "a", "type": {"type": "ARRAY", "element": "DECIMAL(10, 2)"}}]}},
    ],
    "highestFieldId": 3,
    "partitionKeys": [],
    "primaryKeys": ["id"],
    "options": {"bucket": "2", "sequence.field": "name"},
    "comment": "",
    "timeMillis": 1_700_000_000_000,
}  # fmt: skip
PROFILE = {"shareCredentialsVersion": 2, "type": "oauth_client_credentials", "clientId": "c",
           "endpoint": "https://h/", "tokenEndpoint": "https://h/", "clientSecret": "s",
           "scope": "x", "bearerToken": "t",
           "expirationTime": "2030-01-01T00:00:00.0Z"}  # fmt: skip
HINTS = {"op": "and", "children": [
    {"op": "equal", "children": [
        {"op": "column", "name": "id", "valueType": "long"},
        {"op": "literal", "value": "1", "valueType": "long"}]},
    {"op": "not", "children": [{"op": "isNull", "children": [
        {"op": "column", "name": "p", "valueType": "decimal"}]}]}]}  # fmt: skip
_TYPED = """
    id p s.element and or not in ( ) , is null like between = <> != < <= <=> >= 'a' '' "x" `id`
    DATE TIMESTAMP '2024-01-01' 1 -1 1.5 1e400 9223372036854775808 true cast ( as int ) -- ; \\ é
    add column drop rename to alter type set option unset comment after first INT ROW< > DECIMAL(10,
    VARCHAR(0) MAP<STRING, NOT NULL nullable 7 d h 30m interval week ago yesterday
"""
WORDS = _TYPED.split()


class Wrong(AssertionError):
    """A command ended as none should."""


@contextlib.contextmanager
def _silent() -> Iterator[io.StringIO]:
    """Standard error as text; standard output to nowhere."""
    told = io.StringIO()
    with open(os.devnull, "w") as nowhere:
        real = sys.stdout
        sys.stdout = nowhere
        try:
            with contextlib.redirect_stderr(told):
                yield told
        finally:
            sys.stdout = real


def run_on(files: dict[str, bytes], choices: Choices, commands: Any) -> None:
    """Two commands on a table of these files."""
    from deltacli.cli.app import run

    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="deltacli-fuzz-", dir=base)
    try:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for _ in range(2):
            words = choices.of(commands)
            at = 2 if words[0] == "paimon" else 1
            engine = ["--engine", "local"] if words[0] in ("head", "checkpoint") else []
            with _silent() as told:
                code = run([*words[:at], folder, *words[at:], *engine])
            if code not in KNOWN_CODES:
                raise Wrong(f"{words} ended with {code}: {told.getvalue()}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def log(content: bytes) -> None:
    """Commits, the hint and the checksum with something wrong in them."""
    choices = Choices(content)
    whole = mutated([LOG, HINT, CHECKSUM], choices)
    commits, hint, checksum = (
        (list(whole) + [None] * 3)[:3] if isinstance(whole, list) else [[]] * 3
    )
    files = {}
    for version, actions in enumerate(commits if isinstance(commits, list) else []):
        lines = [text_of(one, choices) for one in actions] if isinstance(actions, list) else [b"x"]
        files[f"_delta_log/{version:020}.json"] = b"\n".join(lines)
    if hint is not None:
        files["_delta_log/_last_checkpoint"] = text_of(hint, choices)
    if checksum is not None:
        files[f"_delta_log/{1:020}.crc"] = text_of(checksum, choices)
    run_on(files, choices, COMMANDS)


def schema(content: bytes) -> None:
    """The text of a schema."""
    choices = Choices(content)
    text = text_of(mutated(SCHEMA, choices), choices).decode("utf-8", "replace")
    with contextlib.suppress(BadSchema):
        parse_schema(text)
    head = [LOG[0][1], {"metaData": {**LOG[0][2]["metaData"], "schemaString": text}}, LOG[0][3]]
    body = b"\n".join(json.dumps(one).encode() for one in head)
    run_on({f"_delta_log/{0:020}.json": body}, choices, COMMANDS)


_TEXT, _LONG = pa.string(), pa.int64()
_ODD_TYPES = (
    _TEXT, _LONG, pa.int32(), pa.float64(), pa.bool_(), pa.binary(), pa.list_(_TEXT),
    pa.struct({"path": _TEXT}), pa.map_(_TEXT, _TEXT), pa.decimal128(38, 0), pa.date32(),
    pa.timestamp("us"), pa.dictionary(pa.int32(), _TEXT), pa.large_string(),
)  # fmt: skip


def checkpoint(content: bytes) -> None:
    """A checkpoint whose columns have other types, or whose rows are wrong."""
    choices = Choices(content)
    rows = mutated([one for commit in LOG for one in commit if "commitInfo" not in one], choices)
    names = ("protocol", "metaData", "add", "remove", "txn", "domainMetadata")
    actions = [one for one in rows if isinstance(one, dict)] if isinstance(rows, list) else []
    columns: dict[str, Any] = {}
    for name in names:
        values = [one.get(name) for one in actions]
        try:
            column_of = pa.array(values)
            if choices.number(6) == 0:
                column_of = pa.nulls(len(values), choices.of(_ODD_TYPES))
            elif pa.types.is_struct(column_of.type) and choices.number(3) == 0:
                column_of = _with_odd_field(column_of, choices)
        except (pa.ArrowException, OverflowError, TypeError, ValueError, UnicodeEncodeError):
            continue
        columns[name] = column_of
    sink = io.BytesIO()
    try:
        pq.write_table(pa.table(columns), sink)
    except (pa.ArrowException, OSError):
        return
    files = {f"_delta_log/{1:020}.checkpoint.parquet": sink.getvalue()}
    if choices.number(2):
        files[f"_delta_log/{2:020}.json"] = b'{"commitInfo":{}}\n' + json.dumps(LOG[0][3]).encode()
    run_on(files, choices, COMMANDS)


def _with_odd_field(struct: Any, choices: Choices) -> Any:
    fields = list(struct.type)
    if not fields:
        return struct
    position = choices.number(len(fields))
    children = struct.flatten()
    children[position] = pa.nulls(len(struct), choices.of(_ODD_TYPES))
    names = [one.name for one in fields]
    return pa.StructArray.from_arrays(children, names=names, mask=struct.is_null())


def deletion_vector(content: bytes) -> None:
    """The bytes of a vector, in a file that is as long as it says."""
    import zlib

    framed = len(content).to_bytes(4, "big") + content + zlib.crc32(content).to_bytes(4, "big")
    stored = {"storageType": "p", "pathOrInlineDv": "file:///x", "offset": 0,
              "sizeInBytes": len(content), "cardinality": 1}  # fmt: skip
    inline = {"storageType": "i", "pathOrInlineDv": content.decode("latin-1"),
              "sizeInBytes": len(content) * 4 // 5, "cardinality": 1}  # fmt: skip
    for descriptor in (stored, inline):
        with contextlib.suppress(DeltaCliError):
            vector_rows(descriptor, lambda offset, size: framed[offset : offset + size])


def texts(content: bytes) -> None:
    """Conditions, durations and changes as somebody types them."""
    choices = Choices(content)
    words = [choices.of(WORDS) for _ in range(1 + choices.number(12))]
    text = choices.of((" ", "")).join(words) + choices.rest().decode("utf-8", "replace")
    for parse in (
        lambda: parse_condition(text),
        lambda: parse_duration(text),
        lambda: parse_change(text),
        lambda: read_hints([text], None, parse_schema(json.dumps(SCHEMA))),
    ):
        with contextlib.suppress(DeltaCliError, NotSimple):
            parse()


def requests(content: bytes) -> None:
    """Hints of a request as trees, changes as JSON."""
    choices = Choices(content)
    read_hints([], mutated(HINTS, choices), parse_schema(json.dumps(SCHEMA)))
    changes = [{"action": "addColumn", "fieldName": "a", "dataType": "INT", "move": {"a": "b"}}]
    with contextlib.suppress(DeltaCliError):
        parse_changes(text_of(mutated(changes, choices), choices).decode("utf-8", "replace"))


def profile(content: bytes) -> None:
    choices = Choices(content)
    with contextlib.suppress(DeltaCliError):
        parse_profile(text_of(mutated(PROFILE, choices), choices))


def paimon(content: bytes) -> None:
    """Schema files of Paimon, and a snapshot."""
    choices = Choices(content)
    snapshot = {"version": 3, "id": 1, "schemaId": 0, "baseManifestList": "l",
                "deltaManifestList": "m", "timeMillis": 1}  # fmt: skip
    whole = mutated([PAIMON_SCHEMA, {**PAIMON_SCHEMA, "id": 1}, snapshot], choices)
    names = ("schema/schema-0", "schema/schema-1", "snapshot/snapshot-1")
    trees = whole if isinstance(whole, list) else [whole]
    files = {name: text_of(one, choices) for name, one in zip(names, trees, strict=False)}
    run_on(files, choices, PAIMON)


TARGETS: dict[str, Target] = {
    "log": log, "schema": schema, "checkpoint": checkpoint, "vector": deletion_vector,
    "texts": texts, "requests": requests, "profile": profile, "paimon": paimon,
}  # fmt: skip
assert places(LOG)
