"""Twins for rules about files: on storage, by their footers, by their rows."""

# A row a rule reads better uncut.

from __future__ import annotations

import io
import json
import struct
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.storage import LogStore
from tests.builder import (
    DAY_MS,
    NOW_MS,
    Action,
    add,
    column,
    commit_info,
    metadata,
    parquet_rows,
    protocol,
    remove,
)
from tests.validate.bench import Log, c, start, twin
from tests.validate.twins_log import (
    CHECKPOINT,
    DV,
    FEED_TABLE,
    HINT,
    ICT,
    IDS,
    M25,
    MAPPED,
    NAMES,
    STEP,
    TIMES,
    TWO,
    V2_HINT,
    V2_TWO,
    WIDE,
    A,
    B,
    cdc,
    hint,
    kept,
    name,
    v2,
    widened,
)

HERE = {"a": 100, "b": 100}

# -- storage -----------------------------------------------------------------------------

twin("CKP023", Log(V2_TWO, v2(A, B) | V2_HINT, HERE), Log(
    V2_TWO, {**v2(A, B), **V2_HINT, "_sidecars/old.parquet": b"x"}, HERE,
    old={"_sidecars/old.parquet": NOW_MS - 3 * DAY_MS},
))  # fmt: skip


def parsed(stats: Any = None, partition: Any = None, **more: Any) -> Log:
    """A table of one file partitioned by p, with a checkpoint that has typed columns."""
    meta = metadata(column("id"), column("p", "integer"), partition_by=["p"])
    text = json.dumps({"numRecords": 9, "minValues": {"id": 1}, "maxValues": {"id": 5}})
    file = add("a", stats=text, partitionValues={"p": "1"})
    return typed_checkpoint(protocol(), meta, file, stats, partition, **more)


