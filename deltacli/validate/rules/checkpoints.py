"""Checkpoints: whole, readable, and what the commits say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltacli.checking.model import ERROR, FILES, INFO, WARNING, Finding, rule
from deltacli.delta.actions import (
    BadAction,
    parse_domain,
    parse_metadata,
    parse_protocol,
    parse_txn,
)
from deltacli.delta.paths import Kind
from deltacli.validate.checkpoints import Reading
from deltacli.validate.definition import same_schema
from deltacli.validate.log_files import DAY_MS, LogFolder
from deltacli.validate.replay import path_of


@rule("CKP001", ERROR, "Checkpoints can be read", of=Reading)
def checkpoints_can_be_read(reading: Reading) -> Iterator[Finding]:
    """Each file of a complete checkpoint can be read to its end.

    Why: readers fall back to an older state of the log, or fail.
    Fix: `deltacli checkpoint TABLE --force` writes a new one, if the commits are still there.
    """
    for path, reason in reading.unreadable:
        yield Finding(f"the checkpoint cannot be read: {reason}", file=path)


@rule("CKP002", WARNING, "Multi-part checkpoints are complete", of=LogFolder)
def multipart_checkpoints_are_complete(log: LogFolder) -> Iterator[Finding]:
    """All parts of a multi-part checkpoint are there.

    Why: readers pass it over; its writer was interrupted, or parts were deleted.
    Fix: delete the parts that are left.
    """
    versions: dict[int, list[str]] = {}
    for one in log.listing.incomplete if log.listing else ():
        if one.name.kind is Kind.MULTIPART_CHECKPOINT and one.size > 0:
            versions.setdefault(one.version, []).append(one.path)
    for version, paths in versions.items():
        yield Finding("parts of the checkpoint are missing", file=paths[0], version=version)


@rule("CKP003", ERROR, "A checkpoint has one protocol and one metadata", of=Reading)
def a_checkpoint_has_one_protocol_and_metadata(reading: Reading) -> Iterator[Finding]:
    """A checkpoint has exactly one protocol and one metaData action.

    Why: without them the table is not known, with more it is not clear.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    if not reading.unreadable:
        for key in ("protocol", "metaData"):
            if reading.counts[key] != 1:
                yield Finding(f"the checkpoint has {reading.counts[key]} {key} actions")


@rule("CKP004", ERROR, "A checkpoint has the commits' protocol and metadata", of=Reading)
def a_checkpoint_has_the_commits_metadata(reading: Reading) -> Iterator[Finding]:
    """Protocol and metadata of a checkpoint are those of the commits up to its version.

    Why: readers see another schema, or other rules, than writers wrote by.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    state = reading.state
    if state is None or reading.unreadable:
        return
    for key, parse, said in (
        ("protocol", parse_protocol, state.protocol),
        ("metaData", parse_metadata, state.metadata),
    ):
        for row in reading.of(key)[:1]:
            try:
                own: Any = parse(row.body)
            except BadAction as error:
                yield Finding(f"{key} of the checkpoint: {error}")
                continue
            names = [] if said is None else list(_unlike(said, own))
            if names:
                yield Finding(f"{key} differs from the commits in {', '.join(names)}")


def _unlike(said: Any, own: Any) -> Iterator[str]:
    for name in said.__dataclass_fields__:
        if name == "extra":
            continue
        one, other = getattr(said, name), getattr(own, name)
        if name.endswith("_features") and one is not None and other is not None:
            one, other = set(one), set(other)
        if name == "schema_string" and same_schema(one, other):
            continue
        # A list that is absent may be an empty one in Parquet.
        if one != other and (one or other):
            yield name


@rule("CKP005", ERROR, "A checkpoint has the commits' files", of=Reading)
def a_checkpoint_has_the_commits_files(reading: Reading) -> Iterator[Finding]:
    """The live files of a checkpoint, and all that is said of them, are those of the commits.

    Why: readers lose rows, or see rows that are gone, from this version on.
    Fix: `deltacli checkpoint TABLE --force` writes a new one, if the commits are still there.
    """
    for one in reading.differences:
        if one.what == "missing":
            yield Finding("the file is live, and not in the checkpoint", path=one.path)
        elif one.what == "extra":
            yield Finding("the file is not live, but in the checkpoint", path=one.path)
        else:
            names = [name for name in one.names if name not in _ROW_IDS]
            if names:
                yield Finding(
                    f"the checkpoint says something else of {', '.join(names)}", path=one.path
                )


_ROW_IDS = ("baseRowId", "defaultRowCommitVersion")


@rule("CKP006", WARNING, "A checkpoint keeps young tombstones", of=Reading)
def a_checkpoint_keeps_young_tombstones(reading: Reading) -> Iterator[Finding]:
    """A checkpoint has each tombstone that had not expired when it was written.

    Why: vacuum deletes files that readers of older versions still need.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    state, written = reading.state, reading.written_ms
    if state is None or written is None or not reading.is_readable:
        return
    retain_ms = reading.definition.setting("delta.deletedFileRetentionDuration")
    for key, stamp in state.gone.items():
        # An hour more: clocks differ.
        if stamp > written - retain_ms + 3_600_000 and key not in reading.removed:
            yield Finding("the checkpoint has lost the file's tombstone", path=path_of(key))


