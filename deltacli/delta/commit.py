"""The one way to append to the log (facts 10.2 to 10.5).

A commit is put if absent. When another writer was faster, every commit that won is read
and checked against ours; then ours is made anew for the next version, or given up.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

from deltacli import __version__
from deltacli.delta import json_text
from deltacli.delta.actions import BadAction, Json, parse_line, parse_protocol
from deltacli.delta.checksum import read_checksum
from deltacli.delta.engine import Want
from deltacli.delta.features import BY_NAME, supported_features
from deltacli.delta.history import find_action, stamp_of
from deltacli.delta.paths import canonical_path, checksum_path, commit_path
from deltacli.delta.properties import read_property
from deltacli.delta.segment import list_log
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.writable import check_writable
from deltacli.errors import (
    Conflict,
    CorruptLog,
    FileMissing,
    Refused,
)
from deltacli.storage import LogStore
from deltacli.storage.proofs import prove_put_if_absent, put_own

_ATTEMPTS = 15
_LIMIT_SECONDS = 120.0

Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Moment:
    """What is new at each attempt: the version, and its in-commit time if the table has it."""

    version: int
    timestamp_ms: int


@dataclass(frozen=True)
class Change:
    """What one commit does. `actions` are made for the version they will be in.

    `is_blind_append` is Delta Spark's formula: nothing of the table was read for it. What
    `reads_table` was decided by every file and setting: none may change meanwhile.
    """

    operation: str
    parameters: Mapping[str, Any]
    actions: Callable[[Moment], Sequence[Action]]
    metrics: Mapping[str, str] = field(default_factory=dict)
    isolation: str = "Serializable"
    is_blind_append: bool = True
    reads_table: bool = False
    info: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit that is in the log. `warnings` are about what came after it."""

    version: int
    timestamp_ms: int
    txn_id: str
    attempts: int
    warnings: tuple[str, ...] = ()


@dataclass(slots=True)
class _Base:
    """The log as our next attempt sees it: the newest version and what winners changed."""

    version: int
    configuration: Mapping[str, str]
    in_commit_ms: int | None
    file_ms: int | None
    features: frozenset[str]


def commit(
    snapshot: Snapshot,
    change: Change,
    *,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    pause: Callable[[float], None] = time.sleep,
) -> Committed:
    """Append one commit after the snapshot's version, or later if that is harmless.

    Raises Refused if the table may not be written, Conflict if another writer's commit
    does not go together with ours.
    """
    check_writable(snapshot)
    store = snapshot.store
    _prove_once(store)
    base = _base_of(snapshot)
    txn_id = str(uuid.uuid4())
    begun = time.monotonic()
    for attempt in range(1, _ATTEMPTS + 1):
        moment = _next_moment(base, now_ms())
        actions = list(change.actions(moment))
        content = _content(snapshot, change, actions, base, moment, txn_id)
        path = commit_path(moment.version)
        if put_own(store, path, content, lambda found: _is_own(found, txn_id)):
            warnings = _write_checksum(snapshot, base, actions, moment, txn_id)
            return Committed(moment.version, moment.timestamp_ms, txn_id, attempt, warnings)
        pause(random.uniform(0, min(0.02 * 2**attempt, 2.0)))
        if _meet_winners(store, base, change, actions, txn_id):
            # What looked like another writer's commit is ours after all.
            return Committed(base.version, moment.timestamp_ms, txn_id, attempt)
        if time.monotonic() - begun > _LIMIT_SECONDS:
            break
    raise Conflict(
        f"gave up after {attempt} attempts: other writers were always faster",
        hint="try again when fewer writers are at work",
        location=store.location,
    )


_PROVEN: WeakSet[LogStore] = WeakSet()


def _prove_once(store: LogStore) -> None:
    """Probe a store before the first commit through it (ST-11)."""
    if store not in _PROVEN:
        prove_put_if_absent(store)
        _PROVEN.add(store)


def _base_of(snapshot: Snapshot) -> _Base:
    file = snapshot.listing.commits.get(snapshot.version)
    # Only a table that keeps times in its commits has one to look for.
    own_time = _has_own_time(snapshot.metadata.configuration)
    return _Base(
        snapshot.version,
        snapshot.metadata.configuration,
        snapshot.time.timestamp_ms if own_time else None,
        file.modified_ms if file else None,
        frozenset(snapshot.features),
    )


def _next_moment(base: _Base, now_ms: int) -> Moment:
    """The next version and its time, later than that of any commit before (I-2)."""
    before = base.in_commit_ms if _has_own_time(base.configuration) else base.file_ms
    return Moment(base.version + 1, max(now_ms, (before or 0) + 1))


