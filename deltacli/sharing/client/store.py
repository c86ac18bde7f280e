"""Shared files as a store: read in parts by URLs that may end before the work does."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Any

from deltacli.errors import CorruptLog, FileMissing, StorageError
from deltacli.sharing.client.failures import message_of
from deltacli.sharing.client.http import BadAnswer, Http, Reply, Request
from deltacli.sharing.client.messages import ROOT, FileLine, Source

# A file up to this size is fetched at once; of others at least so much at a time.
_WHOLE_BYTES = 1 << 20
_LEAST_BYTES = 1 << 16
_MOST_BYTES = 1 << 40
# How storages answer to a URL that is not good any more; each has its own way.
_REFUSED = (400, 401, 403, 404, 410)
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")

Renew = Callable[[], Iterable[FileLine]]


@dataclass(frozen=True, slots=True)
class SharedEntry:
    name: str
    size: int
    is_folder: bool = False
    modified_ms: int | None = None


class SharedStore:
    """The files that lines tell of, by the places that `messages` gives them.

    `renew` asks the server once more for the same lines, with new URLs.
    """

    location = ROOT
    reads_are_remote = True

    def __init__(self, http: Http, renew: Renew):
        self._http = http
        self._renew = renew
        self._sources: dict[str, Source] = {}
        self._lock = threading.Lock()

    def take(self, line: FileLine) -> None:
        """Know the files of a line."""
        self._sources[line.data.place] = line.data
        if line.vector is not None:
            self._sources[line.vector.place] = line.vector

    def open(self, path: str) -> IO[bytes]:
        return RemoteFile(self, path)  # type: ignore[return-value]

    def stat(self, path: str) -> SharedEntry:
        size = self.source(path).size
        return SharedEntry(path, RemoteFile(self, path).size if size is None else size)

    def file_path(self, path: str) -> str | None:
        return None

    def source(self, path: str) -> Source:
        try:
            return self._sources[path]
        except KeyError:
            raise FileMissing(f"the server told nothing of {path}") from None

    def read_range(self, path: str, start: int, end: int) -> tuple[Reply, Source]:
        """An answer to a request for some bytes, by a URL that is good."""
        source = self.source(path)
        reply = self._ask(source, start, end)
        if reply.status in _REFUSED:
            renewed = self._renewed(source)
            if renewed.url != source.url:
                source = renewed
                reply = self._ask(source, start, end)
        if reply.status in (200, 206):
            return reply, source
        said = message_of(reply)
        because = f": {said}" if said else ""
        if reply.status == 416:
            raise _unlike(path, source, "less")
        if reply.status in (404, 410):
            raise FileMissing(
                f"{path} is not there any more{because}",
                hint="vacuum may have deleted it; ask for a newer version",
            )
        if reply.status in _REFUSED:
            raise StorageError(
                f"the storage refuses to give {path} ({reply.status}){because}",
                hint="its URL may have expired; begin again, or tell the provider",
            )
        raise StorageError(
            f"the storage failed with {reply.status} when asked for {path}{because}",
            hint="try again later; if it stays so, tell the provider",
        )

    def _ask(self, source: Source, start: int, end: int) -> Reply:
        most = max(source.size or _MOST_BYTES, end - start) + _LEAST_BYTES
        headers = {"Range": f"bytes={start}-{end - 1}", "Accept-Encoding": "identity"}
        return self._http.ask(Request("GET", source.url, headers, most_bytes=most))

    def _renewed(self, old: Source) -> Source:
        """The file's newest URL; whoever comes first asks the server, for all files at once."""
        with self._lock:
            now = self.source(old.place)
            if now.url == old.url:
                for line in self._renew():
                    # Only what is known already: the rest is not held twice.
                    for new in (line.data, line.vector):
                        if new is not None and new.place in self._sources:
                            self._sources[new.place] = new
            return self.source(old.place)


def _unlike(path: str, source: Source, how: str) -> CorruptLog:
    size = "some" if source.size is None else f"{source.size:,}"
    return CorruptLog(
        f"{path} has {how} than the {size} bytes that the server told",
        hint="it is not the file of the table; tell the provider",
    )


class RemoteFile(io.RawIOBase):
    """A file that is read in parts. Its size is told by the server's line, or by the storage."""

    def __init__(self, store: SharedStore, path: str):
        super().__init__()
        self._store = store
        self._path = path
        self._position = 0
        self._start, self._held = 0, b""
        self._whole: IO[bytes] | None = None
        size = store.source(path).size
        if size is None:
            reply, _ = store.read_range(path, 0, _LEAST_BYTES)
            size = reply.size if reply.status == 200 else _range_of(reply)[2]
            self._hold(reply, 0)
        self.size = size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        part = self.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)

    def read(self, size: int | None = -1) -> bytes:
        start = self._position
        end = self.size if size is None or size < 0 else min(start + size, self.size)
        if end <= start:
            return b""
        part = self._part(start, end)
        self._position = start + len(part)
        return part

    def _part(self, start: int, end: int) -> bytes:
        if self._whole is not None:
            self._whole.seek(start)
            return self._whole.read(end - start)
        if not (self._start <= start and end <= self._start + len(self._held)):
            self._fetch(start, end)
            if self._whole is not None:
                return self._part(start, end)
        return self._held[start - self._start : end - self._start]

    def _fetch(self, start: int, end: int) -> None:
        """Have at least these bytes: small files come whole, small parts with what follows."""
        if self.size <= _WHOLE_BYTES:
            start, end = 0, self.size
        elif end - start < _LEAST_BYTES:
            # The end of a file is where the reading of Parquet begins, from back to front.
            start = max(min(start, self.size - _LEAST_BYTES), 0)
            end = min(start + _LEAST_BYTES, self.size) if end < self.size else self.size
        reply, source = self._store.read_range(self._path, start, end)
        if reply.status == 206:
            first, last, total = _range_of(reply)
            if source.size is not None and total != source.size:
                raise _unlike(self._path, source, "less" if total < source.size else "more")
            if (first, last) != (start, end - 1) or reply.size != end - start:
                raise BadAnswer(f"the storage sends other bytes of {self._path} than were asked")
        elif reply.size != self.size:
            raise _unlike(self._path, source, "less" if reply.size < self.size else "more")
        self._hold(reply, start)

    def _hold(self, reply: Reply, start: int) -> None:
        """Keep what came; a storage that knows no parts gave the whole file."""
        if reply.status == 200:
            self._whole = reply.content
        else:
            self._start, self._held = start, reply.content.read()


def _range_of(reply: Reply) -> tuple[int, int, int]:
    match = _RANGE.fullmatch(reply.headers.get("content-range", ""))
    if match is None:
        raise BadAnswer("the storage does not say which part of the file it sends")
    first, last, total = map(int, match.groups())
    return first, last, total


__all__ = ["RemoteFile", "Renew", "SharedStore"]
