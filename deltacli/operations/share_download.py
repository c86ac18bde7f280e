"""`share download`: a shared version as a table, or as plain Parquet files, on this machine.

Everything is written beside the target and renamed at the end: it is there whole, or not.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from deltacli import __version__
from deltacli.delta import json_text
from deltacli.delta.engine import Want
from deltacli.delta.paths import LOG, commit_name
from deltacli.delta.predicates import Condition, NotSimple
from deltacli.delta.scan import Files, ScanFile, chosen_columns
from deltacli.delta.schema import Struct
from deltacli.delta.snapshot import load_snapshot
from deltacli.delta.vectors import relative_vector
from deltacli.errors import CorruptLog, StorageError, UsageError
from deltacli.local.engine import LocalEngine
from deltacli.local.filters import holds
from deltacli.local.scan import arrow_schema, read_rows
from deltacli.operations.head import condition_of, searched_columns
from deltacli.operations.records import Document
from deltacli.operations.share_client import Wish, not_simple, open_wished
from deltacli.sharing.client.address import TableAddress
from deltacli.sharing.client.messages import FileLine, Source
from deltacli.sharing.client.rows import SharedVersion
from deltacli.sharing.client.server import At, SharingServer
from deltacli.sharing.needs import needs_of, told_configuration, told_protocol
from deltacli.storage import local_path
from deltacli.storage.local import LocalStore

FIELDS = ("table", "version", "location", "kind", "numFiles", "sizeInBytes", "numRecords")
DELTA, PARQUET = "delta", "parquet"
_THREADS = 8
_GROUP_ROWS = 1 << 17
_PART = "part-{:05}.parquet"
_PIECE = 8 << 20
# Names that are no danger to any file system, and are not hidden from readers.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}")

OnFile = Callable[[str, int, int, int], None]


@dataclass(frozen=True)
class Download:
    """What is to be written where. `wanted` and `condition` count for Parquet files only."""

    table: TableAddress
    version: SharedVersion
    target: str
    kind: str
    lines: tuple[FileLine, ...]
    wanted: Struct
    condition: Condition | None

    @property
    def arrow_schema(self) -> Any:
        return arrow_schema(self.wanted)

    @property
    def size(self) -> int:
        return sum(line.data.size or 0 for line in self.lines)


def _folder_of(target: str) -> str:
    """The folder that a path or a file URL names."""
    hint = "name a folder that is still to be made"
    if not target:
        raise UsageError("FOLDER is empty", hint=hint)
    path = local_path(target)
    if "://" in path:
        raise UsageError(f"{target} is no folder of this machine", hint=hint)
    return os.path.abspath(path)


def _check_free(target: str) -> None:
    """Raise what would keep a folder from being made."""
    above = os.path.dirname(target)
    if os.path.lexists(target):
        raise UsageError(f"{target} exists already", hint="name a folder that is still to be made")
    if not os.path.isdir(above):
        raise StorageError(
            f"cannot write {target}: there is no folder {above}", hint="make it", location=target
        )
    if not os.access(above, os.W_OK):
        raise StorageError(
            f"cannot write {target}: no permission",
            hint="check the owner and mode of the folder",
            location=target,
        )


def plan_download(
    server: SharingServer,
    table: TableAddress,
    at: At,
    target: str,
    kind: str,
    *,
    columns: tuple[str, ...] | None = None,
    where: str | None = None,
) -> Download:
    """Ask for the files. A table has all its rows and columns; plain files may have less."""
    target = _folder_of(target)
    _check_free(target)
    if kind == DELTA and (columns is not None or where is not None):
        raise UsageError(
            "a downloaded table has all rows and columns",
            hint="--as parquet can leave some out",
        )
    version, _ = open_wished(server, table, at, Wish(where))
    wanted, condition = chosen_columns(version.schema, columns), None
    if kind == PARQUET:
        try:
            condition = condition_of(version.schema, wanted, where)
        except NotSimple as error:
            raise not_simple(where or "", error) from None
    return Download(table, version, target, kind, tuple(version.lines()), wanted, condition)


def apply_download(plan: Download, now_ms: int, on_file: OnFile | None = None) -> Document:
    """Write the files and give them their place."""
    for line in plan.lines:
        plan.version.store.take(line)
    beside = f"{plan.target}.{os.urandom(8).hex()}.part"
    try:
        os.mkdir(beside)
        told = _write_table if plan.kind == DELTA else _write_rows
        files, size, records = told(plan, beside, now_ms, on_file or (lambda *_: None))
        _check_free(plan.target)
        os.rename(beside, plan.target)
    except OSError as error:
        raise StorageError(
            f"cannot write {plan.target}: {error.strerror or error}",
            hint="check the place and the space there",
            location=plan.target,
        ) from error
    finally:
        _remove(beside)
    return Document(
        {
            "table": str(plan.table),
            "version": plan.version.version,
            "location": f"file://{plan.target}",
            "kind": plan.kind,
            "numFiles": files,
            "sizeInBytes": size,
            "numRecords": records,
        },
        "download",
    )


def _remove(folder: str) -> None:
    """Remove what was not finished; a thread may still put a last file into it."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            return
        time.sleep(0.05)


