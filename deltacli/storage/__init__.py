"""How bytes are listed, read, put and deleted: the contract that every store keeps.

A store is rooted at one table. Its paths are relative to that root, with `/` between
segments, exactly as they stand on storage (percent-decoding is the caller's affair).

The contract is that of the first Delta paper and of PROTOCOL's requirements:

- *atomic visibility*: a file appears whole or not at all;
- *mutual exclusion*: of several `put_if_absent` of one path exactly one succeeds;
- *consistent listing*: what was written is listed by the next call, in name order,
  from a given key on.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Protocol, TypeVar

from deltacli.errors import AlreadyExists, FileMissing, Refused, StorageError, UsageError

T = TypeVar("T")

READ_THREADS = 16
_WINDOW = 256


class Entry(Protocol):
    """One name in a listed folder."""

    @property
    def name(self) -> str: ...
    @property
    def is_folder(self) -> bool: ...
    @property
    def size(self) -> int: ...
    @property
    def modified_ms(self) -> int | None:
        """Last modification in milliseconds UTC; None where the store does not tell."""


class LogStore(Protocol):
    """A table's files, wherever they are."""

    @property
    def location(self) -> str:
        """The URL of the table's root, without a trailing slash."""

    @property
    def reads_are_remote(self) -> bool:
        """Whether reads wait for a network, so that threads pay off."""

    def list_from(self, folder: str, start: str = "") -> Iterator[Entry]:
        """The entries of `folder` whose names are >= `start`, in name order (UTF-8 bytes).

        Raises FileMissing if there is no such folder.
        """

    def read(self, path: str) -> bytes: ...

    def open(self, path: str) -> IO[bytes]:
        """A seekable reader, for files of which only parts are needed."""

    def stat(self, path: str) -> Entry: ...

    def file_path(self, path: str) -> str | None:
        """Where the file lies on this machine's file system, if it does."""

    def put_if_absent(self, path: str, content: bytes) -> None:
        """Create `path` with all of `content`, or raise AlreadyExists and change nothing."""

    def put(self, path: str, content: bytes) -> None:
        """Replace `path` atomically: readers see the old content or the new one."""

    def scratch(self, path: str) -> str:
        """Where on this machine to prepare a large file for `put_file`."""

    def put_file(self, path: str, source: str) -> None:
        """Replace `path` atomically with a file from `scratch`, which is gone afterwards."""

    def delete(self, path: str) -> None:
        """Remove `path`; that it is gone already is success."""


def open_store(table: str, options: Mapping[str, str] | None = None) -> LogStore:
    """The store for a table's path or URL."""
    scheme = _scheme_of(table)
    if scheme in ("", "file"):
        from deltacli.storage.local import LocalStore

        return LocalStore(local_path(table))
    if scheme in ("wasb", "wasbs", "adl"):
        raise UsageError(
            f"{scheme}:// is a retired Azure scheme",
            hint="use abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
        )
    if scheme == "dbfs":
        raise UsageError(
            "dbfs: paths exist only inside Databricks", hint="use the cloud storage URL behind it"
        )
    from deltacli.storage.remote import RemoteStore

    return RemoteStore(table, options or {})


def _scheme_of(table: str) -> str:
    """The URL scheme in lower case; empty for a plain path (also for `C:\\…` and `a:b`)."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]+)://", table)
    if match:
        return match[1].lower()
    # `file:/x` and `dbfs:/x` have a single slash.
    single = re.match(r"(file|dbfs):", table, re.IGNORECASE)
    return single[1].lower() if single else ""


def local_path(table: str) -> str:
    """The file system path of `./t`, `file:/t` or `file:///t`."""
    if not table.lower().startswith("file:"):
        return table
    rest = table[5:]
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise UsageError(
                f"{table!r} names the host {host!r}", hint="local tables are file:///PATH"
            )
        rest = slash + path
    if not rest.startswith("/"):
        raise UsageError(f"{table!r} is not an absolute file URL", hint="write file:///PATH")
    return rest


def read_all(
    store: LogStore,
    paths: Sequence[str],
    *,
    reverse: bool = False,
    on_read: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[str, bytes | StorageError]]:
    """Each path with its content, in order (or from the last), reading ahead on slow stores.

    A file that cannot be read yields its error, so that the caller decides what it means.
    At most a few hundred files are held at once.
    """
    ordered = list(reversed(paths)) if reverse else list(paths)
    total = len(ordered)
    for start in range(0, total, _WINDOW):
        window = ordered[start : start + _WINDOW]
        for offset, (path, content) in enumerate(
            zip(window, _read_window(store, window), strict=True)
        ):
            yield path, content
            if on_read and offset % 64 == 0:
                on_read(start + offset + 1, total)


def _read_window(
    store: LogStore, paths: Sequence[str]
) -> Iterator[bytes | StorageError] | list[bytes | StorageError]:
    def read(path: str) -> bytes | StorageError:
        try:
            return store.read(path)
        except StorageError as error:
            return error

    # Local reads are bound by the interpreter: threads make them slower, not faster.
    if len(paths) == 1 or not store.reads_are_remote:
        return map(read, paths)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(READ_THREADS) as pool:
        return list(pool.map(read, paths))


def scratch_file(path: str) -> str:
    """A new name for a local file that is on its way to a store elsewhere."""
    import tempfile

    return f"{tempfile.gettempdir()}/deltacli-{os.urandom(16).hex()}-{path.rsplit('/', 1)[-1]}"


def prove_put_if_absent(store: LogStore) -> None:
    """Return if the store really refuses to overwrite; raise Refused otherwise (rule ST-11).

    Some backends ignore the request for exclusive creation. Committing through one of
    them would destroy other writers' commits.
    """
    probe = f"_delta_log/.deltacli_probe_{os.urandom(16).hex()}"
    store.put_if_absent(probe, b"first")
    try:
        store.put_if_absent(probe, b"second")
    except AlreadyExists:
        proven = store.read(probe) == b"first"
    else:
        proven = False
    finally:
        store.delete(probe)
    if not proven:
        raise Refused(
            "this storage overwrites existing files where it was asked not to",
            hint="commits need put-if-absent; use a storage (or a newer driver) that has it",
            location=store.location,
        )


def retrying(
    action: Callable[[], T],
    *,
    is_transient: Callable[[BaseException], bool],
    attempts: int = 4,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """The action's result, trying again with growing pauses while the failure is transient."""
    import random

    for attempt in range(attempts):
        try:
            return action()
        except Exception as error:
            if attempt == attempts - 1 or not is_transient(error):
                raise
            pause(0.1 * 2**attempt * (1 + random.random()))
    raise AssertionError("the last attempt returns or raises")


__all__ = [
    "AlreadyExists",
    "Entry",
    "FileMissing",
    "LogStore",
    "StorageError",
    "local_path",
    "open_store",
    "prove_put_if_absent",
    "read_all",
    "retrying",
    "scratch_file",
]
