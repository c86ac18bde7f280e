"""A table's state as its commits leave it, replayed from the oldest to the newest.

Other than `delta.replay`, which goes back from the newest: what checkpoints and checksums
say is compared with a second, independent reading of the log. Of a file no more is held
than a few numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from typing import Protocol as Protocol_

from deltacli.delta.actions import (
    BadAction,
    DomainMetadata,
    Metadata,
    Protocol,
    Txn,
    parse_domain,
    parse_metadata,
    parse_protocol,
    parse_txn,
)
from deltacli.delta.paths import canonical_path
from deltacli.delta.replay import FileKey
from deltacli.validate.commits import Body, Commit, Line
from deltacli.validate.definition import Definition

_MASK = (1 << 64) - 1


class Entry(NamedTuple):
    """A live file: where it was added, hashes of what is said of it, and what sums need.

    `deleted` is the cardinality of its deletion vector, -1 without one; `raw` its path as in
    the log where that is not its canonical form.
    """

    version: int
    facts: int
    stats: int
    size: int
    deleted: int
    modified_ms: int
    has_stats: bool
    raw: str | None


@dataclass(slots=True)
class Sums:
    """What the live files add up to; the hashes add up to one number for any order."""

    files: int = 0
    bytes: int = 0
    vectors: int = 0
    deleted: int = 0
    with_stats: int = 0
    facts: int = 0
    stats: int = 0

    def count(self, one: Entry, sign: int = 1) -> None:
        self.files += sign
        self.bytes += sign * one.size
        self.with_stats += sign * one.has_stats
        self.facts = (self.facts + sign * one.facts) & _MASK
        self.stats = (self.stats + sign * one.stats) & _MASK
        if one.deleted >= 0:
            self.vectors += sign
            self.deleted += sign * one.deleted


def entry_of(body: Body, version: int, *, with_facts: bool = True) -> Entry:
    """What is held of an add, from a commit's line or a checkpoint's row."""
    path, vector, size = body["path"], body.get("deletionVector"), body.get("size") or 0
    canonical = canonical_path(path)
    return Entry(
        version,
        hash(file_facts(body)) & _MASK if with_facts else 0,
        hash((canonical, body.get("stats"))) & _MASK if with_facts else 0,
        size,
        vector["cardinality"] if vector else -1,
        body.get("modificationTime") or 0,
        bool(body.get("stats")),
        None if canonical == path else path,
    )


def file_facts(body: Body) -> tuple[Any, ...]:
    """What a checkpoint must keep of a live file, statistics apart."""
    vector = body.get("deletionVector")
    return (
        canonical_path(body["path"]),
        body.get("size"),
        body.get("modificationTime"),
        pairs_of(body.get("partitionValues")),
        pairs_of(body.get("tags")),
        tuple(vector.get(name) for name in _VECTOR) if vector else None,
        body.get("baseRowId"),
        body.get("defaultRowCommitVersion"),
        body.get("clusteringProvider"),
    )


FACT_NAMES = (
    "path", "size", "modificationTime", "partitionValues", "tags", "deletionVector",
    "baseRowId", "defaultRowCommitVersion", "clusteringProvider",
)  # fmt: skip
_VECTOR = ("storageType", "pathOrInlineDv", "offset", "sizeInBytes", "cardinality")


def pairs_of(value: Any) -> tuple[tuple[str, Any], ...]:
    """A map, or the pairs of a Parquet map, in one order; none is the same as empty."""
    if not value:
        return ()
    pairs = value.items() if isinstance(value, Mapping) else value
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def path_of(key: FileKey) -> str:
    return key if isinstance(key, str) else key[0]


class Base(Protocol_):
    """A checkpoint that a replay begins with."""

    def find(self, paths: Iterable[str]) -> Iterator[tuple[FileKey, Body]]: ...

    def add_bodies(self) -> Iterator[Body]: ...


@dataclass
class State:
    """The state after `version`.

    It begins empty or at a checkpoint, whose rows are asked for by path; `asked` are the
    paths that were asked for. `live` and `gone` hold what commits did since. It `is_compared`
    as long as a checkpoint is still to come.
    """

    version: int = -1
    base: Base | None = None
    base_version: int = -1
    sums: Sums = field(default_factory=Sums)
    live: dict[FileKey, Entry] = field(default_factory=dict)
    gone: dict[FileKey, int] = field(default_factory=dict)
    twice: dict[str, set[FileKey]] = field(default_factory=dict)
    double_spellings: set[FileKey] = field(default_factory=set)
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    definition: Definition | None = None
    expires_txns: bool = False
    is_compared: bool = True
    asked: set[str] = field(default_factory=set)
    _keys: dict[str, set[FileKey]] = field(default_factory=dict)

    def ask(self, paths: Iterable[str]) -> None:
        """Look at the base's rows of these paths, so that the commits to come find them."""
        if self.base is None:
            return
        new = set(paths) - self.asked
        if not new:
            return
        self.asked |= new
        for key, body in self.base.find(new):
            self._put(key, entry_of(body, self.base_version))

    def forget_tombstones(self, until_ms: int) -> None:
        """A checkpoint has left out what had expired; that does not come back (R-25)."""
        for key in [key for key, stamp in self.gone.items() if stamp <= until_ms]:
            del self.gone[key]

    def entry(self, key: FileKey) -> Entry | None:
        """The live file of a key, if its path was asked for."""
        return self.live.get(key)

    def keys_of(self, path: str) -> set[FileKey]:
        """The live keys of a path: one, or the table is broken."""
        return self._keys.get(path, set()) or ({path} if path in self.live else set())

    def apply(self, commit: Commit) -> None:
        """Take a commit, all its actions at once (rule R-9)."""
        self.version = commit.version
        for key, line in commit.removes:
            if key in self.live:
                self.sums.count(self.live[key], -1)
                self._drop(key)
            stamp = line.body.get("deletionTimestamp")
            self.gone[key] = stamp if type(stamp) is int else 0
        for key, line in commit.adds:
            old = self.live.get(key)
            if old is not None:
                self.sums.count(old, -1)
            entry = entry_of(line.body, commit.version, with_facts=self.is_compared)
            if old is not None and old.raw != entry.raw:
                self.double_spellings.add(key)
            self.sums.count(entry)
            self.gone.pop(key, None)
            self._put(key, entry)
        for line in commit.sound("txn", "domainMetadata", "protocol", "metaData"):
            self._apply_small(line)

    def _put(self, key: FileKey, entry: Entry) -> None:
        """Only paths with vectors need a list of their keys."""
        self.live[key] = entry
        path = path_of(key)
        if not isinstance(key, str) or path in self._keys:
            keys = self._keys.setdefault(path, {path} if path in self.live else set())
            keys.add(key)
            if len(keys) > 1:
                self.twice[path] = keys

    def _drop(self, key: FileKey) -> None:
        del self.live[key]
        self.double_spellings.discard(key)
        path = path_of(key)
        keys = self._keys.get(path)
        if keys is not None:
            keys.discard(key)
            if len(keys) < 2:
                self.twice.pop(path, None)
            if not keys:
                del self._keys[path]

    def take_txn(self, body: Body) -> None:
        with suppress(BadAction):
            txn = parse_txn(body)
            self.txns[txn.app_id] = txn

    def _apply_small(self, line: Line) -> None:
        body = line.body
        try:
            if line.key == "txn":
                self.take_txn(body)
            elif line.key == "domainMetadata":
                domain = parse_domain(body)
                self.domains[domain.domain] = domain
            elif line.key == "protocol":
                self.protocol = parse_protocol(body)
            else:
                self.metadata = parse_metadata(body)
        except BadAction:
            # A rule of its own tells of it.
            return
