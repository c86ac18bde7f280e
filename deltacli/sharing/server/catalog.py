"""What is shared: shares, schemas and tables by name, patterns resolved to their tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from deltacli.errors import DeltaCliError, NotFound
from deltacli.sharing.names import name_problem, same_name
from deltacli.sharing.server.config import Config, SchemaEntry, ShareEntry, TableEntry
from deltacli.storage.patterns import matching_tables


@dataclass(frozen=True, slots=True)
class TableName:
    """The whole name of a shared table, as configured."""

    share: str
    schema: str
    table: str

    @property
    def key(self) -> tuple[str, str, str]:
        """The form in which two spellings are equal."""
        return same_name(self.share), same_name(self.schema), same_name(self.table)

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"


@dataclass(frozen=True)
class Schema:
    name: str
    tables: dict[str, TableEntry] = field(default_factory=dict)


@dataclass(frozen=True)
class Share:
    name: str
    id: str | None
    schemas: dict[str, Schema] = field(default_factory=dict)


@dataclass(frozen=True)
class Catalog:
    """Everything shared, by name; each mapping is in the order of its keys."""

    shares: dict[str, Share]
    warnings: tuple[str, ...] = ()

    def share(self, name: str) -> Share | None:
        return self.shares.get(same_name(name))

    def table(self, share: str, schema: str, table: str) -> tuple[TableName, TableEntry] | None:
        found_share = self.share(share)
        found_schema = found_share.schemas.get(same_name(schema)) if found_share else None
        entry = found_schema.tables.get(same_name(table)) if found_schema else None
        if not (found_share and found_schema and entry):
            return None
        return TableName(found_share.name, found_schema.name, entry.name or ""), entry

    def tables(self) -> Iterable[tuple[TableName, TableEntry]]:
        for share in self.shares.values():
            for schema in share.schemas.values():
                for entry in schema.tables.values():
                    yield TableName(share.name, schema.name, entry.name or ""), entry


def build_catalog(config: Config) -> Catalog:
    """The catalog of a configuration as storage is now.

    A pattern that matches nothing is an empty schema with a warning: its tables may come.
    """
    warnings: list[str] = []
    shares = {same_name(one.name): _share(one, warnings) for one in config.shares}
    return Catalog(dict(sorted(shares.items())), tuple(warnings))


def _share(entry: ShareEntry, warnings: list[str]) -> Share:
    schemas = {
        same_name(one.name): Schema(one.name, _tables(one, f"{entry.name}.{one.name}", warnings))
        for one in entry.schemas
    }
    return Share(entry.name, entry.id, dict(sorted(schemas.items())))


def _tables(schema: SchemaEntry, where: str, warnings: list[str]) -> dict[str, TableEntry]:
    found = {same_name(one.name): one for one in schema.tables if one.name is not None}
    for entry in schema.tables:
        if entry.name is None:
            for one in _matching(entry, where, warnings):
                name = one.name or ""
                other = found.setdefault(same_name(name), one)
                if other is not one and other.location != one.location:
                    warnings.append(
                        f"{where}: {one.location} is not shared: {other.name!r} is another table"
                    )
    return dict(sorted(found.items()))


def _matching(entry: TableEntry, where: str, warnings: list[str]) -> Iterable[TableEntry]:
    """The tables of a pattern, called as their folders are."""
    try:
        locations = matching_tables(entry.location, entry.storage_options)
    except NotFound as error:
        warnings.append(f"{where}: {error.message}")
        return
    except DeltaCliError as error:
        warnings.append(f"{where}: the pattern {entry.location} fails: {error.message}")
        return
    for location in locations:
        name = location.rstrip("/").rsplit("/", 1)[-1]
        problem = name_problem(name, may_have_dots=False)
        if problem:
            warnings.append(
                f"{where}: {location} is not shared: its name cannot be used, {problem}"
            )
            continue
        yield replace(entry, location=location, name=name)