def typed_checkpoint(
    proto: Action, meta: Action, file: Action, stats: Any, partition: Any, name_: str = "id"
) -> Log:
    table = pq.read_table(io.BytesIO(parquet_rows([proto, meta, kept(file)])))
    adds = table.column("add").combine_chunks()
    bounds = pa.struct([(name_, pa.int64())])
    kind = pa.struct([("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds)])
    own = [None, None, stats]
    children = [*adds.flatten(), pa.array(own, kind)]
    fields = [*adds.type, pa.field("stats_parsed", kind)]
    if partition is not None:
        children.append(pa.array([None, None, partition], pa.struct([("p", pa.int32())])))
        fields.append(pa.field("partitionValues_parsed", children[-1].type))
    again = pa.StructArray.from_arrays(children, fields=fields, mask=adds.is_null())
    table = table.set_column(table.schema.get_field_index("add"), "add", again)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    others = {name(0, "checkpoint.parquet"): sink.getvalue(), "_last_checkpoint": hint(0)}
    return Log([[commit_info(), proto, meta, file]], others)


BOUNDS = {"numRecords": 9, "minValues": {"id": 1}, "maxValues": {"id": 5}}
twin("CKP016", parsed(BOUNDS, {"p": 1}), parsed({**BOUNDS, "maxValues": {"id": 4}}, {"p": 1}))


def by_names(name_: str) -> Log:
    meta = metadata(*MAPPED, configuration=NAMES)
    values = {"numRecords": 10, "minValues": {name_: 1}, "maxValues": {name_: 5}}
    return typed_checkpoint(M25, meta, A, values, None, name_)


twin("CKP017", by_names("col-id"), by_names("id"))


def narrow(content: bytes) -> bytes:
    """The checkpoint with the sizes of files as int32."""
    table = pq.read_table(io.BytesIO(content))
    adds = table.column("add").combine_chunks()
    fields = [one.with_type(pa.int32()) if one.name == "size" else one for one in adds.type]
    children = [child.cast(one.type) for child, one in zip(adds.flatten(), fields, strict=True)]
    again = pa.StructArray.from_arrays(children, fields=fields, mask=adds.is_null())
    sink = io.BytesIO()
    pq.write_table(table.set_column(table.schema.get_field_index("add"), "add", again), sink)
    return sink.getvalue()


NARROW = {key: narrow(value) for key, value in CHECKPOINT.items()}
twin("CKP027", Log(TWO, CHECKPOINT | HINT), Log(TWO, NARROW | HINT))

twin("DAT001", Log(TWO, files=HERE), Log(TWO, files={"a": 100}))
twin("DAT002", Log(TWO, files=HERE), Log(TWO, files={"a": 100, "b": 99}))
LEFT = {**HERE, "z.parquet": 9}
AGED = {"z.parquet": NOW_MS - 9 * DAY_MS}
twin("DAT008", Log(TWO, files=LEFT), Log(TWO, files=LEFT, old=AGED), "DAT017 STO004")
twin("DAT017", Log(TWO, files=HERE), Log(TWO, files=LEFT))
ELSEWHERE = [start(add("nowhere://host/a")), c(B)]
twin(
    "DAT018",
    Log([start(add("file:///tmp/none")), c(B)], files=HERE),
    Log(ELSEWHERE, files=HERE),
    "ACT005 DAT001 DAT017",
)
BIG, TINY = 20 * 1024 * 1024, 100


def many(size: int) -> Log:
    """A thousand files; those of the sound twin are said to be larger, and are not looked at."""
    return Log([start(*[add(f"f{number}", size=size) for number in range(1000)])],
               files={f"f{number}": size for number in range(1000)})  # fmt: skip


twin("DAT010", Log(TWO, files=HERE), many(TINY))
GONE = [start(A), c(remove("a"))]
twin("DAT011", Log(GONE, files={"a": 100}), Log(GONE))
twin("DAT012", Log(TWO, files=HERE), Log(TWO, files=HERE, old={"a": NOW_MS + 9 * DAY_MS}))
FEED = [start(A, **FEED_TABLE), c(B, cdc())]
CHANGES = {**HERE, "_change_data/x": 9}
twin("CDF001", Log(FEED, files=CHANGES), Log(FEED, files=HERE))


def enabled_at(own: int) -> list[Any]:
    settings = {
        **TIMES,
        "delta.inCommitTimestampEnablementVersion": "1",
        "delta.inCommitTimestampEnablementTimestamp": str(own),
    }
    return [start(A, proto=ICT), c(metadata(configuration=settings), inCommitTimestamp=own)]


twin(
    "ICT004",
    Log(enabled_at(NOW_MS + 1), files={"a": 100}),
    Log(enabled_at(NOW_MS - 1), files={"a": 100}),
)
INNER = {"x/_delta_log/00000000000000000000.json": b"{}", "x/f.parquet": 3}
twin("STO001", Log(TWO, files=HERE), Log(TWO, files={**HERE, **INNER}))


def link(store: LogStore) -> None:
    import os

    place = store.file_path("linked")
    assert place is not None
    os.symlink(store.file_path("a") or "", place)


twin("STO002", Log(TWO, files=HERE), Log(TWO, files=HERE, then=link))
twin("STO003", Log(TWO, files=HERE), Log(TWO, files={**HERE, "notes/readme.txt": 9}), "DAT017")
twin("STO004", Log(TWO, files=LEFT), Log(TWO, files=LEFT, old=AGED), "DAT008 DAT017")


# -- deletion vectors --------------------------------------------------------------------

VECTOR_FILE = "deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin"
VECTOR_NAME = "vBn[lx{q8@P<9BNH/isA"


def bitmap(*rows: int) -> bytes:
    """A 64-bit roaring bitmap of small numbers."""
    own = struct.pack("<II", 12346, 1) + struct.pack("<HH", 0, len(rows) - 1)
    own += struct.pack("<I", 16) + struct.pack(f"<{len(rows)}H", *rows)
    return struct.pack("<iqI", 1681511377, 1, 0) + own


def vector_file(content: bytes, checksum: int | None = None) -> bytes:
    code = zlib.crc32(content) if checksum is None else checksum
    return b"\x01" + struct.pack(">I", len(content)) + content + struct.pack(">I", code)


def with_vector(
    *rows: int, cardinality: int | None = None, content: bytes | None = None, size: int = 0
) -> Log:
    body = bitmap(*rows)
    descriptor = {
        "storageType": "u", "pathOrInlineDv": VECTOR_NAME, "offset": 1,
        "sizeInBytes": len(body), "cardinality": cardinality or len(rows),
    }  # fmt: skip
    stats = json.dumps({"numRecords": 10, "tightBounds": False})
    whole = data_file(id=list(range(10)))
    file = add("a", size=len(whole), stats=stats, deletionVector=descriptor)
    stored = vector_file(body) if content is None else content
    files = {"a": whole, VECTOR_FILE: stored[size:] if size else stored}
    return Log([start(file, proto=DV)], files=files)


def data_file(ids: dict[str, int] | None = None, **columns: Any) -> bytes:
    arrays = [one if isinstance(one, pa.Array) else pa.array(one) for one in columns.values()]
    fields = [
        pa.field(key, one.type, metadata={"PARQUET:field_id": str(ids[key])} if ids else None)
        for key, one in zip(columns, arrays, strict=True)
    ]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), sink)
    return sink.getvalue()


WITH_VECTOR = with_vector(1, 3)
twin("DVX002", WITH_VECTOR, with_vector(1, 3, content=b"\x01"))
twin("DVX003", WITH_VECTOR, with_vector(1, 3, content=vector_file(bitmap(1, 3), 7)))
twin("DVX004", WITH_VECTOR, with_vector(1, 3, cardinality=1))
twin("DVX005", WITH_VECTOR, with_vector(1, 30))
FORGOTTEN = {**HERE, VECTOR_FILE: 9}
twin(
    "DVX007",
    Log(TWO, files=FORGOTTEN),
    Log(TWO, files=FORGOTTEN, old={VECTOR_FILE: NOW_MS - 9 * DAY_MS}),
    "DAT017 STO004",
)

# -- footers -----------------------------------------------------------------------------


def stored(content: bytes, *columns: Any, proto: Action | None = None, rows: int = 3,
           more: list[Any] | None = None, values: Any = None, **table: Any) -> Log:  # fmt: skip
    """A table with one data file."""
    file = add("a", size=len(content), rows=rows, partitionValues=values or {})
    head = [commit_info(), proto or protocol(), metadata(*columns, **table), file]
    return Log([head, *(more or [])], files={"a": content})


LONGS = pa.array([1, 2, 3], pa.int64())
INTS = LONGS.cast(pa.int32())
PLAIN = stored(data_file(id=LONGS))
ID_TABLE: Any = {"proto": M25, "configuration": IDS}


def by_id(number: int) -> Log:
    content = data_file({"col-id": number, "col-x": 2}, **{"col-id": LONGS, "col-x": LONGS})
    return stored(content, *MAPPED, **ID_TABLE)


twin("CMP007", by_id(1), by_id(7))
NAME_TABLE: Any = {"proto": M25, "configuration": NAMES}
twin(
    "CMP008",
    stored(data_file(**{"col-id": LONGS, "col-x": LONGS}), *MAPPED, **NAME_TABLE),
    stored(data_file(**{"col-id": LONGS, "x": LONGS}), *MAPPED, **NAME_TABLE),
)
APART = {"delta.writePartitionColumnsToParquet": "false"}
BY_P: Any = {"partition_by": ["p"], "values": {"p": "1"}, "configuration": APART}
P_TABLE = column("id"), column("p", "integer")
twin(
    "PAR009",
    stored(data_file(id=LONGS), *P_TABLE, **BY_P),
    stored(data_file(id=LONGS, p=INTS), *P_TABLE, **BY_P),
)
twin("STA010", PLAIN, stored(data_file(id=LONGS), rows=4))
twin("DAT003", PLAIN, stored(b"PAR1 this is no file PAR1"))
twin("DAT004", PLAIN, stored(data_file(id=["a", "b", "c"])))
WIDE_TABLE: Any = {"proto": WIDE}
twin(
    "DAT005",
    stored(data_file(id=INTS), widened(STEP), **WIDE_TABLE),
    stored(data_file(id=INTS), column("id"), **WIDE_TABLE),
)
twin(
    "TYW009",
    stored(
        data_file(id=INTS), widened(STEP), more=[c(metadata(widened(STEP), name="n"))], **WIDE_TABLE
    ),
    stored(data_file(id=INTS), widened(STEP), more=[c(metadata(column("id")))], **WIDE_TABLE),
)
NEEDED = column("id"), column("x", "long", False)
twin(
    "DAT006",
    stored(data_file(id=LONGS, x=LONGS), *NEEDED),
    stored(data_file(id=LONGS), *NEEDED),
)


def old_times() -> bytes:
    sink = io.BytesIO()
    times = pa.array([0, 1, 2], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": times}), sink, use_deprecated_int96_timestamps=True)
    return sink.getvalue()


INSTANT = column("id", "timestamp")
twin(
    "DAT007",
    stored(data_file(id=pa.array([0, 1, 2], pa.timestamp("us", "UTC"))), INSTANT),
    stored(old_times(), INSTANT),
)


def feed(content: bytes) -> Log:
    whole = data_file(id=LONGS)
    file = add("a", size=len(whole), rows=3)
    change = cdc(size=len(content))
    commits = [start(file, **FEED_TABLE), c(change)]
    return Log(commits, files={"a": whole, "_change_data/x": content})


twin(
    "CDF004",
    feed(data_file(id=LONGS, _change_type=["insert"] * 3)),
    feed(data_file(id=LONGS)),
)

# -- rows --------------------------------------------------------------------------------


def told(rows: Any, *columns: Any, stats: Any, proto: Action | None = None, **table: Any) -> Log:
    """A file with these rows of `id`, and what its statistics say."""
    content = data_file(id=rows) if isinstance(rows, pa.Array) else data_file(**rows)
    file = add("a", size=len(content), stats=json.dumps({"numRecords": 3, **stats}))
    return Log(
        [[commit_info(), proto or protocol(), metadata(*columns, **table), file]],
        files={"a": content},
    )


def about(low: Any, high: Any, nulls: int = 0, **more: Any) -> dict[str, Any]:
    return {"minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": nulls}, **more}


LOOSE: Any = {"tightBounds": False}
twin("STA011", told(LONGS, stats=about(1, 3)), told(LONGS, stats=about(1, 4)))
twin(
    "STA012",
    told(LONGS, stats=about(0, 4, **LOOSE), proto=DV),
    told(LONGS, stats=about(0, 2, **LOOSE), proto=DV),
)
twin("STA013", told(LONGS, stats=about(1, 3)), told(LONGS, stats=about(1, 3, 1)))
CHECKS: Any = {"proto": protocol(1, 3)}


def checked_by(sql: str) -> Any:
    return {**CHECKS, "configuration": {"delta.constraints.c": sql}}


twin(
    "DAT013",
    told(LONGS, stats={}, **checked_by("id > 0")),
    told(LONGS, stats={}, **checked_by("id > 1")),
)
DOUBLED = column("id"), column("x", "long", **{"delta.generationExpression": "id * 2"})
GENERATED: Any = {"proto": protocol(1, 4)}
twin(
    "DAT014",
    told({"id": LONGS, "x": pa.array([2, 4, 6])}, *DOUBLED, stats={}, **GENERATED),
    told({"id": LONGS, "x": pa.array([2, 4, 7])}, *DOUBLED, stats={}, **GENERATED),
)


def garbled(content: bytes) -> bytes:
    """The file with its pages overwritten and its footer as it was."""
    return content[:4] + b"\xff" * 40 + content[44:]


WHOLE_FILE = data_file(id=LONGS)
twin("DAT015", PLAIN, stored(garbled(WHOLE_FILE)))
twin(
    "DAT016",
    told(LONGS, stats={}, **checked_by("id > 0")),
    told(LONGS, stats={}, **checked_by("no_such_function(id)")),
)
