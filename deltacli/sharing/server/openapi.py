"""The server's own description of its routes, in OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from deltacli import __version__

_ERROR = {"$ref": "#/components/schemas/Error"}
_LONG = {"type": "integer", "format": "int64", "minimum": 0}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_TIME = {"type": "string", "format": "date-time"}


def description(endpoint: str) -> dict[str, Any]:
    """The whole document, for a server whose routes begin with `endpoint`."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Delta Sharing", "version": __version__},
        "servers": [{"url": endpoint}],
        "security": [{"bearer": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": _SCHEMAS,
        },
    }


def _paths() -> dict[str, Any]:
    table = "/shares/{share}/schemas/{schema}/tables/{table}"
    return {
        "/shares": {"get": _listing("listShares", "Share")},
        "/shares/{share}": {
            "parameters": _names("share"),
            "get": _operation("getShare", _json("ShareAnswer")),
        },
        "/shares/{share}/schemas": {
            "parameters": _names("share"),
            "get": _listing("listSchemas", "Schema"),
        },
        "/shares/{share}/schemas/{schema}/tables": {
            "parameters": _names("share", "schema"),
            "get": _listing("listTables", "Table"),
        },
        "/shares/{share}/all-tables": {
            "parameters": _names("share"),
            "get": _listing("listAllTables", "Table"),
        },
        table: {
            "parameters": _names("share", "schema", "table"),
            "head": _operation("headTable", _empty(), deprecated=True),
        },
        f"{table}/version": {
            "parameters": _names("share", "schema", "table"),
            "get": _operation("getVersion", _empty(), [_parameter("startingTimestamp", _TIME)]),
        },
        f"{table}/metadata": {
            "parameters": _names("share", "schema", "table"),
            "get": _operation(
                "getMetadata",
                _lines(),
                [
                    _parameter("version", _LONG),
                    _parameter("timestamp", _TIME),
                    *_CAPABILITIES,
                ],
            ),
        },
        f"{table}/query": {
            "parameters": _names("share", "schema", "table"),
            "post": _operation("queryTable", _lines(), list(_CAPABILITIES), more=_BODY_STATUSES)
            | {
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Query"}}
                    },
                }
            },
        },
        f"{table}/changes": {
            "parameters": _names("share", "schema", "table"),
            "get": _operation(
                "getChanges",
                _lines(),
                [
                    _parameter("startingVersion", _LONG),
                    _parameter("startingTimestamp", _TIME),
                    _parameter("endingVersion", _LONG),
                    _parameter("endingTimestamp", _TIME),
                    _parameter("includeHistoricalMetadata", _FLAG),
                    _parameter("maxFiles", {**_LONG, "minimum": 1}),
                    _parameter("pageToken", _TEXT),
                    *_CAPABILITIES,
                ],
            ),
        },
    }


def _parameter(name: str, schema: dict[str, Any], place: str = "query") -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


_CAPABILITIES = (
    _parameter("delta-sharing-capabilities", {**_TEXT, "maxLength": 8192}, "header"),
    _parameter("fileidhash", {"enum": ["parquet", "delta"]}, "header"),
)


def _names(*names: str) -> list[dict[str, Any]]:
    return [_parameter(name, {**_TEXT, "minLength": 1}, "path") for name in names]


def _listing(operation: str, item: str) -> dict[str, Any]:
    number = {"type": "integer", "format": "int32", "minimum": 0}
    parameters = [_parameter("maxResults", number), _parameter("pageToken", _TEXT)]
    return _operation(operation, _json(f"{item}List"), parameters)


_BODY_STATUSES = (408, 413, 415)


def _operation(
    name: str,
    answer: dict[str, Any],
    parameters: list[dict[str, Any]] | None = None,
    *,
    deprecated: bool = False,
    more: tuple[int, ...] = (),
) -> dict[str, Any]:
    has_body = not deprecated
    failure: dict[str, Any] = {"description": "The request failed."}
    if has_body:
        failure["content"] = {"application/json": {"schema": _ERROR}}
    statuses = (400, 401, 403, 404, 414, 429, *more, 500, 503)
    return {
        "operationId": name,
        "deprecated": deprecated,
        "parameters": parameters or [],
        "responses": {"200": answer} | {str(status): failure for status in statuses},
    }


def _json(schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": "The answer.", "content": content}


def _version_header() -> dict[str, Any]:
    return {"delta-table-version": {"required": True, "schema": _LONG}}


def _empty() -> dict[str, Any]:
    return {"description": "The version is in the header.", "headers": _version_header()}


def _lines() -> dict[str, Any]:
    return {
        "description": "One JSON object a line.",
        "headers": _version_header(),
        "content": {"application/x-ndjson": {"schema": _TEXT}},
    }


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _list_of(item: str) -> dict[str, Any]:
    items = {"type": "array", "items": {"$ref": f"#/components/schemas/{item}"}}
    return _object(["items"], items=items, nextPageToken=_TEXT)


_SCHEMAS: dict[str, Any] = {
    "Error": _object(["errorCode", "message"], errorCode=_TEXT, message=_TEXT),
    "Share": _object(["name"], name=_TEXT, id=_TEXT),
    "ShareAnswer": _object(["share"], share={"$ref": "#/components/schemas/Share"}),
    "Schema": _object(["name", "share"], name=_TEXT, share=_TEXT),
    "Table": _object(
        ["name", "schema", "share"],
        name=_TEXT,
        schema=_TEXT,
        share=_TEXT,
        shareId=_TEXT,
        id=_TEXT,
    ),
    "ShareList": _list_of("Share"),
    "SchemaList": _list_of("Schema"),
    "TableList": _list_of("Table"),
    "Query": _object(
        [],
        predicateHints={"type": "array", "items": _TEXT},
        jsonPredicateHints=_TEXT,
        limitHint={"type": "integer", "format": "int32"},
        version=_LONG,
        timestamp=_TIME,
        startingVersion=_LONG,
        endingVersion=_LONG,
        maxFiles={**_LONG, "minimum": 1, "maximum": 2**31 - 1},
        pageToken=_TEXT,
        includeRefreshToken=_FLAG,
        refreshToken=_TEXT,
    ),
}
