"""The folders of a table and of its branches (facts 1 and 5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from deltacli.errors import CorruptLog, FileMissing, NotFound, UsageError
from deltacli.paimon.schema_file import BadSchema, TableSchema, parse_schema
from deltacli.storage import Entry, LogStore, read_all
from deltacli.storage.patterns import DELTA, bears, is_there

MAIN = "main"
_VERSION = re.compile(r"schema-(0|[1-9][0-9]{0,18})")
_BRANCH = "branch-"
# Folders of snapshots and of copies of them, and the names in them.
_KINDS = {
    # Paimon marks tags that are complete in a folder beside them.
    "tag": re.compile(r"tag-(?!success-file$)(.+)"),
    "snapshot": re.compile(r"snapshot-(0|[1-9][0-9]{0,18})"),
    "changelog": re.compile(r"changelog-(0|[1-9][0-9]{0,18})"),
}


@dataclass(frozen=True, slots=True)
class SchemaEntry:
    """A schema file as it is listed."""

    id: int
    path: str
    size: int
    modified_ms: int | None


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A snapshot, or a copy of one in a tag or a changelog, as it is listed."""

    kind: str
    name: str
    path: str
    size: int
    modified_ms: int | None


@dataclass(frozen=True, slots=True)
class Branch:
    """One line of a table's history, with schemas of its own."""

    store: LogStore
    name: str = MAIN
    # The folders that were looked for, and of which not even a link is there.
    _absent: set[str] = field(default_factory=set, compare=False, repr=False)

    @property
    def main(self) -> Branch:
        return self if self.name == MAIN else Branch(self.store, MAIN, self._absent)

    def path(self, rest: str) -> str:
        return rest if self.name == MAIN else f"branch/{_BRANCH}{self.name}/{rest}"

    def schema_path(self, schema_id: int) -> str:
        return self.path(f"schema/schema-{schema_id}")

    @property
    def title(self) -> str:
        """The table, and the branch if it is not the main one."""
        location = self.store.location
        return location if self.name == MAIN else f"{location} (branch {self.name})"

    def entries(self, folder: str) -> list[Entry]:
        """What lies in one of the branch's folders; nothing if there is no such folder.

        Raises CorruptLog for something of that name that is no folder, such as a broken link.
        """
        path = self.path(folder)
        try:
            found = list(self.store.list_from(path))
        except FileMissing:
            # Where folders exist by themselves, one may be there and lead nowhere. All that
            # lies in the table is listed to see that: once is enough.
            if self.store.has_folders and path not in self._absent:
                if is_listed(self.store, path):
                    raise CorruptLog(
                        f"{path} is there and cannot be listed",
                        hint="it should be a folder; is something not mounted?",
                        location=self.store.location,
                    ) from None
                self._absent.add(path)
            return []
        self._absent.discard(path)
        return found

    def snapshots(self) -> Iterator[SnapshotFile]:
        """The files of tags, snapshots and changelogs.

        Raises CorruptLog for a folder that is called as one of them.
        """
        for kind in _KINDS:
            yield from self._files_of(kind)

    def has_snapshots(self) -> bool:
        return any(self._files_of("snapshot"))

    def _files_of(self, kind: str) -> Iterator[SnapshotFile]:
        for entry in self.entries(kind):
            match = _KINDS[kind].fullmatch(entry.name)
            if match is None:
                continue
            path = self.path(f"{kind}/{entry.name}")
            if entry.is_folder:
                raise CorruptLog(
                    f"{path} is a folder", hint="move it away", location=self.store.location
                )
            yield SnapshotFile(kind, match[1], path, entry.size, entry.modified_ms)


@dataclass(frozen=True)
class SchemaListing:
    """The versions of a branch's schema, ascending, and the names that are none."""

    branch: Branch
    entries: tuple[SchemaEntry, ...]
    ignored: tuple[str, ...] = ()

    @cached_property
    def by_id(self) -> dict[int, SchemaEntry]:
        return {one.id: one for one in self.entries}

    @property
    def newest(self) -> int:
        return self.entries[-1].id


def is_listed(store: LogStore, path: str) -> bool:
    """Whether the folder above has something of a name, whatever it is."""
    folder, _, name = path.rpartition("/")
    try:
        first = next(iter(store.list_from(folder, name)), None)
    except FileMissing:
        return False
    return first is not None and first.name == name


def branch_names(store: LogStore) -> list[str]:
    """All branches, the main one first."""
    try:
        entries = list(store.list_from("branch"))
    except FileMissing:
        return [MAIN]
    names = [
        entry.name.removeprefix(_BRANCH)
        for entry in entries
        if entry.is_folder and entry.name.startswith(_BRANCH)
    ]
    return [MAIN, *names]


