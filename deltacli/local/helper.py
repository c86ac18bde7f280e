"""Another process of this program that takes some of the work.

Python uses one processor at a time; where a task is bound by it, two processes share the
items. Both do the same to an item, so that answers do not depend on who is faster.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from deltacli.errors import DeltaCliError


def pays_off() -> bool:
    """Whether there is a second processor for another process."""
    return (os.cpu_count() or 1) > 1


class Helper:
    """The other process: a task, and an answer to each item, in the order of the items.

    So many items may be `waiting` for it.
    """

    def __init__(self, task: Callable[[Any], Any], waiting: int = 2):
        start = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-X", "utf8", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._items: queue.Queue[Any] = queue.Queue(waiting)
        self._answers: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._talk, args=(task,), daemon=True)
        self._thread.start()

    def give(self, item: Any) -> None:
        """Hand over an item; waits while too many are before it."""
        self._items.put((item,))

    def offer(self, item: Any) -> bool:
        """Hand over an item unless too many are before it."""
        try:
            self._items.put_nowait((item,))
        except queue.Full:
            return False
        return True

    def answer(self) -> Any:
        """The answer to the next item. Raises DeltaCliError if the process has failed."""
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise DeltaCliError(
                "the process that takes a part of the work has failed",
                hint="look for what ended it, such as too little memory; then try again",
            ) from answer
        return answer

    def close(self) -> None:
        self._items.put(None)
        self._thread.join()
        self._process.wait()

    def _talk(self, task: Callable[[Any], Any]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        failure: BaseException | None = None
        questions, answers = self._process.stdin, self._process.stdout
        with contextlib.suppress(OSError):
            try:
                pickle.dump(task, questions)
            except (OSError, pickle.PickleError) as error:
                failure = error
            while (item := self._items.get()) is not None:
                try:
                    if failure is None:
                        pickle.dump(item[0], questions, protocol=5)
                        questions.flush()
                        self._answers.put(pickle.load(answers))
                        continue
                except (OSError, EOFError, pickle.PickleError) as error:
                    failure = error
                self._answers.put(failure)
            questions.close()
        answers.close()


def main() -> None:
    """The other process, until nobody asks any more."""
    # Ctrl-C is for the process that asks; without it, this one ends by itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Looking for circles costs more than they do; tasks that make some collect them.
    gc.disable()
    questions = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    task = pickle.load(questions)
    with contextlib.suppress(EOFError):
        while True:
            pickle.dump(task(pickle.load(questions)), answers, protocol=5)
            answers.flush()
