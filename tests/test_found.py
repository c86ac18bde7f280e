"""Inputs that random tests found, each once the end of some command: every command ends well.

Well is a right answer, or an error that says what is wrong.
"""

from __future__ import annotations

import base64
import io
import json
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltacli.errors import EXIT_CODES
from tests.builder import add, column, features, metadata, protocol
from tests.conftest import Result

Deltacli = Callable[..., Result]
Make = Callable[[Path], None]
TEXT, LONG = pa.string(), pa.int64()

COMMANDS = (
    ("history", "-o", "json"),
    ("snapshot",),
    ("snapshot", "--files", "-o", "json"),
    ("snapshot", "--partitions"),
    ("snapshot", "--tombstones"),
    ("snapshot", "--domains"),
    ("head", "--engine", "local"),
    ("head", "--engine", "local", "--where", "p = 1"),
    ("validate", "--level", "footers", "-o", "json"),
    ("vacuum", "--dry-run", "--engine", "local"),
    ("vacuum", "--explain", "a"),
    ("widen-type", "p", "decimal(20,2)", "--enable", "--dry-run"),
    ("widen-type", "--status"),
    ("checkpoint", "--stats", "both", "--force", "--yes", "--engine", "local"),
)
PAIMON = (
    ("paimon", "list"),
    ("paimon", "show"),
    ("paimon", "validate", "-o", "json"),
    ("paimon", "expire", "--dry-run"),
    ("paimon", "alter", "set option a = b", "--dry-run"),
    ("paimon", "convert", "--allow-lossy"),
)


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    path.write_bytes(whole)


def commits(*each: Any) -> Make:
    """A log; a commit is a list of actions, or a text."""

    def make(table: Path) -> None:
        for version, one in enumerate(each):
            text = one if isinstance(one, str) else "\n".join(map(json.dumps, one))
            write(table / f"_delta_log/{version:020}.json", text)

    return make


def with_file(make: Make, name: str, content: str | bytes) -> Make:
    def both(table: Path) -> None:
        make(table)
        write(table / name, content)

    return both


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def checkpoint(
    adds: list[Any] | None = None,
    add_type: Any = None,
    removes: list[Any] | None = None,
    remove_type: Any = None,
    *,
    schema: Any = (),
    definition: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
    after: Any = None,
    spoil: Callable[[bytes], bytes] = bytes,
    **options: Any,
) -> Make:
    """A checkpoint of version 2 with these rows, and the commit behind it, if there is one."""
    text = json.dumps({"type": "struct", "fields": list(schema)})
    more, more_types = definition
    columns: dict[str, tuple[list[Any], Any]] = {
        "metaData": (
            [{"id": "x", "schemaString": text, **more}],
            pa.struct({"id": TEXT, "schemaString": TEXT, **more_types}),
        ),
        "protocol": (
            [{"minReaderVersion": 1, "minWriterVersion": 2}],
            pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        ),
    }
    if add_type:
        columns["add"] = (adds or [], pa.struct(add_type))
    if remove_type:
        columns["remove"] = (removes or [], pa.struct(remove_type))
    count = sum(len(rows) for rows, _ in columns.values())
    arrays, before = {}, 0
    for name, (rows, kind) in columns.items():
        nulls = count - before - len(rows)
        arrays[name] = pa.array([None] * before + rows + [None] * nulls, kind)
        before += len(rows)

    def make(table: Path) -> None:
        content = spoil(parquet(pa.table(arrays), **options))
        write(table / f"_delta_log/{2:020}.checkpoint.parquet", content)
        if after is not None:
            write(table / f"_delta_log/{3:020}.json", json.dumps(after))

    return make


def vectored(**changes: Any) -> Make:
    """A table with a data file and a deletion vector that is wrong."""
    data = parquet(pa.table({"id": [1, 2]}))
    vector = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1, "sizeInBytes": 40,
              "cardinality": 1, **changes}  # fmt: skip

    def make(table: Path) -> None:
        write(table / "a", data)
        write(table / "dv.bin", b"\x01" + b"0" * 60)
        own = {**vector, "pathOrInlineDv": vector["pathOrInlineDv"].replace("@T", table.as_uri())}
        file = add("a", len(data), 2, deletionVector=own)
        commits([features("deletionVectors"), metadata(), file])(table)

    return make


