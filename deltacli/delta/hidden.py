"""Which names below a table are hidden from vacuum, with all that lies beneath them (V-21 …)."""

from __future__ import annotations

from dataclasses import dataclass

from deltacli.delta.partitions import physical_partition_columns
from deltacli.delta.paths import HIDDEN_LETTERS, HIDDEN_WORDS
from deltacli.delta.snapshot import Snapshot

_NEVER = ("_delta_index", "_change_data")
# What Hive escapes in the names of partition folders.
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(32)}


@dataclass(frozen=True, slots=True)
class HiddenNames:
    """Decides on one part of a path, file or folder."""

    partitions: tuple[str, ...]
    has_iceberg: bool

    def __call__(self, name: str) -> bool:
        if not name:  # `a//b` on an object store: no writer of tables makes such names
            return True
        if name[0] not in HIDDEN_LETTERS:
            return self.has_iceberg and name in HIDDEN_WORDS
        return not name.startswith((*_NEVER, *self.partitions))


def hidden_names(snapshot: Snapshot) -> HiddenNames:
    """The rule for a table: its partition folders are never hidden, UniForm's metadata is."""
    columns = snapshot.metadata.partition_columns
    names = {*columns, *physical_partition_columns(columns, snapshot.mapped_schema).values()}
    formats = snapshot.setting("delta.universalFormat.enabledFormats").lower()
    return HiddenNames(
        tuple(sorted({f"{form}=" for name in names for form in (name, _escape(name))})),
        "iceberg" in [one.strip() for one in formats.split(",")],
    )


def _escape(name: str) -> str:
    return "".join(f"%{ord(one):02X}" if one in _ESCAPED else one for one in name)