def _has_own_time(configuration: Mapping[str, str]) -> bool:
    return _is_on(configuration, "delta.enableInCommitTimestamps")


def _is_on(configuration: Mapping[str, str], key: str) -> bool:
    try:
        return bool(read_property(configuration, key))
    except ValueError as error:  # a winner set it so
        raise Refused(f"{error}", hint="set the property to a value that Delta knows") from None


def _content(
    snapshot: Snapshot,
    change: Change,
    actions: Sequence[Action],
    base: _Base,
    moment: Moment,
    txn_id: str,
) -> bytes:
    """The commit's lines, commitInfo first (I-1, 10.5)."""
    configuration = _configuration_after(actions, base.configuration)
    info: dict[str, Any] = {}
    if _has_own_time(configuration):
        info["inCommitTimestamp"] = moment.timestamp_ms
    info |= _info(change, moment.timestamp_ms, txn_id, snapshot.version)
    if _is_on(configuration, "delta.enableRowTracking"):
        info["tags"] = {**info.get("tags", {}), "delta.rowTracking.preserved": "true"}
    return _lines(info, actions)


def first_commit(change: Change, now_ms: int) -> bytes:
    """The lines of the commit that makes a table, one without in-commit times."""
    info = _info(change, now_ms, str(uuid.uuid4()), None)
    return _lines(info, change.actions(Moment(0, now_ms)))


def _info(
    change: Change, timestamp_ms: int, txn_id: str, read_version: int | None
) -> dict[str, Any]:
    read = {} if read_version is None else {"readVersion": read_version}
    return {
        "timestamp": timestamp_ms,
        "operation": change.operation,
        "operationParameters": dict(change.parameters),
        **read,
        "isolationLevel": change.isolation,
        "isBlindAppend": change.is_blind_append,
        "operationMetrics": dict(change.metrics),
        "engineInfo": f"deltacli/{__version__}",
        "txnId": txn_id,
        **change.info,
    }


def _lines(info: Mapping[str, Any], actions: Sequence[Action]) -> bytes:
    lines = [{"commitInfo": info}, *actions]
    return b"".join(json_text.dump(dict(line)) + b"\n" for line in lines)


def _configuration_after(actions: Sequence[Action], before: Mapping[str, str]) -> Mapping[str, str]:
    for action in actions:
        if "metaData" in action:
            return dict(action["metaData"].get("configuration") or {})
    return before


def _is_own(content: bytes, txn_id: str) -> bool:
    info = find_action(content, "commitInfo")
    return info is not None and info.get("txnId") == txn_id


def _meet_winners(
    store: LogStore, base: _Base, change: Change, ours: Sequence[Action], txn_id: str
) -> bool:
    """Read all commits after the base, refuse what conflicts, and stand on the newest.

    True if one of them is our own: then the base stands on it.
    """
    listing = list_log(store, base.version + 1)
    for version in sorted(listing.commits):
        if version <= base.version:
            continue
        if version != base.version + 1:
            raise CorruptLog(f"commit {base.version + 1} is missing, {version} is there")
        file = listing.commits[version]
        winner = list(_actions_of(store, file.path))
        info = next((body for key, body in winner if key == "commitInfo"), {})
        if info.get("txnId") == txn_id:
            base.version = version
            return True
        _check_conflict(winner, change, ours, base.features, version)
        metadata = next((body for key, body in winner if key == "metaData"), None)
        if metadata is not None:
            base.configuration = dict(metadata.get("configuration") or {})
        base.version = version
        base.in_commit_ms = stamp_of(info) or base.in_commit_ms
        base.file_ms = max(file.modified_ms or 0, (base.file_ms or 0) + 1)
    return False


def _actions_of(store: LogStore, path: str) -> Iterator[tuple[str, Json]]:
    try:
        content = store.read(path)
    except FileMissing as error:
        raise CorruptLog(f"{error.message}, but it was listed a moment ago") from error
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            action = parse_line(line) if line else None
        except BadAction as error:
            raise CorruptLog(f"{path}, line {number}: {error}") from None
        if action:
            yield action


