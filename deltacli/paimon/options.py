"""A table's options: one row each for those that say something about its schema (facts 3, 4)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltacli.paimon.types import is_blank

_TRUTH = {"TRUE": True, "FALSE": False}


class BadOption(ValueError):
    """The value of an option is none."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option, how its value is read, and what it is where nobody set it.

    `choices` are the values of an enumeration; `old_keys` are names that it had.
    """

    key: str
    kind: type
    default: Any = None
    choices: tuple[str, ...] = ()
    old_keys: tuple[str, ...] = ()

    def read(self, options: Mapping[str, str]) -> Any:
        """Raises BadOption."""
        text = next((options[key] for key in (self.key, *self.old_keys) if key in options), None)
        if text is None:
            return self.default
        try:
            return self._value(text)
        except ValueError:
            raise BadOption(
                f"Could not parse value '{text}' for key '{self.key}'."
                + (f" Expected one of: {', '.join(self.choices)}" if self.choices else "")
            ) from None

    def _value(self, text: str) -> Any:
        if self.choices:
            found = {one.upper(): one for one in self.choices}.get(text.upper())
            if found is None:
                raise ValueError(text)
            return found
        if self.kind is bool:
            if text.upper() not in _TRUTH:
                raise ValueError(text)
            return _TRUTH[text.upper()]
        if self.kind is int:
            if not re.fullmatch(r"[+-]?[0-9]{1,30}", text) or not -(2**63) <= int(text) < 2**63:
                raise ValueError(text)
            return int(text)
        return text


MERGE_ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
PRODUCERS = ("none", "input", "full-compaction", "lookup")
START_MODES = (
    "default", "latest-full", "full", "latest", "compacted-full", "from-timestamp",
    "from-snapshot", "from-snapshot-full", "from-file-creation-time", "from-creation-timestamp",
    "incremental", "latest-delta",
)  # fmt: skip
_MOST = 2**31 - 1

ROWS = (
    Option("bucket", int, -1),
    Option("merge-engine", str, "deduplicate", MERGE_ENGINES),
    Option("changelog-producer", str, "none", PRODUCERS),
    Option("primary-key.nullable", bool, False),
    Option("full-compaction.delta-commits", int),
    Option("streaming-read-overwrite", bool, False),
    Option("target-file-row-num", int),
    Option("read.batch-size", int, 1024),
    Option("write.batch-size", int, 1024, old_keys=("orc.write.batch-size",)),
    Option("file.compression.zstd-level", int, 1),
    Option("chain-table.enabled", bool, False),
    Option("partial-update.remove-record-on-delete", bool, False),
    Option("partial-update.remove-record-on-sequence-group", str),
    Option("aggregation.remove-record-on-delete", bool, False),
    Option("scan.snapshot-id", int),
    Option("scan.timestamp-millis", int, old_keys=("log.scan.timestamp-millis",)),
    Option("scan.watermark", int),
    Option("scan.file-creation-time-millis", int),
    Option("scan.creation-time-millis", int),
    Option("snapshot.num-retained.min", int, 10),
    Option("snapshot.num-retained.max", int, _MOST),
    Option("changelog.num-retained.min", int),
    Option("changelog.num-retained.max", int),
    Option("deletion-vectors.enabled", bool, False),
    Option("deletion-vectors.modifiable", bool, False),
    Option("sequence.snapshot-ordering", bool, False),
    Option("write-only", bool, False, old_keys=("write.compaction-skip",)),
    Option("row-tracking.enabled", bool, False),
    Option("data-evolution.enabled", bool, False),
    Option("clustering.incremental", bool, False),
    Option("bucket-append-ordered", bool, True),
    Option("pk-clustering-override", bool, False),
    Option("clustering.columns", str, old_keys=("sink.clustering.by-columns",)),
    Option("record-level.expire-time", str),
    Option("table-read.sequence-number.enabled", bool, False),
    Option("manifest-sort.enabled", bool, False),
    Option("ignore-delete", bool, False, old_keys=(
        "first-row.ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete",
    )),
    Option("ignore-update-before", bool, False),
    Option("scan.mode", str, "default", START_MODES, ("log.scan",)),
    Option("file.format", str, "parquet"),
)  # fmt: skip
BY_KEY = {one.key: one for one in ROWS}


class Options:
    """The options of a schema by what they mean; one that cannot be read is as if not set."""

    def __init__(self, texts: Mapping[str, str]):
        self.texts = texts

    def __getitem__(self, key: str) -> Any:
        row = BY_KEY[key]
        try:
            return row.read(self.texts)
        except BadOption:
            return row.default

    def columns(self, key: str) -> list[str]:
        """The names in a list of columns. Blanks around them are a part of them."""
        text = self.texts.get(key, "")
        return [] if is_blank(text) else split_names(text)

    def trimmed_columns(self, key: str) -> list[str]:
        """The names in one of the lists in which blanks around names do not count."""
        return trimmed_names(self.texts.get(key, ""))

    def index_keys(self) -> list[str]:
        """The options that name the columns of an index of the primary key."""
        return [
            key for key in self.texts if key.startswith("pk-") and key.endswith(".index.columns")
        ]

    def sequence_fields(self) -> list[str]:
        """The columns that order rows; an empty text names one without a name."""
        text = self.texts.get("sequence.field")
        return [] if text is None else [one.strip() for one in split_names(text)]

    def problems(self) -> list[BadOption]:
        """The values that cannot be read."""
        found = []
        for row in ROWS:
            try:
                row.read(self.texts)
            except BadOption as error:
                found.append(error)
        return found

    @property
    def publishes_iceberg(self) -> bool:
        return self.texts.get("metadata.iceberg.storage", "disabled").lower() != "disabled"

    @property
    def external_paths(self) -> tuple[str, ...]:
        """Where files of the table lie outside of it."""
        found = [one for key in _EXTERNAL for one in self.trimmed_columns(key)]
        return tuple(dict.fromkeys(found))


def split_names(text: str) -> list[str]:
    """A list as Java splits it: empty names at its end are none."""
    names = text.split(",")
    while len(names) > 1 and not names[-1]:
        names.pop()
    return names if names != [""] or not text else []


def trimmed_names(text: str) -> list[str]:
    """A list in which neither blanks around names nor empty names count."""
    return [one.strip() for one in text.split(",") if one.strip()]


_EXTERNAL = ("data-file.external-paths", "global-index.external-path")

# What may not change once there is data.
IMMUTABLE = frozenset((
    "type", "bucket-key", "bucket-function.type", "data-file.path-directory", "merge-engine",
    "sequence.snapshot-ordering", "aggregation.remove-record-on-delete",
    "partial-update.remove-record-on-delete", "partial-update.remove-record-on-sequence-group",
    "rowkind.field", "primary-key", "primary-key.nullable", "partition",
    "dynamic-bucket.initial-buckets", "force-lookup", "row-tracking.enabled",
    "data-evolution.enabled", "index-file-in-data-file-dir", "blob-field",
    "blob-descriptor-field", "blob-view-field", "pk-clustering-override",
))  # fmt: skip
NULL_TO_NOT_NULL = "alter-column-null-to-not-null.disabled"
NO_EXPLICIT_CASTS = "disable-explicit-type-casting"
BEFORE_PARTITION = "add-column-before-partition"


def is_true(text: str | None, default: bool = False) -> bool:
    return default if text is None else text.lower() == "true"


# -- options that name columns -----------------------------------------------------------

_FIELDS = "fields."
MAP_SUFFIXES = (
    "map.storage-layout",
    "map.shared-shredding.max-columns",
    "map.shared-shredding.column-placement-policy",
)
# `fields.<column>.<suffix>`: the value says nothing of columns.
_KEYED = ("aggregate-function", "ignore-retract", "distinct", "list-agg-delimiter", *MAP_SUFFIXES)
# `fields.<columns>.<suffix>` = columns.
_GROUPED = ("sequence-group", "nested-key")
_LISTS = ("bucket-key", "sequence.field")
_DIRECTIVES: Mapping[str, Sequence[str]] = {
    "BLOB": (
        "blob-field",
        "blob-descriptor-field",
        "blob.stored-descriptor-fields",
        "blob-view-field",
    ),
    "VECTOR": ("vector-field",),
}


def renamed(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The options with the new name of a column, where Paimon puts it; the order stays."""
    keyed = {f"{_FIELDS}{old}.{suffix}": f"{_FIELDS}{new}.{suffix}" for suffix in _KEYED}
    found: dict[str, str] = {}
    for key, value in options.items():
        grouped = key.startswith(_FIELDS) and key.endswith(_GROUPED)
        if key in _LISTS or grouped:
            value = _in_list(value, old, new)
        if grouped:
            suffix = next(one for one in _GROUPED if key.endswith(one))
            columns = key[len(_FIELDS) : -len(suffix) - 1]
            key = f"{_FIELDS}{_in_list(columns, old, new)}.{suffix}"
        found[keyed.get(key, key)] = value
    return found


