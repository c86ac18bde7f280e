"""This package as a zip file, so that the executors of a cluster need only PySpark and PyArrow."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import deltacli

if TYPE_CHECKING:
    from pyspark import SparkContext

_SHIPPED = "deltacli.shipped"


def ship(context: SparkContext) -> None:
    """Send the package to a cluster's executors, once."""
    if context.getLocalProperty(_SHIPPED):
        return
    folder = tempfile.mkdtemp(prefix="deltacli-")
    target = os.path.join(folder, f"deltacli-{deltacli.__version__}.zip")
    _pack(target)
    context.addPyFile(target)
    context.setLocalProperty(_SHIPPED, "yes")
    # Executors may ask for it as long as Spark runs.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _pack(target: str) -> None:
    root = Path(deltacli.__file__).parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(root.rglob("*.py")):
            archive.write(path, str(Path("deltacli") / path.relative_to(root)))
