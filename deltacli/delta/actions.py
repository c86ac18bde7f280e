"""The actions of the log as values, with the fields this version does not know kept.

Small actions are frozen dataclasses. File actions (add, remove, cdc) stay the raw lines or
columns they came in; only the few that are shown become objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltacli.delta import json_text

# The keys of a commit's or checkpoint's line, in the order in which a line that wrongly
# holds several is read.
ACTION_KEYS = (
    "add",
    "remove",
    "metaData",
    "txn",
    "protocol",
    "cdc",
    "sidecar",
    "checkpointMetadata",
    "domainMetadata",
    "commitInfo",
)

Json = Mapping[str, Any]
_EMPTY: Mapping[str, Any] = {}


class BadAction(ValueError):
    """A field is missing or of the wrong type; the caller knows the file and line."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a client must support to read or write the table."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Format:
    provider: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Schema and settings. `schema_string` is None only in tables of the first Delta versions."""

    id: str
    name: str | None
    description: str | None
    format: Format
    schema_string: str | None
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    created_time: int | None
    extra: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Txn:
    """How far an application has written."""

    app_id: str
    version: int
    last_updated: int | None = None


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    domain: str
    configuration: str
    removed: bool = False


@dataclass(frozen=True, slots=True)
class Sidecar:
    path: str
    size_in_bytes: int
    modification_time: int
    tags: Mapping[str, str] | None = None


def parse_protocol(body: Json) -> Protocol:
    return Protocol(
        _number(body, "minReaderVersion"),
        _number(body, "minWriterVersion"),
        _names(body, "readerFeatures"),
        _names(body, "writerFeatures"),
        _unknown(body, "minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    )


def parse_metadata(body: Json) -> Metadata:
    format_body = body.get("format") or _EMPTY
    if not isinstance(format_body, Mapping):
        raise BadAction("metaData.format is not an object")
    return Metadata(
        id=_text(body, "id"),
        name=_optional_text(body, "name"),
        description=_optional_text(body, "description"),
        format=Format(
            str(format_body.get("provider") or "parquet"), string_map(format_body.get("options"))
        ),
        schema_string=_optional_text(body, "schemaString"),
        partition_columns=_names(body, "partitionColumns") or (),
        configuration=string_map(body.get("configuration")),
        created_time=_optional_number(body, "createdTime"),
        extra=_unknown(
            body,
            "id",
            "name",
            "description",
            "format",
            "schemaString",
            "partitionColumns",
            "configuration",
            "createdTime",
        ),
    )


def parse_txn(body: Json) -> Txn:
    return Txn(
        _text(body, "appId"), _number(body, "version"), _optional_number(body, "lastUpdated")
    )


def parse_domain(body: Json) -> DomainMetadata:
    return DomainMetadata(
        _text(body, "domain"),
        _optional_text(body, "configuration") or "",
        bool(body.get("removed", False)),
    )


def parse_sidecar(body: Json) -> Sidecar:
    return Sidecar(
        _text(body, "path"),
        _optional_number(body, "sizeInBytes") or 0,
        _optional_number(body, "modificationTime") or 0,
        string_map(body["tags"]) if body.get("tags") else None,
    )


def vector_id(descriptor: Any) -> str | None:
    """The unique id of a deletion vector descriptor; None for a file without one."""
    if not descriptor:
        return None
    offset = descriptor.get("offset")
    start = f"{descriptor.get('storageType')}{descriptor.get('pathOrInlineDv')}"
    return start if offset is None else f"{start}@{offset}"


def parse_line(line: bytes) -> tuple[str, Json] | None:
    """The action of one line, or None for a blank line or an action of a later protocol.

    Raises BadAction with the reason.
    """
    try:
        action = json_text.load(line)
    except ValueError as error:
        if not line.strip():
            return None
        raise BadAction(f"not JSON: {error}") from None
    if not isinstance(action, dict):
        raise BadAction(f"not a JSON object but {type(action).__name__}")
    for key, body in action.items():
        if key in ACTION_KEYS and body is not None:
            if len(action) > 1:
                return _first_action(action)
            if not isinstance(body, dict):
                raise BadAction(f"the body of {key} is not an object")
            return key, body
    return None


def parse_lines(content: bytes) -> Iterator[tuple[str, Json]]:
    """The actions of a commit's file, as `parse_line` reads them."""
    for line in content.split(b"\n"):
        action = parse_line(line) if line else None
        if action is not None:
            yield action


def _first_action(action: Json) -> tuple[str, Json]:
    for key in ACTION_KEYS:
        body = action.get(key)
        if isinstance(body, dict):
            return key, body
    raise BadAction("no action of this line has an object as its body")


def string_map(value: Any) -> dict[str, str]:
    """A map of strings; nulls and numbers of careless writers become text."""
    if value is None:
        return {}
    try:
        if isinstance(value, list) and all(isinstance(one, tuple) for one in value):
            value = dict(value)  # a Parquet map arrives as pairs
        if not isinstance(value, Mapping):
            raise BadAction("a map of strings is expected")
        return {
            str(key): one if isinstance(one, str) else json_text.dump(one).decode()
            for key, one in value.items()
            if one is not None
        }
    except TypeError:
        raise BadAction("a map of strings is expected") from None


def _text(body: Json, key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str):
        raise BadAction(f"{key} is missing" if value is None else f"{key} is not a string")
    return value


def _optional_text(body: Json, key: str) -> str | None:
    value = body.get(key)
    if value is not None and not isinstance(value, str):
        raise BadAction(f"{key} is not a string")
    return value


def _number(body: Json, key: str) -> int:
    value = body.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadAction(f"{key} is missing" if value is None else f"{key} is not an integer")
    return value


def _optional_number(body: Json, key: str) -> int | None:
    return None if body.get(key) is None else _number(body, key)


def _names(body: Json, key: str) -> tuple[str, ...] | None:
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadAction(f"{key} is not a list of strings")
    return tuple(value)


def _unknown(body: Json, *known: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in known}
