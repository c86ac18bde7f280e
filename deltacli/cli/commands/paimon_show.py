"""`deltacli paimon show`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.paimon import BranchOpt, PaimonArg, open_branch
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli paimon show ./orders", "the newest version"),
    ("deltacli paimon show ./orders --at 3", ""),
    ("deltacli paimon show ./orders -o json --fields schema,primaryKeys", ""),
)
SchemaIdOpt = Annotated[
    int | None,
    typer.Option(
        "--at", metavar="ID", min=0, help="A version; the newest without.", show_default=False
    ),
]


def paimon_show(
    options: CommonOptions, table: PaimonArg, at: SchemaIdOpt = None, branch: BranchOpt = None
) -> None:
    """Show a version of a Paimon table's schema: columns, ids, keys and options.

    Options are those that hold: where a file of the first formats says nothing, `bucket` is 1
    and `file.format` is orc. What the file itself says is in optionsInFile.
    """
    from deltacli.operations.paimon_describe import describe_version
    from deltacli.paimon.table import list_schemas, load_schema

    session = Session(options)
    listing = list_schemas(open_branch(session, table, branch))
    schema = load_schema(listing, at)
    name = listing.newest if at is None else at
    if schema.id != name:
        session.warn([f"the file of schema {name} has the id {schema.id}"])
    session.show(describe_version(listing.branch, schema))
