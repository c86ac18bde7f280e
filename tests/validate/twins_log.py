"""Twins for rules of the log level."""

# A row a rule reads better uncut.

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.builder import (
    DAY_MS,
    NOW_MS,
    Action,
    add,
    column,
    commit_info,
    domain,
    features,
    metadata,
    parquet_rows,
    protocol,
    remove,
    txn,
    vector,
)
from tests.validate.bench import Log, c, lines, start, twin

WEEK = {"delta.deletedFileRetentionDuration": "interval 1 week"}


def name(version: int, rest: str = "json") -> str:
    return f"{version:020}.{rest}"


def checkpoint(*actions: Action, version: int = 1, **parquet: Any) -> dict[str, bytes]:
    """A classic checkpoint of these actions, and protocol and metadata unless given."""
    return {name(version, "checkpoint.parquet"): rows(*actions, **parquet)}


def rows(*actions: Action, **parquet: Any) -> bytes:
    keys = {key for one in actions for key in one}
    head = [
        one for one, key in ((protocol(), "protocol"), (metadata(), "metaData")) if key not in keys
    ]
    return parquet_rows([*head, *actions], **parquet)


def hint(version: int, **more: Any) -> bytes:
    return json.dumps({"version": version, "size": 3, **more}).encode()


def kept(one: Action) -> Action:
    """A file action as a checkpoint has it."""
    ((key, body),) = one.items()
    return {key: {**body, "dataChange": False}}


A, B = add("a"), add("b")
TWO = [start(A), c(B)]
CHECKPOINT = checkpoint(kept(A), kept(B))
HINT = {"_last_checkpoint": hint(1, size=4)}

# -- LOG ---------------------------------------------------------------------------------

twin("LOG001", [start(A)], Log([], {"_trino_meta": b"x"}))
twin("LOG002", [start(A), c(B), c()], [start(A), [], c()])
twin(
    "LOG003",
    Log(
        [start(A), c(B), c()],
        checkpoint(kept(A), kept(B), version=2) | {"_last_checkpoint": hint(2, size=4)},
    ),
    Log(
        [start(A), [], c()],
        checkpoint(kept(A), kept(B), version=2) | {"_last_checkpoint": hint(2, size=4)},
    ),
)
twin("LOG004", Log([c(), c()], CHECKPOINT | HINT, first=1), Log([c(), c()], first=1))
twin("LOG005", Log(TWO, CHECKPOINT | HINT), Log([start(A)], CHECKPOINT | HINT))
twin("LOG006", Log([c(), c()], CHECKPOINT | HINT, first=1), Log([c()], CHECKPOINT | HINT, first=2))
twin("LOG007", Log([*TWO]), Log([*TWO, b""]))
twin("LOG008", Log(TWO), Log(TWO, {name(1, "crc"): b""}))
twin("LOG009", Log(TWO, {"_trino_meta": b"x"}), Log(TWO, {"notes.txt": b"x"}))
twin("LOG010", Log(TWO), Log(TWO, {"7.json": b"{}"}))
twin(
    "LOG011",
    Log(TWO, {f".{name(2)}.tmp": b"x"}),
    Log(TWO, {f".{name(2)}.tmp": b"x"}, old={f".{name(2)}.tmp": NOW_MS - 2 * DAY_MS}),
)
twin("LOG012", Log(TWO), Log(TWO, {"1.json": b"{}"}))
twin(
    "LOG013",
    Log(TWO, at_ms={0: NOW_MS - 5000, 1: NOW_MS - 4000}, files={"a": 100, "b": 100}),
    Log(TWO, at_ms={0: NOW_MS - 5000, 1: NOW_MS - 6000}, files={"a": 100, "b": 100}),
)
twin(
    "LOG014",
    Log(TWO, files={"a": 100, "b": 100}),
    Log(
        [start(A, info={"timestamp": NOW_MS - 9 * DAY_MS}), c(B, timestamp=NOW_MS - 8 * DAY_MS)],
        files={"a": 100, "b": 100},
    ),
)
SPARSE = metadata(configuration={"delta.checkpointInterval": "1"})
twin(
    "LOG015",
    [[commit_info(), protocol(), SPARSE], *[c() for _ in range(9)]],
    [[commit_info(), protocol(), SPARSE], *[c() for _ in range(10)]],
)
OLD = Log(
    TWO, CHECKPOINT | HINT, files={"a": 100, "b": 100},
    at_ms={0: NOW_MS - 70 * DAY_MS, 1: NOW_MS},
)  # fmt: skip
OLD_INFO = [start(A, info={"timestamp": NOW_MS - 70 * DAY_MS}), c(B)]
twin(
    "LOG016",
    Log(OLD_INFO, CHECKPOINT | HINT, {"a": 100, "b": 100}, at_ms={0: NOW_MS - 20 * DAY_MS}),
    Log(OLD_INFO, CHECKPOINT | HINT, {"a": 100, "b": 100}, at_ms={0: NOW_MS - 70 * DAY_MS}),
)
twin(
    "LOG017",
    Log(TWO),
    Log(TWO, {f"_staged_commits/{2:020}.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json": b"{}"}),
)
COMPACTED = lines(kept(A), kept(B), protocol(), metadata())
twin(
    "LOG018",
    Log(TWO, {f"{0:020}.{1:020}.compacted.json": lines(A, B, protocol(), metadata())}),
    Log(TWO, {f"{1:020}.{7:020}.compacted.json": lines(A, B, protocol(), metadata())}),
)
twin(
    "LOG019",
    Log(TWO, {f"{0:020}.{1:020}.compacted.json": COMPACTED}),
    Log(TWO, {f"{0:020}.{1:020}.compacted.json": lines(kept(A), protocol(), metadata())}),
)
twin(
    "LOG020",
    Log(TWO, {f"{0:020}.{1:020}.compacted.json": COMPACTED}),
    Log(TWO, {f"{0:020}.{1:020}.compacted.json": COMPACTED + lines(commit_info())}),
)

