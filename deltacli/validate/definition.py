"""Protocol and metadata in force from a version on, read as far as they can be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from deltacli.checking.model import Finding
from deltacli.delta import json_text
from deltacli.delta.actions import DomainMetadata, Metadata, Protocol
from deltacli.delta.column_mapping import MODE
from deltacli.delta.column_paths import fields_of
from deltacli.delta.features import supported_features
from deltacli.delta.properties import read_tolerantly
from deltacli.delta.schema import BadSchema, Field, Struct, parse_schema, walk

Path = tuple[str, ...]
CLUSTERING, ROW_TRACKING = "delta.clustering", "delta.rowTracking"


@dataclass(frozen=True)
class Definition:
    """What a table is from `version` on; `before` is what it was, if that is known.

    `file` and the lines say where that stands. A commit that `replaces_all` begins a new
    table in the place of the old one.
    """

    # What is wrong with one mostly is with those after it.
    repeats = True

    version: int
    file: str
    protocol: Protocol | None
    metadata: Metadata | None
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    before: Definition | None = None
    operation: str | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    replaces_all: bool = False

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.metadata.configuration if self.metadata else {}

    @cached_property
    def features(self) -> frozenset[str]:
        return frozenset(supported_features(self.protocol)) if self.protocol else frozenset()

    def setting(self, key: str) -> Any:
        """A property as a value, its default where it cannot be read."""
        return read_tolerantly(self.configuration, key, [])

    def is_on(self, key: str) -> bool:
        """Whether a property is true; upper and lower case do not count."""
        return self.configuration.get(key, "").strip().lower() == "true"

    def finding(self, message: str) -> Finding:
        """What is wrong with the metadata, at the line that says it."""
        return Finding(message, line=self.lines.get("metaData"))

    @property
    def mode(self) -> str:
        return self.configuration.get(MODE, "none").strip().lower()

    @property
    def is_mapped(self) -> bool:
        return self.mode in ("name", "id")

    @property
    def is_iceberg(self) -> bool:
        """Whether some version of Iceberg's compatibility is enabled."""
        return any(self.is_on(f"delta.enableIcebergCompat{one}") for one in ("V1", "V2", "V3"))

    @cached_property
    def has_own_physical_names(self) -> bool:
        """Whether no physical name is a logical one too.

        Where mapping was switched on later, a column's old name may be that of another by now.
        """
        if not self.is_mapped or self.schema is None:
            return False
        return all(one.physical_name != one.name for _, one in walk(self.schema))

    @property
    def is_replaced(self) -> bool:
        """Whether the table of before is another one: its files are gone."""
        old = self.before
        if old is None or self.replaces_all:
            return True
        if old.metadata and self.metadata and old.metadata.id != self.metadata.id:
            return True
        return self.is_replaced_by_name

    @property
    def is_replaced_by_name(self) -> bool:
        """Whether the operation says so."""
        operation = (self.operation or "").upper()
        return any(one in operation for one in _REPLACING)

    @property
    def is_news(self) -> bool:
        """Whether there is more to it than another high-water mark."""
        old = self.before
        return old is None or (
            (self.protocol, self.metadata) != (old.protocol, old.metadata)
            or self.domains.get(CLUSTERING) != old.domains.get(CLUSTERING)
        )

    @property
    def schema_or_error(self) -> Struct | str | None:
        text = self.metadata.schema_string if self.metadata else None
        return None if text is None else _parsed(text)

    @property
    def schema(self) -> Struct | None:
        found = self.schema_or_error
        return found if isinstance(found, Struct) else None

    @property
    def tree(self) -> Any:
        """The schema's JSON as it stands; None where it is none."""
        text = self.metadata.schema_string if self.metadata else None
        return None if text is None or self.schema is None else _tree(text)

    def fields(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Every field of the schema's JSON, at every depth."""
        return fields_of(self.tree)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return self.metadata.partition_columns if self.metadata else ()

    @cached_property
    def partitions(self) -> Mapping[str, Field]:
        """The partition columns that the schema has, by the names that files use."""
        if self.schema is None:
            return {}
        found = {}
        for one in self.schema.fields:
            if one.name in self.partition_columns:
                found[one.physical_name if self.is_mapped else one.name] = one
        return found

    @cached_property
    def clustering(self) -> tuple[Path, ...] | None:
        """The clustering columns by the names that files use; None for a table without."""
        configuration = self.domain(CLUSTERING)
        columns = configuration.get("clusteringColumns") if configuration else None
        if not isinstance(columns, list):
            return None
        return tuple(
            tuple(str(step) for step in one) if isinstance(one, list) else (str(one),)
            for one in columns
        )

    def domain(self, name: str) -> Mapping[str, Any] | None:
        """The configuration of a domain of the protocol's own, if it is JSON."""
        one = self.domains.get(name)
        if one is None or one.removed:
            return None
        try:
            found = json_text.load(one.configuration)
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    @property
    def is_new_schema(self) -> bool:
        """Whether the schema is another than before, or the first that is known."""
        old = self.before.metadata if self.before else None
        return (
            old is None
            or self.metadata is None
            or old.schema_string != (self.metadata.schema_string)
        )

    def own_fields(self) -> Mapping[str, Field]:
        """The fields of the table that hold values of rows, by lower-case name."""
        return {one.name.lower(): one for one in self.schema.fields} if self.schema else {}


_REPLACING = ("REPLACE", "CREATE", "RESTORE", "CLONE", "OVERWRITE")


# Mostly one definition after the other has the same schema.
@lru_cache(maxsize=4)
def _parsed(text: str) -> Struct | str:
    try:
        return parse_schema(text)
    except BadSchema as error:
        return str(error)


@lru_cache(maxsize=4)
def _tree(text: str) -> Any:
    return json_text.load_faithful(text.encode("utf-8", "surrogatepass"))


def same_schema(one: str | None, other: str | None) -> bool:
    """Whether two schemas are the same JSON, however they are written."""
    if one is None or other is None:
        return one is other
    try:
        return bool(_tree(one) == _tree(other))
    except ValueError:
        return False


def type_of(tree: Any) -> str:
    """How the type of a field's JSON is called, for messages."""
    return (
        tree
        if isinstance(tree, str)
        else str(tree.get("type"))
        if isinstance(tree, Mapping)
        else str(tree)
    )


def dotted(path: Path) -> str:
    return ".".join(f"`{one}`" if re.search(r"[^\w]", one) else one for one in path)
