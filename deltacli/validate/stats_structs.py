"""The typed columns of a checkpoint beside the texts that they are made from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from functools import cached_property
from struct import pack, unpack
from typing import Any, ClassVar

from deltacli.delta.partitions import partition_value
from deltacli.delta.schema import Primitive
from deltacli.validate.adds import ABSENT, Adds, Leaf
from deltacli.validate.checkpoints import Reading
from deltacli.validate.definition import dotted

# A text has milliseconds, a column may have microseconds (ST-2).
_MILLISECOND = 1000


@dataclass(frozen=True)
class ParsedAdds:
    """Some adds of a checkpoint that have `stats_parsed` or `partitionValues_parsed`."""

    COLUMNS: ClassVar[frozenset[str]] = frozenset({"stats_parsed", "partitionValues_parsed"})

    reading: Reading
    batch: Any

    @property
    def file(self) -> str:
        return self.reading.file

    @property
    def version(self) -> int:
        return self.reading.version

    @cached_property
    def paths(self) -> list[str]:
        found: list[str] = self.batch.column("path").to_pylist()
        return found

    def _adds(self, *without: str) -> Adds:
        kept = [one for one in self.batch.schema.names if one not in without]
        return Adds.of_batch(
            self.file, self.version, self.reading.definition, self.batch.select(kept)
        )

    def differing_stats(self) -> Iterator[tuple[str, str]]:
        """Files whose statistics as text and as columns say different things, and where."""
        names = self.batch.schema.names
        if "stats" not in names or "stats_parsed" not in names:
            return
        texts, structs = self._adds("stats_parsed"), self._adds("stats")
        both = [
            n
            for n, (one, other) in enumerate(zip(texts.stats, structs.stats, strict=True))
            if one is not None and other is not None
        ]
        for n in both:
            said, parsed = texts.records[n], structs.records[n]
            if said is not None and parsed is not None and said != parsed:
                yield self.paths[n], f"numRecords is {said} in the text and {parsed} in the column"
        by_path = {leaf.path: leaf for leaf in texts.leaves}
        for leaf in structs.leaves:
            text_leaf = by_path.get(leaf.path)
            if text_leaf is not None:
                yield from self._differing_leaf(text_leaf, leaf, both)

    def _differing_leaf(
        self, text: Leaf, parsed: Leaf, both: list[int]
    ) -> Iterator[tuple[str, str]]:
        leeway = _MILLISECOND if text.type.startswith("timestamp") else 1
        pairs = (
            ("minValues", text.lows.values, parsed.lows.values),
            ("maxValues", text.highs.values, parsed.highs.values),
            ("nullCount", text.nulls, parsed.nulls),
        )
        for kind, said, other in pairs:
            for n in both:
                a, b = said[n], other[n]
                if a is None or b is None or a == b:
                    continue
                if text.type == "float" and kind != "nullCount" and _as_float(a) == b:
                    continue
                if leeway > 1 and kind != "nullCount" and abs(a - b) < leeway:
                    continue
                yield self.paths[n], f"{kind} of {dotted(text.path)} differ"

    def differing_partitions(self) -> Iterator[tuple[str, str]]:
        """Files whose partition values as texts and as columns differ, and in what."""
        if "partitionValues_parsed" not in self.batch.schema.names:
            return
        texts = self._adds().partition_values
        structs = self.batch.column("partitionValues_parsed").to_pylist()
        for key, field in self.reading.definition.partitions.items():
            if not isinstance(field.type, Primitive) or field.type.name == "binary":
                continue
            own = [ABSENT if one is None else one.get(key, ABSENT) for one in structs]
            if any(isinstance(one, dict | list) for one in own):
                continue  # the rules for columns tell
            pairs = list(zip(texts.get(key), own, strict=True))
            for pair in set(pairs):
                if pair[1] is not ABSENT and not _agree(*pair, field.type):
                    path = self.paths[pairs.index(pair)]
                    yield path, f"{dotted((field.name,))} is {pair[0]!r} and {pair[1]!r}"


def _as_float(value: float) -> float:
    """A number of the text as the column's four bytes hold it."""
    with suppress(OverflowError):
        found: float = unpack("f", pack("f", value))[0]
        return found
    return value


def _agree(text: str | None, value: Any, kind: Primitive) -> bool:
    try:
        own = partition_value(text, kind)
    except ValueError:
        return value is None
    if own is None or value is None:
        return own is value
    if kind.name == "timestamp" and text is not None:
        if not text.endswith("Z"):
            return True  # such a text means another time in each writer's zone
        # INT96, Spark's old form, is an instant that comes without a zone.
        value = value if value.tzinfo else value.replace(tzinfo=UTC)
    if kind.name in ("float", "double"):
        return bool(own == value or (own != own and value != value)) or kind.name == "float"
    return bool(own == value)
