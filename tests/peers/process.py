"""Another implementation in a process of its own: one line of JSON asks, one answers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Ask = Callable[[Mapping[str, Any]], Any]


class PeerError(Exception):
    """What the other implementation raised."""


@contextmanager
def peer(command: Sequence[str | Path], *, says_ready: bool = False, **env: str) -> Iterator[Ask]:
    """Asks jobs of a process; one that takes long to start says that it is ready."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "NO_PROXY": "127.0.0.1", **env},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    told, answers = process.stdin, process.stdout

    def next_line() -> str:
        line = answers.readline()
        assert line, f"{command[0]} is gone with {process.poll()}"
        return line

    def ask(job: Mapping[str, Any]) -> Any:
        told.write(json.dumps(job) + "\n")
        told.flush()
        line = next_line()
        # Spark's vacuum talks on the same stream.
        while line.startswith("Deleted "):
            line = next_line()
        answer = json.loads(line)
        if isinstance(answer, dict) and "error" in answer:
            raise PeerError(answer["error"])
        return answer

    try:
        while says_ready and next_line().strip() != "ready":
            pass
        yield ask
    finally:
        process.kill()
        process.wait()
