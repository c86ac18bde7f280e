"""A version's checksum against what the log says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from deltacli.delta.actions import (
    BadAction,
    Protocol,
    parse_domain,
    parse_metadata,
    parse_protocol,
)
from deltacli.delta.checksum import read_checksum
from deltacli.delta.engine import Totals
from deltacli.delta.snapshot import Snapshot
from deltacli.errors import CorruptLog


def check_against_checksum(snapshot: Snapshot, totals: Totals, otherwise: str) -> None:
    """Raise CorruptLog if the version's own checksum denies its state (K-4, VL-8)."""
    checksum = read_checksum(snapshot.store, snapshot.version)
    if checksum is None:
        return
    differing = [
        f"{name} (checksum: {said!r:.60}, log: {own!r:.60})"
        for name, said, own in _compared(checksum.body, snapshot, totals)
        if said is not None and said != own
    ]
    if differing:
        raise CorruptLog(
            f"the version checksum {snapshot.version}.crc says other things than the log: "
            f"{'; '.join(differing)}; {otherwise}",
            hint="find out which is right; a wrong checksum file may be deleted",
        )


def _compared(
    body: Mapping[str, Any], snapshot: Snapshot, totals: Totals
) -> Iterator[tuple[str, Any, Any]]:
    """What a checksum says (None if it does not), and what the log says."""
    yield "numFiles", body.get("numFiles"), totals.files
    yield "tableSizeBytes", body.get("tableSizeBytes"), totals.bytes
    yield "numDeletionVectors", body.get("numDeletionVectorsOpt"), totals.vectors
    yield "numDeletedRecords", body.get("numDeletedRecordsOpt"), totals.deleted_records
    with contextlib.suppress(BadAction, TypeError, ValueError):
        if isinstance(body.get("protocol"), Mapping):
            said = parse_protocol(body["protocol"])
            yield "protocol", _protocol_facts(said), _protocol_facts(snapshot.protocol)
    with contextlib.suppress(BadAction, TypeError, ValueError):
        if isinstance(body.get("metadata"), Mapping):
            metadata, own = parse_metadata(body["metadata"]), snapshot.metadata
            for name in ("id", "schema_string", "partition_columns", "configuration"):
                yield f"metadata {name}", getattr(metadata, name), getattr(own, name)
    with contextlib.suppress(BadAction, TypeError, ValueError):
        if isinstance(body.get("domainMetadata"), list):
            said_domains = [parse_domain(dict(one)) for one in body["domainMetadata"]]
            yield (
                "domainMetadata",
                {one.domain: one.configuration for one in said_domains if not one.removed},
                {name: one.configuration for name, one in snapshot.domains.items()},
            )


def _protocol_facts(protocol: Protocol) -> tuple[Any, ...]:
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset(protocol.reader_features or ()),
        frozenset(protocol.writer_features or ()),
    )