def open_branch(store: LogStore, name: str | None = None) -> Branch:
    """A branch of a table, by default the main one.

    Raises NotFound, or UsageError for what is no name of one.
    """
    name = MAIN if name is None else name
    if not name or "/" in name or name in (".", ".."):
        raise UsageError(f"{name!r} is no name of a branch", hint="see the folder branch/")
    if name != MAIN:
        known = branch_names(store)
        if name not in known:
            raise NotFound(
                f"there is no branch {name!r} in {store.location}",
                hint=f"the branches are {', '.join(known)}",
                location=store.location,
            )
    return Branch(store, name)


def _schema_id(entry: Entry) -> int | None:
    """The version that a file of the folder is; None for other files."""
    match = _VERSION.fullmatch(entry.name)
    return int(match[1]) if match and not entry.is_folder else None


def newest_id(branch: Branch) -> int | None:
    """The id of the newest version, if there is one; no file is looked at for that."""
    ids = map(_schema_id, branch.entries("schema"))
    return max((one for one in ids if one is not None), default=None)


def list_schemas(branch: Branch) -> SchemaListing:
    """The schema files of a branch.

    Raises NotFound if there is none, UsageError where the folder itself is a branch.
    """
    entries, ignored = [], []
    for entry in branch.entries("schema"):
        number = _schema_id(entry)
        if number is None:
            ignored.append(entry.name)
        else:
            path = branch.schema_path(number)
            entries.append(SchemaEntry(number, path, entry.size, entry.modified_ms))
    if not entries:
        raise _no_table(branch)
    above, _, own = branch.store.location.rpartition("/")
    if own.startswith(_BRANCH) and above.endswith("/branch"):
        raise UsageError(
            f"{branch.store.location} is a branch of a table",
            hint=f"name the table, and --branch {own.removeprefix(_BRANCH)}",
            location=branch.store.location,
        )
    entries.sort(key=lambda one: one.id)
    return SchemaListing(branch, tuple(entries), tuple(ignored))


def _no_table(branch: Branch) -> NotFound:
    store = branch.store
    if not is_there(store):
        return NotFound(
            f"{branch.title} does not exist", hint="check the path", location=store.location
        )
    hint = "name the folder in which schema/ and snapshot/ lie"
    if bears(store, DELTA):
        hint = (
            "it is a Delta table: `deltacli snapshot` shows its schema, `deltacli paimon convert` "
            "makes one for Paimon of it"
        )
    return NotFound(
        f"{branch.title} is not a Paimon table: it has no schema/schema-N",
        hint=hint,
        location=store.location,
    )


def read_schemas(
    listing: SchemaListing, before: int | None = None
) -> Iterator[tuple[SchemaEntry, TableSchema | BadSchema]]:
    """Each version with what is in its file, ascending, or those before one.

    Errors of the storage are raised.
    """
    entries = [one for one in listing.entries if before is None or one.id < before]
    contents = read_all(listing.branch.store, [one.path for one in entries])
    for entry, (_, content) in zip(entries, contents, strict=True):
        if not isinstance(content, bytes):
            raise content
        try:
            yield entry, parse_schema(content)
        except BadSchema as error:
            yield entry, error


def load_schema(listing: SchemaListing, schema_id: int | None = None) -> TableSchema:
    """One version, by default the newest. Raises NotFound, or CorruptLog for a broken file."""
    chosen = listing.newest if schema_id is None else schema_id
    if chosen not in listing.by_id:
        ids = [one.id for one in listing.entries]
        raise NotFound(
            f"{listing.branch.title} has no schema {chosen}",
            hint=f"the only one is {ids[0]}"
            if len(ids) == 1
            else f"there are {len(ids)} from {ids[0]} to {ids[-1]}; see `deltacli paimon list`",
            location=listing.branch.store.location,
        )
    entry = listing.by_id[chosen]
    try:
        return parse_schema(listing.branch.store.read(entry.path))
    except BadSchema as error:
        raise _broken(listing.branch, entry, error) from None


def load_all(listing: SchemaListing) -> dict[int, TableSchema]:
    """All versions by their ids. Raises CorruptLog for a broken file."""
    found = {}
    for entry, schema in read_schemas(listing):
        if isinstance(schema, BadSchema):
            raise _broken(listing.branch, entry, schema)
        found[entry.id] = schema
    return found


def _broken(branch: Branch, entry: SchemaEntry, error: BadSchema) -> CorruptLog:
    return CorruptLog(
        f"{entry.path} cannot be read: {error}",
        hint="restore the file from a backup; `deltacli paimon validate` shows all that is wrong",
        location=branch.store.location,
    )
