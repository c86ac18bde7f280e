"""The configuration file: the YAML of the reference server, and more.

Every key is one row of a table, with its type. Nothing is passed over: a key that is not
known is an error that names the nearest one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from deltacli.errors import FileMissing, NotFound, StorageError, UsageError
from deltacli.sharing.names import name_problem, same_name
from deltacli.storage import open_store
from deltacli.storage.patterns import is_pattern

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
    yaml = _yaml()
    try:
        tree = _tree(yaml, text)
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
    place = _Place(path, "")
    values = _read(tree, _TOP, place)
    return _config(values, place)


def _tree(yaml: Any, text: str) -> Any:
    """The YAML's tree; a key that stands twice is an error instead of the last winning."""

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        pass

    def mapping(loader: Any, node: Any) -> Any:
        seen = set()
        for key, _ in node.value:
            if key.value in seen and isinstance(key.value, str):
                problem = f"the key {key.value!r} stands twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value if isinstance(key.value, str) else None)
        return loader.construct_mapping(node)

    def whole(loader: Any, node: Any) -> Any:
        loader.flatten_mapping(node)
        return mapping(loader, node)

    def number(kind: Any, name: str) -> Any:
        def construct(loader: Any, node: Any) -> Any:
            make = getattr(yaml.SafeLoader, f"construct_yaml_{name}")
            return kind(make(loader, node)).written_as(node.value)

        return construct

    Loader.add_constructor("tag:yaml.org,2002:map", whole)
    Loader.add_constructor("tag:yaml.org,2002:int", number(WrittenInt, "int"))
    Loader.add_constructor("tag:yaml.org,2002:float", number(WrittenFloat, "float"))
    Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: str(node.value))
    return yaml.load(text, Loader)


class _Written:
    """A number that remembers how it was written: where a text belongs, that counts."""

    text = ""

    def written_as(self, text: str) -> Any:
        self.text = text
        return self


class WrittenInt(_Written, int):
    pass


