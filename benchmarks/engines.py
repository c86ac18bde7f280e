"""Measures the two engines beside each other: the same commands by the local one and by Spark.

    python benchmarks/engines.py --tables FOLDER

Times are of whole processes, a session's start included. Memory is the driver's: Python and
Java at their peaks, without the workers, which are an executor's.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from run import HERE, build

SIZES = (("100,000 files", "wide_x0.1"), ("1M files", "wide"), ("10M files", "wide_x10"))
JOBS = (
    ("snapshot", ("snapshot", "T", "-o", "json"), SIZES),
    ("vacuum plan", ("vacuum", "T", "--dry-run", "-o", "json"), (("202,000 names", "vac"),)),
)


@dataclass(frozen=True)
class Run:
    seconds: float
    megabytes: float


def measure(command: list[str]) -> Run:
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peaks: dict[int, int] = {}
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(process.pid, peaks, done))
    watch.start()
    code = process.wait()
    seconds = time.perf_counter() - begin
    done.set()
    watch.join()
    if code:
        raise SystemExit(f"exit code {code}: {' '.join(command)}")
    return Run(seconds, sum(peaks.values()) / 1024)


def _watch(pid: int, peaks: dict[int, int], done: threading.Event) -> None:
    """The peaks of a process and of the Java that it started."""
    while not done.wait(0.05):
        for one in (pid, *_children(pid)):
            if one == pid or _is_java(one):
                peaks[one] = max(peaks.get(one, 0), _resident(one))


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


def _resident(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", type=Path, default=HERE / "tables")
    parser.add_argument("--python", default=sys.executable, help="the one with deltacli[spark]")
    parser.add_argument("--peer-python", default=sys.executable, help="the one with deltalake")
    parser.add_argument("--big", action="store_true", help="also ten million files")
    given = parser.parse_args()
    for job, arguments, sizes in JOBS:
        for size, name in sizes:
            if name.endswith("x10") and not given.big:
                continue
            build({name}, given.tables, given.peer_python)
            place = str(given.tables / name)
            base = [given.python, "-m", "deltacli", *(place if a == "T" else a for a in arguments)]
            runs = {
                engine: [measure([*base, "--engine", engine]) for _ in range(given.rounds)]
                for engine in ("local", "spark")
            }
            text = ", ".join(
                f"{engine} {statistics.median(r.seconds for r in some):.2f} s "
                f"{statistics.median(r.megabytes for r in some):.0f} MB"
                for engine, some in runs.items()
            )
            print(f"{job}, {size}: {text}", flush=True)


if __name__ == "__main__":
    main()