# -- JSN ---------------------------------------------------------------------------------

ONE = lines(*c(B))
GOOD: list[Any] = [start(A), ONE]
twin("JSN001", GOOD, [start(A), ONE[:-20]])
twin("JSN002", GOOD, [start(A), ONE + b"[1]\n"])
twin("JSN003", GOOD, [start(A), lines(commit_info(), {**B, **txn("x", 1)})])
twin("JSN004", GOOD, [start(A), ONE + b'{"news":{}}\n'])
twin("JSN005", GOOD, [start(A), ONE.replace(b'"size": 100', b'"size": 100, "size": 100')])
twin("JSN006", GOOD, [start(A), ONE.replace(b"\n", b"\r\n")])
twin("JSN007", GOOD, [start(A), ONE.replace(b'"path": "b"', b'"path": "b\xff"')])
twin("JSN008", GOOD, [start(A), ONE.replace(b'"size": 100', b'"size": NaN')], "ACT002")
twin("JSN009", GOOD, [start(A), c(add("b", colour="red"))])

# -- ACT ---------------------------------------------------------------------------------


def without(one: Action, *names: str) -> Action:
    ((key, body),) = one.items()
    return {key: {field: value for field, value in body.items() if field not in names}}


REMOVE = remove("a")
twin("ACT001", TWO, [start(A), c(without(B, "modificationTime"))])
twin("ACT002", TWO, [start(A), c(add("b", size="100"))])  # type: ignore[arg-type]
twin("ACT003", TWO, [start(A), c(add("b", modificationTime=-1))])
twin("ACT004", [start(add("a%20b"))], [start(add("a b"))])
twin("ACT005", [start(add("a"))], [start(add("s3://elsewhere/t/a"))])
twin("ACT006", [start(add("x/a"))], [start(add("_x/a"))])
twin("ACT007", [start(A), c(REMOVE)], [start(A), c(remove("a", None))])
EXTENDED = {"extendedFileMetadata": True}
twin(
    "ACT008",
    [start(A), c(remove("a", partitionValues={}, **EXTENDED))],
    [start(A), c(remove("a", **EXTENDED))],
)
FEED = {"delta.enableChangeDataFeed": "true"}
FEED_TABLE = {"proto": protocol(1, 4), "configuration": FEED}


def cdc(path: str = "_change_data/x", **more: Any) -> Action:
    return {"cdc": {"path": path, "partitionValues": {}, "size": 9, "dataChange": False, **more}}


twin("ACT009", [start(A, cdc(), **FEED_TABLE)], [start(A, cdc(dataChange=True), **FEED_TABLE)])
SIDECAR = {"sidecar": {"path": "x.parquet", "sizeInBytes": 1, "modificationTime": NOW_MS}}
twin("ACT010", [start(A)], [start(A, SIDECAR)])
V2 = features("v2Checkpoint")
V2_TWO = [start(A, proto=V2), c(B)]
V2_NAME = name(1, "checkpoint.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json")
V2_META = {"checkpointMetadata": {"version": 1}}


def v2(*actions: Action, meta: Sequence[Action] = (V2_META,)) -> dict[str, bytes]:
    return {V2_NAME: lines(V2, metadata(), *meta, *map(kept_or, actions))}


def kept_or(one: Action) -> Action:
    return kept(one) if next(iter(one)) in ("add", "remove") else one


V2_HINT = {"_last_checkpoint": hint(1, size=5)}
twin(
    "ACT011",
    Log(V2_TWO, v2(A, B) | V2_HINT),
    Log(V2_TWO, v2(A, B, commit_info()) | {"_last_checkpoint": hint(1, size=6)}),
)
twin("ACT012", [start(A)], [start(add("a", modificationTime=0))])
twin("ACT013", [start(A), c(REMOVE)], [start(A), c(remove("a", NOW_MS + 3 * DAY_MS))])
twin("ACT014", [start(A)], [[commit_info(), metadata(), A]])
twin("ACT015", [start(A)], [[protocol(), metadata(), A]])
twin("ACT016", [start(A), c(B, version=1)], [start(A), c(B, version=7)])
twin("ACT017", [start(A), c(metadata(name="n"))], [start(A), c(metadata(id="another"))])
twin("ACT018", [start(A)], [start(add("a", stats="{"))], "STA002")

# -- CFL ---------------------------------------------------------------------------------

DV = features("deletionVectors")
D1, D2 = vector("ab^-aqEH.-t@S}K{vb[*k^", 4), vector("ab^-aqEH.-t@S}K{vb[*k^", 60)


def wide(records: int = 10) -> str:
    return json.dumps({"numRecords": records, "tightBounds": False})


def deleted(path: str, descriptor: Any, **more: Any) -> Action:
    return add(path, stats=wide(), deletionVector=descriptor, **more)


def undeleted(path: str, descriptor: Any) -> Action:
    return remove(path, deletionVector=descriptor)


