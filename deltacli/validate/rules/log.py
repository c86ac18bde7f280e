"""The files of `_delta_log`: which there are, how they are called, how old they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from deltacli.checking.model import ERROR, FILES, INFO, WARNING, Finding, rule
from deltacli.delta.actions import BadAction
from deltacli.delta.history import COPIED, looks_copied
from deltacli.delta.paths import LOG, Kind, commit_path
from deltacli.delta.replay import FileKey, key_of
from deltacli.units import counted
from deltacli.validate.commits import Body, Commit, Line
from deltacli.validate.log_files import DAY_MS, Compaction, LogFolder

_COMMIT_LIKE = re.compile(r"(?P<version>[0-9]+)\.json", re.IGNORECASE)
_NEAR_MISSES = (
    _COMMIT_LIKE,
    re.compile(r"[0-9]+\.crc", re.IGNORECASE),
    re.compile(r"[0-9]+\.checkpoint(\.[0-9]+\.[0-9]+)?\.parquet", re.IGNORECASE),
    re.compile(r"[0-9]+\.checkpoint\.[0-9a-f-]{30,40}\.(json|parquet)", re.IGNORECASE),
)
_COMPACTED_LIKE = re.compile(r"(?P<start>[0-9]{20})\.(?P<end>[0-9]{20})\.compacted\.json")
# What other engines keep beside the log.
_OF_OTHERS = ("_trino_meta", "_commits", "_compatibility", ".s3-optimization")
_LONGEST = 19
_LARGE_COMMIT = 100 * 1024 * 1024
_MOST_COMMITS = 10


@rule("LOG001", ERROR, "The log is there", of=LogFolder)
def log_is_there(log: LogFolder) -> Iterator[Finding]:
    """The table has a `_delta_log` with at least one commit or complete checkpoint.

    Why: the log is the table; without it the folder is only files.
    Fix: check the path; restore the log from a backup.
    """
    if log.listing is None:
        yield Finding(f"{LOG} is missing or empty")
    elif log.latest < 0:
        yield Finding(f"{LOG} has neither a commit nor a complete checkpoint")


@rule("LOG002", ERROR, "Commits have no gap", of=LogFolder)
def commits_have_no_gap(log: LogFolder) -> Iterator[Finding]:
    """Each version after the newest complete checkpoint, up to the newest, has a commit.

    Why: without it no later version can be rebuilt.
    Fix: restore the file from a backup; a catalog-managed table keeps newer commits elsewhere.
    """
    previous = log.newest_checkpoint if log.checkpoints else min(log.commits, default=0)
    for version in log.commits:
        if version > previous + 1:
            yield Finding(
                f"{_versions(previous + 1, version - 1)} missing: later versions cannot be rebuilt",
                file=commit_path(previous + 1),
                version=previous + 1,
            )
        previous = max(previous, version)


@rule("LOG003", WARNING, "Older commits are a run without holes", of=LogFolder)
def old_commits_have_no_hole(log: LogFolder) -> Iterator[Finding]:
    """The commits up to the newest checkpoint have no hole: cleanup removes a prefix only.

    Why: the versions after the hole and before the checkpoint cannot be rebuilt.
    Fix: restore the files, or remove the commits before the hole as well.
    """
    for start, end in log.gaps():
        last = min(end, log.newest_checkpoint)
        if start <= last:
            yield Finding(
                f"{_versions(start, last)} missing", file=commit_path(start), version=start
            )


@rule("LOG004", ERROR, "The oldest commit can be rebuilt", of=LogFolder)
def oldest_commit_can_be_rebuilt(log: LogFolder) -> Iterator[Finding]:
    """A log that does not begin with commit 0 has a complete checkpoint to begin with.

    Why: older versions are known from a checkpoint only.
    Fix: restore the removed commits or the checkpoint from a backup.
    """
    oldest = min(log.commits, default=0)
    if oldest > 0 and not log.checkpoints:
        yield Finding(
            f"the log begins with commit {oldest} and has no complete checkpoint",
            file=commit_path(oldest),
            version=oldest,
        )


@rule("LOG005", ERROR, "Each checkpoint's commit is there", of=LogFolder)
def newest_checkpoint_has_its_commit(log: LogFolder) -> Iterator[Finding]:
    """The newest checkpoint is not newer than the newest commit.

    Why: a checkpoint is written after its commit; the commit must have been lost.
    Fix: restore the commit; until then writers may create a second one of the same version.
    """
    newest = log.newest_checkpoint
    if newest > log.newest_commit:
        yield Finding(
            f"the checkpoint at version {newest} has no commit",
            file=log.checkpoints[-1].files[0].path,
            version=newest,
        )


@rule("LOG006", WARNING, "The oldest checkpoint's commit is there", of=LogFolder)
def oldest_checkpoint_has_its_commit(log: LogFolder) -> Iterator[Finding]:
    """The commit of the oldest checkpoint is kept with it, where later commits are.

    Why: the time of that version is known from the commit only.
    Fix: none is needed; cleanup should keep the commit.
    """
    if not log.checkpoints or not log.commits or 0 in log.commits:
        return
    version = log.checkpoints[0].version
    if version not in log.commits and version < log.newest_commit:
        yield Finding(
            f"commit {version} is missing: the time of this version is not known",
            file=commit_path(version),
            version=version,
        )


@rule("LOG007", ERROR, "No commit is empty", of=Commit)
def no_commit_is_empty(commit: Commit) -> Iterator[Finding]:
    """A commit has at least one action.

    Why: readers refuse an empty file; it is the trace of a write that failed halfway.
    Fix: restore the commit. If it never was, and is the newest, remove it with care.
    """
    if not commit.lines:
        yield Finding("the commit has no action")


@rule("LOG008", WARNING, "No checkpoint or checksum is empty", of=LogFolder)
def no_other_file_is_empty(log: LogFolder) -> Iterator[Finding]:
    """Checkpoints, compacted commits and version checksums have content.

    Why: readers pass over empty ones; whoever wrote them was interrupted.
    Fix: delete the empty file, and write a new checkpoint.
    """
    if log.listing is None:
        return
    for one in (*log.listing.incomplete, *log.listing.compacted, *log.listing.checksums.values()):
        if one.size == 0:
            yield Finding("the file has no bytes", file=one.path, version=one.version)


@rule("LOG009", INFO, "Every name in the log is known", of=LogFolder)
def every_name_is_known(log: LogFolder) -> Iterator[Finding]:
    """`_delta_log` has only files that the protocol or a known engine puts there.

    Why: what nobody knows nobody cleans up, and it may be a mistake.
    Fix: find out whose file it is.
    """
    for one in log.others:
        name = one.name.text
        known = name.startswith(_OF_OTHERS) or _is_near_miss(name)
        if one.name.kind is Kind.FOREIGN and not known:
            yield Finding(f"the name {name!r} is none of the protocol's", file=one.path)


@rule("LOG010", WARNING, "Names are spelled as the protocol says", of=LogFolder)
def names_are_spelled_right(log: LogFolder) -> Iterator[Finding]:
    """Versions have 20 digits, parts 10, and names are in lower case.

    Why: a file with another spelling takes no part in the table, and was meant to.
    Fix: find out what it should be; rename it only if nothing else has its version.
    """
    for one in log.others:
        name = one.name.text
        if one.name.kind is Kind.FOREIGN and _is_near_miss(name) and not _double(log, name):
            yield Finding(f"{name!r} is nearly a name of the protocol, and ignored", file=one.path)


@rule("LOG011", INFO, "No temporary file is left behind", of=LogFolder)
def no_temporary_file_is_left(log: LogFolder) -> Iterator[Finding]:
    """Temporary files in the log are younger than a day.

    Why: older ones are what interrupted writers left; they only take room.
    Fix: delete them.
    """
    for one in log.others:
        name, stamp = one.name.text, one.modified_ms
        # Hadoop's block checksums live as long as their files.
        is_ours = one.name.kind is Kind.TEMPORARY and not name.endswith(".crc")
        if is_ours and stamp is not None and stamp < log.now_ms - DAY_MS:
            yield Finding("a temporary file is older than a day", file=one.path)


@rule("LOG012", WARNING, "Each version is spelled once", of=LogFolder)
def each_version_is_spelled_once(log: LogFolder) -> Iterator[Finding]:
    """No two commits have the same version in different spellings.

    Why: readers that take any number of digits see two commits of one version.
    Fix: keep the one with 20 digits, after comparing both.
    """
    for one in log.others:
        name = one.name.text
        if one.name.kind is Kind.FOREIGN and _double(log, name):
            yield Finding(f"{name!r} has the version of another commit", file=one.path)


@rule("LOG013", WARNING, "Commits are as old as their order", of=LogFolder, level=FILES)
def commits_are_in_order_of_time(log: LogFolder) -> Iterator[Finding]:
    """The modification times of commits do not go back from one version to the next.

    Why: time travel by time goes by them; a clock was wrong, or the table was copied.
    Fix: enable in-commit timestamps, which do not depend on files.
    """
    if _has_own_times(log):
        return
    previous: int | None = None
    for version, stamp in log.times().items():
        if previous is not None and stamp < previous:
            yield Finding(
                f"the commit is older than the one before it, by {(previous - stamp) / 1000:.3f} s",
                file=commit_path(version),
                version=version,
            )
        previous = stamp


@rule("LOG014", INFO, "The log was not copied", of=LogFolder, level=FILES)
def log_was_not_copied(log: LogFolder) -> Iterator[Finding]:
    """The commit files are about as old as their writers say.

    Why: in a copy, time travel by time and all retention count from the time of the copy.
    Fix: none is needed, as long as this is known.
    """
    if not _has_own_times(log) and looks_copied(log.clocks):
        yield Finding(COPIED)


@rule("LOG015", WARNING, "Checkpoints are written", of=LogFolder)
def checkpoints_are_written(log: LogFolder) -> Iterator[Finding]:
    """The newest checkpoint is not much older than delta.checkpointInterval asks for.

    Why: each reader replays all commits since then.
    Fix: `deltacli checkpoint TABLE`.
    """
    interval = log.definition.setting("delta.checkpointInterval") if log.definition else 10
    since = log.latest - max(log.newest_checkpoint, min(log.commits, default=0) - 1)
    most = _MOST_COMMITS * max(interval, 1)
    if since > most:
        yield Finding(f"{since:,} commits since the newest checkpoint; the interval is {interval}")


@rule("LOG016", WARNING, "Expired commits are cleaned up", of=LogFolder, level=FILES)
def expired_commits_are_cleaned_up(log: LogFolder) -> Iterator[Finding]:
    """No commit is much older than delta.logRetentionDuration, if cleanup is enabled.

    Why: an ever longer log makes listings slow; nobody cleans this one up.
    Fix: `deltacli checkpoint TABLE --cleanup`.
    """
    definition = log.definition
    if definition is None or not definition.setting("delta.enableExpiredLogCleanup"):
        return
    retain_ms = definition.setting("delta.logRetentionDuration")
    border = log.now_ms - 2 * retain_ms - DAY_MS
    old = [
        version
        for version, stamp in log.times().items()
        if stamp < border and version < log.newest_checkpoint
    ]
    if old:
        yield Finding(
            f"{counted(len(old), 'commit')} older than twice the log's retention",
            file=commit_path(old[0]),
            version=old[0],
        )


@rule("LOG017", WARNING, "Only catalogs stage commits", of=LogFolder)
def only_catalogs_stage_commits(log: LogFolder) -> Iterator[Finding]:
    """Staged commits are there only if a catalog manages the table.

    Why: nobody will ever publish them; what they hold is lost, or the table's protocol is.
    Fix: find out which catalog wrote them.
    """
    if log.is_catalog_managed:
        return
    for one in log.others:
        is_staged = one.name.kind is Kind.STAGED_COMMITS or one.name.text == "_commits"
        if is_staged and log.has_entries(one.path):
            yield Finding(
                f"{one.name.text} has files, but no catalog manages the table", file=one.path
            )


@rule("LOG018", WARNING, "Compacted commits stand for commits", of=LogFolder)
def compacted_commits_stand_for_commits(log: LogFolder) -> Iterator[Finding]:
    """The range of compacted commits goes forward and lies within the log.

    Why: readers must never use a range whose versions do not exist.
    Fix: delete the file; it only saves readers some time.
    """
    for one in log.others:
        match = _COMPACTED_LIKE.fullmatch(one.name.text)
        if match and int(match["start"]) >= int(match["end"]):
            yield Finding("the range of versions does not go forward", file=one.path)
    for one in log.listing.compacted if log.listing else ():
        first, last = one.version, one.name.end
        if last > log.latest:
            yield Finding(
                f"the range ends at {last}, the log at {log.latest}", file=one.path, version=first
            )
        elif first >= min(log.commits, default=0) and not any(
            first <= version <= last for version in log.commits
        ):
            yield Finding(
                f"none of the commits {first} to {last} is there", file=one.path, version=first
            )


@rule("LOG019", ERROR, "Compacted commits say what the commits say", of=Compaction)
def compacted_commits_agree(compaction: Compaction) -> Iterator[Finding]:
    """Compacted commits are the reconciliation of the commits that they stand for.

    Why: readers may take either, and would see different tables.
    Fix: delete the compacted file.
    """
    for line in compaction.lines:
        if line.flaw:
            yield Finding(f"line {line.number} cannot be read: {line.flaw[1]}", line=line.number)
            return
    if not compaction.is_covered:
        return
    ordered = [compaction.commits[one] for one in range(compaction.version, compaction.end + 1)]
    if any(line.flaw for lines in ordered for line in lines):
        return
    try:
        expected, own = _reconciled(ordered), _reconciled([compaction.lines])
    except BadAction:
        return  # the rules for actions tell
    for name in sorted(expected.keys() | own.keys(), key=str):
        if name not in own:
            yield Finding(f"{_called(name)} is missing", path=_path(name))
        elif name not in expected:
            yield Finding(f"{_called(name)} is in none of the commits", path=_path(name))
        elif expected[name] != own[name]:
            yield Finding(f"{_called(name)} is not as in the commits", path=_path(name))


@rule("LOG020", ERROR, "Compacted commits hold state only", of=Compaction)
def compacted_commits_hold_state_only(compaction: Compaction) -> Iterator[Finding]:
    """Compacted commits have neither commitInfo nor cdc actions.

    Why: these belong to single commits; readers of the change feed would see them twice.
    Fix: delete the compacted file.
    """
    for line in compaction.lines:
        if line.key in ("commitInfo", "cdc"):
            yield Finding(f"{line.key} in compacted commits", line=line.number)


@rule("LOG021", INFO, "Commits are of moderate size", of=LogFolder)
def commits_are_of_moderate_size(log: LogFolder) -> Iterator[Finding]:
    """No commit has more than 100 MB.

    Why: every reader takes it in as a whole until the next checkpoint.
    Fix: `deltacli checkpoint TABLE`; write less at once.
    """
    for version, one in log.commits.items():
        if one.size > _LARGE_COMMIT:
            yield Finding(f"the commit has {one.size:,} bytes", file=one.path, version=version)


def _versions(start: int, end: int) -> str:
    return f"commit {start} is" if start == end else f"the commits {start} to {end} are"


def _is_near_miss(name: str) -> bool:
    return any(one.fullmatch(name) for one in _NEAR_MISSES)


def _double(log: LogFolder, name: str) -> bool:
    match = _COMMIT_LIKE.fullmatch(name)
    if match is None:
        return False
    version = int(match["version"][-_LONGEST:])
    return version in log.commits or log.odd_spellings[version] > 1


def _has_own_times(log: LogFolder) -> bool:
    return log.definition is not None and log.definition.is_on("delta.enableInCommitTimestamps")


Name = tuple[str, FileKey]


def _reconciled(commits: Sequence[Sequence[Line]]) -> dict[Name, object]:
    """What commits leave behind, also that files and domains are gone (R-1 … R-5)."""
    state: dict[Name, object] = {}
    for lines in commits:
        # All actions of a commit at once: of a file that comes and goes, the add counts.
        for key in ("remove", "add", "protocol", "metaData", "txn", "domainMetadata"):
            for line in lines:
                if line.key == key:
                    name, what = _named(line)
                    state[name] = what
    return state


def _named(line: Line) -> tuple[Name, object]:
    body = line.body
    if line.key in ("add", "remove"):
        # dataChange has no meaning in a state, and a path may be spelled in several ways.
        facts = {name: one for name, one in _plain(body).items() if name not in _NO_FACTS}
        return ("file", key_of(body)), (line.key, facts)
    name = {"txn": "appId", "domainMetadata": "domain"}.get(line.key)
    return (line.key, str(body.get(name)) if name else ""), _plain(body)


_NO_FACTS = ("dataChange", "path")


def _plain(body: Body) -> dict[str, Any]:
    """A body without what is null or empty: that is the same as absent."""
    parts = ((name, _plain(one) if type(one) is dict else one) for name, one in body.items())
    return {name: one for name, one in parts if one not in (None, {}, [])}


def _called(name: Name) -> str:
    kind, key = name
    if kind == "file":
        return "a file action"
    return f"{kind} {key}" if key else kind


def _path(name: Name) -> str | None:
    kind, key = name
    return (key if isinstance(key, str) else key[0]) if kind == "file" else None
