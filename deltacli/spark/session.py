"""Sessions: found or made, quick to start, with this package for their executors."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltacli.errors import CorruptLog, StorageError, UsageError
from deltacli.spark.cache import cache_folder
from deltacli.spark.java import Java, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What makes a short local session start in half the time: classes come from an archive that
# the first session leaves behind, and only the quick compiler works.
_LOG = """rootLogger.level = {level}
logger.python.name = org.apache.spark.api.python.PythonGatewayServer
logger.python.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.console.type = Console
appender.console.name = stderr
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""
_ARCHIVE_SECONDS = 5.0
_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where Spark runs and what it is told.

    `is_short` trades peak speed for a quick start; `is_verbose` lets Java talk on stderr.
    """

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    is_short: bool = True
    is_verbose: bool = False

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
    # What PySpark logs, it also raises.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
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
            f"Spark does not start: {_cause(exc)}",
            hint="check --spark-master and --spark-conf; --debug shows Java's own words",
        ) from exc
    return session


def _defaults(settings: SparkSettings, java: Java) -> dict[str, str]:
    defaults = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
    }
    options = f"-Dlog4j2.configurationFile={_log_settings(settings)}"
    if settings.is_local:
        cores = max(2, os.cpu_count() or 2)
        defaults["spark.sql.shuffle.partitions"] = str(cores)
        # By default a task a file is made to look at each.
        defaults["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = str(4 * cores)
        options += f" {_archive_options(java)}"
        if settings.is_short:
            options += f" {_QUICK}"
    defaults["spark.driver.extraJavaOptions"] = options
    return defaults


def _log_settings(settings: SparkSettings) -> str:
    """Spark says nothing by itself: what fails comes back as an error of ours."""
    level = "warn" if settings.is_verbose else "off"
    path = cache_folder() / f"log4j2-{level}.properties"
    if not path.exists():
        path.write_text(_LOG.format(level=level))
    return path.as_uri()


def _archive_options(java: Java) -> str:
    """Use the archive of Java classes, or leave one behind at the end of this session.

    It belongs to one Java and one PySpark; Java itself ignores one that does not fit.
    """
    import pyspark

    archive = cache_folder() / f"spark-{pyspark.__version__}-java-{java.version}.jsa"
    for made in sorted(archive.parent.glob(f"{archive.name}.*")):
        # Java writes it for some seconds after the session's end.
        if time.time() - made.stat().st_mtime > _ARCHIVE_SECONDS:
            made.replace(archive)
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
    return f"-XX:ArchiveClassesAtExit={archive}.{os.getpid()} -Xlog:cds=off -Xlog:cds+dynamic=off"


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


@contextlib.contextmanager
def spark_errors() -> Iterator[None]:
    """Spark's errors as ours: what is wrong with a question, and what went wrong with an answer."""
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    try:
        yield
    except (AnalysisException, ParseException) as exc:
        if "PATH_NOT_FOUND" in str(exc):
            raise CorruptLog(
                f"a data file is missing: {_first_line(exc)}",
                hint="restore the file, or read a version without it",
            ) from exc
        raise UsageError(
            f"Spark does not accept this: {_first_line(exc)}", hint="check names and types"
        ) from exc
    except (PySparkException, OSError) as exc:
        raise StorageError(
            f"Spark could not read the data: {_first_line(exc)}",
            hint="data files may be missing or broken; --debug shows all that Spark says",
        ) from exc
    except Exception as exc:
        if not type(exc).__module__.startswith("py4j"):
            raise
        raise StorageError(
            f"Spark failed: {_cause(exc)}",
            hint="data files may be missing or broken; --debug shows all that Spark says",
        ) from exc


def _cause(exc: Exception) -> str:
    """The line of a Java stack that says something."""
    lines = [line.strip() for line in str(exc).splitlines()]
    telling = [line for line in lines if line.startswith("Caused by:")] or lines[1:2] or lines
    return telling[0].removeprefix("Caused by: ") if telling else type(exc).__name__