twin("CFL001", [start(A), c(B)], [start(A), c(B, B)])
twin("CFL002", [start(A), c(REMOVE, B)], [start(A), c(REMOVE, A)])
twin("CFL003", [start(A), c(REMOVE)], [start(A), c(REMOVE, REMOVE)])
twin("CFL004", [start(A), c(txn("x", 1))], [start(A), c(commit_info())])
twin("CFL005", [start(A), c(txn("x", 1), txn("y", 2))], [start(A), c(txn("x", 1), txn("x", 2))])
DOMAINS = protocol(1, 7, None, ["domainMetadata"])
twin(
    "CFL006",
    [start(A, proto=DOMAINS), c(domain("x"), domain("y"))],
    [start(A, proto=DOMAINS), c(domain("x"), domain("x"))],
)
twin(
    "CFL007",
    [start(A, proto=DV), c(remove("a"), deleted("a", D1)), c(undeleted("a", D1), deleted("a", D2))],
    [start(A, proto=DV), c(remove("a"), deleted("a", D1)), c(deleted("a", D2))],
    "CFL012",
)
twin("CFL008", [start(A), c(REMOVE)], [start(A), c(remove("z"))])
twin(
    "CFL009",
    [start(A), c(REMOVE, B)],
    [start(A), c(REMOVE, add("b", dataChange=False))],
)
APPEND = {"configuration": {"delta.appendOnly": "true"}}
twin(
    "CFL010",
    [start(A, **APPEND), c(remove("a", dataChange=False), add("b", dataChange=False))],
    [start(A, **APPEND), c(REMOVE)],
)
twin("CFL011", [start(A), c(B)], [start(A), c(add("b", dataChange=False))])
DV_ROWS = [DV, metadata(), kept(deleted("a", D1))]
twin(
    "CFL012",
    Log(
        [c(), c()],
        {name(1, "checkpoint.parquet"): parquet_rows(DV_ROWS), "_last_checkpoint": hint(1)},
        first=1,
    ),
    Log(
        [c(), c()],
        {
            name(1, "checkpoint.parquet"): parquet_rows([*DV_ROWS, kept(deleted("a", D2))]),
            "_last_checkpoint": hint(1, size=4),
        },
        first=1,
    ),
)

# -- PRT ---------------------------------------------------------------------------------


def proto(*args: Any) -> list[Any]:
    return [start(A, proto=protocol(*args))]


twin("PRT001", proto(1, 2), proto(1, 9), "PRT003")
twin("PRT002", proto(3, 7, [], []), proto(3, 7, None, []))
twin("PRT003", proto(1, 7, None, []), proto(1, 7))
twin("PRT004", proto(3, 7, [], []), proto(3, 6, [], None))
twin(
    "PRT005",
    proto(3, 7, ["deletionVectors"], ["deletionVectors"]),
    proto(3, 7, ["deletionVectors"], []),
)
twin(
    "PRT006",
    proto(3, 7, [], ["domainMetadata"]),
    proto(3, 7, ["domainMetadata"], ["domainMetadata"]),
)
twin("PRT007", proto(1, 7, None, ["appendOnly"]), proto(1, 7, None, ["teleport"]))
twin(
    "PRT008", proto(1, 7, None, ["clustering", "domainMetadata"]), proto(1, 7, None, ["clustering"])
)
ENABLE = {"configuration": {"delta.enableDeletionVectors": "true"}}
twin("PRT009", [start(A, proto=DV, **ENABLE)], [start(A, **ENABLE)])


def table(*columns: Any, proto: Action | None = None, **more: Any) -> list[Any]:
    return [[commit_info(), proto or protocol(), metadata(*columns, **more), A]]


NTZ = column("id"), column("t", "timestamp_ntz")
twin("PRT010", table(*NTZ, proto=features("timestampNtz")), table(*NTZ))
twin("PRT011", [start(deleted("a", D1), proto=DV)], [start(deleted("a", D1))])


def mapped(name: str, number: int, type_: Any = "long", physical: str | None = None) -> Any:
    own = {
        "delta.columnMapping.id": number,
        "delta.columnMapping.physicalName": physical or f"col-{name}",
    }
    return {"name": name, "type": type_, "nullable": True, "metadata": own}


NAMES = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "9"}
MAPPED = mapped("id", 1), mapped("x", 2)
M25 = protocol(2, 5)
twin("PRT012", table(*MAPPED, proto=M25, configuration=NAMES), table(*MAPPED, configuration=NAMES))
twin("PRT013", [start(domain("x"), proto=DOMAINS)], [start(domain("x"))])
twin(
    "PRT014",
    Log(V2_TWO, v2(A, B) | V2_HINT),
    Log(TWO, {V2_NAME: lines(protocol(), metadata(), V2_META, kept(A), kept(B))} | V2_HINT),
)


def parts(*actions: Action, proto: Action) -> dict[str, bytes]:
    head = [proto, metadata()]
    return {
        name(1, "checkpoint.0000000001.0000000002.parquet"): parquet_rows(head),
        name(1, "checkpoint.0000000002.0000000002.parquet"): parquet_rows(
            [kept(one) for one in actions]
        ),
    }


PARTS_HINT = {"_last_checkpoint": hint(1, size=4, parts=2)}
twin(
    "PRT015",
    Log(TWO, parts(A, B, proto=protocol()) | PARTS_HINT),
    Log(V2_TWO, parts(A, B, proto=V2) | PARTS_HINT),
)
NAMED = protocol(1, 7, None, ["appendOnly", "domainMetadata"])
twin(
    "PRT016",
    [start(A, proto=NAMED), c(protocol(1, 7, None, ["appendOnly"]), operation="DROP FEATURE")],
    [start(A, proto=NAMED), c(protocol(1, 7, None, ["appendOnly"]))],
)


def widened(*changes: Any, type_: Any = "long", **more: Any) -> Any:
    return column("id", type_, **{"delta.typeChanges": list(changes)}, **more)


STEP = {"fromType": "integer", "toType": "long"}
WIDE = features("typeWidening")
twin("PRT017", table(widened(STEP), proto=WIDE), table(widened(STEP)))


