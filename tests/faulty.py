"""A store that fails at its k-th operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import IO, Any

from deltacli.errors import StorageError
from deltacli.storage import Entry, LogStore, Walked


class FaultyStore:
    """Counts operations; at number `at` it fails `before` or `after` doing it."""

    def __init__(self, inner: LogStore, at: int = -1, mode: str = "before"):
        self._inner = inner
        self._at = at
        self._mode = mode
        self.count = 0
        self.reads_are_remote = False
        self.has_folders = inner.has_folders

    @property
    def location(self) -> str:
        return self._inner.location

    def file_path(self, path: str) -> str | None:
        # Parquet is read through `open`, so that those reads fail as well.
        return None

    def scratch(self, path: str) -> str:
        return self._inner.scratch(path)

    def list_from(self, folder: str, start: str = "") -> Iterator[Entry]:
        found = self._do(lambda: list(self._inner.list_from(folder, start)))
        return iter(found)

    def read(self, path: str) -> bytes:
        return self._do(lambda: self._inner.read(path))

    def open(self, path: str) -> IO[bytes]:
        return self._do(lambda: self._inner.open(path))

    def stat(self, path: str) -> Entry:
        return self._do(lambda: self._inner.stat(path))

    def put_if_absent(self, path: str, content: bytes) -> None:
        self._do(lambda: self._inner.put_if_absent(path, content))

    def put(self, path: str, content: bytes) -> None:
        self._do(lambda: self._inner.put(path, content))

    def put_file(self, path: str, source: str) -> None:
        self._do(lambda: self._inner.put_file(path, source))

    def delete(self, path: str) -> None:
        self._do(lambda: self._inner.delete(path))

    def delete_all(self, paths: Sequence[str]) -> list[tuple[str, StorageError]]:
        failures = self._do(lambda: self._inner.delete_all(paths))
        return list(failures)

    def remove_folder(self, path: str) -> bool:
        return bool(self._do(lambda: self._inner.remove_folder(path)))

    def walk_soon(self, letters: str, words: Sequence[str]) -> AbstractContextManager[None]:
        return self._inner.walk_soon(letters, words)

    def walk_top(
        self, folder: str, hides: Callable[[str], bool], below: list[str]
    ) -> Iterator[Walked]:
        return iter(self._do(lambda: list(self._inner.walk_top(folder, hides, below))))

    def walk(self, folder: str, hides: Callable[[str], bool]) -> Iterator[Walked]:
        return iter(self._do(lambda: list(self._inner.walk(folder, hides))))

    def look(self, path: str) -> Entry | None:
        return self._do(lambda: self._inner.look(path))

    def look_at_files(self, paths: Sequence[str]) -> list[tuple[int, int | None] | None]:
        return list(self._do(lambda: self._inner.look_at_files(paths)))

    def parent(self) -> None:
        return None

    def keeps_deleted(self) -> bool:
        return False

    def _do(self, action: Callable[[], Any]) -> Any:
        now, self.count = self.count, self.count + 1
        if now != self._at:
            return action()
        if self._mode != "after":
            self._fail()
        result = action()
        self._fail()
        return result

    def _fail(self) -> None:
        raise StorageError("injected failure")
