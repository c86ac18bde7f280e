"""What a reader must know to read the files of a version right, whoever wrote their log.

The protocol of the table itself says too much: most features are for those who read the
log, which no client does (reference 3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deltacli.delta.actions import Metadata, Protocol
from deltacli.delta.column_mapping import MAX_ID, MODE
from deltacli.delta.schema import Primitive, Struct, walk

VECTORS, MAPPING, NTZ = "deletionVectors", "columnMapping", "timestampNtz"
_TYPES = {"timestamp_ntz": (NTZ,), "variant": ("variantType", "variantType-preview")}
_BY_PREFIX = {
    "geometry": ("geospatial", "geospatial-dev"),
    "geography": ("geospatial", "geospatial-dev"),
}
_WIDENING = ("typeWidening", "typeWidening-preview")
_SHREDDING = ("variantShredding", "variantShredding-preview")


def needs_of(
    protocol: Protocol, metadata: Metadata, schema: Struct, *, has_vectors: bool
) -> frozenset[str]:
    """The reader features that files of this version need, spelled as in the protocol."""
    supported = set(protocol.reader_features or ())
    needs = {VECTORS} if has_vectors else set()
    if metadata.configuration.get(MODE, "none").lower() != "none":
        needs.add(MAPPING)
    for _, field in walk(schema):
        if field.metadata.get("delta.typeChanges"):
            needs.add(_first(_WIDENING, supported))
    for name in _type_names(schema):
        names = _TYPES.get(name) or _BY_PREFIX.get(name.partition("(")[0])
        if names:
            needs.add(_first(names, supported))
        if name == "variant":
            needs.update(one for one in _SHREDDING if one in supported)
    return frozenset(needs)


def _first(names: tuple[str, ...], supported: set[str]) -> str:
    return next((name for name in names if name in supported), names[0])


def _type_names(schema: Any) -> Iterable[str]:
    """The names of all simple types, at every depth."""
    waiting: list[Any] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Primitive):
            yield one.name
        elif isinstance(one, Struct):
            waiting += [field.type for field in one.fields]
        else:
            inside = (getattr(one, name, None) for name in ("element", "key", "value"))
            waiting += [kind for kind in inside if kind is not None]


def told_protocol(needs: frozenset[str], *, has_changes: bool) -> dict[str, Any]:
    """The smallest protocol that says what a client must know.

    Readers of change data want to see that its writers know of it.
    """
    if not needs:
        return {"minReaderVersion": 1, "minWriterVersion": 4 if has_changes else 2}
    writes = needs | {"changeDataFeed"} if has_changes else needs
    return {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": sorted(needs),
        "writerFeatures": sorted(writes),
    }


def told_configuration(
    configuration: Mapping[str, str], needs: frozenset[str], *, has_changes: bool
) -> dict[str, str]:
    """The table properties that a reader needs; all others are the provider's own affair."""
    told = {}
    if MAPPING in needs:
        names = (MODE, MAX_ID)
        told = {name: configuration[name] for name in names if name in configuration}
    if VECTORS in needs:
        told["delta.enableDeletionVectors"] = "true"
    if needs & set(_WIDENING):
        told["delta.enableTypeWidening"] = "true"
    if has_changes:
        told["delta.enableChangeDataFeed"] = "true"
    return told
