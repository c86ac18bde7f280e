"""Single actions: their fields, their paths, their times."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deltacli.checking.model import ERROR, WARNING, Finding, rule
from deltacli.delta.paths import decode_path, file_location, is_absolute
from deltacli.validate.adds import Adds
from deltacli.validate.checkpoints import Reading
from deltacli.validate.commits import Commit
from deltacli.validate.definition import Definition

_DAY_MS = 86_400_000
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_RAW = re.compile(r'[\x00-\x20"<>^`{|}\x7f]')
_SIGNED = ("size", "modificationTime", "deletionTimestamp", "baseRowId", "defaultRowCommitVersion")
_SIGNED_IN_VECTOR = ("cardinality", "sizeInBytes", "offset")


@rule("ACT001", ERROR, "Required fields are there", of=Commit)
def required_fields_are_there(commit: Commit) -> Iterator[Finding]:
    """Each action has the fields that the protocol requires, and none of them is null.

    Why: readers fail on the action, or guess.
    Fix: restore the commit from a backup, or mend its writer.
    """
    for line, one in commit.misfits:
        if one.what == "missing":
            yield Finding(f"{line.key} has no {one.name}", line=line.number, path=_path(line.body))


@rule("ACT002", ERROR, "Fields have their types", of=Commit)
def fields_have_their_types(commit: Commit) -> Iterator[Finding]:
    """Each field of an action is of the JSON type that the protocol gives it.

    Why: readers fail on the action, or take another value for it.
    Fix: restore the commit from a backup, or mend its writer.
    """
    for line, one in commit.misfits:
        if one.what == "wrong":
            yield Finding(
                f"{line.key}.{one.name} is not {one.expected}: {str(one.value)[:60]!r}",
                line=line.number,
                path=_path(line.body),
            )


@rule("ACT003", ERROR, "Sizes and times are not negative", of=Commit)
def sizes_are_not_negative(commit: Commit) -> Iterator[Finding]:
    """Sizes, times, cardinalities and row ids are not less than 0.

    Why: sums over them are wrong, and readers of row ids fail.
    Fix: restore the commit from a backup, or mend its writer.
    """
    for line in commit.sound("add", "remove", "cdc"):
        for name in _SIGNED:
            value = line.body.get(name)
            if type(value) is int and value < 0:
                yield Finding(
                    f"{line.key}.{name} is {value}", line=line.number, path=_path(line.body)
                )
        vector = line.body.get("deletionVector") or {}
        for name in _SIGNED_IN_VECTOR:
            value = vector.get(name)
            if value is not None and value < 0:
                yield Finding(
                    f"{line.key}.deletionVector.{name} is {value}",
                    line=line.number,
                    path=_path(line.body),
                )


@rule("ACT004", WARNING, "Paths are URIs", of=Adds)
def paths_are_uris(adds: Adds) -> Iterator[Finding]:
    """Paths are encoded as RFC 2396 says, and have no `..`, `//` or backslash.

    Why: readers decode and resolve such paths in different ways, to different files.
    Fix: rewrite the file with a writer that encodes paths.
    """
    for n, path in adds.odd_paths:
        if _BAD_ESCAPE.search(path):
            yield adds.finding(n, "a % in the path begins no escape")
        elif _RAW.search(path):
            yield adds.finding(n, "the path has a character that must be encoded")
        elif "\\" in path:
            yield adds.finding(n, "the path has a backslash")
        else:
            steps = path.split("://")[-1].split("/")
            if ".." in steps or "." in steps:
                yield adds.finding(n, "the path has a step `.` or `..`")
            elif "" in steps[1:]:
                yield adds.finding(n, "the path has `//`")


@rule("ACT005", WARNING, "Files lie below the table", of=Adds)
def files_lie_below_the_table(adds: Adds) -> Iterator[Finding]:
    """No absolute path leads out of the table's root.

    Why: vacuum never deletes such files, and a copy of the table does not have them.
    Fix: none is needed for shallow clones; otherwise rewrite the files into the table.
    """
    for n, path in adds.odd_paths:
        if is_absolute(path):
            place = file_location(adds.root, path)
            if not _one_scheme(place).startswith(f"{_one_scheme(adds.root)}/"):
                yield adds.finding(n, "the file lies outside of the table")


@rule("ACT006", WARNING, "Data files are not hidden", of=Adds)
def data_files_are_not_hidden(adds: Adds) -> Iterator[Finding]:
    """No data file is in a folder, or has a name, that begins with `_` or `.`.

    Why: other engines pass over hidden files, and vacuum never deletes them.
    Fix: rewrite the file.
    """
    partitions = _partition_folders(adds.definition)
    for n, path in adds.odd_paths:
        if is_absolute(path):
            continue
        for step in decode_path(decode_path(path)).split("/"):
            if (
                step[:1] in ("_", ".")
                and step not in (".", "..")
                and not step.startswith(partitions)
            ):
                yield adds.finding(n, f"{step!r} is hidden")
                break


@rule("ACT007", WARNING, "Tombstones have a time", of=Commit)
def tombstones_have_a_time(commit: Commit) -> Iterator[Finding]:
    """A remove has a deletionTimestamp.

    Why: without one it counts as expired: vacuum deletes the file at once, and readers of
    older versions fail.
    Fix: mend the writer.
    """
    for line in commit.sound("remove"):
        if line.body.get("deletionTimestamp") is None:
            yield Finding(
                "remove has no deletionTimestamp", line=line.number, path=_path(line.body)
            )


@rule("ACT008", WARNING, "Extended tombstones are complete", of=Commit)
def extended_tombstones_are_complete(commit: Commit) -> Iterator[Finding]:
    """A remove with extendedFileMetadata has partitionValues and size.

    Why: it says that it has; readers of changes rely on that.
    Fix: mend the writer.
    """
    for line in commit.sound("remove"):
        if line.body.get("extendedFileMetadata"):
            absent = [one for one in ("partitionValues", "size") if line.body.get(one) is None]
            if absent:
                yield Finding(
                    f"extendedFileMetadata is true without {' and '.join(absent)}",
                    line=line.number,
                    path=_path(line.body),
                )


@rule("ACT009", ERROR, "Change data is no data change", of=Commit)
def change_data_is_no_data_change(commit: Commit) -> Iterator[Finding]:
    """A cdc action has dataChange false.

    Why: its rows are told a second time, they are none of the table.
    Fix: mend the writer.
    """
    for line in commit.sound("cdc"):
        if line.body.get("dataChange"):
            yield Finding("cdc has dataChange true", line=line.number, path=_path(line.body))


@rule("ACT010", ERROR, "Commits have no checkpoint actions", of=Commit)
def commits_have_no_checkpoint_actions(commit: Commit) -> Iterator[Finding]:
    """Neither sidecar nor checkpointMetadata stands in a commit.

    Why: they belong to checkpoints; in a commit they mean nothing.
    Fix: restore the commit from a backup.
    """
    for line in commit.actions("sidecar", "checkpointMetadata"):
        yield Finding(f"{line.key} in a commit", line=line.number)


@rule("ACT011", ERROR, "Checkpoints have no commit actions", of=Reading)
def checkpoints_have_no_commit_actions(reading: Reading) -> Iterator[Finding]:
    """Neither commitInfo nor cdc stands in a checkpoint.

    Why: they belong to single commits and are no part of a state.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    for key in ("commitInfo", "cdc"):
        if reading.counts[key]:
            yield Finding(f"the checkpoint has {reading.counts[key]:,} {key} actions")


