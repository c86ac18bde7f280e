"""Sessions: found or made, quick to start, with this package for their executors."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from deltacli.errors import CorruptLog, DeltaCliError, StorageError, UsageError
from deltacli.spark.cache import cache_folder, write_whole
from deltacli.spark.java import Java, find_java
from deltacli.spark.progress import OnTasks

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
_ARCHIVE_SECONDS = 60.0
# The quick compiler alone would get a cache of 48 MB, which a long job fills: then nothing more
# is compiled.
_QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -Xshare:auto"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where Spark runs and what it is told.

    `is_verbose` lets Java talk on stderr; `on_tasks` is told how far it is.
    """

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    is_verbose: bool = False
    on_tasks: OnTasks | None = None

    @property
    def is_local(self) -> bool:
        return is_local(self.master)


def is_local(master: str) -> bool:
    """Whether executors are threads of the driver; those of `local-cluster` are not."""
    return master == "local" or master.startswith("local[")


def check_installed() -> None:
    """Raise StorageError if there is no Spark, also where no job would need it in the end."""
    if find_spec("pyspark") is None:
        raise StorageError(
            "this needs Spark, which is not installed", hint="pip install 'deltacli[spark]'"
        )


def open_session(settings: SparkSettings) -> SparkSession:
    """The running session, or a new one by these settings."""
    check_installed()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    quiet_pyspark()
    java = find_java()
    os.environ["JAVA_HOME"] = java.home
    # PySpark takes the executors' Python from here alone. On this machine it is our own.
    python = settings.conf.get("spark.pyspark.python")
    if python is not None or settings.is_local:
        os.environ["PYSPARK_PYTHON"] = python or os.environ.get("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1") if settings.is_local else None
    os.environ["PYTHONUTF8"] = "1"
    _check_master(settings.master)
    builder = SparkSession.builder.master(settings.master)
    ours, theirs = _configuration(settings, java)
    for key, value in ours.items():
        builder = builder.config(key, value)
    with (
        _own_interrupts(),
        _out_of_sight(theirs),
        _java_talk(keep=settings.is_verbose) as talk,
    ):
        try:
            session = builder.getOrCreate()
        except Exception as exc:
            raise StorageError(
                f"Spark does not start on {settings.master}: {_telling(talk()) or _cause(exc)}",
                hint="check --spark-master and --spark-conf; --debug shows Java's own words",
            ) from exc
    if settings.is_local and not _archive(java).exists():
        atexit.register(_keep_archive, session, _archive(java))
    return session


_MASTERS = re.compile(r"local|local\[.+\]|local-cluster\[.+\]|spark://.+|yarn|k8s://.+")
_REACH_SECONDS = 5.0


def _check_master(master: str) -> None:
    """Java takes a minute to say that nobody is there, and says it badly."""
    if master.startswith("sc://"):
        raise UsageError(
            "Spark Connect cannot run the jobs of a command",
            hint="name a classic master, such as spark://HOST:7077",
        )
    if not _MASTERS.fullmatch(master):
        raise UsageError(
            f"{master!r} is no master of Spark",
            hint="write it as local[4], spark://HOST:7077, yarn or k8s://HOST:PORT",
        )
    if not master.startswith("spark://"):
        return
    reasons = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_SECONDS).close()
        except (OSError, ValueError) as error:
            reasons.append(f"{place}: {error}")
        else:
            return
    raise StorageError(
        f"no Spark master answers at {'; '.join(reasons)}",
        hint="check --spark-master, and that the master runs",
    )


def _configuration(settings: SparkSettings, java: Java) -> tuple[dict[str, str], Mapping[str, str]]:
    """Ours, save where the user says otherwise, and the user's; Java's options get both."""
    if "spark.master" in settings.conf:
        raise UsageError("spark.master is no setting here", hint="use --spark-master")
    for key in settings.conf:
        if not key.startswith("spark."):
            raise UsageError(f"{key!r} is no setting of Spark", hint=f"try spark.hadoop.{key}")
    defaults = _defaults(settings, java)
    options = "spark.driver.extraJavaOptions"
    own = f"{defaults[options]} {settings.conf.get(options, '')}".strip()
    theirs = {key: value for key, value in settings.conf.items() if key != options}
    ours = {key: value for key, value in defaults.items() if key not in theirs}
    return {**ours, options: own}, theirs


@contextlib.contextmanager
def _out_of_sight(conf: Mapping[str, str]) -> Iterator[None]:
    """Tells Java what the user set by a file: everybody sees the arguments of a process."""
    if not conf:
        yield
        return
    variable = "PYSPARK_SUBMIT_ARGS"
    before = os.environ.get(variable)
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="ascii") as file:
        file.writelines(f"{_property(key)}={_property(value)}\n" for key, value in conf.items())
        file.flush()
        given = f"--properties-file {shlex.quote(file.name)} --load-spark-defaults"
        os.environ[variable] = f"{given} {before or 'pyspark-shell'}"
        try:
            yield
        finally:
            if before is None:
                del os.environ[variable]
            else:
                os.environ[variable] = before


