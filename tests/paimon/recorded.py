"""Where the recorded tables and answers of Paimon's own code lie, if they do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).resolve().parents[3] / "shared/paimon"
needs_recorded = pytest.mark.skipif(
    not RECORDED.is_dir(), reason=f"the folder {RECORDED} is absent"
)


def answers(path: str) -> Any:
    """A file of answers; nothing where there are none, so that tests can be collected."""
    file = RECORDED / path
    return json.loads(file.read_bytes()) if file.is_file() else {}


def names(folder: str) -> list[str]:
    place = RECORDED / folder
    return sorted(one.name for one in place.iterdir() if one.is_dir()) if place.is_dir() else []


def copied(folder: str, target: Path) -> Path:
    """A copy of a recorded folder that may be written to."""
    shutil.copytree(RECORDED / folder, target)
    for one in [target, *target.rglob("*")]:
        one.chmod(0o755 if one.is_dir() else 0o644)
    return target