def iceberg(*versions: str, **more: str) -> dict[str, str]:
    return {**NAMES, **{f"delta.enableIcebergCompat{one}": "true" for one in versions}, **more}


ICE = protocol(2, 7, None, ["columnMapping", "icebergCompatV1", "icebergCompatV2"])
twin(
    "PRT018",
    table(*MAPPED, proto=ICE, configuration=iceberg("V2")),
    table(*MAPPED, proto=ICE, configuration=iceberg("V1", "V2")),
)
ICE_DV = protocol(
    3,
    7,
    ["columnMapping", "deletionVectors"],
    ["columnMapping", "deletionVectors", "icebergCompatV2"],
)
VECTORS = {"delta.enableDeletionVectors": "true"}
twin(
    "PRT019",
    table(*MAPPED, proto=ICE_DV, configuration=iceberg("V2")),
    table(*MAPPED, proto=ICE_DV, configuration=iceberg("V2", **VECTORS)),
)
twin("PRT020", proto(1, 7, None, ["collations"]), proto(1, 7, None, ["collations-preview"]))
twin("PRT021", proto(1, 7, None, ["appendOnly"]), proto(1, 7, None, ["appendOnly", "appendOnly"]))


def configured(proto: Action | None = None, **settings: str) -> list[Any]:
    own = {f"delta.{key.replace('_', '.')}": value for key, value in settings.items()}
    return table(proto=proto, configuration=own)


twin("PRT022", configured(appendOnly="false"), configured(autoOptimize_optimizeWrite="true"))

# -- MET ---------------------------------------------------------------------------------

twin("MET001", [start(A)], [[commit_info(), protocol(), metadata(schemaString='"long"'), A]])
twin("MET002", table(column("id"), column("x")), table(column("id"), column("ID")))
PARTS = {"partition_by": ["p"]}
twin(
    "MET003",
    [[commit_info(), protocol(), metadata(column("id"), column("p"), **PARTS)]],
    [[commit_info(), protocol(), metadata(column("id"), **PARTS)]],
)
twin(
    "MET004",
    [[commit_info(), protocol(), metadata(column("id"), column("p"), **PARTS)]],
    [[commit_info(), protocol(), metadata(column("p"), **PARTS)]],
)
twin("MET005", table(column("a_b")), table(column("a b")))
twin("MET006", table(column("d", "decimal(38,2)")), table(column("d", "decimal(39,2)")))
twin("MET007", table(column("id")), table({"name": "id", "type": "long", "metadata": {}}))
twin(
    "MET008",
    configured(logRetentionDuration="interval 30 days"),
    configured(logRetentionDuration="interval 1 month"),
)
twin(
    "MET009",
    configured(logRetentionDuration="interval 8 days"),
    configured(logRetentionDuration="interval 2 days"),
)
twin(
    "MET010",
    configured(deletedFileRetentionDuration="interval 1 day"),
    configured(deletedFileRetentionDuration="interval 1 hour"),
)
twin("MET011", configured(appendOnly="TRUE"), configured(appendOnly="maybe"))
twin(
    "MET012",
    [start(A)],
    [[commit_info(), protocol(), metadata(format={"provider": "orc", "options": {}}), A]],
)
CHECKS = protocol(1, 3)
twin(
    "MET013",
    configured(CHECKS, constraints_c="id > 0"),
    configured(CHECKS, constraints_c="price > 0"),
)
IDENTITY = {
    "delta.identity.start": 1,
    "delta.identity.step": 2,
    "delta.identity.allowExplicitInsert": False,
}
twin(
    "MET014",
    table(column("id", **IDENTITY), proto=protocol(1, 6)),
    table(column("id", **{**IDENTITY, "delta.identity.step": 0}), proto=protocol(1, 6)),
)
twin("MET015", configured(appendOnly="false"), configured(minReaderVersion="1"))
twin(
    "MET016",
    table(column("id"), column("v", "void")),
    table(
        column("id"), column("v", {"type": "array", "elementType": "void", "containsNull": True})
    ),
)
CLUSTERED = protocol(1, 7, None, ["clustering", "domainMetadata"])


def clustering(*columns: str) -> Action:
    return domain("delta.clustering", json.dumps({"clusteringColumns": [[one] for one in columns]}))


def clustered(
    *columns: str, stats: Any = None, provider: str | None = "liquid", **more: Any
) -> list[Any]:
    text = json.dumps(
        stats
        or {"numRecords": 9, "minValues": {"id": 1}, "maxValues": {"id": 2}, "nullCount": {"id": 0}}
    )
    file = add("a", stats=text, clusteringProvider=provider)
    return [
        [
            commit_info(),
            CLUSTERED,
            metadata(column("id"), column("p"), **more),
            clustering(*columns),
            file,
        ]
    ]


twin(
    "MET017",
    [[commit_info(), CLUSTERED, metadata(column("id"), column("p")), clustering("id")]],
    [[commit_info(), CLUSTERED, metadata(column("id"), column("p"), **PARTS), clustering("id")]],
)
twin("MET018", clustered("id"), clustered("id", "gone"))
FEW = {"configuration": {"delta.dataSkippingNumIndexedCols": "1"}}
twin(
    "MET019",
    [[commit_info(), CLUSTERED, metadata(column("id"), column("p"), **FEW), clustering("id")]],
    [[commit_info(), CLUSTERED, metadata(column("id"), column("p"), **FEW), clustering("p")]],
)
twin(
    "MET020",
    configured(dataSkippingStatsColumns="id"),
    configured(dataSkippingStatsColumns="id,gone"),
)
twin(
    "MET021",
    configured(parquet_compression_codec="zstd"),
    configured(parquet_compression_codec="arj"),
)