# -- a table -----------------------------------------------------------------------------


def _write_table(
    plan: Download, folder: str, now_ms: int, on_file: OnFile
) -> tuple[int, int, int | None]:
    """The files as they are, and a log of one commit (seed: API Response Format in Delta)."""
    sources: dict[str, Source] = {}
    adds = []
    for line in plan.lines:
        name = _name(line.id, ".parquet")
        sources[name] = line.data
        body = {**line.body, "path": name, "dataChange": True}
        for private in ("tags", "baseRowId", "defaultRowCommitVersion", "clusteringProvider"):
            body.pop(private, None)
        if line.vector is not None:
            vector = _vector_id(line.vector)
            sources[f"deletion_vector_{vector}.bin"] = line.vector
            body["deletionVector"] = relative_vector(body["deletionVector"], vector)
        adds.append(body)
    _fetch(plan, folder, sources, on_file)
    os.mkdir(os.path.join(folder, LOG))
    with open(os.path.join(folder, LOG, commit_name(0)), "wb") as log:
        for action in _head(plan, now_ms):
            log.write(json_text.dump(action) + b"\n")
        for body in adds:
            # The copies are files of their own, as old as they are.
            body["modificationTime"] = _modified_ms(os.path.join(folder, body["path"]))
            log.write(json_text.dump({"add": body}) + b"\n")
    made = load_snapshot(LocalStore(folder), LocalEngine)
    totals = made.totals(frozenset((Want.FILES, Want.RECORDS, Want.VECTORS)), now_ms)
    if (totals.files, totals.bytes) != (len(adds), plan.size):
        raise CorruptLog(
            f"the server told {len(adds)} files, of which {totals.files} make up a table",
            hint="it told some twice; tell its provider",
        )
    records = None if totals.without_records else totals.records - totals.deleted_records
    return totals.files, totals.bytes, records


def _modified_ms(path: str) -> int:
    return os.stat(path).st_mtime_ns // 1_000_000


def _head(plan: Download, now_ms: int) -> Iterator[Mapping[str, Any]]:
    version = plan.version
    metadata = version.metadata
    has_vectors = any(line.body.get("deletionVector") for line in plan.lines)
    needs = needs_of(version.protocol, metadata, version.schema, has_vectors=has_vectors)
    yield {
        "commitInfo": {
            "timestamp": now_ms,
            "operation": "DOWNLOAD",
            "operationParameters": {
                "table": str(plan.table),
                "version": str(plan.version.version),
            },
            "engineInfo": f"deltacli/{__version__}",
        }
    }
    # What the provider's own log needs is nothing to this one.
    yield {"protocol": told_protocol(needs, has_changes=False)}
    yield {
        "metaData": {
            "id": metadata.id,
            "name": metadata.name,
            "description": metadata.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": metadata.schema_string,
            "partitionColumns": list(metadata.partition_columns),
            "configuration": told_configuration(metadata.configuration, needs, has_changes=False),
            "createdTime": metadata.created_time or now_ms,
        }
    }