def _in_list(text: str, old: str, new: str) -> str:
    return ",".join(new if one == old else one for one in split_names(text))


def without_column(options: Mapping[str, str], name: str, root: str) -> dict[str, str]:
    """The options without what is said of a column of such a type, as far as it may go."""
    found = dict(options)
    for key in _DIRECTIVES.get(root, ()):
        if key in found:
            found[key] = ",".join(one for one in trimmed_names(found[key]) if one != name)
            if not found[key]:
                del found[key]
    if root == "VECTOR":
        found.pop(f"field.{name}.vector-dim", None)
    if root == "MAP":
        for suffix in MAP_SUFFIXES:
            found.pop(f"{_FIELDS}{name}.{suffix}", None)
    return found


def with_column(options: Mapping[str, str], key: str, name: str) -> dict[str, str]:
    """The options with one more column in a list."""
    found = dict(options)
    text = found.get(key, "")
    if not text and key == "blob-descriptor-field":
        text = found.pop("blob.stored-descriptor-fields", "")
    found[key] = ",".join(dict.fromkeys([*trimmed_names(text), name]))
    return found


def columns_of(key: str) -> list[str] | None:
    """The columns that a `fields.…` option names; None for other options."""
    if not key.startswith("fields"):
        return None
    _, _, rest = key.partition(".")
    named = rest.partition(".")[0]
    return [one for one in named.split(",") if one != "default-aggregate-function"]
