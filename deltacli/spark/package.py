"""deltacli itself as a zip, for executors that have PySpark and pyarrow only."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import deltacli
from deltacli.spark.cache import cache_folder


def package_zip() -> Path:
    """The zip of this very code, made if it is not in the cache."""
    root = Path(deltacli.__file__).parent
    files = sorted(root.rglob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    target = cache_folder() / f"deltacli-{digest.hexdigest()[:16]}.zip"
    if not target.exists():
        temporary = target.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                archive.write(file, Path("deltacli") / file.relative_to(root))
        temporary.replace(target)
    return target
