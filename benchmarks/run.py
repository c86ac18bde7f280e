"""Measures deltacli beside its peers: whole processes, in turn, on the same tables.

    python benchmarks/run.py [--only REGEX] [--rounds 5] [--tables DIR] [--big]
        [--spark DIR] [--sharing VENV]

The peer is the deltalake package; with `--spark` Delta Spark too (`.ci/delta-spark/install DIR`),
with `--sharing` the delta-sharing package (`.ci/delta-sharing/install VENV`). Each figure is the
median over rounds in which all run one after the other, so that a busy machine slows all.
Ratios below 1 mean that deltacli needs less. `--big` adds ten million files (2 GB of disk).
The result is also written as JSON, which `plot.py` draws.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from processes import Run, measure, measure_driver, median, shown
from recipient import serving

HERE = Path(__file__).resolve().parent
GENERATOR = HERE.parent.parent / "shared" / "bench" / "gen_tables.py"
FEW = "version,numFiles,sizeInBytes"
COUNT = "len(DeltaTable(T).file_uris())"
WIDE = {100_000: "wide_x0.1", 1_000_000: "wide", 10_000_000: "wide_x10"}
CHECK = ("--fail-on", "never", "-q", "-o", "json")
# A bare loop that checks nothing.
FOOTERS = (
    "from glob import glob; from pyarrow.parquet import ParquetFile; "
    "sum(ParquetFile(p).metadata.num_rows for p in sorted(glob(T + '/*.parquet')))"
)
LISTED = (
    "p, _, n = T.rpartition('#'); s, d, t = n.split('.'); "
    "from delta_sharing.protocol import DeltaSharingProfile, Table; "
    "from delta_sharing.rest_client import DataSharingRestClient; "
    "c = DataSharingRestClient(DeltaSharingProfile.read_from_file(p)); "
    "r = c.list_files_in_table(Table(t, s, d)); "
    "open('/dev/null', 'w').writelines(f'{one}\\n' for one in r.add_files)"
)


@dataclass(frozen=True)
class Job:
    """One question at several sizes, with the ratios that are the goal at some of them."""

    name: str
    ours: tuple[str, ...]
    theirs: str
    tables: Mapping[int, str] = field(default_factory=lambda: WIDE)
    goals: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    spark: str = ""
    peer: str = "deltalake"
    # A job that writes gets a copy of the log, or of the whole table, in hard links.
    copies: str = ""
    unit: str = "files"


JOBS = (
    Job(
        "count",
        ("snapshot", "T", "--fields", FEW),
        COUNT,
        goals={100_000: (0.9, 1.3), 1_000_000: (0.2, 0.3), 10_000_000: (0.06, 0.04)},
        spark="detail",
    ),
    Job(
        "snapshot",
        ("snapshot", "T", "-o", "json"),
        COUNT,
        goals={1_000_000: (0.35, 0.45), 10_000_000: (0.2, 0.06)},
    ),
    Job(
        "history of 10",
        ("history", "T", "--limit", "10", "-o", "json"),
        "len(DeltaTable(T).history(10))",
        goals={1_000_000: (0.08, 0.1)},
        spark="history",
    ),
    Job(
        "files with statistics",
        ("snapshot", "T", "--files", "-o", "jsonl"),
        "DeltaTable(T).get_add_actions().num_rows",
        goals={1_000_000: (0.75, 0.5)},
        spark="files",
    ),
    Job(
        "checkpoint",
        ("checkpoint", "T", "--yes", "-o", "json"),
        "DeltaTable(T).create_checkpoint()",
        goals={1_000_000: (0.45, 0.33), 10_000_000: (0.33, 0.1)},
        spark="checkpoint",
        copies="log",
    ),
    Job("validate", ("validate", "T", *CHECK), COUNT, goals={1_000_000: (1.2, 0.6)}),
    Job(
        "validate footers",
        ("validate", "T", "--level", "footers", *CHECK),
        FOOTERS,
        {10_000: "footers_x0.1", 100_000: "footers"},
        {100_000: (1.5, 4.0)},
        peer="pyarrow",
    ),
    Job(
        "vacuum plan",
        ("vacuum", "T", "--dry-run", "-o", "json"),
        "DeltaTable(T).vacuum(dry_run=True, full=True)",
        {20_000: "vac_x0.1", 200_000: "vac", 1_000_000: "vac_x5"},
        {200_000: (0.5, 1.0)},
        spark="vacuum",
    ),
    Job(
        "vacuum",
        ("vacuum", "T", "--yes", "--allow-large", "-o", "json"),
        "DeltaTable(T).vacuum(dry_run=False, full=True)",
        {200_000: "vac"},
        {200_000: (0.5, 1.0)},
        copies="whole",
    ),
    Job(
        "count without a checkpoint",
        ("snapshot", "T", "--fields", FEW),
        COUNT,
        {1_000: "long_x0.1", 10_000: "long"},
        {10_000: (0.25, 0.4)},
        unit="commits",
    ),
    Job(
        "count with a recent checkpoint",
        ("snapshot", "T", "--fields", FEW),
        COUNT,
        {10_000: "long_ckpt"},
        {10_000: (1.5, 1.3)},
        unit="commits",
    ),
    Job(
        "history",
        ("history", "T", "-o", "json"),
        "len(DeltaTable(T).history())",
        {1_000: "long_x0.1", 10_000: "long"},
        {10_000: (0.12, 0.25)},
        unit="commits",
    ),
    Job(
        "list of a shared table",
        ("share", "files", "T", "-o", "jsonl", "--output-file", "/dev/null"),
        LISTED,
        {100_000: "wide_x0.1", 1_000_000: "wide"},
        peer="delta-sharing",
    ),
)
# Goals in seconds and MB, for what has no counterpart.
START = (
    ("--help", ("--help",), None),
    ("history, JSON-only table", ("history", "T", "-o", "json"), "small"),
    ("snapshot, JSON-only table", ("snapshot", "T", "-o", "json"), "small"),
)
START_GOAL = (0.15, 60.0)


@dataclass(frozen=True)
class Means:
    """What is there to run."""

    python: str
    peer_python: str
    spark: Path | None
    sharing: Path | None
    rounds: int
    tables: Path

    def commands(self, job: Job, table: str) -> dict[str, Callable[[str], Run]]:
        """Each side of a job, as something that is measured on a table or a copy of it."""
        found: dict[str, Callable[[str], Run]] = {}
        found["deltacli"] = lambda place: measure(
            [self.python, "-m", "deltacli", *(place if one == "T" else one for one in job.ours)]
        )
        python = {
            "deltalake": self.peer_python,
            "pyarrow": self.python,
            "delta-sharing": str(self.sharing and self.sharing / "bin/python"),
        }[job.peer]
        needed = "from deltalake import DeltaTable; " if job.peer == "deltalake" else ""

        def theirs(place: str) -> Run:
            # The peer's threads may fail at interpreter exit; its work is done by then.
            body = f"{needed}T = {place!r}; {job.theirs}; sys.stdout.flush(); os._exit(0)"
            return measure([python, "-W", "ignore", "-c", f"import os, sys; {body}"])

        found[job.peer] = theirs
        # Its own table of ten million files takes more memory than there is.
        if job.spark and self.spark and "x10" not in table:
            spark = [str(self.spark / "bin/python"), str(HERE / "delta_spark.py"),
                     str(self.spark / "jars"), job.spark]  # fmt: skip
            found["delta-spark"] = lambda place: measure_driver([*spark, place])
        return found


def measured(job: Job, command: Callable[[str], Run], place: Path | str) -> Run:
    if not job.copies:
        return command(str(place))
    table = Path(place)
    copy = table.with_name(f"copy-{os.getpid()}")
    shutil.rmtree(copy, ignore_errors=True)
    part = "" if job.copies == "whole" else "_delta_log"
    try:
        shutil.copytree(table / part, copy / part, copy_function=os.link)
        return command(str(copy))
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def compare(job: Job, size: int, place: Path | str, means: Means) -> dict[str, Any]:
    commands = means.commands(job, job.tables[size])
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    if not job.copies:
        measured(job, commands["deltacli"], place)
    for number in range(means.rounds):
        for name, command in commands.items():
            # Spark takes its time: once is enough to know.
            if name != "delta-spark" or number == 0:
                runs[name].append(measured(job, command, place))
    found = {name: median(some) for name, some in runs.items()}
    own, other = found["deltacli"], found[job.peer]
    ratios = own.seconds / other.seconds, own.megabytes / other.megabytes
    goals = job.goals.get(size)
    met = None if goals is None else all(a <= b for a, b in zip(ratios, goals, strict=True))
    spark = shown(found["delta-spark"]) if "delta-spark" in found else ""
    goal = "" if goals is None else f"{goals[0]} and {goals[1]}: {'met' if met else 'MISSED'}"
    print(
        f"| {job.name}, {size:,} {job.unit} | {shown(own)} | {shown(other)} | {spark} "
        f"| {ratios[0]:.2f} | {ratios[1]:.2f} | {goal} |",
        flush=True,
    )
    return {
        "job": job.name,
        "size": size,
        "unit": job.unit,
        "runs": {name: asdict(one) for name, one in found.items()},
        "peer": job.peer,
        "goals": goals,
        "met": met,
    }


def start_up(means: Means) -> Iterator[dict[str, Any]]:
    for name, arguments, table in START:
        place = str(means.tables / (table or ""))
        command = [means.python, "-m", "deltacli", *(place if a == "T" else a for a in arguments)]
        own = median([measure(command) for _ in range(2 * means.rounds)])
        met = own.seconds <= START_GOAL[0] and own.megabytes <= START_GOAL[1]
        goal = f"{START_GOAL[0]} s and {START_GOAL[1]:.0f} MB: {'met' if met else 'MISSED'}"
        print(f"| {name} | {shown(own)} | | | | | {goal} |", flush=True)
        yield {"job": name, "runs": {"deltacli": asdict(own)}, "met": met}


def build(names: set[str], folder: Path, python: str) -> None:
    """Make the tables that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(names):
        if (folder / name / "_delta_log").is_dir():
            continue
        kind, _, factor = name.partition("_x")
        size = factor or ("0.001" if name == "small" else "1")
        own = [sys.executable, str(HERE / "tables.py"), name, str(folder)]
        if GENERATOR.exists() and kind not in ("small", "footers"):
            arguments = ["--out", str(folder), kind, "--factor", size]
            done = subprocess.run([python, str(GENERATOR), *arguments], check=False)
            if done.returncode == 0:
                continue
        subprocess.run(own, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="REGEX", help="jobs like `count, 100000`")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", type=Path, default=HERE / "tables")
    parser.add_argument("--json", type=Path, default=HERE / "results.json")
    parser.add_argument("--python", default=sys.executable, help="the one with deltacli")
    parser.add_argument("--peer-python", default=sys.executable, help="the one with deltalake")
    parser.add_argument("--spark", type=Path, help="where Delta Spark is installed")
    parser.add_argument("--sharing", type=Path, help="where delta-sharing is installed")
    parser.add_argument("--big", action="store_true", help="also ten million files")
    given = parser.parse_args()
    means = Means(given.python, given.peer_python, given.spark, given.sharing, given.rounds,
                  given.tables)  # fmt: skip
    chosen = [
        (job, size)
        for job in JOBS
        for size in job.tables
        if re.search(given.only, f"{job.name}, {size}")
        and (given.big or size < 10_000_000)
        and (job.peer != "delta-sharing" or given.sharing)
    ]
    build({job.tables[size] for job, size in chosen} | {"small"}, given.tables, given.peer_python)
    print("| job | deltacli | peer | Delta Spark | time | memory | goal |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    results = [] if given.only else list(start_up(means))
    for job, size in chosen:
        with ExitStack() as stack:
            place: Path | str = given.tables / job.tables[size]
            if job.peer == "delta-sharing":
                place = stack.enter_context(served(Path(place)))
            results.append(compare(job, size, place, means))
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def served(table: Path) -> Any:
    """A server of the one table, with its address there."""
    import tempfile
    from contextlib import contextmanager

    @contextmanager
    def running() -> Iterator[str]:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "tables").mkdir()
            (Path(folder) / "tables" / "wide").symlink_to(table.resolve())
            with serving(Path(folder) / "tables", Path(folder) / "me.share") as prefix:
                yield f"{prefix}wide"

    return running()


if __name__ == "__main__":
    main()
