"""Which columns have statistics, with which types (rule K-16)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deltacli.delta.schema import DataType, Field, Primitive, Struct

_MIN_MAX = frozenset(
    {
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "date",
        "timestamp",
        "timestamp_ntz",
        "string",
    }
)


def has_min_max(data_type: DataType) -> bool:
    """Whether values of the type have an order that statistics use."""
    return isinstance(data_type, Primitive) and (
        data_type.name in _MIN_MAX or data_type.decimal is not None
    )


def indexed_columns(
    schema: Struct, partition_columns: tuple[str, ...], count: int, named: str | None
) -> Struct:
    """The part of a schema that has statistics, by physical names.

    `named` is delta.dataSkippingStatsColumns; without it the first `count` leaves count
    (-1 is all), in the order of the schema. Partition columns have none.
    """
    columns = tuple(one for one in schema.fields if one.name not in partition_columns)
    wanted = _named_paths(named) if named is not None else None
    leaves = iter(range(count)) if count >= 0 else None
    return Struct(tuple(_kept(columns, (), wanted, leaves)))


def _kept(
    fields: tuple[Field, ...],
    prefix: tuple[str, ...],
    wanted: frozenset[tuple[str, ...]] | None,
    leaves: Iterator[int] | None,
) -> Iterator[Field]:
    for one in fields:
        path = (*prefix, one.name.lower())
        if isinstance(one.type, Struct):
            inner = tuple(_kept(one.type.fields, path, wanted, leaves))
            if inner:
                yield Field(one.physical_name, Struct(inner), one.nullable)
        elif wanted is not None:
            if any(path[: len(prefix_)] == prefix_ for prefix_ in wanted):
                yield Field(one.physical_name, one.type, one.nullable)
        elif leaves is None or next(leaves, None) is not None:
            yield Field(one.physical_name, one.type, one.nullable)


def _named_paths(text: str) -> frozenset[tuple[str, ...]]:
    """`a, b.c, `odd.name`` as paths in lower case; a struct stands for all its leaves."""
    paths = []
    for item in re.findall(r"(?:`[^`]*`|[^,`])+", text):
        steps = re.findall(r"`([^`]*)`|([^.`\s]+)", item)
        paths.append(tuple((quoted or plain).lower() for quoted, plain in steps))
    return frozenset(path for path in paths if path)
