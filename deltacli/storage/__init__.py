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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from typing import IO, Protocol, TypeVar

from deltacli.errors import AlreadyExists, FileMissing, Refused, StorageError, UsageError
from deltacli.units import is_text

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


@dataclass(frozen=True, slots=True)
class Walked:
    """Some files of one folder.

    `sizes` and `modified_ms` are None where the listing does not tell them: then `look`
    does. `pins` are the names that were passed over: hidden ones, and what is neither a
    folder nor a plain file (links are never followed). `links` are those pins that
    are links.
    """

    folder: str
    names: Collection[str]
    sizes: Sequence[int] | None = None
    modified_ms: Sequence[int | None] | None = None
    pins: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


class DataStore(Protocol):
    """Where data files are read from."""

    @property
    def location(self) -> str:
        """The URL of the table's root, without a trailing slash."""

    @property
    def reads_are_remote(self) -> bool:
        """Whether reads wait for a network, so that threads pay off."""

    def open(self, path: str) -> IO[bytes]:
        """A seekable reader, for files of which only parts are needed."""

    def stat(self, path: str) -> Entry: ...

    def file_path(self, path: str) -> str | None:
        """Where the file lies on this machine's file system, if it does."""


class LogStore(DataStore, Protocol):
    """A table's files, wherever they are. A store can be pickled, for use on other machines."""

    @property
    def has_folders(self) -> bool:
        """Whether folders exist by themselves, also without a file in them."""

    def list_from(self, folder: str, start: str = "") -> Iterator[Entry]:
        """The entries of `folder` whose names are >= `start`, in name order (UTF-8 bytes).

        Raises FileMissing if there is no such folder; with a `start`, storages without folders
        of their own do not know.
        """

    def read(self, path: str) -> bytes: ...

    def walk_soon(self, letters: str, words: Sequence[str]) -> AbstractContextManager[None]:
        """Announce a walk of everything: what the store can do for it meanwhile, it does.

        Only names that begin with one of the letters, or are one of the words, may be hidden.
        """

    def walk(self, folder: str, hides: Callable[[str], bool]) -> Iterator[Walked]:
        """Every file below `folder`; what has a hidden name is passed over with all below it.

        A folder may come several times, and comes once even if it is empty where folders
        exist by themselves; there, FileMissing is raised if there is no such folder.
        """

    def walk_top(
        self, folder: str, hides: Callable[[str], bool], below: list[str]
    ) -> Iterator[Walked]:
        """The files of one folder; the folders in it, by their whole names, go to `below`."""

    def look(self, path: str) -> Entry | None:
        """A plain file or folder reached without a link; None for anything else."""

    def look_at_files(self, paths: Sequence[str]) -> list[tuple[int, int | None] | None]:
        """Size and modification time of each plain file, as `look`; None for anything else."""

    def sign(self, path: str, seconds: int) -> str:
        """A URL that reads the file for so long, without credentials.

        Raises Refused where the storage has no such URLs, or they cannot be made here.
        """

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

    def delete_all(self, paths: Sequence[str]) -> list[tuple[str, StorageError]]:
        """Remove many files; the failures with their reasons."""

    def remove_folder(self, path: str) -> bool:
        """Remove a folder if it is there and empty; whether it was removed."""

    def parent(self) -> LogStore | None:
        """The store of the folder that the table lies in, if there is one."""

    def keeps_deleted(self) -> bool:
        """Whether the storage is known to keep old versions of what is deleted."""

    @property
    def creates_exclusively(self) -> bool:
        """Whether this driver has put-if-absent at all; `put_if_absent` refuses otherwise."""


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
    return _remote_kind(scheme)(table, options or {})


def _remote_kind(scheme: str) -> Callable[[str, Mapping[str, str]], LogStore]:
    """The store that knows a scheme's own requests, or the one for all that fsspec reaches."""
    if scheme in ("s3", "s3a", "s3n"):
        from deltacli.storage.s3 import S3Store

        return S3Store
    if scheme in ("gs", "gcs"):
        from deltacli.storage.gcs import GcsStore

        return GcsStore
    if scheme in ("abfs", "abfss", "az"):
        from deltacli.storage.azure import AzureStore

        return AzureStore
    if scheme in ("hdfs", "viewfs"):
        from deltacli.storage.hdfs import HdfsStore

        return HdfsStore
    from deltacli.storage.remote import RemoteStore

    return RemoteStore


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


def parquet_source(store: DataStore, path: str) -> str | IO[bytes]:
    """What Arrow reads a file from: where it lies, which is fastest, or a reader."""
    place = store.file_path(path)
    # Arrow takes names for UTF-8, and waits for pipes.
    if place is None or not os.path.isfile(place) or not is_text(place):
        return store.open(path)
    return place


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


def delete_one_by_one(store: LogStore, paths: Sequence[str]) -> Iterator[tuple[str, StorageError]]:
    """`delete_all` for a store without a request that deletes many."""
    for path in paths:
        try:
            store.delete(path)
        except StorageError as error:
            yield path, error


def group_by_folder(
    files: Iterable[tuple[str, int, int | None]], hides: Callable[[str], bool]
) -> Iterator[Walked]:
    """`walk` from a flat listing: (path, size, modified) in any order."""
    pinned_at: dict[str, tuple[str, str] | None] = {}
    for folder, group in groupby(files, key=lambda one: one[0].rpartition("/")[0]):
        if folder not in pinned_at:
            pinned_at[folder] = _first_hidden(folder, hides)
        pin = pinned_at[folder]
        if pin is not None:
            yield Walked(pin[0], [], pins=(pin[1],))
            continue
        names, sizes, moments, pins = [], [], [], []
        for path, size, modified_ms in group:
            name = path.rpartition("/")[2]
            if hides(name):
                pins.append(name)
                continue
            names.append(name)
            sizes.append(size)
            moments.append(modified_ms)
        yield Walked(folder, names, sizes, moments, tuple(pins))


def _first_hidden(folder: str, hides: Callable[[str], bool]) -> tuple[str, str] | None:
    """The topmost hidden part of a folder's path, and the folder that it lies in."""
    above: list[str] = []
    for part in folder.split("/") if folder else ():
        if hides(part):
            return "/".join(above), part
        above.append(part)
    return None


def no_signed_urls(location: str) -> Refused:
    """What `sign` raises where there are no such URLs."""
    return Refused("this storage has no signed URLs", hint="serve its files", location=location)


def scratch_file(path: str) -> str:
    """A new name for a local file that is on its way to a store elsewhere."""
    import tempfile

    return f"{tempfile.gettempdir()}/deltacli-{os.urandom(16).hex()}-{path.rsplit('/', 1)[-1]}"


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
    "DataStore",
    "Entry",
    "FileMissing",
    "LogStore",
    "StorageError",
    "local_path",
    "open_store",
    "parquet_source",
    "read_all",
    "retrying",
    "scratch_file",
]
