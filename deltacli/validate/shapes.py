"""The fields of each action: which there are, of which type, and which must be there.

PROTOCOL "Actions"; facts 2.1 to 2.8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

INT, LONG, TEXT, FLAG, TEXTS, TEXT_MAP, OBJECT = (
    "an int", "a long", "a string", "true or false", "a list of strings", "a map of strings",
    "an object",
)  # fmt: skip
_TYPES: Mapping[str, type] = {
    INT: int,
    LONG: int,
    TEXT: str,
    FLAG: bool,
    TEXTS: list,
    TEXT_MAP: dict,
    OBJECT: dict,
}
_LIMITS = {INT: 2**31, LONG: 2**63}
Shape = Mapping[str, tuple[str, bool]]

VECTOR: Shape = {
    "storageType": (TEXT, True),
    "pathOrInlineDv": (TEXT, True),
    "offset": (INT, False),
    "sizeInBytes": (INT, True),
    "cardinality": (LONG, True),
}
_FORMAT: Shape = {"provider": (TEXT, True), "options": (TEXT_MAP, False)}
_ROW_IDS: Shape = {"baseRowId": (LONG, False), "defaultRowCommitVersion": (LONG, False)}
SHAPES: Mapping[str, Shape] = {
    "metaData": {
        "id": (TEXT, True),
        "name": (TEXT, False),
        "description": (TEXT, False),
        "format": (OBJECT, True),
        "schemaString": (TEXT, True),
        "partitionColumns": (TEXTS, True),
        "createdTime": (LONG, False),
        "configuration": (TEXT_MAP, True),
    },
    "protocol": {
        "minReaderVersion": (INT, True),
        "minWriterVersion": (INT, True),
        "readerFeatures": (TEXTS, False),
        "writerFeatures": (TEXTS, False),
    },
    "add": {
        "path": (TEXT, True),
        "partitionValues": (TEXT_MAP, True),
        "size": (LONG, True),
        "modificationTime": (LONG, True),
        "dataChange": (FLAG, True),
        "stats": (TEXT, False),
        "tags": (TEXT_MAP, False),
        "deletionVector": (OBJECT, False),
        **_ROW_IDS,
        "clusteringProvider": (TEXT, False),
    },
    "remove": {
        "path": (TEXT, True),
        "deletionTimestamp": (LONG, False),
        "dataChange": (FLAG, True),
        "extendedFileMetadata": (FLAG, False),
        "partitionValues": (TEXT_MAP, False),
        "size": (LONG, False),
        "stats": (TEXT, False),
        "tags": (TEXT_MAP, False),
        "deletionVector": (OBJECT, False),
        **_ROW_IDS,
    },
    "cdc": {
        "path": (TEXT, True),
        "partitionValues": (TEXT_MAP, True),
        "size": (LONG, True),
        "dataChange": (FLAG, True),
        "tags": (TEXT_MAP, False),
    },
    "txn": {"appId": (TEXT, True), "version": (LONG, True), "lastUpdated": (LONG, False)},
    "domainMetadata": {
        "domain": (TEXT, True),
        "configuration": (TEXT, True),
        "removed": (FLAG, True),
    },
    "sidecar": {
        "path": (TEXT, True),
        "sizeInBytes": (LONG, True),
        "modificationTime": (LONG, True),
        "tags": (TEXT_MAP, False),
    },
    "checkpointMetadata": {"version": (LONG, True), "tags": (TEXT_MAP, False)},
}
_INNER: Mapping[str, Shape] = {"deletionVector": VECTOR, "format": _FORMAT}
# Names that writers put into file actions besides, and that say nothing of the state.
_KNOWN_BESIDES: Mapping[str, frozenset[str]] = {
    "add": frozenset({"partitionValues_parsed", "stats_parsed"}),
    "remove": frozenset({"clusteringProvider"}),
    "metaData": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Misfit:
    """A field that is `missing`, of the `wrong` type, `beyond` its type's range or `unknown`."""

    what: str
    name: str
    expected: str = ""
    value: Any = None


def misfits(key: str, body: Mapping[str, Any]) -> Iterator[Misfit]:
    """What an action's body has that does not fit."""
    shape = SHAPES.get(key)
    if shape is None or _fits(key, body):
        return
    yield from _misfits(shape, body, "")
    unknown = body.keys() - shape.keys()
    for name in sorted(unknown - _KNOWN_BESIDES.get(key, frozenset())):
        yield Misfit("unknown", name)
    for name, inner in _INNER.items():
        value: Any = body.get(name)
        if name in shape and type(value) is dict:
            yield from _misfits(inner, value, f"{name}.")
            for other in sorted(value.keys() - inner.keys() - {"maxRowIndex"}):
                yield Misfit("unknown", f"{name}.{other}")


_PLAIN: Mapping[str, tuple[tuple[str, Any, bool, int], ...]] = {
    key: tuple(
        (name, _TYPES[kind], required, _LIMITS.get(kind, 0))
        for name, (kind, required) in shape.items()
    )
    for key, shape in SHAPES.items()
}


def _fits(key: str, body: Mapping[str, Any]) -> bool:
    """Whether a body is as most are, so that nothing needs a closer look."""
    get = body.get
    for name, kind, required, limit in _PLAIN[key]:
        value: Any = get(name)
        if value is None:
            if required:
                return False
        elif type(value) is not kind:
            return False
        elif limit:
            if not -limit <= value < limit:
                return False
        elif kind is dict:
            if value and (name in _INNER or set(map(type, value.values())) != {str}):
                return False
        elif kind is list:
            return False
    return body.keys() <= SHAPES[key].keys()


def _misfits(shape: Shape, body: Mapping[str, Any], prefix: str) -> Iterator[Misfit]:
    for name, (expected, required) in shape.items():
        value: Any = body.get(name)
        if value is None:
            if required:
                yield Misfit("missing", prefix + name, expected)
        elif type(value) is not _TYPES[expected]:
            huge = expected in _LIMITS and type(value) is float and abs(value) >= 2**63
            yield Misfit("beyond" if huge else "wrong", prefix + name, expected, value)
        else:
            yield from _odd_value(prefix + name, expected, value)


def _odd_value(name: str, expected: str, value: Any) -> Iterator[Misfit]:
    """A value of the right JSON type whose number is too large or whose parts are no texts."""
    if expected in _LIMITS:
        if not -_LIMITS[expected] <= value < _LIMITS[expected]:
            yield Misfit("beyond", name, expected, value)
    elif expected is TEXTS or expected is TEXT_MAP:
        parts = value if expected is TEXTS else value.values()
        allowed = (str,) if expected is TEXTS else (str, type(None))
        if any(type(one) not in allowed for one in parts):
            yield Misfit("wrong", name, expected, value)
