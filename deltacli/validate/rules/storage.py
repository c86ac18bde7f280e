"""What else lies in the table's folder, and what the storage can do; and the checks themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from deltacli.checking.model import ERROR, FILES, INFO, WARNING, Finding, rule
from deltacli.units import human_size
from deltacli.validate.log_files import LogFolder, NotLoaded
from deltacli.validate.stored import Stored


@rule("STO001", WARNING, "No table lies in the table", of=Stored, level=FILES)
def no_table_lies_in_the_table(stored: Stored) -> Iterator[Finding]:
    """No folder below the table has a `_delta_log` of its own.

    Why: a vacuum of this table may delete that one's files.
    Fix: move the inner table out.
    """
    for folder in stored.listing.nested:
        yield Finding("a table of its own lies in this one", path=folder)


@rule("STO002", WARNING, "No link lies in the table", of=Stored, level=FILES)
def no_link_lies_in_the_table(stored: Stored) -> Iterator[Finding]:
    """No file or folder below the table is a symbolic link.

    Why: clean-ups do not follow links, or delete what they point to; copies lose them.
    Fix: put the file itself in its place.
    """
    for path in stored.listing.links:
        yield Finding("a symbolic link", path=path)


@rule("STO003", WARNING, "No foreign folder lies in the table", of=Stored, level=FILES)
def no_foreign_folder_lies_in_the_table(stored: Stored) -> Iterator[Finding]:
    """No visible folder below the table has only files that are no data files of it.

    Why: a vacuum deletes them.
    Fix: move the folder out of the table.
    """
    for folder in stored.foreign_folders:
        yield Finding("a folder with files that are none of the table's", path=folder)


@rule("STO004", INFO, "Nothing is there to vacuum", of=Stored, level=FILES)
def nothing_is_there_to_vacuum(stored: Stored) -> Iterator[Finding]:
    """No file has outlived its retention.

    Why: it takes room.
    Fix: `deltacli vacuum TABLE`.
    """
    found = stored.unreferenced
    old = pc.less(found.modified_ms, stored.retained_since_ms)
    size = pc.sum(found.sizes.filter(old)).as_py() or 0
    if size:
        yield Finding(f"a vacuum would free {human_size(size)}")


@rule("STO005", WARNING, "The storage can exclude other writers", of=LogFolder, level=FILES)
def storage_can_exclude_other_writers(log: LogFolder) -> Iterator[Finding]:
    """The storage, with this driver, creates a file only if it is absent.

    Why: without that two writers at the same moment lose one's commit.
    Fix: write through a driver that has put-if-absent, or through a single writer.
    """
    if not log.store.creates_exclusively:
        yield Finding("the driver cannot create a file only if it is absent")


@rule("CAT001", ERROR, "The whole log is known", of=LogFolder)
def whole_log_is_known(log: LogFolder) -> Iterator[Finding]:
    """The newest commits are in the log, not with a catalog.

    Why: what was checked may be an older version than the catalog's.
    Fix: publish the commits by the catalog, then check again.
    """
    if log.is_catalog_managed:
        yield Finding("the table is catalog-managed: only published commits were checked")


@rule("RUN002", ERROR, "The newest version can be loaded", of=NotLoaded)
def newest_version_can_be_loaded(log: NotLoaded) -> Iterator[Finding]:
    """The newest version can be read by this program.

    Why: its files and rows cannot be checked.
    Fix: mend what other rules found; use a newer deltacli for newer features.
    """
    yield Finding(log.error.message, file=log.error.location if log.is_in_log else None)
