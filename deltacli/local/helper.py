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

from deltacli.errors import PartlyDone


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
        """The answer to the next item. Raises PartlyDone if the process has ended."""
        answer = self._answers.get()
        if isinstance(answer, BaseException):
            raise PartlyDone(
                "the process that takes a part of the work has ended",
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
        try:
            pickle.dump(task, questions)
        except BaseException as error:
            failure = error
        while (item := self._items.get()) is not None:
            if failure is None:
                try:
                    pickle.dump(item[0], questions, protocol=5)
                    questions.flush()
                    self._answers.put(pickle.load(answers))
                    continue
                except BaseException as error:
                    failure = error
            # Whoever waits for an answer must get one.
            self._answers.put(failure)
        for stream in (questions, answers):
            with contextlib.suppress(OSError):
                stream.close()


def main() -> None:
    """The other process, until nobody asks any more."""
    # Ctrl-C is for the process that asks; without it, this one ends by itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Looking for circles costs more than they do; tasks that make some collect them.
    gc.disable()
    questions = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    try:
        task = pickle.load(questions)
        while True:
            pickle.dump(task(pickle.load(questions)), answers, protocol=5)
            answers.flush()
    except BaseException:
        # Nobody is there to ask any more; or it is told by the answer that does not come.
        os._exit(0)