@rule("ACT012", WARNING, "Files have a plausible time", of=Adds)
def files_have_a_plausible_time(adds: Adds) -> Iterator[Finding]:
    """The modificationTime of a file is not 0 and not more than a day in the future.

    Why: tools that go by age take the file for very old, or never for old.
    Fix: mend the writer's clock.
    """
    border = adds.now_ms + _DAY_MS
    stamps = adds.column("modificationTime")
    given = [one for one in stamps if one is not None]
    if not given or (min(given) > 0 and max(given) <= border):
        return
    for n, stamp in enumerate(stamps):
        if stamp is not None and (stamp == 0 or stamp > border):
            text = "is 0" if stamp == 0 else "is more than a day in the future"
            yield adds.finding(n, f"modificationTime {text}")


@rule("ACT013", WARNING, "Tombstones have a plausible time", of=Commit)
def tombstones_have_a_plausible_time(commit: Commit) -> Iterator[Finding]:
    """A file is removed after it was added, and not more than a day in the future.

    Why: vacuum goes by that time: it would delete the file too early, or never.
    Fix: mend the writer's clock.
    """
    border = commit.now_ms + _DAY_MS
    for key, line in commit.removes:
        stamp = line.body.get("deletionTimestamp")
        if stamp is None:
            continue
        entry = commit.state.entry(key) if commit.state else None
        if stamp > border:
            yield Finding(
                "deletionTimestamp is more than a day in the future",
                line=line.number,
                path=_path(line.body),
            )
        elif entry is not None and entry.modified_ms and stamp < entry.modified_ms - _DAY_MS:
            yield Finding(
                "the file was removed before it was added, by its times",
                line=line.number,
                path=_path(line.body),
            )


