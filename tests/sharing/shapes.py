"""The JSON shapes of the protocol's document, checked on everything a server has answered."""

from __future__ import annotations

import json
from typing import Any

from tests.sharing.serving import Seen

TEXT, LONG, MAP, LIST = (str,), (int,), (dict,), (list,)
# Of each object: required fields, then optional ones.
_SHARE = ({"name": TEXT}, {"id": TEXT})
_SCHEMA = ({"name": TEXT, "share": TEXT}, {})
_TABLE = ({"name": TEXT, "schema": TEXT, "share": TEXT}, {"shareId": TEXT, "id": TEXT})
_METADATA = (
    {"id": TEXT, "format": MAP, "schemaString": TEXT, "partitionColumns": LIST},
    {"name": TEXT, "description": TEXT, "configuration": MAP, "version": LONG, "size": LONG,
     "numFiles": LONG},
)  # fmt: skip
_FILE_REQUIRED = {"url": TEXT, "id": TEXT, "partitionValues": MAP, "size": LONG}
_CHANGE_REQUIRED = {**_FILE_REQUIRED, "timestamp": LONG, "version": LONG}
_EXPIRES = {"expirationTimestamp": LONG}
_STAMPED = {"version": LONG, "timestamp": LONG, **_EXPIRES}
PARQUET: dict[str, Any] = {
    "protocol": ({"minReaderVersion": LONG}, {}),
    "metaData": _METADATA,
    "file": (_FILE_REQUIRED, {"stats": TEXT, **_STAMPED}),
    "add": (_CHANGE_REQUIRED, {"stats": TEXT, **_EXPIRES}),
    "cdf": (_CHANGE_REQUIRED, _EXPIRES),
    "remove": (_CHANGE_REQUIRED, _EXPIRES),
}
DELTA: dict[str, Any] = {
    "protocol": ({"deltaProtocol": MAP}, {}),
    "metaData": ({"deltaMetadata": MAP}, {"version": LONG, "size": LONG, "numFiles": LONG}),
    "file": ({"id": TEXT, "deltaSingleAction": MAP}, {"deletionVectorFileId": TEXT, **_STAMPED}),
}


def check(seen: Seen) -> None:
    """Raise AssertionError if an answer is none of the protocol's."""
    where = f"{seen.method} {seen.path}: {seen.status}"
    assert seen.status < 500, where
    if "/files/" in seen.path or seen.method == "HEAD" or seen.path.endswith("/openapi.json"):
        return
    if seen.status >= 400:
        body = json.loads(seen.content)
        assert set(body) == {"errorCode", "message"}, where
        assert seen.headers["content-type"] == "application/json", where
        return
    kind = seen.path.partition("?")[0].rsplit("/", 1)[-1]
    if kind == "version":
        assert seen.content == b"", where
        assert int(seen.headers["delta-table-version"]) >= 0, where
    elif kind in ("metadata", "query", "changes"):
        _check_lines(seen, kind, where)
    else:
        _check_listing(seen, kind, where)


def _check_listing(seen: Seen, kind: str, where: str) -> None:
    assert seen.headers["content-type"] == "application/json; charset=utf-8", where
    body = json.loads(seen.content)
    if "share" in body:
        _has(body["share"], _SHARE, where)
        return
    shape = {"shares": _SHARE, "schemas": _SCHEMA, "tables": _TABLE, "all-tables": _TABLE}[kind]
    assert set(body) <= {"items", "nextPageToken"}, where
    for item in body["items"]:
        _has(item, shape, where)


def _check_lines(seen: Seen, kind: str, where: str) -> None:
    assert seen.headers["content-type"] == "application/x-ndjson; charset=utf-8", where
    assert int(seen.headers["delta-table-version"]) >= 0, where
    capabilities = seen.headers["delta-sharing-capabilities"].split(";")
    shapes = DELTA if "responseformat=delta" in capabilities else PARQUET
    assert seen.content.endswith(b"\n"), where
    lines = [json.loads(line) for line in seen.content.split(b"\n")[:-1]]
    assert [next(iter(one)) for one in lines[:2]] == ["protocol", "metaData"], where
    if kind == "metadata":
        assert len(lines) == 2 + ("includeendstreamaction=true" in capabilities), where
    for one in lines:
        ((name, body),) = one.items()
        if name == "endStreamAction":
            assert one is lines[-1], where
            continue
        _has(body, shapes[name], f"{where} {name}")
        _check_inside(name, body, where, is_delta=shapes is DELTA)


def _check_inside(name: str, body: Any, where: str, *, is_delta: bool) -> None:
    if name == "metaData":
        inner = body["deltaMetadata"] if is_delta else body
        _has(inner, _METADATA, where)
        assert json.loads(inner["schemaString"])["type"] == "struct", where
        assert inner["format"]["provider"] == "parquet", where
    elif is_delta and name == "file":
        ((action, inner),) = body["deltaSingleAction"].items()
        assert action in ("add", "remove", "cdc"), where
        assert inner["path"].startswith("http"), where
        assert inner["size"] >= 0, where
        assert inner.get("deletionVector", {}).get("storageType", "p") in ("p", "i"), where
    elif name in ("file", "add", "cdf", "remove"):
        assert body["url"].startswith("http"), where
        assert all(one is None or type(one) is str for one in body["partitionValues"].values())
        if "stats" in body:
            assert isinstance(json.loads(body["stats"]), dict), where


def _has(body: Any, shape: Any, where: str) -> None:
    required, optional = shape
    assert set(required) <= set(body) <= set(required) | set(optional), f"{where}: {sorted(body)}"
    for key, value in body.items():
        assert type(value) in {**required, **optional}[key], f"{where}: {key}"
