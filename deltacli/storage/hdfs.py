"""A table on HDFS, by the client that needs no Hadoop on this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from deltacli.errors import FileMissing
from deltacli.storage import READ_THREADS, Walked
from deltacli.storage.remote import RemoteEntry, RemoteStore

_FOLDERS_AT_ONCE = 1000


class HdfsStore(RemoteStore):
    """Files appear by a rename, which HDFS refuses where the name is taken."""

    has_folders = True

    @property
    def creates_exclusively(self) -> bool:
        return True

    def _connected(self) -> tuple[Any, str]:
        from hdfs_native import fsspec as drivers

        named = drivers.ViewfsFileSystem if self.scheme == "viewfs" else drivers.HdfsFileSystem

        class Driver(named):  # type: ignore[misc, valid-type]
            @classmethod
            def _strip_protocol(cls, path: str) -> str:
                """The path as it is: to the driver, `a#b` and `a?b` would be `a`."""
                scheme, mark, rest = path.partition("://")
                return "/" + rest.partition("/")[2] if mark and "/" not in scheme else path or "/"

        return (
            Driver(**Driver._get_kwargs_from_urls(self._address), **self._options),
            Driver._strip_protocol(self._address),
        )

    def _create(self, target: str, content: bytes) -> None:
        with self._hidden(target) as temporary:
            self._fs.pipe_file(temporary, content)
            self._fs.mv(temporary, target)

    def _publish(self, path: str, write: Callable[[str], Any]) -> None:
        target = self._path(path)
        with self._hidden(target) as temporary:
            self._run(path, lambda: write(temporary))
            self._run(path, lambda: self._fs.mv(temporary, target, overwrite=True))

    @contextlib.contextmanager
    def _hidden(self, target: str) -> Iterator[str]:
        """A name beside `target` that every reader ignores; what bears it is gone afterwards."""
        folder, _, name = target.rpartition("/")
        temporary = f"{folder}/.{name}.{os.urandom(16).hex()}.tmp"
        try:
            yield temporary
        except BaseException:
            with contextlib.suppress(Exception):
                self._fs.rm_file(temporary)
            raise

    def _entry(self, info: Mapping[str, Any]) -> RemoteEntry:
        entry = super()._entry(info)
        stamp = info.get("modification_time")
        if stamp is None:
            return entry
        return RemoteEntry(entry.name, entry.is_folder, entry.size, int(stamp))

    def walk_top(
        self, folder: str, hides: Callable[[str], bool], below: list[str]
    ) -> Iterator[Walked]:
        files = []
        pins = []
        for one in self.list_from(folder):
            if hides(one.name):
                pins.append(one.name)
            elif one.is_folder:
                below.append(f"{folder}/{one.name}" if folder else one.name)
            else:
                files.append(one)
        yield Walked(
            folder,
            [one.name for one in files],
            [one.size for one in files],
            [one.modified_ms for one in files],
            tuple(pins),
        )

    def walk(self, folder: str, hides: Callable[[str], bool]) -> Iterator[Walked]:
        """A folder a request, several at a time."""
        from concurrent.futures import ThreadPoolExecutor

        def listed(one: str) -> tuple[list[Walked], list[str]]:
            below: list[str] = []
            try:
                return list(self.walk_top(one, hides, below)), below
            except FileMissing:
                if one == folder:
                    raise
                return [], []  # it is gone meanwhile

        with ThreadPoolExecutor(READ_THREADS) as pool:
            level: Sequence[str] = [folder]
            while level:
                deeper: list[str] = []
                for start in range(0, len(level), _FOLDERS_AT_ONCE):
                    some = level[start : start + _FOLDERS_AT_ONCE]
                    for found, below in pool.map(listed, some):
                        yield from found
                        deeper += below
                level = deeper

    def remove_folder(self, path: str) -> bool:
        try:
            return bool(self._fs.client.delete(self._path(path), False))
        except Exception:  # not empty any more, or not ours: it stays
            return False
