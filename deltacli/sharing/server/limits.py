"""What one recipient may do at once, and in a minute."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from deltacli.sharing.server.config import Limits
from deltacli.sharing.server.failures import too_many

_MINUTE_S = 60.0


@dataclass
class _Use:
    """How much a recipient uses: `tokens` are the requests still free at `counted`."""

    tokens: float
    counted: float
    requests: int = 0
    downloads: int = 0


class Guard:
    """Counts by recipient; it is used from one thread."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic):
        self.limits = limits
        self._clock = clock
        self._uses: dict[str, _Use] = {}

    @contextmanager
    def request(self, recipient: str) -> Iterator[None]:
        """Room for one request. Raises Failure with the time to wait."""
        use = self._use(recipient)
        most = self.limits.concurrent_requests
        if most and use.requests >= most:
            raise too_many(f"more than {most} requests at once", 1)
        self._take(use)
        use.requests += 1
        try:
            yield
        finally:
            use.requests -= 1
            self._forget(recipient, use)

    @contextmanager
    def download(self, recipient: str) -> Iterator[None]:
        """Room for one file. Raises Failure."""
        use = self._use(recipient)
        most = self.limits.concurrent_downloads
        if most and use.downloads >= most:
            raise too_many(f"more than {most} files at once", 1)
        use.downloads += 1
        try:
            yield
        finally:
            use.downloads -= 1
            self._forget(recipient, use)

    def _use(self, recipient: str) -> _Use:
        known = self._uses.get(recipient)
        if known is None:
            rate = self.limits.requests_per_minute
            known = self._uses[recipient] = _Use(float(rate), self._clock())
        return known

    def _take(self, use: _Use) -> None:
        rate = self.limits.requests_per_minute
        if not rate:
            return
        now = self._clock()
        grown = use.tokens + (now - use.counted) * rate / _MINUTE_S
        use.tokens, use.counted = min(grown, float(rate)), now
        if use.tokens < 1:
            wait_s = (1 - use.tokens) * _MINUTE_S / rate
            raise too_many(f"more than {rate} requests a minute", math.ceil(wait_s))
        use.tokens -= 1

    def _forget(self, recipient: str, use: _Use) -> None:
        if not self.limits.requests_per_minute and not use.requests and not use.downloads:
            self._uses.pop(recipient, None)


class Portions:
    """So many places for each recipient."""

    def __init__(self, most: int):
        self._most = most
        self._of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, recipient: str) -> asyncio.Semaphore:
        found = self._of.get(recipient)
        if found is None:
            found = self._of[recipient] = asyncio.Semaphore(self._most)
        return found


class Turns:
    """Some threads, of which one recipient gets half at most."""

    def __init__(self, threads: int, name: str):
        self.pool = ThreadPoolExecutor(threads, name)
        self._portions = Portions(max(threads // 2, 1))

    def of(self, recipient: str) -> asyncio.Semaphore:
        return self._portions.of(recipient)
