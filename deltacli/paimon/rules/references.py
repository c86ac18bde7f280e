"""Rules about what needs which version of the schema (facts 5)."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.checking.model import ERROR, Finding, rule
from deltacli.paimon.subjects import MissingSchema, Unreferenced


@rule("PMR001", ERROR, "It can be told which versions are needed", of=Unreferenced)
def references_can_be_read(one: Unreferenced) -> Iterator[Finding]:
    """Every snapshot, tag, changelog, statistics file and manifest can be read.

    Why: readers fail, and nobody can say which schema files may go.
    Fix: restore the file, or drop the snapshot or tag that needs it.
    """
    yield Finding(one.error.message)


@rule("PMR002", ERROR, "A version that is needed is there", of=MissingSchema)
def needed_versions_exist(one: MissingSchema) -> Iterator[Finding]:
    """Each schema id that a snapshot, tag, changelog, statistics or manifest names has its file.

    Why: the whole table cannot be read without it, even where only one old file needs it.
    Fix: restore the file; branches of Paimon before 1.0 may lack files that main still has.
    """
    yield Finding(f"schema {one.id} is needed by {one.needed_by}, but its file is missing")
