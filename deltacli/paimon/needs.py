"""Why versions of a schema have to stay (facts 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltacli.paimon.options import Options
from deltacli.paimon.references import ReferenceScan
from deltacli.paimon.schema_file import TableSchema
from deltacli.paimon.table import Branch, SchemaListing


def needed_by(scans: Sequence[ReferenceScan], schema_id: int, newest: int) -> list[str]:
    """What names a version, in the branch of the first search and in those of the others."""
    reasons = ["newest"] if schema_id == newest else []
    reasons += scans[0].found.reasons(schema_id)
    for scan in scans[1:]:
        others = scan.found.reasons(schema_id)
        reasons += [f"{one} of branch {scan.branch.name}" for one in others]
    return reasons


def all_needs(
    listing: SchemaListing, schemas: Mapping[int, TableSchema], scans: Sequence[ReferenceScan]
) -> dict[int, list[str]]:
    """Why versions have to stay; those without a reason are left out.

    `schemas` are those that can be read.
    """
    ids = [one.id for one in listing.entries]
    found = {one: needed_by(scans, one, listing.newest) for one in ids}
    newest = schemas.get(listing.newest)
    publishes = newest is not None and Options(newest.effective_options).publishes_iceberg
    if publishes or has_iceberg_metadata(listing.branch):
        return {one: [*reasons, "Iceberg metadata"] for one, reasons in found.items()}
    found = {one: reasons for one, reasons in found.items() if reasons}
    for schema_id in _only_external_paths(schemas, frozenset(found)):
        found[schema_id] = ["the only one to name an external path"]
    return found


def has_iceberg_metadata(branch: Branch) -> bool:
    """Whether metadata of Iceberg lies in the table."""
    entries = branch.main.entries("metadata")
    return any(one.name.endswith(".metadata.json") for one in entries)


def _only_external_paths(schemas: Mapping[int, TableSchema], kept: frozenset[int]) -> list[int]:
    """The newest versions that tell of places which those that are kept do not tell.

    DROP TABLE learns from the schema files where data lies elsewhere.
    """
    paths = {
        schema_id: set(Options(schema.options).external_paths)
        for schema_id, schema in schemas.items()
    }
    known = {path for schema_id in kept & paths.keys() for path in paths[schema_id]}
    found = []
    for schema_id in sorted(paths.keys() - kept, reverse=True):
        if paths[schema_id] - known:
            found.append(schema_id)
            known |= paths[schema_id]
    return found
