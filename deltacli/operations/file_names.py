"""How a table's paths, columns and deletion vectors are named in rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deltacli.delta.partitions import logical_partition_values, physical_partition_columns
from deltacli.delta.scan import TableVersion
from deltacli.delta.schema import Struct, maps_columns
from deltacli.delta.vectors import vector_location


@dataclass(frozen=True)
class FileNames:
    """How a table's paths and columns are named in rows."""

    location: str
    partition_columns: tuple[str, ...]
    schema: Struct | None
    mapped_schema: Struct | None

    @staticmethod
    def of(snapshot: TableVersion) -> FileNames:
        return FileNames(
            snapshot.store.location,
            snapshot.metadata.partition_columns,
            snapshot.schema,
            snapshot.mapped_schema,
        )

    @cached_property
    def physical(self) -> dict[str, str]:
        return physical_partition_columns(self.partition_columns, self.mapped_schema)

    @cached_property
    def are_mapped(self) -> bool:
        return maps_columns(self.mapped_schema)

    def partition_values(self, values: Any) -> dict[str, str | None]:
        return logical_partition_values(dict(values or {}), self.physical)


def vector_row(vector: Mapping[str, Any] | None, location: str) -> dict[str, Any] | None:
    """A deletion vector's descriptor, with the place of its file."""
    if not vector:
        return None
    row = {key: value for key, value in vector.items() if value is not None}
    try:
        place = vector_location(vector, location)
    except ValueError:
        place = None
    if place is not None:
        row["location"] = place
    return row
