"""The options of a read, parsed once: what contradicts itself or is not known is an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches

from deltacli.errors import UsageError
from deltacli.sharing.capabilities import DELTA, PARQUET
from deltacli.sharing.client.address import TableAddress, parse_table, split_address
from deltacli.sharing.client.http import DEFAULT_PATIENCE, Http, Patience, parse_patience
from deltacli.sharing.client.server import BOTH, NEWEST, At, SharingServer
from deltacli.sharing.profile import load_profile

INTERVAL_CONF = "spark.delta.sharing.streaming.queryTableVersionIntervalSeconds"
INTERVAL = "queryTableVersionIntervalSeconds"
_LEAST_INTERVAL, _USUAL_INTERVAL = 10, 30
_USUAL_FILES, _USUAL_VERSIONS = 1000, 100
_USUAL_PARTITION = 128 << 20

_COMMON = (
    "path",
    "responseFormat",
    "columns",
    "maxPartitionBytes",
    "timeout",
    "allowHttp",
    "readChangeFeed",
    "startingVersion",
    "startingTimestamp",
)
_BATCH = (
    "versionAsOf",
    "timestampAsOf",
    "endingVersion",
    "endingTimestamp",
    "pushdown",
)
_STREAM = (
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "maxVersionsPerRpc",
    "ignoreChanges",
    "ignoreDeletes",
    "skipChangeCommits",
    INTERVAL,
)


@dataclass(frozen=True, slots=True)
class Place:
    """The table that is read, and how its server is asked."""

    profile: str
    table: TableAddress
    formats: tuple[str, ...] = BOTH
    patience: Patience = DEFAULT_PATIENCE
    allow_http: bool = False
    columns: tuple[str, ...] | None = None
    partition_bytes: int = _USUAL_PARTITION
    reads_changes: bool = False

    def server(self) -> SharingServer:
        profile = load_profile(self.profile, {}, allow_http=self.allow_http)
        return SharingServer(profile, Http(self.patience), formats=self.formats)


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Which version, or the changes of which commits."""

    place: Place
    at: At = NEWEST
    start: At = NEWEST
    end: At = NEWEST
    pushes_down: bool = False


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Where a stream begins, how much it takes at a time, and what it passes over.

    `start` is empty for the newest snapshot; `begins_at_latest` for what comes after it.
    """

    place: Place
    start: At = NEWEST
    begins_at_latest: bool = False
    max_files: int | None = _USUAL_FILES
    max_bytes: int | None = None
    max_versions: int = _USUAL_VERSIONS
    ignores_changes: bool = False
    ignores_deletes: bool = False
    skips_change_commits: bool = False
    interval_s: int = _USUAL_INTERVAL


def parse_place(options: Mapping[str, str]) -> Place:
    """What batches and streams have in common."""
    reader = _Reader(options)
    reader.allow((*_COMMON, *_BATCH, *_STREAM), others=(), kind="")
    return reader.place()


def parse_batch(options: Mapping[str, str]) -> BatchOptions:
    reader = _Reader(options)
    reader.allow((*_COMMON, *_BATCH), others=_STREAM, kind="a stream")
    place = reader.place()
    at = reader.one_of("versionAsOf", "timestampAsOf")
    start = reader.one_of("startingVersion", "startingTimestamp")
    end = reader.one_of("endingVersion", "endingTimestamp")
    if place.reads_changes and start == NEWEST:
        raise UsageError(
            "readChangeFeed needs startingVersion or startingTimestamp", hint="name the start"
        )
    if place.reads_changes and at != NEWEST:
        raise UsageError("changes have no version", hint="leave versionAsOf and timestampAsOf out")
    if not place.reads_changes and (start != NEWEST or end != NEWEST):
        raise UsageError(
            "a start or an end is for changes", hint="add readChangeFeed, or use versionAsOf"
        )
    pushes_down = reader.flag("pushdown")
    if place.reads_changes and pushes_down:
        raise UsageError("changes take no hints", hint="leave pushdown out")
    return BatchOptions(place, at, start, end, pushes_down)


def parse_stream(options: Mapping[str, str], usual_interval: int | None = None) -> StreamOptions:
    """`usual_interval` is that of the session."""
    reader = _Reader(options)
    reader.allow((*_COMMON, *_STREAM), others=_BATCH, kind="a batch")
    begins_at_latest = (reader.text("startingVersion") or "").lower() == "latest"
    if begins_at_latest and reader.text("startingTimestamp") is not None:
        raise UsageError("a stream has one start", hint="leave one of them out")
    start = NEWEST if begins_at_latest else reader.one_of("startingVersion", "startingTimestamp")
    max_bytes = reader.size("maxBytesPerTrigger")
    max_files = reader.whole("maxFilesPerTrigger", least=1)
    if max_files is None and max_bytes is None:
        max_files = _USUAL_FILES
    interval = parse_seconds(reader.text(INTERVAL), INTERVAL)
    if interval is None:
        interval = _USUAL_INTERVAL if usual_interval is None else usual_interval
    if interval < _LEAST_INTERVAL:
        raise UsageError(
            f"{INTERVAL} is {interval}: a server is asked for new versions every "
            f"{_LEAST_INTERVAL} seconds at most",
            hint=f"set {INTERVAL_CONF} to {_LEAST_INTERVAL} or more",
        )
    return StreamOptions(
        reader.place(),
        start,
        begins_at_latest,
        max_files,
        max_bytes,
        reader.whole("maxVersionsPerRpc", least=1) or _USUAL_VERSIONS,
        reader.flag("ignoreChanges"),
        reader.flag("ignoreDeletes"),
        reader.flag("skipChangeCommits"),
        interval,
    )


def parse_seconds(text: str | None, name: str) -> int | None:
    """Whole seconds, with or without their unit."""
    if text is None:
        return None
    digits = text.strip().lower().removesuffix("s")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise UsageError(f"{name} is {text!r}", hint="it is a number of seconds")
    return int(digits)


class _Reader:
    """Options by name, whatever the case."""

    def __init__(self, options: Mapping[str, str]):
        self._values = {name.lower(): str(value) for name, value in options.items()}

    def allow(self, names: tuple[str, ...], *, others: tuple[str, ...], kind: str) -> None:
        known = {one.lower() for one in names}
        for name in self._values:
            if name in {one.lower() for one in others}:
                raise UsageError(f"the option {name} is for {kind}", hint="leave it out")
            if name not in known:
                close = get_close_matches(name, known, n=1)
                raise UsageError(
                    f"there is no option {name}" + (f"; did you mean {close[0]}?" if close else ""),
                    hint=f"the options are {', '.join(names)}",
                )

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return None if value is None else value.strip()

    def flag(self, name: str) -> bool:
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise UsageError(f"{name} is {value!r}", hint="it is true or false")
        return value == "true"

    def whole(self, name: str, *, least: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 20) or not (
            least <= int(text) < 2**63
        ):
            raise UsageError(f"{name} is {text!r}", hint=f"it is a whole number from {least} on")
        return int(text)

    def size(self, name: str) -> int | None:
        """Bytes, as Spark writes them: 1073741824, 512m, 1g."""
        text = self.text(name)
        if text is None:
            return None
        digits = text.lower().removesuffix("b")
        unit = {"k": 10, "m": 20, "g": 30, "t": 40}.get(digits[-1:], 0)
        digits = digits[:-1] if unit else digits
        if not (digits.isascii() and digits.isdigit() and len(digits) < 16 and int(digits)):
            raise UsageError(f"{name} is {text!r}", hint="write it in bytes, or as 512m or 1g")
        return int(digits) << unit

    def one_of(self, version: str, timestamp: str) -> At:
        number, moment = self.whole(version, least=0), self.text(timestamp)
        if number is not None and moment is not None:
            raise UsageError(
                f"{version} and {timestamp} exclude each other", hint="leave one of them out"
            )
        return At(number, None if moment is None else _instant(timestamp, moment))

    def place(self) -> Place:
        path = self.text("path") or ""
        profile, name = split_address(path)
        if profile is None:
            raise UsageError(f"{path!r} names no profile", hint="load FILE#share.schema.table")
        if profile == "-":
            raise UsageError("a profile for Spark is a file", hint="write it to one")
        answers = (self.text("responseFormat") or "auto").lower()
        formats = {"auto": BOTH, DELTA: (DELTA,), PARQUET: (PARQUET,)}
        if answers not in formats:
            raise UsageError(f"responseFormat is {answers!r}", hint="it is delta, parquet or auto")
        columns = self.text("columns")
        timeout = self.text("timeout")
        return Place(
            profile,
            parse_table(name),
            formats[answers],
            DEFAULT_PATIENCE if timeout is None else parse_patience(timeout),
            self.flag("allowHttp"),
            None if columns is None else tuple(one.strip() for one in columns.split(",")),
            self.size("maxPartitionBytes") or _USUAL_PARTITION,
            self.flag("readChangeFeed"),
        )


def _instant(name: str, text: str) -> str:
    """An ISO-8601 time; one without a zone is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        utc = moment.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{name} is {text!r}, which is no time", hint="write it as 2026-01-31T10:00:00Z"
        ) from None
    return utc.isoformat(timespec="milliseconds") + "Z"