def _property(text: str) -> str:
    """A key or value as files of Java's properties write it."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(
        chr(high << 8 | low) if not high and chr(low).isalnum() and low < 128
        else f"\\u{high << 8 | low:04x}"
        for high, low in zip(units[::2], units[1::2], strict=True)
    )  # fmt: skip


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """PySpark takes Ctrl-C for itself, and cancels jobs that must be finished."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if is_main and before is not None:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _java_talk(*, keep: bool) -> Iterator[Callable[[], str]]:
    """What Java writes to stderr, held back: most of it is stacks."""
    try:
        stderr = -1 if keep else os.dup(2)
    except OSError:  # it is closed
        stderr = -1
    if stderr < 0:
        yield str
        return
    with tempfile.TemporaryFile() as held:
        sys.stderr.flush()
        os.dup2(held.fileno(), 2)

        def talk() -> str:
            held.seek(0)
            return held.read(100_000).decode("utf-8", "replace")

        try:
            yield talk
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def _telling(talk: str) -> str:
    """The line of Java's talk that says what is wrong."""
    found = re.search(r"(?:Exception|Error)(?: in thread \S+ \S+)?: (.+)", talk)
    return found[1].strip() if found else ""


def quiet_pyspark() -> None:
    """What PySpark logs of a failing query, Java's stack and all, it also raises."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _defaults(settings: SparkSettings, java: Java) -> dict[str, str]:
    defaults = {
        "spark.app.name": "deltacli",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.catalogImplementation": "in-memory",
        # Names of files are UTF-8, whatever the locale of an executor.
        "spark.executorEnv.PYTHONUTF8": "1",
    }
    crash = f"-XX:ErrorFile={cache_folder()}/hs_err_%p.log -XX:+DisplayVMOutputToStderr"
    options = f"{crash} -Dlog4j2.configurationFile={_log_settings(settings)}"
    if settings.is_local:
        cores = max(2, os.cpu_count() or 2)
        defaults["spark.sql.shuffle.partitions"] = str(cores)
        # By default a task a file is made to look at each.
        defaults["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = str(4 * cores)
        options += f" {_archive_options(java)} {_QUICK}"
    defaults["spark.driver.extraJavaOptions"] = options
    return defaults


def _log_settings(settings: SparkSettings) -> str:
    """Spark says nothing by itself: what fails comes back as an error of ours."""
    level = "warn" if settings.is_verbose else "off"
    path = cache_folder() / f"log4j2-{level}.properties"
    write_whole(path, _LOG.format(level=level))
    return path.as_uri()


def _archive(java: Java) -> Path:
    """The archive of Java classes: it belongs to one Java and one PySpark."""
    import pyspark

    return cache_folder() / f"spark-{pyspark.__version__}-{java.build}.jsa"


def _archive_options(java: Java) -> str:
    """Use the archive, or leave one behind at the end of this session."""
    archive = _archive(java)
    quiet = "-Xlog:cds=off -Xlog:cds+dynamic=off"
    if archive.exists():
        return f"-XX:SharedArchiveFile={archive} {quiet}"
    return f"-XX:ArchiveClassesAtExit={archive}.{os.getpid()} {quiet}"


def _keep_archive(session: SparkSession, archive: Path) -> None:
    """End the session, wait for Java to write its archive, and only then give it its name."""
    made = archive.with_name(f"{archive.name}.{os.getpid()}")
    context = session.sparkContext
    process = context._gateway.proc
    try:
        session.stop()
        context._gateway.shutdown()
        process.stdin.close()
        if process.wait(_ARCHIVE_SECONDS) == 0 and made.exists():
            made.replace(archive)
    except (OSError, subprocess.SubprocessError):
        process.kill()
    finally:
        with contextlib.suppress(OSError):
            made.unlink()


def parse_conf(pairs: Sequence[str]) -> dict[str, str]:
    """`--spark-conf KEY=VALUE` as a mapping."""
    conf = {}
    for text in pairs:
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
    # Of a worker's stack the last line says what is wrong.
    own = [line for line in lines if re.match(r"\w+(?:\.\w+)*(?:Error|Exception): ", line)]
    return own[-1] if own else lines[0] if lines else type(exc).__name__


@contextlib.contextmanager
def spark_errors() -> Iterator[None]:
    """Spark's errors as ours: what is wrong with a question, with the data, or with the world."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as exc:
        raise _translated(exc, _first_line(exc)) from exc
    except (OSError, EOFError) as exc:
        raise StorageError(f"Spark is gone: {exc}", hint="start it again") from exc
    except Exception as exc:
        if not type(exc).__module__.startswith("py4j"):
            raise
        raise _translated(exc, _cause(exc)) from exc


def _translated(exc: Exception, reason: str) -> DeltaCliError:
    from pyspark.errors import AnalysisException, ParseException

    text = str(exc)
    if any(word in text for word in ("PATH_NOT_FOUND", "FAILED_READ_FILE")):
        return CorruptLog(
            f"a data file is missing or broken: {reason}",
            hint="restore the file, or read a version without it",
        )
    # Classes 21, 22, 38 and 42 of SQL's states are about the question.
    if isinstance(exc, AnalysisException | ParseException) or re.search(
        r"SQLSTATE: (?:21|22|38|42)", text
    ):
        return UsageError(f"Spark does not accept this: {reason}", hint="check names and types")
    return StorageError(
        f"Spark failed: {reason}", hint="--debug shows all that Spark says; check its settings"
    )


def _cause(exc: Exception) -> str:
    """The line of a Java stack that says something."""
    lines = [line.strip() for line in str(exc).splitlines()]
    telling = [line for line in lines if line.startswith("Caused by:")] or lines[1:2] or lines
    return telling[0].removeprefix("Caused by: ").lstrip(": ") if telling else type(exc).__name__
