"""What a checkpoint holds and how it is named (facts 6.1 to 6.4)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.actions import DomainMetadata, Metadata, Protocol, Txn
from deltacli.delta.engine import ADD_FIELDS, REMOVE_FIELDS, CheckpointContent
from deltacli.delta.hint import BadHint, hint_checksums, parse_hint
from deltacli.delta.paths import LAST_CHECKPOINT, LOG, SIDECARS
from deltacli.delta.schema import Primitive, Struct, unmapped
from deltacli.delta.segment import list_log
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.stats_schema import indexed_columns
from deltacli.errors import FileMissing, StorageError
from deltacli.storage import LogStore

# Longer schemas are left out of the hint, as Delta Spark does.
_LONGEST_SCHEMA = 20_000
_BATCH_ROWS = 65_536
_CODECS = {"zstd", "snappy", "gzip", "lz4", "brotli", "none", "uncompressed"}


def classic_path(version: int) -> str:
    return f"{LOG}/{version:020}.checkpoint.parquet"


def v2_path(version: int, extension: str) -> str:
    return f"{LOG}/{version:020}.checkpoint.{uuid.uuid4()}.{extension}"


def sidecar_paths(version: int, count: int) -> list[str]:
    """Names as Delta Spark gives them: version, part, parts and a UUID."""
    return [
        f"{SIDECARS}/{version:020}.checkpoint.{part + 1:010}.{count:010}.{uuid.uuid4()}.parquet"
        for part in range(count)
    ]


def checkpoint_content(
    snapshot: Snapshot,
    *,
    now_ms: int,
    stats_as_json: bool,
    stats_as_struct: bool,
    expected: tuple[int, int] | None = None,
) -> CheckpointContent:
    """The reconciled state of a snapshot, streamed."""
    columns = {}
    if snapshot.schema:
        types = {one.name: one for one in snapshot.schema.fields}
        for logical in snapshot.metadata.partition_columns:
            one = types.get(logical)
            physical = one.physical_name if one and snapshot.mapped_schema else logical
            columns[physical] = one.type if one else Primitive("string")
    return CheckpointContent(
        small=list(small_actions(snapshot, now_ms)),
        files=snapshot.file_actions("add", ADD_FIELDS, _BATCH_ROWS),
        removes=snapshot.file_actions(
            "remove", (*REMOVE_FIELDS, "baseRowId", "defaultRowCommitVersion"), _BATCH_ROWS
        ),
        removed_after_ms=now_ms - snapshot.setting("delta.deletedFileRetentionDuration"),
        stats_as_json=stats_as_json,
        stats_as_struct=stats_as_struct,
        stats_schema=_stats_schema(snapshot) if stats_as_struct else None,
        partition_columns=columns,
        codec=codec_of(snapshot),
        expected=expected,
    )


def _stats_schema(snapshot: Snapshot) -> Struct | None:
    if snapshot.schema is None:
        return None
    columns = indexed_columns(
        snapshot.mapped_schema or unmapped(snapshot.schema),
        snapshot.metadata.partition_columns,
        snapshot.setting("delta.dataSkippingNumIndexedCols"),
        snapshot.setting("delta.dataSkippingStatsColumns"),
    )
    # Only with deletion vectors can bounds be wide.
    return Struct(columns.fields, {"tightBounds": "deletionVectors" in snapshot.features})


def codec_of(snapshot: Snapshot) -> str:
    """The codec of the table's property, or snappy: what every reader knows."""
    name = snapshot.metadata.configuration.get("delta.parquet.compression.codec", "snappy").lower()
    return {"uncompressed": "none"}.get(name, name) if name in _CODECS else "snappy"


def small_actions(snapshot: Snapshot, now_ms: int) -> Iterator[dict[str, Any]]:
    """Protocol, metadata, live transactions and domains, as the lines of a checkpoint (K-26)."""
    yield {"protocol": protocol_body(snapshot.protocol)}
    yield {"metaData": metadata_body(snapshot.metadata)}
    retain_ms = snapshot.setting("delta.setTransactionRetentionDuration")
    for txn in snapshot.state.txns.values():
        if retain_ms is None or (txn.last_updated or 0) > now_ms - retain_ms:
            yield {"txn": _txn_body(txn)}
    for domain in snapshot.domains.values():
        yield {"domainMetadata": _domain_body(domain)}


def protocol_body(protocol: Protocol) -> dict[str, Any]:
    body: dict[str, Any] = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
    }
    if protocol.reader_features is not None:
        body["readerFeatures"] = list(protocol.reader_features)
    if protocol.writer_features is not None:
        body["writerFeatures"] = list(protocol.writer_features)
    return body


def metadata_body(metadata: Metadata) -> dict[str, Any]:
    body: dict[str, Any] = {"id": metadata.id}
    if metadata.name is not None:
        body["name"] = metadata.name
    if metadata.description is not None:
        body["description"] = metadata.description
    body |= {
        "format": {
            "provider": metadata.format.provider,
            "options": dict(metadata.format.options),
        },
        "schemaString": metadata.schema_string,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(metadata.configuration),
    }
    if metadata.created_time is not None:
        body["createdTime"] = metadata.created_time
    return body


def metadata_action(metadata: Metadata) -> dict[str, Any]:
    """The action of a commit: also what this program does not know."""
    return {"metaData": {**metadata_body(metadata), **metadata.extra}}


def _txn_body(txn: Txn) -> dict[str, Any]:
    body: dict[str, Any] = {"appId": txn.app_id, "version": txn.version}
    if txn.last_updated is not None:
        body["lastUpdated"] = txn.last_updated
    return body


def _domain_body(domain: DomainMetadata) -> dict[str, Any]:
    return {
        "domain": domain.domain,
        "configuration": domain.configuration,
        "removed": domain.removed,
    }


def hint_text(body: Mapping[str, Any]) -> bytes:
    """`_last_checkpoint`, with a checksum where both known ways to sort agree (D-2)."""
    body = dict(body)
    schema = body.get("checkpointSchema")
    if schema is not None and len(json_text.dump(schema)) > _LONGEST_SCHEMA:
        del body["checkpointSchema"]
    by_path, by_text = hint_checksums(body)
    if by_path == by_text:
        body["checksum"] = by_path
    return json_text.dump(body)


def move_hint_forward(store: LogStore, body: Mapping[str, Any]) -> bool:
    """Point the hint to this checkpoint unless it is at a newer one already (K-9, C-9).

    A hint that cannot be fetched is left alone; for a broken one the listing stands in.
    """
    try:
        current = parse_hint(store.read(LAST_CHECKPOINT)).version
    except FileMissing:
        current = -1
    except BadHint:
        current = max((one.version for one in list_log(store).checkpoints), default=-1)
    except StorageError:
        return False
    if current > body["version"]:
        return False
    store.put(LAST_CHECKPOINT, hint_text(body))
    return True
