"""Where findings go: counted all, kept some; and the rules that make them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from deltacli.checking.model import AnyRule, Failure, Finding, Level
from deltacli.errors import FileMissing, StorageError

# Rule, file of the log, path of a data file, version.
FindingKey = tuple[str, str | None, str | None, int | None]


Part = tuple[Counter[str], int, dict[str, list[Finding]]]


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with the rule that it is of."""

    rule: AnyRule
    finding: Finding

    @property
    def key(self) -> FindingKey:
        """What stays the same from run to run, as long as nothing is mended."""
        one = self.finding
        return self.rule.id, one.file, one.path, one.version


@dataclass
class Tally:
    """Findings as they come: all are counted, the first of each rule are kept.

    What is the same in one version after the other is told once, unless the tally
    `tells_each`.
    """

    most: int | None = 20
    known: frozenset[FindingKey] = frozenset()
    tells_each: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    num_known: int = 0
    _kept: dict[str, list[Found]] = field(default_factory=dict)
    _full: set[str] = field(default_factory=set)
    _seen: set[tuple[str, str]] = field(default_factory=set)

    def add(self, rule: AnyRule, finding: Finding, subject: Any) -> None:
        if rule.id in self._full:
            # Only how many there are is still of interest.
            self.counts[rule.id] += finding.times
            return
        repeats = getattr(subject, "repeats", False) and not self.tells_each
        if repeats:
            # What does not change from one such subject to the next is told once.
            own = rule.id, finding.message
            if own in self._seen:
                return
            self._seen.add(own)
        if self.known and Found(rule, _placed(finding, subject)).key in self.known:
            self.num_known += 1
            return
        self.counts[rule.id] += finding.times
        kept = self._kept.setdefault(rule.id, [])
        if self.most is None or len(kept) < self.most:
            kept.append(Found(rule, _placed(finding, subject)))
        elif not self.known and not repeats:
            self._full.add(rule.id)

    @property
    def keeps(self) -> int | None:
        """How many findings of a rule are of interest one by one; None is all."""
        return None if self.known else self.most

    def part(self) -> Part:
        """What was found, without the rules themselves."""
        kept = {key: [one.finding for one in found] for key, found in self._kept.items()}
        return self.counts, self.num_known, kept

    def take(self, part: Part, by_id: Mapping[str, AnyRule]) -> None:
        """Add what was found elsewhere."""
        counts, num_known, kept = part
        self.counts.update(counts)
        self.num_known += num_known
        for rule_id, findings in kept.items():
            own = self._kept.setdefault(rule_id, [])
            room = len(findings) if self.most is None else self.most - len(own)
            own += [Found(by_id[rule_id], one) for one in findings[: max(room, 0)]]

    def found(self) -> Iterator[Found]:
        """What was kept, by rule."""
        for rule_id in sorted(self._kept):
            yield from self._kept[rule_id]


@dataclass(frozen=True)
class Checked:
    """What came out for one table; `version` is the newest, None where there is none.

    An `error` of the storage has ended the run before its end.
    """

    location: str
    version: int | None
    level: Level
    rules: Sequence[AnyRule]
    tally: Tally
    notes: Sequence[str] = ()
    error: StorageError | None = None


@dataclass
class Rules:
    """The chosen rules by what they look at, and where their findings go."""

    rules: Sequence[AnyRule]
    tally: Tally

    @cached_property
    def by_subject(self) -> Mapping[type, list[AnyRule]]:
        found: dict[type, list[AnyRule]] = {}
        for one in self.rules:
            found.setdefault(one.subject, []).append(one)
        return found

    @property
    def level(self) -> Level:
        return max((one.level for one in self.rules), default=Level.LOG)

    def want(self, *subjects: type) -> bool:
        return any(one in self.by_subject for one in subjects)

    def apply(self, subject: Any) -> None:
        """Ask every rule about a subject; one that fails is a finding itself."""
        for rule in self.by_subject.get(type(subject), ()):
            try:
                for finding in rule.check(subject):
                    self.tally.add(rule, finding, subject)
            except Exception as error:
                # Where the storage fails, nothing can be said of the table.
                if isinstance(error, StorageError) and not isinstance(error, FileMissing):
                    raise
                self.apply(Failure(rule.id, error, subject.file, subject.version))


def _placed(finding: Finding, subject: Any) -> Finding:
    """A finding that does not say where it is, is where its subject is."""
    return finding._replace(
        file=finding.file if finding.file is not None else subject.file,
        version=finding.version if finding.version is not None else subject.version,
    )
