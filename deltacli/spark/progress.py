"""How far Spark is, from its own status tracker."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

_SECONDS = 0.2
# How many tasks are done, of how many in the stages under way.
OnTasks = Callable[[int, int], None]


@contextlib.contextmanager
def watched(context: SparkContext, on_tasks: OnTasks | None) -> Iterator[None]:
    """Tell of the tasks under way for as long as this lasts."""
    if on_tasks is None:
        yield
        return
    stopped = threading.Event()
    watch = threading.Thread(target=_watch, args=(context, on_tasks, stopped), daemon=True)
    watch.start()
    try:
        yield
    finally:
        stopped.set()
        watch.join()


def _watch(context: SparkContext, on_tasks: OnTasks, stopped: threading.Event) -> None:
    tracker = context.statusTracker()
    while not stopped.wait(_SECONDS):
        done = total = 0
        for stage in tracker.getActiveStageIds():
            info = tracker.getStageInfo(stage)
            if info is not None:
                done, total = done + info.numCompletedTasks, total + info.numTasks
        if total:
            on_tasks(done, total)
