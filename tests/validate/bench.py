"""Tables for rules: a sound one, and its twin that differs in what the rule is about."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltacli.storage import LogStore
from tests.builder import NOW_MS, Action, TableBuilder, commit_info, metadata, protocol

Commit = Sequence[Action] | bytes
LATER_MS = NOW_MS + 60_000


def c(*actions: Action, **info: Any) -> list[Action]:
    """A commit."""
    return [commit_info(**info), *actions]


def start(
    *more: Action, proto: Action | None = None, info: Mapping[str, Any] | None = None, **table: Any
) -> list[Action]:
    """Commit 0."""
    head = commit_info("CREATE TABLE", **(info or {}))
    return [head, proto or protocol(), metadata(**_columns(table)), *more]


def meta(**table: Any) -> Action:
    return metadata(*table.pop("columns", ()), **table)


def _columns(table: dict[str, Any]) -> dict[str, Any]:
    return table


@dataclass
class Log:
    """A table to be written: commits, other files of the log, and data files by size."""

    commits: Sequence[Commit] = ()
    others: Mapping[str, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes | int] = field(default_factory=dict)
    first: int = 0
    at_ms: Mapping[int, int] = field(default_factory=dict)
    old: Mapping[str, int] = field(default_factory=dict)
    then: Callable[[LogStore], None] | None = None

    def write(self, store: LogStore) -> None:
        table = TableBuilder(store)
        table.next_version = self.first
        for number, one in enumerate(self.commits, self.first):
            stamp = self.at_ms.get(number, NOW_MS)
            if isinstance(one, bytes):
                table.commit_bytes(one, at_ms=stamp)
            elif one:
                table.commit(*one, at_ms=stamp)
            table.next_version = number + 1
        for name, content in self.others.items():
            table.put(name, content, at_ms=self.old.get(name, NOW_MS))
        for name, content in self.files.items():
            _put(store, name, content, self.old.get(name, NOW_MS))
        if self.then:
            self.then(store)


def _put(store: LogStore, name: str, content: bytes | int, at_ms: int) -> None:
    if hasattr(store, "now_ms"):
        store.now_ms = at_ms
    store.put(name, content if isinstance(content, bytes) else bytes(content))
    path = store.file_path(name)
    if path:
        import os

        os.utime(path, (at_ms / 1000, at_ms / 1000))


@dataclass(frozen=True)
class Twin:
    """A rule's two tables. `also` are rules that cannot be silent where this one speaks."""

    rule: str
    sound: Log
    broken: Log
    also: frozenset[str] = frozenset()


TWINS: dict[str, Twin] = {}


def twin(rule: str, sound: Log | list[Commit], broken: Log | list[Commit], also: str = "") -> None:
    assert rule not in TWINS, rule
    TWINS[rule] = Twin(rule, _log(sound), _log(broken), frozenset(also.split()))


def _log(one: Log | list[Commit]) -> Log:
    return one if isinstance(one, Log) else Log(one)


def lines(*actions: Any) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in actions)
