"""What one task reads: some files, with all that it takes to read them anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deltacli.delta.actions import Metadata, Protocol
from deltacli.delta.scan import CHANGE_FIELDS, Files
from deltacli.delta.schema import Struct
from deltacli.errors import Refused
from deltacli.local.scan import read_rows
from deltacli.sharing.client.messages import FileLine
from deltacli.sharing.client.rows import Renewal, SharedVersion, changed_files
from deltacli.sharing.client.store import SharedStore

# A file takes about as long as so many bytes of it.
_OPENING_BYTES = 4 << 20
_MOST_FILES = 1000


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one version. Of a commit whose changes are read, `changes_of` is its version."""

    protocol: Protocol
    metadata: Metadata
    lines: tuple[FileLine, ...]
    changes_of: int | None = None

    @property
    def size(self) -> int:
        return sum(_OPENING_BYTES + (one.data.size or 0) for one in self.lines)


@dataclass(frozen=True, slots=True)
class Part:
    """`renewal` asks for the same files, where their URLs have ended."""

    renewal: Renewal
    groups: tuple[Group, ...]


def read_part(part: Part, wanted: Struct) -> Iterator[Any]:
    """The rows as record batches of the wanted columns; what a version has not is null."""
    store = SharedStore(part.renewal.server.http, part.renewal)
    for group in part.groups:
        version = SharedVersion(store, group.protocol, group.metadata, 0, tuple, part.renewal)
        own = {one.name.lower(): one for one in version.schema.fields}
        columns = Struct(tuple(own.get(one.name.lower(), one) for one in wanted.fields))
        files = Files(version)
        for line in group.lines:
            store.take(line)
        if group.changes_of is None:
            scans = [files.of_action(line.body) for line in group.lines]
        else:
            scans = changed_files(files, group.changes_of, group.lines)
        yield from read_rows(files, scans, columns)


def parts_of(renewal: Renewal, groups: Iterable[Group], most_bytes: int) -> Iterator[Part]:
    """The groups, cut into parts of about one size."""
    held: list[Group] = []
    size = count = 0
    for group in groups:
        for piece in _pieces(group, most_bytes):
            if held and (size + piece.size > most_bytes or count >= _MOST_FILES):
                yield Part(renewal, tuple(held))
                held, size, count = [], 0, 0
            held.append(piece)
            size += piece.size
            count += len(piece.lines)
    if held:
        yield Part(renewal, tuple(held))


def _pieces(group: Group, most_bytes: int) -> Iterator[Group]:
    """A group in pieces; what says something about one file stays together."""
    held: list[FileLine] = []
    size = 0
    by_file: dict[str, list[FileLine]] = {}
    for line in group.lines:
        by_file.setdefault(line.id, []).append(line)
    for lines in by_file.values():
        own = sum(_OPENING_BYTES + (one.data.size or 0) for one in lines)
        if held and (size + own > most_bytes or len(held) >= _MOST_FILES):
            yield _with(group, held)
            held, size = [], 0
        held += lines
        size += own
    if held:
        yield _with(group, held)


def _with(group: Group, lines: Sequence[FileLine]) -> Group:
    return Group(group.protocol, group.metadata, tuple(lines), group.changes_of)


def telling(lines: Sequence[FileLine]) -> tuple[FileLine, ...]:
    """Those lines of one commit that say what changed: change data alone where there is any."""
    return tuple(one for one in lines if one.action == "cdc") or tuple(lines)


def with_changes(schema: Struct) -> Struct:
    """A schema and what changed rows have besides. Raises Refused if it has such names."""
    taken = {one.name.lower() for one in schema.fields}
    for one in CHANGE_FIELDS:
        if one.name in taken:
            raise Refused(
                f"the table has a column {one.name} of its own, and changes have one as well",
                hint="its changes cannot be told; read versions",
            )
    return Struct((*schema.fields, *CHANGE_FIELDS))