# -- CMP ---------------------------------------------------------------------------------


def mapping(*columns: Any, **more: str) -> list[Any]:
    return table(*columns, proto=M25, configuration={**NAMES, **more})


twin("CMP001", mapping(*MAPPED), mapping(mapped("id", 1), column("x")))
twin("CMP002", mapping(*MAPPED), mapping(mapped("id", 1), mapped("x", 1)))
twin("CMP003", mapping(*MAPPED), mapping(mapped("id", 1), mapped("x", 2, physical="col-id")))
twin("CMP004", mapping(*MAPPED), mapping(mapped("id", 1), mapped("x", 12)))
IDS = {**NAMES, "delta.columnMapping.mode": "id"}
twin(
    "CMP005",
    [*mapping(*MAPPED), c(metadata(*MAPPED, configuration=NAMES, name="n"))],
    [*mapping(*MAPPED), c(metadata(*MAPPED, configuration=IDS))],
)


def mapped_partition(key: str) -> list[Any]:
    meta = metadata(*MAPPED, partition_by=["x"], configuration=NAMES)
    return [[commit_info(), M25, meta, add("a", partitionValues={key: "1"})]]


twin("CMP006", mapped_partition("col-x"), mapped_partition("x"))
twin(
    "CMP009",
    [
        *mapping(*MAPPED),
        c(metadata(mapped("id", 1), mapped("y", 2, physical="col-x"), configuration=NAMES)),
    ],
    [
        *mapping(*MAPPED),
        c(metadata(mapped("id", 1), mapped("x", 2, physical="col-z"), configuration=NAMES)),
    ],
)

# -- PAR ---------------------------------------------------------------------------------


def partitioned(
    values: dict[str, Any], type_: str = "integer", path: str = "a", nullable: bool = True
) -> list[Any]:
    meta = metadata(column("id"), column("p", type_, nullable), partition_by=["p"])
    return [[commit_info(), protocol(), meta, add(path, partitionValues=values)]]


twin("PAR001", partitioned({"p": None}), partitioned({}))
twin("PAR002", partitioned({"p": "1"}), partitioned({"p": "1", "q": "2"}))
twin("PAR003", partitioned({"p": "1"}), partitioned({"p": "one"}))
twin(
    "PAR004",
    partitioned({"p": "2024-01-31T10:00:00.000000Z"}, "timestamp"),
    partitioned({"p": "2024-01-31 10:00:00"}, "timestamp"),
)
twin("PAR005", partitioned({"p": "1"}, nullable=False), partitioned({"p": None}, nullable=False))
HIVE = "__HIVE_DEFAULT_PARTITION__"
twin("PAR006", partitioned({"p": "x"}, "string"), partitioned({"p": HIVE}, "string"))
twin("PAR007", partitioned({"p": "1"}, path="p=1/a"), partitioned({"p": "1"}, path="p=2/a"))
twin("PAR008", partitioned({"p": None}), partitioned({"p": ""}))

# -- STA ---------------------------------------------------------------------------------


def stats(
    rows: Any = 10,
    low: Any = None,
    high: Any = None,
    nulls: Any = None,
    column: str = "id",
    **more: Any,
) -> str:
    body: dict[str, Any] = {"numRecords": rows, **more}
    for key, value in (("minValues", low), ("maxValues", high), ("nullCount", nulls)):
        if value is not None:
            body[key] = {column: value}
    return json.dumps(body)


def measured(
    text: str | None, *columns: Any, proto: Action | None = None, **more: Any
) -> list[Any]:
    file = add("a", stats=text) if text is not None else without(A, "stats")
    meta = metadata(*columns, **more)
    return [[commit_info(), proto or protocol(), meta, file]]


twin(
    "STA001",
    [start(deleted("a", D1), proto=DV)],
    [start(without(deleted("a", D1), "stats"), proto=DV)],
)
twin("STA002", measured(stats()), measured(None))
twin("STA003", measured(stats(10, nulls=10)), measured(stats(10, nulls=11)))
twin("STA004", measured(stats(10, 1, 2)), measured(stats(10, 2, 1)))
twin("STA005", measured(stats(10, 1, 2)), measured(stats(10, 1, 2, column="gone")))
twin("STA006", measured(stats(10, 1, 2)), measured(stats(10, "one", 2)))
BYTES = column("id", "binary")
twin("STA007", measured(stats(10, nulls=0), BYTES), measured(stats(10, "AA", "BB", nulls=0), BYTES))
twin(
    "STA008",
    measured(stats(10, 1, 2, column="col-id"), *MAPPED, proto=M25, configuration=NAMES),
    measured(stats(10, 1, 2, column="id"), *MAPPED, proto=M25, configuration=NAMES),
)
twin("STA009", clustered("id"), clustered("id", stats={"numRecords": 9}))
TIGHT = add("a", stats=stats(10, 1, 2), deletionVector=D1)
LOOSE = add("a", stats=stats(10, 1, 2, tightBounds=False), deletionVector=D1)
twin("STA014", [start(LOOSE, proto=DV)], [start(TIGHT, proto=DV)])
twin(
    "STA015",
    [start(deleted("a", {**D1, "cardinality": 9}), proto=DV)],
    [start(deleted("a", {**D1, "cardinality": 11}), proto=DV)],
)
twin(
    "STA016",
    measured(stats(), *MAPPED, proto=ICE, configuration=iceberg("V2")),
    measured(None, *MAPPED, proto=ICE, configuration=iceberg("V2")),
    "STA002",
)

# -- CKP ---------------------------------------------------------------------------------


