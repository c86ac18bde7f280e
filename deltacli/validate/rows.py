"""The rows of data files, beside what the log and the schema say of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from deltacli.delta import json_text
from deltacli.delta.bitmaps import RowSet
from deltacli.delta.references import speaks_of
from deltacli.delta.scan import Files
from deltacli.delta.schema import Field, Primitive, Struct
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.stats import parse_stats, stats_of_struct
from deltacli.errors import CorruptLog, DeltaCliError, FileMissing
from deltacli.validate.commits import Body
from deltacli.validate.definition import Definition, Path, dotted

if TYPE_CHECKING:
    from deltacli.spark.verify import FileFacts

_FILES_AT_ONCE = 2000
NOT_NULL, CHECK, INVARIANT, GENERATED = (
    "NOT NULL", "CHECK constraint", "invariant", "generated column",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold for every row: of which kind, of what, in SQL."""

    kind: str
    name: str
    sql: str


@dataclass(frozen=True)
class FileRows:
    """A live file and the truth about its rows; or why they cannot be read."""

    add: Body
    facts: FileFacts | None
    error: str | None
    definition: Definition
    version: int
    conditions: Sequence[Condition] = ()
    unusable: Mapping[str, str] = field(default_factory=dict)

    file: None = None

    @property
    def path(self) -> str:
        path: str = self.add["path"]
        return path

    @cached_property
    def stats(self) -> Mapping[str, Any]:
        text = self.add.get("stats")
        found = parse_stats(text) if isinstance(text, str) and text else None
        return found or stats_of_struct(self.add.get("stats_parsed")) or {}

    @property
    def is_tight(self) -> bool:
        return self.stats.get("tightBounds") is not False

    @property
    def records(self) -> int | None:
        found = self.stats.get("numRecords")
        return found if type(found) is int else None

    def columns(self) -> Iterator[tuple[Path, Field, Any]]:
        """The columns that were looked into: by the names of statistics, with their facts."""
        if self.facts is None or self.definition.schema is None:
            return
        for path, facts in self.facts.columns.items():
            found = _physical(self.definition.schema, path, is_mapped=self.definition.is_mapped)
            if found is not None:
                yield found[0], found[1], facts

    def stated(self, kind: str, path: Path) -> Any:
        """What the statistics say at a path."""
        tree: Any = self.stats.get(kind)
        for name in path:
            tree = tree.get(name) if isinstance(tree, Mapping) else None
        return tree


def _physical(schema: Struct, path: Path, *, is_mapped: bool) -> tuple[Path, Field] | None:
    """A column by the names that files use, and its field."""
    names: list[str] = []
    one: Field | None = None
    kind: Any = schema
    for step in path:
        if not isinstance(kind, Struct):
            return None
        one = kind[step]
        names.append(one.physical_name if is_mapped else one.name)
        kind = one.type
    return None if one is None else (tuple(names), one)


@dataclass(frozen=True)
class Vector:
    """The deletion vector of a live file, read; or why it cannot be."""

    add: Body
    rows: RowSet | None
    error: str | None
    version: int

    file: None = None

    @property
    def path(self) -> str:
        path: str = self.add["path"]
        return path

    @property
    def is_sound(self) -> bool:
        """Whether readers take the vector."""
        return self.rows is not None and len(self.rows) == self.descriptor["cardinality"]

    @property
    def descriptor(self) -> Body:
        body: Body = self.add["deletionVector"]
        return body


def conditions_of(definition: Definition) -> Iterator[Condition]:
    """Everything that the schema and its properties demand of rows."""
    schema = definition.schema
    if schema is None:
        return
    for one in schema.fields:
        if not one.nullable:
            yield Condition(NOT_NULL, dotted((one.name,)), f"{_quoted(one.name)} IS NOT NULL")
        invariant = _invariant(one.metadata.get("delta.invariants"))
        if invariant:
            yield Condition(INVARIANT, dotted((one.name,)), invariant)
        formula = one.metadata.get("delta.generationExpression")
        # What a time is in the writer's zone nobody else knows.
        if (
            isinstance(formula, str)
            and formula
            and not any(
                other.type == Primitive("timestamp") and speaks_of(formula, (other.name,))
                for other in schema.fields
            )
        ):
            yield Condition(GENERATED, dotted((one.name,)), f"{_quoted(one.name)} <=> ({formula})")
    for key, value in definition.configuration.items():
        if key.lower().startswith("delta.constraints."):
            yield Condition(CHECK, key[len("delta.constraints.") :], value)


def _invariant(text: Any) -> str | None:
    if not isinstance(text, str):
        return None
    try:
        tree = json_text.load(text)
        found = tree["expression"]["expression"]
    except (ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@dataclass
class RowReader:
    """Looks into rows by Spark, some files at a time."""

    snapshot: Snapshot
    definition: Definition
    spark: Callable[[], Any]
    options: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _files(self) -> Files:
        return Files(self.snapshot, self.options)

    @cached_property
    def conditions(self) -> tuple[list[Condition], dict[str, str]]:
        """The conditions that Spark understands, and why it does not the others."""
        from deltacli.spark.verify import is_condition

        usable: list[Condition] = []
        unusable: dict[str, str] = {}
        for one in conditions_of(self.definition):
            reason = is_condition(self.spark(), self._files, one.sql)
            if reason is None:
                usable.append(one)
            else:
                unusable[f"{one.kind} {one.name}"] = reason
        return usable, unusable

    def of(
        self, adds: Iterable[Body], on_read: Callable[[int], None] | None = None
    ) -> Iterator[FileRows]:
        stream = iter(adds)
        count = 0
        while block := list(islice(stream, _FILES_AT_ONCE)):
            yield from self._block(block)
            count += len(block)
            if on_read:
                on_read(count)

    def _block(self, adds: list[Body]) -> Iterator[FileRows]:
        from deltacli.spark.verify import look_into_rows

        usable, unusable = self.conditions
        tests = {str(number): one.sql for number, one in enumerate(usable)}
        try:
            chosen = [self._files.of_action(one) for one in adds]
            found = list(look_into_rows(self.spark(), self._files, chosen, expressions=tests))
        except DeltaCliError as error:
            # One file that cannot be read must not hide the others.
            if len(adds) == 1:
                yield self._rows(adds[0], None, error.message, usable, unusable)
                return
            middle = len(adds) // 2
            yield from self._block(adds[:middle])
            yield from self._block(adds[middle:])
            return
        for add, facts in zip(adds, found, strict=True):
            yield self._rows(add, facts, None, usable, unusable)

    def _rows(
        self,
        add: Body,
        facts: FileFacts | None,
        error: str | None,
        usable: Sequence[Condition],
        unusable: Mapping[str, str],
    ) -> FileRows:
        version = self.snapshot.version
        return FileRows(add, facts, error, self.definition, version, usable, unusable)

    def vectors(self, adds: Iterable[Body]) -> Iterator[Vector]:
        """The deletion vectors of live files; missing files are told by another level."""
        for add in adds:
            if not add.get("deletionVector"):
                continue
            descriptor = {
                key: value for key, value in add["deletionVector"].items() if value is not None
            }
            body = {**add, "deletionVector": descriptor}
            try:
                rows = self._files.places.stored_rows(descriptor)
            except CorruptLog as error:
                if isinstance(error.__cause__, FileMissing):
                    continue
                yield Vector(body, None, error.message, self.snapshot.version)
                continue
            except FileMissing:
                continue
            yield Vector(body, rows, None, self.snapshot.version)
