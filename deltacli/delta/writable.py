"""Whether this table may be written to at all, asked before anything is written."""

from __future__ import annotations

from deltacli.delta.features import BY_NAME, Support
from deltacli.delta.properties import PROPERTIES, read_property
from deltacli.delta.snapshot import Snapshot
from deltacli.delta.tolerance import Remark
from deltacli.errors import Refused

# Settings that hand the table's commits to somebody else, with or without the feature.
_ELSEWHERE = (
    ("delta.redirectReaderWriter-preview", "redirected"),
    ("delta.redirectWriterOnly-preview", "redirected"),
    ("delta.coordinatedCommits.commitCoordinator-preview", "written through a coordinator"),
)


def check_writable(snapshot: Snapshot) -> None:
    """Raise Refused with the reason if a write could break the table (PR-2, CM-2, 3.7)."""
    protocol = snapshot.protocol
    if protocol.min_writer_version > 7:
        raise Refused(
            f"unsupported writer version {protocol.min_writer_version}",
            hint="reading commands still work; a newer deltacli may write it",
        )
    if protocol.min_writer_version == 7 and protocol.writer_features is None:
        raise Refused(
            "the protocol has minWriterVersion 7 and no writerFeatures",
            hint="which features a writer must keep to is unknown; mend the protocol first",
        )
    for name in (*(protocol.writer_features or ()), *(protocol.reader_features or ())):
        feature = BY_NAME.get(name)
        if feature is None:
            raise Refused(
                f"writing needs the table feature {name!r}, which deltacli does not know",
                hint="reading commands still work; see `deltacli snapshot TABLE`",
            )
        if feature.write is not Support.YES:
            raise Refused(
                f"tables with the feature {name!r} are not written: {feature.why_not}",
                hint="use the engine that manages the table",
            )
    for key, how in _ELSEWHERE:
        if key in snapshot.metadata.configuration:
            raise Refused(
                f"the table is {how}: {key} is set", hint="use the engine that manages the table"
            )
    for row in PROPERTIES:
        try:
            read_property(snapshot.metadata.configuration, row.key)
        except ValueError as error:
            raise Refused(
                f"{error}; what it should mean for a write is unclear",
                hint="set the property to a value that Delta knows",
            ) from None
    for warning in snapshot.warnings:
        if not isinstance(warning, Remark):
            raise Refused(
                f"the table is not sound enough to write to: {warning}",
                hint="reading commands still work; mend the log first",
            )
