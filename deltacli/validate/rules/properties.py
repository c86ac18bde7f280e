"""The properties of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from deltacli.checking.model import ERROR, WARNING, Finding, rule
from deltacli.delta.column_mapping import MAX_ID
from deltacli.delta.properties import PROPERTIES
from deltacli.units import parse_interval
from deltacli.validate.definition import Definition

_INTERVALS = (
    "delta.logRetentionDuration",
    "delta.deletedFileRetentionDuration",
    "delta.checkpointRetentionDuration",
    "delta.setTransactionRetentionDuration",
    "delta.sampleRetentionDuration",
)

_NUMBERS = (
    "delta.checkpointInterval",
    "delta.dataSkippingNumIndexedCols",
    MAX_ID,
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.requireCheckpointProtectionBeforeVersion",
)

_FLAGS = (
    *(row.key for row in PROPERTIES if row.parse.__name__ == "_bool"),
    "delta.enableIcebergCompatV1",
    "delta.enableIcebergCompatV2",
    "delta.randomizeFilePrefixes",
)

_CODECS = ("zstd", "snappy", "gzip", "lz4", "lz4_raw", "brotli", "none", "uncompressed")

_FORMATS = ("1.0.0", "2.4.0", "2.6.0", "2.12.0", "1.0", "2.4", "2.6", "v1", "v2")

_DAY_MS = 86_400_000


@rule("MET008", ERROR, "Durations are intervals", of=Definition)
def durations_are_intervals(definition: Definition) -> Iterator[Finding]:
    """Retention properties are intervals of weeks to microseconds, not negative.

    Why: clients fail, or fall back to their default and delete too early.
    Fix: set the property to a value such as `interval 30 days`.
    """
    for key in _INTERVALS:
        text = definition.configuration.get(key)
        if text is not None:
            try:
                parse_interval(text)
            except ValueError as error:
                yield definition.finding(f"{key}: {error}")


@rule("MET009", WARNING, "The log is kept as long as files", of=Definition)
def log_is_kept_as_long_as_files(definition: Definition) -> Iterator[Finding]:
    """delta.logRetentionDuration is not less than delta.deletedFileRetentionDuration.

    Why: files are kept for versions that can no longer be read.
    Fix: set both to fitting values.
    """
    log_ms = definition.setting("delta.logRetentionDuration")
    files_ms = definition.setting("delta.deletedFileRetentionDuration")
    if log_ms < files_ms:
        yield definition.finding("the log is kept for less time than removed files")


@rule("MET010", WARNING, "Retention and interval are reasonable", of=Definition)
def retention_is_reasonable(definition: Definition) -> Iterator[Finding]:
    """Removed files are kept for a day or more, and checkpointInterval is positive.

    Why: shorter retention deletes files under running readers; without checkpoints the log grows.
    Fix: set the property to its default, or higher.
    """
    if definition.setting("delta.deletedFileRetentionDuration") < _DAY_MS:
        yield definition.finding("removed files are kept for less than a day")
    if definition.setting("delta.checkpointInterval") <= 0:
        yield definition.finding("delta.checkpointInterval is not positive")


@rule("MET011", ERROR, "Properties have their types", of=Definition)
def properties_have_their_types(definition: Definition) -> Iterator[Finding]:
    """A property that is true or false, or a number, has such a value.

    Why: clients fail, or fall back to a default.
    Fix: set the property anew.
    """
    for key in _FLAGS:
        text = definition.configuration.get(key)
        if text is not None and text.strip().lower() not in ("true", "false"):
            yield definition.finding(f"{key} is {text!r}, not true or false")
    for key in _NUMBERS:
        text = definition.configuration.get(key)
        if text is not None and not re.fullmatch(r"\s*-?[0-9]{1,19}\s*", text):
            yield definition.finding(f"{key} is {text!r}, no whole number")


@rule("MET012", WARNING, "Files are Parquet", of=Definition)
def files_are_parquet(definition: Definition) -> Iterator[Finding]:
    """format.provider is parquet, without options.

    Why: the protocol knows no other format; checks of data files may not fit.
    Fix: restore the metadata from a backup.
    """
    if definition.metadata is None:
        return
    if definition.metadata.format.provider != "parquet":
        yield definition.finding(f"format.provider is {definition.metadata.format.provider!r}")
    if definition.metadata.format.options:
        yield definition.finding("format.options are not empty")


@rule("MET015", WARNING, "Commands are not stored as properties", of=Definition)
def commands_are_not_stored(definition: Definition) -> Iterator[Finding]:
    """delta.minReaderVersion, delta.minWriterVersion and delta.feature.* are not stored.

    Why: they are instructions of a command; stored they mean nothing and mislead.
    Fix: unset the property.
    """
    for key in sorted(definition.configuration):
        if key in ("delta.minReaderVersion", "delta.minWriterVersion") or key.startswith(
            "delta.feature."
        ):
            yield definition.finding(f"{key} is stored")


@rule("MET020", WARNING, "Columns for statistics are columns", of=Definition)
def columns_for_statistics_are_columns(definition: Definition) -> Iterator[Finding]:
    """delta.dataSkippingStatsColumns names only columns that the table has.

    Why: the others are meant, and have no statistics.
    Fix: set the property anew.
    """
    text = definition.configuration.get("delta.dataSkippingStatsColumns")
    if text is None or definition.schema is None:
        return
    known = {".".join(path).lower() for path, _ in definition.fields()}
    for item in re.findall(r"(?:`[^`]*`|[^,`])+", text):
        name = item.strip().replace("`", "")
        if name and name.lower() not in known:
            yield definition.finding(f"delta.dataSkippingStatsColumns names {name!r}")


@rule("MET021", WARNING, "Parquet settings are known", of=Definition)
def parquet_settings_are_known(definition: Definition) -> Iterator[Finding]:
    """The codec and format version for Parquet are ones that readers know.

    Why: writers fail, or fall back to another.
    Fix: set the property anew.
    """
    codec = definition.configuration.get("delta.parquet.compression.codec")
    if codec is not None and codec.lower() not in _CODECS:
        yield definition.finding(f"the codec {codec!r} is unknown")
    version = definition.configuration.get("delta.parquet.format.version")
    if version is not None and version.lower() not in _FORMATS:
        yield definition.finding(f"the Parquet format version {version!r} is unknown")
