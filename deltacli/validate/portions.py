"""The rows of a checkpoint in portions: checked here or, where there are many, by a helper too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltacli.checking.tally import FindingKey, Part, Rules, Tally
from deltacli.local.helper import Helper, pays_off
from deltacli.validate.adds import Adds
from deltacli.validate.checkpoints import Reading
from deltacli.validate.definition import Definition

# What checkpoints must have for another process to pay off.
_LEAST_BYTES = 1 << 25
# Enough for as long as this process has other things to do in the end.
_WAITING = 6
_ROWS_A_CHECK = 1 << 13


@dataclass(frozen=True)
class Portion:
    """Some adds of a checkpoint, as a batch or as lines, with what is needed to check them."""

    file: str
    version: int
    definition: Definition
    now_ms: int
    root: str
    content: Any

    def adds(self, most: int | None) -> Iterator[Adds]:
        """A few thousand at a time: what is parsed of them fits a processor's cache."""
        more: dict[str, Any] = {"now_ms": self.now_ms, "root": self.root, "most": most}
        place = self.file, self.version, self.definition
        for start in range(0, len(self.content), _ROWS_A_CHECK):
            some = self.content[start : start + _ROWS_A_CHECK]
            if isinstance(some, list):
                yield Adds.of_lines(*place, some, **more)
            else:
                yield Adds.of_batch(*place, some, **more)


@dataclass(frozen=True)
class CheckPortion:
    """What is found in a portion, by rules that another process knows by their ids."""

    rule_ids: Sequence[str]
    most: int | None
    known: frozenset[FindingKey]

    def __call__(self, portion: Portion) -> Part:
        from deltacli.validate.registry import BOOK

        tally = Tally(self.most, self.known)
        rules = Rules([BOOK.by_id[one] for one in self.rule_ids], tally)
        for adds in portion.adds(tally.keeps):
            rules.apply(adds)
        return tally.part()


@dataclass
class Portions:
    """The portions of all checkpoints; what was found in them is told in their order."""

    rules: Rules
    now_ms: int
    root: str
    helper: Helper | None = None
    parts: list[Part | None] = field(default_factory=list)

    def expect(self, num_bytes: int) -> None:
        """Begin the other process if checkpoints are so large that it pays off."""
        if num_bytes >= _LEAST_BYTES and pays_off():
            self.helper = Helper(self._task, _WAITING)

    def take(self, reading: Reading, path: str, rows: Any) -> None:
        portion = Portion(path, reading.version, reading.definition, self.now_ms, self.root, rows)
        if self.helper is None:
            for adds in portion.adds(self.rules.tally.keeps):
                self.rules.apply(adds)
        elif self.helper.offer(portion):
            self.parts.append(None)
        else:
            self.parts.append(self._task(portion))

    @property
    def _task(self) -> CheckPortion:
        chosen = [one.id for one in self.rules.by_subject.get(Adds, ())]
        tally = self.rules.tally
        return CheckPortion([*chosen, "RUN001"], tally.most, tally.known)

    def close(self) -> None:
        """Wait for the other process, and take what was found into account."""
        if self.helper is None:
            return
        by_id = {one.id: one for one in self.rules.rules}
        try:
            for part in self.parts:
                self.rules.tally.take(self.helper.answer() if part is None else part, by_id)
        finally:
            self.stop()

    def stop(self) -> None:
        if self.helper is not None:
            self.helper.close()
            self.helper = None
