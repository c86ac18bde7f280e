"""A table that lives: rows are added, changed, deleted and compacted, and it knows what should be.

Each row has an id of its own. What a stream should have seen is kept for each way to read it.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, column, commit_info, features, metadata, remove
from tests.delta.test_bitmaps import stored

CONFIGURATION = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
COLUMNS = (column("id"), column("word", "string"))
Row = tuple[int, str]


@dataclass
class File:
    """A live file: its rows, the places of deleted ones, and its vector."""

    name: str
    rows: list[Row]
    size: int
    gone: set[int] = field(default_factory=set)
    vector: dict[str, Any] | None = None

    @property
    def live(self) -> list[Row]:
        return [row for place, row in enumerate(self.rows) if place not in self.gone]

    def added(self, *, data_change: bool = True) -> dict[str, Any]:
        more = {"deletionVector": self.vector} if self.vector else {}
        return add(
            self.name, self.size, len(self.rows), dataChange=data_change,
            modificationTime=now_ms(), **more,
        )  # fmt: skip

    def removed(self, *, data_change: bool = True) -> dict[str, Any]:
        more = {"deletionVector": self.vector} if self.vector else {}
        return remove(
            self.name, now_ms(), self.size, dataChange=data_change, partitionValues={}, **more
        )


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class LivingTable:
    """`appended` are the rows of commits that only add; `emitted` those of all files added."""

    def __init__(self, folder: Path, seed: int = 0):
        self.folder = folder
        self.random = random.Random(seed)
        self.files: dict[str, File] = {}
        self.old: list[str] = []
        self.next_id = self.next_file = 0
        self.appended: Counter[Row] = Counter()
        self.emitted: Counter[Row] = Counter()
        folder.mkdir()
        self._log = TableBuilder(LocalStore(str(folder)))
        self._log.commit(
            commit_info("CREATE TABLE"),
            features_with_changes(),
            metadata(*COLUMNS, configuration=CONFIGURATION),
        )

    @property
    def version(self) -> int:
        return self._log.next_version - 1

    @property
    def rows(self) -> Counter[Row]:
        return Counter(row for one in self.files.values() for row in one.live)

    # -- what can happen -----------------------------------------------------------------

    def append(self, files: int = 1) -> None:
        new = [self._new_file(self._new_rows()) for _ in range(files)]
        for one in new:
            self.appended.update(one.rows)
            self.emitted.update(one.rows)
        self._commit("WRITE", *(one.added() for one in new))

    def delete_file(self) -> None:
        one = self._take()
        if one is not None:
            self._commit("DELETE", one.removed())

    def delete_rows(self) -> None:
        """Some rows of a file, by a deletion vector."""
        one = self._take()
        if one is None:
            return
        gone = {place for place in range(len(one.rows)) if self.random.random() < 0.3} | {0}
        new = File(one.name, one.rows, one.size, one.gone | gone)
        new.vector = stored(self.folder, new.gone)
        self.files[new.name] = new
        self.old.remove(one.name)
        self.emitted.update(new.live)
        self._commit("DELETE", one.removed(), new.added())

    def update(self, *, tells: bool) -> None:
        """A file written anew with other words; `tells` writes change data as well."""
        one = self._take()
        if one is None:
            return
        changed = [(number, word + "'") for number, word in one.live]
        new = self._new_file(changed)
        self.emitted.update(changed)
        actions = [one.removed(), new.added()]
        if tells:
            actions.append(self._change_data(one.live, changed))
        self._commit("UPDATE", *actions)

    def compact(self) -> None:
        taken = [one for one in (self._take(), self._take()) if one is not None]
        new = self._new_file([row for one in taken for row in one.live])
        removes = [one.removed(data_change=False) for one in taken]
        self._commit("OPTIMIZE", *removes, new.added(data_change=False))

    def touch(self) -> None:
        """A commit without files."""
        self._commit("SET TBLPROPERTIES", metadata(*COLUMNS, configuration=CONFIGURATION))

    def vacuum(self) -> None:
        """Files that nothing refers to any more go, at once."""
        for name in self.old:
            (self.folder / name).unlink(missing_ok=True)
        self.old = []

    def live(self, steps: int, *happenings: str) -> None:
        for _ in range(steps):
            what = self.random.choice(happenings)
            if what == "append":
                self.append(self.random.randint(1, 3))
            elif what == "update":
                self.update(tells=self.random.random() < 0.5)
            else:
                getattr(self, what)()

    # -- how -----------------------------------------------------------------------------

    def _take(self) -> File | None:
        if not self.files:
            return None
        one = self.files.pop(self.random.choice(sorted(self.files)))
        self.old.append(one.name)
        return one

    def _new_rows(self) -> list[Row]:
        count = self.random.randint(1, 5)
        first, self.next_id = self.next_id, self.next_id + count
        return [(number, f"w{number}") for number in range(first, self.next_id)]

    def _new_file(self, rows: list[Row]) -> File:
        name = f"part-{self.next_file:05}.parquet"
        self.next_file += 1
        one = File(name, rows, self._write(name, rows))
        self.files[name] = one
        return one

    def _write(self, name: str, rows: list[Row], **more: list[str]) -> int:
        columns = {
            "id": pa.array([number for number, _ in rows], pa.int64()),
            "word": pa.array([word for _, word in rows], pa.string()),
            **{key: pa.array(values, pa.string()) for key, values in more.items()},
        }
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), path)
        return path.stat().st_size

    def _change_data(self, before: list[Row], after: list[Row]) -> dict[str, Any]:
        kinds = ["update_preimage"] * len(before) + ["update_postimage"] * len(after)
        name = f"_change_data/cdc-{self.next_file:05}.parquet"
        size = self._write(name, before + after, _change_type=kinds)
        return {"cdc": {"path": name, "partitionValues": {}, "size": size, "dataChange": False}}

    def _commit(self, operation: str, *actions: dict[str, Any]) -> None:
        self._log.commit(commit_info(operation, timestamp=now_ms()), *actions)


def features_with_changes() -> dict[str, Any]:
    """A protocol with deletion vectors and change data."""
    head = features("deletionVectors")
    head["protocol"]["writerFeatures"] = ["changeDataFeed", "deletionVectors"]
    return json.loads(json.dumps(head))  # type: ignore[no-any-return]


def replayed(changes: list[dict[str, Any]]) -> Counter[Row]:
    """The rows that are left after changes."""
    rows: Counter[Row] = Counter()
    for one in changes:
        is_gone = one["_change_type"] in ("delete", "update_preimage")
        rows[one["id"], one["word"]] += -1 if is_gone else 1
    return Counter({row: count for row, count in rows.items() if count})
