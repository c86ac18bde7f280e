"""`deltacli paimon list`."""

from __future__ import annotations

from deltacli.cli.options import CommonOptions
from deltacli.cli.paimon import BranchOpt, PaimonArg, open_listing
from deltacli.cli.session import Session
from deltacli.errors import DeltaCliError

EXAMPLES = (
    ("deltacli paimon list ./orders", "what changed, and what still needs each version"),
    ("deltacli paimon list ./orders --fields id,timestamp,changes", "without reading manifests"),
    ("deltacli paimon list ./orders --branch dev -o json", ""),
)


def paimon_list(options: CommonOptions, table: PaimonArg, branch: BranchOpt = None) -> None:
    """List the versions of a Paimon table's schema, newest first.

    Each version has its time, what changed with it, and what still needs it: snapshots, tags,
    changelogs, statistics and entries of manifests. --fields without neededBy and references
    leaves the manifests unread.
    """
    from deltacli.operations import paimon_describe as describe

    session = Session(options)
    listing = open_listing(session, table, branch)
    found = None
    if describe.needs_references(session.fields):
        with session.progress:
            found = describe.find_references(listing.branch, session.progress)
    if isinstance(found, DeltaCliError):
        hint = f"; {found.hint}" if found.hint else ""
        session.warn([f"what needs a version cannot be told: {found.message}{hint}"])
        found = None
    if found is not None:
        session.explain(found.found.summary)
    session.show(describe.list_versions(listing, found))
