"""The folder for what is made once and used by every later run."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from deltacli.errors import StorageError


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/deltacli` or `~/.cache/deltacli`; a temporary folder where that is no use.

    Java takes its options apart at blanks.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(base) / "deltacli"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        usable = os.access(folder, os.W_OK) and not any(map(str.isspace, str(folder)))
    except OSError:
        usable = False
    if usable:
        return folder
    other = Path(tempfile.gettempdir()) / f"deltacli-{os.getuid()}"
    other.mkdir(exist_ok=True, mode=0o700)
    if other.stat().st_uid != os.getuid():
        raise StorageError(f"{other} belongs to somebody else", hint="set XDG_CACHE_HOME")
    return other


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Make a file have this text, if it has not."""
    if path.exists() and path.read_text() == text:
        return
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(mode)
    temporary.replace(path)
