"""The rows of a checkpoint as Arrow structs, in the protocol's columns and types.

Facts 6.2 and 6.3, rules K-12 … K-29.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta import json_text
from deltacli.delta.columns import fit
from deltacli.delta.engine import CheckpointContent, FileBatch
from deltacli.delta.stats import stats_of_struct
from deltacli.errors import CorruptLog
from deltacli.local.parsed import arrow_type, parsed_partition_values, parsed_stats, stats_type

GROUP_ROWS = 65_536

_TEXTS = pa.map_(pa.string(), pa.string())
_NAMES = pa.list_(pa.field("element", pa.string()))
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
_ADD = [
    ("path", pa.string()),
    ("partitionValues", _TEXTS),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("tags", _TEXTS),
    ("deletionVector", _VECTOR),
    ("baseRowId", pa.int64()),
    ("defaultRowCommitVersion", pa.int64()),
    ("clusteringProvider", pa.string()),
]
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", _NAMES),
        ("configuration", _TEXTS),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", _NAMES),
        ("writerFeatures", _NAMES),
    ]
)
_DOMAIN = pa.struct(
    [("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]
)
_SIDECAR = pa.struct(
    [
        ("path", pa.string()),
        ("sizeInBytes", pa.int64()),
        ("modificationTime", pa.int64()),
        ("tags", _TEXTS),
    ]
)
_MANIFEST = pa.struct([("version", pa.int64()), ("tags", _TEXTS)])
_SMALL = {
    "metaData": _METADATA,
    "protocol": _PROTOCOL,
    "domainMetadata": _DOMAIN,
    "sidecar": _SIDECAR,
    "checkpointMetadata": _MANIFEST,
    "txn": _TXN,
}


class Shape:
    """The columns of one checkpoint, and how its rows are brought into them."""

    def __init__(self, content: CheckpointContent):
        self.content = content
        fields = list(_ADD)
        if content.stats_as_json:
            fields.append(("stats", pa.string()))
        self._partitions = None
        if content.stats_as_struct and content.partition_columns:
            self._partitions = pa.struct(
                [(name, arrow_type(kind)) for name, kind in content.partition_columns.items()]
            )
            fields.append(("partitionValues_parsed", self._partitions))
        self._stats = stats_type(content.stats_schema) if content.stats_schema else None
        if self._stats is not None:
            fields.append(("stats_parsed", self._stats))
        self.add = pa.struct(fields)

    def schema(self, *, files_only: bool = False, manifest: bool = False) -> Any:
        """The columns of a classic checkpoint, a sidecar or a V2 main file."""
        files = [("add", self.add), ("remove", _REMOVE)]
        if files_only:
            return pa.schema(files)
        small = [("metaData", _METADATA), ("protocol", _PROTOCOL), ("domainMetadata", _DOMAIN)]
        if manifest:
            small += [("sidecar", _SIDECAR), ("checkpointMetadata", _MANIFEST)]
        return pa.schema([("txn", _TXN), *files, *small])

    def adds(self) -> Iterator[Any]:
        for batch in _batches(self.content.files, _add_batch):
            yield self._add_rows(batch)

    def removes(self) -> Iterator[Any]:
        for batch in _batches(self.content.removes, _remove_batch):
            stamps = _column(batch, "deletionTimestamp", pa.int64())
            fresh = pc.fill_null(pc.greater(stamps, self.content.removed_after_ms), False)
            kept = batch.filter(fresh)
            if kept.num_rows:
                yield _struct(kept, _REMOVE, {"dataChange": _no(kept.num_rows)})

    def _add_rows(self, batch: Any) -> Any:
        made = {"dataChange": _no(batch.num_rows)}
        values = _column(batch, "partitionValues", _TEXTS)
        made["partitionValues"] = _without_null_maps(values)
        if self.content.stats_as_json:
            made["stats"] = _stats_texts(batch)
        if self._partitions is not None:
            made["partitionValues_parsed"] = parsed_partition_values(
                made["partitionValues"], self.content.partition_columns, self._partitions
            )
        if self._stats is not None and self.content.stats_schema is not None:
            made["stats_parsed"] = parsed_stats(batch, self.content.stats_schema, self._stats)
        return _struct(batch, self.add, made)


def _batches(
    items: Iterable[Mapping[str, Any] | FileBatch],
    shape: Callable[[Sequence[Mapping[str, Any]]], Any],
) -> Iterator[Any]:
    """Arrow batches of checkpoint rows and of single actions, the latter put together."""
    held: list[Mapping[str, Any]] = []
    for item in items:
        if isinstance(item, FileBatch):
            if item.columns.num_rows:
                yield item.columns
            continue
        held.append(item)
        if len(held) == GROUP_ROWS // 4:
            yield shape(held)
            held = []
    if held:
        yield shape(held)


def _add_batch(bodies: Sequence[Mapping[str, Any]]) -> Any:
    return _batch_of(bodies, pa.struct([*_ADD, ("stats", pa.string())]))


def _remove_batch(bodies: Sequence[Mapping[str, Any]]) -> Any:
    return _batch_of(bodies, _REMOVE)


def _batch_of(bodies: Sequence[Mapping[str, Any]], kind: Any) -> Any:
    arrays = []
    for field in kind:
        values: list[Any] = [body.get(field.name) for body in bodies]
        if field.type == _TEXTS:
            values = [None if one is None else _pairs(one) for one in values]
        elif field.name == "stats":
            values = [one if isinstance(one, str) else None for one in values]
        try:
            arrays.append(pa.array(values, field.type))
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            raise CorruptLog(
                f"{field.name} of an action cannot be put into a checkpoint: {error}",
                hint="the writer of one of the newest commits broke the protocol",
            ) from None
    return pa.RecordBatch.from_arrays(arrays, names=[field.name for field in kind])


def _pairs(values: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """A map's entries; null values survive, numbers of careless writers become text (K-21)."""
    return [
        (key, one if one is None or isinstance(one, str) else json_text.dump(one).decode())
        for key, one in values.items()
    ]


