"""Protocol versions and table features, and what may only be used with them."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.checking.model import ERROR, INFO, WARNING, Finding, rule
from deltacli.delta.feature_use import CONSTRAINTS, FIELD_FEATURES, PROPERTY_FEATURES
from deltacli.delta.features import BY_NAME, TYPE_FEATURES, Support
from deltacli.delta.paths import Kind
from deltacli.delta.properties import PROPERTIES
from deltacli.delta.schema import Array, DataType, Map, Primitive, Struct
from deltacli.validate.adds import Adds
from deltacli.validate.checkpoints import Reading
from deltacli.validate.commits import Commit
from deltacli.validate.definition import Definition, dotted

_ALIASES = {"variantType-preview": "variantType", "typeWidening-preview": "typeWidening"}
# Properties that engines of one vendor use, and that mean nothing to others.
_FOREIGN_PROPERTIES = (
    "delta.databricks.",
    "delta.autoOptimize.",
    "delta.tuneFileSizesForRewrites",
    "delta.targetFileSize",
    "delta.workloadBasedColumns.",
    "delta.feature.",
    "delta.lastCommitTimestamp",
    "delta.lastUpdateVersion",
)


def _finding(definition: Definition, message: str) -> Finding:
    return Finding(message, line=definition.lines.get("protocol"))


@rule("PRT001", ERROR, "The protocol versions are known", of=Definition)
def protocol_versions_are_known(definition: Definition) -> Iterator[Finding]:
    """minReaderVersion is 1 to 3 and minWriterVersion 1 to 7.

    Why: no client knows other versions, so nobody can read or write the table.
    Fix: restore the protocol from a backup, or use a newer client.
    """
    protocol = definition.protocol
    if protocol and not 1 <= protocol.min_reader_version <= 3:
        yield _finding(definition, f"minReaderVersion is {protocol.min_reader_version}")
    if protocol and not 1 <= protocol.min_writer_version <= 7:
        yield _finding(definition, f"minWriterVersion is {protocol.min_writer_version}")


@rule("PRT002", ERROR, "Reader features go with version 3", of=Definition)
def reader_features_go_with_version_3(definition: Definition) -> Iterator[Finding]:
    """readerFeatures are listed if and only if minReaderVersion is 3.

    Why: without the list nobody knows what a reader needs; with it older readers do not look.
    Fix: restore the protocol from a backup.
    """
    protocol = definition.protocol
    if protocol and (protocol.min_reader_version == 3) != (protocol.reader_features is not None):
        what = "are listed" if protocol.reader_features is not None else "are missing"
        yield _finding(
            definition, f"readerFeatures {what} at minReaderVersion {protocol.min_reader_version}"
        )


@rule("PRT003", ERROR, "Writer features go with version 7", of=Definition)
def writer_features_go_with_version_7(definition: Definition) -> Iterator[Finding]:
    """writerFeatures are listed if and only if minWriterVersion is 7.

    Why: without the list nobody knows what a writer needs; with it older writers do not look.
    Fix: restore the protocol from a backup.
    """
    protocol = definition.protocol
    if protocol and (protocol.min_writer_version == 7) != (protocol.writer_features is not None):
        what = "are listed" if protocol.writer_features is not None else "are missing"
        yield _finding(
            definition, f"writerFeatures {what} at minWriterVersion {protocol.min_writer_version}"
        )


@rule("PRT004", ERROR, "Reader version 3 comes with writer version 7", of=Definition)
def reader_3_comes_with_writer_7(definition: Definition) -> Iterator[Finding]:
    """A protocol with minReaderVersion 3 has minWriterVersion 7.

    Why: a writer that knows no features would break what readers rely on.
    Fix: restore the protocol from a backup.
    """
    protocol = definition.protocol
    if protocol and protocol.min_reader_version == 3 and protocol.min_writer_version < 7:
        yield _finding(
            definition, f"minWriterVersion is {protocol.min_writer_version} at minReaderVersion 3"
        )


@rule("PRT005", ERROR, "Writers know what readers must", of=Definition)
def writers_know_what_readers_must(definition: Definition) -> Iterator[Finding]:
    """Each of the readerFeatures is one of the writerFeatures too.

    Why: a writer without the feature would break it for readers.
    Fix: add the feature to writerFeatures.
    """
    protocol = definition.protocol
    if protocol and protocol.reader_features and protocol.writer_features is not None:
        for name in sorted(set(protocol.reader_features) - set(protocol.writer_features)):
            yield _finding(definition, f"{name} is in readerFeatures only")


@rule("PRT006", ERROR, "Features are listed where they belong", of=Definition)
def features_are_listed_where_they_belong(definition: Definition) -> Iterator[Finding]:
    """Features of writers alone are in no readerFeatures; those of both are in both lists.

    Why: readers refuse a feature that they need not know, or miss one that they must.
    Fix: mend the lists with the engine that wrote them.
    """
    protocol = definition.protocol
    if protocol is None:
        return
    readers, writers = protocol.reader_features or (), protocol.writer_features or ()
    for name in sorted(set(readers)):
        if name in BY_NAME and not BY_NAME[name].reads:
            yield _finding(definition, f"{name} is of writers alone, but in readerFeatures")
    for name in sorted(set(writers) - set(readers)):
        legacy = BY_NAME[name].legacy_reader if name in BY_NAME else 0
        is_implied = 0 < legacy <= protocol.min_reader_version < 3
        if name in BY_NAME and BY_NAME[name].reads and not is_implied:
            yield _finding(definition, f"{name} is of readers too, but only in writerFeatures")


@rule("PRT007", WARNING, "Every feature is known", of=Definition)
def every_feature_is_known(definition: Definition) -> Iterator[Finding]:
    """Each feature of the protocol is one that this program knows and can check.

    Why: what it asks of the table is not checked; older clients refuse the table.
    Fix: use a newer deltacli, or correct the name.
    """
    protocol = definition.protocol
    if protocol is None:
        return
    for name in sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())}):
        if name not in BY_NAME:
            yield _finding(definition, f"the feature {name} is unknown")
        elif BY_NAME[name].read is Support.NO:
            yield _finding(
                definition, f"the feature {name} is not supported: {BY_NAME[name].why_not}"
            )


@rule("PRT008", ERROR, "Features come with what they need", of=Definition)
def features_come_with_what_they_need(definition: Definition) -> Iterator[Finding]:
    """A feature that needs another one has it beside it in the protocol.

    Why: clients that know only the one would break the other.
    Fix: enable the missing feature with an engine.
    """
    have = {_ALIASES.get(one, one) for one in definition.features}
    for name in sorted(definition.features):
        for needed in BY_NAME[name].requires if name in BY_NAME else ():
            if needed not in have:
                yield _finding(definition, f"{name} needs {needed}, which is not in the protocol")


@rule("PRT009", ERROR, "Properties have their features", of=Definition)
def properties_have_their_features(definition: Definition) -> Iterator[Finding]:
    """A property that switches a feature on has that feature in the protocol.

    Why: clients that do not know the feature write the table as if it were off.
    Fix: add the feature with an engine, or unset the property.
    """
    if definition.protocol is None:
        return
    for key, names in PROPERTY_FEATURES:
        if definition.is_on(key) and not definition.features & set(names):
            yield Finding(
                f"{key} is true without the feature {names[0]}",
                line=definition.lines.get("metaData"),
            )
    # With older protocols such columns are plain ones, for all that read them.
    for path, one in definition.fields() if definition.protocol.min_writer_version >= 7 else ():
        metadata = one.get("metadata") or {}
        for name, feature in FIELD_FEATURES.items():
            if name in metadata and feature not in definition.features:
                yield Finding(
                    f"{dotted(path)} has {name} without the feature {feature}",
                    line=definition.lines.get("metaData"),
                )
    for key in definition.configuration:
        if key.lower().startswith(CONSTRAINTS) and ("checkConstraints" not in definition.features):
            yield Finding(
                f"{key} is set without the feature checkConstraints",
                line=definition.lines.get("metaData"),
            )


@rule("PRT010", ERROR, "Types have their features", of=Definition)
def types_have_their_features(definition: Definition) -> Iterator[Finding]:
    """A type that came with a feature is used only with it.

    Why: clients that do not know the type fail, or read its values as others.
    Fix: add the feature with an engine.
    """
    if definition.protocol is None or definition.schema is None:
        return
    for name in sorted(set(_type_names(definition.schema))):
        needed = TYPE_FEATURES.get(name.split("(")[0])
        if needed and not definition.features & set(needed):
            yield Finding(
                f"the type {name} needs the feature {needed[0]}",
                line=definition.lines.get("metaData"),
            )


def _type_names(kind: DataType) -> Iterator[str]:
    if isinstance(kind, Struct):
        for one in kind.fields:
            yield from _type_names(one.type)
    elif isinstance(kind, Array):
        yield from _type_names(kind.element)
    elif isinstance(kind, Map):
        yield from _type_names(kind.key)
        yield from _type_names(kind.value)
    elif isinstance(kind, Primitive):
        yield kind.name


@rule("PRT011", ERROR, "Deletion vectors have their feature", of=Adds)
def deletion_vectors_have_their_feature(adds: Adds) -> Iterator[Finding]:
    """Files have deletion vectors only if the protocol has deletionVectors.

    Why: readers that do not know them show rows that are deleted.
    Fix: add the feature with an engine.
    """
    definition = adds.definition
    if definition and definition.protocol and "deletionVectors" not in definition.features:
        for n, _ in adds.vectors:
            yield adds.finding(n, "a deletion vector without the feature deletionVectors")


@rule("PRT012", ERROR, "Column mapping has its feature", of=Definition)
def column_mapping_has_its_feature(definition: Definition) -> Iterator[Finding]:
    """delta.columnMapping.mode is other than none only with the feature columnMapping.

    Why: readers that do not know it look for columns by the wrong names.
    Fix: add the feature with an engine, or protocol versions (2, 5).
    """
    if definition.is_mapped and definition.protocol and "columnMapping" not in definition.features:
        yield Finding(
            f"delta.columnMapping.mode is {definition.mode} without the feature",
            line=definition.lines.get("metaData"),
        )


@rule("PRT013", ERROR, "Domains have their feature", of=Commit)
def domains_have_their_feature(commit: Commit) -> Iterator[Finding]:
    """domainMetadata actions are written only with the feature domainMetadata.

    Why: writers that do not know them lose them at the next checkpoint.
    Fix: add the feature with an engine.
    """
    definition = commit.definition
    if definition and definition.protocol and "domainMetadata" not in definition.features:
        for line in commit.sound("domainMetadata"):
            yield Finding("a domainMetadata action without the feature", line=line.number)


@rule("PRT014", ERROR, "V2 checkpoints have their feature", of=Reading)
def v2_checkpoints_have_their_feature(reading: Reading) -> Iterator[Finding]:
    """Checkpoints with a UUID in their names, or with sidecars, need the feature v2Checkpoint.

    Why: readers that do not know them do not find the checkpoint, or half of its files.
    Fix: add the feature with an engine, or write a classic checkpoint.
    """
    if reading.is_v2 and reading.protocol and "v2Checkpoint" not in reading.definition.features:
        yield Finding("a V2 checkpoint without the feature v2Checkpoint")


@rule("PRT015", ERROR, "V2 tables have no multi-part checkpoints", of=Reading)
def v2_tables_have_no_multipart_checkpoints(reading: Reading) -> Iterator[Finding]:
    """No checkpoint has several parts once the protocol has v2Checkpoint.

    Why: the protocol forbids them there, readers need not know them.
    Fix: `deltacli checkpoint TABLE --force` writes another kind.
    """
    if reading.checkpoint.kind is Kind.MULTIPART_CHECKPOINT and (
        "v2Checkpoint" in reading.definition.features
    ):
        yield Finding("a multi-part checkpoint of a table with v2Checkpoint")


@rule("PRT016", WARNING, "The protocol is not lowered", of=Definition)
def protocol_is_not_lowered(definition: Definition) -> Iterator[Finding]:
    """Versions and features only become more, but for a DROP FEATURE.

    Why: what older versions need may be lost for readers of the history.
    Fix: drop features by an engine's command only.
    """
    new, old = definition.protocol, definition.before.protocol if definition.before else None
    if new is None or old is None or new == old or definition.before is None:
        return
    operation = (definition.operation or "").upper()
    if any(word in operation for word in ("DROP FEATURE", "RESTORE", "CLONE", "REPLACE")):
        return
    lost = definition.before.features - definition.features
    if lost:
        yield _finding(definition, f"the protocol has lost {', '.join(sorted(lost))}")
    elif (new.min_reader_version, new.min_writer_version) < (
        old.min_reader_version,
        old.min_writer_version,
    ) and new.writer_features is not None:
        yield _finding(definition, "the protocol's versions are lower than before")


@rule("PRT017", ERROR, "Type changes have their feature", of=Definition)
def type_changes_have_their_feature(definition: Definition) -> Iterator[Finding]:
    """Columns record type changes only with the feature typeWidening.

    Why: readers that do not know them read narrow files with the wide type, and fail.
    Fix: add the feature with an engine, or rewrite the files and remove the records.
    """
    if definition.protocol is None or definition.features & {
        "typeWidening",
        "typeWidening-preview",
    }:
        return
    for path, one in definition.fields():
        if (one.get("metadata") or {}).get("delta.typeChanges"):
            yield Finding(
                f"{dotted(path)} records type changes without the feature",
                line=definition.lines.get("metaData"),
            )


@rule("PRT018", WARNING, "One Iceberg compatibility at a time", of=Definition)
def one_iceberg_compatibility_at_a_time(definition: Definition) -> Iterator[Finding]:
    """At most one of the icebergCompat versions is enabled.

    Why: they ask for different things; a converter takes one of them.
    Fix: unset the older property.
    """
    enabled = [
        one for one in ("V1", "V2", "V3") if definition.is_on(f"delta.enableIcebergCompat{one}")
    ]
    if len(enabled) > 1:
        yield Finding(
            f"icebergCompat {' and '.join(enabled)} are enabled together",
            line=definition.lines.get("metaData"),
        )


@rule("PRT019", ERROR, "Iceberg tables enable no deletion vectors", of=Definition)
def iceberg_tables_enable_no_vectors(definition: Definition) -> Iterator[Finding]:
    """delta.enableDeletionVectors is not true together with icebergCompat V1 or V2.

    Why: Iceberg's readers would show deleted rows.
    Fix: unset one of the properties.
    """
    for one in ("V1", "V2"):
        if definition.is_on(f"delta.enableIcebergCompat{one}") and definition.is_on(
            "delta.enableDeletionVectors"
        ):
            yield Finding(
                f"deletion vectors are enabled together with icebergCompat{one}",
                line=definition.lines.get("metaData"),
            )


@rule("PRT020", WARNING, "No feature is a preview", of=Definition)
def no_feature_is_a_preview(definition: Definition) -> Iterator[Finding]:
    """The protocol has no feature that is called a preview.

    Why: engines drop such features, or change what they mean.
    Fix: go over to the feature that the preview became.
    """
    for name in sorted(definition.features):
        # What the reference implementation still writes under such a name is no preview of it.
        if name.endswith(("-preview", "-dev")) and name != "variantShredding-preview":
            yield _finding(definition, f"{name} is a preview")


@rule("PRT021", WARNING, "Features are listed once", of=Definition)
def features_are_listed_once(definition: Definition) -> Iterator[Finding]:
    """No list of features has a name twice.

    Why: it is the trace of a faulty upgrade; strict clients refuse it.
    Fix: write the protocol anew with an engine.
    """
    protocol = definition.protocol
    for kind in ("reader", "writer") if protocol else ():
        names = getattr(protocol, f"{kind}_features") or ()
        for name in sorted({one for one in names if names.count(one) > 1}):
            yield _finding(definition, f"{name} comes twice in {kind}Features")


@rule("PRT022", INFO, "Properties are the protocol's", of=Definition)
def properties_are_the_protocols(definition: Definition) -> Iterator[Finding]:
    """A property in the `delta.` namespace is one that open engines know.

    Why: others have no effect outside of the engine that set them.
    Fix: none is needed.
    """
    known = {row.key.lower() for row in PROPERTIES}
    for key in sorted(definition.configuration):
        low = key.lower()
        if low in known or not low.startswith("delta."):
            continue
        if low.startswith(tuple(one.lower() for one in _FOREIGN_PROPERTIES)):
            yield Finding(f"only some engines know {key}", line=definition.lines.get("metaData"))
