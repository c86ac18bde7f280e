"""Lists a local folder with all below it: a program of its own, `python -I -S -X utf8 lister.py`.

It imports nothing of the package, so that it is at work while its parent is still getting
ready. Arguments: the folder, the first letters of names that the parent has to decide on,
and whole names of that kind. A message on stdout is a length of eight bytes and a value in
`marshal`, and the last one is `None`. Sizes and times are told until the parent waits and
says so by a byte on stdin: from then on it looks itself at those it needs.
"""

from __future__ import annotations

import gc
import marshal
import os
import stat
import sys
import threading
import time
from array import array
from itertools import accumulate, islice
from queue import SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FILES_AT_ONCE = 8_000
# Messages wait here while the parent does not read; beyond this the listing waits for it.
_MOST_BYTES = 1 << 26


class Mouth:
    """Messages to the parent. It reads them late: they wait here, on a thread that writes."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._messages: SimpleQueue[bytes | None] = SimpleQueue()
        # Each is counted by one thread only.
        self._said = self._written = 0
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def say(self, message: Any) -> None:
        content = marshal.dumps(message)
        content = len(content).to_bytes(8, "little") + content
        self._messages.put(content)
        self._said += len(content)
        while self._said - self._written > _MOST_BYTES:
            time.sleep(0.01)

    def finish(self) -> None:
        self.say(None)
        self._messages.put(None)
        self._thread.join()

    def _write(self) -> None:
        while (content := self._messages.get()) is not None:
            rest = memoryview(content)
            while rest:
                try:
                    written = os.write(self._descriptor, rest)
                except OSError:  # the parent needs no more
                    os._exit(0)
                rest = rest[written:]
                self._written += written


class Ear:
    """Whether the parent waits by now. When it is gone, so are we."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._has_heard = False
        os.set_blocking(descriptor, False)

    def is_waited_for(self) -> bool:
        try:
            said = os.read(self._descriptor, 1)
        except BlockingIOError:
            return self._has_heard
        if not said:
            os._exit(0)
        self._has_heard = True
        return True


class Lister:
    """One walk. Of a folder with many files several messages are sent."""

    def __init__(self, root: str, letters: str, words: list[str], ear: Ear, mouth: Mouth):
        self._root = root
        self._letters = letters
        self._words = words
        self._ear = ear
        self._mouth = mouth

    def list_all(self) -> None:
        waiting = [""]
        while waiting:
            here = waiting.pop()
            try:
                entries = os.scandir(f"{self._root}/{here}")
            except OSError:
                # The parent tries it again, and says what is wrong.
                self._mouth.say((here, None))
                continue
            # What goes wrong from here on ends the listing: some of it is told already.
            with entries:
                while some := list(islice(entries, _FILES_AT_ONCE)):
                    self._tell(here, some, waiting)
            self._mouth.say((here,))
        self._mouth.finish()

    def _tell(self, here: str, entries: list[os.DirEntry[str]], waiting: list[str]) -> None:
        below = f"{here}/" if here else ""
        names = [one.name for one in entries if one.is_file(follow_symlinks=False)]
        undecided = [(name, False) for name in names if self._is_undecided(name)]
        pins: list[str] = []
        links: list[str] = []
        if len(names) < len(entries):
            for one in entries:
                if one.is_dir(follow_symlinks=False):
                    if self._is_undecided(one.name):
                        undecided.append((one.name, True))
                    else:
                        waiting.append(below + one.name)
                elif not one.is_file(follow_symlinks=False):
                    pins.append(one.name)
                    if one.is_symlink():
                        links.append(one.name)
        if undecided:
            names = [name for name in names if not self._is_undecided(name)]
        looked = None
        if not self._ear.is_waited_for():
            names, looked = _look_at(f"{self._root}/{here}", names)
        texts = [f"{below}{name}".encode("utf-8", "surrogatepass") for name in names]
        ends = array("i", accumulate(map(len, texts), initial=0))
        message = (b"".join(texts), ends.tobytes(), looked, undecided, pins, links)
        self._mouth.say((here, *message))

    def _is_undecided(self, name: str) -> bool:
        return name[0] in self._letters or name in self._words


def _look_at(place: str, names: list[str]) -> tuple[list[str], tuple[bytes, bytes]]:
    """Names, without those that are gone by now or no plain files; their sizes and times."""
    found: list[os.stat_result | None]
    try:
        found = [*map(os.lstat, [f"{place}/{name}" for name in names])]
    except FileNotFoundError:
        found = [_lstat(f"{place}/{name}") for name in names]
    plain = [
        (name, one)
        for name, one in zip(names, found, strict=True)
        if one is not None and stat.S_ISREG(one.st_mode)
    ]
    sizes = array("q", [one.st_size for _, one in plain])
    moments = array("q", [one.st_mtime_ns // 1_000_000 for _, one in plain])
    return [name for name, _ in plain], (sizes.tobytes(), moments.tobytes())


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    gc.disable()
    try:
        Lister(sys.argv[1], sys.argv[2], sys.argv[3:], Ear(0), Mouth(1)).list_all()
    except BaseException:
        # Without its last message the parent knows that something is missing.
        os._exit(1)
