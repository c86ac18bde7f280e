"""`_last_checkpoint`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from deltacli.checking.model import ERROR, INFO, WARNING, Finding, rule
from deltacli.delta.hint import LastCheckpoint
from deltacli.delta.paths import LAST_CHECKPOINT
from deltacli.validate.checkpoints import Reading
from deltacli.validate.log_files import LogFolder

_CHECKSUM = "checksum"


def _finding(message: str) -> Finding:
    return Finding(message, file=LAST_CHECKPOINT)


@rule("LCP001", WARNING, "There is a hint", of=LogFolder)
def there_is_a_hint(log: LogFolder) -> Iterator[Finding]:
    """A table with checkpoints has `_last_checkpoint`.

    Why: without it readers on object stores list the whole log.
    Fix: `deltacli checkpoint TABLE`.
    """
    if log.checkpoints and log.hint_content is None:
        yield _finding("the file is missing, though there are checkpoints")


@rule("LCP002", WARNING, "The hint is JSON", of=LogFolder)
def hint_is_json(log: LogFolder) -> Iterator[Finding]:
    """`_last_checkpoint` is a JSON object with a version, and no key comes twice in it.

    Why: readers pass over it and list the whole log; some fail.
    Fix: `deltacli checkpoint TABLE --force`.
    """
    if isinstance(log.hint, str) and _CHECKSUM not in log.hint:
        yield _finding(f"it cannot be used: {log.hint}")


@rule("LCP003", WARNING, "The hint's checksum is right", of=LogFolder)
def hints_checksum_is_right(log: LogFolder) -> Iterator[Finding]:
    """The checksum in `_last_checkpoint` is that of its content.

    Why: the file was changed by hand, or written halfway; readers pass over it.
    Fix: `deltacli checkpoint TABLE --force`.
    """
    if isinstance(log.hint, str) and _CHECKSUM in log.hint:
        yield _finding(f"it cannot be used: {log.hint}")


@rule("LCP004", ERROR, "The hinted checkpoint is there", of=LogFolder)
def hinted_checkpoint_is_there(log: LogFolder) -> Iterator[Finding]:
    """The version in `_last_checkpoint` has a complete checkpoint.

    Why: readers that trust the hint fail.
    Fix: `deltacli checkpoint TABLE`.
    """
    version = log.hint.version if isinstance(log.hint, LastCheckpoint) else None
    known = {one.version for one in log.checkpoints}
    if version is not None and version <= log.latest and version not in known:
        yield _finding(f"there is no complete checkpoint at version {version}")


@rule("LCP005", WARNING, "The hint names the checkpoint's files", of=LogFolder)
def hint_names_the_files(log: LogFolder) -> Iterator[Finding]:
    """parts and v2Checkpoint in `_last_checkpoint` are those of a checkpoint of its version.

    Why: readers that trust them look for files that are not there.
    Fix: `deltacli checkpoint TABLE --force`.
    """
    if not log.hinted or not isinstance(log.hint, LastCheckpoint):
        return
    counts = {len(one.checkpoint.files) for one in log.hinted}
    parts = log.hint.parts
    if parts is not None and parts not in counts:
        yield _finding(f"parts is {parts}, the checkpoint has {max(counts)}")
    elif parts is None and 1 not in counts:
        yield _finding(f"parts is missing, the checkpoint has {max(counts)}")
    v2 = log.hint_body.get("v2Checkpoint")
    name = v2.get("path") if isinstance(v2, dict) else None
    known = {one.path.rpartition("/")[2] for each in log.hinted for one in each.checkpoint.files}
    if isinstance(name, str) and name.rpartition("/")[2] not in known:
        yield _finding(f"v2Checkpoint names {name}, which is not there")


@rule("LCP006", INFO, "The hint is at the newest checkpoint", of=LogFolder)
def hint_is_at_the_newest(log: LogFolder) -> Iterator[Finding]:
    """`_last_checkpoint` names the newest complete checkpoint.

    Why: readers start from an older one until they list the log.
    Fix: none is needed; the next checkpoint moves it.
    """
    if isinstance(log.hint, LastCheckpoint) and log.hint.version < log.newest_checkpoint:
        yield _finding(
            f"it is at version {log.hint.version}, the newest checkpoint at {log.newest_checkpoint}"
        )


@rule("LCP007", WARNING, "The hint counts what the checkpoint has", of=LogFolder)
def hint_counts_what_there_is(log: LogFolder) -> Iterator[Finding]:
    """size, numOfAddFiles and sizeInBytes in `_last_checkpoint` are the checkpoint's.

    Why: engines plan by them how many resources to take.
    Fix: `deltacli checkpoint TABLE --force`.
    """
    readable = [one for one in log.hinted if one.is_readable]
    if not readable or not isinstance(log.hint, LastCheckpoint):
        return
    for name, possible in (
        ("size", [size for one in readable for size in _sizes(one)]),
        ("numOfAddFiles", [one.counts["add"] for one in readable]),
        ("sizeInBytes", [size for one in readable for size in _bytes(one)]),
    ):
        said = _integer(log.hint_body.get(name))
        if said is not None and said >= 0 and said not in possible:
            yield _finding(f"{name} is {said:,}, the checkpoint has {possible[0]:,}")


def _sizes(one: Reading) -> Iterator[int]:
    """All actions; writers of V2 checkpoints count those of the main file in several ways."""
    actions = sum(count for key, count in one.counts.items() if " " not in key and key != "expired")
    yield actions
    if one.is_v2:
        own = one.counts["checkpointMetadata"], one.counts["sidecar"]
        yield actions - own[0]
        yield actions - own[1]
        yield actions - sum(own)


def _bytes(one: Reading) -> Iterator[int]:
    main = sum(file.size for file in one.checkpoint.files)
    sidecars = sum(one.store.stat(path).size for path in dict.fromkeys(one.sidecars))
    yield main + sidecars
    yield main
    yield sidecars


def _integer(value: Any) -> int | None:
    """A number of the hint, which keeps its text."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
    return found if type(found) is int else None


@rule("LCP008", WARNING, "The hint is not newer than the log", of=LogFolder)
def hint_is_not_newer_than_the_log(log: LogFolder) -> Iterator[Finding]:
    """The version in `_last_checkpoint` is not greater than the newest commit's.

    Why: the log was truncated or replaced under it; readers that trust the hint fail.
    Fix: restore the log, or `deltacli checkpoint TABLE`.
    """
    if isinstance(log.hint, LastCheckpoint) and log.hint.version > log.latest >= 0:
        yield _finding(f"it is at version {log.hint.version}, the log ends at {log.latest}")
