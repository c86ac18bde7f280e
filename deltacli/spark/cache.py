"""The folder for what is made once and used by every later run."""

from __future__ import annotations

import contextlib
import os
import stat
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
    with contextlib.suppress(FileExistsError):
        other.mkdir(mode=0o700)
    # Anybody may have put something under this name, a link too.
    found = other.lstat()
    is_own = found.st_uid == os.getuid() and not found.st_mode & 0o077
    if not (is_own and stat.S_ISDIR(found.st_mode)):
        raise StorageError(f"{other} is not a folder of your own", hint="set XDG_CACHE_HOME")
    return other


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Make a file have this text, if it has not."""
    if path.exists() and path.read_text() == text:
        return
    temporary = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    with temporary.open("x") as file:
        file.write(text)
    temporary.chmod(mode)
    temporary.replace(path)