def other_type_in_footer(content: bytes) -> bytes:
    """The type of one column in its chunk's metadata is not that of the schema."""
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    place = content.index(b"\x15\x0c\x19", begin)
    return content[: place + 1] + b"\x1c" + content[place + 2 :]


def broken_page(leaf: str) -> Callable[[bytes], bytes]:
    def spoil(content: bytes) -> bytes:
        group = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(0)
        chunks = [group.column(number) for number in range(group.num_columns)]
        (place,) = [one.data_page_offset for one in chunks if one.path_in_schema == leaf]
        return content[:place] + b"\xff" * 12 + content[place + 12 :]

    return spoil


# A Parquet file whose chunks have histograms of sizes that do not go with its schema.
HISTOGRAMS = zlib.decompress(
    base64.b64decode(
        "eNrVlr9v00AUx18vjhOSEkLUs2xkoSw5FSmtWqRECHXhhyoqBVGhKAMLHMmlsUgcY18DYUKM/AEIMTEydkBMiD+hI1"
        "NGJmaEhNSBO9tx0zS/ilgq2Rf5vbvP9/n9SLJ76+EmVjBgVBEL5ADEijM4V8QIZ7GKVbOMhDGhy1XcZ9sMeBlnpReO"
        "vepK4J3tPCVzBV8dk7m4EeydGtk/HFn8zU2A/5amc7nZOMqVQFe9eot1KEZQSumqyzrdHsNZUdoC0hWH8lYBKqakKc"
        "JwucHajFtdu2p1mMdpxxEqwp5qUE7vtKi9xwLDCnvJmd1gjW2rze4zTuUGKCH9kkNdbklEjbb3mSeiQ5Wi4JcU/cIz"
        "1n/ck2asyABAjwnLUF8GFPe9oxEpnvWKSXBmGFqN1XnXxangRNoTD3SPVfsOGyVl5Ks9cHfstmWzu72hCwmX2m02Pc"
        "aDh7Tk79i3+5x5gWK6Tt2GZdO2xfthVCIT3AsRGjJMY0DAxMtGCdSssRom1U8mRhrSqtojQkhSFsQoBkWTxcqKjy0N"
        "DNXwKwUgIcpJyOkCRMTXS+TpROS1E0AwCipEvJHC+aCydpN8XdqSGFP20bzzE+sckX7PJIX5uReixjvjuBtkF/jMJ1"
        "qTHCJygKaljgjzdqBwNomgsSKRzzHyLjZLpBaKTKqR35JRWT4o5Ci2QF3CUG+EkLF2Hm3jCP1LId+V6V00IRFT6GPD"
        "EAkcxslBfDEBNFMgHKkI/Eklb9VpSVkcOzqcEftNgvxYiK3MZo+MecQeJMi3xCLssdkPviEizJckeT9//LWPSQ2RpP"
        "YzCat50bnP9xlfqzvOGnXd7ot8j7meiDZ/vby+sb5pDEz/J23uBX/iALviX8NfiQFP4w=="
    )
)


def with_sidecar(content: bytes) -> Make:
    """A V2 checkpoint of version 2, its files in a sidecar."""

    def make(table: Path) -> None:
        rows = [
            {"checkpointMetadata": {"version": 2}},
            features("v2Checkpoint"),
            metadata(),
            {"sidecar": {"path": "s.parquet", "sizeInBytes": len(content), "modificationTime": 1}},
        ]
        name = f"{2:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
        write(table / "_delta_log" / name, "\n".join(map(json.dumps, rows)))
        write(table / "_delta_log/_sidecars/s.parquet", content)
        write(table / f"_delta_log/{3:020}.json", '{"commitInfo":{}}')

    return make


SOUND = {"path": "a", "size": 1, "modificationTime": 1, "dataChange": True}
SOUND_TYPE = {"path": TEXT, "size": LONG, "modificationTime": LONG, "dataChange": pa.bool_()}
VECTOR_OF_STRUCT = pa.struct(
    {"storageType": TEXT, "pathOrInlineDv": pa.struct({"path": TEXT}), "cardinality": LONG}
)
STRUCT_KEYS = pa.map_(pa.struct({"a": TEXT}), TEXT)
ODD_STATS: dict[str, tuple[Any, Any]] = {
    "list": (pa.struct({"minValues": pa.struct({"p": pa.list_(LONG)})}), {"minValues": {"p": [1]}}),
    "text": (pa.struct({"minValues": pa.struct({"p": TEXT})}), {"minValues": {"p": "x"}}),
    "number": (pa.struct({"minValues": LONG}), {"minValues": 1}),
    "records": (pa.struct({"numRecords": TEXT}), {"numRecords": "x"}),
    "none": (LONG, 1),
}
OF_P = metadata(column("p"), partition_by=["p"])


