"""`vacuum --explain PATH`: which rule keeps or condemns one file (V-67)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc

from deltacli.delta.columns import path_array
from deltacli.delta.engine import Engine, FileBatch, Search
from deltacli.delta.hidden import hidden_names
from deltacli.delta.paths import decode_path
from deltacli.delta.retention import Why
from deltacli.delta.root import Root
from deltacli.delta.snapshot import Snapshot
from deltacli.errors import NotFound, StorageError, UsageError
from deltacli.operations.records import Document
from deltacli.operations.vacuum import (
    Look,
    check_vacuum,
    has_log,
    reasons_of,
)
from deltacli.operations.vacuum_request import VacuumRequest
from deltacli.storage import Entry, LogStore, Walked
from deltacli.units import iso_time

_KEPT = {
    Why.LIVE: "the newest version has it",
    Why.VECTOR: "it holds deletion vectors of the newest version",
    Why.TOMBSTONE: "it was removed, but less long ago than the retention",
}


@dataclass(frozen=True)
class Verdict:
    """What becomes of a file, by which rule; `until_ms` is when that changes, if it is known."""

    decision: str
    rule: str
    reason: str
    until_ms: int | None = None


def explain_vacuum(
    snapshot: Snapshot,
    engine: Callable[[], Engine],
    request: VacuumRequest,
    path: str,
    *,
    now_ms: int,
) -> Document:
    """The decision of a full vacuum about one file, named as on storage or as in the log."""
    look = check_vacuum(snapshot, engine, request, now_ms=now_ms)
    store = snapshot.store
    name = _name_of(store, look.references.root, path)
    entry = store.look(name)
    verdict = _verdict(look, name, entry)
    return Document(
        {
            "path": name,
            "decision": verdict.decision,
            "rule": verdict.rule,
            "reason": verdict.reason,
            "deletableAfter": iso_time(verdict.until_ms),
            "sizeInBytes": entry.size if entry else None,
            "modificationTime": iso_time(entry.modified_ms) if entry else None,
            "version": snapshot.version,
            "retentionMs": now_ms - look.delete_before_ms,
            "deleteBefore": iso_time(look.delete_before_ms),
        },
        "vacuum",
    )


def _name_of(store: LogStore, root: Root, path: str) -> str:
    if path.startswith("/") or re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", path):
        name = root.inside(path)
        if name is None:
            raise UsageError(
                f"{path!r} is not below the table", hint="vacuum never looks at files elsewhere"
            )
        return name
    plain = posixpath.normpath(path)
    if plain == "." or plain == ".." or plain.startswith("../"):
        raise UsageError(f"{path!r} is not below the table", hint="name a file of the table")
    decoded = posixpath.normpath(decode_path(path))
    return decoded if store.look(plain) is None and store.look(decoded) else plain


def _verdict(look: Look, name: str, entry: Entry | None) -> Verdict:
    kept = _by_place(look, name, entry) or _by_log(look, name) or _by_age(look, name, entry)
    if kept is not None:
        return kept
    if not _is_found(look, name):
        return Verdict("kept", "sameFile", "a kept file or a link leads to it by another name")
    (reason,) = reasons_of(path_array([name]), look.expired).to_pylist()
    return Verdict("deleted", str(reason), _WHY_DELETED[str(reason)])


def _is_found(look: Look, name: str) -> bool:
    """Whether a full vacuum of this one file finds it: the last word, for the rarest rules."""
    folder, _, own = name.rpartition("/")
    walked = look.snapshot.store.walk("", hidden_names(look.snapshot))
    listed = (
        replace(one, names=[own], sizes=None, modified_ms=None)
        if one.folder == folder and own in one.names
        else Walked(one.folder, [], pins=one.pins, links=one.links)
        for one in walked
    )
    search = Search(listed, look.protected(), look.delete_before_ms)
    found = look.engine().find_unreferenced(look.snapshot.store, search)
    return len(found.names) > 0


def _by_place(look: Look, name: str, entry: Entry | None) -> Verdict | None:
    store = look.snapshot.store
    parts = name.split("/")
    if hidden := next(filter(hidden_names(look.snapshot), parts), None):
        return Verdict("kept", "hidden", f"{hidden!r} is a hidden name; vacuum does not look there")
    for length in range(1, len(parts)):
        folder = "/".join(parts[:length])
        if has_log(store, folder):
            return Verdict("kept", "nested", f"{folder} is a table of its own")
    if entry is None:
        if any(_has(names, name) for _, names in look.references_of_all()):
            return None
        if store.file_path(name) is not None and _is_there(store, name):
            return Verdict("kept", "link", "links and special files are never followed or deleted")
        raise NotFound(
            f"there is no file {name!r} in the table",
            hint="name it as on storage or as in the log, from the table's folder on",
            location=store.location,
        )
    if entry.is_folder:
        raise UsageError(
            f"{name!r} is a folder", hint="--explain is about files; a plan lists empty directories"
        )
    return None


def _is_there(store: LogStore, name: str) -> bool:
    above, _, own = name.rpartition("/")
    try:
        return any(entry.name == own for entry in store.list_from(above))
    except StorageError:
        return False


def _by_log(look: Look, name: str) -> Verdict | None:
    for why, names in look.references_of_all():
        if why is not Why.EXPIRED and _has(names, name):
            until = None
            if why is Why.TOMBSTONE:
                removed = _removed_ms(look, name)
                until = None if removed is None else removed + look.retention_ms
            return Verdict("kept", why.value, _KEPT[why], until)
    return None


def _has(names: Any, name: str) -> bool:
    return bool(pc.any(pc.is_in(names, value_set=path_array([name]))).as_py())


def _removed_ms(look: Look, name: str) -> int | None:
    """When the newest tombstone of a file was made, if one says so."""
    found: list[int] = []
    fields = ("path", "deletionTimestamp", "deletionVector")
    for item in look.snapshot.files("remove", fields):
        bodies = item.columns.to_pylist() if isinstance(item, FileBatch) else [item]
        for body in bodies:
            stamp = body.get("deletionTimestamp")
            if type(stamp) is int and name in look.references.names_of(body):
                found.append(stamp)
    return max(found, default=None)


def _by_age(look: Look, name: str, entry: Entry | None) -> Verdict | None:
    if entry is None:
        return Verdict("gone", "gone", "the log removed it, and it is not there any more")
    if entry.modified_ms is None:
        return Verdict("kept", "unknownAge", "nothing refers to it, but its age is not known")
    until = entry.modified_ms + look.retention_ms
    if entry.modified_ms > look.now_ms:
        return Verdict("kept", "future", "its modification time is in the future", until)
    if entry.modified_ms >= look.delete_before_ms:
        return Verdict("kept", "young", "nothing refers to it, but a writer may be about to", until)
    return None


_WHY_DELETED = {
    "cdc": "change data is kept for the retention only",
    "dv": "no kept version has a deletion vector in it",
    "tombstone": "it was removed longer ago than the retention",
    "unreferenced": "no version in the log refers to it",
}
