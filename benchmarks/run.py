"""Measures deltacli beside the deltalake package: whole processes, in turn, on the same tables.

    python benchmarks/run.py [--only REGEX] [--rounds 5] [--tables DIR] [--big]

Each figure is the median over rounds in which both run one after the other, so that a busy
machine slows both. Ratios below 1 mean that deltacli needs less. `--big` adds the table of
ten million files (it takes 2 GB of disk). The result is also written as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from processes import Run, measure, median

HERE = Path(__file__).resolve().parent
GENERATOR = HERE.parent.parent / "shared" / "bench" / "gen_tables.py"
FEW = "version,numFiles,sizeInBytes"
COUNT = "len(DeltaTable(T).file_uris())"


@dataclass(frozen=True)
class Case:
    """One job for both, with the ratios that are the goal.

    Where deltalake has no such job, the peer is a few lines on pyarrow alone.
    """

    name: str
    table: str
    ours: tuple[str, ...]
    theirs: str
    time_goal: float
    memory_goal: float
    writes: bool = False
    whole: bool = False
    peer: str = "deltalake"


CASES = (
    Case("count 100k", "wide_x0.1", ("snapshot", "T", "--fields", FEW), COUNT, 0.9, 1.3),
    Case("count 1M", "wide", ("snapshot", "T", "--fields", FEW), COUNT, 0.2, 0.3),
    Case("count 10M", "wide_x10", ("snapshot", "T", "--fields", FEW), COUNT, 0.06, 0.04),
    Case("snapshot 1M", "wide", ("snapshot", "T", "-o", "json"), COUNT, 0.35, 0.45),
    Case("snapshot 10M", "wide_x10", ("snapshot", "T", "-o", "json"), COUNT, 0.2, 0.06),
    Case("count 10k commits", "long", ("snapshot", "T", "--fields", FEW), COUNT, 0.25, 0.4),
    Case(
        "count 10k commits, checkpoint",
        "long_ckpt",
        ("snapshot", "T", "--fields", FEW),
        COUNT,
        1.5,
        1.3,
    ),
    Case(
        "history 10k commits",
        "long",
        ("history", "T", "-o", "json"),
        "len(DeltaTable(T).history())",
        0.12,
        0.25,
    ),
    Case(
        "history 10 of 1M files",
        "wide",
        ("history", "T", "--limit", "10", "-o", "json"),
        "len(DeltaTable(T).history(10))",
        0.08,
        0.1,
    ),
    Case(
        "files with stats 1M",
        "wide",
        ("snapshot", "T", "--files", "-o", "jsonl"),
        "DeltaTable(T).get_add_actions().num_rows",
        0.75,
        0.5,
    ),
)
CHECKPOINT = ("checkpoint", "T", "--yes", "-o", "json")
CREATE = "DeltaTable(T).create_checkpoint()"
CASES += (
    Case("checkpoint 1M", "wide", CHECKPOINT, CREATE, 0.45, 0.33, writes=True),
    Case("checkpoint 10M", "wide_x10", CHECKPOINT, CREATE, 0.33, 0.1, writes=True),
)
CASES += (
    Case(
        "vacuum plan 200k files",
        "vac",
        ("vacuum", "T", "--dry-run", "-o", "json"),
        "DeltaTable(T).vacuum(dry_run=True, full=True)",
        0.5,
        1.0,
    ),
    Case(
        "vacuum 80k of 200k files",
        "vac",
        ("vacuum", "T", "--yes", "--allow-large", "-o", "json"),
        "DeltaTable(T).vacuum(dry_run=False, full=True)",
        0.5,
        1.0,
        writes=True,
        whole=True,
    ),
)
CHECK = ("--fail-on", "never", "-q", "-o", "json")
FOOTERS = (
    "from glob import glob; from pyarrow.parquet import ParquetFile; "
    "sum(ParquetFile(p).metadata.num_rows for p in sorted(glob(T + '/*.parquet')))"
)
CASES += (
    Case("validate log 1M", "wide", ("validate", "T", *CHECK), COUNT, 1.2, 0.6),
    Case(
        "validate footers 100k",
        "footers",
        ("validate", "T", "--level", "footers", *CHECK),
        FOOTERS,
        1.5,
        4.0,
        peer="pyarrow",
    ),
)
# Goals in seconds and MB, for what has no counterpart.
START = (
    ("--help", ("--help",), None),
    ("history, JSON-only table", ("history", "T", "-o", "json"), "small"),
    ("snapshot, JSON-only table", ("snapshot", "T", "-o", "json"), "small"),
)
START_GOAL = (0.15, 60.0)


def measure_fresh(command: Sequence[str], table: Path, case: Case) -> Run:
    """Measure; a job that writes gets a copy of the log, or the whole table, in hard links."""
    if not case.writes:
        return measure(command)
    copy = table.with_name(f"copy-{os.getpid()}")
    shutil.rmtree(copy, ignore_errors=True)
    part = "" if case.whole else "_delta_log"
    shutil.copytree(table / part, copy / part, copy_function=os.link)
    try:
        return measure([part.replace(str(table), str(copy)) for part in command])
    finally:
        shutil.rmtree(copy)


def build(names: set[str], folder: Path, python: str) -> None:
    """Make the tables that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(names):
        if (folder / name / "_delta_log").is_dir():
            continue
        kind, _, factor = name.partition("_x")
        size = factor or ("0.001" if name == "small" else "1")
        own = [sys.executable, str(HERE / "tables.py"), name, str(folder)]
        if GENERATOR.exists() and name not in ("small", "footers"):
            arguments = ["--out", str(folder), kind, "--factor", size]
            done = subprocess.run([python, str(GENERATOR), *arguments], check=False)
            if done.returncode == 0:
                continue
        subprocess.run(own, check=True)


