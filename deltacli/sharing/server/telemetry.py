"""What the server tells its operator: an audit log, counters, and errors."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from functools import partial
from typing import IO, Any

from deltacli.delta import json_text
from deltacli.errors import StorageError
from deltacli.units import escaped, iso_time

_BUCKETS_S = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)


class AuditLog:
    """One JSON object a request; nothing in it is a secret (reference 4.4).

    Neither tokens nor signatures nor what a client looks for are ever written.
    """

    def __init__(self, path: str | None):
        self._path = path
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self.reopen()

    def reopen(self) -> None:
        """Open the file anew: it may have been moved away."""
        with self._lock:
            self._close()
            if self._path in (None, "-"):
                return
            try:
                self._file = open(  # noqa: SIM115
                    str(self._path), "ab", buffering=0, opener=partial(os.open, mode=0o600)
                )
            except OSError as error:
                raise StorageError(
                    f"cannot write {self._path}: {error.strerror}",
                    hint="name another place for the audit log",
                ) from error

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def write(self, entry: dict[str, Any]) -> None:
        if self._path is None:
            return
        line = json_text.dump(entry) + b"\n"
        with self._lock:
            try:
                if self._file is None:
                    # A terminal gets no character that could steer it.
                    sys.stderr.write(json.dumps(entry) + "\n")
                    sys.stderr.flush()
                else:
                    self._file.write(line)
            except OSError as error:
                report(f"cannot write the audit log: {error.strerror}")

    def close(self) -> None:
        with self._lock:
            self._close()


def report(message: str) -> None:
    """Tell the operator, on standard error."""
    try:
        sys.stderr.write(f"{escaped(message)}\n")
        sys.stderr.flush()
    except OSError:
        pass


class Metrics:
    """Counters, in the text format of Prometheus."""

    def __init__(self) -> None:
        self._started = time.time()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._bytes: Counter[str] = Counter()
        self._files: Counter[str] = Counter()
        self.hints_used = 0
        self.hints_skipped = 0
        self.reloads = 0
        self.failed_reloads = 0
        self.in_flight = 0

    def count(self, route: str, status: int, seconds: float, files: int, sent: int) -> None:
        self._requests[route, status] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]
        for bound in _BUCKETS_S:
            if seconds <= bound:
                self._buckets[route, bound] += 1
        self._bytes[route] += sent
        self._files[route] += files

    def text(self) -> str:
        lines = ["# TYPE deltacli_share_requests_total counter"]
        for (route, status), number in sorted(self._requests.items()):
            labels = f'route="{route}",status="{status}"'
            lines.append(f"deltacli_share_requests_total{{{labels}}} {number}")
        lines.append("# TYPE deltacli_share_request_seconds histogram")
        totals: Counter[str] = Counter()
        for (route, _), number in self._requests.items():
            totals[route] += number
        for route, number in sorted(totals.items()):
            name = "deltacli_share_request_seconds"
            for bound in _BUCKETS_S:
                seen = self._buckets[route, bound]
                lines.append(f'{name}_bucket{{route="{route}",le="{bound}"}} {seen}')
            lines.append(f'{name}_bucket{{route="{route}",le="+Inf"}} {number}')
            lines.append(f'{name}_sum{{route="{route}"}} {self._seconds[route]:.6f}')
            lines.append(f'{name}_count{{route="{route}"}} {number}')
        for name, counts in (("sent_bytes", self._bytes), ("files", self._files)):
            lines.append(f"# TYPE deltacli_share_{name}_total counter")
            for route, number in sorted(counts.items()):
                lines.append(f'deltacli_share_{name}_total{{route="{route}"}} {number}')
        for name, number in (
            ("hints_used", self.hints_used),
            ("hints_skipped", self.hints_skipped),
            ("reloads", self.reloads),
            ("failed_reloads", self.failed_reloads),
        ):
            lines.append(f"# TYPE deltacli_share_{name}_total counter")
            lines.append(f"deltacli_share_{name}_total {number}")
        lines.append("# TYPE deltacli_share_requests_in_flight gauge")
        lines.append(f"deltacli_share_requests_in_flight {self.in_flight}")
        lines.append("# TYPE deltacli_share_start_time_seconds gauge")
        lines.append(f"deltacli_share_start_time_seconds {self._started:.3f}")
        return "\n".join(lines) + "\n"


def audit_entry(now_ms: int, facts: dict[str, Any]) -> dict[str, Any]:
    """What is written of a request, in a fixed order; what does not apply is left out."""
    names = (
        "requestId",
        "client",
        "recipient",
        "token",
        "method",
        "route",
        "share",
        "schema",
        "table",
        "version",
        "format",
        "status",
        "errorCode",
        "files",
        "fileBytes",
        "sentBytes",
        "complete",
        "ms",
    )
    told = {name: facts[name] for name in names if facts.get(name) is not None}
    return {"time": iso_time(now_ms), **told}
