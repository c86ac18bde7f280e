"""A table on any storage that fsspec reaches: s3, gs, abfss, hdfs, memory, http, …"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from queue import Full, Queue
from typing import IO, Any, TypeVar

from deltacli.errors import (
    AlreadyExists,
    Busy,
    FileMissing,
    Refused,
    StorageError,
    UsageError,
)
from deltacli.storage import (
    READ_THREADS,
    Walked,
    delete_one_by_one,
    group_by_folder,
    retrying,
    scratch_file,
)

T = TypeVar("T")

# Spellings of other tools, and the packages that fsspec needs.
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_EXTRAS = {"s3": "s3", "gs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure"}

# Without these, a dead endpoint keeps a command waiting for minutes.
_S3_CONFIG = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 3}}


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    name: str
    is_folder: bool
    size: int
    modified_ms: int | None


# Path below the root, size, modification time.
RemoteFile = tuple[str, int, int | None]

_KEYS_A_REQUEST = 1000
_DELETE_ATTEMPTS = 5
_THROTTLED = ("SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling")


class RemoteStore:
    """Files under one URL."""

    reads_are_remote = True
    has_folders = False

    def __init__(self, url: str, options: Mapping[str, str]):
        scheme, _, rest = url.partition("://")
        scheme = _SCHEME_ALIASES.get(scheme.lower(), scheme.lower())
        self.scheme = scheme
        self.location = f"{scheme}://{rest.rstrip('/')}"
        self._options = dict(options)
        self._fs, self._root = _open_filesystem(scheme, self.location, dict(options))

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def list_from(self, folder: str, start: str = "") -> Iterator[RemoteEntry]:
        self._fs.invalidate_cache()
        if self.scheme == "s3" and start:
            entries = self._run(folder, lambda: self._list_s3_from(folder, start))
        else:
            entries = self._run(folder, lambda: self._list_whole(folder))
        kept = (entry for entry in entries if entry.name >= start)
        return iter(sorted(kept, key=lambda entry: entry.name.encode("utf-8", "surrogatepass")))

    def _list_whole(self, folder: str) -> list[RemoteEntry]:
        path = self._path(folder)
        found = self._fs.ls(path, detail=True)
        own = path.rstrip("/").rsplit("/", 1)[-1]
        return [
            _entry(one)
            for one in found
            # Some stores list a marker object for the folder itself.
            if not (one["name"].rstrip("/").endswith(path.rstrip("/")) and _name(one) == own)
        ]

    def _list_s3_from(self, folder: str, start: str) -> list[RemoteEntry]:
        """S3 lists from a key itself: a long log costs only the pages behind `start`."""
        bucket, _, key = self._path(folder).partition("/")
        # StartAfter excludes its own key; the last character is put one lower instead.
        before = start[:-1] + chr(ord(start[-1]) - 1) + "\U0010ffff"
        token: dict[str, str] = {"StartAfter": f"{key}/{before}"}
        found: list[RemoteEntry] = []
        while True:
            page = self._fs.call_s3(
                "list_objects_v2", Bucket=bucket, Prefix=f"{key}/", Delimiter="/", **token
            )
            for one in page.get("Contents", ()):
                name = one["Key"].rsplit("/", 1)[-1]
                if name:
                    found.append(
                        RemoteEntry(name, False, one["Size"], _millis(one["LastModified"]))
                    )
            for one in page.get("CommonPrefixes", ()):
                found.append(
                    RemoteEntry(one["Prefix"].rstrip("/").rsplit("/", 1)[-1], True, 0, None)
                )
            if not page.get("IsTruncated"):
                return found
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def walk(self, folder: str, hides: Callable[[str], bool]) -> Iterator[Walked]:
        """One listing a top folder, several at a time, each flat: no request a folder."""
        from concurrent.futures import ThreadPoolExecutor

        self._fs.invalidate_cache()
        folders: list[str] = []
        for files, below in self._top_pages(folder):
            yield from group_by_folder(files, hides)
            yield Walked(folder, [], pins=tuple(name for name in below if hides(name)))
            folders += [f"{folder}/{name}" if folder else name for name in below if not hides(name)]
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
        if self.scheme == "s3":
            for page in self._s3_pages(folder, Delimiter="/"):
                names = [one["Prefix"][:-1] for one in page.get("CommonPrefixes", ())]
                yield self._s3_files(page), [name.rsplit("/", 1)[-1] for name in names]
            return
        prefix = f"{folder}/" if folder else ""
        top = list(self.list_from(folder))
        yield (
            [(prefix + one.name, one.size, one.modified_ms) for one in top if not one.is_folder],
            [one.name for one in top if one.is_folder],
        )

    def _pages(self, folder: str) -> Iterator[list[RemoteFile]]:
        """All files below a folder, a page at a time where the storage has pages."""
        if self.scheme == "s3":
            yield from map(self._s3_files, self._s3_pages(folder))
        else:
            yield self._run(folder, lambda: self._find(folder))

    def _s3_pages(self, folder: str, **more: str) -> Iterator[Any]:
        bucket, _, key = self._path(folder).partition("/")
        wish = {"Bucket": bucket, "Prefix": f"{key}/" if key else "", **more}
        while True:
            page = self._run(folder, lambda: self._fs.call_s3("list_objects_v2", **wish))
            yield page
            if not page.get("IsTruncated"):
                return
            wish["ContinuationToken"] = page["NextContinuationToken"]

    def _s3_files(self, page: Any) -> list[RemoteFile]:
        root = self._root.partition("/")[2]
        skip = len(root) + 1 if root else 0
        return [
            (one["Key"][skip:], one["Size"], _millis(one["LastModified"]))
            for one in page.get("Contents", ())
            # A key with a slash at its end only marks a folder.
            if not one["Key"].endswith("/")
        ]

    def _find(self, folder: str) -> list[RemoteFile]:
        found = self._fs.find(self._path(folder), detail=True)
        base = self._path(folder).lstrip("/")
        files = []
        for name, info in found.items():
            if info.get("type") == "file" and not info.get("islink"):
                below = name.lstrip("/")[len(base) :].lstrip("/")
                entry = _entry(info)
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
        return self._run(
            path, lambda: self._fs.open(self._path(path), "rb", cache_type="readahead")
        )

    def stat(self, path: str) -> RemoteEntry:
        self._fs.invalidate_cache()
        return self._run(path, lambda: _entry(self._fs.info(self._path(path))))

    def file_path(self, path: str) -> str | None:
        return None

    def put_if_absent(self, path: str, content: bytes) -> None:
        if not _creates_exclusively(self._fs):
            raise Refused(
                f"the {self.scheme} driver cannot create a file only if it is absent",
                hint="reading commands work; commit through a storage with put-if-absent",
                location=self.location,
            )
        try:
            # Never repeated here: after an unknown outcome only the caller can tell
            # its own file from another writer's.
            with _explained(self._url(path)):
                self._fs.pipe_file(self._path(path), content, mode="create")
        finally:
            self._fs.invalidate_cache()

    def put(self, path: str, content: bytes) -> None:
        self._publish(path, lambda target: self._fs.pipe_file(target, content))

    def _publish(self, path: str, write: Callable[[str], Any]) -> None:
        """Write a file so that readers see the old one or the new one.

        One request replaces an object atomically. File systems behind fsspec show partial
        writes, so there a finished file is moved over the old one.
        """
        target = self._path(path)
        if self.scheme not in ("hdfs", "sftp"):
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
        if self.scheme == "s3":
            return self._delete_s3(list(paths))
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(READ_THREADS) as pool:
            done = pool.map(lambda path: list(delete_one_by_one(self, (path,))), paths)
            return [failure for failures in done for failure in failures]

    def _delete_s3(self, paths: list[str]) -> list[tuple[str, StorageError]]:
        """A thousand keys a request; keys that were throttled are asked for again."""
        bucket, _, root = self._root.partition("/")
        prefix = f"{root}/" if root else ""
        failures: list[tuple[str, StorageError]] = []
        for start in range(0, len(paths), _KEYS_A_REQUEST):
            waiting = paths[start : start + _KEYS_A_REQUEST]
            for attempt in range(_DELETE_ATTEMPTS):
                try:
                    refused = self._delete_keys(bucket, [prefix + path for path in waiting])
                except StorageError as error:
                    failures += [(path, error) for path in waiting]
                    break
                again = []
                for key, code in refused.items():
                    path = key[len(prefix) :]
                    if code in _THROTTLED and attempt < _DELETE_ATTEMPTS - 1:
                        again.append(path)
                    else:
                        failures.append((path, _refusal(self._url(path), code)))
                if not again:
                    break
                waiting = again
                time.sleep(0.2 * 2**attempt)
        self._fs.invalidate_cache()
        return failures

    def _delete_keys(self, bucket: str, keys: Sequence[str]) -> dict[str, str]:
        """Delete keys with one request; those that stay, with the server's error code."""
        objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        answer = self._run(
            "", lambda: self._fs.call_s3("delete_objects", Bucket=bucket, Delete=objects)
        )
        return {one["Key"]: one.get("Code", "") for one in answer.get("Errors", ())}

    def remove_folder(self, path: str) -> bool:
        return False

    def parent(self) -> RemoteStore | None:
        scheme, _, rest = self.location.partition("://")
        above, slash, _ = rest.rpartition("/")
        return RemoteStore(f"{scheme}://{above}", self._options) if slash else None

    def keeps_deleted(self) -> bool:
        if self.scheme != "s3":
            return False
        with contextlib.suppress(Exception):
            bucket = self._root.partition("/")[0]
            answer = self._fs.call_s3("get_bucket_versioning", Bucket=bucket)
            return bool(answer.get("Status") == "Enabled")
        return False

    def _url(self, path: str) -> str:
        return f"{self.location}/{path}" if path else self.location

    def _run(self, path: str, action: Callable[[], T]) -> T:
        with _explained(self._url(path)):
            return retrying(action, is_transient=_is_transient)