@rule("ACT014", ERROR, "The first commit defines the table", of=Commit)
def first_commit_defines_the_table(commit: Commit) -> Iterator[Finding]:
    """Commit 0 has a protocol and a metaData action.

    Why: without them nobody knows what the table is.
    Fix: restore the commit from a backup.
    """
    if commit.version == 0 and commit.lines:
        keys = {line.key for line in commit.lines}
        for name in ("protocol", "metaData"):
            if name not in keys:
                yield Finding(f"the first commit has no {name}")


@rule("ACT015", WARNING, "Commits tell who made them", of=Commit)
def commits_tell_who_made_them(commit: Commit) -> Iterator[Finding]:
    """A commit has a commitInfo.

    Why: the history has nothing to say of it, and its time is not known for certain.
    Fix: mend the writer.
    """
    if commit.lines and commit.info is None:
        yield Finding("the commit has no commitInfo")


@rule("ACT016", WARNING, "commitInfo is of this version", of=Commit)
def commit_info_is_of_this_version(commit: Commit) -> Iterator[Finding]:
    """The version that a commitInfo names is that of its file.

    Why: a commit that was copied or renamed is part of another history.
    Fix: find out where the file came from.
    """
    said = (commit.info or {}).get("version")
    if type(said) is int and said != commit.version:
        yield Finding(f"commitInfo says version {said}")


@rule("ACT017", WARNING, "The table stays the same", of=Definition)
def table_stays_the_same(definition: Definition) -> Iterator[Finding]:
    """The id in metaData is the same in every version.

    Why: another id is another table: streams refuse to go on.
    Fix: none is needed if the table was replaced on purpose.
    """
    old = definition.before.metadata if definition.before else None
    if definition.is_replaced_by_name:
        return
    if old and definition.metadata and old.id != definition.metadata.id:
        yield Finding(
            f"the table's id is {definition.metadata.id}, it was {old.id}",
            line=definition.lines.get("metaData"),
        )


@rule("ACT018", ERROR, "Statistics are JSON", of=Adds)
def statistics_are_json(adds: Adds) -> Iterator[Finding]:
    """The stats of an add are the text of a JSON object.

    Why: readers that skip files by statistics fail.
    Fix: rewrite the file, or compute its statistics anew with an engine.
    """
    for n in adds.bad_stats:
        yield adds.finding(n, "stats are no JSON object")


def _one_scheme(url: str) -> str:
    """A URL with the one spelling of its scheme."""
    return re.sub(r"^(s3[an]|gcs|abfs)(?=:)", lambda match: _SCHEMES[match[1]], url)


_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}


def _path(body: object) -> str | None:
    path = body.get("path") if isinstance(body, dict) else None
    return path if isinstance(path, str) else None


def _partition_folders(definition: Definition | None) -> tuple[str, ...]:
    """How folders of partitions begin: those are never hidden."""
    names = {"_change_data", "_delta_index"}
    if definition is not None:
        for key, one in definition.partitions.items():
            names |= {f"{key}=", f"{one.name}="}
    return tuple(names)