def two(
    *actions: Action, size: int | None = None, proto: Action | None = None, **parquet: Any
) -> Log:
    """The table with two files, and a checkpoint of these rows."""
    content = rows(*((proto,) if proto else ()), *actions, **parquet)
    head = start(A, proto=proto) if proto else start(A)
    count = size or 2 + len(actions)
    return Log(
        [head, c(B)],
        {name(1, "checkpoint.parquet"): content, "_last_checkpoint": hint(1, size=count)},
    )


WHOLE = two(kept(A), kept(B))
twin("CKP001", WHOLE, Log(TWO, {name(1, "checkpoint.parquet"): b"PAR1 and then", **HINT}))
twin(
    "CKP002",
    Log(TWO, parts(A, B, proto=protocol()) | PARTS_HINT),
    Log(TWO, {name(1, "checkpoint.0000000001.0000000002.parquet"): rows(kept(A), kept(B))}),
)
twin(
    "CKP003",
    WHOLE,
    Log(
        TWO,
        {
            name(1, "checkpoint.parquet"): parquet_rows([metadata(), kept(A), kept(B)]),
            "_last_checkpoint": hint(1),
        },
    ),
)
twin("CKP004", WHOLE, two(metadata(column("other")), kept(A), kept(B), size=4))
twin("CKP005", WHOLE, two(kept(A), size=3))
GONE = [start(A), c(REMOVE)]
twin(
    "CKP006",
    Log(GONE, checkpoint(kept(REMOVE)) | {"_last_checkpoint": hint(1)}),
    Log(GONE, checkpoint() | {"_last_checkpoint": hint(1, size=2)}),
)
LONG_AGO = remove("z", NOW_MS - 30 * DAY_MS)
twin("CKP007", WHOLE, two(kept(A), kept(B), kept(LONG_AGO)))
TXN = Log(
    [start(A), c(B, txn("app", 3))],
    checkpoint(kept(A), kept(B), txn("app", 3)) | {"_last_checkpoint": hint(1, size=5)},
)
twin("CKP008", TXN, Log(TXN.commits, checkpoint(kept(A), kept(B)) | HINT))
REMOVED = [start(A, domain("x"), proto=DOMAINS), c(B, domain("x", removed=True))]
twin(
    "CKP009",
    Log(REMOVED, {name(1, "checkpoint.parquet"): rows(DOMAINS, kept(A), kept(B)), **HINT}),
    Log(
        REMOVED,
        {
            name(1, "checkpoint.parquet"): rows(
                DOMAINS, kept(A), kept(B), domain("x", removed=True)
            ),
            "_last_checkpoint": hint(1, size=5),
        },
    ),
)
twin("CKP010", WHOLE, two(kept(A), kept(B), kept(remove("b"))))
twin("CKP011", WHOLE, two(A, kept(B)))
TAGGED = remove("a", tags={"x": "1"})
twin(
    "CKP012",
    Log(GONE, checkpoint(kept(REMOVE)) | {"_last_checkpoint": hint(1)}),
    Log([start(A), c(TAGGED)], checkpoint(kept(TAGGED)) | {"_last_checkpoint": hint(1)}),
)
NAMED_7 = protocol(1, 7, None, ["appendOnly"])
twin(
    "CKP013",
    two(kept(A), kept(B), proto=NAMED_7, size=4),
    Log(
        [start(A, proto=NAMED_7), c(B)],
        {name(1, "checkpoint.parquet"): rows(protocol(1, 7), kept(A), kept(B)), **HINT},
    ),
    "CKP004 PRT003",
)
twin("CKP014", WHOLE, two(kept(without(A, "stats")), kept(without(B, "stats")), size=4))
NO_TEXT = metadata(configuration={"delta.checkpoint.writeStatsAsJson": "false"})
twin(
    "CKP015",
    WHOLE,
    Log(
        [[commit_info(), protocol(), NO_TEXT, A], c(B)],
        {name(1, "checkpoint.parquet"): rows(NO_TEXT, kept(A), kept(B)), **HINT},
    ),
)
DOUBLE = checkpoint(kept(A), {**kept(B), **txn("app", 3)})
twin("CKP018", TXN, Log(TXN.commits, DOUBLE | {"_last_checkpoint": hint(1, size=5)}))
twin(
    "CKP019",
    Log(V2_TWO, v2(A, B) | V2_HINT),
    Log(V2_TWO, v2(A, B, meta=({"checkpointMetadata": {"version": 7}},)) | V2_HINT),
)
PART = "one.parquet"


def sidecars(content: bytes, *inline: Action, size: int | None = None) -> Log:
    one = {
        "sidecar": {"path": PART, "sizeInBytes": size or len(content), "modificationTime": NOW_MS}
    }
    main = lines(V2, metadata(), V2_META, one, *map(kept, inline))
    return Log(V2_TWO, {V2_NAME: main, f"_sidecars/{PART}": content})


FILES = parquet_rows([kept(A), kept(B)])
NO_HINT = {"_last_checkpoint": hint(1, size=6)}


def with_hint(one: Log, size: int) -> Log:
    one.others = {**one.others, "_last_checkpoint": hint(1, size=size)}
    return one


WITH_SIDECAR = with_hint(sidecars(FILES), 6)
twin("CKP020", WITH_SIDECAR, with_hint(sidecars(parquet_rows([kept(A)]), B), 6))
twin(
    "CKP021",
    WITH_SIDECAR,
    with_hint(sidecars(parquet_rows([kept(A), kept(B), txn("x", 1)])), 7),
    "CKP008",
)
twin("CKP022", WITH_SIDECAR, with_hint(sidecars(FILES, size=9), 6))
TRACKED = protocol(1, 7, None, ["rowTracking", "domainMetadata"])


