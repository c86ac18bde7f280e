"""A table in memory, for tests: the same contract, with a clock that the test sets."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import IO

from deltacli.errors import AlreadyExists, FileMissing, StorageError
from deltacli.storage import (
    Walked,
    delete_one_by_one,
    group_by_folder,
    no_signed_urls,
    scratch_file,
)


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    name: str
    is_folder: bool
    size: int
    modified_ms: int | None


class MemoryStore:
    """Files in a dictionary."""

    reads_are_remote = False
    has_folders = False

    def __init__(self, location: str = "memory://table", now_ms: int = 0):
        self.location = location
        self.now_ms = now_ms
        self._files: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    def list_from(self, folder: str, start: str = "") -> Iterator[MemoryEntry]:
        prefix = folder.rstrip("/") + "/" if folder else ""
        found: dict[str, MemoryEntry] = {}
        with self._lock:
            for path, (content, modified_ms) in self._files.items():
                if not path.startswith(prefix):
                    continue
                name, below, _ = path[len(prefix) :].partition("/")
                if below:
                    found[name] = MemoryEntry(name, True, 0, None)
                else:
                    found[name] = MemoryEntry(name, False, len(content), modified_ms)
        if not found:
            raise FileMissing(f"{folder} does not exist", location=self.location)
        return iter(
            sorted(
                (entry for entry in found.values() if entry.name >= start),
                key=lambda entry: entry.name.encode("utf-8", "surrogatepass"),
            )
        )

    def read(self, path: str) -> bytes:
        try:
            return self._files[path][0]
        except KeyError:
            raise FileMissing(f"{path} does not exist", location=self.location) from None

    def open(self, path: str) -> IO[bytes]:
        return io.BytesIO(self.read(path))

    def stat(self, path: str) -> MemoryEntry:
        content = self.read(path)
        return MemoryEntry(path.rsplit("/", 1)[-1], False, len(content), self._files[path][1])

    def walk_soon(self, letters: str, words: Sequence[str]) -> AbstractContextManager[None]:
        return nullcontext()

    def walk_top(
        self, folder: str, hides: Callable[[str], bool], below: list[str]
    ) -> Iterator[Walked]:
        prefix = f"{folder}/" if folder else ""
        for walked in self.walk(folder, hides):
            if walked.folder == folder:
                yield walked
            else:
                top = prefix + walked.folder[len(prefix) :].partition("/")[0]
                if top not in below:
                    below.append(top)

    def walk(self, folder: str, hides: Callable[[str], bool]) -> Iterator[Walked]:
        prefix = f"{folder}/" if folder else ""
        with self._lock:
            found = sorted(
                (path, len(content), modified_ms)
                for path, (content, modified_ms) in self._files.items()
                if path.startswith(prefix)
            )
        if not found:
            raise FileMissing(f"{folder} does not exist", location=self.location)
        return group_by_folder(found, hides)

    def look(self, path: str) -> MemoryEntry | None:
        return self.stat(path) if path in self._files else None

    def look_at_files(self, paths: Sequence[str]) -> list[tuple[int, int | None] | None]:
        entries = map(self.look, paths)
        return [None if one is None else (one.size, one.modified_ms) for one in entries]

    def sign(self, path: str, seconds: int) -> str:
        raise no_signed_urls(self.location)

    def file_path(self, path: str) -> str | None:
        return None

    def put_if_absent(self, path: str, content: bytes) -> None:
        with self._lock:
            if path in self._files:
                raise AlreadyExists(f"{path} exists already", location=self.location)
            self._files[path] = (bytes(content), self.now_ms)

    def put(self, path: str, content: bytes) -> None:
        with self._lock:
            self._files[path] = (bytes(content), self.now_ms)

    def scratch(self, path: str) -> str:
        return scratch_file(path)

    def put_file(self, path: str, source: str) -> None:
        with open(source, "rb") as file:
            self.put(path, file.read())
        os.unlink(source)

    def delete(self, path: str) -> None:
        with self._lock:
            self._files.pop(path, None)

    def delete_all(self, paths: Sequence[str]) -> list[tuple[str, StorageError]]:
        return list(delete_one_by_one(self, paths))

    def remove_folder(self, path: str) -> bool:
        return False

    def parent(self) -> None:
        return None

    def keeps_deleted(self) -> bool:
        return False

    @property
    def creates_exclusively(self) -> bool:
        return True
