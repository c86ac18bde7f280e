"""Vacuum over random histories, and with every operation failing or killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.delta.columns import texts_of
from deltacli.delta.snapshot import load_snapshot
from deltacli.delta.vectors import vector_path
from deltacli.errors import DeltaCliError
from deltacli.local.engine import LocalEngine
from deltacli.operations.checkpoint import apply_checkpoint, plan_checkpoint
from deltacli.operations.vacuum import plan_vacuum
from deltacli.operations.vacuum_apply import apply_vacuum
from deltacli.operations.vacuum_request import VacuumRequest
from deltacli.storage import LogStore
from deltacli.storage.local import LocalStore
from deltacli.storage.memory import MemoryStore
from tests.builder import (
    NOW_MS,
    TableBuilder,
    add,
    column,
    commit_info,
    features,
    metadata,
    remove,
    vector,
)
from tests.faulty import FaultyStore

HOUR_MS = 3_600_000
VALUES = ["a", "b c", "100%", "x%20y", "+", "#", "?", "a:b", "a=b", "é", "_x", "a%3Ab", "日", "'"]
Z85 = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass
class History:
    """A table, and what the test knows about it from having made it."""

    table: TableBuilder
    chance: random.Random
    # File name on storage -> when it was last modified.
    files: dict[str, int] = field(default_factory=dict)
    # Live data file -> its vector.
    live: dict[str, dict[str, object] | None] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    # For each version: when it was made, and all files that it needs.
    versions: list[tuple[int, frozenset[str]]] = field(default_factory=list)

    def put(self, name: str, now_ms: int) -> str:
        self.table.store.now_ms = now_ms  # type: ignore[attr-defined]
        self.table.store.put(name, b"x")
        self.files[name] = now_ms
        return name

    def new_file(self, now_ms: int) -> str:
        value = self.chance.choice(VALUES)
        folder = self.chance.choice([f"_p={value}", f"_p={value}/q={value}", "", "zz"])
        return self.put(f"{folder}/{len(self.files)}".lstrip("/"), now_ms)

    def new_vector(self, now_ms: int) -> dict[str, object]:
        text = "".join(self.chance.choice(Z85) for _ in range(20))
        descriptor = vector(self.chance.choice(["", "pq"]) + text)
        if self.chance.random() < 0.3:
            path = f"dv {len(self.files)}.bin"
            descriptor |= {"storageType": "p", "pathOrInlineDv": f"memory://table/{quote(path)}"}
            self.put(path, now_ms)
        else:
            self.put(vector_path(descriptor) or "", now_ms)
        return descriptor

    def name_of(self, vector: dict[str, object]) -> str:
        from urllib.parse import unquote

        text = vector_path(vector) or ""
        return unquote(text).removeprefix("memory://table/")

    def note(self, now_ms: int) -> None:
        vectors = (self.name_of(one) for one in self.live.values() if one)
        self.versions.append((now_ms, frozenset([*self.live, *vectors])))

    def step(self, now_ms: int, may_forget: bool) -> None:
        chance = self.chance
        actions = [commit_info()]
        touched: set[str] = set()
        for _ in range(chance.randint(1, 3)):
            kind = chance.choice(["add", "add", "remove", "vector", "readd", "orphan", "cdc"])
            choices = sorted(set(self.live) - touched)
            if kind == "add":
                name = self.new_file(now_ms)
                self.live[name] = self.new_vector(now_ms) if chance.random() < 0.2 else None
                actions.append(self.add(name))
                touched.add(name)
            elif kind == "remove" and choices:
                name = chance.choice(choices)
                actions.append(self.remove(name, now_ms, may_forget))
                del self.live[name]
                self.gone.append(name)
                touched.add(name)
            elif kind == "vector" and choices:
                name = chance.choice(choices)
                actions.append(self.remove(name, now_ms, may_forget))
                self.live[name] = self.new_vector(now_ms)
                actions.append(self.add(name))
                touched.add(name)
            elif kind == "readd" and self.gone:
                name = chance.choice(self.gone)
                if name not in touched and name not in self.live:
                    self.live[name] = None
                    actions.append(self.add(name))
                    touched.add(name)
            elif kind == "orphan":
                self.new_file(now_ms)
            elif kind == "cdc":
                name = self.put(f"_change_data/{len(self.files)}", now_ms)
                actions.append({"cdc": {"path": name, "size": 1, "partitionValues": {}}})
        self.table.commit(*actions, at_ms=now_ms)
        self.note(now_ms)

    def encoded(self, name: str) -> str:
        # One file has one spelling; the protocol takes two for two files.
        is_absolute = sum(name.encode()) % 5 == 0
        return f"memory://table/{quote(name)}" if is_absolute else quote(name)

    def add(self, name: str) -> dict[str, object]:
        vector = self.live[name]
        return add(self.encoded(name), **({"deletionVector": vector} if vector else {}))

    def remove(self, name: str, now_ms: int, may_forget: bool) -> dict[str, object]:
        vector = self.live[name]
        timed = not may_forget or self.chance.random() < 0.7
        more = {"deletionVector": vector} if vector else {}
        return remove(self.encoded(name), now_ms if timed else None, **more)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 25), kept_hours=st.integers(0, 30))
def test_exactly_what_no_kept_version_needs_is_planned(
    seed: int, steps: int, kept_hours: int
) -> None:
    """V-10 to V-19, V-26, V-44: no more, and no less; whatever checkpoints have forgotten."""
    chance = random.Random(seed)
    table = TableBuilder(MemoryStore())
    history = History(table, chance)
    begun = NOW_MS - steps * HOUR_MS
    property_hours = chance.randint(0, 20)
    mapped = chance.random() < 0.5
    name = "delta.columnMapping.physicalName"
    own = {name: "_p", "delta.columnMapping.id": 1} if mapped else {}
    table.commit(
        features("deletionVectors", *(["columnMapping"] if mapped else [])),
        metadata(
            column("day" if mapped else "_p", "string", **own),
            partition_by=["day" if mapped else "_p"],
            configuration={
                "delta.deletedFileRetentionDuration": f"interval {property_hours} hours",
                **({"delta.columnMapping.mode": "name"} if mapped else {}),
            },
        ),
        at_ms=begun - HOUR_MS,
    )
    history.note(begun - HOUR_MS)
    may_forget = chance.random() < 0.3
    for number in range(steps):
        now_ms = begun + number * HOUR_MS
        history.step(now_ms, may_forget)
        if chance.random() < 0.15:
            table.store.now_ms = now_ms  # type: ignore[attr-defined]
            written = plan_checkpoint(load_snapshot(table.store, LocalEngine), now_ms=now_ms)
            apply_checkpoint(written, LocalEngine())
    request = VacuumRequest(retain_ms=kept_hours * HOUR_MS, allow_short_retention=True)
    snapshot = load_snapshot(table.store, LocalEngine)
    plan = plan_vacuum(snapshot, LocalEngine, request, now_ms=NOW_MS)
    border = NOW_MS - kept_hours * HOUR_MS
    ends = [made for made, _ in history.versions[1:]] + [NOW_MS + HOUR_MS]
    needed: set[str] = set()
    for (_, files), end in zip(history.versions, ends, strict=True):
        if end >= border:
            needed |= files
    young = {name for name, stamp in history.files.items() if stamp >= border}
    assert set(texts_of(plan.found.names)) == set(history.files) - needed - young
    # From this version on, all have their files.
    for _, files in history.versions[plan.readable.earliest :]:
        assert not files & set(texts_of(plan.found.names))
    assert len(plan.readable.lost) == plan.readable.earliest


# -- faults ---------------------------------------------------------------------------------


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def faulty_table(place: Path) -> None:
    """Live files, vectors, tombstones of both ages, garbage in folders, a checkpoint."""
    store = LocalStore(str(place))
    table = TableBuilder(store)
    table.commit(
        features("deletionVectors"),
        metadata(configuration={"delta.checkpointInterval": "3"}),
        add("live"),
        add("marked", deletionVector=vector()),
        *(add(f"old/{n}") for n in range(6)),
        add("fresh"),
    )
    table.commit(*(remove(f"old/{n}", 0) for n in range(6)), remove("fresh", now_ms()))
    name = vector_path(vector()) or ""
    for file in ("live", "marked", "fresh", name, *(f"old/{n}" for n in range(6)), "g/h/garbage"):
        store.put(file, b"x")
    for folder, _, files in os.walk(place, topdown=False):
        for one in (*(f"{folder}/{file}" for file in files), folder):
            os.utime(one, (0, 0))


NEEDED = ("live", "marked", "fresh", vector_path(vector()) or "")


def do_vacuum(store: LogStore) -> None:
    import deltacli.operations.vacuum_apply as module

    module._BATCH = 2
    plan = plan_vacuum(
        load_snapshot(store, LocalEngine), LocalEngine, VacuumRequest(), now_ms=now_ms()
    )
    apply_vacuum(plan, LocalEngine, now_ms=lambda: 0)


def check(place: Path) -> None:
    """Nothing needed is lost, the log is whole, and running again completes the work."""
    store = LocalStore(str(place))
    snapshot = load_snapshot(store, LocalEngine)
    assert {path for path, _ in snapshot.all_live().values()} == {"live", "marked"}
    for name in NEEDED:
        assert (place / name).exists()
    do_vacuum(store)
    files = [str(one.relative_to(place)) for one in place.rglob("*") if one.is_file()]
    kept = {one for one in files if not one.startswith("_delta_log/")}
    assert kept == set(NEEDED)
    assert not list(place.rglob("*.tmp"))


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_failure_at_any_operation_loses_nothing(tmp_path: Path, mode: str) -> None:
    base = tmp_path / "base"
    faulty_table(base)
    shutil.copytree(base, tmp_path / "count")
    counting = FaultyStore(LocalStore(str(tmp_path / "count")))
    do_vacuum(counting)
    assert counting.count > 20
    for number in range(counting.count):
        place = tmp_path / f"t{number}"
        shutil.copytree(base, place)
        with contextlib.suppress(DeltaCliError):
            do_vacuum(FaultyStore(LocalStore(str(place)), number, mode))
        check(place)


def test_an_interruption_says_how_far_it_came(tmp_path: Path) -> None:
    """V-64: Ctrl-C finishes what was begun, and END says FAILED."""
    import signal

    place = tmp_path / "table"
    faulty_table(place)
    for number in range(20_000):
        (place / f"{number}.parquet").touch()
        os.utime(place / f"{number}.parquet", (0, 0))
    command = [sys.executable, "-m", "deltacli", "vacuum", str(place), "--yes", "--allow-large"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    log = place / "_delta_log"
    while process.poll() is None and not (log / f"{2:020}.json").exists():
        time.sleep(0.001)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    if process.returncode == 0:
        pytest.skip("the deletion was faster than the signal")
    assert process.returncode == 130, err
    told = r"files are deleted( \(and up to [\d,]+ more\))?, the table is sound; run it again"
    assert re.search(told, err)
    info = json.loads((log / f"{3:020}.json").read_text())["commitInfo"]
    assert info["operationParameters"] == {"status": "FAILED"}
    for name in NEEDED:
        assert (place / name).exists()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert not list(place.glob("*.parquet"))
