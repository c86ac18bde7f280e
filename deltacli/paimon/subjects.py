"""What the rules look at: files, schemas, steps from one to the next, and what refers to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from deltacli.errors import DeltaCliError
from deltacli.paimon.options import Options
from deltacli.paimon.schema_file import BadSchema, TableSchema
from deltacli.paimon.table import SchemaEntry, SchemaListing
from deltacli.paimon.types import walk_fields


@dataclass(frozen=True)
class SchemaFolder:
    """All that lies in a branch's folder of schemas."""

    listing: SchemaListing
    file: str | None = None
    version: int | None = None


@dataclass(frozen=True)
class SchemaFile:
    """A file, and what could be made of it."""

    entry: SchemaEntry
    content: TableSchema | BadSchema
    is_newest: bool

    @property
    def file(self) -> str:
        return self.entry.path

    @property
    def version(self) -> int:
        return self.entry.id


@dataclass(frozen=True)
class Schema:
    """A schema that can be read."""

    # What is wrong with one version mostly is with those after it.
    repeats = True

    file: str
    version: int
    schema: TableSchema
    branches: tuple[str, ...] = ()

    @cached_property
    def options(self) -> Options:
        return Options(self.schema.effective_options)

    def missing(self, names: Iterable[str]) -> list[str]:
        """The names that are no columns, each once."""
        return [name for name in dict.fromkeys(names) if name not in self.schema.by_name]

    @cached_property
    def ids(self) -> Mapping[int, list[str]]:
        """Every field id with the columns that have it."""
        found: dict[int, list[str]] = {}
        for path, one in walk_fields(self.schema.fields):
            found.setdefault(one.id, []).append(".".join(path))
        return found


@dataclass(frozen=True)
class Step:
    """Two versions of which one came after the other, in the order of their ids."""

    file: str
    version: int
    before: TableSchema
    after: TableSchema
    before_id: int
    dropped: Mapping[int, int]


@dataclass(frozen=True)
class Unreferenced:
    """Why it is not known which versions are needed."""

    error: DeltaCliError
    file: str | None = None
    version: int | None = None


@dataclass(frozen=True)
class MissingSchema:
    """A version that is needed, and by what; its file is not there."""

    id: int
    needed_by: str
    file: str
    version: int
