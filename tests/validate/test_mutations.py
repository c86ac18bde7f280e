"""Logs with something wrong in them: never a crash, and what changes the table is told.

`DELTACLI_MUTANTS` sets how many are tried; the last test prints how many were found.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from deltacli.checking.model import Level, Severity
from deltacli.delta.snapshot import load_snapshot
from deltacli.errors import DeltaCliError
from deltacli.local.engine import LocalEngine
from deltacli.storage.memory import MemoryStore
from deltacli.validate.check import Means, Request, check_table
from deltacli.validate.registry import BOOK
from tests.builder import (
    NOW_MS,
    TableBuilder,
    add,
    column,
    commit_info,
    domain,
    metadata,
    protocol,
    remove,
    txn,
)
from tests.validate.twins_log import D1, deleted, kept, stats

COUNT = int(os.environ.get("DELTACLI_MUTANTS", "400"))
RULES = BOOK.chosen(Level.LOG)
Files = dict[str, bytes]
_FEATURES = ["deletionVectors", "domainMetadata", "v2Checkpoint"]
_PROTOCOL = protocol(3, 7, ["deletionVectors", "v2Checkpoint"], _FEATURES)
_METADATA = metadata(
    column("id"), column("p", "string"), partition_by=["p"],
    configuration={"delta.checkpointInterval": "3"},
)  # fmt: skip


def part(name: str, p: str = "x", **more: Any) -> Any:
    own = {"partitionValues": {"p": p}, "stats": stats(10, 1, 9, 0), **more}
    return add(f"p={p}/{name}", size=100 + len(name), **own)


def vector(name: str, **more: Any) -> Any:
    one = deleted(f"p=x/{name}", D1, **more)
    one["add"].update(partitionValues={"p": "x"}, size=101)
    return one


def history() -> list[list[Any]]:
    """Six commits that do a little of everything."""
    return [
        [commit_info("CREATE TABLE"), _PROTOCOL, _METADATA, part("a"), part("b")],
        [commit_info(), part("c", "y"), txn("stream", 1)],
        [commit_info("DELETE"), remove("p=x/a", partitionValues={"p": "x"}), vector("a")],
        [commit_info(), part("d"), domain("mine", '{"k": 1}'), txn("stream", 2)],
        [commit_info("DELETE"), remove("p=y/c", partitionValues={"p": "y"})],
        [commit_info(), part("e", "z"), txn("stream", 3)],
    ]


def live_after(version: int) -> dict[str, Any]:
    live: dict[str, Any] = {}
    for commit in history()[: version + 1]:
        for one in commit:
            if "remove" in one:
                live.pop(one["remove"]["path"], None)
        live.update({one["add"]["path"]: one for one in commit if "add" in one})
    return live


def txns_after(version: int) -> list[Any]:
    last: dict[str, Any] = {}
    for commit in history()[: version + 1]:
        last.update({one["txn"]["appId"]: one for one in commit if "txn" in one})
    return list(last.values())


def sound() -> Files:
    """The log with a checkpoint at 3, checksums, a hint and compacted commits."""
    store = MemoryStore()
    table = TableBuilder(store)
    for version, commit in enumerate(history()):
        table.commit(*commit)
        live = live_after(version)
        sums = {
            "tableSizeBytes": sum(one["add"]["size"] for one in live.values()),
            "numFiles": len(live), "numMetadata": 1, "numProtocol": 1,
            "protocol": _PROTOCOL["protocol"], "metadata": _METADATA["metaData"],
            "setTransactions": [one["txn"] for one in txns_after(version)],
        }  # fmt: skip
        table.put(f"{version:020}.crc", json.dumps(sums).encode())
    small = [_PROTOCOL, _METADATA, txn("stream", 2), domain("mine", '{"k": 1}')]
    gone = remove("p=x/a", partitionValues={"p": "x"})
    files = [kept(one) for one in (*live_after(3).values(), gone)]
    table.checkpoint(3, [*small, *files])
    table.hint(3, size=len(small) + len(files))
    return {name: store.read(name) for name in names(store)}


def names(store: MemoryStore) -> list[str]:
    return [f"_delta_log/{entry.name}" for entry in store.list_from("_delta_log")]


# -- what goes wrong ---------------------------------------------------------------------


def commits(files: Files) -> list[str]:
    return sorted(name for name in files if name.endswith(".json"))


def flip_a_byte(files: Files, chance: random.Random) -> None:
    name = chance.choice(sorted(files))
    content = bytearray(files[name])
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    files[name] = bytes(content)


def cut(files: Files, chance: random.Random) -> None:
    name = chance.choice(sorted(files))
    files[name] = files[name][: chance.randrange(len(files[name]))]


def remove_a_file(files: Files, chance: random.Random) -> None:
    # A log that is shorter at either end is another log, and nothing is wrong with it.
    ends = {commits(files)[0], commits(files)[-1]}
    del files[chance.choice(sorted(files.keys() - ends))]


def with_lines(change: Callable[[list[bytes], random.Random], None]) -> Any:
    def changed(files: Files, chance: random.Random) -> None:
        name = chance.choice(commits(files))
        lines = files[name].splitlines(keepends=True)
        change(lines, chance)
        files[name] = b"".join(lines)

    changed.__name__ = change.__name__
    return changed


def drop_a_line(lines: list[bytes], chance: random.Random) -> None:
    del lines[chance.randrange(len(lines))]


def double_a_line(lines: list[bytes], chance: random.Random) -> None:
    lines.append(chance.choice(lines))


def reorder_lines(lines: list[bytes], chance: random.Random) -> None:
    chance.shuffle(lines)


def retype_a_field(lines: list[bytes], chance: random.Random) -> None:
    number = chance.randrange(len(lines))
    tree = json.loads(lines[number])
    (body,) = tree.values()
    key = chance.choice(sorted(body))
    body[key] = chance.choice([None, 0, -1, "x", "", [], {}, 1.5, True, 2**70, {"a": [1]}])
    lines[number] = json.dumps(tree).encode() + b"\n"


def lose_a_field(lines: list[bytes], chance: random.Random) -> None:
    number = chance.randrange(len(lines))
    tree = json.loads(lines[number])
    (body,) = tree.values()
    del body[chance.choice(sorted(body))]
    lines[number] = json.dumps(tree).encode() + b"\n"


def swap_commits(files: Files, chance: random.Random) -> None:
    one, other = chance.sample(commits(files), 2)
    files[one], files[other] = files[other], files[one]


KINDS: list[Callable[[Files, random.Random], None]] = [
    flip_a_byte, cut, remove_a_file, with_lines(drop_a_line), with_lines(double_a_line),
    with_lines(reorder_lines), with_lines(retype_a_field), with_lines(lose_a_field),
    swap_commits,
]  # fmt: skip


def mutants() -> Iterator[tuple[str, Files]]:
    whole = sound()
    for seed in range(COUNT):
        chance = random.Random(seed)
        kind = KINDS[seed % len(KINDS)]
        files = dict(whole)
        kind(files, chance)
        yield f"{kind.__name__} {seed}", files


def stored(files: Files) -> MemoryStore:
    store = MemoryStore()
    store.now_ms = NOW_MS
    for name, content in files.items():
        store.put(name, content)
    return store


def state_of(files: Files) -> object:
    """What readers see of each version; an error is what they see too."""
    seen: list[object] = []
    for version in range(7):
        try:
            snapshot = load_snapshot(stored(files), LocalEngine, version=version)
            live = sorted(
                str(sorted(body.items()))
                for item in snapshot.files("add", ("path", "size", "stats"))
                for body in (item.columns.to_pylist() if hasattr(item, "columns") else [dict(item)])
            )
            seen.append((
                snapshot.protocol, snapshot.metadata.schema_string,
                tuple(sorted(snapshot.state.txns.items())), len(live),
            ))  # fmt: skip
        except DeltaCliError:
            seen.append("error")
    return seen


def found_in(files: Files) -> set[str]:
    means = Means(LocalEngine, lambda: None, NOW_MS + 60_000)
    result = check_table(stored(files), Request(RULES), means)
    kinds = {Severity.ERROR, Severity.WARNING}
    return {one for one in result.tally.counts if BOOK.by_id[one].severity in kinds}


def test_the_log_is_sound_before_anything_goes_wrong() -> None:
    assert found_in(sound()) == set()


def test_no_mutant_crashes_and_what_changes_the_table_is_found(capsys: Any) -> None:
    before = state_of(sound())
    changed: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for name, files in mutants():
        if not files:
            continue
        found = found_in(files)
        assert "RUN001" not in found, name
        if state_of(files) != before:
            changed[name.split()[0]] += 1
            missed[name.split()[0]] += not found
    share = 1 - missed.total() / changed.total()
    with capsys.disabled():
        print(f"\n{COUNT} mutants: {changed.total()} change the table, {share:.1%} of them found")
        for kind, count in missed.items():
            print(f"  {kind}: {count} of {changed[kind]} missed") if count else None
    assert share > 0.97
