"""Measures the two engines beside each other: the same commands by the local one and by Spark.

    python benchmarks/engines.py --tables FOLDER

Times are of whole processes, a session's start included. Memory is the driver's: Python and
Java at their peaks, without the workers, which are an executor's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from processes import measure_driver, median, shown
from run import HERE, build

SIZES = (("100,000 files", "wide_x0.1"), ("1M files", "wide"), ("10M files", "wide_x10"))
JOBS = (
    ("snapshot", ("snapshot", "T", "-o", "json"), SIZES),
    ("vacuum plan", ("vacuum", "T", "--dry-run", "-o", "json"), (("202,000 names", "vac"),)),
)


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
                engine: [measure_driver([*base, "--engine", engine]) for _ in range(given.rounds)]
                for engine in ("local", "spark")
            }
            text = "; ".join(f"{engine} {shown(median(some))}" for engine, some in runs.items())
            print(f"{job}, {size}: {text}", flush=True)


if __name__ == "__main__":
    main()
