"""Partition values of files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import contains
from urllib.parse import unquote

import pyarrow.compute as pc

from deltacli.checking.model import ERROR, FOOTERS, INFO, WARNING, Finding, rule
from deltacli.delta.partitions import partition_value
from deltacli.delta.schema import Field, Primitive
from deltacli.validate.adds import ABSENT, Adds
from deltacli.validate.data_files import DataFile

_TIMES = (Primitive("date"), Primitive("timestamp"), Primitive("timestamp_ntz"))
# Python knows the years 1 to 9999 only.
_FAR_YEAR = re.compile(r"[+-]?[0-9]{5,6}-[0-9]{2}-[0-9]{2}|-[0-9]{4}-|0000-")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_WITH_ZONE = re.compile(r".*([Zz]|[+-]\d{2}:?\d{2}|UTC)$")


@rule("PAR001", ERROR, "Every partition column has its value", of=Adds)
def every_partition_column_has_its_value(adds: Adds) -> Iterator[Finding]:
    """partitionValues has a key for each partition column, also where the value is null.

    Why: readers fail, or take the file for one of another partition.
    Fix: rewrite the file.
    """
    for key, one in (adds.definition.partitions if adds.definition else {}).items():
        values = adds.partition_values.get(key, ABSENT)
        # By its logical name: another rule tells of that.
        if ABSENT in values and one.name not in adds.partition_values.names - {key}:
            yield adds.finding(values.index(ABSENT), f"no partition value of {one.name!r}")


@rule("PAR002", WARNING, "Only partition columns have values", of=Adds)
def only_partition_columns_have_values(adds: Adds) -> Iterator[Finding]:
    """partitionValues has no key that is no partition column.

    Why: whoever wrote it took the table for another one.
    Fix: rewrite the file.
    """
    definition = adds.definition
    if definition is None or definition.schema is None:
        return
    known = {*definition.partitions, *(one.name for one in definition.partitions.values())}
    for key in sorted(adds.partition_values.names - known):
        yield adds.finding(_first_with(adds, key), f"{key!r} is no partition column")


def _first_with(adds: Adds, key: str) -> int:
    values = adds.partition_values.get(key, ABSENT)
    return next(n for n, one in enumerate(values) if one is not ABSENT)


def _texts(adds: Adds) -> Iterator[tuple[str, Field, str | None, int]]:
    """Each different text of each partition column, with a file that has it."""
    for key, one in (adds.definition.partitions if adds.definition else {}).items():
        for text, n in adds.partition_texts(key).items():
            yield key, one, text, n


@rule("PAR003", ERROR, "Partition values have their types", of=Adds)
def partition_values_have_their_types(adds: Adds) -> Iterator[Finding]:
    """A partition value is a text of its column's type, as the protocol writes it.

    Why: readers fail on it, or read null.
    Fix: rewrite the file.
    """
    for _, one, text, n in _texts(adds):
        if text == _NO_VALUE or (text and _FAR_YEAR.match(text) and one.type in _TIMES):
            continue
        try:
            partition_value(text, one.type)
        except ValueError:
            kind = one.type.name if isinstance(one.type, Primitive) else "value"
            yield adds.finding(n, f"{text!r} is no {kind} (column {one.name!r})")


@rule("PAR004", WARNING, "Times of partitions have a zone", of=Adds)
def times_of_partitions_have_a_zone(adds: Adds) -> Iterator[Finding]:
    """A partition value of type timestamp is in UTC, with a Z.

    Why: without a zone it means the writer's, which readers do not know.
    Fix: write it as 2024-01-31T10:00:00.000000Z; old files may stay if all writers are in UTC.
    """
    for _, one, text, n in _texts(adds):
        is_time = text and text != _NO_VALUE and one.type == Primitive("timestamp")
        if is_time and not _WITH_ZONE.match(str(text)):
            yield adds.finding(n, f"{text!r} has no zone (column {one.name!r})")
            return


@rule("PAR005", ERROR, "Partition values are not null where they must not be", of=Adds)
def required_partition_values_are_there(adds: Adds) -> Iterator[Finding]:
    """A partition column that is not nullable has a value in each file.

    Why: every row of the file breaks the column's promise.
    Fix: rewrite the file, or make the column nullable.
    """
    for _, one, text, n in _texts(adds):
        if not text and not one.nullable:
            yield adds.finding(n, f"{one.name!r} is null, and must not be")


@rule("PAR006", INFO, "Null is not Hive's word for it", of=Adds)
def null_is_not_hives_word(adds: Adds) -> Iterator[Finding]:
    """No partition value is the text `__HIVE_DEFAULT_PARTITION__`.

    Why: Hive means null by it, Delta means this text.
    Fix: rewrite the file with null.
    """
    for _, one, text, n in _texts(adds):
        if text == _NO_VALUE:
            yield adds.finding(n, f"{one.name!r} is the text {_NO_VALUE}")


@rule("PAR007", WARNING, "Folders say what partitionValues say", of=Adds)
def folders_agree(adds: Adds) -> Iterator[Finding]:
    """Where a file's path names partition values, as Hive does, they are those of the log.

    Why: the log counts; engines that go by folders see other values.
    Fix: rewrite the file.
    """
    for key, one in (adds.definition.partitions if adds.definition else {}).items():
        if one.type == Primitive("timestamp") or not isinstance(one.type, Primitive):
            continue  # folders have the writer's own time
        texts = adds.partition_values.get(key, ABSENT)
        # Nearly always the folder is named after the text as it stands.
        needles = {text: f"{key}={text}/" for text in set(texts)}
        if all(map(contains, adds.paths, map(needles.__getitem__, texts))):
            continue
        pattern = f"(?:^|/)(?:{re.escape(key)}|{re.escape(one.name)})=(?P<folder>[^/]*)/"
        found = pc.extract_regex(adds.path_column, pattern)
        folders = pc.struct_field(found, ["folder"]).to_pylist()
        pairs = list(zip(texts, folders, strict=True))
        for pair in set(pairs):
            text, folder = pair
            if folder is not None and text is not ABSENT and not _same(text, folder, one.type):
                n = pairs.index(pair)
                yield adds.finding(n, f"the folder says {folder!r}, the log {text!r}")


def _same(text: str | None, folder: str, kind: Primitive) -> bool:
    # Encoded once as a folder of Hive, and once more as a URI.
    forms = {folder, unquote(folder), unquote(unquote(folder))}
    if not text:
        return bool({_NO_VALUE, "", "null"} & forms)
    if text in forms:
        return True
    try:
        own = partition_value(text, kind)
        return any(partition_value(one, kind) == own for one in forms)
    except ValueError:
        return False


@rule("PAR008", INFO, "Null is null", of=Adds)
def null_is_null(adds: Adds) -> Iterator[Finding]:
    """No partition value is an empty string.

    Why: the protocol reads it as null; other tools may read an empty text.
    Fix: none is needed.
    """
    for _, one, text, n in _texts(adds):
        if text == "":
            yield adds.finding(n, f"{one.name!r} is an empty text, which means null")


@rule("PAR009", WARNING, "Files have no partition columns", of=DataFile, level=FOOTERS)
def files_have_no_partition_columns(one: DataFile) -> Iterator[Finding]:
    """With delta.writePartitionColumnsToParquet false no data file holds a partition column.

    Why: they take room, and readers that prefer them may see other values.
    Fix: rewrite the file.
    """
    # Newer writers put them there unless they are told not to.
    wish = one.definition.configuration.get("delta.writePartitionColumnsToParquet", "true")
    features = one.definition.features
    if wish.lower() != "false" or any(name.startswith("icebergCompat") for name in features):
        return
    for key, own in one.definition.partitions.items():
        if key.lower() in one.match.top_names:
            yield Finding(f"the file holds the partition column {own.name!r}", path=one.path)