def _fetch(plan: Download, folder: str, sources: Mapping[str, Source], on_file: OnFile) -> None:
    """Copy files from their URLs, several at a time."""

    def copy(item: tuple[str, Source]) -> int:
        name, source = item
        with (
            plan.version.store.open(source.place) as file,
            open(os.path.join(folder, name), "xb") as target,
        ):
            while piece := file.read(_PIECE):
                target.write(piece)
            return target.tell()

    done, size = 0, 0
    for copied in _several(copy, list(sources.items())):
        done, size = done + 1, size + copied
        on_file("files", done, len(sources), size)


def _several(work: Callable[[Any], Any], items: list[Any]) -> Iterator[Any]:
    """The results in order; after a failure nothing more is begun."""
    with ThreadPoolExecutor(_THREADS) as pool:
        jobs = [pool.submit(work, one) for one in items]
        try:
            for one in jobs:
                yield one.result()
        except BaseException:
            for one in jobs:
                one.cancel()
            raise


def _name(file_id: str, suffix: str) -> str:
    """A file's name: its id, or a hash of an id that is no name."""
    if not _PLAIN.fullmatch(file_id):
        file_id = hashlib.sha256(file_id.encode("utf-8", "surrogatepass")).hexdigest()
    return file_id + suffix


def _vector_id(source: Source) -> uuid.UUID:
    digest = hashlib.sha256(source.place.encode("utf-8", "surrogatepass")).digest()
    return uuid.UUID(bytes=digest[:16])


# -- rows --------------------------------------------------------------------------------


def _write_rows(
    plan: Download, folder: str, now_ms: int, on_file: OnFile
) -> tuple[int, int, int | None]:
    """The rows by the table's names and types: a Parquet file for each that has any."""
    files = Files(plan.version)
    scans: Iterator[ScanFile] = (files.of_action(line.body) for line in plan.lines)
    if plan.condition is not None:
        scans = files.matching(scans, plan.condition)
    jobs = list(enumerate(scans))
    count, size, records = 0, 0, 0

    def write(job: tuple[int, ScanFile]) -> tuple[int, int]:
        number, one = job
        path = os.path.join(folder, _PART.format(number))
        rows = _write_file(plan, files, one, path)
        return rows, os.path.getsize(path) if rows else 0

    for done, (rows, written) in enumerate(_several(write, jobs), 1):
        count, size, records = count + bool(rows), size + written, records + rows
        on_file("files", done, len(jobs), size)
    if not count:
        # Without a row, there is still the schema.
        path = os.path.join(folder, _PART.format(0))
        parquet.ParquetWriter(path, plan.arrow_schema).close()
        count, size = 1, os.path.getsize(path)
    return count, size, records


def _write_file(plan: Download, files: Files, one: ScanFile, path: str) -> int:
    searched = searched_columns(files.schema, plan.wanted, plan.condition)
    names = [field.name for field in plan.wanted.fields]
    written, held, waiting = 0, [], 0
    with parquet.ParquetWriter(path, plan.arrow_schema) as writer:
        for batch in read_rows(files, [one], searched):
            if plan.condition is not None:
                batch = batch.filter(pc.fill_null(holds(plan.condition, batch), False))
            held.append(batch.select(names))
            waiting += batch.num_rows
            if waiting >= _GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(held))
                written, held, waiting = written + waiting, [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(held))
            written += waiting
    if not written:
        os.unlink(path)
    return written


__all__ = ["DELTA", "FIELDS", "PARQUET", "Download", "apply_download", "plan_download"]
