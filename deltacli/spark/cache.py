"""The folder for what is made once and used by every later run."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/deltacli` or `~/.cache/deltacli`, made if it is not there."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base) / "deltacli"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
