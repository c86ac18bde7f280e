"""In which format an answer can be given: that of what a client must know to read it right."""

from __future__ import annotations

from deltacli.sharing.capabilities import DELTA, HEADER, PARQUET, Capabilities
from deltacli.sharing.needs import VECTORS
from deltacli.sharing.server.failures import unsupported


def choose_format(
    client: Capabilities,
    needs: frozenset[str],
    *,
    may_get_vectors: bool,
    pinned: str | None = None,
) -> str:
    """The format of an answer. Raises Failure if the client cannot read it right.

    A later page has the format that is `pinned` by the first.

    A client that takes both gets Parquet if nothing speaks against it, so that it stays
    the format that most can read; but a table that may have deletion vectors at its next
    version is better begun in Delta's.
    """
    if not client.formats:
        raise unsupported(f"the header {HEADER} names no known responseformat: parquet or delta")
    if pinned is not None and pinned not in client.formats:
        raise unsupported(f"the first page was in the {pinned} format, so the others are")
    missing = sorted(one for one in needs if one.lower() not in client.features)
    if DELTA not in client.formats:
        if needs:
            raise unsupported(
                f"the table needs {', '.join(sorted(needs))}, which the parquet format does not "
                f"have; ask with the header {_wish(needs)}"
            )
        return PARQUET
    if missing:
        raise unsupported(
            f"the client does not know {', '.join(missing)}, which the table needs; "
            f"ask with the header {_wish(needs)}"
        )
    if pinned is not None:
        return pinned
    if PARQUET not in client.formats or needs:
        return DELTA
    return DELTA if may_get_vectors and VECTORS.lower() in client.features else PARQUET


def _wish(needs: frozenset[str]) -> str:
    features = ",".join(sorted(one.lower() for one in needs))
    return f"{HEADER}: responseformat=delta;readerfeatures={features}"
