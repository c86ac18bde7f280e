"""Programs on terminals of their own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Any

_ON_TERMINAL = "import os, sys; os.login_tty(0); os.execvp(sys.argv[1], sys.argv[1:])"


def start_on_terminal(*command: str, **more: Any) -> tuple[subprocess.Popen[bytes], int]:
    """A program that runs, and the end of its terminal where its user sits.

    A fork of this process would not do: its threads' locks stay held in the copy.
    """
    user, own = pty.openpty()
    try:
        words = [sys.executable, "-c", _ON_TERMINAL, *command]
        return subprocess.Popen(words, stdin=own, stdout=own, stderr=own, **more), user
    finally:
        os.close(own)


def on_terminal(*arguments: str) -> tuple[int, str]:
    """How a command ends, and what it writes to a terminal."""
    process, terminal = start_on_terminal(sys.executable, "-m", "deltacli", *arguments)
    content = b""
    try:
        while piece := os.read(terminal, 65536):
            content += piece
    except OSError:
        pass
    os.close(terminal)
    return process.wait(20), content.decode("utf-8", "replace")
