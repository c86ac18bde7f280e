"""Changes below a local folder that never leave it: no link on the way is followed."""

from __future__ import annotations

import errno
import os
import stat as stat_bits

from deltacli.errors import StorageError

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_BY_DESCRIPTOR = {os.open, os.unlink, os.rmdir, os.stat} <= os.supports_dir_fd


def check_real(root: str, folder: str) -> None:
    """Raise StorageError if a part of a folder's path below the root is a link."""
    whole = os.path.realpath(root)
    for part in folder.split("/") if folder else ():
        whole = os.path.join(whole, part)
        if part in ("", ".", "..") or os.path.islink(whole):
            raise through_a_link(f"{root}/{folder}")


def through_a_link(path: str) -> StorageError:
    return StorageError(
        f"{path} is reached through a link",
        hint="nothing is written or deleted through links below a table's folder",
        location=path,
    )


class RealFolder:
    """One folder below a root at a time, kept open, so that nobody can put a link in its place."""

    def __init__(self, root: str):
        self._root = root
        self._entered: str | None = None
        self._descriptor = -1

    def __enter__(self) -> RealFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def unlink(self, folder: str, name: str) -> None:
        """Delete a file. Raises OSError, and StorageError where there is a link on the way."""
        if _BY_DESCRIPTOR:
            os.unlink(name, dir_fd=self._enter(folder))
        else:
            check_real(self._root, folder)
            os.unlink(os.path.join(self._root, folder, name))

    def rmdir(self, folder: str, name: str) -> None:
        if _BY_DESCRIPTOR:
            os.rmdir(name, dir_fd=self._enter(folder))
        else:
            check_real(self._root, folder)
            os.rmdir(os.path.join(self._root, folder, name))

    def _enter(self, folder: str) -> int:
        if folder != self._entered:
            self._leave()
            self._descriptor = os.open(self._root, _FOLDER)
            self._entered = folder
            try:
                for part in folder.split("/") if folder else ():
                    outer, self._descriptor = self._descriptor, self._inner(folder, part)
                    os.close(outer)
            except BaseException:
                self._leave()
                raise
        return self._descriptor

    def _inner(self, folder: str, part: str) -> int:
        if part in ("", ".", ".."):
            raise through_a_link(f"{self._root}/{folder}")
        try:
            return os.open(part, _FOLDER | _NO_LINK, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR) and self._is_link(part):
                raise through_a_link(f"{self._root}/{folder}") from error
            raise

    def _is_link(self, part: str) -> bool:
        found = os.stat(part, dir_fd=self._descriptor, follow_symlinks=False)
        return stat_bits.S_ISLNK(found.st_mode)

    def _leave(self) -> None:
        if self._entered is not None:
            os.close(self._descriptor)
            self._entered = None