def of_type(kind: str, **more: Any) -> Any:
    return metadata(column("p", kind), **more)


def stated(low: str) -> Any:
    body = add("a", 1, None)
    body["add"]["stats"] = f'{{"numRecords":{low},"minValues":{{"p":{low}}}}}'
    return body


TABLES: dict[str, Make] = {
    "schema that is no JSON": commits([protocol(), metadata(schemaString="x")]),
    "schema of two documents": commits([protocol(), metadata(schemaString="{}{}")]),
    "schema without fields": commits([protocol(), metadata(schemaString='{"type":"struct"}')]),
    "schema with a null field": commits(
        [protocol(), metadata(schemaString='{"type":"struct","fields":[null]}')]
    ),
    "compacted add without a path": with_file(
        commits('{"add":{}}', ""),
        f"_delta_log/{0:020}.{1:020}.compacted.json",
        '{"commitInfo":{}}',
    ),
    "time of deletion that is a text": commits(
        [protocol(), metadata(), add("a", deletionTimestamp="")]
    ),
    "physical name that is an object": commits(
        [
            protocol(1, 7, writer_features=["rowTracking", "domainMetadata"]),
            metadata(
                {**column("a"), "metadata": {"delta.columnMapping.physicalName": {}}},
                configuration={"delta.enableRowTracking": "true"},
            ),
        ]
    ),
    "checksum with a domain that is a text": with_file(
        commits([protocol(1, 7, writer_features=["domainMetadata"]), metadata()]),
        f"_delta_log/{0:020}.crc",
        json.dumps({"domainMetadata": ["x"], "numFiles": 0, "tableSizeBytes": 0}),
    ),
    "numbers of a thousand digits": commits(
        [
            {"commitInfo": {"operationMetrics": {"numFiles": "9" * 5000, "b": "9" * 400}}},
            protocol(),
            metadata(column("p", f"decimal({'9' * 5000},0)")),
        ]
    ),
    "sizes beyond a float": commits(
        [{"commitInfo": {"operationMetrics": {"numOutputBytes": "9" * 400}}}, protocol()]
    ),
    "statistic with a billion digits": commits(
        [protocol(), metadata(column("p")), stated("1e999999999")]
    ),
    "signalling partition": commits(
        [
            protocol(),
            of_type("decimal(10,2)", partition_by=["p"]),
            add("a", partitionValues={"p": "sNaN"}),
            add("b", partitionValues={"p": "1"}),
        ]
    ),
    "checkpoint without times": checkpoint(
        [{"path": "a", "size": 1}], {"path": TEXT, "size": LONG}, schema=[column("p")]
    ),
    "remove of paths alone": checkpoint(
        removes=[{"path": "r"}], remove_type={"path": TEXT}, after={"commitInfo": {}}
    ),
    "sizes of two kinds": checkpoint(
        [{"path": "a", "size": 1}],
        {"path": TEXT, "size": LONG},
        [{"path": "a", "size": b"abcd"}],
        {"path": TEXT, "size": pa.binary(4)},
        after={"commitInfo": {}},
    ),
    "vector whose path is a struct": checkpoint(
        [
            {
                "path": "a",
                "size": 1,
                "deletionVector": {
                    "storageType": "i",
                    "pathOrInlineDv": {"path": "x"},
                    "cardinality": 1,
                },
            }
        ],
        {"path": TEXT, "size": LONG, "deletionVector": VECTOR_OF_STRUCT},
        after={"add": {"path": "a"}},
    ),
    "page that only a second look reads": checkpoint(
        [SOUND, SOUND],
        SOUND_TYPE,
        [{"path": "r", "size": 5}],
        {"path": TEXT, "size": LONG},
        after={"commitInfo": {}},
        spoil=broken_page("remove.size"),
        use_dictionary=False,
    ),
    "footer that contradicts itself": checkpoint(
        [SOUND], SOUND_TYPE, after={"commitInfo": {}}, spoil=other_type_in_footer
    ),
    "a flag that is a text": checkpoint(
        removes=[{"path": "r", "deletionTimestamp": 1 << 42, "extendedFileMetadata": "x"}],
        remove_type={"path": TEXT, "deletionTimestamp": LONG, "extendedFileMetadata": TEXT},
        after={"commitInfo": {}},
    ),
    "partitioned without values": checkpoint(
        [{"path": "a", "size": 1}],
        {"path": TEXT, "size": LONG},
        schema=[column("p")],
        definition=({"partitionColumns": ["p"]}, {"partitionColumns": pa.list_(TEXT)}),
    ),
    "parsed partition that is a struct": checkpoint(
        [{**SOUND, "partitionValues": [("p", "x")], "partitionValues_parsed": {"p": {"v": "x"}}}],
        {
            **SOUND_TYPE,
            "partitionValues": pa.map_(TEXT, TEXT),
            "partitionValues_parsed": pa.struct({"p": pa.struct({"v": TEXT})}),
        },
        schema=[column("p", "string")],
        definition=({"partitionColumns": ["p"]}, {"partitionColumns": pa.list_(TEXT)}),
    ),
    "configuration with keys that are structs": checkpoint(
        definition=({"configuration": [({"a": "k"}, "v")]}, {"configuration": STRUCT_KEYS})
    ),
}
TABLES["sidecar with histograms that do not fit"] = with_sidecar(HISTOGRAMS)
TABLES["data file with histograms that do not fit"] = with_file(
    commits([protocol(), of_type("string"), add("a", size=len(HISTOGRAMS))]), "a", HISTOGRAMS
)
TABLES |= {
    f"decimal that cannot be: {kind}, {place}": commits(
        [
            protocol(),
            of_type(kind, partition_by=["p"] if place == "partition" else []),
            add("a", partitionValues={"p": "1"} if place == "partition" else {}),
        ],
        [stated("1")] if place != "partition" else [],
    )
    for kind in ("decimal", "decimal(50,2)", "decimal(0,0)", "decimal(10,20)", "decimal(5,-2)")
    for place in ("partition", "column")
}
TABLES |= {
    f"odd statistics: {name}": checkpoint(
        [{**SOUND, "stats_parsed": value}],
        {**SOUND_TYPE, "stats_parsed": kind},
        schema=[column("p")],
        after={"commitInfo": {}},
    )
    for name, (kind, value) in ODD_STATS.items()
}
IN_PLACE = {"storageType": "p", "pathOrInlineDv": "@T/dv.bin"}
VECTORS: tuple[dict[str, Any], ...] = (
    *({**IN_PLACE, "sizeInBytes": size} for size in (2**53 + 1, 2**62, 2**63 - 1, -3, -9)),
    *({**IN_PLACE, "offset": offset} for offset in (2**62, 2**63 - 1, 2**31)),
    {"storageType": "\ud800"},
    {"storageType": "z"},
    {"storageType": "i", "pathOrInlineDv": "\ud800" * 20},
    {"pathOrInlineDv": "\ud800" * 20},
    *({"cardinality": count} for count in (2**63, 2**70, -1)),
    {"sizeInBytes": 2**70},
)
TABLES |= {f"vector {number}": vectored(**one) for number, one in enumerate(VECTORS)}


