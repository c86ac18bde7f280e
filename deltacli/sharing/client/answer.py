"""An answer about a table: its head at once, its files as they are asked for, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from deltacli.sharing.client.pages import followed

_MOST_LINE = 64 << 20
_BLOCK = 1 << 20
ID_HASH = "fileidhash"


@dataclass(frozen=True, slots=True)
class Page:
    """One reply, known to be whole: after its head, the lines of `content` from `start` on.

    `ids_are_fixed`: files have the same ids in both formats.
    """

    version: int
    head: tuple[ToldProtocol, Definition]
    content: IO[bytes]
    start: int
    end: End
    ids_are_fixed: bool


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

    @property
    def ids_of(self) -> str | None:
        """The format in which files have these ids; None if that is so in all of them."""
        return None if self.first.ids_are_fixed else self.protocol.response_format

    def lines(self) -> Iterator[FileLine | Definition]:
        """The files, and definitions that changed in between; all pages, from the first."""
        pages = followed(
            self.first, lambda page: page.end.page_token, self.next_page, "the answer's last page"
        )
        for page, note in pages:
            if page.version != self.version:
                raise BadAnswer("the table's version changes from page to page")
            has_ended = False
            for line, _ in _lines_of(page.content, page.start):
                if has_ended:
                    raise BadAnswer("the answer goes on after its end")
                has_ended = isinstance(line, End)
                if isinstance(line, FileLine):
                    note()
                if isinstance(line, FileLine | Definition):
                    yield line

    def files(self) -> Iterator[FileLine]:
        for line in self.lines():
            if isinstance(line, FileLine):
                yield line

    def live_files(self) -> Iterator[FileLine]:
        """The files of a snapshot, each told once."""
        seen: set[str] = set()
        for line in self.files():
            if line.action == "add":
                if line.id in seen:
                    raise BadAnswer(f"the answer tells the file {line.id[:64]!r} twice")
                seen.add(line.id)
                yield line


def read_page(reply: Reply) -> Page:
    """A reply with status 200 as a page, after a look at its beginning and its end."""
    version = version_of(reply)
    end = _end_of(reply)
    lines = _lines_of(reply.content, 0)
    (protocol, _), (definition, start) = next(lines, (None, 0)), next(lines, (None, 0))
    if not isinstance(protocol, ToldProtocol) or not isinstance(definition, Definition):
        raise BadAnswer("the answer does not begin with protocol and metaData")
    fixed = reply.headers.get(ID_HASH, "").strip().lower() != ""
    return Page(version, (protocol, definition), reply.content, start, end, fixed)


def version_of(reply: Reply) -> int:
    text = reply.headers.get("delta-table-version", "").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) < 2**63):
        raise BadAnswer("the answer has no Delta-Table-Version")
    return int(text)


def _lines_of(content: IO[bytes], start: int) -> Iterator[tuple[Line, int]]:
    """The known lines from a place on, each with the place after it."""
    for text, place in _texts_of(content, start):
        line = parse_line(text) if text.strip() else None
        if line is not None:
            yield line, place


def _texts_of(content: IO[bytes], start: int) -> Iterator[tuple[bytes, int]]:
    # Others may read the same content meanwhile: the place is kept here.
    place = read = start
    rest = b""
    while True:
        content.seek(read)
        block = content.read(_BLOCK)
        read += len(block)
        *texts, rest = (rest + block).split(b"\n")
        for text in texts:
            place += len(text) + 1
            yield text, place
        if not block:
            yield rest, place + len(rest)
            return
        if len(rest) > _MOST_LINE:
            raise BadAnswer(f"a line of the answer is longer than {_MOST_LINE:,} bytes")


def _end_of(reply: Reply) -> End:
    """The last line, if it is an end.

    Raises StorageError if it says that something went wrong, or is missing where it was promised.
    """
    last = _last_text(reply)
    end = parse_line(last) if b'"endStreamAction"' in last else None
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


def _last_text(reply: Reply) -> bytes:
    """The last line that is not empty, as far as a line may go."""
    tail = 1 << 16
    while True:
        first = max(reply.size - tail, 0)
        reply.content.seek(first)
        before, newline, last = reply.content.read().rstrip().rpartition(b"\n")
        if newline or not first or tail > _MOST_LINE:
            return last or before
        tail *= 16
