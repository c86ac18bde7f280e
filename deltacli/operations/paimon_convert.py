"""`paimon convert`: the schema of a Delta table for Paimon, and the other way round."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltacli.checking.model import Severity
from deltacli.delta import json_text
from deltacli.delta.actions import Format, Metadata
from deltacli.delta.checkpoint import metadata_action, protocol_body
from deltacli.delta.column_mapping import ColumnMapping
from deltacli.delta.commit import Change, first_commit
from deltacli.delta.paths import commit_path
from deltacli.delta.schema import type_tree
from deltacli.delta.snapshot import Snapshot
from deltacli.errors import Conflict, FileMissing, Refused
from deltacli.operations.describe import clustering_columns, schema_lines
from deltacli.operations.paimon_describe import column_lines
from deltacli.operations.records import Document
from deltacli.paimon.check import findings_of
from deltacli.paimon.from_delta import from_delta
from deltacli.paimon.losses import Losses
from deltacli.paimon.schema_file import NEWEST_VERSION, TableSchema, schema_tree
from deltacli.paimon.table import SchemaListing, is_listed, load_schema, read_schemas
from deltacli.paimon.to_delta import DeltaTable, to_delta
from deltacli.paimon.writing import breakage, put_new, refusal, written
from deltacli.storage import LogStore
from deltacli.storage.proofs import prove_put_if_absent

# Flaws that Delta tables cannot have, either.
_BREAKS_DELTA = frozenset(("PMT002", "PMT004", "PMS001", "PMS002", "PMS006"))


@dataclass(frozen=True)
class Conversion:
    """What comes of a table: the first file of a new one, and what it does not say."""

    values: Mapping[str, Any]
    losses: Losses
    path: str
    content: bytes
    tree: tuple[str, ...]

    def document(self, created: str | None = None) -> Document:
        losses = [{"column": one.column, "loss": one.message} for one in self.losses.found]
        values = {**self.values, "created": created, "losses": losses}
        return Document(values, "conversion", self.tree)


def convert_delta(snapshot: Snapshot, *, allows_lossy: bool, now_ms: int) -> Conversion:
    """Raises Refused for what Paimon cannot hold."""
    schema = snapshot.schema
    location = snapshot.store.location
    if schema is None:
        raise Refused("the table has no schema", hint="write to it first", location=location)
    losses = Losses(allows_lossy)
    clustering = clustering_columns(snapshot) or ()
    converted = from_delta(schema, snapshot.metadata, clustering, losses, now_ms)
    broken = [one for one in findings_of(converted) if one.rule.severity is Severity.ERROR]
    if broken:
        raise refusal(broken, location)
    values = {
        "location": location,
        "from": "delta",
        "to": "paimon",
        "version": snapshot.version,
        "schema": schema_tree(converted),
    }
    content = written(converted, location)
    return Conversion(values, losses, "schema/schema-0", content, tuple(column_lines(converted)))


def convert_paimon(
    listing: SchemaListing,
    schema_id: int | None,
    mapping: ColumnMapping,
    *,
    allows_lossy: bool,
    now_ms: int,
) -> Conversion:
    """Raises Refused for what Delta cannot hold."""
    schema = load_schema(listing, schema_id)
    losses = Losses(allows_lossy)
    if schema.version > NEWEST_VERSION:
        losses.add(None, f"what is new in the format {schema.version} of schema files")
    broken = [one for one in findings_of(schema) if one.rule.id in _BREAKS_DELTA]
    if broken:
        raise breakage(broken, listing.branch.store.location)
    older: list[TableSchema] = []
    for entry, content in read_schemas(listing, schema.id):
        if isinstance(content, TableSchema):
            older.append(content)
        else:
            older = []
            losses.add(None, f"the types of columns before schema {entry.id}, which cannot be read")
    table = to_delta(schema, older, losses, mapping)
    values = {
        "location": listing.branch.store.location,
        "branch": listing.branch.name,
        "from": "paimon",
        "to": "delta",
        "id": schema.id,
        "schema": type_tree(table.schema),
        "partitionColumns": list(table.partition_columns),
        "configuration": dict(table.configuration),
        "protocol": protocol_body(table.protocol),
    }
    commit = _first_commit(table, now_ms)
    return Conversion(values, losses, commit_path(0), commit, tuple(schema_lines(table.schema)))


def _first_commit(table: DeltaTable, now_ms: int) -> bytes:
    metadata = Metadata(
        id=str(uuid.uuid4()),
        name=None,
        description=table.description,
        format=Format(),
        schema_string=json_text.dump(type_tree(table.schema)).decode(),
        partition_columns=table.partition_columns,
        configuration=table.configuration,
        created_time=now_ms,
    )
    parameters = {
        "isManaged": "false",
        "description": json_text.dump(table.description).decode(),
        "partitionBy": json_text.dump(list(table.partition_columns)).decode(),
        "properties": json_text.dump(dict(table.configuration)).decode(),
    }
    actions = ({"protocol": protocol_body(table.protocol)}, metadata_action(metadata))
    return first_commit(Change("CREATE TABLE", parameters, lambda _: actions), now_ms)


def create_table(conversion: Conversion, store: LogStore) -> None:
    """Write the first file of a new table. Raises Refused where something lies already."""
    try:
        taken = next(iter(store.list_from("")), None)
    except FileMissing:
        above, name = store.parent(), store.location.rpartition("/")[2]
        if above is not None and is_listed(above, name):
            raise Refused(
                f"{store.location} is no folder",
                hint="name a folder that is still to be made",
                location=store.location,
            ) from None
        taken = None
    if taken is not None:
        raise Refused(
            f"{store.location} is not empty: {taken.name}",
            hint="name a folder that is still to be made",
            location=store.location,
        )
    prove_put_if_absent(store, conversion.path.rpartition("/")[0])
    if not put_new(store, conversion.path, conversion.content):
        raise Conflict(
            f"{conversion.path} was written by somebody else",
            hint="look at the table that is there now",
            location=store.location,
        )