def numbered(one: Action, base: int | None, version: int | None = 0) -> Action:
    ((key, body),) = one.items()
    return {key: {**body, "baseRowId": base, "defaultRowCommitVersion": version}}


def mark(value: int) -> Action:
    return domain("delta.rowTracking", json.dumps({"rowIdHighWaterMark": value}))


IDS_LOG = [start(numbered(A, 0), mark(19), proto=TRACKED), c(numbered(B, 10, 1))]


def ids_checkpoint(base: int | None) -> Log:
    content = rows(TRACKED, kept(numbered(A, 0)), kept(numbered(B, base, 1)), mark(19))
    return Log(
        IDS_LOG, {name(1, "checkpoint.parquet"): content, "_last_checkpoint": hint(1, size=5)}
    )


twin("CKP024", ids_checkpoint(10), ids_checkpoint(None))
BOTH = {
    name(1, "checkpoint.parquet"): rows(V2, kept(A), kept(B)),
    "_last_checkpoint": hint(1, size=4),
}
twin(
    "CKP025",
    Log([c()], BOTH | v2(A, B), first=1),
    Log([c()], BOTH | v2(A), first=1),
)
V2_HINTED = v2(A, B) | V2_HINT
twin("CKP026", Log(V2_TWO, V2_HINTED), Log([c()], V2_HINTED, first=1))

# -- LCP ---------------------------------------------------------------------------------


def hinted(content: bytes | None) -> Log:
    return Log(TWO, CHECKPOINT | ({"_last_checkpoint": content} if content is not None else {}))


SOUND_HINT = hinted(hint(1, size=4))
twin("LCP001", SOUND_HINT, hinted(None))
twin("LCP002", SOUND_HINT, hinted(b"{"))
twin("LCP003", SOUND_HINT, hinted(hint(1, size=4, checksum="0" * 32)))
twin("LCP004", SOUND_HINT, hinted(hint(0, size=4)), "LCP006")
twin("LCP005", SOUND_HINT, hinted(hint(1, size=4, parts=2)))
LATER = checkpoint(kept(A), kept(B), version=2)
twin(
    "LCP006",
    Log([*TWO, c()], CHECKPOINT | LATER | {"_last_checkpoint": hint(2, size=4)}),
    Log([*TWO, c()], CHECKPOINT | LATER | HINT),
)
twin("LCP007", SOUND_HINT, hinted(hint(1, size=9)))
twin("LCP008", SOUND_HINT, hinted(hint(9, size=4)))

# -- CRC ---------------------------------------------------------------------------------

SUMS = {
    "tableSizeBytes": 200, "numFiles": 2, "numMetadata": 1, "numProtocol": 1,
    "protocol": protocol()["protocol"], "metadata": metadata()["metaData"],
}  # fmt: skip


def crc(commits: list[Any] = TWO, version: int = 1, **more: Any) -> Log:
    return Log(commits, {name(version, "crc"): json.dumps({**SUMS, **more}).encode()})


twin("CRC001", crc(), Log(TWO, {name(1, "crc"): b"{"}))
twin("CRC002", crc(), crc(numMetadata=2))
twin("CRC003", crc(), crc(numFiles=3))
twin("CRC004", crc(), crc(protocol=protocol(1, 3)["protocol"]))
twin("CRC005", crc(setTransactions=[]), crc(setTransactions=[txn("x", 1)["txn"]]))
twin("CRC006", crc(), crc(inCommitTimestampOpt=NOW_MS))
BINS = {"sortedBinBoundaries": [0, 50], "fileCounts": [0, 2], "totalBytes": [0, 200]}
twin("CRC007", crc(fileSizeHistogram=BINS), crc(fileSizeHistogram={**BINS, "fileCounts": [0, 1]}))
twin("CRC008", crc(numDeletionVectorsOpt=0), crc(numDeletionVectorsOpt=1))
twin("CRC009", crc(), crc(version=7))
twin("CRC010", crc(fileSizeHistogram=BINS), crc(fileSizeHistogram=BINS, histogramOpt=BINS))
SIGNED = [start(A), c(B, txnId="one")]
twin("CRC011", crc(SIGNED, txnId="one"), crc(SIGNED, txnId="two"))

# -- DVX ---------------------------------------------------------------------------------

twin(
    "DVX001",
    [start(deleted("a", D1), proto=DV)],
    [start(deleted("a", {**D1, "storageType": "x"}), proto=DV)],
)
twin(
    "DVX006",
    [start(deleted("a", D1), proto=DV)],
    [start(deleted("a", {**D1, "cardinality": 10}), proto=DV)],
)
ICE_VECTOR = [
    [commit_info(), ICE_DV, metadata(*MAPPED, configuration=iceberg("V2")), deleted("a", D1)]
]
twin(
    "DVX008",
    [[commit_info(), ICE_DV, metadata(*MAPPED, configuration=NAMES), deleted("a", D1)]],
    ICE_VECTOR,
)

# -- DAT (those that the log alone tells) -------------------------------------------------

twin("DAT009", [start(add("x%20y")), c(B)], [start(add("x%20y")), c(add("x%20%79"))])

# -- TYW ---------------------------------------------------------------------------------


def typed(*columns: Any, proto: Action = WIDE, **more: Any) -> list[Any]:
    return table(*columns, proto=proto, **more)


