"""What several test modules share."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from deltacli.cli.app import run
from deltacli.storage.memory import MemoryStore
from tests.builder import TableBuilder
from tests.places import place_of, s3

__all__ = ["place_of", "s3"]

# A run that decides about a change must give the same answer twice; others explore.
settings.register_profile("explores", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "explores")

# A shell lets its background jobs ignore Ctrl-C, and with them all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.stdout.splitlines()]


@pytest.fixture
def deltacli(capfdbinary: Any) -> Callable[..., Result]:
    """Run a command line in this process; the two streams come back apart."""

    def invoke(*arguments: str | Path) -> Result:
        capfdbinary.readouterr()
        code = run([str(one) for one in arguments])
        out, err = capfdbinary.readouterr()
        return Result(code, out.decode(), err.decode())

    return invoke


@pytest.fixture
def table() -> TableBuilder:
    """An empty table in memory."""
    return TableBuilder(MemoryStore())


@pytest.fixture
def local_table(tmp_path: Path) -> TableBuilder:
    """An empty table in a folder."""
    from deltacli.storage.local import LocalStore

    return TableBuilder(LocalStore(str(tmp_path / "table")))


def pytest_report_header() -> str:
    """Say how many tables of other writers this run compares."""
    from tests.test_golden import expectations

    classes = Counter(one["class"] for one in expectations().values())
    return f"tables of other writers: {classes.total()} {dict(classes) or '(folder absent)'}"
