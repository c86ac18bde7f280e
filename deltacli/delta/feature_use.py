"""What in the metadata belongs to a table feature, whether the protocol has it or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltacli.delta.actions import Protocol
from deltacli.delta.features import supported_features
from deltacli.delta.schema import DEFAULT, Struct, walk

# A property that is true needs a feature, any of these; the first is the one to write.
PROPERTY_FEATURES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("delta.appendOnly", ("appendOnly",)),
    ("delta.enableChangeDataFeed", ("changeDataFeed",)),
    ("delta.enableDeletionVectors", ("deletionVectors",)),
    ("delta.enableRowTracking", ("rowTracking",)),
    ("delta.enableInCommitTimestamps", ("inCommitTimestamp",)),
    ("delta.enableTypeWidening", ("typeWidening", "typeWidening-preview")),
    ("delta.enableIcebergCompatV1", ("icebergCompatV1",)),
    ("delta.enableIcebergCompatV2", ("icebergCompatV2",)),
    ("delta.enableIcebergCompatV3", ("icebergCompatV3",)),
    ("delta.enableVariantShredding", ("variantShredding", "variantShredding-preview")),
)
CONSTRAINTS = "delta.constraints."
FIELD_FEATURES = {
    "delta.generationExpression": "generatedColumns",
    "delta.invariants": "invariants",
    "delta.identity.start": "identityColumns",
    DEFAULT: "allowColumnDefaults",
}
_MAPPING = "delta.columnMapping.mode"


def missing_features(
    protocol: Protocol, configuration: Mapping[str, str], schema: Struct | None
) -> Iterator[tuple[str, str]]:
    """What the metadata uses without its feature in the protocol, and that feature."""
    have = set(supported_features(protocol))
    for key, names in PROPERTY_FEATURES:
        if configuration.get(key, "").strip().lower() == "true" and not have & set(names):
            yield key, names[0]
    if configuration.get(_MAPPING, "none").lower() != "none" and "columnMapping" not in have:
        yield _MAPPING, "columnMapping"
    for key in configuration:
        if key.lower().startswith(CONSTRAINTS) and "checkConstraints" not in have:
            yield key, "checkConstraints"
    for path, field in walk(schema) if schema else ():
        for name, feature in FIELD_FEATURES.items():
            if name in field.metadata and feature not in have:
                yield f"{name} of {'.'.join(path)}", feature
