"""Every command says on each storage what it says on this disk, and leaves the same table."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deltacli.storage import LogStore, open_store
from tests.conftest import ROOT, Result
from tests.places import REMOTE, Place, PlaceOf, on_places
from tests.sharing.serving import one_share, serving, shared

Deltacli = Callable[..., Result]

# What depends on the moment, and whether there are folders by themselves.
ASIDE = {
    "lastModified", "modificationTime", "timestamp", "deletionTimestamp", "protectedUntil",
    "txnId", "age", "durationMs", "commitPath", "modifiedAt", "created", "timeMillis", "finishedAt",
    "startedAt", "deleteBefore", "directories", "numDirectories", "numDirectoriesDeleted",
}  # fmt: skip
GARBAGE = ("country=DE/left.parquet", "left over #1?.parquet", "sub/folder/a%20b.parquet")


def upload(source: Path, store: LogStore) -> None:
    files = [path for path in source.rglob("*") if path.is_file()]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda p: store.put(str(p.relative_to(source)), p.read_bytes()), files))


@dataclass(frozen=True)
class Twins:
    """One table here and there, and the commands for each."""

    here: Path
    place: Place
    name: str
    deltacli: Deltacli

    @property
    def there(self) -> str:
        return self.place.url(self.name)

    def both(self, *words: str) -> tuple[Result, Result]:
        """The same command; `T` stands for the table."""
        local = [str(self.here) if word == "T" else word for word in words]
        remote = [self.there if word == "T" else word for word in words]
        return self.deltacli(*local), self.deltacli(*remote, *self.place.flags)

    def agree(self, *words: str, code: int = 0) -> Any:
        """The answer, which is the same; what it says of the place and the moment aside."""
        here, there = self.both(*words, "-q", "-o", "json")
        assert (here.code, there.code) == (code, code), (words, here.stderr, there.stderr)
        ours, theirs = json.loads(here.stdout), json.loads(there.stdout)
        assert self.plain(theirs) == self.plain(ours), words
        return theirs

    def plain(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.plain(one) for one in value]
        if isinstance(value, dict):
            return {
                k: self.plain(v)
                for k, v in value.items()
                if k not in ASIDE and not k.endswith("Ms")
            }
        if isinstance(value, str):
            for place in (self.there, self.here.as_uri(), str(self.here)):
                value = value.replace(place, "T")
        return value


@pytest.fixture(params=["fsspec", *on_places(*REMOTE)])
def place(request: pytest.FixtureRequest, place_of: PlaceOf) -> Place:
    return (
        Place("fsspec", "memory://tables") if request.param == "fsspec" else place_of(request.param)
    )


@pytest.fixture
def twins(place: Place, tmp_path: Path, deltacli: Deltacli) -> Callable[[str], Twins]:
    def make(example: str) -> Twins:
        here = tmp_path / example
        shutil.copytree(ROOT / "examples" / example, here)
        store = place.new()
        upload(here, store)
        return Twins(here, place, store.location.rpartition("/")[2], deltacli)

    return make


READING = (
    ("history", "T"),
    ("history", "T", "--limit", "3", "--chart"),
    ("snapshot", "T"),
    ("snapshot", "T", "--at", "9"),
    ("snapshot", "T", "--at", "2026-03-09"),
    ("snapshot", "T", "--files"),
    ("snapshot", "T", "--tombstones"),
    ("snapshot", "T", "--partitions"),
    ("snapshot", "T", "--diff", "4"),
    ("head", "T", "--where", "country = 'DE' and amount > 860", "--columns", "order_id,amount"),
    ("validate", "T", "--level", "files"),
    ("validate", "T", "--level", "footers"),
    ("checkpoint", "T", "--dry-run"),
    ("vacuum", "T", "--dry-run"),
    ("vacuum", "T", "--explain", "_delta_log/00000000000000000000.json"),
    ("widen-type", "T", "amount", "decimal(12,4)", "--enable", "--dry-run"),
    ("widen-type", "T", "--status"),
)
PAIMON = (
    ("paimon", "list", "T"),
    ("paimon", "show", "T"),
    ("paimon", "show", "T", "--at", "2"),
    ("paimon", "diff", "T", "1", "4"),
    ("paimon", "validate", "T"),
    ("paimon", "alter", "T", "rename points to score", "--dry-run"),
    ("paimon", "expire", "T", "--dry-run"),
    ("validate", "T"),
)


def test_what_is_read_is_the_same(twins: Callable[[str], Twins]) -> None:
    orders, customers = twins("orders"), twins("customers")
    for words in READING:
        orders.agree(*words)
    for words in PAIMON:
        customers.agree(*words)


def test_what_is_changed_is_the_same(twins: Callable[[str], Twins]) -> None:
    orders = twins("orders")
    store = orders.place.store(orders.name)
    for one in (open_store(str(orders.here)), store):
        for name in GARBAGE:
            one.put(name, b"nobody needs this")
    orders.agree("widen-type", "T", "amount", "decimal(12,4)", "--enable", "--yes")
    orders.agree("checkpoint", "T", "--stats", "both", "--cleanup", "--yes")
    # Some servers tell times in whole seconds.
    time.sleep(1.1)
    gone = orders.agree(
        "vacuum", "T", "--retain", "0h", "--allow-short-retention", "--allow-large", "--yes"
    )
    assert gone["numDeleted"] >= len(GARBAGE)
    assert all(store.look(name) is None for name in GARBAGE)
    orders.agree("history", "T", "--fields", "version,operation,readVersion,isBlindAppend")
    orders.agree("snapshot", "T", "--files")
    orders.agree("validate", "T", "--level", "footers", "--fail-on", "error")


def test_a_paimon_table_is_changed_alike(twins: Callable[[str], Twins]) -> None:
    customers = twins("customers")
    customers.agree("paimon", "alter", "T", "rename points to score", "add column n INT", "--yes")
    customers.agree("paimon", "expire", "T", "--older-than", "0s", "--yes")
    customers.agree("paimon", "list", "T")
    customers.agree("paimon", "show", "T")


def test_tables_are_shared_from_there(twins: Callable[[str], Twins]) -> None:
    orders = twins("orders")
    options = dict(orders.place.options)
    tables = [shared("here", orders.here)]
    signs = orders.place.kind in ("s3", "azure")
    for links in ("presign", "proxy") if signs else ("proxy",):
        tables.append(shared(links, orders.there, storage_options=options, links=links))
    with serving(one_share(*tables)) as server:
        profile = server.profile(orders.here.parent / "me.share")
        expected = orders.deltacli("share", "head", f"{profile}#share.schema.here", "-o", "jsonl")
        assert expected.code == 0, expected.stderr
        for name in (one.name for one in tables[1:]):
            told = orders.deltacli("share", "head", f"{profile}#share.schema.{name}", "-o", "jsonl")
            assert (told.code, told.stdout) == (0, expected.stdout), told.stderr


def test_patterns_find_tables(twins: Callable[[str], Twins]) -> None:
    orders = twins("orders")
    pattern = f"{orders.there[:-6]}*"
    told = orders.deltacli("validate", pattern, *orders.place.flags, "-q", "-o", "json")
    assert (told.code, orders.there in told.stdout) == (0, True), told.stderr


def test_what_is_not_there_is_no_table(twins: Callable[[str], Twins]) -> None:
    orders = twins("orders")
    result = orders.deltacli("snapshot", f"{orders.there}/nothing", *orders.place.flags)
    assert result.code == 3
    assert "not a Delta table" in result.stderr


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("s3", "s3://no-such-bucket/t"),
        ("azure", "abfss://no-such-container@devstoreaccount1.dfs.core.windows.net/t"),
        ("gcs", "gs://no-such-bucket/t"),
    ],
)
def test_wrong_buckets_and_options_are_said_as_such(
    deltacli: Deltacli, place_of: PlaceOf, kind: str, wrong: str
) -> None:
    place = place_of(kind)
    flags: Sequence[str] = place.flags
    result = deltacli("snapshot", wrong, *flags)
    assert result.code in (3, 7)
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 2
    result = deltacli("snapshot", place.url("t"), *flags, "--storage-option", "bogus=1")
    assert result.code in (2, 3), result.stderr
