"""A table on a local file system, through `os` alone (fsspec costs more than the work)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat as stat_bits
import sys
from collections.abc import Callable, Iterator, Sequence
from io import FileIO
from itertools import islice
from typing import IO, TYPE_CHECKING

from deltacli.errors import AlreadyExists, FileMissing, NoPlainFile, StorageError
from deltacli.storage import Walked, no_signed_urls
from deltacli.storage.nofollow import RealFolder, check_real

if TYPE_CHECKING:
    from deltacli.storage.ahead import WalkAhead


class LocalEntry:
    """A directory entry that looks up size and time only when asked."""

    __slots__ = ("_path", "_stat", "is_folder", "name")

    def __init__(self, name: str, path: str, is_folder: bool, stat: os.stat_result | None = None):
        self.name = name
        self.is_folder = is_folder
        self._path = path
        self._stat = stat

    @property
    def size(self) -> int:
        return self._look().st_size

    @property
    def modified_ms(self) -> int | None:
        return self._look().st_mtime_ns // 1_000_000

    def _look(self) -> os.stat_result:
        if self._stat is None:
            with _explained(self._path):
                try:
                    self._stat = os.stat(self._path)
                except OSError as error:
                    # A link in a circle is told where it is read.
                    if error.errno != errno.ELOOP:
                        raise
                    self._stat = os.lstat(self._path)
        return self._stat


class LocalStore:
    """Files under one directory."""

    reads_are_remote = False
    has_folders = True

    def __init__(self, root: str):
        if sys.getfilesystemencoding().lower() not in ("utf-8", "utf8"):
            # Names from the log would not compare with those of files: vacuum relies on that.
            raise StorageError(
                f"Python takes file names for {sys.getfilesystemencoding()} here",
                hint="set PYTHONUTF8=1",
            )
        self.root = os.path.abspath(root)
        self.location = "file://" + self.root.rstrip("/")
        self._real: dict[str, bool] = {}
        self._ahead: WalkAhead | None = None

    def __reduce__(self) -> tuple[type[LocalStore], tuple[str]]:
        return LocalStore, (self.root,)

    def _path(self, path: str) -> str:
        return f"{self.root}/{path}"

    def list_from(self, folder: str, start: str = "") -> Iterator[LocalEntry]:
        with _explained(self._path(folder)), os.scandir(self._path(folder)) as entries:
            found = [
                LocalEntry(entry.name, entry.path, _is_folder(entry))
                for entry in entries
                if entry.name >= start
            ]
        # Code points and UTF-8 bytes sort alike, save for undecodable names (surrogates).
        found.sort(key=lambda entry: entry.name.encode("utf-8", "surrogateescape"))
        return iter(found)

    def read(self, path: str) -> bytes:
        whole = self._path(path)
        # The flags of `open`, which costs half as much again: a log is thousands of files.
        flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
        with _explained(whole), FileIO(_plain_file(whole, flags)) as file:
            return file.read()

    def open(self, path: str) -> IO[bytes]:
        with _explained(self._path(path)):
            return open(self._path(path), "rb", opener=_plain_file)

    def stat(self, path: str) -> LocalEntry:
        with _explained(self._path(path)):
            try:
                found = os.stat(self._path(path))
            except OSError as error:
                if _cannot_be(error):
                    raise FileMissing(f"{self._path(path)} does not exist") from error
                raise
        name = path.rsplit("/", 1)[-1]
        return LocalEntry(name, self._path(path), stat_bits.S_ISDIR(found.st_mode), found)

    @contextlib.contextmanager
    def walk_soon(self, letters: str, words: Sequence[str]) -> Iterator[None]:
        if not hasattr(os, "posix_spawn") or not sys.executable or hasattr(sys, "frozen"):
            yield
            return
        from deltacli.storage.ahead import WalkAhead

        try:
            ahead = WalkAhead(self.root, letters, words)
        except OSError:  # no process to be had: the walk is done when it is due
            yield
            return
        self._ahead = ahead
        try:
            yield
        finally:
            self._ahead = None
            ahead.close()

    def walk_top(
        self, folder: str, hides: Callable[[str], bool], below: list[str]
    ) -> Iterator[Walked]:
        with _explained(self._path(folder)), os.scandir(self._path(folder)) as entries:
            yield from _walk_folder(folder, entries, hides, below)

    def walk(self, folder: str, hides: Callable[[str], bool]) -> Iterator[Walked]:
        waiting = [folder]
        if self._ahead is not None and not folder:
            ahead, self._ahead = self._ahead, None
            waiting = []
            yield from ahead.walk(hides, waiting)
        while waiting:
            here = waiting.pop()
            try:
                yield from self.walk_top(here, hides, waiting)
            except FileMissing:
                # A writer may remove a folder while the walk goes on; not the one asked for.
                if here == folder:
                    raise

    def look(self, path: str) -> LocalEntry | None:
        whole = f"{self.root}/{path}"
        try:
            found = os.lstat(whole)
        except (OSError, ValueError) as error:
            if not _cannot_be(error):
                with _explained(whole):
                    raise
            return None
        folder, _, name = path.rpartition("/")
        is_folder = stat_bits.S_ISDIR(found.st_mode)
        if not (is_folder or stat_bits.S_ISREG(found.st_mode)) or not self._is_real(folder):
            return None
        return LocalEntry(name, whole, is_folder, found)

    def look_at_files(self, paths: Sequence[str]) -> list[tuple[int, int | None] | None]:
        found: list[tuple[int, int | None] | None] = []
        root, lstat, is_file = self.root, os.lstat, stat_bits.S_ISREG
        prefix, is_real = "", self._is_real("")
        for path in paths:
            if not path.startswith(prefix) or path.find("/", len(prefix)) >= 0:
                prefix = path[: path.rfind("/") + 1]
                is_real = self._is_real(prefix[:-1])
            try:
                one = lstat(f"{root}/{path}")
            except (OSError, ValueError) as error:
                if not _cannot_be(error):
                    with _explained(f"{root}/{path}"):
                        raise
                found.append(None)
                continue
            if is_file(one.st_mode) and is_real:
                found.append((one.st_size, one.st_mtime_ns // 1_000_000))
            else:
                found.append(None)
        return found

    def _is_real(self, folder: str) -> bool:
        """Whether no part of a folder's path below the root is a link."""
        is_real = self._real.get(folder)
        if is_real is None:
            root = os.path.realpath(self.root)
            whole = os.path.join(root, folder) if folder else root
            is_real = self._real[folder] = os.path.realpath(whole) == whole
        return is_real

    def sign(self, path: str, seconds: int) -> str:
        raise no_signed_urls(self.location)

    def file_path(self, path: str) -> str | None:
        return self._path(path)

    def put_if_absent(self, path: str, content: bytes) -> None:
        target = self._path(path)
        with _explained(target), self._temporary(path, content) as temporary:
            _forget_checksum(target)
            try:
                # A hard link fails if the name exists, and shows the whole file at once.
                os.link(temporary, target)
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                _rename_without_replacing(temporary, target)
            _sync_folder(target)

    def put(self, path: str, content: bytes) -> None:
        target = self._path(path)
        with _explained(target), self._temporary(path, content) as temporary:
            _forget_checksum(target)
            os.replace(temporary, target)
            _sync_folder(target)

    def scratch(self, path: str) -> str:
        check_real(self.root, path.rpartition("/")[0])
        folder, _, name = self._path(path).rpartition("/")
        with _explained(folder):
            os.makedirs(folder, exist_ok=True)
        return f"{folder}/.{name}.{os.urandom(16).hex()}.tmp"

    def put_file(self, path: str, source: str) -> None:
        check_real(self.root, path.rpartition("/")[0])
        target = self._path(path)
        with _explained(target):
            _sync(source)
            _forget_checksum(target)
            os.replace(source, target)
            _sync_folder(target)

    def delete(self, path: str) -> None:
        for _, error in self.delete_all([path]):
            raise error

    def delete_all(self, paths: Sequence[str]) -> list[tuple[str, StorageError]]:
        failures = []
        with RealFolder(self.root) as folders:
            for path in paths:
                folder, _, name = path.rpartition("/")
                try:
                    with contextlib.suppress(FileMissing), _explained(self._path(path)):
                        folders.unlink(folder, name)
                except StorageError as error:
                    failures.append((path, error))
        return failures

    def remove_folder(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        try:
            with RealFolder(self.root) as folders:
                folders.rmdir(folder, name)
        except (OSError, StorageError):  # not empty any more, gone, or not ours: it stays
            return False
        return True

    def parent(self) -> LocalStore | None:
        root = os.path.realpath(self.root)
        above = os.path.dirname(root)
        return LocalStore(above) if above != root else None

    def keeps_deleted(self) -> bool:
        return False

    @property
    def creates_exclusively(self) -> bool:
        return True

    @contextlib.contextmanager
    def _temporary(self, path: str, content: bytes) -> Iterator[str]:
        """A synced file with `content` beside `path`, under a name that every reader ignores."""
        check_real(self.root, path.rpartition("/")[0])
        folder, name = os.path.split(self._path(path))
        os.makedirs(folder, exist_ok=True)
        temporary = os.path.join(folder, f".{name}.{os.urandom(16).hex()}.tmp")
        try:
            with open(temporary, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def _forget_checksum(target: str) -> None:
    """Delete what Hadoop wrote beside the last file of this name; it would fail to read the new."""
    folder, name = os.path.split(target)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, f".{name}.crc"))


