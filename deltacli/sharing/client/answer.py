"""An answer about a table: its head at once, its files as they are asked for, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import IO

from deltacli.errors import StorageError
from deltacli.sharing.client.http import BadAnswer, Reply
from deltacli.sharing.client.messages import (
    Definition,
    End,
    FileLine,
    Line,
    ToldProtocol,
    parse_line,
)

_MOST_LINE = 64 << 20
_MOST_PAGES = 100_000
# So many pages without a file are the work of a server that never ends.
_MOST_EMPTY = 100
_TAIL = 1 << 16


@dataclass(frozen=True, slots=True)
class Page:
    """One reply, known to be whole: after its head, the lines of `content` from `start` on."""

    version: int
    head: tuple[ToldProtocol, Definition]
    content: IO[bytes]
    start: int
    end: End


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server tells of a table.

    The version is that of the header; `lines` are those after the head.
    """

    first: Page
    next_page: Callable[[str], Page]

    @property
    def version(self) -> int:
        return self.first.version

    @property
    def protocol(self) -> ToldProtocol:
        return self.first.head[0]

    @property
    def definition(self) -> Definition:
        return self.first.head[1]

    @property
    def refresh_token(self) -> str | None:
        """What pins the version in a request for new URLs."""
        return self.first.end.refresh_token

    def lines(self) -> Iterator[FileLine | Definition]:
        """The files, and definitions that changed in between; all pages, from the first."""
        page, seen, empty = self.first, set[str](), 0
        while True:
            has_files = False
            for line in _lines_of(page.content, page.start):
                if isinstance(line, FileLine | Definition):
                    has_files = has_files or isinstance(line, FileLine)
                    yield line
            token = page.end.page_token
            if token is None:
                return
            empty = 0 if has_files else empty + 1
            if token in seen or empty > _MOST_EMPTY or len(seen) >= _MOST_PAGES:
                raise BadAnswer("the pages of the answer never end")
            seen.add(token)
            page = self.next_page(token)
            if page.version != self.version:
                raise BadAnswer("the table's version changes from page to page")

    def files(self) -> Iterator[FileLine]:
        for line in self.lines():
            if isinstance(line, FileLine):
                yield line


def read_page(reply: Reply) -> Page:
    """A reply with status 200 as a page, after a look at its beginning and its end."""
    version = version_of(reply)
    end = _end_of(reply)
    told = list(islice(_lines_of(reply.content, 0), 2))
    protocol, definition = told if len(told) == 2 else (None, None)
    if not isinstance(protocol, ToldProtocol) or not isinstance(definition, Definition):
        raise BadAnswer("the answer does not begin with protocol and metaData")
    return Page(version, (protocol, definition), reply.content, reply.content.tell(), end)


def _lines_of(content: IO[bytes], start: int) -> Iterator[Line]:
    """The known lines from a place on."""
    content.seek(start)
    while text := content.readline(_MOST_LINE + 1):
        if len(text) > _MOST_LINE:
            raise BadAnswer(f"a line of the answer is longer than {_MOST_LINE:,} bytes")
        line = parse_line(text) if text.strip() else None
        if line is not None:
            yield line


def version_of(reply: Reply) -> int:
    text = reply.headers.get("delta-table-version", "").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadAnswer("the answer has no Delta-Table-Version")
    return int(text)


def _end_of(reply: Reply) -> End:
    """The last line, if it is an end.

    Raises StorageError if it says that something went wrong, or is missing where it was promised.
    """
    reply.content.seek(max(reply.size - _TAIL, 0))
    last = reply.content.read().rstrip(b"\r\n").rpartition(b"\n")[2]
    end = parse_line(last) if last.lstrip().startswith(b'{"endStreamAction"') else None
    if isinstance(end, End):
        if end.error is not None:
            raise StorageError(
                f"the server broke off its answer: {end.error}", hint="try again later"
            )
        return end
    promised = reply.headers.get("delta-sharing-capabilities", "").lower().replace(" ", "")
    if "includeendstreamaction=true" in promised.split(";"):
        raise StorageError(
            "the answer is cut off: its last line is missing", hint="try again later"
        )
    return End()
