"""`deltacli paimon convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.options import AllowCatalogOpt, CommonOptions
from deltacli.cli.paimon import BranchOpt, schema_id, version_in_name
from deltacli.cli.session import Session, one_version
from deltacli.delta.column_mapping import ColumnMapping
from deltacli.errors import NotFound, UsageError
from deltacli.storage import open_store

if TYPE_CHECKING:
    from deltacli.operations.paimon_convert import Conversion

EXAMPLES = (
    ("deltacli paimon convert ./delta-orders -o json --fields schema", "the schema for Paimon"),
    ("deltacli paimon convert ./delta-orders --create ./paimon-orders", "a new, empty table"),
    ("deltacli paimon convert ./paimon-orders --at 3 --create s3://bucket/orders", "to Delta"),
    ("deltacli paimon convert ./paimon-orders --column-mapping none", "without ids"),
)


def paimon_convert(
    options: CommonOptions,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A Delta table or a Paimon table.", show_default=False
        ),
    ],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="V|TIME|ID",
            help="A version or time of a Delta table; a schema of a Paimon table.",
            show_default=False,
        ),
    ] = None,
    branch: BranchOpt = None,
    create: Annotated[
        str | None,
        typer.Option(
            "--create",
            metavar="FOLDER",
            help="Make a new table there, without data.",
            show_default=False,
        ),
    ] = None,
    column_mapping: Annotated[
        ColumnMapping | None,
        typer.Option(
            "--column-mapping",
            help="How a new Delta table finds columns: by name if nothing is said; none keeps no "
            "ids.",
            show_default=False,
        ),
    ] = None,
    allow_catalog_managed: AllowCatalogOpt = False,
    allow_lossy: Annotated[
        bool,
        typer.Option(
            "--allow-lossy", help="Leave void columns out; make TIME an integer of milliseconds."
        ),
    ] = False,
) -> None:
    """Convert the schema of a Delta table for Paimon, or of a Paimon table for Delta.

    Shows the schema, with everything that it does not carry over; --create makes a new, empty
    table of it. Field ids are those of column mapping, and type changes that Delta knows are
    told to it. No data is read or copied.
    """
    session = Session(options)
    if create is not None and not create:
        raise UsageError("--create names no folder", hint="name one that is still to be made")
    conversion = _convert(
        session, table, at, branch, column_mapping, allow_lossy, allow_catalog_managed
    )
    if create is not None:
        from deltacli.operations.paimon_convert import create_table

        session.check_report(tuple(conversion.document().values), (), beside=None)
        store = open_store(create, session.storage_options)
        create_table(conversion, store)
        session.show_done(conversion.document(store.location))
    else:
        session.show(conversion.document())


def _convert(
    session: Session,
    table: str,
    at: str | None,
    branch: str | None,
    mapping: ColumnMapping | None,
    allows_lossy: bool,
    allows_catalog: bool,
) -> Conversion:
    from deltacli.operations.paimon_convert import convert_delta, convert_paimon
    from deltacli.paimon.table import list_schemas, open_branch
    from deltacli.storage.patterns import DELTA, bears, is_paimon_table, is_there

    store, version = session.open(table)
    if is_paimon_table(store):
        if allows_catalog:
            raise UsageError("--allow-catalog-managed is about a Delta table", hint="leave it out")
        if version is not None:
            raise version_in_name(table)
        listing = list_schemas(open_branch(store, branch))
        return convert_paimon(
            listing,
            schema_id(at),
            mapping or ColumnMapping.NAME,
            allows_lossy=allows_lossy,
            now_ms=session.now_ms,
        )
    if branch is not None:
        raise UsageError("--branch is one of a Paimon table", hint="leave it out")
    if mapping is not None:
        raise UsageError("--column-mapping is about a new Delta table", hint="leave it out")
    try:
        snapshot = session.load(
            store, one_version(table, version, at), allow_catalog_managed=allows_catalog
        )
    except NotFound:
        if bears(store, DELTA) or not is_there(store):
            raise
        raise NotFound(
            f"{store.location} is neither a Delta table nor a Paimon table",
            hint="name the folder in which _delta_log lies, or schema/ with schema-0",
            location=store.location,
        ) from None
    session.warn(snapshot.warnings)
    return convert_delta(snapshot, allows_lossy=allows_lossy, now_ms=session.now_ms)