def _check_conflict(
    winner: Sequence[tuple[str, Json]],
    change: Change,
    ours: Sequence[Action],
    before: frozenset[str],
    version: int,
) -> None:
    """The conflict matrix of facts 10.3, for commits that read no files."""

    def conflict(what: str) -> Conflict:
        return Conflict(
            f"commit {version} of another writer {what}",
            hint="look at the table again and repeat the command",
        )

    mine = {key for action in ours for key in action}
    apps = {action["txn"]["appId"] for action in ours if "txn" in action}
    domains = {action["domainMetadata"]["domain"] for action in ours if "domainMetadata" in action}
    files = {
        canonical_path(action[key]["path"])
        for action in ours
        for key in ("add", "remove")
        if key in action
    }
    for key, body in winner:
        if key == "metaData" and (change.reads_table or mine & {"metaData", "add", "remove"}):
            raise conflict("changed the table's metadata")
        if key == "add" and change.reads_table:
            raise conflict("added files")
        if key == "protocol":
            if "protocol" in mine:
                raise conflict("changed the protocol as well")
            _check_protocol(body, before, conflict, adds="add" in mine)
        if key == "txn" and body.get("appId") in apps:
            raise conflict(f"wrote for the application {body.get('appId')!r} as well")
        if key == "domainMetadata" and body.get("domain") in domains:
            raise conflict(f"wrote the domain {body.get('domain')!r} as well")
        if key in ("add", "remove") and canonical_path(str(body.get("path"))) in files:
            raise conflict(f"changed the file {body.get('path')!r} as well")


# A winner that adds one of these does not disturb a transaction that began before.
_HARMLESS = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "columnMapping",
        "timestampNtz",
        "deletionVectors",
        "rowTracking",
        "domainMetadata",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "v2Checkpoint",
        "typeWidening",
        "inCommitTimestamp",
        "vacuumProtocolCheck",
        "invariants",
    }
)


# Files that were written without knowing of these would break their rules.
_FOR_FILES = frozenset(
    {"rowTracking", "columnMapping", "icebergCompatV1", "icebergCompatV2", "icebergCompatV3"}
)


def _check_protocol(
    body: Json, before: frozenset[str], conflict: Callable[[str], Conflict], *, adds: bool
) -> None:
    try:
        after = set(supported_features(parse_protocol(body)))
    except BadAction:
        raise conflict("changed the protocol to one that cannot be read") from None
    dropped = sorted(before - after)
    if dropped:
        raise conflict(f"dropped the table feature {dropped[0]}")
    added = sorted(after - before)
    unknown = [name for name in added if name not in BY_NAME]
    if unknown or body["minWriterVersion"] > 7:
        raise conflict("changed the protocol to one that deltacli does not know")
    harmless = _HARMLESS - _FOR_FILES if adds else _HARMLESS
    disturbing = [name for name in added if name not in harmless]
    if disturbing:
        raise conflict(f"added the table feature {disturbing[0]}")


def _write_checksum(
    snapshot: Snapshot, base: _Base, actions: Sequence[Action], moment: Moment, txn_id: str
) -> tuple[str, ...]:
    """Carry the version checksum forward where its numbers are known exactly (CR-1 … CR-4).

    That is so where the version before has one that agrees with the log, and neither we
    nor a winner touched files. A failure does not undo the commit.
    """
    if base.version != snapshot.version:
        return ()
    before = read_checksum(snapshot.store, snapshot.version)
    if before is None:
        return ()
    body = {**before.body, "txnId": txn_id}
    if not all(_carry_forward(body, key, one) for action in actions for key, one in action.items()):
        return ()
    if _has_own_time(_configuration_after(actions, base.configuration)):
        body["inCommitTimestampOpt"] = moment.timestamp_ms
    try:
        totals = snapshot.totals(frozenset({Want.FILES}), moment.timestamp_ms)
        if (before.num_files, before.table_size_bytes) != (totals.files, totals.bytes):
            return ()
        snapshot.store.put_if_absent(checksum_path(moment.version), json_text.dump(body))
    except Exception as error:  # the commit is in the log, whatever happens here
        return (f"the version checksum was not written: {error}",)
    return ()


def _carry_forward(body: dict[str, Any], key: str, one: Json) -> bool:
    """Bring a checksum up to date with one of our actions; False if that takes more."""
    if key in ("metaData", "protocol"):
        body["metadata" if key == "metaData" else key] = one
    elif key == "txn":
        _replace(body, "setTransactions", "appId", one, keep=True)
    elif key == "domainMetadata":
        _replace(body, "domainMetadata", "domain", one, keep=not one.get("removed"))
    else:
        return False
    return True


def _replace(body: dict[str, Any], name: str, own: str, one: Json, *, keep: bool) -> None:
    """A list that is there must be complete; one that is not stays away."""
    if isinstance(body.get(name), list):
        others = [other for other in body[name] if other.get(own) != one.get(own)]
        body[name] = [*others, one] if keep else others
