"""Our own code on Spark's executors: a task an item, in Python.

Rows never go through Java: a task reads and writes Parquet with pyarrow where it runs, and
only what it came to travels.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from deltacli.errors import DeltaCliError, Refused
from deltacli.spark.package import ship
from deltacli.spark.progress import OnTasks, watched
from deltacli.spark.session import is_local, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


class Jobs:
    """Runs tasks on a session. `on_tasks` is told how many of those under way are done."""

    def __init__(self, spark: SparkSession, on_tasks: OnTasks | None = None):
        try:
            self._context = spark.sparkContext
        except Exception as error:
            raise Refused(
                "Spark Connect runs no Python of ours on its executors: it can read tables, "
                "but not do this job",
                hint="use a classic session, such as --spark-master spark://HOST:7077",
            ) from error
        self._is_local = is_local(self._context.master)
        if not self._is_local:
            ship(self._context)
        self._on_tasks = on_tasks

    @property
    def parallelism(self) -> int:
        return max(2, int(self._context.defaultParallelism))

    def share(self, value: Any) -> Any:
        """A large value for all tasks, sent once to each executor; they ask for its `.value`."""
        return self._context.broadcast(value)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[str]:
        """A folder for files that are handed out.

        Spark asks for such files as long as it runs, and of each executor that joins.
        """
        folder = tempfile.mkdtemp(prefix="deltacli-")
        try:
            yield folder
        finally:
            if self._is_local:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                atexit.register(shutil.rmtree, folder, ignore_errors=True)

    def hand_out(self, path: str) -> str:
        """A file for all tasks: what they give to `SparkFiles.get`."""
        if self._is_local:
            return path
        self._context.addFile(path)
        return os.path.basename(path)

    def each(self, task: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """What the task makes of each item, in order."""
        if not items:
            return []
        with watched(self._context, self._on_tasks), spark_errors():
            tasks = self._context.parallelize(items, len(items))
            answers = self._aside(tasks.map(partial(_one, task)).collect)
        return [_value(one) for one in answers]

    def _aside(self, work: Callable[[], R]) -> R:
        """Wait for a job on another thread: Ctrl-C must not fall into what talks to Java.

        A thread that is not the main one is never interrupted; its job is finished.
        """
        if threading.current_thread() is not threading.main_thread():
            return work()
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(work)
            try:
                return answer.result()
            except KeyboardInterrupt:
                self._context.cancelAllJobs()
                raise

    def stream(self, task: Callable[[T], Iterable[R]], items: Sequence[T]) -> Iterator[R]:
        """All that the task yields for each item; about one item's worth is held at a time."""
        if not items:
            return
        with watched(self._context, self._on_tasks), spark_errors():
            tasks = self._context.parallelize(items, len(items))
            found = tasks.flatMap(partial(_many, task))
            for answer in found.toLocalIterator(prefetchPartitions=True):
                yield _value(answer)


Answer = tuple[bool, Any]


def _one(task: Callable[[Any], Any], item: Any) -> Answer:
    """An error of ours comes back as what it is; Spark would make a text of it."""
    try:
        return True, task(item)
    except DeltaCliError as error:
        return False, error


def _many(task: Callable[[Any], Iterable[Any]], item: Any) -> Iterator[Answer]:
    try:
        for one in task(item):
            yield True, one
    except DeltaCliError as error:
        yield False, error


def _value(answer: Answer) -> Any:
    is_good, value = answer
    if is_good:
        return value
    raise value
