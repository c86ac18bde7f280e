"""`deltacli paimon diff`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.paimon import BranchOpt, PaimonArg, open_branch
from deltacli.cli.session import Session

EXAMPLES = (
    ("deltacli paimon diff ./orders 2 5", "from version 2 to version 5"),
    ("deltacli paimon diff ./orders 2", "from version 2 to the newest"),
)


def paimon_diff(
    options: CommonOptions,
    table: PaimonArg,
    first: Annotated[
        int, typer.Argument(metavar="A", min=0, help="A version.", show_default=False)
    ],
    second: Annotated[
        int | None,
        typer.Argument(
            metavar="[B]", min=0, help="Another one; the newest without.", show_default=False
        ),
    ] = None,
    branch: BranchOpt = None,
) -> None:
    """Show what is different between two versions of a Paimon table's schema.

    Columns are the same by their ids, whatever their names are: a column that was renamed is
    not one dropped and one added.
    """
    from deltacli.operations.paimon_describe import diff_versions
    from deltacli.paimon.table import list_schemas

    session = Session(options)
    listing = list_schemas(open_branch(session, table, branch))
    session.show(diff_versions(listing, first, second))