def compare(case: Case, table: Path, rounds: int, ours: str, theirs: str) -> dict[str, object]:
    command = [ours, "-m", "deltacli", *(str(table) if one == "T" else one for one in case.ours)]
    has_delta = case.peer == "deltalake"
    needed = "from deltalake import DeltaTable; " if has_delta else ""
    body = f"{needed}T = {str(table)!r}; {case.theirs}"
    # The peer's threads may fail at interpreter exit; its work is done by then.
    whole = f"import os, sys; {body}; sys.stdout.flush(); os._exit(0)"
    peer = [theirs if has_delta else ours, "-c", whole]
    if not case.writes:
        measure(command)
    pairs = [
        (measure_fresh(command, table, case), measure_fresh(peer, table, case))
        for _ in range(rounds)
    ]
    own, other = median([one for one, _ in pairs]), median([one for _, one in pairs])
    times, memory = own.seconds / other.seconds, own.megabytes / other.megabytes
    met = times <= case.time_goal and memory <= case.memory_goal
    print(
        f"{case.name:<30} {own.seconds:7.2f} s {own.megabytes:6.0f} MB | "
        f"{other.seconds:7.2f} s {other.megabytes:6.0f} MB | "
        f"time {times:5.3f} (goal {case.time_goal}) memory {memory:5.3f} "
        f"(goal {case.memory_goal}) {'met' if met else 'MISSED'}",
        flush=True,
    )
    return {
        "case": case.name,
        "deltacli": asdict(own),
        case.peer: asdict(other),
        "timeRatio": round(times, 4),
        "memoryRatio": round(memory, 4),
        "goals": {"time": case.time_goal, "memory": case.memory_goal},
        "met": met,
    }


def start_up(folder: Path, rounds: int, python: str) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    for name, arguments, table in START:
        place = str(folder / (table or ""))
        command = [python, "-m", "deltacli", *(place if one == "T" else one for one in arguments)]
        own = median([measure(command) for _ in range(2 * rounds)])
        met = own.seconds <= START_GOAL[0] and own.megabytes <= START_GOAL[1]
        print(
            f"{name:<30} {own.seconds:7.3f} s {own.megabytes:6.0f} MB | goal {START_GOAL[0]} s "
            f"{START_GOAL[1]:.0f} MB {'met' if met else 'MISSED'}",
            flush=True,
        )
        results.append({"case": name, "deltacli": asdict(own), "met": met})
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", type=Path, default=HERE / "tables")
    parser.add_argument("--json", type=Path, default=HERE / "results.json")
    parser.add_argument("--python", default=sys.executable, help="the one with deltacli")
    parser.add_argument("--peer-python", default=sys.executable, help="the one with deltalake")
    parser.add_argument("--big", action="store_true", help="also ten million files")
    given = parser.parse_args()
    cases = [
        case
        for case in CASES
        if re.search(given.only, case.name) and (given.big or "10M" not in case.name)
    ]
    build({case.table for case in cases} | {"small"}, given.tables, given.peer_python)
    print(f"{os.cpu_count()} cores; {'deltacli':>28} | {'deltalake':>18} |")
    results = [] if given.only else start_up(given.tables, given.rounds, given.python)
    for case in cases:
        results.append(
            compare(
                case,
                given.tables / case.table,
                given.rounds,
                given.python,
                given.peer_python,
            )
        )
    given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
