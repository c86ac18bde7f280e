"""Which log files make up a version: listing, checkpoints, gaps (facts 1.2 to 1.5)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from deltacli.delta.hint import BadHint, LastCheckpoint, parse_hint
from deltacli.delta.paths import LAST_CHECKPOINT, LOG, Kind, LogName, parse_log_name
from deltacli.delta.tolerance import Remark
from deltacli.errors import CorruptLog, FileMissing, NotFound, StorageError
from deltacli.storage import Entry, LogStore
from deltacli.storage.patterns import PAIMON, bears, is_there
from deltacli.units import joined_runs, ranges


@dataclass(frozen=True, slots=True)
class LogFile:
    """A listed file of the log."""

    name: LogName
    entry: Entry

    @property
    def version(self) -> int:
        return self.name.version

    @property
    def path(self) -> str:
        return self.name.path

    @property
    def size(self) -> int:
        """Bytes; 0 for a file that has vanished since it was listed."""
        try:
            return self.entry.size
        except FileMissing:
            return 0

    @property
    def modified_ms(self) -> int | None:
        """Modification time; None for a file that has vanished since it was listed."""
        try:
            return self.entry.modified_ms
        except FileMissing:
            return None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint: all its parts are there and none is empty."""

    version: int
    kind: Kind
    files: tuple[LogFile, ...]

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """Order of preference: version, then UUID name, more parts, greater name (rule L-6)."""
        return (
            self.version,
            int(self.kind is Kind.UUID_CHECKPOINT),
            len(self.files),
            self.files[0].name.text,
        )


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The log files from which one version is rebuilt.

    `commits` is ascending without a gap and ends at `version`. With a checkpoint, the first
    commit is the one after it; without one, it is commit 0.
    """

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[LogFile, ...]


@dataclass(frozen=True, slots=True)
class LogListing:
    """Everything that one listing of `_delta_log` found, sorted by version.

    `start` is the version from which on it is complete.
    """

    start: int
    commits: dict[int, LogFile]
    checkpoints: tuple[Checkpoint, ...]
    checksums: dict[int, LogFile]
    compacted: tuple[LogFile, ...]
    incomplete: tuple[LogFile, ...]
    others: tuple[LogFile, ...]
    warnings: list[str] = field(default_factory=list)

    @property
    def latest(self) -> int:
        """The newest version, by commit or by checkpoint (LE-17); -1 for an empty log."""
        newest_checkpoint = self.checkpoints[-1].version if self.checkpoints else -1
        return max(next(reversed(self.commits), -1), newest_checkpoint)

    def has_folder(self, kind: Kind) -> bool:
        return any(file.name.kind is kind for file in self.others)

    def rebuildable(self) -> dict[int, bool]:
        """For each version that is there in any form: can its state still be rebuilt?"""
        with_checkpoint = {checkpoint.version for checkpoint in self.checkpoints}
        answers: dict[int, bool] = {}
        for version in sorted(self.commits.keys() | with_checkpoint):
            answers[version] = (
                version == 0
                or version in with_checkpoint
                or (version in self.commits and answers.get(version - 1, False))
            )
        return answers

    def files(self) -> Iterator[LogFile]:
        """All listed files of the log."""
        yield from self.commits.values()
        yield from (file for checkpoint in self.checkpoints for file in checkpoint.files)
        yield from self.checksums.values()
        yield from self.compacted
        yield from self.incomplete
        yield from self.others


def list_log(store: LogStore, start: int = 0) -> LogListing:
    """The log from version `start` on. Raises NotFound if this is not a Delta table."""
    try:
        entries = store.list_from(LOG, f"{start:020}" if start else "")
    except FileMissing:
        raise _not_a_table(store) from None
    commits: dict[int, LogFile] = {}
    checksums: dict[int, LogFile] = {}
    parts: dict[tuple[int, Kind, int, str], list[LogFile]] = {}
    compacted, others = [], []
    seen_any = False
    for entry in entries:
        seen_any = True
        name = parse_log_name(entry.name)
        if entry.is_folder and name.kind not in _FOLDERS:
            name = LogName(entry.name, Kind.FOREIGN)
        file = LogFile(name, entry)
        kind = name.kind
        if kind is Kind.COMMIT:
            commits[file.version] = file
        elif kind is Kind.CHECKSUM:
            checksums[file.version] = file
        elif kind is Kind.COMPACTED:
            compacted.append(file)
        elif kind in _CHECKPOINT_KINDS:
            own = file.name.text if kind is Kind.UUID_CHECKPOINT else ""
            parts.setdefault((file.version, kind, file.name.parts, own), []).append(file)
        else:
            others.append(file)
    if not seen_any and not start:
        raise _not_a_table(store, empty=True)
    complete, incomplete = _complete_checkpoints(parts)
    listing = LogListing(
        start,
        dict(sorted(commits.items())),
        complete,
        checksums,
        tuple(compacted),
        incomplete,
        tuple(others),
    )
    for version in sorted({file.version for file in incomplete}):
        listing.warnings.append(
            Remark(f"the checkpoint at version {version} is incomplete and is ignored")
        )
    return listing


_FOLDERS = (Kind.STAGED_COMMITS, Kind.SIDECARS, Kind.TEMPORARY)
_CHECKPOINT_KINDS = (Kind.CLASSIC_CHECKPOINT, Kind.MULTIPART_CHECKPOINT, Kind.UUID_CHECKPOINT)


def _complete_checkpoints(
    parts: dict[tuple[int, Kind, int, str], list[LogFile]],
) -> tuple[tuple[Checkpoint, ...], tuple[LogFile, ...]]:
    complete: list[Checkpoint] = []
    incomplete: list[LogFile] = []
    for (version, kind, count, _), files in parts.items():
        whole = kind is not Kind.MULTIPART_CHECKPOINT or len(files) == count
        if whole and all(file.size > 0 for file in files):
            ordered = tuple(sorted(files, key=lambda file: file.name.part))
            complete.append(Checkpoint(version, kind, ordered))
        else:
            incomplete += files
    complete.sort(key=lambda checkpoint: checkpoint.rank)
    return tuple(complete), tuple(incomplete)


def read_hint(store: LogStore, warnings: list[str]) -> LastCheckpoint | None:
    """The usable hint, or None; a broken one is read a second time, then ignored (rule L-1)."""
    for _ in range(2):
        try:
            content = store.read(LAST_CHECKPOINT)
        except FileMissing:
            return None
        except StorageError as error:
            # The store has tried again itself.
            reason = error.message
            break
        try:
            return parse_hint(content)
        except BadHint as error:
            reason = str(error)
    warnings.append(Remark(f"_last_checkpoint is ignored: {reason}"))
    return None


def list_for_latest(store: LogStore) -> LogListing:
    """A listing that holds the newest version; on object stores it begins at the hint."""
    warnings: list[str] = []
    hint = read_hint(store, warnings)
    listing = None
    if hint and hint.version and store.reads_are_remote:
        listing = list_log(store, hint.version)
        if not any(one.version >= hint.version for one in listing.checkpoints):
            listing = None
    if listing is None:
        listing = list_log(store)
    if hint and not any(one.version >= hint.version for one in listing.checkpoints):
        found = "the log ends before it" if hint.version > listing.latest else "it is not there"
        warnings.append(f"_last_checkpoint names a checkpoint at version {hint.version}: {found}")
    listing.warnings.extend(warnings)
    return listing


def segments(listing: LogListing, version: int | None = None) -> Iterator[LogSegment]:
    """The ways to rebuild a version, best first; at least one.

    Raises NotFound if the version is outside the log, CorruptLog if it cannot be rebuilt.
    """
    target = listing.latest if version is None else version
    if listing.latest < 0:
        raise NotFound(
            "not a Delta table: _delta_log has neither a commit nor a checkpoint",
            hint="the first commit of a table is 00000000000000000000.json",
        )
    if target < 0 or target > listing.latest:
        raise _no_such_version(listing, target)
    found = False
    for checkpoint in reversed(listing.checkpoints):
        if checkpoint.version <= target:
            commits = _run(listing, checkpoint.version + 1, target)
            if commits is not None:
                found = True
                yield LogSegment(target, checkpoint, commits)
    commits = _run(listing, 0, target)
    if commits:
        yield LogSegment(target, None, commits)
    elif not found:
        raise _cannot_rebuild(listing, target)


def _run(listing: LogListing, first: int, last: int) -> tuple[LogFile, ...] | None:
    """The commits first..last, or None if one is missing."""
    try:
        return tuple(listing.commits[version] for version in range(first, last + 1))
    except KeyError:
        return None


def _cannot_rebuild(listing: LogListing, target: int) -> CorruptLog | NotFound:
    answers = listing.rebuildable()
    newest = max(
        (one.version for one in listing.checkpoints if one.version <= target), default=None
    )
    base = -1 if newest is None else newest
    start = base + 1
    present = [version for version in listing.commits if start <= version <= target]
    possible = [version for version, answer in answers.items() if answer]
    where = f"versions that can be read: {ranges(possible)}" if possible else ""
    if newest is None and 0 not in listing.commits:
        first = next(iter(listing.commits), None)
        begins = "it has no commits" if first is None else f"it begins with commit {first}"
        message = f"the log is truncated: {begins} and has no checkpoint for version {target}"
        if not possible:
            return CorruptLog(message, hint="restore the older log files from a backup")
        return NotFound(f"version {target} cannot be rebuilt any more: {message}", hint=where)
    gaps = _missing(present, start, target)
    after = f"the checkpoint at {base}" if base >= 0 else "the start"
    return CorruptLog(
        f"version {target} cannot be rebuilt: missing commit {gaps} (gap in the log after {after})",
        hint=where
        or "restore the files from a backup; catalog-managed tables keep newer commits elsewhere",
    )


def _missing(present: list[int], first: int, last: int) -> str:
    """The numbers of first..last that are not in `present`, which is ascending."""
    bounds = [first - 1, *present, last + 1]
    gaps = [(a + 1, b - 1) for a, b in pairwise(bounds) if b > a + 1]
    return joined_runs(gaps)


def _no_such_version(listing: LogListing, target: int) -> NotFound:
    possible = [version for version, answer in listing.rebuildable().items() if answer]
    return NotFound(
        f"version {target} does not exist: the newest is {listing.latest}",
        hint=f"versions that can be read: {ranges(possible)}" if possible else None,
    )


def _not_a_table(store: LogStore, *, empty: bool = False) -> NotFound:
    """Why this is not a table: nothing there, an empty log, or a folder inside a table."""
    location = store.location
    if empty:
        return NotFound(
            f"not a Delta table: {location}/_delta_log is empty",
            hint="the first commit of a table is 00000000000000000000.json",
            location=location,
        )
    parent = _enclosing_table(location)
    if parent:
        return NotFound(
            f"not a Delta table: {location} lies inside a table",
            hint=f"the table is {parent}",
            location=location,
        )
    place = store.file_path("")
    if place is not None and os.path.isfile(place.rstrip("/")):
        return NotFound(
            f"not a Delta table: {location} is a file",
            hint="name the folder that holds _delta_log",
            location=location,
        )
    if not is_there(store):
        return NotFound(
            f"not a Delta table: {location} does not exist",
            hint="check the path",
            location=location,
        )
    hint = "name the folder that holds _delta_log"
    if bears(store, PAIMON):
        hint = "it is a Paimon table; see `deltacli paimon --help`"
    return NotFound(
        f"not a Delta table: {location} has no _delta_log", hint=hint, location=location
    )


def _enclosing_table(location: str) -> str | None:
    """The local table that a folder belongs to, looking a few levels up."""
    import os

    if not location.startswith("file://"):
        return None
    path = location.removeprefix("file://")
    for _ in range(8):
        path, last = os.path.split(path)
        if not last:
            return None
        if os.path.isdir(os.path.join(path, LOG)):
            return path
    return None


def earliest_rebuildable(listing: LogListing) -> int | None:
    """The oldest version from which on every version up to the newest can be rebuilt (E-2)."""
    answers = listing.rebuildable()
    version = listing.latest
    if not answers.get(version):
        return None
    while answers.get(version - 1):
        version -= 1
    return version


__all__ = [
    "Checkpoint",
    "LogFile",
    "LogListing",
    "LogSegment",
    "earliest_rebuildable",
    "list_for_latest",
    "list_log",
    "read_hint",
    "segments",
]
