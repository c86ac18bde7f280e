"""What the commands for Paimon tables share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.session import Session
from deltacli.errors import UsageError

if TYPE_CHECKING:
    from deltacli.paimon.table import Branch, SchemaListing

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


def open_branch(session: Session, table: str, name: str | None) -> Branch:
    """A branch of a table. Raises UsageError for a version in the table's name."""
    from deltacli.paimon.table import open_branch as branch_of

    store, at = session.open(table)
    if at is not None:
        raise version_in_name(table)
    return branch_of(store, name)


def open_listing(session: Session, table: str, branch: str | None) -> SchemaListing:
    """The versions of a branch."""
    from deltacli.paimon.table import list_schemas

    listing = list_schemas(open_branch(session, table, branch))
    session.explain(
        f"{listing.branch.title}: {len(listing.entries):,} schema files, the newest is "
        f"{listing.newest}"
    )
    return listing


def schema_id(text: str | None) -> int | None:
    """The id of a schema as it is written. Raises UsageError."""
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise UsageError(f"{text!r} is no schema", hint="write its id, such as 3")
    return int(text)


def version_in_name(table: str) -> UsageError:
    return UsageError(f"{table!r} names a version of a Delta table", hint="name a schema by --at")
