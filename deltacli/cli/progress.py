"""How far a piece of work has come, told while it takes a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from deltacli.units import human_size


class Progress:
    """One line on a terminal's stderr, shown only by work that takes a while."""

    def __init__(self, *, enabled: bool):
        self._enabled = enabled
        self._begun = time.monotonic()
        self._shown = ""
        self._what = ""
        self._since = 0.0

    def __call__(self, what: str, done: int, total: int, size: int | None = None) -> None:
        if not self._enabled:
            return
        now = time.monotonic()
        if what != self._what:
            self._what, self._since = what, now
        if now - self._begun > 0.5:
            line = f"{what}: {done:,}" + (f" of {total:,}" if total else "")
            if size is not None:
                line += f", {human_size(size)}, {done / max(now - self._since, 0.1):,.0f}/s"
            sys.stderr.write(f"\r{line:<{len(self._shown)}}")
            sys.stderr.flush()
            self._shown = line

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write(f"\r{'':<{len(self._shown)}}\r")
            sys.stderr.flush()
            self._shown = ""

    def before(self, write: Callable[[bytes], object]) -> Callable[[bytes], object]:
        """Writes where the line was: rows may come of work that tells how far it is."""

        def cleared(content: bytes) -> object:
            self.clear()
            return write(content)

        return cleared

    def __enter__(self) -> None:
        self.clear()
        self._begun = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self.clear()
