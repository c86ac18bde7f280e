"""`share check`: every shared table opened, and what each client can do with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from deltacli.errors import DeltaCliError
from deltacli.operations.records import Listing
from deltacli.sharing.capabilities import DELTA, PARQUET, Capabilities
from deltacli.sharing.names import address_problem
from deltacli.sharing.server.catalog import TableName, build_catalog
from deltacli.sharing.server.config import Config, TableEntry
from deltacli.sharing.server.failures import Failure
from deltacli.sharing.server.formats import choose_format
from deltacli.sharing.server.tables import SharedTable
from deltacli.sharing.server.versions import Version

CHECK_FIELDS = (
    "share",
    "schema",
    "table",
    "location",
    "problem",
    "version",
    "numFiles",
    "sizeInBytes",
    "needs",
    "historyShared",
    "changeData",
    "links",
    "clients",
    "notes",
)
_SHOWN = ("share", "schema", "table", "version", "numFiles", "clients", "problem")

# What well-known clients say they can do.
_BOTH = (DELTA, PARQUET)
_PYTHON = frozenset(("deletionvectors", "columnmapping", "timestampntz"))
_SPARK = _PYTHON | {
    "typewidening",
    "typewidening-preview",
    "varianttype",
    "varianttype-preview",
    "variantshredding",
    "variantshredding-preview",
    "geospatial",
}
_CLIENTS = {
    "parquetOnly": Capabilities(),
    "python": Capabilities(_BOTH, _PYTHON),
    "spark": Capabilities(_BOTH, _SPARK),
}


@dataclass
class Outcome:
    """How many tables were looked at, and how many cannot be shared."""

    tables: int = 0
    problems: int = 0


def check_shares(config: Config, outcome: Outcome) -> tuple[Listing, tuple[str, ...]]:
    """A row for each shared table, and the warnings of the catalog."""
    catalog = build_catalog(config)

    def rows() -> Iterator[dict[str, Any]]:
        for name, entry in catalog.tables():
            row = _check(name, entry)
            outcome.tables += 1
            outcome.problems += row["problem"] is not None
            yield row

    listing = Listing(rows(), CHECK_FIELDS, _SHOWN, "shared tables")
    return listing, (*config.warnings, *catalog.warnings)


def _check(name: TableName, entry: TableEntry) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(CHECK_FIELDS)
    row |= {
        "share": name.share,
        "schema": name.schema,
        "table": name.table,
        "location": entry.location,
        "historyShared": entry.history_shared,
        "changeData": False,
        "notes": [],
    }
    for part in (name.share, name.schema, name.table):
        problem = address_problem(part)
        if problem:
            row["notes"].append(f"the name {part!r} is hard to reach: {problem}")
    try:
        _look(SharedTable(name, entry), row)
    except (Failure, DeltaCliError) as failure:
        error = failure.__cause__ if isinstance(failure, Failure) else failure
        row["problem"] = getattr(error, "message", None) or failure.message
        if hint := getattr(error, "hint", None):
            row["notes"].append(hint)
    return row


def _look(table: SharedTable, row: dict[str, Any]) -> None:
    version = table.newest()
    row |= {
        "version": version.number,
        "numFiles": version.sums.files,
        "sizeInBytes": version.sums.bytes,
        "needs": sorted(version.needs),
        "changeData": version.has_changes,
        "links": _links(table),
    }
    version.check_places()
    row["clients"] = {name: _verdict(client, version) for name, client in _CLIENTS.items()}
    entry = table.entry
    if entry.history_shared:
        row["notes"].append("history is shared: rows that were deleted later can be read")
        recorded = version.snapshot.setting("delta.enableChangeDataFeed")
        if entry.change_data and not recorded:
            row["notes"].append("the table records no change data (delta.enableChangeDataFeed)")


def _links(table: SharedTable) -> str:
    from deltacli.sharing.server.links import presigns

    return "presigned" if presigns(table, 0) else "served"


def _verdict(client: Capabilities, version: Version) -> str:
    """The format that a client gets, or that it cannot read the table."""
    try:
        return choose_format(client, version.needs, may_get_vectors=version.may_get_vectors)
    except Failure:
        return "cannot read it"
