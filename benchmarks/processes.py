"""Whole processes measured: seconds and peak memory, alone or beside another in turn."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    seconds: float
    megabytes: float


def measure(command: Sequence[str]) -> Run:
    """Wall time and peak memory of a whole process."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "NO_PROXY": "127.0.0.1"},
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit code {process.returncode}: {' '.join(command)[:200]}")
    return Run(time.perf_counter() - begin, usage.ru_maxrss / 1024)


def median(runs: Sequence[Run]) -> Run:
    return Run(
        statistics.median(one.seconds for one in runs),
        statistics.median(one.megabytes for one in runs),
    )


def row(name: str, pairs: Sequence[tuple[Run, Run]]) -> str:
    """A line of a table in Markdown, of pairs that were measured in turn."""
    ours, theirs = (median([pair[side] for pair in pairs]) for side in (0, 1))
    return (
        f"| {name} | {ours.seconds:.2f} s, {ours.megabytes:.0f} MB "
        f"| {theirs.seconds:.2f} s, {theirs.megabytes:.0f} MB "
        f"| {ours.seconds / theirs.seconds:.2f} | {ours.megabytes / theirs.megabytes:.2f} |"
    )