@rule("CKP007", INFO, "A checkpoint has no expired tombstones", of=Reading)
def a_checkpoint_has_no_expired_tombstones(reading: Reading) -> Iterator[Finding]:
    """A checkpoint leaves out tombstones that had expired when it was written.

    Why: they only take room.
    Fix: none is needed.
    """
    if reading.counts["expired"]:
        yield Finding(f"{reading.counts['expired']:,} tombstones had expired already")


@rule("CKP008", ERROR, "A checkpoint has the commits' transactions and domains", of=Reading)
def a_checkpoint_has_transactions_and_domains(reading: Reading) -> Iterator[Finding]:
    """The txn and domainMetadata actions of a checkpoint are the commits' last ones.

    Why: streams write their rows again, and features lose what they keep in domains.
    Fix: `deltacli checkpoint TABLE --force` writes a new one, if the commits are still there.
    """
    state = reading.state
    if state is None or reading.unreadable:
        return
    own_txns = {}
    for row in reading.of("txn"):
        try:
            txn = parse_txn(row.body)
        except BadAction as error:
            yield Finding(f"txn of the checkpoint: {error}")
            continue
        own_txns[txn.app_id] = txn.version
    for app, said in state.txns.items():
        if app not in own_txns:
            if not state.expires_txns:
                yield Finding(f"the transaction of {app!r} is missing")
        elif own_txns[app] != said.version:
            yield Finding(
                f"the transaction of {app!r} is {own_txns[app]}, the commits say {said.version}"
            )
    for app in own_txns.keys() - state.txns.keys():
        yield Finding(f"no commit has the transaction of {app!r}")
    for name, domain in state.domains.items():
        kept = reading.domains.get(name)
        if domain.removed or (kept and kept.removed):
            continue
        if kept is None:
            yield Finding(f"the domain {name!r} is missing")
        elif kept.configuration != domain.configuration:
            yield Finding(f"the domain {name!r} has another configuration than in the commits")
    for name in reading.domains.keys() - state.domains.keys():
        yield Finding(f"no commit has the domain {name!r}")


@rule("CKP009", ERROR, "A checkpoint has no removed domains", of=Reading)
def a_checkpoint_has_no_removed_domains(reading: Reading) -> Iterator[Finding]:
    """A checkpoint has no domain that was removed.

    Why: readers may take it for a domain of the table.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    for row in reading.of("domainMetadata"):
        try:
            domain = parse_domain(row.body)
        except BadAction:
            continue
        said = reading.state.domains.get(domain.domain) if reading.state else None
        if domain.removed or (said is not None and said.removed):
            yield Finding(f"the domain {domain.domain!r} was removed, and is in the checkpoint")


@rule("CKP010", ERROR, "A checkpoint has each file once", of=Reading)
def a_checkpoint_has_each_file_once(reading: Reading) -> Iterator[Finding]:
    """No path with its deletion vector comes twice in a checkpoint, as add or as remove.

    Why: rows count twice, or whether the file is live is not clear.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    for path in reading.doubled:
        yield Finding("the checkpoint has the file twice", path=path)


@rule("CKP011", INFO, "A checkpoint changes no data", of=Reading)
def a_checkpoint_changes_no_data(reading: Reading) -> Iterator[Finding]:
    """dataChange is false in each row of a checkpoint.

    Why: streams that begin with it may take the rows for news.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    count = reading.counts["add dataChange"] + reading.counts["remove dataChange"]
    if count:
        yield Finding(f"dataChange is true in {count:,} rows")


@rule("CKP012", WARNING, "Tombstones of a checkpoint are short", of=Reading)
def tombstones_of_a_checkpoint_are_short(reading: Reading) -> Iterator[Finding]:
    """A remove in a checkpoint has neither stats nor tags.

    Why: the protocol leaves them out; they only take room.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    for name in ("stats", "tags"):
        if reading.counts[f"remove {name}"]:
            yield Finding(f"{reading.counts[f'remove {name}']:,} tombstones have {name}")


@rule("CKP013", ERROR, "A checkpoint lists features as the protocol does", of=Reading)
def a_checkpoint_lists_features(reading: Reading) -> Iterator[Finding]:
    """readerFeatures and writerFeatures are null but for reader 3 and writer 7.

    Why: readers cannot tell what they must know.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    for row in reading.of("protocol")[:1]:
        for kind, border in (("Reader", 3), ("Writer", 7)):
            listed = row.body.get(f"{kind.lower()}Features") is not None
            version = row.body.get(f"min{kind}Version")
            # An empty list may be what Parquet made of none.
            if listed and version != border and not row.body[f"{kind.lower()}Features"]:
                continue
            if type(version) is int and listed != (version == border):
                what = "are listed" if listed else "are null"
                yield Finding(f"{kind.lower()}Features {what} at min{kind}Version {version}")


@rule("CKP018", ERROR, "Each row has one action", of=Reading)
def each_row_has_one_action(reading: Reading) -> Iterator[Finding]:
    """Each row of a checkpoint has exactly one action.

    Why: readers lose actions, or fail.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    for path, row, count in reading.odd_rows:
        yield Finding(f"row {row:,} has {count} actions", file=path)


