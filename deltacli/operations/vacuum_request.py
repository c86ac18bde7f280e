"""What can be asked of `vacuum`, and the fields of its answer; needs nothing that loads slowly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltacli.operations.inventory import InventoryRow

FULL = "full"
LITE = "lite"
INVENTORY = "inventory"

DOCUMENT_FIELDS = (
    "location",
    "mode",
    "prefix",
    "dryRun",
    "version",
    "retentionMs",
    "deleteBefore",
    "numFiles",
    "sizeInBytes",
    "numDirectories",
    "byReason",
    "byFolder",
    "byExtension",
    "directories",
    "numListed",
    "numSpared",
    "sparedBytes",
    "earliestReadableVersion",
    "lostVersions",
    "warnings",
    # Of a result only.
    "numDeleted",
    "bytesDeleted",
    "numDirectoriesDeleted",
    "numReferencedAgain",
    "failures",
    "startVersion",
    "endVersion",
    # The rows of the whole.
    "files",
)
FILE_FIELDS = ("path", "sizeInBytes", "modificationTime", "reason")
# Those of a file among the files of several tables.
ROW_FIELDS = (*FILE_FIELDS, "location")


@dataclass(frozen=True)
class VacuumRequest:
    """What the user asks for. `inventory` replaces the listing, `prefix` limits it."""

    retain_ms: int | None = None
    mode: str = FULL
    prefix: str | None = None
    inventory: Callable[[], Iterator[InventoryRow]] | None = None
    allow_short_retention: bool = False
    allow_nested: bool = False
