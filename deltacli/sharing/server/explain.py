"""Errors of tables as answers that tell recipients nothing about where they lie."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from deltacli.delta.actions import BadAction
from deltacli.delta.features import CatalogManaged
from deltacli.errors import DeltaCliError, FileMissing, NotFound, Refused, StorageError
from deltacli.sharing.server.catalog import TableName
from deltacli.sharing.server.failures import Failure, missing, unsupported

LOCK_SECONDS = 25


def busy(name: TableName) -> Failure:
    """Another request has been looking at the table for too long."""
    return Failure(503, "UNAVAILABLE", f"the table {name} is busy", {"retry-after": "5"})


def strangers() -> Failure:
    return unsupported(
        "the table has files outside of its folder, which its provider has not allowed to share"
    )


@contextlib.contextmanager
def explained(name: TableName) -> Iterator[None]:
    """Errors of a table as answers that tell recipients nothing about where it lies.

    The error itself stays the cause, for the server's own log.
    """
    try:
        yield
    except (DeltaCliError, BadAction, pa.ArrowException) as error:
        raise failure_of(error, name) from error


def failure_of(error: Exception, name: TableName) -> Failure:
    """What recipients are told of an error."""
    if isinstance(error, NotFound | FileMissing):
        return missing(f"the files of table {name} are missing")
    if isinstance(error, CatalogManaged):
        return unsupported(f"the table {name} is managed by a catalog")
    if isinstance(error, Refused):
        said = "" if "/" in error.message else f": {error.message}"
        return unsupported(f"the table {name} cannot be shared{said}")
    if isinstance(error, StorageError) and not (error.location or "/").startswith(("/", "file:")):
        # What fails on a network may work again; what fails on a disk does not by itself.
        message = f"the storage of table {name} does not answer"
        return Failure(503, "UNAVAILABLE", message, {"retry-after": "5"})
    return unsupported(f"the table {name} cannot be read; its provider has to mend it")