@rule("CKP019", ERROR, "A V2 checkpoint says its version", of=Reading)
def a_v2_checkpoint_says_its_version(reading: Reading) -> Iterator[Finding]:
    """A V2 checkpoint has one checkpointMetadata, with the version of its name.

    Why: readers cannot tell whether it is whole, or the right one.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    if not reading.is_v2 or reading.unreadable:
        return
    rows = reading.of("checkpointMetadata")
    if len(rows) != 1:
        yield Finding(f"the checkpoint has {len(rows)} checkpointMetadata actions")
    elif rows[0].body.get("version") != reading.version:
        yield Finding(f"checkpointMetadata says version {rows[0].body.get('version')}")


@rule("CKP020", ERROR, "Files are in sidecars or not", of=Reading)
def files_are_in_sidecars_or_not(reading: Reading) -> Iterator[Finding]:
    """A V2 checkpoint has all its file actions in sidecars, or all in its main file.

    Why: readers that use sidecars do not look for files in the main one.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    if reading.sidecars and reading.inline_files:
        yield Finding(f"{reading.inline_files:,} file actions beside the sidecars")


@rule("CKP021", ERROR, "Sidecars have file actions only", of=Reading)
def sidecars_have_file_actions_only(reading: Reading) -> Iterator[Finding]:
    """A sidecar has nothing but add and remove actions.

    Why: readers do not look for anything else in it.
    Fix: `deltacli checkpoint TABLE --force` writes a new one.
    """
    for row in reading.small:
        if row.file in reading.sidecars:
            yield Finding(f"a {row.key} action in a sidecar", file=row.file)


@rule("CKP022", ERROR, "Sidecars are there", of=Reading)
def sidecars_are_there(reading: Reading) -> Iterator[Finding]:
    """Each sidecar of a checkpoint exists and is as long as the checkpoint says.

    Why: without it files are lost; readers fall back or fail.
    Fix: restore the file from a backup, or `deltacli checkpoint TABLE --force`.
    """
    for path, problem in reading.bad_sidecars:
        yield Finding(f"the sidecar: {problem}", file=path)


@rule("CKP023", INFO, "No sidecar is forgotten", of=LogFolder, level=FILES)
def no_sidecar_is_forgotten(log: LogFolder) -> Iterator[Finding]:
    """Each sidecar that is older than a day belongs to a checkpoint.

    Why: it only takes room.
    Fix: `deltacli checkpoint TABLE --cleanup`.
    """
    for path, stamp in log.orphan_sidecars():
        if stamp is not None and stamp < log.now_ms - DAY_MS:
            yield Finding("no checkpoint has the sidecar", file=path)


@rule("CKP024", ERROR, "A checkpoint keeps row ids", of=Reading)
def a_checkpoint_keeps_row_ids(reading: Reading) -> Iterator[Finding]:
    """baseRowId and defaultRowCommitVersion of a checkpoint's files are those of the commits.

    Why: rows get other ids than they had.
    Fix: `deltacli checkpoint TABLE --force` writes a new one, if the commits are still there.
    """
    for one in reading.differences:
        names = [name for name in one.names if name in _ROW_IDS]
        if names:
            yield Finding(
                f"the checkpoint says something else of {' and '.join(names)}", path=one.path
            )


@rule("CKP025", WARNING, "Checkpoints of one version agree", of=LogFolder)
def checkpoints_of_one_version_agree(log: LogFolder) -> Iterator[Finding]:
    """Two checkpoints of one version have the same files, protocol and metadata.

    Why: readers may take either.
    Fix: delete the one that is wrong.
    """
    first: dict[int, Reading] = {}
    for one in log.readings:
        if not one.is_readable or not one.has_sums:
            continue
        other = first.setdefault(one.version, one)
        if other is not one and _content(one) != _content(other):
            yield Finding(f"{one.file} and {other.file} differ", file=one.file, version=one.version)


def _content(one: Reading) -> tuple[Any, ...]:
    """What two checkpoints of one version must agree on; tombstones expire."""
    txns = sorted(
        (str(row.body.get("appId")), str(row.body.get("version"))) for row in one.of("txn")
    )
    return one.sums.files, one.sums.facts, one.protocol, one.metadata, one.domains, txns


@rule("CKP026", WARNING, "Old clients find a checkpoint", of=LogFolder)
def old_clients_find_a_checkpoint(log: LogFolder) -> Iterator[Finding]:
    """A log that was cleaned up has a checkpoint with a classic name.

    Why: clients that do not know names with a UUID find none, and say the table is broken
    instead of which feature they lack.
    Fix: `deltacli checkpoint TABLE --kind classic`.
    """
    was_cleaned_up = min(log.commits, default=0) > 0
    kinds = {one.kind for one in log.checkpoints}
    if was_cleaned_up and kinds == {Kind.UUID_CHECKPOINT}:
        yield Finding("no checkpoint has a classic name")