class WrittenFloat(_Written, float):
    pass


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise StorageError(
            f"the server needs a package that is not installed: {error}",
            hint="pip install 'deltacli[server]'",
        ) from error
    return yaml


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the file something stands."""

    path: str
    key: str

    def below(self, key: str) -> _Place:
        return replace(self, key=f"{self.key}.{key}" if self.key else key)

    def at(self, number: int) -> _Place:
        return replace(self, key=f"{self.key}[{number}]")

    def error(self, message: str, hint: str = "see docs/sharing.md") -> UsageError:
        where = f"{self.path}: {self.key}" if self.key else self.path
        return UsageError(f"{where} {message}", hint=hint)


Reader = Callable[[Any, _Place], Any]


def _read(tree: Any, known: Mapping[str, Reader], place: _Place) -> dict[str, Any]:
    """The values of a mapping, each read by its row."""
    if not isinstance(tree, Mapping):
        raise place.error("is not a mapping of keys")
    found = {}
    for key, value in tree.items():
        if key not in known:
            close = get_close_matches(str(key), known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"the keys are {', '.join(known)}"
            raise place.error(f"has an unknown key {key!r}", hint)
        if value is not None:
            found[key] = known[key](value, place.below(key))
    return found


def _text(value: Any, place: _Place) -> str:
    if isinstance(value, _Written):
        return value.text
    if not isinstance(value, str) or value == "":
        raise place.error("is not a text", "put it in quotes")
    return value


def _any_text(value: Any, place: _Place) -> str:
    return "" if value == "" else _text(value, place)


def _flag(value: Any, place: _Place) -> bool:
    if not isinstance(value, bool):
        raise place.error("is neither true nor false")
    return value


def _number(least: int, most: int = 2**53) -> Reader:
    def read(value: Any, place: _Place) -> int:
        if not isinstance(value, WrittenInt) or not least <= value <= most:
            raise place.error(f"is not a whole number from {least} on")
        return int(value)

    return read


def _list(one: Reader) -> Reader:
    def read(value: Any, place: _Place) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise place.error("is not a list")
        return tuple(one(item, place.at(number)) for number, item in enumerate(value))

    return read


def _texts(value: Any, place: _Place) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise place.error("is not a mapping of texts")
    return {
        str(key): str(one).lower() if isinstance(one, bool) else _text(one, place.below(str(key)))
        for key, one in value.items()
    }


def _one_of(*choices: str) -> Reader:
    def read(value: Any, place: _Place) -> str:
        if value not in choices:
            raise place.error(f"is none of {', '.join(choices)}")
        return str(value)

    return read


def _table(value: Any, place: _Place) -> TableEntry:
    found = _read(value, _TABLE, place)
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


def _schema(value: Any, place: _Place) -> SchemaEntry:
    found = _read(value, {"name": _text, "tables": _list(_table)}, place)
    _check_name(found.get("name", ""), place, may_have_dots=False)
    tables = found.get("tables", ())
    _check_unique([one.name for one in tables if one.name is not None], "tables", place)
    return SchemaEntry(found["name"], tables)


def _share(value: Any, place: _Place) -> ShareEntry:
    found = _read(value, {"name": _text, "id": _any_text, "schemas": _list(_schema)}, place)
    _check_name(found.get("name", ""), place, may_have_dots=True)
    schemas = found.get("schemas", ())
    _check_unique([one.name for one in schemas], "schemas", place)
    return ShareEntry(found["name"], found.get("id") or None, schemas)


def _check_name(name: str | None, place: _Place, *, may_have_dots: bool) -> None:
    problem = None if name is None else name_problem(name, may_have_dots=may_have_dots)
    if problem:
        raise place.error(f"has a name that cannot be used: {problem}")


def _check_unique(names: list[str], what: str, place: _Place) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(same_name(name), name)
        if other is not name:
            raise place.error(f"has two {what} of one name: {other!r} and {name!r}")


_TABLE: dict[str, Reader] = {
    "name": _text,
    "location": _text,
    "id": _any_text,
    "historyShared": _flag,
    "startVersion": _number(0),
    "changeData": _flag,
    "partitionFilter": _text,
    "storageOptions": _texts,
    "links": _one_of("auto", "presign", "proxy"),
    "roots": _list(_text),
}
_SSL: dict[str, Reader] = {
    "selfSigned": _flag,
    "certificateFile": _text,
    "certificateKeyFile": _text,
    "certificatePasswordFile": _text,
}
_LIMITS: dict[str, Reader] = {
    "requestsPerMinute": _number(0),
    "concurrentRequests": _number(0),
    "concurrentDownloads": _number(0),
}
_TOP: dict[str, Reader] = {
    "version": _number(1),
    "shares": _list(_share),
    "authorization": lambda value, place: _read(value, {"bearerToken": _text}, place),
    "ssl": lambda value, place: _read(value, _SSL, place),
    "host": _text,
    "port": _number(0, 65_535),
    "endpoint": _text,
    "preSignedUrlTimeoutSeconds": _number(1),
    "temporaryCredentialValiditySeconds": _number(1),
    "deltaTableCacheSize": _number(1),
    "stalenessAcceptable": _flag,
    "evaluatePredicateHints": _flag,
    "evaluateJsonPredicateHints": _flag,
    "evaluateJsonPredicateHintsV2": _flag,
    "requestTimeoutSeconds": _number(1),
    "queryTablePageSizeLimit": _number(1),
    "queryTablePageTokenTtlMs": _number(1),
    "refreshTokenTtlMs": _number(1),
    # What the reference server does not have.
    "publicUrl": _text,
    "state": _text,
    "storageOptions": _texts,
    "limits": lambda value, place: _read(value, _LIMITS, place),
    "admin": lambda value, place: _read(value, {"host": _text, "port": _number(0, 65_535)}, place),
    "auditLog": _text,
    "shutdownGraceSeconds": _number(0, 86_400),
    "cacheMegabytes": _number(0, 1 << 20),
}
_STALE_SECONDS = 30.0


def _config(found: dict[str, Any], place: _Place) -> Config:
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


def _endpoint(text: str, place: _Place) -> str:
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


def _tls(found: Mapping[str, Any], folder: str, place: _Place) -> Tls:
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


def _public_url(url: str | None, place: _Place) -> str | None:
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
    place = _Place("the command line", "")
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
