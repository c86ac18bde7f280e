"""Sessions: found or made, quick to start, with this package for their executors."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltacli.errors import StorageError, UsageError
from deltacli.spark.cache import cache_folder
from deltacli.spark.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What makes a short local session start in half the time: classes come from an archive that
# the first session leaves behind, and only the quick compiler works.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where Spark runs and what it is told. `is_short` trades peak speed for a quick start."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    is_short: bool = True

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")


def open_session(settings: SparkSettings) -> SparkSession:
    """The running session, or a new one by these settings."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as exc:
        raise StorageError(
            "this needs Spark, which is not installed",
            hint="pip install 'deltacli[spark]'",
        ) from exc
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    java = find_java()
    os.environ["JAVA_HOME"] = java.home
    # Workers would otherwise start whatever `python3` is, without pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1") if settings.is_local else None
    builder = SparkSession.builder.master(settings.master).appName("deltacli")
    for key, value in {**_defaults(settings, java), **settings.conf}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as exc:
        raise StorageError(
            f"Spark does not start: {_first_line(exc)}",
            hint="check --spark-master and --spark-conf; --debug shows Java's own words",
        ) from exc
    session.sparkContext.setLogLevel("ERROR")
    return session


def _defaults(settings: SparkSettings, java: Java) -> dict[str, str]:
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.log.level": "ERROR",
    }
    if settings.is_local:
        defaults["spark.sql.shuffle.partitions"] = str(max(2, os.cpu_count() or 2))
        options = _archive_options(java)
        if settings.is_short:
            options = f"{_QUICK} {options}"
        defaults["spark.driver.extraJavaOptions"] = options
    return defaults


def _archive_options(java: Java) -> str:
    """Use the archive of Java classes, or leave one behind at the end of this session.

    It belongs to one Java and one PySpark; Java itself ignores one that does not fit.
    """
    import pyspark

    archive = cache_folder() / f"spark-{pyspark.__version__}-java-{java.version}.jsa"
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive}"
    return f"-XX:ArchiveClassesAtExit={archive}.{os.getpid()} -Xlog:cds=off -Xlog:cds+dynamic=off"


def keep_archive() -> None:
    """Give the archive that this process's session left behind its name."""
    for made in cache_folder().glob(f"*.jsa.{os.getpid()}"):
        made.replace(made.with_suffix(""))


def parse_conf(pairs: list[str] | None) -> dict[str, str]:
    """`--spark-conf KEY=VALUE` as a mapping."""
    conf = {}
    for text in pairs or ():
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(
                f"--spark-conf {text!r} is not KEY=VALUE",
                hint="write it as --spark-conf spark.executor.memory=4g",
            )
        conf[key] = value
    return conf


def _first_line(exc: BaseException) -> str:
    lines = str(exc).strip().splitlines()
    return lines[0] if lines else type(exc).__name__
