"""The log as files: what is listed, the hint, checksums and compacted commits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.hint import BadHint, LastCheckpoint, parse_hint
from deltacli.delta.paths import LAST_CHECKPOINT, LOG
from deltacli.delta.segment import Checkpoint, LogFile, LogListing
from deltacli.errors import DeltaCliError, FileMissing, NoPlainFile
from deltacli.storage import LogStore
from deltacli.validate.checkpoints import Reading, orphan_sidecars
from deltacli.validate.commits import Body, Commit, Line, parse_lines
from deltacli.validate.definition import Definition
from deltacli.validate.replay import State

DAY_MS = 86_400_000
_COMMIT_LIKE = re.compile(r"([0-9]+)\.json", re.IGNORECASE)


@dataclass(frozen=True)
class LogFolder:
    """`_delta_log` after everything in it was read.

    `listing` is None where there is no log at all; `definition` is the newest known. `clocks`
    are the times of commits by their files and by their writers.
    """

    store: LogStore
    listing: LogListing | None
    now_ms: int
    definition: Definition | None = None
    readings: Sequence[Reading] = ()
    clocks: Sequence[tuple[int | None, Any]] = ()

    file: str = LOG
    version: int | None = None

    @property
    def commits(self) -> Mapping[int, LogFile]:
        return self.listing.commits if self.listing else {}

    @property
    def checkpoints(self) -> Sequence[Checkpoint]:
        return self.listing.checkpoints if self.listing else ()

    @property
    def newest_checkpoint(self) -> int:
        return self.checkpoints[-1].version if self.checkpoints else -1

    @property
    def newest_commit(self) -> int:
        return max(self.commits, default=-1)

    @property
    def latest(self) -> int:
        return self.listing.latest if self.listing else -1

    @property
    def others(self) -> Sequence[LogFile]:
        return self.listing.others if self.listing else ()

    @property
    def is_catalog_managed(self) -> bool:
        features = self.definition.features if self.definition else frozenset()
        return any(one.startswith(("catalog", "coordinated")) for one in features)

    def gaps(self) -> Iterator[tuple[int, int]]:
        """The runs of versions without a commit between the oldest and the newest one."""
        previous: int | None = None
        for version in self.commits:
            if previous is not None and version != previous + 1:
                yield previous + 1, version - 1
            previous = version

    @cached_property
    def hint_content(self) -> bytes | None:
        try:
            return self.store.read(LAST_CHECKPOINT)
        except FileMissing:
            return None
        except NoPlainFile:
            return b""

    @cached_property
    def hint(self) -> LastCheckpoint | str | None:
        """The hint, why it is none, or None where there is none."""
        if self.hint_content is None:
            return None
        try:
            return parse_hint(self.hint_content)
        except BadHint as error:
            return str(error)

    @property
    def hint_body(self) -> Mapping[str, Any]:
        return self.hint.body if isinstance(self.hint, LastCheckpoint) else {}

    @property
    def hinted(self) -> list[Reading]:
        """The checkpoints of the hint's version."""
        if not isinstance(self.hint, LastCheckpoint):
            return []
        version = self.hint.version
        return [one for one in self.readings if one.version == version]

    @cached_property
    def odd_spellings(self) -> Counter[int]:
        """How many names that are nearly those of commits have a version."""
        found = (_COMMIT_LIKE.fullmatch(one.name.text) for one in self.others)
        return Counter(int(one[1][-19:]) for one in found if one)

    def has_entries(self, folder: str) -> bool:
        try:
            return next(self.store.list_from(folder), None) is not None
        except FileMissing:
            return False

    def times(self) -> dict[int, int]:
        """The modification times of commits, where the storage tells them."""
        stamps = {version: one.modified_ms for version, one in self.commits.items()}
        return {version: one for version, one in stamps.items() if one is not None}

    def orphan_sidecars(self) -> Iterator[tuple[str, int | None]]:
        # What an unreadable checkpoint speaks of is not known.
        if all(one.is_readable or one.bad_sidecars for one in self.readings):
            yield from orphan_sidecars(self.store, self.readings)


@dataclass(frozen=True)
class NotLoaded:
    """A newest version that cannot be loaded, and why."""

    error: DeltaCliError
    version: int | None

    file: None = None

    @property
    def is_in_log(self) -> bool:
        return bool(self.error.location and self.error.location.startswith(LOG))


@dataclass(frozen=True)
class Checksum:
    """A version checksum, and the state of its version where that is known."""

    version: int
    content: bytes
    definition: Definition | None
    state: State | None
    commit: Commit | None
    has_commit: bool

    @property
    def file(self) -> str:
        return f"{LOG}/{self.version:020}.crc"

    @cached_property
    def _parsed(self) -> tuple[Body, str | None]:
        try:
            found = json_text.load_faithful(self.content)
        except ValueError as error:
            return {}, f"it is no JSON: {error}" if self.content.strip() else "it is empty"
        if not isinstance(found, dict):
            return {}, "it is no JSON object"
        for name in ("tableSizeBytes", "numFiles"):
            if type(found.get(name)) is not int:
                return {}, f"{name} is missing or no number"
        return found, None

    @property
    def body(self) -> Body:
        return self._parsed[0]

    @property
    def problem(self) -> str | None:
        return self._parsed[1]

    @property
    def histogram(self) -> Mapping[str, Any] | None:
        found = self.body.get("fileSizeHistogram", self.body.get("histogramOpt"))
        return found if isinstance(found, dict) else None


@dataclass(frozen=True)
class Compaction:
    """Compacted commits, beside the commits that they stand for."""

    log_file: LogFile
    lines: Sequence[Line]
    commits: Mapping[int, Sequence[Line]] = field(default_factory=dict)
    known: frozenset[int] = frozenset()

    @property
    def file(self) -> str:
        return self.log_file.path

    @property
    def version(self) -> int:
        return self.log_file.version

    @property
    def end(self) -> int:
        return self.log_file.name.end

    @property
    def is_covered(self) -> bool:
        """Whether all its commits are there."""
        return len(self.commits) == self.end - self.version + 1


def read_compaction(store: LogStore, listing: LogListing, file: LogFile) -> Compaction:
    """Compacted commits and, where they are all there, the commits."""
    lines = parse_lines(_content(store, file.path))
    inside = [one for one in listing.commits if file.version <= one <= file.name.end]
    commits = {}
    if len(inside) == file.name.end - file.version + 1:
        for version in inside:
            commits[version] = parse_lines(_content(store, listing.commits[version].path))
    return Compaction(file, lines, commits, frozenset(listing.commits))


def _content(store: LogStore, path: str) -> bytes:
    try:
        return store.read(path)
    except FileMissing:
        return b""


__all__ = ["Checksum", "Compaction", "LogFolder", "read_compaction"]
