"""`deltacli paimon show`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.paimon import BranchOpt, PaimonArg, open_listing, schema_id
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli paimon show ./orders", "the newest version"),
    ("deltacli paimon show ./orders --at 3", ""),
    ("deltacli paimon show ./orders -o json --fields schema,primaryKeys", ""),
)
SchemaIdOpt = Annotated[
    str | None,
    typer.Option("--at", metavar="ID", help="A version; the newest without.", show_default=False),
]


def paimon_show(
    options: CommonOptions, table: PaimonArg, at: SchemaIdOpt = None, branch: BranchOpt = None
) -> None:
    """Show a version of a Paimon table's schema: columns, ids, keys and options.

    Options are those that hold: where a file of the first formats says nothing, `bucket` is 1
    and `file.format` is orc. What the file itself says is in optionsInFile.
    """
    from deltacli.operations.paimon_describe import describe_version
    from deltacli.paimon.schema_file import NEWEST_VERSION
    from deltacli.paimon.table import load_schema

    session = Session(options)
    asked = schema_id(at)
    listing = open_listing(session, table, branch)
    schema = load_schema(listing, asked)
    name = listing.newest if asked is None else asked
    if schema.id != name:
        session.warn([f"the file of schema {name} has the id {schema.id}"])
    if schema.version > NEWEST_VERSION:
        session.warn([f"the format {schema.version} is newer than deltacli: there may be more"])
    session.show(describe_version(listing.branch, schema))
