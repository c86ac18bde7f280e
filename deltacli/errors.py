"""Every error a user can meet, as one tree; the class decides the exit code.

DeltaCliError          70  a bug in deltacli, if nothing narrower applies
├── UsageError          2  the command line is wrong
├── NotFound            3  no such table, version or column
├── Refused             4  unsupported feature, illegal change, unsafe request
├── CorruptLog          5  the log breaks the protocol
│   └── UnreadableCheckpoint   another checkpoint may still serve
├── Conflict            6  another writer won and retrying is not allowed
├── StorageError        7  network, permission, credentials, missing package
│   ├── FileMissing        the file is not there
│   ├── NoPlainFile        what has its name is a folder, a pipe or a link in a circle
│   ├── Busy               two writers at one moment: ask again
│   └── AlreadyExists      put-if-absent met an existing file
├── PartlyDone          8  some of the work could not be done
└── Interrupted       130  Ctrl-C
"""

from __future__ import annotations

from typing import Any, ClassVar


class DeltaCliError(Exception):
    """What went wrong, what to do next, and where.

    `table` is the one that the command was given, by the name that the user wrote.
    """

    exit_code: ClassVar[int] = 70
    usual_hint: ClassVar[str | None] = None

    def __init__(self, message: str, *, hint: str | None = None, location: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint or self.usual_hint
        self.location = location
        self.table: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.message, self.hint, self.location)


def _again(
    kind: type[DeltaCliError], message: str, hint: str | None, location: str | None
) -> DeltaCliError:
    return kind(message, hint=hint, location=location)


class UsageError(DeltaCliError):
    exit_code = 2


class NotFound(DeltaCliError):
    exit_code = 3


class Refused(DeltaCliError):
    exit_code = 4


class CorruptLog(DeltaCliError):
    exit_code = 5
    usual_hint = "restore the file from a backup"


class UnreadableCheckpoint(CorruptLog):
    """A checkpoint cannot be used; the state may be rebuilt from an earlier one."""


class Conflict(DeltaCliError):
    exit_code = 6


class StorageError(DeltaCliError):
    exit_code = 7
    usual_hint = "check the path, the permissions and the storage options"


class FileMissing(StorageError):
    """A file is not in the store (any more)."""


class NoPlainFile(StorageError):
    """What has a file's name is something else, which is not read."""


class Busy(StorageError):
    """Two writers asked for one name at the same moment; nothing was written by us."""


class AlreadyExists(StorageError):
    """Put-if-absent found the name taken; nothing was written."""


class PartlyDone(DeltaCliError):
    exit_code = 8


class Interrupted(DeltaCliError):
    exit_code = 130


EXIT_CODES: tuple[tuple[int, str], ...] = (
    (0, "done"),
    (1, "the answer is no: differences or findings"),
    (2, "wrong usage"),
    (3, "not found: table, version or column"),
    (4, "refused: unsupported feature, illegal change, unsafe request"),
    (5, "the log is corrupt"),
    (6, "another writer won and retrying is not allowed"),
    (7, "storage: network, permission, credentials, missing package"),
    (8, "partly done"),
    (70, "a bug in deltacli"),
    (130, "interrupted"),
)
