"""Change data feed, row tracking, in-commit timestamps, domains and transactions."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.checking.model import ERROR, FILES, FOOTERS, WARNING, Finding, rule
from deltacli.delta import json_text
from deltacli.delta.column_mapping import PHYSICAL
from deltacli.validate.adds import Adds, LiveAdds
from deltacli.validate.commits import Commit
from deltacli.validate.data_files import ChangeFile
from deltacli.validate.definition import ROW_TRACKING, Definition
from deltacli.validate.live import Live
from deltacli.validate.log_files import DAY_MS
from deltacli.validate.stored import Stored

_ICT = "delta.enableInCommitTimestamps"
_ICT_VERSION = "delta.inCommitTimestampEnablementVersion"
_ICT_TIME = "delta.inCommitTimestampEnablementTimestamp"


@rule("CDF001", WARNING, "Change data files are there", of=Stored, level=FILES)
def change_data_files_are_there(stored: Stored) -> Iterator[Finding]:
    """The change data files of commits within the retention exist.

    Why: the change feed of those versions cannot be read.
    Fix: restore the files from a backup.
    """
    for version, path in stored.lost_change_data():
        yield Finding("the change data file is missing", path=path, version=version)


@rule("CDF002", WARNING, "Change data is written where it is enabled", of=Commit)
def change_data_is_written_where_enabled(commit: Commit) -> Iterator[Finding]:
    """cdc actions are written only with delta.enableChangeDataFeed.

    Why: readers do not look for them, and the files only take room.
    Fix: enable the feed, or mend the writer.
    """
    definition = commit.definition
    if definition is None or definition.metadata is None:
        return
    enabled = definition.is_on("delta.enableChangeDataFeed")
    was_enabled = commit.before is not None and commit.before.is_on("delta.enableChangeDataFeed")
    if not enabled and not was_enabled:
        for line in commit.sound("cdc"):
            yield Finding(
                "change data, though the change data feed is not enabled",
                path=line.body["path"],
                line=line.number,
            )


@rule("CDF003", WARNING, "Change data lies in its folder", of=Commit)
def change_data_lies_in_its_folder(commit: Commit) -> Iterator[Finding]:
    """Change data files lie in `_change_data`.

    Why: engines take others for data files when they clean up.
    Fix: mend the writer.
    """
    definition = commit.definition
    if definition is not None and (
        definition.is_mapped or definition.is_on("delta.randomizeFilePrefixes")
    ):
        return  # there all files have random folders
    for line in commit.sound("cdc"):
        if "_change_data/" not in line.body["path"]:
            yield Finding(
                "the change data file lies outside of _change_data",
                path=line.body["path"],
                line=line.number,
            )


@rule("CDF004", ERROR, "Change data says what happened", of=ChangeFile, level=FOOTERS)
def change_data_says_what_happened(change: ChangeFile) -> Iterator[Finding]:
    """A change data file has the column `_change_type`.

    Why: readers of the feed fail on it.
    Fix: restore the file from a backup.
    """
    names = {one.path[0].lower() for one in change.footer.columns}
    if change.footer.error is None and "_change_type" not in names:
        yield Finding("the change data file has no _change_type", path=change.path)


@rule("ROW001", ERROR, "Tracked rows have ids", of=LiveAdds)
def tracked_rows_have_ids(adds: LiveAdds) -> Iterator[Finding]:
    """With row tracking each file has a baseRowId and a defaultRowCommitVersion.

    Why: its rows have no ids, which readers rely on.
    Fix: rewrite the file with a writer that knows row tracking.
    """
    definition = adds.definition
    if definition is None or not definition.is_on("delta.enableRowTracking"):
        return
    for name in ("baseRowId", "defaultRowCommitVersion"):
        for n, value in enumerate(adds.column(name)):
            if value is None:
                yield adds.finding(n, f"no {name}")


@rule("ROW002", ERROR, "Row ids are unique", of=Live)
def row_ids_are_unique(live: Live) -> Iterator[Finding]:
    """The row ids of live files, from baseRowId on, do not overlap.

    Why: two rows have one id; merges by row id change the wrong one.
    Fix: rewrite one of the files with a writer that knows row tracking.
    """
    if live.has_row_ids:
        for path, other, row_id in live.overlaps():
            yield Finding(f"row ids from {row_id:,} on are those of {path} too", path=other)


@rule("ROW003", ERROR, "The high-water mark covers all row ids", of=Live)
def high_water_mark_covers_all(live: Live) -> Iterator[Finding]:
    """The domain delta.rowTracking has a rowIdHighWaterMark not less than any row id.

    Why: the next file would get row ids that are taken.
    Fix: set the mark to the greatest row id, with an engine.
    """
    greatest = live.greatest_row_id if live.has_row_ids else None
    if greatest is None:
        return
    if live.high_water_mark is None:
        yield Finding("there are row ids, and no rowIdHighWaterMark")
    elif live.high_water_mark < greatest:
        yield Finding(
            f"rowIdHighWaterMark is {live.high_water_mark:,}, there is the row id {greatest:,}"
        )


@rule("ROW004", ERROR, "Columns of row ids have names of their own", of=Definition)
def columns_of_row_ids_have_own_names(definition: Definition) -> Iterator[Finding]:
    """With row tracking the columns for materialised ids have names that no other column has.

    Why: ids would be read from, or written into, a column of the table.
    Fix: enable row tracking anew.
    """
    if not definition.is_on("delta.enableRowTracking") or definition.schema is None:
        return
    taken = set()
    for path, one in definition.fields():
        physical = (one.get("metadata") or {}).get(PHYSICAL)
        taken |= {path[-1], physical if isinstance(physical, str) else path[-1]}
    for key in ("RowId", "RowCommitVersion"):
        name = f"delta.rowTracking.materialized{key}ColumnName"
        value = definition.configuration.get(name)
        if value is None:
            yield Finding(f"{name} is not set", line=definition.lines.get("metaData"))
        elif value in taken:
            yield Finding(
                f"{name} is {value!r}, a column of the table", line=definition.lines.get("metaData")
            )


@rule("ROW005", ERROR, "Row tracking is enabled or suspended", of=Definition)
def row_tracking_is_enabled_or_suspended(definition: Definition) -> Iterator[Finding]:
    """delta.enableRowTracking and delta.rowTrackingSuspended are not both true.

    Why: whether new files get row ids is open.
    Fix: unset one of the properties.
    """
    if definition.is_on("delta.enableRowTracking") and definition.is_on(
        "delta.rowTrackingSuspended"
    ):
        yield Finding(
            "row tracking is enabled and suspended", line=definition.lines.get("metaData")
        )


@rule("ROW006", ERROR, "Rows are not from the future", of=Adds)
def rows_are_not_from_the_future(adds: Adds) -> Iterator[Finding]:
    """defaultRowCommitVersion is not greater than the version that adds the file.

    Why: rows seem to have changed in a version that does not exist.
    Fix: rewrite the file with a writer that knows row tracking.
    """
    for n, version in enumerate(adds.column("defaultRowCommitVersion")):
        if version is not None and version > adds.version:
            yield adds.finding(n, f"defaultRowCommitVersion is {version}")


@rule("ROW007", WARNING, "The high-water mark does not sink", of=Commit)
def high_water_mark_does_not_sink(commit: Commit) -> Iterator[Finding]:
    """rowIdHighWaterMark only grows.

    Why: row ids are given out a second time.
    Fix: set the mark to the greatest row id, with an engine.
    """
    before, after = commit.before, commit.definition
    if before is None or after is None or before is after or after.is_replaced:
        return
    old, new = (
        (one.domain(ROW_TRACKING) or {}).get("rowIdHighWaterMark") for one in (before, after)
    )
    if type(old) is int and type(new) is int and new < old:
        yield Finding(f"rowIdHighWaterMark went from {old:,} to {new:,}")


@rule("ICT001", ERROR, "Commits begin with their time", of=Commit)
def commits_begin_with_their_time(commit: Commit) -> Iterator[Finding]:
    """With in-commit timestamps the first action is a commitInfo with inCommitTimestamp.

    Why: the time of the version is not known.
    Fix: restore the commit from a backup, or mend its writer.
    """
    if commit.definition is None or not commit.definition.is_on(_ICT) or not commit.lines:
        return
    if commit.stamp is None:
        yield Finding("the commit has no inCommitTimestamp")
    elif not commit.is_first_action_info:
        yield Finding("commitInfo is not the first action")


@rule("ICT002", ERROR, "Commit times rise", of=Commit)
def commit_times_rise(commit: Commit) -> Iterator[Finding]:
    """With in-commit timestamps each commit is later than the one before it.

    Why: time travel by time finds the wrong version.
    Fix: restore the commit from a backup, or mend its writer.
    """
    enabled = commit.definition is not None and commit.definition.is_on(_ICT)
    before = commit.previous.stamp if commit.previous else None
    if enabled and commit.stamp is not None and before is not None and commit.stamp <= before:
        yield Finding(f"inCommitTimestamp is {commit.stamp}, that of the commit before {before}")


@rule("ICT003", ERROR, "It is known since when commits have times", of=Commit)
def it_is_known_since_when(commit: Commit) -> Iterator[Finding]:
    """If in-commit timestamps were enabled after version 0, two properties say when: the
    version, and its inCommitTimestamp.

    Why: without them readers take the wrong kind of time for older versions.
    Fix: set the properties, or enable in-commit timestamps anew.
    """
    definition = commit.definition
    if definition is None or definition.version != commit.version or not definition.is_on(_ICT):
        return
    configuration = definition.configuration
    version, stamp = configuration.get(_ICT_VERSION), configuration.get(_ICT_TIME)
    if (version is None) != (stamp is None):
        yield Finding(f"{_ICT_VERSION if version is None else _ICT_TIME} is missing")
        return
    if commit.before is None:
        return
    if commit.before.is_on(_ICT):
        was = tuple(commit.before.configuration.get(one) for one in (_ICT_VERSION, _ICT_TIME))
        if (version, stamp) != was:
            yield Finding("since when in-commit timestamps are enabled was changed")
        return
    if version is None:
        yield Finding("in-commit timestamps are enabled, and nothing says since when")
    elif version.strip() != str(commit.version):
        yield Finding(f"{_ICT_VERSION} is {version}")
    elif commit.stamp is not None and str(stamp).strip() != str(commit.stamp):
        yield Finding(f"{_ICT_TIME} is {stamp}, the commit's time {commit.stamp}")


@rule("ICT004", WARNING, "Own times go on where files' times end", of=Commit, level=FILES)
def own_times_go_on(commit: Commit) -> Iterator[Finding]:
    """The first inCommitTimestamp is later than the modification time of the commit before.

    Why: time travel by time goes back at this version.
    Fix: none is possible; travel by version there.
    """
    enabled = commit.definition is not None and commit.definition.is_on(_ICT)
    was_on = commit.before is not None and commit.before.is_on(_ICT)
    if enabled and not was_on and commit.previous is not None and commit.stamp is not None:
        file_ms = commit.previous.file_ms
        if file_ms is not None and commit.stamp <= file_ms:
            yield Finding("the commit's own time is before the file of the commit before it")


@rule("ICT005", WARNING, "Commits are not from the future", of=Commit)
def commits_are_not_from_the_future(commit: Commit) -> Iterator[Finding]:
    """inCommitTimestamp is not more than a day in the future.

    Why: every later commit must be later still; time travel by time is off.
    Fix: correct the writer's clock.
    """
    if commit.stamp is not None and commit.stamp > commit.now_ms + DAY_MS:
        yield Finding("inCommitTimestamp is more than a day in the future")


@rule("DOM001", ERROR, "Domains of the protocol are JSON", of=Commit)
def domains_of_the_protocol_are_json(commit: Commit) -> Iterator[Finding]:
    """The configuration of a domain that begins with `delta.` is a JSON object.

    Why: the feature that owns it cannot be used any more.
    Fix: restore the commit from a backup.
    """
    for line in commit.sound("domainMetadata"):
        domain, text = line.body["domain"], line.body["configuration"]
        if domain.startswith("delta.") and not line.body["removed"]:
            try:
                found = json_text.load(text)
            except ValueError:
                found = None
            if not isinstance(found, dict):
                yield Finding(f"the configuration of {domain} is no JSON object", line=line.number)


@rule("TXN001", WARNING, "Transactions have a time", of=Commit)
def transactions_have_a_time(commit: Commit) -> Iterator[Finding]:
    """With delta.setTransactionRetentionDuration a txn has lastUpdated.

    Why: without it the transaction expires at once, and its stream may write twice.
    Fix: mend the writer, or unset the property.
    """
    definition = commit.definition
    if (
        definition is None
        or "delta.setTransactionRetentionDuration" not in definition.configuration
    ):
        return
    for line in commit.sound("txn"):
        if line.body.get("lastUpdated") is None:
            yield Finding(
                f"the transaction of {line.body['appId']!r} has no lastUpdated", line=line.number
            )
