"""The lines of an answer as values: one shape for both formats (seed: API Response Format).

A file of either format becomes the action of a log: its `path` is its place in the store of
`deltacli.sharing.client.store`, and so is that of its deletion vector. Unknown lines are
passed over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from deltacli.delta import json_text
from deltacli.delta.actions import (
    BadAction,
    Json,
    Metadata,
    Protocol,
    parse_metadata,
    parse_protocol,
)
from deltacli.errors import Refused
from deltacli.sharing.capabilities import DELTA, PARQUET
from deltacli.sharing.client.http import BadAnswer

_MOST_SIZE = 1 << 50
# The year 10000 in milliseconds.
_MOST_STAMP = 253_402_300_800_000
# Readers of the parquet format know this version of the protocol.
_MOST_PARQUET = 2
# What comes before the places of files where a whole URL is needed.
ROOT = "shared:"


@dataclass(frozen=True, slots=True)
class ToldProtocol:
    """What a client must know to read the files, and the format that it is told in."""

    protocol: Protocol
    response_format: str


@dataclass(frozen=True, slots=True)
class Definition:
    """The table as a metaData line tells it, at `version` where the line says so."""

    metadata: Metadata
    version: int | None = None
    size: int | None = None
    num_files: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a file can be read, perhaps for a short time only; `place` is ours for it."""

    place: str
    url: str = field(repr=False)
    size: int | None = None


