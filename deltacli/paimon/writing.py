"""The first file of a table, or the next version of a schema: refused, or put and read back."""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.checking.tally import Found
from deltacli.errors import Conflict, CorruptLog, Refused
from deltacli.paimon.schema_file import BadSchema, TableSchema, schema_text
from deltacli.storage import LogStore
from deltacli.storage.proofs import put_own


def refusal(broken: Sequence[Found], location: str) -> Refused:
    """The error for a result that breaks Paimon's rules; all of them are told at once."""
    return Refused(
        f"Paimon would not take the result: {_reasons(broken)}",
        hint=_pages(broken),
        location=location,
    )


def breakage(broken: Sequence[Found], location: str) -> CorruptLog:
    """The error for a schema that was broken before."""
    return CorruptLog(
        f"the table is broken: {_reasons(broken)}", hint=_pages(broken), location=location
    )


def _reasons(broken: Sequence[Found]) -> str:
    return "; ".join(dict.fromkeys(one.finding.message for one in broken))


def _pages(broken: Sequence[Found]) -> str:
    rules = dict.fromkeys(f"`deltacli validate --explain {one.rule.id}`" for one in broken)
    return f"{', '.join(rules)} tell{'s' if len(rules) == 1 else ''} more"


def written(schema: TableSchema, location: str) -> bytes:
    """The content of a new schema file. Raises Refused if nobody could read it."""
    try:
        return schema_text(schema)
    except BadSchema as error:
        raise Refused(
            f"the result could not be read again: {error}",
            hint="write names and texts in UTF-8",
            location=location,
        ) from None


def put_new(store: LogStore, path: str, content: bytes) -> bool:
    """Whether a new file is ours. Raises Conflict if it is not what was written."""
    if not put_own(store, path, content, lambda found: found == content):
        return False
    if store.read(path) != content:
        raise Conflict(
            f"{path} is not what was written",
            hint="somebody else writes to this table without regard for others",
            location=store.location,
        )
    return True
