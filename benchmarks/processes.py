"""Whole processes measured: seconds and peak memory, alone or beside another in turn."""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Run:
    seconds: float
    megabytes: float


def measure(command: Sequence[str]) -> Run:
    """Wall time and peak memory of a whole process."""
    begin = time.perf_counter()
    process = _started(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    _check(process, command)
    return Run(time.perf_counter() - begin, usage.ru_maxrss / 1024)


def measure_driver(command: Sequence[str]) -> Run:
    """The same of a process that starts Java: the memory is that of both at their peaks."""
    begin = time.perf_counter()
    process = _started(command)
    peaks: dict[int, int] = {}
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(process.pid, peaks, done))
    watch.start()
    process.wait()
    seconds = time.perf_counter() - begin
    done.set()
    watch.join()
    _check(process, command)
    return Run(seconds, sum(peaks.values()) / 1024)


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    env = {**os.environ, "NO_PROXY": "127.0.0.1"}
    # What is installed is compiled once, not at each start.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)


def _check(process: subprocess.Popen[bytes], command: Sequence[str]) -> None:
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command)[:200]}")


def _watch(pid: int, peaks: dict[int, int], done: threading.Event) -> None:
    """The peaks of a process and of the Java that it started."""
    while not done.wait(0.05):
        for one in (pid, *_children(pid)):
            if one == pid or _is_java(one):
                peaks[one] = max(peaks.get(one, 0), _peak(one))


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(one) for one in text.split()]


def _is_java(pid: int) -> bool:
    try:
        return "java" in Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return False


def _peak(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(x.split()[1]) for x in status.splitlines() if x.startswith("VmHWM")), 0)


def median(runs: Sequence[Run]) -> Run:
    return Run(
        statistics.median(one.seconds for one in runs),
        statistics.median(one.megabytes for one in runs),
    )


def shown(run: Run) -> str:
    return f"{run.seconds:.3g} s, {run.megabytes:.0f} MB"


def row(name: str, pairs: Sequence[tuple[Run, Run]]) -> str:
    """A line of a table in Markdown, of pairs that were measured in turn."""
    ours, theirs = (median([pair[side] for pair in pairs]) for side in (0, 1))
    return (
        f"| {name} | {shown(ours)} | {shown(theirs)} "
        f"| {ours.seconds / theirs.seconds:.2f} | {ours.megabytes / theirs.megabytes:.2f} |"
    )
