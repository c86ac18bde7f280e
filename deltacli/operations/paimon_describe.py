"""`paimon list`, `show` and `diff`: versions of a schema, and what is different between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from deltacli.errors import DeltaCliError
from deltacli.operations.records import Document, Listing, Row
from deltacli.paimon.differences import Difference, differences
from deltacli.paimon.needs import all_needs
from deltacli.paimon.options import Options
from deltacli.paimon.references import OnProgress, References, ReferenceScan
from deltacli.paimon.schema_file import BadSchema, TableSchema, field_tree
from deltacli.paimon.table import Branch, SchemaListing, load_schema, read_schemas
from deltacli.paimon.types import Array, DataType, Field, Map, Multiset, sql_text
from deltacli.paimon.types import Row as RowType
from deltacli.units import iso_time

LIST_FIELDS = (
    "id", "timestamp", "timestampMs", "version", "numColumns", "highestFieldId", "changes",
    "neededBy", "references", "isNewest", "sizeInBytes", "path", "problem",
)  # fmt: skip
DIFF_FIELDS = ("change", "name", "fieldId", "from", "to")
_NEEDS = frozenset(("neededBy", "references"))


def needs_references(fields: Sequence[str] | None) -> bool:
    """Whether `list` has to look for what needs which version."""
    return fields is None or not _NEEDS.isdisjoint(fields)


def find_references(
    branch: Branch, on_progress: OnProgress | None
) -> ReferenceScan | DeltaCliError:
    """What refers to which version, or why that cannot be told."""
    scan = ReferenceScan(branch, on_progress)
    try:
        scan.run()
    except DeltaCliError as error:
        return error
    return scan


def list_versions(listing: SchemaListing, scan: ReferenceScan | None) -> Listing:
    """All versions, the newest first; without a search what needs them is not known."""
    rows: list[Row] = []
    before: TableSchema | None = None
    references = scan.found if scan else None
    contents = list(read_schemas(listing))
    schemas = {entry.id: one for entry, one in contents if isinstance(one, TableSchema)}
    needs = all_needs(listing, schemas, [scan]) if scan else None
    for entry, content in contents:
        schema = None if isinstance(content, BadSchema) else content
        rows.append(
            {
                "id": entry.id,
                "timestamp": iso_time(schema.time_ms) if schema and schema.time_ms else None,
                "timestampMs": schema.time_ms if schema and schema.time_ms else None,
                "version": schema.version if schema else None,
                "numColumns": len(schema.fields) if schema else None,
                "highestFieldId": schema.highest_field_id if schema else None,
                "changes": _changes(before, schema),
                "neededBy": None if needs is None else needs.get(entry.id, []),
                "references": references.of(entry.id) if references else None,
                "isNewest": entry.id == listing.newest,
                "sizeInBytes": entry.size,
                "path": entry.path,
                "problem": None if schema else str(content),
            }
        )
        before = schema
    rows += _missing(listing, references)
    rows.sort(key=lambda row: -row["id"])
    shown = ("id", "timestamp", "changes", "neededBy", "problem")
    return Listing(rows, LIST_FIELDS, shown, "versions")


def _changes(before: TableSchema | None, schema: TableSchema | None) -> list[str] | None:
    if schema is None or before is None:
        return None
    return [one.text for one in differences(before, schema)]


def _missing(listing: SchemaListing, references: References | None) -> Iterator[Row]:
    """The versions that something needs, and that have no file."""
    for schema_id in sorted((references.ids if references else set()) - listing.by_id.keys()):
        assert references is not None
        row: dict[str, Any] = dict.fromkeys(LIST_FIELDS)
        row |= {
            "id": schema_id,
            "neededBy": references.reasons(schema_id),
            "references": references.of(schema_id),
            "isNewest": False,
            "path": listing.branch.schema_path(schema_id),
            "problem": "its file is missing",
        }
        yield row


# -- one version -------------------------------------------------------------------------


def describe_version(branch: Branch, schema: TableSchema) -> Document:
    options = Options(schema.effective_options)
    values = {
        "location": branch.store.location,
        "branch": branch.name,
        "id": schema.id,
        "timestamp": iso_time(schema.time_ms) if schema.time_ms else None,
        "timestampMs": schema.time_ms or None,
        "comment": schema.comment,
        "partitionKeys": list(schema.partition_keys),
        "primaryKeys": list(schema.primary_keys),
        "bucketKeys": _bucket_keys(schema, options),
        "bucket": options["bucket"],
        "options": dict(schema.effective_options),
        "optionsInFile": dict(schema.options),
        "highestFieldId": schema.highest_field_id,
        "version": schema.version,
        "schema": [field_tree(one) for one in schema.fields],
    }
    return Document(values, "schema", tuple(column_lines(schema)))


def _bucket_keys(schema: TableSchema, options: Options) -> list[str]:
    """The columns that rows are spread by: those of the primary key where none are named."""
    named = options.columns("bucket-key")
    return named or [one for one in schema.primary_keys if one not in schema.partition_keys]


def column_lines(schema: TableSchema) -> Iterator[str]:
    """The columns as lines, each with its id, and what it is a key of."""
    for one in schema.fields:
        keys = [
            title
            for title, names in (
                ("primary key", schema.primary_keys),
                ("partition key", schema.partition_keys),
            )
            if one.name in names
        ]
        yield from _field_lines(one, "", "".join(f", {key}" for key in keys))


def _field_lines(one: Field, indent: str, more: str = "") -> Iterator[str]:
    extra = f" default {one.default}" if one.default is not None else ""
    extra += f"  {one.description}" if one.description else ""
    yield f"{indent}{one.name}: {_short(one.type)} (id {one.id}{more}){extra}"
    yield from _inner_lines(one.type, indent + "  ")


def _inner_lines(kind: DataType, indent: str) -> Iterator[str]:
    match kind:
        case RowType(fields):
            for one in fields:
                yield from _field_lines(one, indent)
        case Array(element) | Multiset(element):
            yield f"{indent}element: {_short(element)}"
            yield from _inner_lines(element, indent + "  ")
        case Map(key, value):
            yield f"{indent}key: {_short(key)}"
            yield from _inner_lines(key, indent + "  ")
            yield f"{indent}value: {_short(value)}"
            yield from _inner_lines(value, indent + "  ")
        case _:
            pass


def _short(kind: DataType) -> str:
    """A type without what is in it, where lines below tell that."""
    if kind.root in ("ROW", "ARRAY", "MULTISET", "MAP"):
        return kind.root + ("" if kind.nullable else " NOT NULL")
    return sql_text(kind)


# -- two versions ------------------------------------------------------------------------


def diff_versions(listing: SchemaListing, first: int | None, second: int | None) -> Listing:
    """What is different in the second version; None is the newest."""
    old, new = load_schema(listing, first), load_schema(listing, second)
    return Listing(
        [difference_row(one) for one in differences(old, new)],
        DIFF_FIELDS,
        DIFF_FIELDS,
        "differences",
    )


def difference_row(one: Difference) -> Row:
    return {
        "change": one.change,
        "name": one.name or None,
        "fieldId": one.field_id,
        "from": one.old,
        "to": one.new,
    }