def _open_filesystem(scheme: str, url: str, options: dict[str, Any]) -> tuple[Any, str]:
    import logging

    import fsspec

    # Drivers log failures that they also raise; one clear error is enough.
    for name in ("gcsfs", "azure", "aiohttp", "asyncio", "botocore", "s3fs"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    extra = _EXTRAS.get(scheme)
    if scheme == "s3":
        options = _s3_options(options)
    try:
        filesystem, root = fsspec.core.url_to_fs(url, use_listings_cache=False, **options)
    except ImportError as exc:
        raise StorageError(
            f"{scheme}:// needs a package that is not installed: {exc}",
            hint=f"pip install 'deltacli[{extra}]'" if extra else "install the fsspec driver",
            location=url,
        ) from exc
    except TypeError as exc:
        raise _bad_option(exc) from exc
    except ValueError as exc:
        if "rotocol not known" not in str(exc):
            raise StorageError(f"{url}: {exc}", hint="check the storage options") from exc
        raise UsageError(
            f"unknown storage {scheme}://",
            hint="use a path, or s3://, gs://, abfss://, hdfs:// or another fsspec scheme",
        ) from exc
    except Exception as exc:
        raise StorageError(
            f"cannot open {url}: {_first_line(exc)}", hint="check the URL and the credentials"
        ) from exc
    return filesystem, root.rstrip("/")


def _s3_options(options: dict[str, Any]) -> dict[str, Any]:
    """s3fs wants some settings nested; a flat `--storage-option KEY=VALUE` reaches them all."""
    flat = dict(options)
    client = {name: flat.pop(name) for name in ("endpoint_url", "region_name") if name in flat}
    if client:
        flat["client_kwargs"] = client
    if isinstance(flat.get("anon"), str):
        flat["anon"] = flat["anon"].lower() in ("1", "true", "yes")
    flat.setdefault("config_kwargs", _S3_CONFIG)
    return flat


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


def _entry(info: Mapping[str, Any]) -> RemoteEntry:
    moment = next((info[key] for key in _TIME_KEYS if info.get(key) is not None), None)
    return RemoteEntry(
        _name(info), info.get("type") == "directory", int(info.get("size") or 0), _millis(moment)
    )


# Each driver has its own word for the modification time (rule ST-15).
_TIME_KEYS = ("LastModified", "last_modified", "updated", "mtime", "modified", "created")


def _millis(moment: Any) -> int | None:
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


@contextlib.contextmanager
def _explained(url: str) -> Iterator[None]:
    """Driver errors as storage errors that name the cause and the file."""
    try:
        yield
    except (StorageError, Refused):
        raise
    except TypeError as exc:
        # Drivers take unknown options until the first request.
        raise _bad_option(exc) from exc
    except Exception as exc:
        raise _translated(exc, url) from exc


def _refusal(url: str, code: str) -> StorageError:
    if code == "AccessDenied":
        return StorageError(
            f"no permission to delete {url}", hint="check the rights of the credentials"
        )
    return StorageError(f"{url} was not deleted: {code}")


def _bad_option(exc: TypeError) -> UsageError:
    named = re.search(r"unexpected keyword argument '(\w+)'", str(exc))
    what = f"the option {named[1]!r}" if named else f"these options: {_first_line(exc)}"
    return UsageError(
        f"the storage driver does not take {what}", hint="see the documentation of the driver"
    )


def _translated(exc: Exception, url: str) -> StorageError:
    status = _http_status(exc)
    if isinstance(exc, FileExistsError) or status == 412:
        return AlreadyExists(f"{url} exists already", location=url)
    if status == 409:
        return Busy(f"{url} is being written by another writer", location=url)
    if isinstance(exc, FileNotFoundError | NotADirectoryError):
        return FileMissing(f"{url} does not exist", location=url)
    text = f"{type(exc).__name__}: {_first_line(exc)}"
    if isinstance(exc, PermissionError) or status in (401, 403) or "redential" in text:
        return StorageError(
            f"no permission for {url}: {text}",
            hint="check the credentials in the environment or pass --storage-option KEY=VALUE",
            location=url,
        )
    return StorageError(
        f"cannot reach {url}: {text}",
        hint="check the network, the endpoint and the storage options",
        location=url,
    )


def _first_line(exc: BaseException) -> str:
    lines = str(exc).strip().splitlines()
    return lines[0] if lines else type(exc).__name__


def _http_status(exc: BaseException) -> int | None:
    """The HTTP status that a driver's error carries, if any, looking through its causes."""
    seen: BaseException | None = exc
    while seen is not None:
        response = getattr(seen, "response", None)
        if isinstance(response, Mapping):
            code = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if isinstance(code, int):
                return int(code)
        for name in ("status", "status_code", "code"):
            code = getattr(seen, name, None)
            if isinstance(code, int):
                return int(code)
        seen = seen.__cause__
    return None


def _is_transient(exc: BaseException) -> bool:
    if isinstance(exc, FileNotFoundError | FileExistsError | PermissionError | NotADirectoryError):
        return False
    status = _http_status(exc)
    if status is not None:
        return status == 429 or status >= 500
    # Drivers repeat failed connections themselves; what a server says is for us to judge.
    return False
