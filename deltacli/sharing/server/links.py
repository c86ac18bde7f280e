"""URLs of files: the storage's own signed ones, or ours that expire and can be revoked.

Ours carry what is needed to serve them and a signature over it (reference 4.3). They have
only characters that nobody encodes anew, end in the kind of file, and have the key `sp`
by which common readers know a signed URL.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl

from deltacli.errors import Refused
from deltacli.sharing.server.failures import Failure, forbidden
from deltacli.sharing.server.seals import Seals, decoded, encoded
from deltacli.sharing.server.tables import SharedTable

_PURPOSE = b"file"
FILES = "files"
_GONE = "the URL of the file is not valid, or not any more"


@dataclass(frozen=True, slots=True)
class FileGrant:
    """What a valid URL of ours stands for."""

    recipient: str
    token_id: str
    share: str
    schema: str
    table: str
    place_id: str
    root: int
    name: str


class Links:
    """Makes the URLs of one answer, for one recipient."""

    def __init__(
        self,
        table: SharedTable,
        recipient: str,
        token_id: str,
        *,
        base_url: Callable[[], str],
        seals: Seals,
        now_ms: int,
        seconds: int,
    ):
        self.expires_ms = (now_ms // 1000 + seconds) * 1000
        self._table = table
        self._seconds = seconds
        self._seals = seals
        self._presigns = [presigns(table, number) for number in range(len(table.roots))]
        self._prefix = ""
        if not all(self._presigns):
            self._prefix = f"{base_url()}/{FILES}/"
        until = str(self.expires_ms // 1000)
        self._end = f"?sp=r&se={until}&sig="
        self._signed_end = f".{until}"
        self._scopes = [
            _scope(recipient, token_id, table, root) for root in range(len(table.roots))
        ]

    def url(self, root: int, name: str, called: str) -> str:
        """The URL of a file below a root; `called` is the last part of ours."""
        if self._presigns[root]:
            return self._table.roots[root].sign(name, self._seconds)
        grant = self._scopes[root] + encoded(name.encode("utf-8", "surrogateescape"))
        path = f"{grant}/{called}"
        signature = self._seals.signature(_PURPOSE, (path + self._signed_end).encode())
        return f"{self._prefix}{path}{self._end}{signature}"


def _scope(recipient: str, token_id: str, table: SharedTable, root: int) -> str:
    """What comes before the file's name in a grant, the same for all files of an answer."""
    name = table.name
    parts = (recipient, token_id, name.share, name.schema, name.table, place_id(table), str(root))
    text = "\0".join((*parts, ""))
    content = text.encode()
    # Whole groups of three bytes are encoded by themselves.
    return encoded(b"\0" * (-len(content) % 3) + content)


def place_id(table: SharedTable) -> str:
    """Which place a table's name stood for, without telling it."""
    places = "\0".join((table.entry.location, *table.entry.roots))
    return hashlib.sha256(places.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def presigns(table: SharedTable, root: int) -> bool:
    """Whether files of a root are served by the storage itself."""
    if table.entry.links == "proxy":
        return False
    known = table.signs.get(root)
    if known is None:
        try:
            table.roots[root].sign("probe.parquet", 60)
            known = True
        except Refused:
            if table.entry.links == "presign":
                raise
            known = False
        table.signs[root] = known
    return known


def open_link(seals: Seals, grant: str, called: str, query: str, now_ms: int) -> FileGrant:
    """What a URL of ours grants. Raises Failure, the same for all faults."""
    fields = dict(parse_qsl(query))
    until, signature = fields.get("se", ""), fields.get("sig", "")
    signed = f"{grant}/{called}.{until}".encode("utf-8", "replace")
    if fields.get("sp") != "r" or not seals.is_signature(_PURPOSE, signed, signature):
        raise void_link()
    if now_ms >= int(until) * 1000:
        raise void_link()
    text = decoded(grant).decode("utf-8", "surrogateescape")
    *scope, root, name = text.lstrip("\0").split("\0", 7)
    recipient, token_id, share, schema, table, place = scope
    return FileGrant(recipient, token_id, share, schema, table, place, int(root), name)


def void_link() -> Failure:
    return forbidden(_GONE)
