"""The configuration file: the YAML of the reference server, and more.

Every key is one row of a table, with its type. Nothing is passed over: a key that is not
known is an error that names the nearest one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltacli.errors import FileMissing, NotFound, StorageError, UsageError
from deltacli.sharing.names import name_problem, same_name
from deltacli.sharing.server.yaml_tree import (
    Reader,
    Where,
    any_text,
    flag,
    list_of,
    load_tree,
    number,
    one_of,
    read_mapping,
    text,
    texts,
    yaml_package,
)
from deltacli.storage import open_store
from deltacli.storage.patterns import PAIMON, bears, is_pattern

HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A shared table, or all tables that a pattern matches: then it has no name."""

    location: str
    name: str | None = None
    id: str | None = None
    history_shared: bool = False
    start_version: int = 0
    change_data: bool = True
    partition_filter: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict)
    links: str = "auto"
    roots: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    name: str
    tables: tuple[TableEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareEntry:
    name: str
    id: str | None = None
    schemas: tuple[SchemaEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Tls:
    """Certificate and key as files, or a certificate made for this run."""

    self_signed: bool = False
    certificate: str | None = None
    key: str | None = None
    password: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one recipient may do at once and in a minute; 0 is no limit."""

    requests_per_minute: int = 0
    concurrent_requests: int = 256
    concurrent_downloads: int = 512


@dataclass(frozen=True, slots=True)
class Admin:
    port: int
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class Config:
    """A whole configuration, checked. Paths in it are absolute or as the storage names them."""

    shares: tuple[ShareEntry, ...] = ()
    bearer_token: str | None = None
    tls: Tls | None = None
    host: str = "localhost"
    port: int = 80
    endpoint: str = "/delta-sharing"
    public_url: str | None = None
    state: str | None = None
    url_seconds: int = HOUR_S
    request_seconds: float = 30
    grace_seconds: int = 60
    staleness_seconds: float = 0
    cached_tables: int = 64
    cache_bytes: int = 256 << 20
    page_size: int = 10_000
    page_token_ms: int = 3 * 86_400_000
    refresh_token_ms: int = HOUR_S * 1000
    sql_hints: bool = True
    json_hints: bool = True
    hints_use_statistics: bool = True
    limits: Limits = Limits()
    admin: Admin | None = None
    audit_log: str | None = None
    warnings: tuple[str, ...] = ()


def load_config(path: str) -> Config:
    """The configuration in a file. Raises UsageError that names the key."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        raise NotFound(f"there is no file {path}", hint="name the server's YAML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read {path}: {error}", hint="check the file") from error
    return parse_config(text, path)


def parse_config(text: str, path: str) -> Config:
    """The configuration in a YAML text; `path` is where it stands."""
    yaml = yaml_package()
    try:
        tree = load_tree(yaml, text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise UsageError(
            f"{path}{where} is not YAML: {getattr(error, 'problem', None) or error}",
            hint="see docs/sharing.md for an example",
        ) from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply", hint="see docs/sharing.md") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        # Values that say they are of a type which they are not.
        raise UsageError(f"{path} has a value that is none", hint="put texts in quotes") from None
    place = Where(path, "")
    values = read_mapping(tree, _TOP, place)
    return _config(values, place)


def _table(value: Any, place: Where) -> TableEntry:
    found = read_mapping(value, _TABLE, place)
    if "location" not in found:
        raise place.error("has no location")
    location, name = found["location"], found.get("name")
    if name is None and not is_pattern(location):
        raise place.error("has no name", "tables without a name have a pattern as location")
    if name is not None and is_pattern(location):
        raise place.error(
            "has a name and a pattern", "tables of a pattern are called as their folders are"
        )
    _check_name(name, place, may_have_dots=False)
    return TableEntry(
        location=location,
        name=name,
        id=found.get("id") or None,
        history_shared=found.get("historyShared", False),
        start_version=found.get("startVersion", 0),
        change_data=found.get("changeData", True),
        partition_filter=found.get("partitionFilter"),
        storage_options=found.get("storageOptions", {}),
        links=found.get("links", "auto"),
        roots=found.get("roots", ()),
    )


def _schema(value: Any, place: Where) -> SchemaEntry:
    found = read_mapping(value, {"name": text, "tables": list_of(_table)}, place)
    _check_name(found.get("name", ""), place, may_have_dots=False)
    tables = found.get("tables", ())
    _check_unique([one.name for one in tables if one.name is not None], "tables", place)
    return SchemaEntry(found["name"], tables)


def _share(value: Any, place: Where) -> ShareEntry:
    found = read_mapping(value, {"name": text, "id": any_text, "schemas": list_of(_schema)}, place)
    _check_name(found.get("name", ""), place, may_have_dots=True)
    schemas = found.get("schemas", ())
    _check_unique([one.name for one in schemas], "schemas", place)
    return ShareEntry(found["name"], found.get("id") or None, schemas)


def _check_name(name: str | None, place: Where, *, may_have_dots: bool) -> None:
    problem = None if name is None else name_problem(name, may_have_dots=may_have_dots)
    if problem:
        raise place.error(f"has a name that cannot be used: {problem}")


def _check_unique(names: list[str], what: str, place: Where) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(same_name(name), name)
        if other is not name:
            raise place.error(f"has two {what} of one name: {other!r} and {name!r}")


_TABLE: dict[str, Reader] = {
    "name": text,
    "location": text,
    "id": any_text,
    "historyShared": flag,
    "startVersion": number(0),
    "changeData": flag,
    "partitionFilter": text,
    "storageOptions": texts,
    "links": one_of("auto", "presign", "proxy"),
    "roots": list_of(text),
}
_SSL: dict[str, Reader] = {
    "selfSigned": flag,
    "certificateFile": text,
    "certificateKeyFile": text,
    "certificatePasswordFile": text,
}
_LIMITS: dict[str, Reader] = {
    "requestsPerMinute": number(0),
    "concurrentRequests": number(0),
    "concurrentDownloads": number(0),
}
_ADMIN: dict[str, Reader] = {"host": text, "port": number(0, 65_535)}
_TOP: dict[str, Reader] = {
    "version": number(1),
    "shares": list_of(_share),
    "authorization": lambda value, place: read_mapping(value, {"bearerToken": text}, place),
    "ssl": lambda value, place: read_mapping(value, _SSL, place),
    "host": text,
    "port": number(0, 65_535),
    "endpoint": text,
    "preSignedUrlTimeoutSeconds": number(1),
    "temporaryCredentialValiditySeconds": number(1),
    "deltaTableCacheSize": number(1),
    "stalenessAcceptable": flag,
    "evaluatePredicateHints": flag,
    "evaluateJsonPredicateHints": flag,
    "evaluateJsonPredicateHintsV2": flag,
    "requestTimeoutSeconds": number(1),
    "queryTablePageSizeLimit": number(1),
    "queryTablePageTokenTtlMs": number(1),
    "refreshTokenTtlMs": number(1),
    # What the reference server does not have.
    "publicUrl": text,
    "state": text,
    "storageOptions": texts,
    "limits": lambda value, place: read_mapping(value, _LIMITS, place),
    "admin": lambda value, place: read_mapping(value, _ADMIN, place),
    "auditLog": text,
    "shutdownGraceSeconds": number(0, 86_400),
    "cacheMegabytes": number(0, 1 << 20),
}
_STALE_SECONDS = 30.0


def _config(found: dict[str, Any], place: Where) -> Config:
    if found.get("version", 1) != 1:
        raise place.below("version").error("is not 1", "only version 1 is known")
    shares = found.get("shares", ())
    _check_unique([one.name for one in shares], "shares", place)
    folder = os.path.dirname(os.path.abspath(place.path))
    common = found.get("storageOptions", {})
    warnings = []
    if "temporaryCredentialValiditySeconds" in found:
        warnings.append(
            "temporaryCredentialValiditySeconds has no effect: files are served by URL only"
        )
    limits, admin = found.get("limits", {}), found.get("admin")
    if admin is not None and "port" not in admin:
        raise place.below("admin").error("has no port")
    default = Config()
    return Config(
        shares=tuple(_resolved(one, folder, common) for one in shares),
        bearer_token=found.get("authorization", {}).get("bearerToken"),
        tls=_tls(found["ssl"], folder, place.below("ssl")) if "ssl" in found else None,
        host=found.get("host", default.host),
        port=found.get("port", default.port),
        endpoint=_endpoint(found.get("endpoint", default.endpoint), place.below("endpoint")),
        public_url=_public_url(found.get("publicUrl"), place.below("publicUrl")),
        state=os.path.join(folder, found.get("state") or default_state(place.path)),
        url_seconds=found.get("preSignedUrlTimeoutSeconds", default.url_seconds),
        request_seconds=found.get("requestTimeoutSeconds", default.request_seconds),
        grace_seconds=found.get("shutdownGraceSeconds", default.grace_seconds),
        staleness_seconds=_STALE_SECONDS if found.get("stalenessAcceptable") else 0,
        cached_tables=found.get("deltaTableCacheSize", default.cached_tables),
        cache_bytes=found.get("cacheMegabytes", default.cache_bytes >> 20) << 20,
        page_size=found.get("queryTablePageSizeLimit", default.page_size),
        page_token_ms=found.get("queryTablePageTokenTtlMs", default.page_token_ms),
        refresh_token_ms=found.get("refreshTokenTtlMs", default.refresh_token_ms),
        sql_hints=found.get("evaluatePredicateHints", True),
        json_hints=found.get("evaluateJsonPredicateHints", True),
        hints_use_statistics=found.get("evaluateJsonPredicateHintsV2", True),
        limits=Limits(
            limits.get("requestsPerMinute", default.limits.requests_per_minute),
            limits.get("concurrentRequests", default.limits.concurrent_requests),
            limits.get("concurrentDownloads", default.limits.concurrent_downloads),
        ),
        admin=Admin(admin["port"], admin.get("host", "127.0.0.1")) if admin else None,
        audit_log=_below(folder, found.get("auditLog")),
        warnings=tuple(warnings),
    )


def _endpoint(text: str, place: Where) -> str:
    endpoint = "/" + text.strip("/")
    if not re.fullmatch(r"/|(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+", endpoint):
        raise place.error("is not a path of plain names", "write it as /delta-sharing")
    return endpoint.rstrip("/")


def default_state(path: str) -> str:
    """Where the tokens and keys of a configuration are kept: beside it."""
    return os.path.splitext(os.path.basename(path))[0] + ".state"


def _resolved(share: ShareEntry, folder: str, common: Mapping[str, str]) -> ShareEntry:
    """The share with relative locations taken from the file's folder."""

    def table(one: TableEntry) -> TableEntry:
        return replace(
            one,
            location=_below(folder, one.location) or "",
            roots=tuple(_below(folder, root) or "" for root in one.roots),
            storage_options={**common, **one.storage_options},
        )

    schemas = (replace(one, tables=tuple(map(table, one.tables))) for one in share.schemas)
    return replace(share, schemas=tuple(schemas))


def _below(folder: str, place: str | None) -> str | None:
    if place is None or place == "-" or "://" in place or place.startswith("file:"):
        return place
    return os.path.join(folder, place)


def _tls(found: Mapping[str, Any], folder: str, place: Where) -> Tls:
    certificate = _below(folder, found.get("certificateFile"))
    key = _below(folder, found.get("certificateKeyFile"))
    self_signed = found.get("selfSigned", False)
    if not self_signed and (certificate is None or key is None):
        raise place.error(
            "has no certificate", "name certificateFile and certificateKeyFile, or selfSigned: true"
        )
    password_file = _below(folder, found.get("certificatePasswordFile"))
    password = None
    if password_file is not None:
        try:
            with open(password_file, encoding="utf-8") as file:
                password = file.read().strip()
        except OSError as error:
            raise place.error(f"names a password file that cannot be read: {error}") from None
        except UnicodeDecodeError:
            raise place.error("names a password file that is not UTF-8") from None
    return Tls(self_signed, certificate, key, password)


_URL = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+(?:/[A-Za-z0-9._~/-]*)?")


def _public_url(url: str | None, place: Where) -> str | None:
    if url is None:
        return None
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and parts.hostname and _URL.fullmatch(url)
    except ValueError:
        is_right = False
    if not is_right:
        raise place.error("is not an http or https URL", "write https://sharing.example.com")
    return url.rstrip("/")


def folder_config(folder: str, storage_options: Mapping[str, str]) -> Config:
    """A configuration that shares a folder of tables, or one table, with history.

    Raises NotFound if there is no such folder.
    """
    store = open_store(folder, storage_options)
    try:
        entries = list(store.list_from(""))
    except FileMissing:
        raise NotFound(
            f"there is no folder {folder}", hint="name a folder that has tables in it"
        ) from None
    name = _share_name(store.location)
    place = folder.rstrip("/") or "/"
    is_table = any(one.is_folder and one.name == "_delta_log" for one in entries)
    if not is_table and bears(store, PAIMON):
        raise NotFound(
            f"not a Delta table: {folder} is a Paimon table", hint="name a folder of Delta tables"
        )
    table = TableEntry(
        place if is_table else f"{place.rstrip('/')}/*",
        name.replace(".", "_") if is_table else None,
        history_shared=True,
        storage_options=storage_options,
    )
    return Config(shares=(ShareEntry(name, None, (SchemaEntry("default", (table,)),)),))


def _share_name(location: str) -> str:
    """The last part of a location as a name that can be used."""
    last = location.rstrip("/").rsplit("/", 1)[-1]
    return "".join("_" if one in " /\x7f" or one < " " else one for one in last)[:255] or "share"


def with_listening(
    config: Config,
    *,
    host: str | None,
    port: int | None,
    public_url: str | None,
    tls_files: tuple[str | None, str | None],
    admin_port: int | None,
    audit_log: str | None,
) -> Config:
    """The configuration with what the command line says instead."""
    place = Where("the command line", "")
    changes: dict[str, Any] = {}
    changes |= {} if host is None else {"host": host}
    changes |= {} if port is None else {"port": port}
    changes |= {} if audit_log is None else {"audit_log": audit_log}
    if public_url is not None:
        changes["public_url"] = _public_url(public_url, place.below("--public-url"))
    if tls_files != (None, None):
        if None in tls_files:
            raise UsageError("--tls-cert and --tls-key go together", hint="name both files")
        changes["tls"] = Tls(certificate=tls_files[0], key=tls_files[1])
    if admin_port is not None:
        changes["admin"] = Admin(admin_port, config.admin.host if config.admin else "127.0.0.1")
    return replace(config, **changes)