twin("TYW001", typed(widened(STEP)), typed(column("id", **{"delta.typeChanges": "x"})))
twin("TYW002", typed(widened(STEP)), typed(widened({"fromType": "string", "toType": "long"})))
FIRST = {"fromType": "short", "toType": "integer"}
twin(
    "TYW003",
    typed(widened(FIRST, STEP)),
    typed(widened({"fromType": "byte", "toType": "short"}, STEP)),
)
LIST = {"type": "array", "elementType": "long", "containsNull": True}
INSIDE = {**STEP, "fieldPath": "element"}
twin(
    "TYW004",
    typed(widened(INSIDE, type_=LIST)),
    typed(widened({**STEP, "fieldPath": "key"}, type_=LIST)),
)
twin(
    "TYW005",
    [*typed(column("id", "integer")), c(metadata(widened(STEP)))],
    [*typed(column("id", "integer")), c(metadata(column("id", "long")))],
)
PREVIEW = features("typeWidening-preview")
VERSIONED = {**STEP, "tableVersion": 0}
twin(
    "TYW006",
    typed(widened(VERSIONED), proto=PREVIEW),
    typed(widened(STEP), proto=PREVIEW),
    "PRT020",
)
ICE_WIDE = protocol(
    3, 7, ["columnMapping", "typeWidening"], ["columnMapping", "icebergCompatV2", "typeWidening"]
)


def ice_widened(change: Any, type_: str) -> list[Any]:
    one = mapped("id", 1, type_)
    one["metadata"]["delta.typeChanges"] = [change]
    return table(one, mapped("x", 2), proto=ICE_WIDE, configuration=NAMES)


twin(
    "TYW007",
    ice_widened(STEP, "long"),
    ice_widened({"fromType": "integer", "toType": "double"}, "double"),
)
twin("TYW008", typed(widened(STEP)), typed(widened(VERSIONED)))

# -- CDF, ROW, ICT, DOM, TXN, CAT ---------------------------------------------------------

twin("CDF002", [start(A, cdc(), **FEED_TABLE)], [start(A, cdc())])
twin("CDF003", [start(A, cdc(), **FEED_TABLE)], [start(A, cdc("feed/x"), **FEED_TABLE)])
ROWS = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
}


def tracked(*actions: Action, **more: str) -> list[Any]:
    own = {key: value for key, value in {**ROWS, **more}.items() if value}
    return [[commit_info(), TRACKED, metadata(configuration=own), *actions]]


A0, B10 = numbered(A, 0), numbered(B, 10)
twin("ROW001", tracked(A0, B10, mark(19)), tracked(A0, B, mark(19)))
twin("ROW002", tracked(A0, B10, mark(19)), tracked(A0, numbered(B, 9), mark(19)))
twin("ROW003", tracked(A0, B10, mark(19)), tracked(A0, B10, mark(18)))
twin(
    "ROW004",
    tracked(A0, mark(9)),
    tracked(A0, mark(9), **{"delta.rowTracking.materializedRowIdColumnName": "id"}),
)
twin("ROW005", tracked(A0, mark(9)), tracked(A0, mark(9), **{"delta.rowTrackingSuspended": "true"}))
twin("ROW006", tracked(A0, mark(9)), tracked(numbered(A, 0, 5), mark(9)))
twin(
    "ROW007",
    [*tracked(A0, mark(9)), c(mark(29))],
    [*tracked(A0, mark(29)), c(mark(19))],
)
ICT = protocol(1, 7, None, ["inCommitTimestamp"])
TIMES = {"delta.enableInCommitTimestamps": "true"}


def timed(*commits: Any) -> list[Any]:
    return [
        [commit_info(inCommitTimestamp=NOW_MS), ICT, metadata(configuration=TIMES), A],
        *commits,
    ]


twin("ICT001", timed(c(B, inCommitTimestamp=NOW_MS + 1)), timed(c(B)))
twin("ICT002", timed(c(B, inCommitTimestamp=NOW_MS + 1)), timed(c(B, inCommitTimestamp=NOW_MS)))


def late(version: str | None = "1", stamp: int = NOW_MS + 1, own: int = NOW_MS + 1) -> list[Any]:
    since = {
        "delta.inCommitTimestampEnablementVersion": version,
        "delta.inCommitTimestampEnablementTimestamp": str(stamp),
    }
    settings = {**TIMES, **{key: value for key, value in since.items() if value is not None}}
    return [start(A, proto=ICT), c(metadata(configuration=settings), inCommitTimestamp=own)]


twin("ICT003", late(), late(None))
FAR = NOW_MS + 9 * DAY_MS
twin("ICT005", timed(c(B, inCommitTimestamp=NOW_MS + 1)), timed(c(B, inCommitTimestamp=FAR)))
twin(
    "DOM001",
    [start(domain("delta.x", "{}"), domain("y", "text"), proto=DOMAINS)],
    [start(domain("delta.x", "text"), proto=DOMAINS)],
)
EXPIRING = {"configuration": {"delta.setTransactionRetentionDuration": "interval 7 days"}}
twin("TXN001", [start(txn("x", 1, NOW_MS), **EXPIRING)], [start(txn("x", 1), **EXPIRING)])
twin(
    "CAT001",
    [start(A, proto=protocol(3, 7, ["vacuumProtocolCheck"], ["vacuumProtocolCheck"]))],
    [[
        commit_info(inCommitTimestamp=NOW_MS),
        protocol(3, 7, ["catalogManaged", "vacuumProtocolCheck"],
                 ["catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"]),
        metadata(configuration=TIMES), A,
    ]],
)  # fmt: skip

twin("LOG021", [start(A), c(filler="x")], [start(A), c(filler="x" * (100 * 1024 * 1024))])
twin(
    "RUN002",
    [start(A, proto=features("deletionVectors"))],
    [start(A, proto=features("timestampNanos", "timestampNtz"))],
    "PRT007",
)
