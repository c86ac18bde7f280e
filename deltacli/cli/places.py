"""The places that results are written to: streams, files, pipes."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator

from deltacli.errors import StorageError, UsageError


class TextSink:
    """The text file that rich wants, over a function that takes bytes."""

    encoding = "utf-8"

    def __init__(self, write: Callable[[bytes], object], *, is_terminal: bool):
        self._write = write
        self._is_terminal = is_terminal

    def write(self, text: str) -> int:
        self._write(text.encode("utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        return None

    def isatty(self) -> bool:
        return self._is_terminal


# Controls, and what changes the direction of the text behind it.
_STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def harmless(write: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Writes text to a terminal as it is, save for what would steer the terminal.

    Escaped as JSON escapes it, so that JSON stays the same document.
    """

    def filtered(content: bytes) -> object:
        text = bytes(content).decode("utf-8", "replace")
        return write(_STEERING.sub(lambda one: f"\\u{ord(one[0]):04x}", text).encode())

    return filtered


@contextlib.contextmanager
def whole_file(path: str) -> Iterator[Callable[[bytes], object]]:
    """A file that appears under its name only when it is complete.

    A link is followed, a mode kept; devices and pipes are written to as they are.
    """
    check_place(path)
    target = os.path.realpath(path)
    with writing_to(path):
        if _is_device(path):
            with open(path, "wb") as file:
                yield file.write
            return
        temporary = f"{target}.{os.urandom(8).hex()}.tmp"
        try:
            with open(temporary, "xb") as file:
                yield file.write
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, os.stat(target).st_mode & 0o7777)
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def check_place(path: str) -> None:
    """Raise what can be told against a place without writing to it."""
    _refuse_tables(path)
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    reason = ""
    if _is_device(path):
        return  # it needs no folder
    if os.path.isdir(target):
        reason = "it is a folder"
    elif not os.path.isdir(folder):
        reason = f"there is no folder {folder}"
    elif not os.access(folder, os.W_OK):
        reason = "no permission"
    if reason:
        raise StorageError(
            f"cannot write {path}: {reason}",
            hint="check the place and its permissions",
            location=path,
        )


def _is_device(path: str) -> bool:
    """Whether a place is a device or a pipe; what it is called behind links says nothing."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _refuse_tables(path: str) -> None:
    from deltacli.storage.patterns import is_of_table

    if is_of_table(path):
        raise UsageError(f"{path} is a place of a table's own files", hint="name another place")


@contextlib.contextmanager
def writing_to(name: str) -> Iterator[None]:
    """Failures to write a result as storage errors; a closed pipe is none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StorageError(
            f"cannot write {name}: {error.strerror}",
            hint="check the place and the space there",
            location=name,
        ) from error


def is_terminal(stream: object) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return False
