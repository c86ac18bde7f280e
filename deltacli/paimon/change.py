"""What a change of a schema is: it gives the next state, or raises Refused or NotFound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from deltacli.paimon.options import is_true
from deltacli.paimon.schema_file import TableSchema
from deltacli.paimon.types import Field


@dataclass(frozen=True)
class State:
    """A schema on its way from one version to the next."""

    fields: tuple[Field, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None


@dataclass
class Situation:
    """What a change has to know besides, and what it has to say."""

    old: TableSchema
    has_snapshots: bool
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def is_set(self, key: str, default: bool) -> bool:
        """A switch of the table, as it was before the batch."""
        return is_true(self.old.effective_options.get(key), default)


class Change(Protocol):
    """One change of a batch."""

    def apply(self, state: State, at: Situation) -> State: ...
