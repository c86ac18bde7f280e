"""Data files: there, whole, and of the table's types."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.checking.model import DATA, ERROR, FILES, FOOTERS, INFO, WARNING, Finding, rule
from deltacli.delta.columns import texts_of
from deltacli.delta.widening import is_readable_change, type_named
from deltacli.units import human_size
from deltacli.validate.data_files import Column, DataFile
from deltacli.validate.definition import dotted
from deltacli.validate.live import Live
from deltacli.validate.rows import GENERATED, NOT_NULL, FileRows
from deltacli.validate.stored import Stored

_SMALL_BYTES = 16 * 1024 * 1024
_MANY = 1000


@rule("DAT001", ERROR, "Live files are there", of=Stored, level=FILES)
def live_files_are_there(stored: Stored) -> Iterator[Finding]:
    """Each live file exists.

    Why: reading the table fails; the rows of the file are lost.
    Fix: restore the file from a backup, or remove it from the log, which loses its rows.
    """
    for one in stored.live_problems[0]:
        yield Finding("the file is missing", path=one.path)


@rule("DAT002", ERROR, "Live files have their size", of=Stored, level=FILES)
def live_files_have_their_size(stored: Stored) -> Iterator[Finding]:
    """Each live file is as long as the log says.

    Why: readers that find the footer by that size fail; the file was replaced or cut.
    Fix: restore the file from a backup.
    """
    for one in stored.live_problems[1]:
        yield Finding(f"the file has {one.real:,} bytes, the log says {one.said:,}", path=one.path)


@rule("DAT003", ERROR, "Live files are Parquet", of=DataFile, level=FOOTERS)
def live_files_are_parquet(one: DataFile) -> Iterator[Finding]:
    """The footer of each live file can be read.

    Why: reading the table fails; the rows of the file are lost.
    Fix: restore the file from a backup.
    """
    if one.footer.error is not None:
        yield Finding(f"the file cannot be read: {one.footer.error}", path=one.path)


@rule("DAT004", ERROR, "Columns of files have readable types", of=DataFile, level=FOOTERS)
def columns_of_files_have_readable_types(one: DataFile) -> Iterator[Finding]:
    """Each column of a file has the table's type, or one that the table's was widened from.

    Why: readers fail on the file, or read other values.
    Fix: rewrite the file with a writer that knows the schema.
    """
    for own, stored, kind in one.match.misfits:
        if not is_readable_change(stored, kind):
            yield Finding(
                f"{dotted(own.path)} is {stored} in the file, {kind} in the table", path=one.path
            )


@rule("DAT005", WARNING, "Narrow files have a recorded change", of=DataFile, level=FOOTERS)
def narrow_files_have_a_recorded_change(one: DataFile) -> Iterator[Finding]:
    """A column that is narrower in a file than in the table has a recorded type change.

    Why: readers that go by the records do not expect the narrow type, and fail.
    Fix: `deltacli widen-type TABLE --rewrite`.
    """
    for own, stored, kind in one.match.misfits:
        was_recorded = (own.path, stored, kind) in one.table.recorded
        if is_readable_change(stored, kind) and not (
            was_recorded or _is_recorded(one, own, stored)
        ):
            yield Finding(
                f"{dotted(own.path)} is {stored} in the file, {kind} in the table, "
                "and no change is recorded",
                path=one.path,
            )


def _is_recorded(one: DataFile, own: Column, stored: str) -> bool:
    changes = own.field.metadata.get("delta.typeChanges")
    return isinstance(changes, list) and any(
        isinstance(change, dict) and type_named(str(change.get("fromType"))) == stored
        for change in changes
    )


@rule("TYW009", ERROR, "Recorded changes stay as long as narrow files", of=DataFile, level=FOOTERS)
def recorded_changes_stay(one: DataFile) -> Iterator[Finding]:
    """A recorded type change is removed only when no file has the old type any more.

    Why: readers do not expect the narrow type, and fail.
    Fix: `deltacli widen-type TABLE --rewrite`, or restore the record.
    """
    for own, stored, kind in one.match.misfits:
        if (own.path, stored, kind) in one.table.recorded and not _is_recorded(one, own, stored):
            yield Finding(
                f"{dotted(own.path)} is {stored} in the file; the record of its change "
                f"to {kind} was removed",
                path=one.path,
            )


@rule("DAT006", ERROR, "Columns that must have values are in files", of=DataFile, level=FOOTERS)
def required_columns_are_in_files(one: DataFile) -> Iterator[Finding]:
    """A column that is not nullable is in each file.

    Why: all its values read as null, which breaks the promise; strict readers fail.
    Fix: rewrite the file, or make the column nullable.
    """
    if one.footer.error is None:
        for name in one.match.missing:
            yield Finding(f"the file has no column {name!r}, which is not nullable", path=one.path)


@rule("DAT007", INFO, "Files are encoded as usual", of=DataFile, level=FOOTERS)
def files_are_encoded_as_usual(one: DataFile) -> Iterator[Finding]:
    """A file has no INT96 times and no codec that is out of use.

    Why: newer readers do not know them, or read other times.
    Fix: rewrite the file.
    """
    for odd in one.footer.odd:
        yield Finding(f"the file has {odd}", path=one.path)


@rule("DAT008", WARNING, "No data file is forgotten", of=Stored, level=FILES)
def no_data_file_is_forgotten(stored: Stored) -> Iterator[Finding]:
    """Each file that has outlived the retention is one that some retained version needs.

    Why: it takes room; the table was not vacuumed.
    Fix: `deltacli vacuum TABLE`.
    """
    yield from _forgotten(stored, is_old=True)


def _forgotten(stored: Stored, *, is_old: bool) -> Iterator[Finding]:
    """Files that no retained version needs, old enough for a vacuum or not; old vectors apart."""
    found = stored.unreferenced
    columns = texts_of(found.names), found.sizes.to_pylist(), found.modified_ms.to_pylist()
    border = stored.retained_since_ms
    some = [
        (name, size)
        for name, size, stamp in zip(*columns, strict=True)
        if (stamp is not None and stamp < border) is is_old
        and not (is_old and name.endswith(".bin"))
    ]
    if some:
        size = human_size(sum(size or 0 for _, size in some))
        yield Finding(
            f"{len(some):,} files, {size}, are needed by no retained version", path=some[0][0]
        )


@rule("DAT009", WARNING, "Each file has one spelling", of=Live)
def each_file_has_one_spelling(live: Live) -> Iterator[Finding]:
    """No two live paths, decoded, are the same file.

    Why: readers that compare paths as texts count its rows twice.
    Fix: remove one of them in another commit.
    """
    for path in live.double_spellings:
        yield Finding("the file is live under another spelling too", path=path)


@rule("DAT010", INFO, "Files are not too small", of=Stored, level=FILES)
def files_are_not_too_small(stored: Stored) -> Iterator[Finding]:
    """A table of many files has files of some size.

    Why: each file costs a request and an entry in the log.
    Fix: compact the table with an engine (`OPTIMIZE`).
    """
    count = stored.live_problems[3]
    total = stored.live_bytes
    if count >= _MANY and total < count * _SMALL_BYTES:
        yield Finding(f"{count:,} files have {human_size(total // count)} on average")


@rule("DAT011", WARNING, "Removed files are kept for a while", of=Stored, level=FILES)
def removed_files_are_kept(stored: Stored) -> Iterator[Finding]:
    """A file that was removed within the retention is still there.

    Why: older versions cannot be read, and running readers fail.
    Fix: vacuum with a longer retention; restore the file from a backup if it is needed.
    """
    for path in stored.lost_tombstones():
        yield Finding("the file was removed from the table lately, and is gone", path=path)


@rule("DAT012", WARNING, "Files are as old as the log says", of=Stored, level=FILES)
def files_are_as_old_as_the_log_says(stored: Stored) -> Iterator[Finding]:
    """The modification times of live files are those of the log, give or take a day.

    Why: the table was copied: vacuum takes leftovers for younger than they are.
    Fix: none is needed, as long as this is known.
    """
    _, _, aged, count, example = stored.live_problems
    if aged:
        yield Finding(f"{aged:,} of {count:,} files are not as old as the log says", path=example)


@rule("DAT013", ERROR, "Rows keep their constraints", of=FileRows, level=DATA)
def rows_keep_their_constraints(one: FileRows) -> Iterator[Finding]:
    """Every row keeps NOT NULL, CHECK constraints and invariants.

    Why: whoever reads the table relies on them.
    Fix: correct the rows, or drop the constraint.
    """
    for number, condition in enumerate(one.conditions):
        if condition.kind != GENERATED and one.facts is not None:
            broken = one.facts.broken[str(number)]
            # A check that is null, such as a > 0 without a, is broken too.
            count = broken.false + (broken.null if condition.kind != NOT_NULL else 0)
            if count:
                yield Finding(
                    f"{count:,} rows break the {condition.kind} {condition.name}: {condition.sql}",
                    path=one.path,
                )


@rule("DAT014", ERROR, "Generated columns have their values", of=FileRows, level=DATA)
def generated_columns_have_their_values(one: FileRows) -> Iterator[Finding]:
    """The values of a generated column are those of its expression.

    Why: engines filter by the expression instead of the column, and skip rows.
    Fix: correct the rows.
    """
    for number, condition in enumerate(one.conditions):
        if condition.kind == GENERATED and one.facts is not None:
            broken = one.facts.broken[str(number)]
            if broken.false or broken.null:
                yield Finding(
                    f"{broken.false + broken.null:,} rows have another value of "
                    f"{condition.name} than its expression",
                    path=one.path,
                )


@rule("DAT015", ERROR, "Rows can be read", of=FileRows, level=DATA)
def rows_can_be_read(one: FileRows) -> Iterator[Finding]:
    """All rows of each live file can be read.

    Why: reading the table fails.
    Fix: restore the file from a backup.
    """
    if one.error is not None:
        yield Finding(f"the rows cannot be read: {one.error}", path=one.path)


@rule("DAT016", WARNING, "Conditions can be checked", of=FileRows, level=DATA)
def conditions_can_be_checked(one: FileRows) -> Iterator[Finding]:
    """Spark understands each constraint, invariant and generation expression.

    Why: what it does not understand is not checked; other engines may not check it either.
    Fix: write the expression with functions that every engine has.
    """
    for name, reason in one.unusable.items():
        yield Finding(f"the {name} cannot be checked: {reason}")


@rule("DAT017", INFO, "No young file is left over", of=Stored, level=FILES)
def no_young_file_is_left_over(stored: Stored) -> Iterator[Finding]:
    """Each file that is younger than the retention is one that some retained version needs.

    Why: a writer is still at work, or has failed.
    Fix: none is needed; `deltacli vacuum TABLE` deletes the file when it is old enough.
    """
    yield from _forgotten(stored, is_old=False)


@rule("DAT018", WARNING, "Files elsewhere can be looked at", of=Stored, level=FILES)
def files_elsewhere_can_be_looked_at(stored: Stored) -> Iterator[Finding]:
    """Live files outside of the table can be reached from here.

    Why: whether they are there is not known.
    Fix: give the credentials of that storage with --storage-option.
    """
    for path, reason in stored.unreachable:
        yield Finding(f"the file cannot be looked at: {reason}", path=path)
