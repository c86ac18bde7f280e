"""A local folder that is listed by another process while this one is still getting ready."""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

from deltacli.errors import StorageError
from deltacli.storage import Walked

_LISTER = os.path.join(os.path.dirname(__file__), "lister.py")
_LENGTH = 8


class PackedNames(Collection[str]):
    """Names in one folder, as one text of whole paths, each of which begins where one ends."""

    __slots__ = ("_skip", "ends", "paths")

    def __init__(self, folder: str, paths: bytes, ends: bytes):
        self.paths = paths
        self.ends = array("i", ends)
        self._skip = len(f"{folder}/".encode("utf-8", "surrogatepass")) if folder else 0

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __iter__(self) -> Iterator[str]:
        for start, end in pairwise(self.ends):
            yield self.paths[start + self._skip : end].decode("utf-8", "surrogatepass")

    def __contains__(self, name: object) -> bool:
        return any(name == one for one in self)


class WalkAhead:
    """All below a folder, save for names of a kind that only the reader can decide on."""

    def __init__(self, root: str, letters: str, words: Sequence[str]):
        self._root = root
        answers, answer = os.pipe()
        words_in, self._control = os.pipe()
        command = [sys.executable, "-I", "-S", "-X", "utf8", _LISTER, root, letters, *words]
        try:
            self._process = os.posix_spawn(
                sys.executable,
                command,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, words_in, 0),
                    (os.POSIX_SPAWN_DUP2, answer, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                # Ctrl-C is the reader's business.
                setpgroup=0,
            )
        except BaseException:
            os.close(answers)
            os.close(self._control)
            raise
        finally:
            os.close(words_in)
            os.close(answer)
        self._answers = os.fdopen(answers, "rb")

    def walk(self, hides: Callable[[str], bool], left: list[str]) -> Iterator[Walked]:
        """What was listed; the folders that are still to be walked are put into `left`."""
        with contextlib.suppress(OSError):
            os.write(self._control, b"!")
        if not self._answers.peek(1):
            # It could not even start.
            left.append("")
            return
        while (message := self._next()) is not None:
            here, *found = message
            if not found:
                yield Walked(here, [])
            elif found[0] is None:
                left.append(here)
            else:
                yield from _decided(here, found, hides, left)

    def _next(self) -> Any:
        length = int.from_bytes(self._answers.read(_LENGTH), "little")
        try:
            return marshal.loads(self._answers.read(length))
        except (EOFError, ValueError, TypeError) as error:
            raise StorageError(
                f"the listing of {self._root} ended before it was complete", hint="run it again"
            ) from error

    def close(self) -> None:
        """It ends by itself when nobody listens."""
        os.close(self._control)
        self._answers.close()
        with contextlib.suppress(OSError):
            os.waitpid(self._process, 0)


def _decided(
    here: str, found: list[Any], hides: Callable[[str], bool], left: list[str]
) -> Iterator[Walked]:
    paths, ends, looked, undecided, pins, links = found
    names: list[str] = []
    for name, is_folder in undecided:
        if hides(name):
            pins.append(name)
        elif is_folder:
            left.append(f"{here}/{name}" if here else name)
        else:
            names.append(name)
    sizes, moments = [array("q", one) for one in looked] if looked else (None, None)
    yield Walked(here, PackedNames(here, paths, ends), sizes, moments, tuple(pins), tuple(links))
    if names:
        yield Walked(here, names)
