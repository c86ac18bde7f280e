"""A table on any storage that fsspec reaches; the large ones have modules of their own."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Full, Queue
from typing import IO, Any, TypeVar, cast

from deltacli.errors import (
    FileMissing,
    Refused,
    StorageError,
)
from deltacli.storage import (
    READ_THREADS,
    Walked,
    delete_one_by_one,
    group_by_folder,
    no_signed_urls,
    retrying,
    scratch_file,
)
from deltacli.storage.drivers import Reader, explained, first_line, http_status, opening
from deltacli.units import location_of, without_secrets

T = TypeVar("T")

# Spellings of other tools.
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    name: str
    is_folder: bool
    size: int
    modified_ms: int | None


# Path below the root, size, modification time.
RemoteFile = tuple[str, int, int | None]


class RemoteStore:
    """Files under one URL."""

    reads_are_remote = True
    has_folders = False
    # Answers after which a request is repeated, beside what the driver repeats itself.
    _passing = frozenset((429, *range(500, 600)))

    def __init__(self, url: str, options: Mapping[str, str]):
        scheme, _, rest = url.partition("://")
        scheme = _SCHEME_ALIASES.get(scheme.lower(), scheme.lower())
        self.scheme = scheme
        self._address = f"{scheme}://{rest.rstrip('/')}"
        self.location = location_of(self._address)
        self._options = dict(options)
        with opening(scheme, self.location):
            self._fs, root = self._connected()
        self._root = root.rstrip("/")

    def __reduce__(self) -> tuple[type[RemoteStore], tuple[str, dict[str, str]]]:
        return type(self), (self._address, self._options)

    def _connected(self) -> tuple[Any, str]:
        """The driver, and the table's root in its words."""
        import fsspec

        options = self._driver_options(self._options)
        driver, root = fsspec.core.url_to_fs(self._address, **options)
        return driver, root

    def _driver_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options as the driver wants them; its memory of listings may be old (ST-13)."""
        return {**options, "use_listings_cache": False}

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def list_from(self, folder: str, start: str = "") -> Iterator[RemoteEntry]:
        self._fs.invalidate_cache()
        entries = self._listed(folder, start)
        kept = (entry for entry in entries if entry.name >= start)
        return iter(sorted(kept, key=lambda entry: entry.name.encode("utf-8", "surrogatepass")))

    def _listed(self, folder: str, start: str) -> list[RemoteEntry]:
        """The entries of a folder, at least those from `start` on."""
        path = self._path(folder)
        found = self._run(folder, lambda: self._fs.ls(path, detail=True))
        # Some stores list a marker object for the folder itself.
        return [self._entry(one) for one in found if one["name"].strip("/") != path.strip("/")]

    def _entry(self, info: Mapping[str, Any]) -> RemoteEntry:
        """What the driver says of one name."""
        moment = next((info[key] for key in _TIME_KEYS if info.get(key) is not None), None)
        return RemoteEntry(
            _name(info), info.get("type") == "directory", int(info.get("size") or 0), millis(moment)
        )

    def walk_soon(self, letters: str, words: Sequence[str]) -> AbstractContextManager[None]:
        return nullcontext()

    def walk_top(
        self, folder: str, hides: Callable[[str], bool], below: list[str]
    ) -> Iterator[Walked]:
        self._fs.invalidate_cache()
        for files, names in self._top_pages(folder):
            yield from group_by_folder(files, hides)
            yield Walked(folder, [], pins=tuple(name for name in names if hides(name)))
            below += [f"{folder}/{name}" if folder else name for name in names if not hides(name)]

    def walk(self, folder: str, hides: Callable[[str], bool]) -> Iterator[Walked]:
        """One listing a top folder, several at a time, each flat: no request a folder."""
        from concurrent.futures import ThreadPoolExecutor

        folders: list[str] = []
        yield from self.walk_top(folder, hides, folders)
        with ThreadPoolExecutor(READ_THREADS) as pool:
            pages: Queue[Sequence[RemoteFile] | BaseException | None] = Queue(2 * READ_THREADS)
            stopped = threading.Event()

            def put(item: Sequence[RemoteFile] | BaseException | None) -> None:
                while not stopped.is_set():
                    try:
                        pages.put(item, timeout=0.1)
                    except Full:
                        continue
                    break

            def list_one(one: str) -> None:
                try:
                    for page in self._pages(one):
                        put(page)
                        if stopped.is_set():
                            return
                    put(None)
                except BaseException as error:
                    put(error)

            try:
                left = len([pool.submit(list_one, one) for one in folders])
                while left:
                    page = pages.get()
                    if isinstance(page, BaseException):
                        raise page
                    if page is None:
                        left -= 1
                    else:
                        yield from group_by_folder(page, hides)
            finally:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)

    def _top_pages(self, folder: str) -> Iterator[tuple[list[RemoteFile], list[str]]]:
        """The files and the names of folders right below a folder."""
        prefix = f"{folder}/" if folder else ""
        top = list(self.list_from(folder))
        yield (
            [(prefix + one.name, one.size, one.modified_ms) for one in top if not one.is_folder],
            [one.name for one in top if one.is_folder],
        )

    def _pages(self, folder: str) -> Iterator[list[RemoteFile]]:
        """All files below a folder, a page at a time where the storage has pages."""
        yield self._run(folder, lambda: self._find(folder))

    def _find(self, folder: str) -> list[RemoteFile]:
        found = self._fs.find(self._path(folder), detail=True)
        base = self._path(folder).lstrip("/")
        files = []
        for name, info in found.items():
            if info.get("type") == "file" and not info.get("islink"):
                below = name.lstrip("/")[len(base) :].lstrip("/")
                entry = self._entry(info)
                files.append((f"{folder}/{below}", entry.size, entry.modified_ms))
        return files

    def look(self, path: str) -> RemoteEntry | None:
        try:
            return self.stat(path)
        except FileMissing:
            return None

    def look_at_files(self, paths: Sequence[str]) -> list[tuple[int, int | None] | None]:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(READ_THREADS) as pool:
            entries = list(pool.map(self.look, paths))
        return [
            None if one is None or one.is_folder else (one.size, one.modified_ms) for one in entries
        ]

    def read(self, path: str) -> bytes:
        return self._run(path, lambda: bytes(self._fs.cat_file(self._path(path))))

    def open(self, path: str) -> IO[bytes]:
        file = self._run(
            path, lambda: self._fs.open(self._path(path), "rb", cache_type="readahead")
        )
        return cast("IO[bytes]", Reader(file, partial(self._run, path)))

    def stat(self, path: str) -> RemoteEntry:
        self._fs.invalidate_cache()
        return self._run(path, lambda: self._entry(self._fs.info(self._path(path))))

    def sign(self, path: str, seconds: int) -> str:
        # The older signatures of Google's are not known to all readers.
        more = {"version": "v4"} if self.scheme == "gs" else {}
        try:
            return str(self._fs.sign(self._path(path), expiration=seconds, **more))
        except NotImplementedError:
            raise no_signed_urls(self.location) from None
        except Exception as exc:
            raise Refused(
                without_secrets(f"no URL can be signed: {first_line(exc)}"),
                hint="signing needs an account key or a service account's key",
                location=self.location,
            ) from exc

    def file_path(self, path: str) -> str | None:
        return None

    def put_if_absent(self, path: str, content: bytes) -> None:
        if not self.creates_exclusively:
            raise Refused(
                f"the {self.scheme} driver cannot create a file only if it is absent",
                hint="reading commands work; commit through a storage with put-if-absent",
                location=self.location,
            )
        try:
            # Never repeated here: after an unknown outcome only the caller can tell
            # its own file from another writer's.
            with explained(self._url(path), creates=True):
                self._create(self._path(path), content)
        finally:
            self._fs.invalidate_cache()

    def _create(self, target: str, content: bytes) -> None:
        self._fs.pipe_file(target, content, mode="create")

    def put(self, path: str, content: bytes) -> None:
        self._publish(path, lambda target: self._fs.pipe_file(target, content))

    def _publish(self, path: str, write: Callable[[str], Any]) -> None:
        """Write a file so that readers see the old one or the new one.

        One request replaces an object atomically. File systems behind fsspec show partial
        writes, so there a finished file is moved over the old one.
        """
        target = self._path(path)
        if self.scheme != "sftp":
            self._run(path, lambda: write(target))
        else:
            temporary = f"{target}.{os.urandom(8).hex()}.tmp"
            try:
                self._run(path, lambda: write(temporary))
                self._run(path, lambda: self._fs.mv(temporary, target))
            except StorageError:
                with contextlib.suppress(Exception):
                    self._fs.rm_file(temporary)
                raise
        self._fs.invalidate_cache()

    def scratch(self, path: str) -> str:
        return scratch_file(path)

    def put_file(self, path: str, source: str) -> None:
        self._publish(path, lambda target: self._fs.put_file(source, target))
        os.unlink(source)

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileMissing):
            self._run(path, lambda: self._fs.rm_file(self._path(path)))
        self._fs.invalidate_cache()

    def delete_all(self, paths: Sequence[str]) -> list[tuple[str, StorageError]]:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(READ_THREADS) as pool:
            done = pool.map(lambda path: list(delete_one_by_one(self, (path,))), paths)
            return [failure for failures in done for failure in failures]

    def remove_folder(self, path: str) -> bool:
        return False

    def parent(self) -> RemoteStore | None:
        scheme, _, rest = self._address.partition("://")
        above, slash, _ = rest.rpartition("/")
        return type(self)(f"{scheme}://{above}", self._options) if slash else None

    def keeps_deleted(self) -> bool:
        return False

    @property
    def creates_exclusively(self) -> bool:
        return _creates_exclusively(self._fs)

    def _may_pass(self, error: BaseException) -> bool:
        # Failed connections are repeated by the drivers.
        known = FileNotFoundError | FileExistsError | PermissionError | NotADirectoryError
        return not isinstance(error, known) and http_status(error) in self._passing

    def _url(self, path: str) -> str:
        return f"{self.location}/{path}" if path else self.location

    def _run(self, path: str, action: Callable[[], T]) -> T:
        with explained(self._url(path)):
            return retrying(action, is_transient=self._may_pass)


def _creates_exclusively(filesystem: Any) -> bool:
    """Whether the driver has an exclusive creation of its own.

    fsspec's default for `mode="create"` looks first and writes then, which two
    writers can do at once; it would even pass a probe.
    """
    from fsspec.spec import AbstractFileSystem

    kind = type(filesystem)
    own = getattr(kind, "_pipe_file", None) or kind.pipe_file
    words = inspect.signature(own).parameters
    return own is not AbstractFileSystem.pipe_file and ("mode" in words or "overwrite" in words)


def _name(info: Mapping[str, Any]) -> str:
    return str(info["name"]).rstrip("/").rsplit("/", 1)[-1]


# Each driver has its own word for the modification time (rule ST-15).
_TIME_KEYS = ("LastModified", "last_modified", "updated", "mtime", "modified", "created")


def millis(moment: Any) -> int | None:
    """Milliseconds UTC of a driver's time: a datetime, ISO text or seconds."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return None
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return int(since // timedelta(milliseconds=1))
    if isinstance(moment, int | float):
        return int(moment * 1000)
    return None