@dataclass(frozen=True, slots=True)
class FileLine:
    """A file: `action` is add, remove or cdc, `body` what a log would say of it."""

    action: str
    id: str
    body: Json
    data: Source
    vector: Source | None = None
    version: int | None = None
    timestamp_ms: int | None = None
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The last line: that the answer is whole, or why it is not."""

    refresh_token: str | None = None
    page_token: str | None = None
    error: str | None = None


Line = ToldProtocol | Definition | FileLine | End


def parse_line(text: bytes) -> Line | None:
    """The value of a line; None for a kind that nobody knows here. Raises BadAnswer."""
    try:
        line: Any = json_text.load(text)
    except ValueError as error:
        raise BadAnswer(f"a line of the answer is not JSON: {error}") from None
    if not isinstance(line, dict):
        raise BadAnswer("a line of the answer is not a JSON object")
    for kind, body in line.items():
        read = _KINDS.get(kind)
        if read is not None and body is not None:
            if not isinstance(body, dict):
                raise BadAnswer(f"the line {kind} of the answer has no object in it")
            try:
                return read(kind, body)
            except BadAction as error:
                raise BadAnswer(f"the line {kind} of the answer is wrong: {error}") from None
    return None


def _protocol(_: str, body: Json) -> ToldProtocol:
    inner = body.get("deltaProtocol")
    if inner is not None:
        return ToldProtocol(parse_protocol(_object(inner)), DELTA)
    # The parquet format has no writers, and so no version for them.
    protocol = parse_protocol({"minWriterVersion": 2, **body})
    if protocol.min_reader_version > _MOST_PARQUET:
        raise Refused(
            f"the answer needs readers of version {protocol.min_reader_version}, and the parquet "
            "format cannot tell what they must know",
            hint="ask with --format delta (responseFormat)",
        )
    return ToldProtocol(protocol, PARQUET)


def _definition(_: str, body: Json) -> Definition:
    inner = body.get("deltaMetadata")
    told = body if inner is None else _object(inner)
    return Definition(
        parse_metadata(told),
        _whole(body, "version"),
        _whole(body, "size"),
        _whole(body, "numFiles"),
    )


def _file(kind: str, body: Json) -> FileLine | None:
    single = body.get("deltaSingleAction")
    if single is None:
        return _parquet_file(kind, body)
    for action in ("add", "remove", "cdc"):
        inner = _object(single).get(action)
        if inner is not None:
            return _delta_file(action, body, _object(inner))
    return None


def _parquet_file(kind: str, body: Json) -> FileLine:
    file_id = _text(body, "id")
    size = _size(body)
    data = Source(_place("data", file_id), _text(body, "url"), size)
    action = {
        "path": quote(data.place),
        "partitionValues": _partition(body),
        "size": size,
        "modificationTime": _whole(body, "timestamp") or 0,
        "dataChange": True,
    }
    if isinstance(body.get("stats"), str):
        action["stats"] = body["stats"]
    name = {"file": "add", "cdf": "cdc"}.get(kind, kind)
    return FileLine(name, file_id, action, data, None, *_stamps(body))


def _delta_file(action: str, body: Json, inner: Json) -> FileLine:
    file_id = _text(body, "id")
    size = None if action == "remove" and inner.get("size") is None else _size(inner)
    data = Source(_place("data", file_id), _text(inner, "path"), size)
    told = {**inner, "path": quote(data.place), "partitionValues": _partition(inner)}
    vector = None
    descriptor = inner.get("deletionVector")
    if descriptor is not None:
        vector, told["deletionVector"] = _vector(body, _object(descriptor))
    return FileLine(action, file_id, told, data, vector, *_stamps(body))


def _vector(body: Json, descriptor: Json) -> tuple[Source | None, dict[str, Any]]:
    kind = descriptor.get("storageType")
    if kind == "i":
        return None, dict(descriptor)
    if kind != "p":
        raise BadAction("a deletion vector is neither inline nor given by URL")
    url = _text(descriptor, "pathOrInlineDv")
    vector_id = body.get("deletionVectorFileId")
    if not isinstance(vector_id, str):
        # Older servers tell none; the URL without its signature says which file it is. Several
        # vectors of one file are told apart by their offsets.
        path = urlsplit(url)._replace(query="", fragment="").geturl()
        vector_id = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
    source = Source(_place("vectors", vector_id), url)
    return source, {**descriptor, "pathOrInlineDv": f"{ROOT}/{quote(source.place)}"}


def _end(_: str, body: Json) -> End:
    return End(
        _optional(body, "refreshToken"),
        _optional(body, "nextPageToken"),
        _optional(body, "errorMessage"),
    )


def _later(_: str, __: Json) -> None:
    raise BadAnswer("the server answers later, which nobody asked for")


_KINDS: dict[str, Callable[[str, Json], Line | None]] = {
    "protocol": _protocol,
    "metaData": _definition,
    "file": _file,
    "add": _file,
    "cdf": _file,
    "remove": _file,
    "endStreamAction": _end,
    "queryStatus": _later,
}


def _place(folder: str, file_id: str) -> str:
    return f"{folder}/{file_id}"


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadAction("an object is expected")
    return value


def _text(body: Json, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise BadAction(f"{name} is missing")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadAction(f"{name} is no text that can be written") from None
    return value


def _optional(body: Json, name: str) -> str | None:
    """A text; an empty one is none."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise BadAction(f"{name} is no text")
    return value or None


def _whole(body: Json, name: str) -> int | None:
    value = body.get(name)
    if value is not None and (type(value) is not int or not 0 <= value < 2**63):
        raise BadAction(f"{name} is no whole number")
    return value


def _size(body: Json) -> int:
    size = _whole(body, "size")
    if size is None or size > _MOST_SIZE:
        raise BadAction("size is missing" if size is None else "size is that of no file")
    return size


def _partition(body: Json) -> dict[str, str | None]:
    """Partition values; an empty text stands for null as well."""
    values = body.get("partitionValues") or {}
    if not all(one is None or isinstance(one, str) for one in _object(values).values()):
        raise BadAction("a partition value is no text")
    return {name: one or None for name, one in values.items()}


def _stamps(body: Json) -> tuple[int | None, int | None, int | None]:
    stamp = _whole(body, "timestamp")
    if stamp is not None and stamp >= _MOST_STAMP:
        raise BadAction("timestamp is that of no time")
    return _whole(body, "version"), stamp, _whole(body, "expirationTimestamp")
