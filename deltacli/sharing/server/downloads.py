"""The bytes of a file behind one of our URLs: whole, or a range (RFC 9110, 14)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from deltacli.errors import FileMissing
from deltacli.sharing.server.failures import Failure, missing
from deltacli.sharing.server.links import void_link
from deltacli.sharing.server.places import is_servable
from deltacli.sharing.server.tables import SharedTable

CHUNK = 1 << 18
_RANGE = re.compile(r"bytes=\s*(?:([0-9]{1,40})\s*-\s*([0-9]{0,40})|-\s*([0-9]{1,40}))\s*")


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is open, and which of its bytes are wanted.

    `start` to `end` is the range, `end` not included; the status is that of the response.
    """

    file: IO[bytes]
    size: int
    etag: str
    start: int
    end: int
    status: int

    @property
    def headers(self) -> dict[str, str]:
        found = {
            "content-type": "application/octet-stream",
            "content-length": str(self.end - self.start),
            "accept-ranges": "bytes",
            "etag": self.etag,
            "cache-control": "private, no-store",
        }
        if self.status == 206:
            found["content-range"] = f"bytes {self.start}-{self.end - 1}/{self.size}"
        return found

    def chunks(self) -> Iterator[bytes]:
        """The bytes. A file that got shorter breaks off."""
        left = self.end - self.start
        self.file.seek(self.start)
        while left:
            chunk = self.file.read(min(left, CHUNK))
            if not chunk:
                raise OSError("the file is shorter than it was")
            left -= len(chunk)
            yield chunk


def open_download(
    table: SharedTable, root: int, name: str, wanted: str | None, only_if: str | None
) -> Download:
    """Open a file of a table. Raises Failure.

    `wanted` is the header Range, `only_if` the header If-Range.
    """
    if root >= len(table.roots) or not is_servable(name):
        raise void_link()
    store = table.roots[root]
    _check_plain(store.file_path(""), store.file_path(name))
    try:
        entry = store.stat(name)
        if entry.is_folder:
            raise missing("there is no such file")
        size, modified_ms = entry.size, entry.modified_ms
        etag = _etag(name, size, modified_ms)
        start, end, status = _chosen(wanted, only_if, size, etag)
        return Download(store.open(name), size, etag, start, end, status)
    except FileMissing:
        raise missing("the file does not exist any more: it was vacuumed, or moved") from None


def _check_plain(root: str | None, path: str | None) -> None:
    """Raise Failure for a local file that links lead out of its root, or that is no file."""
    if root is None or path is None:
        return
    inside = os.path.join(os.path.realpath(root), "")
    real = os.path.realpath(path)
    if not real.startswith(inside) or not is_servable(real.removeprefix(inside)):
        raise void_link()
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(os.stat(real).st_mode):
            raise void_link()


def _etag(name: str, size: int, modified_ms: int | None) -> str:
    content = f"{name}\0{size}\0{modified_ms}".encode("utf-8", "surrogateescape")
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def _chosen(wanted: str | None, only_if: str | None, size: int, etag: str) -> tuple[int, int, int]:
    """First byte, end, and status. What is no single range of bytes is passed over."""
    match = _RANGE.fullmatch(wanted) if wanted else None
    if match is None or (only_if is not None and only_if != etag):
        return 0, size, 200
    first, last, suffix = match.groups()
    if suffix is not None:
        start, end = max(size - int(suffix), 0), size
        is_empty = int(suffix) == 0 or size == 0
    else:
        start = int(first)
        end = min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return 0, size, 200
        is_empty = start >= size
    if is_empty:
        raise Failure(
            416,
            "RANGE_NOT_SATISFIABLE",
            "the file has no such bytes",
            {"content-range": f"bytes */{size}"},
        )
    return start, end, 206