def avro(schema: str, count: int, block: bytes = b"") -> bytes:
    """A file of one block that claims to have so many records."""

    def zigzag(number: int) -> bytes:
        out = b""
        number <<= 1
        while number & ~0x7F:
            out += bytes([number & 0x7F | 0x80])
            number >>= 7
        return out + bytes([number])

    head = b"Obj\x01" + zigzag(1) + zigzag(11) + b"avro.schema" + zigzag(len(schema))
    sync = b"0" * 16
    body = zigzag(count) + zigzag(len(block)) + block
    return head + schema.encode() + zigzag(0) + sync + body + sync


NOTHING = '{"type":"record","name":"r","fields":[]}'
NULLS = (
    '{"type":"record","name":"r","fields":[{"name":"x","type":{"type":"array","items":"null"}},'
    '{"name":"_KIND","type":"int"}]}'
)
SELF = '{"type":"record","name":"r","fields":[{"name":"x","type":{"type":"array","items":"r"}}]}'
ENDLESS = b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"


def with_manifest(content: bytes) -> Make:
    def make(table: Path) -> None:
        fastavro = pytest.importorskip("fastavro")
        fields = [
            {"name": name, "type": kind}
            for name, kind in (
                ("_FILE_NAME", "string"),
                ("_FILE_SIZE", "long"),
                ("_SCHEMA_ID", "long"),
            )
        ]
        entry = {"_FILE_NAME": "m", "_FILE_SIZE": len(content), "_SCHEMA_ID": 0}
        listed = io.BytesIO()
        fastavro.writer(listed, {"type": "record", "name": "l", "fields": fields}, [entry])
        option("1.5")(table)
        snapshot = {"version": 3, "id": 1, "schemaId": 0, "baseManifestList": "l",
                    "deltaManifestList": "l", "timeMillis": 1}  # fmt: skip
        write(table / "snapshot/snapshot-1", json.dumps(snapshot))
        write(table / "manifest/l", listed.getvalue())
        write(table / "manifest/m", content)

    return make


