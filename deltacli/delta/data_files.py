"""Data files by themselves: what their footers tell, and one that takes another's place."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltacli.delta.actions import Json
from deltacli.delta.arrow_types import NoArrowType, arrow_type
from deltacli.delta.column_mapping import MODE
from deltacli.delta.paths import is_absolute
from deltacli.delta.root import Root
from deltacli.delta.schema import Array, Map, Struct, type_text, unmapped
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.stats_schema import indexed_columns
from deltacli.errors import Refused
from deltacli.storage import LogStore


@dataclass(frozen=True, slots=True)
class DataColumn:
    """A leaf of a data file: its place, its type by its name in Delta, its field id."""

    path: tuple[str, ...]
    type: str
    field_id: int | None = None


@dataclass(frozen=True, slots=True)
class DataFooter:
    """What a data file says of itself; `error` is why it cannot be read.

    `odd` are encodings that not every reader knows, such as codecs out of use.
    """

    location: str
    rows: int = 0
    size: int = 0
    columns: tuple[DataColumn, ...] = ()
    error: str | None = None
    odd: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NewFile:
    """A data file that was written: its path as in the log, and its statistics' text."""

    path: str
    size: int
    modified_ms: int
    rows: int
    stats: str


def replacement(old: Json, new: NewFile | None, now_ms: int) -> list[dict[str, Json]]:
    """The actions that put a file in an `add`'s place without changing data.

    The body may be a checkpoint's row. Without a new file all rows of the old one were deleted.
    """
    body = {key: _plain(key, old[key]) for key in _KEPT if old.get(key) is not None}
    removed = {
        **body,
        "deletionTimestamp": now_ms,
        "dataChange": False,
        "extendedFileMetadata": True,
    }
    if new is None:
        return [{"remove": removed}]
    added = {
        "path": new.path,
        "partitionValues": body.get("partitionValues", {}),
        "size": new.size,
        "modificationTime": new.modified_ms,
        "dataChange": False,
        "stats": new.stats,
    }
    if old.get("clusteringProvider") is not None:
        added["clusteringProvider"] = old["clusteringProvider"]
    return [{"remove": removed}, {"add": added}]


_KEPT = ("path", "partitionValues", "size", "tags", "deletionVector", "stats")


def _plain(key: str, value: Any) -> Any:
    """A value of a checkpoint's row as JSON has it."""
    if key in ("partitionValues", "tags"):
        return dict(value)
    if key == "deletionVector":
        return {name: one for name, one in value.items() if one is not None}
    return value


@dataclass(frozen=True, slots=True)
class Target:
    """What new files are to be: the table's columns by the names and ids that files have."""

    schema: Struct
    mode: str
    indexed: Struct
    has_vectors: bool


def rewrite_target(snapshot: Snapshot) -> Target:
    """The table's types as they are now. Raises Refused where new files would need more."""
    schema = snapshot.schema
    if schema is None:
        raise Refused("the metadata has no schema", hint="its files cannot be rewritten")
    if "rowTracking" in snapshot.features:
        raise Refused(
            "the table tracks rows: rewritten files would have to carry each row's id",
            hint="rewrite it with an engine that materialises row ids",
        )
    iceberg = next((one for one in snapshot.features if one.startswith("icebergCompat")), None)
    if iceberg:
        raise Refused(
            f"the table has {iceberg}: rewritten files would need what only its writers know",
            hint="rewrite it with an engine that writes Iceberg's metadata",
        )
    for one in schema.fields:
        try:
            arrow_type(one.type)
        except NoArrowType as error:
            raise Refused(
                f"files with the column {one.name} are not rewritten: it is {type_text(one.type)}",
                hint="rewrite the table with an engine",
            ) from error
    mode = snapshot.setting(MODE)
    indexed = indexed_columns(
        snapshot.mapped_schema or unmapped(schema),
        snapshot.metadata.partition_columns,
        snapshot.setting("delta.dataSkippingNumIndexedCols"),
        snapshot.setting("delta.dataSkippingStatsColumns"),
    )
    own = unmapped(schema) if mode == "none" else _physical(schema)
    return Target(own, mode, indexed, "deletionVectors" in snapshot.features)


def _physical(data_type: Any) -> Any:
    """A type whose fields have the names that files use; their ids stay."""
    if isinstance(data_type, Struct):
        fields = (
            replace(one, name=one.physical_name, type=_physical(one.type))
            for one in data_type.fields
        )
        return Struct(tuple(fields))
    if isinstance(data_type, Array):
        return replace(data_type, element=_physical(data_type.element))
    if isinstance(data_type, Map):
        return replace(data_type, key=_physical(data_type.key), value=_physical(data_type.value))
    return data_type


def new_names(store: LogStore, old_paths: Sequence[str]) -> list[str]:
    """A name on storage beside each old file, where that lies in the table and behind no link."""
    root = Root(store)
    real: dict[str, bool] = {"": True}
    names = []
    for path in old_paths:
        folder = "" if is_absolute(path) else (root.own_name(path) or "").rpartition("/")[0]
        if folder not in real:
            real[folder] = store.look(folder) is not None
        name = f"part-00000-{uuid.uuid4()}-c000.parquet"
        names.append(f"{folder}/{name}" if folder and real[folder] else name)
    return names
