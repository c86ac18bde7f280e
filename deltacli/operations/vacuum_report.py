"""What `vacuum` shows: the plan, whole, and what became of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltacli.delta.columns import texts_of
from deltacli.operations.file_columns import time_texts
from deltacli.operations.records import Columns, Document, Listing, Pending, Report
from deltacli.operations.vacuum import REASONS, VacuumPlan
from deltacli.operations.vacuum_request import FILE_FIELDS, ROW_FIELDS
from deltacli.units import iso_time

_PARQUET = ".parquet"
_ROWS = 1 << 14


def plan_report(plan: VacuumPlan, *, dry_run: bool, with_location: bool = False) -> Report:
    """The plan as it is before anything is done; with whole URLs beside those of other tables."""
    document = Document(plan_values(plan, dry_run=dry_run), "vacuum")
    return Report(document, _files(plan, with_location), "files")


def result_report(
    plan: VacuumPlan, result: Mapping[str, Any], *, with_location: bool = False
) -> Report:
    """The plan, and what was done of it."""
    values = {**plan_values(plan, dry_run=False), **result}
    document = Document(values, "vacuum")
    return Report(document, _files(plan, with_location), "files", lists_rows=False)


def plan_values(plan: VacuumPlan, *, dry_run: bool) -> dict[str, Any]:
    folders, extensions = _totals_by_name(plan)
    lost = plan.readable.lost
    return {
        "location": plan.store.location,
        "mode": plan.mode,
        "prefix": plan.prefix or None,
        "dryRun": dry_run,
        "version": plan.snapshot.version,
        "retentionMs": plan.retention_ms,
        "deleteBefore": iso_time(plan.delete_before_ms),
        "numFiles": plan.num_files,
        "sizeInBytes": plan.size,
        "numDirectories": len(plan.found.folders),
        "byReason": _totals_by_reason(plan),
        "byFolder": folders,
        "byExtension": extensions,
        "directories": list(plan.found.folders),
        "numListed": plan.found.listed,
        "numSpared": len(plan.found.spared),
        "sparedBytes": plan.found.spared_bytes,
        "earliestReadableVersion": plan.readable.earliest,
        "lostVersions": {"from": lost[0], "to": lost[-1], "count": len(lost)} if lost else None,
        "warnings": list(plan.warnings),
    }


def _totals_by_reason(plan: VacuumPlan) -> dict[str, Any]:
    totals = {}
    for reason in REASONS:
        rows = pc.equal(plan.reasons, reason)
        if rows.true_count:
            size = pc.sum(plan.found.sizes.filter(rows)).as_py()
            totals[reason] = {"files": rows.true_count, "bytes": size}
    return totals


def _totals_by_name(plan: VacuumPlan) -> tuple[dict[str, Any], dict[str, Any]]:
    """By folder right below the table (`.` is the table itself), and by extension."""
    names = _printable_names(plan.found.names)
    folders = pc.struct_field(pc.extract_regex(names, r"^(?P<folder>[^/]*)/"), ["folder"])
    return (
        _sums(pc.fill_null(folders, "."), plan.found.sizes),
        _sums(_extensions(names), plan.found.sizes),
    )


def _extensions(names: Any) -> Any:
    # Nearly all; a name is never the extension alone, for that would be hidden.
    if pc.all(pc.ends_with(names, _PARQUET)).as_py():
        return pa.repeat(_PARQUET, len(names))
    found = pc.struct_field(pc.extract_regex(names, r"[^/](?P<end>\.[^./]+)$"), ["end"])
    return pc.fill_null(found, "")


def _sums(keys: Any, sizes: Any) -> dict[str, Any]:
    """Files and bytes of each key, the largest first."""
    grouped = pa.table({"key": keys, "size": sizes}).group_by("key")
    rows = grouped.aggregate([("size", "count"), ("size", "sum")]).to_pylist()
    rows.sort(key=lambda row: (-row["size_sum"], row["key"]))
    return {row["key"]: {"files": row["size_count"], "bytes": row["size_sum"]} for row in rows}


def _files(plan: VacuumPlan, with_location: bool) -> Listing:
    if not with_location:
        return Listing(_rows(plan), FILE_FIELDS, FILE_FIELDS, "files to delete")
    shown = ("location", *FILE_FIELDS[1:])
    return Listing(_rows(plan), ROW_FIELDS, shown, "files to delete")


def _rows(plan: VacuumPlan) -> Iterator[Pending]:
    for start in range(0, plan.num_files, _ROWS):

        def make(start: int = start) -> Columns:
            names, sizes, stamps, reasons = (
                column.slice(start, _ROWS)
                for column in (
                    plan.found.names,
                    plan.found.sizes,
                    plan.found.modified_ms,
                    plan.reasons,
                )
            )
            paths = _printable_names(names)
            text = {
                "path": paths,
                "location": pc.binary_join_element_wise(f"{plan.store.location}/", paths, ""),
                "modificationTime": time_texts(stamps),
                "reason": reasons,
            }
            return Columns(len(names), text, {"sizeInBytes": sizes.cast(pa.string())})

        yield Pending(make)


def _printable_names(names: Any) -> Any:
    """Names as UTF-8; bytes that are none are shown as `\\xff`."""
    try:
        names.validate(full=True)
        return names
    except pa.ArrowInvalid:
        raw = (os.fsencode(name) for name in texts_of(names))
        return pa.array([one.decode("utf-8", "backslashreplace") for one in raw], pa.string())
