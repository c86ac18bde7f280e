"""Action reconciliation: what the JSON lines of a log segment leave behind.

Replay goes from the newest commit to the oldest, so the first action seen for a key is the
one that counts (PROTOCOL "Action Reconciliation", rules R-1 … R-19). Of a file action only
its raw line is kept; Parquet checkpoints come after it, as columns, through an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from deltacli.delta.actions import (
    BadAction,
    DomainMetadata,
    Json,
    Metadata,
    Protocol,
    Sidecar,
    Txn,
    parse_domain,
    parse_line,
    parse_metadata,
    parse_protocol,
    parse_sidecar,
    parse_txn,
    vector_id,
)
from deltacli.delta.paths import canonical_path
from deltacli.delta.segment import LogFile
from deltacli.errors import CorruptLog, StorageError
from deltacli.storage import LogStore, read_all
from deltacli.units import is_text

# The canonical path, paired with the deletion vector's id where there is one.
FileKey = str | tuple[str, str]


def file_key(path: str, vector: str | None) -> FileKey:
    if "%" in path or ":" in path or path.startswith("/"):
        path = canonical_path(path)
    return path if vector is None else (path, vector)


@dataclass(slots=True)
class Reconciled:
    """The state that newest-first replay has found so far.

    `adds` and `removes` map a file's key to the raw line of the action that counts; no key
    is in both. Removed domains stay in `domains` until the end, to hide older ones.
    """

    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    adds: dict[FileKey, bytes] = field(default_factory=dict)
    removes: dict[FileKey, bytes] = field(default_factory=dict)
    sidecars: list[Sidecar] = field(default_factory=list)
    commit_info: Json | None = None

    def apply(self, key: str, body: Json, line: bytes) -> None:
        """Take one action that is older than all before it."""
        if key == "add":
            found = key_of(body)
            _check_types(key, body)
            if body.get("size") is None:
                raise BadAction("add has no size")
            if found not in self.adds and found not in self.removes:
                self.adds[found] = line
        elif key == "remove":
            found = key_of(body)
            _check_types(key, body)
            if found not in self.removes and found not in self.adds:
                self.removes[found] = line
        else:
            self.apply_small(key, body)

    def apply_small(self, key: str, body: Json) -> None:
        """Take one action that is not about a file."""
        if key == "protocol":
            self.protocol = self.protocol or parse_protocol(body)
        elif key == "metaData":
            self.metadata = self.metadata or parse_metadata(body)
        elif key == "txn":
            txn = parse_txn(body)
            self.txns.setdefault(txn.app_id, txn)
        elif key == "domainMetadata":
            domain = parse_domain(body)
            self.domains.setdefault(domain.domain, domain)
        elif key == "sidecar":
            self.sidecars.append(parse_sidecar(body))

    def touched_paths(self) -> set[str]:
        """The canonical paths that an older checkpoint's row may not answer for."""
        keys: Iterable[FileKey] = (*self.adds, *self.removes)
        return {key if isinstance(key, str) else key[0] for key in keys}


# The types that everything behind relies on; null and absent are the same.
_LONGS = ("size", "modificationTime", "deletionTimestamp")
_MAPS = ("partitionValues", "tags")
_LEAST_LONG, _MOST_LONG = -(2**63), 2**63 - 1


def _check_types(key: str, body: Json) -> None:
    get = body.get
    for name in _LONGS:
        value = get(name)
        if value is not None and (type(value) is not int or not _LEAST_LONG <= value <= _MOST_LONG):
            raise BadAction(f"{name} of {key} is not a long")
    for name in _MAPS:
        value = get(name)
        if value is not None and type(value) is not dict:
            raise BadAction(f"{name} of {key} is not a map")


def key_of(body: Json) -> FileKey:
    """The key of an add or remove body. Raises BadAction."""
    path = body.get("path")
    if not isinstance(path, str):
        raise BadAction("a file action has no path")
    vector = body.get("deletionVector")
    if not vector:
        return file_key(path, None)
    if not isinstance(vector, dict) or type(vector.get("cardinality", 0)) is not int:
        raise BadAction("a deletionVector is not an object with a cardinality")
    if not _LEAST_LONG <= vector.get("cardinality", 0) <= _MOST_LONG:
        raise BadAction("cardinality of a deletionVector is not a long")
    for name in ("storageType", "pathOrInlineDv"):
        value = vector.get(name)
        if not isinstance(value, str) or not is_text(value):
            raise BadAction(f"a deletionVector has no {name}")
    return file_key(path, vector_id(vector))


def replay_commits(
    store: LogStore,
    commits: Sequence[LogFile],
    *,
    on_read: Callable[[int, int], None] | None = None,
) -> Reconciled:
    """Reconcile whole commits, newest first. A line that cannot be read is an error."""
    state = Reconciled()
    paths = [commit.path for commit in commits]
    for path, content in read_all(store, paths, reverse=True, on_read=on_read):
        if isinstance(content, StorageError):
            raise content
        newest = path == paths[-1]
        info = replay_lines(state, content, path)
        if newest:
            state.commit_info = info
    return state


def replay_lines(state: Reconciled, content: bytes, path: str) -> Json | None:
    """Apply the lines of one file, last line first; returns its first commitInfo."""
    info: Json | None = None
    lines = content.split(b"\n")
    if not content.strip():
        raise CorruptLog(
            f"{path} is empty", hint="a commit holds at least one action; restore the file"
        )
    for number in range(len(lines) - 1, -1, -1):
        line = lines[number]
        if not line:
            continue
        try:
            action = parse_line(line)
            if action is None:
                continue
            if action[0] == "commitInfo":
                info = action[1]
            else:
                state.apply(action[0], action[1], line)
        except BadAction as error:
            cut = line.startswith(b"{") and not line.rstrip().endswith(b"}")
            raise CorruptLog(
                f"{path}, line {number + 1}: {'the line is cut off' if cut else error}",
                hint="restore the file from a backup; older versions can be read with --at",
                location=f"{path}:{number + 1}",
            ) from None
    return info
