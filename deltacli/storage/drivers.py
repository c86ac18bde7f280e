"""What fsspec's drivers raise, when they start and when they are asked, in the user's words."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from io import RawIOBase
from typing import Any

from deltacli.errors import (
    AlreadyExists,
    Busy,
    FileMissing,
    Refused,
    StorageError,
    UsageError,
)
from deltacli.units import without_secrets

# The extras that bring the drivers.
_EXTRAS = {
    "s3": "s3",
    "gs": "gcs",
    "abfs": "azure",
    "abfss": "azure",
    "az": "azure",
    "hdfs": "hdfs",
    "viewfs": "hdfs",
}


@contextlib.contextmanager
def opening(scheme: str, url: str) -> Iterator[None]:
    """What keeps a driver from starting, in the user's words."""
    import logging

    # Drivers log failures that they also raise; one clear error is enough.
    for name in ("gcsfs", "azure", "aiohttp", "asyncio", "botocore", "s3fs"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    extra = _EXTRAS.get(scheme)
    try:
        yield
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
            raise StorageError(
                without_secrets(f"{url}: {exc}"), hint="check the storage options"
            ) from exc
        raise UsageError(
            f"unknown storage {scheme}://",
            hint="use a path, or s3://, gs://, abfss://, hdfs:// or another fsspec scheme",
        ) from exc
    except Exception as exc:
        raise StorageError(
            without_secrets(f"cannot open {url}: {first_line(exc)}"),
            hint="check the URL and the credentials",
        ) from exc


class Reader(RawIOBase):
    """A file of the driver's that asks again, and explains what fails, at each read."""

    def __init__(self, file: Any, run: Callable[[Callable[[], Any]], Any]):
        self._file = file
        self._run = run

    def read(self, size: int | None = -1) -> bytes:
        position = self._file.tell()

        def attempt() -> bytes:
            self._file.seek(position)
            return bytes(self._file.read(-1 if size is None else size))

        content: bytes = self._run(attempt)
        return content

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        # Some drivers do not tell where that is.
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._file.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextlib.contextmanager
def explained(url: str, *, creates: bool = False) -> Iterator[None]:
    """Driver errors as storage errors that name the cause and the file.

    Only to who `creates` a file a conflict means that there is another writer.
    """
    try:
        yield
    except (StorageError, Refused):
        raise
    except TypeError as exc:
        # Drivers take unknown options until the first request.
        raise _bad_option(exc) from exc
    except Exception as exc:
        raise _translated(exc, url, creates=creates) from exc


def _bad_option(exc: TypeError) -> UsageError:
    named = re.search(r"unexpected keyword argument '(\w+)'", str(exc))
    what = f"the option {named[1]!r}" if named else f"these options: {first_line(exc)}"
    return UsageError(
        f"the storage driver does not take {what}", hint="see the documentation of the driver"
    )


def _translated(exc: Exception, url: str, *, creates: bool) -> StorageError:
    status = http_status(exc)
    if isinstance(exc, FileExistsError) or (creates and status == 412):
        return AlreadyExists(f"{url} exists already", location=url)
    if creates and status == 409:
        return Busy(f"{url} is being written by another writer", location=url)
    text = without_secrets(f"{type(exc).__name__}: {first_line(exc)}")
    # Azure's own way to say so; who has no credentials may be answered alike by another server.
    is_missing = getattr(exc, "status_code", None) == 404 and not _DENIED.search(text)
    if isinstance(exc, FileNotFoundError | NotADirectoryError) or is_missing:
        return FileMissing(f"{url} does not exist", location=url)
    if isinstance(exc, PermissionError) or status in (401, 403) or _DENIED.search(text):
        return StorageError(
            f"no permission for {url}: {text}",
            hint="check the credentials in the environment or pass --storage-option KEY=VALUE",
            location=url,
        )
    # S3 answers a token that has expired so, and says no more where only a head was asked for.
    unclear = "check the credentials, which may have expired, and the region"
    return StorageError(
        f"cannot reach {url}: {text}",
        hint=unclear
        if status == 400
        else "check the network, the endpoint and the storage options",
        location=url,
    )


# What servers and drivers call it where there is no status to tell.
_DENIED = re.compile(r"redential|AccessControlException|^OSError: Forbidden")


def first_line(exc: BaseException) -> str:
    # HDFS sends a trace of Java's along, in one line.
    lines = str(exc).partition("\\n\\tat ")[0].strip().splitlines()
    return lines[0] if lines else type(exc).__name__


def http_status(exc: BaseException) -> int | None:
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
