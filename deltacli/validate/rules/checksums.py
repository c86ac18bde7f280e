"""Version checksums (`.crc`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from deltacli.checking.model import ERROR, INFO, WARNING, Finding, rule
from deltacli.delta.actions import (
    BadAction,
    Protocol,
    parse_domain,
    parse_metadata,
    parse_protocol,
    parse_txn,
)
from deltacli.validate.definition import same_schema
from deltacli.validate.log_files import Checksum

_BINS = 10


@rule("CRC001", WARNING, "Checksums can be read", of=Checksum)
def checksums_can_be_read(checksum: Checksum) -> Iterator[Finding]:
    """A version checksum is a JSON object with tableSizeBytes and numFiles.

    Why: nobody can check the version by it.
    Fix: delete the file.
    """
    # An empty one is told by another rule.
    if checksum.problem and checksum.content.strip():
        yield Finding(checksum.problem)


@rule("CRC002", ERROR, "A checksum counts one protocol and one metadata", of=Checksum)
def a_checksum_counts_one_of_each(checksum: Checksum) -> Iterator[Finding]:
    """numMetadata and numProtocol are 1.

    Why: a version has one of each; whoever computed the checksum saw another log.
    Fix: delete the file, after finding out which is right.
    """
    for name in ("numMetadata", "numProtocol") if not checksum.problem else ():
        if checksum.body.get(name) != 1:
            yield Finding(f"{name} is {checksum.body.get(name)}")


@rule("CRC003", ERROR, "A checksum counts the files", of=Checksum)
def a_checksum_counts_the_files(checksum: Checksum) -> Iterator[Finding]:
    """numFiles and tableSizeBytes are those of the version's live files.

    Why: the log was damaged after the checksum was written, or its writer erred.
    Fix: find out which is right; a wrong checksum may be deleted.
    """
    state = checksum.state
    if state is None or checksum.problem:
        return
    for name, own in (("numFiles", state.sums.files), ("tableSizeBytes", state.sums.bytes)):
        if checksum.body[name] != own:
            yield Finding(f"{name} is {checksum.body[name]:,}, the log has {own:,}")


@rule("CRC004", ERROR, "A checksum has the version's metadata", of=Checksum)
def a_checksum_has_the_metadata(checksum: Checksum) -> Iterator[Finding]:
    """metadata and protocol of a checksum are those of the version.

    Why: the log was damaged after the checksum was written, or its writer erred.
    Fix: find out which is right; a wrong checksum may be deleted.
    """
    definition, body = checksum.definition, checksum.body
    if definition is None or checksum.problem:
        return
    try:
        # The first writers of checksums left them out.
        protocol = parse_protocol(body["protocol"]) if body.get("protocol") else None
        metadata = parse_metadata(body["metadata"]) if body.get("metadata") else None
    except (BadAction, AttributeError) as error:
        yield Finding(f"metadata or protocol cannot be read: {error}")
        return
    own = definition.protocol
    if protocol is not None and own is not None and _versions(protocol) != _versions(own):
        yield Finding("the protocol is another than the log's")
    if metadata is not None and definition.metadata is not None:
        for name in ("id", "schema_string", "partition_columns", "configuration"):
            said, real = getattr(metadata, name), getattr(definition.metadata, name)
            if said != real and not (name == "schema_string" and same_schema(said, real)):
                yield Finding(f"the metadata differs from the log's in {name}")


def _versions(protocol: Protocol) -> tuple[int, int, set[str], set[str]]:
    return (
        protocol.min_reader_version,
        protocol.min_writer_version,
        set(protocol.reader_features or ()),
        set(protocol.writer_features or ()),
    )


@rule("CRC005", ERROR, "A checksum lists what the version has", of=Checksum)
def a_checksum_lists_what_there_is(checksum: Checksum) -> Iterator[Finding]:
    """setTransactions, domainMetadata and allFiles, where present, are complete and right.

    Why: engines take them instead of reading the log.
    Fix: find out which is right; a wrong checksum may be deleted.
    """
    state, body = checksum.state, checksum.body
    if state is None:
        return
    txns = _parsed(body.get("setTransactions"), parse_txn)
    known = {app: one.version for app, one in state.txns.items()}
    said = None if txns is None else {one.app_id: one.version for one in txns}
    if said is not None and state.expires_txns:
        # Those that had expired are rightly left out.
        known = {app: version for app, version in known.items() if app in said}
    if said is not None and said != known:
        yield Finding("setTransactions are not those of the log")
    domains = _parsed(body.get("domainMetadata"), parse_domain)
    if domains is not None and {
        one.domain: one.configuration for one in domains if not one.removed
    } != {name: one.configuration for name, one in state.domains.items() if not one.removed}:
        yield Finding("domainMetadata are not those of the log")
    files = body.get("allFiles")
    if isinstance(files, list):
        paths = {str(one.get("path")) for one in files if isinstance(one, dict)}
        if len(files) != state.sums.files:
            yield Finding(f"allFiles has {len(files):,} files, the log {state.sums.files:,}")
        elif state.base is None:
            from deltacli.delta.paths import canonical_path
            from deltacli.validate.replay import path_of

            live = {path_of(key) for key in state.live}
            if {canonical_path(str(one)) for one in paths} != live:
                yield Finding("allFiles are not those of the log")


def _parsed(items: Any, parse: Any) -> list[Any] | None:
    if not isinstance(items, list):
        return None
    try:
        return [parse(one) for one in items]
    except (BadAction, AttributeError):
        return []


@rule("CRC006", ERROR, "A checksum has the commit's own time", of=Checksum)
def a_checksum_has_the_commits_time(checksum: Checksum) -> Iterator[Finding]:
    """inCommitTimestampOpt is there if in-commit timestamps are enabled, and is the commit's.

    Why: engines take it for the time of the version.
    Fix: find out which is right; a wrong checksum may be deleted.
    """
    definition, commit = checksum.definition, checksum.commit
    if definition is None or definition.metadata is None or checksum.problem:
        return
    said = checksum.body.get("inCommitTimestampOpt")
    enabled = definition.is_on("delta.enableInCommitTimestamps")
    if enabled and said is None:
        yield Finding("inCommitTimestampOpt is missing")
    elif not enabled and said is not None:
        yield Finding("inCommitTimestampOpt is there, in-commit timestamps are not enabled")
    elif said is not None and commit is not None and commit.stamp not in (None, said):
        yield Finding(f"inCommitTimestampOpt is {said}, the commit says {commit.stamp}")


@rule("CRC007", WARNING, "A checksum's histogram adds up", of=Checksum)
def a_histogram_adds_up(checksum: Checksum) -> Iterator[Finding]:
    """The histogram of file sizes has ascending boundaries from 0 on, and adds up to the counts.

    Why: engines plan by it.
    Fix: a wrong checksum may be deleted.
    """
    histogram = checksum.histogram
    if histogram is None:
        return
    bounds, counts, sizes = (
        histogram.get(one) for one in ("sortedBinBoundaries", "fileCounts", "totalBytes")
    )
    if not all(
        isinstance(one, list) and all(type(n) is int for n in one)
        for one in (bounds, counts, sizes)
    ):
        yield Finding("the histogram has no lists of numbers")
        return
    assert isinstance(bounds, list)
    assert isinstance(counts, list)
    assert isinstance(sizes, list)
    if not bounds or bounds[0] != 0 or any(a >= b for a, b in itertools.pairwise(bounds)):
        yield Finding("the histogram's boundaries do not ascend from 0")
    elif not len(bounds) == len(counts) == len(sizes):
        yield Finding("the histogram's lists are not of one length")
    elif sum(counts) != checksum.body["numFiles"] or sum(sizes) != checksum.body["tableSizeBytes"]:
        yield Finding(f"the histogram has {sum(counts):,} files of {sum(sizes):,} bytes")


@rule("CRC008", WARNING, "A checksum counts deletion vectors", of=Checksum)
def a_checksum_counts_vectors(checksum: Checksum) -> Iterator[Finding]:
    """Counts of deletion vectors and deleted rows are the version's, in a histogram of ten.

    Why: engines plan by them.
    Fix: a wrong checksum may be deleted.
    """
    body, state = checksum.body, checksum.state
    histogram = body.get("deletedRecordCountsHistogramOpt")
    if isinstance(histogram, Mapping):
        counts = histogram.get("deletedRecordCounts")
        if not isinstance(counts, list) or len(counts) != _BINS:
            yield Finding("deletedRecordCounts are not ten")
    if state is None or checksum.problem:
        return
    for name, own in (
        ("numDeletionVectorsOpt", state.sums.vectors),
        ("numDeletedRecordsOpt", state.sums.deleted),
    ):
        said = body.get(name)
        if said is not None and said != own:
            yield Finding(f"{name} is {said}, the log has {own}")


@rule("CRC009", INFO, "Checksums are of versions", of=Checksum)
def checksums_are_of_versions(checksum: Checksum) -> Iterator[Finding]:
    """A version checksum has a commit or checkpoint of its version.

    Why: it was left over by a cleanup, or the commit is lost.
    Fix: delete the file.
    """
    if not checksum.has_commit:
        yield Finding(f"version {checksum.version} does not exist")


@rule("CRC010", WARNING, "A checksum has one histogram", of=Checksum)
def a_checksum_has_one_histogram(checksum: Checksum) -> Iterator[Finding]:
    """A checksum has fileSizeHistogram or the older histogramOpt, not both.

    Why: which one counts is open.
    Fix: a wrong checksum may be deleted.
    """
    if checksum.body.get("fileSizeHistogram") and checksum.body.get("histogramOpt"):
        yield Finding("there are fileSizeHistogram and histogramOpt")


@rule("CRC011", WARNING, "A checksum is of its commit", of=Checksum)
def a_checksum_is_of_its_commit(checksum: Checksum) -> Iterator[Finding]:
    """txnId of a checksum is that of the commit.

    Why: it was computed for another commit of the same version.
    Fix: delete the file.
    """
    said = checksum.body.get("txnId")
    own = (checksum.commit.info or {}).get("txnId") if checksum.commit else None
    if said is not None and own is not None and said != own:
        yield Finding(f"txnId is {said}, the commit has {own}")