def option(value: str) -> Make:
    text = (
        '{"version":3,"id":0,"fields":[{"id":0,"name":"a","type":"INT"}],"highestFieldId":0,'
        f'"partitionKeys":[],"primaryKeys":[],"options":{{"x":{value}}},"timeMillis":1}}'
    )
    return lambda table: write(table / "schema/schema-0", text)


PAIMON_TABLES: dict[str, Make] = {
    "records without bytes": with_manifest(avro(NOTHING, 1 << 62)),
    "elements without bytes": with_manifest(avro(NULLS, 1, ENDLESS + bytes(3))),
    "records of themselves": with_manifest(avro(SELF, 1, ENDLESS + bytes(3))),
    **{f"option {value}": option(value) for value in ("1.5", "1e400", "1e-7", "1" * 40 + ".5")},
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_was_found(name: str, tmp_path: Path, deltacli: Deltacli) -> None:
    TABLES[name](tmp_path / "t")
    check(deltacli, tmp_path / "t", COMMANDS)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", PAIMON_TABLES)
def test_a_paimon_table_that_was_found(name: str, tmp_path: Path, deltacli: Deltacli) -> None:
    PAIMON_TABLES[name](tmp_path / "t")
    check(deltacli, tmp_path / "t", PAIMON)


def test_a_flag_that_is_a_text_is_no_null(tmp_path: Path, deltacli: Deltacli) -> None:
    """Only statistics may be left out of a new checkpoint."""
    TABLES["a flag that is a text"](tmp_path / "t")
    told = deltacli("checkpoint", tmp_path / "t", "--force", "--yes", "--engine", "local")
    assert (told.code, "extendedFileMetadata" in told.stderr) == (5, True)


def check(deltacli: Deltacli, table: Path, commands: tuple[tuple[str, ...], ...]) -> None:
    for words in commands:
        at = 2 if words[0] == "paimon" else 1
        result = deltacli(*words[:at], table, *words[at:])
        assert result.code in {code for code, _ in EXIT_CODES} - {70}, (words, result.stderr)
        crash = re.search(
            r"could not be decided: \w+(Error|Exception|Operation)\b.*", result.stdout
        )
        assert crash is None, (words, crash)
        assert result.code < 2 or "error" in result.stderr


@pytest.mark.parametrize("name", ["bearerToken", "scope", "clientId", "username", "password"])
def test_a_profile_with_what_is_no_text(name: str, tmp_path: Path, deltacli: Deltacli) -> None:
    kind = {"bearerToken": "bearer_token", "username": "basic", "password": "basic"}
    body = {"shareCredentialsVersion": 2, "endpoint": "https://127.0.0.1:1/",
            "type": kind.get(name, "oauth_client_credentials"), "bearerToken": "t",
            "username": "u", "password": "p", "clientId": "c", "clientSecret": "s",
            "tokenEndpoint": "https://127.0.0.1:1/", name: "\ud800"}  # fmt: skip
    write(tmp_path / "p.share", json.dumps(body))
    (tmp_path / "p.share").chmod(0o600)
    result = deltacli("share", "shares", "--profile", tmp_path / "p.share", "--timeout", "1s")
    assert (result.code, "no text" in result.stderr) == (4, True), result.stderr


def test_a_bitmap_of_empty_containers_takes_no_memory() -> None:
    from deltacli.delta.bitmaps import parse_rows

    count = 1 << 16
    heads = b"".join(struct.pack("<HH", number, 0) for number in range(count))
    part = struct.pack("<I", (count - 1) << 16 | 12347) + b"\xff" * (count // 8) + heads
    part += bytes(4 * count) + bytes(2 * count)
    with pytest.raises(ValueError, match="empty"):
        parse_rows(memoryview(struct.pack("<iqI", 1681511377, 1, 0) + part))
