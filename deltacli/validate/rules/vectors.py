"""Deletion vectors: descriptors, files and bitmaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from deltacli.checking.model import DATA, ERROR, FILES, WARNING, Finding, rule
from deltacli.delta.vectors import vector_path, z85_decode
from deltacli.validate.adds import Adds, LiveAdds
from deltacli.validate.data_files import records_of
from deltacli.validate.rows import Vector
from deltacli.validate.stored import Stored


@rule("DVX001", ERROR, "Descriptors make sense", of=Adds)
def descriptors_make_sense(adds: Adds) -> Iterator[Finding]:
    """A deletion vector is stored by UUID, by absolute path or inline, and is called so.

    Why: readers cannot find the vector, and so not read the file.
    Fix: restore the commit from a backup.
    """
    for n, vector in adds.vectors:
        problem = _problem(vector)
        if problem:
            yield adds.finding(n, f"the deletion vector {problem}")


def _problem(vector: Mapping[str, Any]) -> str | None:
    kind, text, offset = (vector.get(one) for one in ("storageType", "pathOrInlineDv", "offset"))
    if kind not in ("u", "p", "i"):
        return f"has the unknown storage type {kind!r}"
    if offset is not None and (kind == "i" or offset < 0):
        return "is inline and has an offset" if kind == "i" else f"has the offset {offset}"
    for name in ("sizeInBytes", "cardinality"):
        value = vector.get(name)
        if type(value) is not int or value < 0:
            return f"has {name} {value}"
    try:
        if kind == "i":
            content = z85_decode(str(text))
            if not vector["sizeInBytes"] <= len(content) < vector["sizeInBytes"] + 4:
                return f"has {len(content)} bytes inline, sizeInBytes is {vector['sizeInBytes']}"
        elif kind == "p":
            return (
                None
                if isinstance(text, str) and (":" in text or text.startswith("/"))
                else ("has an absolute path that is none")
            )
        else:
            vector_path(vector)
    except ValueError as error:
        return f"cannot be found: {error}"
    return None


@rule("DVX002", ERROR, "Vectors' files are there", of=Stored, level=FILES)
def vectors_files_are_there(stored: Stored) -> Iterator[Finding]:
    """The file of each live deletion vector exists, and is long enough for it.

    Why: the data file cannot be read without its vector.
    Fix: restore the file from a backup.
    """
    for place, problem in stored.vector_problems:
        yield Finding(f"the deletion vectors' file: {problem}", path=place)


@rule("DVX003", ERROR, "Vectors can be read", of=Vector, level=DATA)
def vectors_can_be_read(vector: Vector) -> Iterator[Finding]:
    """A deletion vector has its format's version, size, magic number and checksum.

    Why: readers refuse the file, or delete the wrong rows.
    Fix: restore the file from a backup.
    """
    if vector.error is not None:
        yield Finding(vector.error, path=vector.path)


@rule("DVX004", ERROR, "Vectors delete as many rows as they say", of=Vector, level=DATA)
def vectors_delete_as_many_rows_as_they_say(vector: Vector) -> Iterator[Finding]:
    """The cardinality of a descriptor is the number of rows in its bitmap.

    Why: counts are wrong, and strict readers refuse the file.
    Fix: restore the commit from a backup, or rewrite the file.
    """
    if vector.rows is not None and len(vector.rows) != vector.descriptor["cardinality"]:
        yield Finding(
            f"the bitmap has {len(vector.rows):,} rows, the descriptor says "
            f"{vector.descriptor['cardinality']:,}",
            path=vector.path,
        )


@rule("DVX005", ERROR, "Vectors delete rows that there are", of=Vector, level=DATA)
def vectors_delete_rows_that_there_are(vector: Vector) -> Iterator[Finding]:
    """No row in a deletion vector lies beyond the end of its file.

    Why: the vector is another file's, or the file was replaced.
    Fix: restore the commit from a backup, or rewrite the file.
    """
    records = records_of(vector.add)
    if vector.rows is not None and records is not None:
        greatest = vector.rows.greatest
        if greatest is not None and greatest >= records:
            yield Finding(
                f"row {greatest:,} is deleted, the file has {records:,} rows", path=vector.path
            )


@rule("DVX006", WARNING, "Vectors delete some rows", of=Adds)
def vectors_delete_some_rows(adds: Adds) -> Iterator[Finding]:
    """A deletion vector deletes at least one row, and not all of them.

    Why: a vector without rows only costs; a file without rows should be removed.
    Fix: rewrite or remove the file with an engine.
    """
    for n, vector in adds.vectors:
        cardinality, records = vector.get("cardinality"), adds.records_of(n)
        if cardinality == 0:
            yield adds.finding(n, "the deletion vector deletes nothing")
        elif records is not None and cardinality == records:
            yield adds.finding(n, "all rows of the file are deleted, and it is still live")


@rule("DVX007", WARNING, "No vector's file is forgotten", of=Stored, level=FILES)
def no_vectors_file_is_forgotten(stored: Stored) -> Iterator[Finding]:
    """Each `deletion_vector_*.bin` older than the retention is one that a kept version needs.

    Why: it only takes room.
    Fix: `deltacli vacuum TABLE`.
    """
    for name in stored.forgotten(".bin"):
        if name.rpartition("/")[2].startswith("deletion_vector_"):
            yield Finding("no retained version needs the deletion vectors' file", path=name)


@rule("DVX008", ERROR, "Iceberg tables have no deletion vectors", of=LiveAdds)
def iceberg_tables_have_no_vectors(adds: LiveAdds) -> Iterator[Finding]:
    """In a table with icebergCompat V1 or V2 no file has a deletion vector.

    Why: Iceberg's readers show the deleted rows.
    Fix: rewrite the files without vectors (`REORG TABLE … APPLY (PURGE)`).
    """
    definition = adds.definition
    if definition and any(
        definition.is_on(f"delta.enableIcebergCompat{one}") for one in ("V1", "V2")
    ):
        for n, _ in adds.vectors:
            yield adds.finding(n, "a deletion vector in a table that is one of Iceberg too")