def small_rows(lines: Sequence[Mapping[str, Any]], schema: Any) -> Any:
    """Actions that are not about files as one batch."""
    arrays = []
    for field in schema:
        bodies = [_as_row(line.get(field.name), field.type) for line in lines]
        arrays.append(pa.array(bodies, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_row(body: Any, kind: Any) -> Any:
    if body is None:
        return None
    if pa.types.is_struct(kind):
        return {one.name: _as_row(body.get(one.name), one.type) for one in kind}
    return list(body.items()) if pa.types.is_map(kind) else body


def _column(batch: Any, name: str, kind: Any) -> Any:
    if name not in batch.schema.names:
        return pa.nulls(batch.num_rows, kind)
    column = batch.column(name)
    try:
        return fit(column, kind)
    except pa.ArrowException as error:
        raise CorruptLog(
            f"the checkpoint's {name} is {column.type}: {error}",
            hint="write a new one of the commits, or restore the file",
        ) from None


def _struct(batch: Any, kind: Any, made: Mapping[str, Any]) -> Any:
    arrays = [
        made[one.name] if one.name in made else _column(batch, one.name, one.type) for one in kind
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _no(count: int) -> Any:
    return pa.repeat(pa.scalar(False), count)


def _without_null_maps(maps: Any) -> Any:
    """`{}` where a map is null: partitionValues of an unpartitioned table are not null."""
    if not maps.null_count:
        return maps
    filled = [list(one) if one is not None else [] for one in maps.to_pylist()]
    return pa.array(filled, maps.type)


def _stats_texts(batch: Any) -> Any:
    """The statistics' text as it stands (K-15); made from the struct only where there is none."""
    texts = _column(batch, "stats", pa.string())
    if not texts.null_count or "stats_parsed" not in batch.schema.names:
        return texts
    parsed = batch.column("stats_parsed")
    missing = pc.and_(pc.is_null(texts), pc.is_valid(parsed))
    if not missing.true_count:
        return texts
    structs = [stats_of_struct(one) for one in parsed.filter(missing).to_pylist()]
    made = [None if one is None else json_text.dump(one).decode() for one in structs]
    return pc.replace_with_mask(texts, missing, pa.array(made, pa.string()))