_FILES_AT_ONCE = 50_000


def _walk_folder(
    here: str,
    entries: Iterator[os.DirEntry[str]],
    hides: Callable[[str], bool],
    waiting: list[str],
) -> Iterator[Walked]:
    """One folder's files; its folders are put on the list of those that wait."""
    while some := list(islice(entries, _FILES_AT_ONCE)):
        names = [one.name for one in some if one.is_file(follow_symlinks=False)]
        pins: list[str] = []
        links: list[str] = []
        if len(names) < len(some):
            for one in some:
                if one.is_file(follow_symlinks=False):
                    continue
                if one.is_dir(follow_symlinks=False) and not hides(one.name):
                    waiting.append(f"{here}/{one.name}" if here else one.name)
                else:
                    pins.append(one.name)
                    if one.is_symlink():
                        links.append(one.name)
        hidden = [name for name in names if hides(name)]
        if hidden:
            pins += hidden
            names = [name for name in names if not hides(name)]
        yield Walked(here, names, pins=tuple(pins), links=tuple(links))
    yield Walked(here, [])


def _plain_file(path: str, flags: int) -> int:
    """Open what is a file: a pipe would wait for ever, a device would never end."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if stat_bits.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise NoPlainFile(f"not a plain file: {path}", location=path)


_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}
_NO_PLAIN_FILE = {errno.EISDIR, errno.ELOOP}
_RENAME_NOREPLACE = 1
_AT_FDCWD = -100


def _rename_without_replacing(source: str, target: str) -> None:
    """Linux's renameat2 for file systems without hard links; it fails where neither exists."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise OSError(errno.ENOTSUP, "no hard links and no exclusive rename on this file system")
    if library.renameat2(
        _AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE
    ):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads nowhere
        return False


def _cannot_be(error: OSError | ValueError) -> bool:
    """Whether an error says that there is no such file, and cannot be one."""
    return isinstance(error, ValueError) or error.errno in _NO_SUCH_FILE


_NO_SUCH_FILE = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(target: str) -> None:
    """Make the new name itself durable; file systems that cannot are not an error."""
    with contextlib.suppress(OSError):
        _sync(os.path.dirname(target))


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Operating system errors as storage errors that name the cause and the path."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as exc:
        raise FileMissing(f"{path} does not exist", location=path) from exc
    except FileExistsError as exc:
        raise AlreadyExists(f"{path} exists already", location=path) from exc
    except PermissionError as exc:
        raise StorageError(
            f"no permission for {path}",
            hint="check the owner and mode of the file and of its directories",
            location=path,
        ) from exc
    except OSError as exc:
        kind = NoPlainFile if exc.errno in _NO_PLAIN_FILE else StorageError
        raise kind(f"{exc.strerror or exc}: {path}", location=path) from exc
    except ValueError as exc:  # a NUL byte in a name
        raise FileMissing(f"{path!r} is not a possible file name: {exc}") from exc
