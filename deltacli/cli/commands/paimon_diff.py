"""`deltacli paimon diff`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.paimon import BranchOpt, PaimonArg, open_listing, schema_id
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli paimon diff ./orders 2 5", "from version 2 to version 5"),
    ("deltacli paimon diff ./orders 2", "from version 2 to the newest"),
)


def paimon_diff(
    options: CommonOptions,
    table: PaimonArg,
    first: Annotated[str, typer.Argument(metavar="A", help="A version.", show_default=False)],
    second: Annotated[
        str | None,
        typer.Argument(metavar="[B]", help="Another one; the newest without.", show_default=False),
    ] = None,
    branch: BranchOpt = None,
) -> None:
    """Show what is different between two versions of a Paimon table's schema.

    Columns are the same by their ids, whatever their names are: a column that was renamed is
    not one dropped and one added.
    """
    from deltacli.operations.paimon_describe import diff_versions

    session = Session(options)
    ids = schema_id(first), schema_id(second)
    listing = open_listing(session, table, branch)
    session.show(diff_versions(listing, *ids))
