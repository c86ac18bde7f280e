"""What the commands for Paimon tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.session import Session
from deltacli.errors import UsageError

if TYPE_CHECKING:
    from deltacli.paimon.table import Branch
    from deltacli.storage import LogStore

PaimonArg = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="Path or URL of the table: the folder in which schema/ and snapshot/ lie.",
        show_default=False,
    ),
]
BranchOpt = Annotated[
    str | None,
    typer.Option("--branch", metavar="NAME", help="A branch; main without.", show_default=False),
]


def open_paimon(session: Session, table: str) -> LogStore:
    """The store of a table. Raises UsageError for a version in its name."""
    store, at = session.open(table)
    if at is not None:
        raise UsageError(
            f"{table!r} names a version of a Delta table", hint="name a schema by --at"
        )
    return store


def open_branch(session: Session, table: str, name: str | None) -> Branch:
    from deltacli.paimon.table import open_branch as branch_of

    return branch_of(open_paimon(session, table), name)
