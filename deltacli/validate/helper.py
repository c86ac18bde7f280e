"""Another process that checks rows of large checkpoints while this one reads on.

What Python does with statistics holds one processor at a time; two share the work. Which
rows go where does not depend on who is faster, so that the same findings are told each time.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deltacli.errors import DeltaCliError
from deltacli.validate.adds import Adds
from deltacli.validate.definition import Definition

# Rows that a checkpoint must have for a process to pay off.
LEAST_ROWS = 200_000
# Of so many portions this process takes the first: it has the reading to do besides.
_PORTIONS, _OWN = 5, 2
_ROWS_A_CHECK = 1 << 13


@dataclass(frozen=True)
class Portion:
    """Some adds of a checkpoint, with what is needed to check them elsewhere."""

    number: int
    file: str
    version: int
    definition: Definition
    now_ms: int
    root: str
    content: Any

    @property
    def is_for_helper(self) -> bool:
        return self.number % _PORTIONS >= _OWN

    def adds(self) -> Iterator[Adds]:
        """A few thousand at a time: what is parsed of them fits a processor's cache."""
        place = self.file, self.version, self.definition
        for start in range(0, len(self.content), _ROWS_A_CHECK):
            some = self.content[start : start + _ROWS_A_CHECK]
            if isinstance(some, list):
                yield Adds.of_lines(*place, some, now_ms=self.now_ms, root=self.root)
            else:
                yield Adds.of_batch(*place, some, now_ms=self.now_ms, root=self.root)


class Helper:
    """The other process; it ends with this one, or when it is closed."""

    def __init__(self, rule_ids: Sequence[str], most: int | None, known: Any):
        start = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
        self._process = subprocess.Popen(
            [sys.executable, "-X", "utf8", "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._setting = (tuple(rule_ids), most, known)
        self._waiting: queue.Queue[Portion | None] = queue.Queue(2)
        self._answers: list[tuple[int, Any]] = []
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._talk, daemon=True)
        self._thread.start()

    def check(self, portion: Portion) -> None:
        self._waiting.put(portion)

    def close(self) -> list[tuple[int, Any]]:
        """What was found in each portion."""
        self._waiting.put(None)
        self._thread.join()
        self._process.wait()
        if self._failure is not None:
            raise DeltaCliError(
                "the process that checks a part of the rows has failed",
                hint="look for what ended it, such as too little memory; then try again",
            ) from self._failure
        return self._answers

    def _talk(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            with self._process.stdin as questions, self._process.stdout as answers:
                pickle.dump(self._setting, questions)
                while (portion := self._waiting.get()) is not None:
                    pickle.dump(portion, questions, protocol=5)
                    questions.flush()
                    self._answers.append((portion.number, pickle.load(answers)))
        except (OSError, EOFError, pickle.PickleError) as error:
            self._failure = error
            while self._waiting.get() is not None:
                pass


def main() -> None:
    """The other process: portions in, what was found in each out."""
    from deltacli.validate.registry import BY_ID
    from deltacli.validate.tally import Rules, Tally

    # Ctrl-C is for the process that asks; without it, this one ends by itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    questions = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    rule_ids, most, known = pickle.load(questions)
    rules = [BY_ID[one] for one in rule_ids]
    while True:
        try:
            portion = pickle.load(questions)
        except EOFError:
            return
        tally = Tally(most, known)
        for adds in portion.adds():
            Rules(rules, tally).apply(adds)
        pickle.dump(tally.part(), answers)
        answers.flush()
