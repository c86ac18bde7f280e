"""Names: every file that may stand in `_delta_log`, and the paths of data files.

A name is parsed once, into one of a closed set of kinds (rules N-1 … N-21). Anything that
does not match strictly is FOREIGN and takes no part in the table's state.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

LOG = "_delta_log"
SIDECARS = "_delta_log/_sidecars"
LAST_CHECKPOINT = "_delta_log/_last_checkpoint"
# Names that vacuum may have to pass over: by how they begin, or whole (V-21 …).
HIDDEN_LETTERS = "._"
HIDDEN_WORDS = ("metadata",)


class Kind(Enum):
    """What a name in `_delta_log` is."""

    COMMIT = "commit"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    MULTIPART_CHECKPOINT = "multi-part checkpoint"
    UUID_CHECKPOINT = "v2 checkpoint"
    COMPACTED = "compacted commits"
    CHECKSUM = "version checksum"
    LAST_CHECKPOINT = "last checkpoint hint"
    LAST_VACUUM = "last vacuum state"
    STAGED_COMMITS = "staged commits folder"
    SIDECARS = "sidecars folder"
    TEMPORARY = "temporary file"
    FOREIGN = "foreign file"


@dataclass(frozen=True, slots=True)
class LogName:
    """A parsed name. `end` is the last version of compacted commits; parts count from 1."""

    text: str
    kind: Kind
    version: int = -1
    end: int = -1
    part: int = 0
    parts: int = 0

    @property
    def path(self) -> str:
        return f"{LOG}/{self.text}"


_VERSION = r"(?P<version>[0-9]{20})"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_NAMES: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (Kind.CHECKSUM, rf"{_VERSION}\.crc"),
        (Kind.CLASSIC_CHECKPOINT, rf"{_VERSION}\.checkpoint\.parquet"),
        (Kind.UUID_CHECKPOINT, rf"{_VERSION}\.checkpoint\.{_UUID}\.(?:json|parquet)"),
        (
            Kind.MULTIPART_CHECKPOINT,
            rf"{_VERSION}\.checkpoint\.(?P<part>[0-9]{{10}})\.(?P<parts>[0-9]{{10}})\.parquet",
        ),
        (Kind.COMPACTED, rf"{_VERSION}\.(?P<end>[0-9]{{20}})\.compacted\.json"),
        (Kind.TEMPORARY, r"\..*\.tmp|.*\.tmp|__tmp_path_dir|\..*\.crc|\.deltacli_probe_.*"),
    )
)
_FIXED = {
    "_last_checkpoint": Kind.LAST_CHECKPOINT,
    "_last_vacuum_info": Kind.LAST_VACUUM,
    "_staged_commits": Kind.STAGED_COMMITS,
    "_sidecars": Kind.SIDECARS,
}
_LONG_MAX = 2**63 - 1


def parse_log_name(name: str) -> LogName:
    """The kind and numbers of a name in `_delta_log`."""
    # By far the most frequent name, recognised without a regular expression.
    if len(name) == 25 and name.endswith(".json") and name[:20].isdigit() and name.isascii():
        version = int(name[:20])
        return LogName(name, Kind.COMMIT if version <= _LONG_MAX else Kind.FOREIGN, version)
    if fixed := _FIXED.get(name):
        return LogName(name, fixed)
    for kind, pattern in _NAMES:
        if match := pattern.fullmatch(name):
            numbers = {key: int(value) for key, value in match.groupdict().items()}
            parsed = LogName(name, kind, **numbers)
            return parsed if _is_possible(parsed) else LogName(name, Kind.FOREIGN)
    return LogName(name, Kind.FOREIGN)


def _is_possible(name: LogName) -> bool:
    if name.version > _LONG_MAX or name.end > _LONG_MAX:
        return False
    if name.kind is Kind.MULTIPART_CHECKPOINT:
        return 1 <= name.part <= name.parts
    return name.kind is not Kind.COMPACTED or name.end > name.version


def commit_name(version: int) -> str:
    return f"{version:020}.json"


def commit_path(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def checksum_path(version: int) -> str:
    return f"{LOG}/{version:020}.crc"


def decode_path(path: str) -> str:
    """A path of the log with its percent-encoding removed, once.

    Bytes that are not UTF-8 survive as lone surrogates, as the operating system keeps them.
    """
    if "%" not in path:
        return path
    from urllib.parse import unquote

    return unquote(path, errors="surrogateescape")


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def sidecar_path(path: str) -> str:
    """Where a sidecar lies; its action holds a bare, encoded file name.

    Raises ValueError for a path that leads out of the sidecars' folder.
    """
    name = decode_path(path).rsplit(f"{SIDECARS}/", 1)[-1]
    if "/" in name or name in ("", ".", ".."):
        raise ValueError(f"the sidecar path {path!r} is not a file name")
    return f"{SIDECARS}/{name}"


def is_absolute(path: str) -> bool:
    return path.startswith("/") or _SCHEME.match(path) is not None


def canonical_path(path: str) -> str:
    """The form in which two spellings of one file are equal (rule R-6).

    Decoded; `file:///x`, `file:/x` and `/x` are the same file.
    """
    if "%" in path:
        path = decode_path(path)
    if path.startswith("file:"):
        return "/" + path[5:].lstrip("/")
    if path.startswith("/"):
        return "/" + path.lstrip("/")
    return path


def file_location(table_location: str, path: str) -> str:
    """The decoded full URL of a data file; `path` is as in the log."""
    decoded = decode_path(path)
    if not is_absolute(path):
        return f"{table_location}/{decoded}"
    if decoded.startswith("file:"):
        return "file:///" + decoded[5:].lstrip("/")
    if decoded.startswith("/") and table_location.startswith("file://"):
        return f"file://{decoded}"
    return decoded
