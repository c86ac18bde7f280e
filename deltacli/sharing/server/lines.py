"""The lines of an answer, in both formats (seed: API Response Format in Parquet, in Delta)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.actions import Metadata
from deltacli.delta.column_mapping import ID, NESTED_IDS, PHYSICAL
from deltacli.delta.schema import (
    COLLATIONS,
    LENGTHS,
    Array,
    DataType,
    Field,
    Map,
    Struct,
    type_tree,
)
from deltacli.delta.vectors import vector_path
from deltacli.sharing.capabilities import DELTA
from deltacli.sharing.needs import (
    MAPPING,
    told_configuration,
    told_protocol,
)
from deltacli.sharing.server.explain import strangers
from deltacli.sharing.server.failures import Failure, unsupported
from deltacli.sharing.server.links import Links
from deltacli.sharing.server.rows import FileRow, is_odd
from deltacli.sharing.server.tables import SharedTable

# What of a field's metadata recipients are told in both formats, and where it is needed.
_TOLD = ("comment", LENGTHS, COLLATIONS)
_TOLD_MAPPED = (ID, PHYSICAL, NESTED_IDS)
_TOLD_WIDENED = ("delta.typeChanges",)


def line(body: Mapping[str, Any]) -> bytes:
    return json_text.dump(dict(body)) + b"\n"


def protocol_line(response_format: str, needs: frozenset[str], *, has_changes: bool) -> bytes:
    if response_format == DELTA:
        told = told_protocol(needs, has_changes=has_changes)
        return line({"protocol": {"deltaProtocol": told}})
    return line({"protocol": {"minReaderVersion": 1}})


def metadata_line(
    response_format: str,
    metadata: Metadata,
    schema: Struct,
    needs: frozenset[str],
    *,
    has_changes: bool,
    version: int | None = None,
    size: int | None = None,
    files: int | None = None,
) -> bytes:
    """The metaData line; equal metadata gives equal bytes, whatever the request was."""
    own: dict[str, Any] = {"id": metadata.id}
    own |= {"name": metadata.name} if metadata.name is not None else {}
    own |= {"description": metadata.description} if metadata.description is not None else {}
    is_delta = response_format == DELTA
    own["format"] = {"provider": "parquet"} | ({"options": {}} if is_delta else {})
    own["schemaString"] = told_schema(schema, needs if is_delta else frozenset())
    own["partitionColumns"] = list(metadata.partition_columns)
    if is_delta:
        own["configuration"] = told_configuration(
            metadata.configuration, needs, has_changes=has_changes
        )
    else:
        own["configuration"] = {"enableChangeDataFeed": "true"} if has_changes else {}
    more = {
        name: value
        for name, value in (("version", version), ("size", size), ("numFiles", files))
        if value is not None
    }
    return line({"metaData": {"deltaMetadata": own, **more} if is_delta else {**own, **more}})


def told_schema(schema: Struct, needs: frozenset[str]) -> str:
    """The schema as JSON, without what only writers need."""
    kept = _TOLD + (_TOLD_MAPPED if MAPPING in needs else ()) + _TOLD_WIDENED * bool(needs)
    return json_text.dump(type_tree(_told(schema, frozenset(kept)))).decode()


def _told(data_type: DataType, kept: frozenset[str]) -> Any:
    if isinstance(data_type, Struct):
        return Struct(
            tuple(
                Field(
                    one.name,
                    _told(one.type, kept),
                    one.nullable,
                    {key: value for key, value in one.metadata.items() if key in kept},
                )
                for one in data_type.fields
            )
        )
    if isinstance(data_type, Array):
        return Array(_told(data_type.element, kept), data_type.contains_null)
    if isinstance(data_type, Map):
        key, value = _told(data_type.key, kept), _told(data_type.value, kept)
        return Map(key, value, data_type.value_contains_null)
    return data_type


def end_line(
    *,
    refresh_token: str | None = None,
    page_token: str | None = None,
    expires_ms: int | None = None,
    error: str | None = None,
) -> bytes:
    """The last line where a client asked for one."""
    body: dict[str, Any] = {}
    body |= {"refreshToken": refresh_token} if refresh_token else {}
    body |= {"nextPageToken": page_token} if page_token else {}
    body |= {"minUrlExpirationTimestamp": expires_ms} if expires_ms is not None else {}
    body |= {"errorMessage": error} if error else {}
    return line({"endStreamAction": body})


@dataclass(frozen=True, slots=True)
class Stamp:
    """The version and its time, where a line has them."""

    version: int
    timestamp_ms: int | None


class FileLines:
    """Makes the lines of files in one format, with their URLs.

    The texts that lines are put together from are JSON already; a path is only ever
    hashed and signed.
    """

    def __init__(
        self, table: SharedTable, links: Links, response_format: str, *, id_hash: str | None = None
    ):
        self._table = table
        self._links = links
        self._is_delta = response_format == DELTA
        own_hash = hashlib.sha256 if (id_hash or response_format) == DELTA else hashlib.md5
        self._hash = partial(own_hash, usedforsecurity=False)
        self._expires = f'"expirationTimestamp":{links.expires_ms}'

    @property
    def expires_ms(self) -> int:
        return self._links.expires_ms

    def file(self, row: FileRow, stamp: Stamp | None = None) -> bytes:
        """A live file."""
        if self._is_delta:
            return self._delta("add", row, stamp)
        return self._parquet("file", row, stamp, with_stats=True)

    def change(self, action: str, row: FileRow, stamp: Stamp, body: Mapping[str, Any]) -> bytes:
        """A file that a commit added, removed, or wrote as change data (`cdc`)."""
        if self._is_delta:
            return self._delta(action, row, stamp, body.get("deletionTimestamp"))
        name = "cdf" if action == "cdc" else action
        return self._parquet(name, row, stamp, with_stats=action == "add")

    def _parquet(
        self, action: str, row: FileRow, stamp: Stamp | None, *, with_stats: bool
    ) -> bytes:
        file_id = self._id(row.path)
        stats = f',"stats":{row.stats}' if with_stats and row.stats else ""
        return (
            f'{{"{action}":{{"url":"{self._url(row.path, file_id)}","id":"{file_id}",'
            f'"partitionValues":{row.partition},"size":{row.size}{stats}'
            f"{_stamped(stamp)},{self._expires}}}}}\n"
        ).encode("utf-8", "surrogatepass")

    def _delta(
        self, action: str, row: FileRow, stamp: Stamp | None, deleted_ms: object = None
    ) -> bytes:
        file_id = self._id(row.path)
        stats = f',"stats":{row.stats}' if action == "add" and row.stats else ""
        vector_id = vector = ""
        if row.vector:
            told, own_id = self._vector(json_text.load(row.vector))
            vector_id = f',"deletionVectorFileId":"{own_id}"' if own_id else ""
            vector = f',"deletionVector":{json_text.dump(told).decode()}'
        if action == "add":
            times = f',"modificationTime":{row.modified_ms or 0},"dataChange":true'
        elif action == "remove":
            stamp_ms = deleted_ms if type(deleted_ms) is int else 0
            times = f',"deletionTimestamp":{stamp_ms},"dataChange":true,"extendedFileMetadata":true'
        else:
            times = ',"dataChange":false'
        return (
            f'{{"file":{{"id":"{file_id}"{vector_id}{_stamped(stamp)},{self._expires},'
            f'"deltaSingleAction":{{"{action}":{{"path":"{self._url(row.path, file_id)}",'
            f'"partitionValues":{row.partition},"size":{row.size}{times}{stats}{vector}}}}}}}}}\n'
        ).encode("utf-8", "surrogatepass")

    def _vector(self, descriptor: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """A deletion vector as a client can read it: by URL, or inline as it is."""
        told = {
            name: descriptor[name]
            for name in ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")
            if descriptor.get(name) is not None
        }
        if descriptor.get("storageType") == "i":
            return told, None
        try:
            path = vector_path(descriptor)
        except ValueError:
            raise unsupported("a deletion vector of the table cannot be read") from None
        place = self._table.vector_place(dict(descriptor))
        if path is None or place is None:
            raise strangers()
        own_id = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
        told["storageType"] = "p"
        told["pathOrInlineDv"] = self._links.url(place.root, place.name, f"{own_id}.bin")
        return told, own_id

    def _id(self, path: str) -> str:
        return self._hash(path.encode("utf-8", "surrogatepass")).hexdigest()

    def _url(self, path: str, file_id: str) -> str:
        if not is_odd(path):
            return self._links.url(0, path, f"{file_id}.parquet")
        place = self._table.place_of(path)
        if place is None:
            raise strangers()
        return self._links.url(place.root, place.name, f"{file_id}.parquet")


def _stamped(stamp: Stamp | None) -> str:
    if stamp is None:
        return ""
    when = "" if stamp.timestamp_ms is None else f',"timestamp":{stamp.timestamp_ms}'
    return f',"version":{stamp.version}{when}'


def failed(error: Failure) -> bytes:
    """The last line of an answer that broke off."""
    return end_line(error=error.message)
