"""Which files of a version an answer needs: by the provider's filter and the client's hints."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from deltacli.delta import json_text
from deltacli.delta.partitions import partition_value
from deltacli.delta.predicates import Condition, NotSimple, columns_of, parse_condition
from deltacli.delta.schema import Primitive, Struct, walk
from deltacli.delta.skipping import always_matches, may_match
from deltacli.delta.stats import parse_stats
from deltacli.errors import Refused

_MOST_REMEMBERED = 100_000
_MOST_SECONDS = 5.0
# What compares in a partition without any doubt.
_EXACT = ("byte", "short", "integer", "long", "string", "boolean", "date")


class Partitions:
    """The partition columns of a version: logical name -> key in the log and type."""

    def __init__(self, schema: Struct, columns: Sequence[str], *, is_mapped: bool):
        self.schema = schema
        self.is_mapped = is_mapped
        fields = {one.name: one for one in schema.fields}
        self.keys = {
            name: fields[name].physical_name if is_mapped and name in fields else name
            for name in columns
        }
        self._types = {
            name: fields[name].type if name in fields else Primitive("string") for name in columns
        }

    def values(self, texts: Mapping[str, Any]) -> dict[str, Any]:
        """Typed values by logical name; what cannot be read stays text, which tells nothing."""
        typed = {}
        for name, key in self.keys.items():
            text = texts.get(key)
            try:
                typed[name] = partition_value(text, self._types[name])
            except ValueError:
                typed[name] = text
        return typed


class Filter:
    """A provider's condition on partition columns: only what surely fulfils it is shared."""

    def __init__(self, text: str, partitions: Partitions):
        try:
            self._condition = parse_condition(text)
        except NotSimple as error:
            raise Refused(f"the partition filter is not understood: {error}") from None
        names = {name.lower(): name for name in partitions.keys}
        types = {one.name: one.type for one in partitions.schema.fields}
        for column in columns_of(self._condition):
            name = names.get(column.path[0].lower()) if len(column.path) == 1 else None
            if name is None:
                raise Refused("the partition filter names a column that is no partition column")
            kind = types[name]
            if not isinstance(kind, Primitive) or kind.name not in _EXACT:
                raise Refused(
                    f"a partition filter takes whole numbers, texts, dates and booleans, and "
                    f"{name} is none of them"
                )
        self._partitions = partitions
        self._known: dict[str, bool] = {}

    def shares(self, partition: str) -> bool:
        """Whether files with these partition values, a JSON object, are shared."""
        known = self._known.get(partition)
        if known is None:
            values = self._partitions.values(json_text.load(partition))
            known = always_matches(self._condition, self._partitions.schema, values)
            _remember(self._known, partition, known)
        return known


class Sieve:
    """Lets through the files that may hold rows for which all conditions are true."""

    def __init__(
        self, conditions: Sequence[Condition], partitions: Partitions, *, with_statistics: bool
    ):
        self._conditions = tuple(conditions)
        self._partitions = partitions
        names = {name.lower() for name in partitions.keys}
        asks_more = any(
            len(column.path) != 1 or column.path[0].lower() not in names
            for condition in conditions
            for column in columns_of(condition)
        )
        self._with_statistics = with_statistics and asks_more
        # Only decimals have more digits than the fast parser keeps.
        has_decimals = any(
            isinstance(field.type, Primitive) and field.type.decimal
            for _, field in walk(partitions.schema)
        )
        self._parse = parse_stats if has_decimals else _parse_fast
        self._until = time.monotonic() + _MOST_SECONDS
        self._known: dict[str, bool] = {}

    def lets_through(self, partition: str, stats: str | None) -> bool:
        """Whether a file may match, by its row's texts."""
        if time.monotonic() > self._until:
            # A hint that takes longer than it saves is not looked at any more.
            return True
        known = self._known.get(partition)
        if known is None:
            known = self._may_match(partition, None)
            _remember(self._known, partition, known)
        if not known or not self._with_statistics or stats is None:
            return known
        return self._may_match(partition, stats)

    def _may_match(self, partition: str, stats: str | None) -> bool:
        values = self._partitions.values(json_text.load(partition))
        parsed = None if stats is None else self._parse(json_text.load(stats))
        schema, is_mapped = self._partitions.schema, self._partitions.is_mapped
        try:
            return all(
                may_match(one, schema, values, parsed, is_mapped=is_mapped)
                for one in self._conditions
            )
        except (ArithmeticError, TypeError, ValueError):
            # Statistics can be anything; what cannot be judged is kept.
            return True


def _parse_fast(text: str | None) -> dict[str, Any] | None:
    """Statistics whose numbers are 64-bit integers and doubles."""
    try:
        stats = json_text.load(text) if text else None
    except ValueError:
        return None
    return stats if isinstance(stats, dict) else None


def _remember(known: dict[str, bool], key: str, value: bool) -> None:
    if len(known) >= _MOST_REMEMBERED:
        known.clear()
    known[key] = value
