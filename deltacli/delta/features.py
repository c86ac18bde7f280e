"""Table features: one row each, with what a client that reads or writes must do.

PROTOCOL "Table Features" and "Requirements for Readers/Writers"; facts 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from deltacli.delta.actions import Protocol
from deltacli.errors import CorruptLog, Refused


class Support(Enum):
    """What deltacli does with a table that has the feature."""

    YES = "yes"
    NO = "no"
    CATALOG = "only the catalog knows the newest versions"


@dataclass(frozen=True, slots=True)
class Feature:
    """One row. A legacy feature is implied from its reader and writer version on."""

    name: str
    reads: bool = False  # a reader-writer feature; otherwise writer-only
    legacy_reader: int = 0
    legacy_writer: int = 0
    requires: tuple[str, ...] = ()
    read: Support = Support.YES
    write: Support = Support.YES
    why_not: str = ""


_NO = Support.NO
_REDIRECT = "the data lives at another location"
_ROWS = ("domainMetadata",)
_CATALOG_NEEDS = ("inCommitTimestamp", "vacuumProtocolCheck")

FEATURES: tuple[Feature, ...] = (
    Feature("appendOnly", legacy_writer=2),
    Feature("invariants", legacy_writer=2),
    Feature("checkConstraints", legacy_writer=3),
    Feature("changeDataFeed", legacy_writer=4),
    Feature("generatedColumns", legacy_writer=4),
    Feature("columnMapping", reads=True, legacy_reader=2, legacy_writer=5),
    Feature("identityColumns", legacy_writer=6),
    Feature("deletionVectors", reads=True),
    Feature("rowTracking", requires=_ROWS),
    Feature("timestampNtz", reads=True),
    # An alias that one other engine writes; accepted, never written.
    Feature("timestampWithoutTimezone", reads=True),
    Feature("domainMetadata"),
    Feature("v2Checkpoint", reads=True),
    Feature("icebergCompatV1", requires=("columnMapping",)),
    Feature("icebergCompatV2", requires=("columnMapping",)),
    Feature("icebergCompatV3", requires=("columnMapping", "rowTracking")),
    Feature(
        "icebergWriterCompatV1",
        requires=("icebergCompatV2",),
        write=_NO,
        why_not="its rules for writers are a draft",
    ),
    Feature("clustering", requires=_ROWS),
    Feature("allowColumnDefaults"),
    Feature("vacuumProtocolCheck", reads=True),
    Feature("inCommitTimestamp"),
    Feature("typeWidening", reads=True),
    Feature("typeWidening-preview", reads=True),
    Feature("variantType", reads=True),
    Feature("variantType-preview", reads=True),
    Feature("variantShredding", reads=True),
    Feature("variantShredding-preview", reads=True),
    Feature(
        "catalogManaged",
        reads=True,
        requires=_CATALOG_NEEDS,
        read=Support.CATALOG,
        write=_NO,
        why_not="commits go through the catalog",
    ),
    Feature(
        "catalogOwned-preview",
        reads=True,
        requires=_CATALOG_NEEDS,
        read=Support.CATALOG,
        write=_NO,
        why_not="commits go through the catalog",
    ),
    Feature(
        "coordinatedCommits-preview",
        requires=_CATALOG_NEEDS,
        write=_NO,
        why_not="commits go through a coordinator",
    ),
    Feature("checkpointProtection"),
    Feature("collations", reads=False),
    Feature("collations-preview", reads=False),
    Feature("columnMappingUsageTracking", write=_NO, why_not="its rules for writers are a draft"),
    Feature("materializePartitionColumns"),
    Feature("geospatial", reads=True),
    Feature("geospatial-dev", reads=True),
    Feature(
        "timestampNanos",
        reads=True,
        requires=("timestampNtz",),
        read=_NO,
        write=_NO,
        why_not="its types are a draft",
    ),
    Feature("adaptiveMetadata", reads=True, read=_NO, write=_NO, why_not="its log is a draft"),
    Feature(
        "adaptiveMetadata-preview", reads=True, read=_NO, write=_NO, why_not="its log is a draft"
    ),
    Feature("redirectReaderWriter-preview", reads=True, read=_NO, write=_NO, why_not=_REDIRECT),
    Feature("redirectWriterOnly-preview", write=_NO, why_not=_REDIRECT),
)
BY_NAME = {feature.name: feature for feature in FEATURES}


def supported_features(protocol: Protocol) -> tuple[str, ...]:
    """All features that the protocol has, implied by its versions or listed, sorted."""
    names = set(protocol.reader_features or ()) | set(protocol.writer_features or ())
    for feature in FEATURES:
        if not feature.legacy_writer or protocol.min_writer_version >= 7:
            continue
        # Implied only if both of its minimum versions are reached (rule F-1).
        if (
            protocol.min_writer_version >= feature.legacy_writer
            and protocol.min_reader_version >= feature.legacy_reader
        ):
            names.add(feature.name)
    if protocol.min_reader_version == 2 and protocol.min_writer_version >= 7:
        names.add("columnMapping")
    return tuple(sorted(names))


class CatalogManaged(Refused):
    """The newest commits of the table are known to a catalog only."""


def check_readable(protocol: Protocol, *, allow_catalog_managed: bool = False) -> list[str]:
    """Warnings about what was tolerated; raises if the table must not be read (PR-1, PR-2)."""
    version = protocol.min_reader_version
    if version < 1 or protocol.min_writer_version < 1:
        raise CorruptLog(
            f"the protocol versions ({version}, {protocol.min_writer_version}) are not possible",
            hint="readers begin at 1, writers at 1",
        )
    if version > 3:
        raise Refused(
            f"unsupported reader version {version}: deltacli reads tables up to version 3",
            hint="a newer deltacli may read it",
        )
    names = protocol.reader_features
    if version == 3 and names is None:
        raise CorruptLog("the protocol has minReaderVersion 3 and no readerFeatures")
    warnings = []
    if version < 3 and names:
        warnings.append(f"the protocol lists readerFeatures at minReaderVersion {version}")
    for name in names or ():
        feature = BY_NAME.get(name)
        if feature is None or feature.read is Support.NO:
            reason = f" ({feature.why_not})" if feature else ""
            raise Refused(
                f"unsupported reader feature: {name}{reason}",
                hint="reading without it could give wrong answers; a newer deltacli may know it",
            )
        if feature.read is Support.CATALOG and not allow_catalog_managed:
            raise CatalogManaged(
                f"the table is catalog-managed ({name}): {feature.read.value}",
                hint="commands with --allow-catalog-managed show the published commits only",
            )
        if feature.read is Support.CATALOG:
            warnings.append(
                f"the table is catalog-managed ({name}): only published commits are shown, "
                "the catalog may know newer versions"
            )
    return warnings + _writer_warnings(protocol)


def _writer_warnings(protocol: Protocol) -> list[str]:
    if protocol.min_writer_version > 7:
        return [f"writer version {protocol.min_writer_version} is unknown: writing is refused"]
    warnings = []
    for name in protocol.writer_features or ():
        feature = BY_NAME.get(name)
        if name in (protocol.reader_features or ()):
            continue
        if feature is None:
            warnings.append(f"unknown writer feature {name}: writing is refused")
        elif name == "coordinatedCommits-preview":
            warnings.append(
                f"{name}: commits that are not backfilled yet are missing in what is shown"
            )
        elif feature.write is Support.NO:
            warnings.append(f"writer feature {name}: writing is refused, {feature.why_not}")
    return warnings


def with_features(protocol: Protocol, names: Iterable[str]) -> Protocol:
    """The protocol with more features, everything it implied before listed (F-1 … F-6)."""
    wanted = {*supported_features(protocol), *names}
    reads = {name for name in wanted if name in BY_NAME and BY_NAME[name].reads}
    if any(BY_NAME[name].reads for name in names):
        return Protocol(3, 7, tuple(sorted(reads)), tuple(sorted(wanted)))
    reader = protocol.min_reader_version
    readers = tuple(sorted(reads)) if reader >= 3 else None
    return Protocol(reader, 7, readers, tuple(sorted(wanted)))


def without_feature(protocol: Protocol, name: str) -> Protocol:
    """The protocol without a feature; readers need no lists if none is left that they need."""
    readers = tuple(one for one in protocol.reader_features or () if one != name)
    writers = tuple(one for one in protocol.writer_features or () if one != name)
    if not readers:
        return Protocol(1, 7, None, writers)
    return Protocol(3, 7, readers, writers)


# The features that a type needs, by any of its names; the first is the one to write.
TYPE_FEATURES: dict[str, tuple[str, ...]] = {
    "timestamp_ntz": ("timestampNtz", "timestampWithoutTimezone"),
    "variant": ("variantType", "variantType-preview"),
    "geometry": ("geospatial", "geospatial-dev"),
    "geography": ("geospatial", "geospatial-dev"),
}
