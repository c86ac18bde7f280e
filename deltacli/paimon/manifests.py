"""Manifests and their lists: of each entry no more than the schema it was written with (facts 5).

They are Avro files. Blocks are read and let go one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from deltacli.errors import CorruptLog, DeltaCliError, StorageError
from deltacli.storage import LogStore

_MAGIC = b"Obj\x01"
# A record may hold itself.
_DEEPEST = 50
ADD, DELETE = 0, 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest as a list names it, with the numbers that the list tells."""

    name: str
    size: int | None
    num_entries: int | None


@dataclass
class SchemaCounts:
    """How many entries there are of each kind and schema."""

    adds: Counter[int] = field(default_factory=Counter)
    deletes: Counter[int] = field(default_factory=Counter)
    lists: Counter[int] = field(default_factory=Counter)

    def add(self, other: SchemaCounts) -> None:
        self.adds += other.adds
        self.deletes += other.deletes
        self.lists += other.lists


def manifest_path(name: str) -> str:
    """Where a manifest or a list of them lies. Raises CorruptLog for a name that is none."""
    if not name or "/" in name or "\\" in name or name in (".", ".."):
        raise CorruptLog(f"{name!r} is no name of a manifest")
    return f"manifest/{name}"


def read_list(
    store: LogStore, name: str, size: int | None, counts: SchemaCounts
) -> Iterator[Manifest]:
    """The manifests in a list. Raises FileMissing, or CorruptLog."""
    fields = {
        "_FILE_NAME": None,
        "_FILE_SIZE": None,
        "_NUM_ADDED_FILES": None,
        "_NUM_DELETED_FILES": None,
        "_SCHEMA_ID": None,
    }
    path = manifest_path(name)
    for record in _records(store, path, size, fields):
        if not isinstance(record.get("_FILE_NAME"), str):
            raise unreadable(path, "a record names no file")
        counts.lists[_schema_id(record, path)] += 1
        added, deleted = (_number(record, f"_NUM_{one}_FILES") for one in ("ADDED", "DELETED"))
        total = None if added is None or deleted is None else added + deleted
        # No Avro file is empty: a size of 0 is none.
        yield Manifest(record["_FILE_NAME"], _number(record, "_FILE_SIZE") or None, total)


def read_manifest(store: LogStore, manifest: Manifest) -> SchemaCounts:
    """What a manifest's entries need. Raises FileMissing, or CorruptLog."""
    counts = SchemaCounts()
    path = manifest_path(manifest.name)
    wanted = {"_KIND": None, "_FILE": {"_SCHEMA_ID": None}}
    found: Counter[tuple[Any, Any]] = Counter()
    for record in _records(store, path, manifest.size, wanted):
        file = record.get("_FILE")
        key = record.get("_KIND"), file.get("_SCHEMA_ID") if file else None
        # Told at the first one: records of no bytes may be any number.
        if key not in found and (type(key[1]) is not int or key[0] not in (ADD, DELETE)):
            raise unreadable(path, "an entry has no kind or no schema id")
        found[key] += 1
    for (kind, schema_id), count in found.items():
        (counts.adds if kind == ADD else counts.deletes)[schema_id] += count
    if manifest.num_entries is not None and found.total() != manifest.num_entries:
        raise unreadable(
            path, f"it has {found.total():,} entries, and its list says {manifest.num_entries:,}"
        )
    return counts


def _number(record: Mapping[str, Any], name: str) -> int | None:
    value = record.get(name)
    return value if type(value) is int else None


def _schema_id(record: Mapping[str, Any], path: str) -> int:
    schema_id = record.get("_SCHEMA_ID")
    if type(schema_id) is not int:
        raise unreadable(path, "a record has no schema id")
    return schema_id


def _records(
    store: LogStore, path: str, size: int | None, wanted: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """The records of an Avro file, with no more than the wanted fields."""
    reader = _reader()
    with closing(store.open(path)) as file:
        length = file.seek(0, 2)
        file.seek(0)
        if size is not None and length != size:
            raise unreadable(path, f"it has {length:,} bytes instead of {size:,}")
        if file.read(len(_MAGIC)) != _MAGIC:
            raise unreadable(path, "it is no Avro file; manifests in ORC or Parquet are not read")
        file.seek(0)
        try:
            head = reader(file)
            schema = head.writer_schema
            if _may_be_endless(schema, {}):
                raise unreadable(path, "its arrays may have any number of elements without bytes")
            file.seek(0)
            for record in reader(file, reader_schema=_reduced(schema, wanted)):
                if not isinstance(record, dict):
                    raise unreadable(path, "a record is null")
                yield record
        except DeltaCliError:
            raise
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error}", location=store.location) from error
        except Exception as error:
            # Whatever the bytes are, the library may fail on them in any way.
            raise unreadable(path, f"{type(error).__name__}: {error}") from error


def _may_be_endless(schema: Any, named: dict[str, Any]) -> bool:
    """Whether there is an array whose elements take no bytes: a few bytes claim any number."""
    if isinstance(schema, list):
        return any(_may_be_endless(one, named) for one in schema)
    if not isinstance(schema, dict):
        return False
    if "name" in schema:
        named[schema["name"]] = schema
    if schema.get("type") == "array":
        items = schema["items"]
        return not _takes_bytes(items, named) or _may_be_endless(items, named)
    if schema.get("type") == "map":
        return _may_be_endless(schema["values"], named)
    return any(_may_be_endless(one["type"], named) for one in schema.get("fields", ()))


def _takes_bytes(schema: Any, named: Mapping[str, Any], depth: int = 0) -> bool:
    if isinstance(schema, str):
        own = named.get(schema)
        if own is None or depth > _DEEPEST:
            return schema != "null"
        return _takes_bytes(own, named, depth + 1)
    if not isinstance(schema, dict):
        return True  # a union has a byte that tells which
    kind = schema["type"]
    if kind == "record":
        return any(_takes_bytes(one["type"], named, depth + 1) for one in schema["fields"])
    if kind == "fixed":
        return bool(schema["size"])
    return kind in ("array", "map", "enum") or _takes_bytes(kind, named, depth + 1)


def _reduced(schema: Any, wanted: Mapping[str, Any]) -> Any:
    """A writer's schema without the fields that nobody wants: they are passed over unread."""
    if isinstance(schema, list):
        return [_reduced(one, wanted) for one in schema]
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return schema
    fields = [
        {"name": one["name"], "type": _reduced(one["type"], wanted[one["name"]] or {})}
        for one in schema["fields"]
        if one["name"] in wanted
    ]
    return {"type": "record", "name": schema["name"], "fields": fields}


def _reader() -> Callable[..., Any]:
    try:
        from fastavro import reader
    except ImportError as error:
        raise StorageError(
            "reading manifests needs a package that is not installed",
            hint="pip install 'deltacli[paimon]'",
        ) from error
    found: Callable[..., Any] = reader
    return found


def unreadable(path: str, reason: str) -> CorruptLog:
    """The error for a file of a table; who knows the table says where it is."""
    return CorruptLog(f"{path} cannot be read: {reason}")
