"""The blob-store contract of the first Delta paper, proven for each store:

atomic visibility, mutual exclusion on creation, consistent listing from a key.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from deltacli.errors import AlreadyExists, FileMissing
from deltacli.storage import LogStore, open_store, read_all
from deltacli.storage.memory import MemoryStore
from deltacli.storage.proofs import prove_put_if_absent
from tests.places import KINDS, REMOTE, Place, PlaceOf, on_places


@pytest.fixture(params=["memory", "fsspec", *on_places(*KINDS)])
def store(request: pytest.FixtureRequest, place_of: PlaceOf) -> LogStore:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "fsspec":
        return open_store(f"memory://{uuid.uuid4().hex}")
    return place_of(request.param).new()


def names(store: LogStore, folder: str, start: str = "") -> list[str]:
    return [entry.name for entry in store.list_from(folder, start)]


def test_what_was_put_is_read_and_listed_at_once(store: LogStore) -> None:
    store.put_if_absent("_delta_log/b", b"two")
    store.put("_delta_log/a", b"one")
    assert store.read("_delta_log/a") == b"one"
    assert store.read("_delta_log/b") == b"two"
    assert names(store, "_delta_log") == ["a", "b"]
    entry = store.stat("_delta_log/b")
    assert (entry.name, entry.size, entry.is_folder) == ("b", 3, False)
    with store.open("_delta_log/b") as file:
        file.seek(1)
        assert file.read() == b"wo"


def test_put_if_absent_never_overwrites(store: LogStore) -> None:
    store.put_if_absent("_delta_log/x", b"first")
    with pytest.raises(AlreadyExists):
        store.put_if_absent("_delta_log/x", b"second")
    assert store.read("_delta_log/x") == b"first"
    store.put("_delta_log/x", b"third")
    assert store.read("_delta_log/x") == b"third"


def test_listing_begins_at_a_key_in_name_order(store: LogStore) -> None:
    wanted = [f"{version:020}.json" for version in (0, 1, 9, 10, 100)]
    others = ["_last_checkpoint", f"{9:020}.checkpoint.parquet", f"{9:020}.crc"]
    for name in [*reversed(wanted), *others]:
        store.put(f"_delta_log/{name}", b"{}")
    store.put("_delta_log/_sidecars/s.parquet", b"")
    everything = sorted([*wanted, *others, "_sidecars"], key=str.encode)
    assert names(store, "_delta_log") == everything
    for start in (*everything, f"{9:020}", f"{9:020}.", "zzz"):
        expected = [name for name in everything if name.encode() >= start.encode()]
        assert names(store, "_delta_log", start) == expected


def test_folders_are_told_from_files(store: LogStore) -> None:
    store.put("_delta_log/_sidecars/s.parquet", b"abc")
    store.put("_delta_log/file", b"abc")
    kinds = {entry.name: entry.is_folder for entry in store.list_from("_delta_log")}
    assert kinds == {"_sidecars": True, "file": False}


def test_what_is_not_there_is_missing(store: LogStore) -> None:
    store.put("_delta_log/x", b"1")
    for action in (store.read, store.stat, lambda path: store.open(path).read()):
        with pytest.raises(FileMissing):
            action("_delta_log/nothing")
    with pytest.raises(FileMissing):
        names(store, "no_such_folder")


def test_deleting_twice_is_success(store: LogStore) -> None:
    store.put("_delta_log/x", b"1")
    store.put("_delta_log/y", b"1")
    store.delete("_delta_log/x")
    store.delete("_delta_log/x")
    assert names(store, "_delta_log") == ["y"]


def test_times_are_milliseconds_of_now(store: LogStore) -> None:
    if isinstance(store, MemoryStore):
        store.now_ms = time.time_ns() // 1_000_000
    before = time.time() * 1000
    store.put("_delta_log/x", b"1")
    (entry,) = store.list_from("_delta_log")
    assert entry.modified_ms is not None
    assert abs(entry.modified_ms - before) < 60_000


def test_the_probe_accepts_a_store_that_keeps_the_contract(store: LogStore) -> None:
    store.put("_delta_log/x", b"1")
    prove_put_if_absent(store)
    assert names(store, "_delta_log") == ["x"]


def test_many_files_are_read_in_order_with_errors_in_place(store: LogStore) -> None:
    numbers = [number for number in range(40) if number != 7]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: store.put(f"_delta_log/{n}", str(n).encode()), numbers))
    paths = [f"_delta_log/{number}" for number in range(40)]
    found = dict(read_all(store, paths))
    assert isinstance(found.pop("_delta_log/7"), FileMissing)
    assert found == {f"_delta_log/{n}": str(n).encode() for n in range(40) if n != 7}
    assert [path for path, _ in read_all(store, paths, reverse=True)] == paths[::-1]


def test_threads_that_create_one_file_have_one_winner(store: LogStore) -> None:
    winners: list[int] = []
    barrier = threading.Barrier(8)

    def race(number: int) -> None:
        barrier.wait()
        try:
            store.put_if_absent("_delta_log/commit", str(number).encode() * 1000)
        except AlreadyExists:
            return
        winners.append(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    assert store.read("_delta_log/commit") == str(winners[0]).encode() * 1000


def _append(place: Place, table: str, number: int, count: int) -> None:
    """Create `count` numbered files, taking the next free number each time."""
    store = place.store(table)
    version = 0
    for mine in range(count):
        while True:
            try:
                store.put_if_absent(f"_delta_log/{version:020}.json", f"{number}:{mine}".encode())
                break
            except AlreadyExists:
                version += 1
    os._exit(0)


@pytest.mark.parametrize("kind", on_places(*KINDS))
def test_racing_processes_leave_each_of_their_files_once(kind: str, place_of: PlaceOf) -> None:
    count, processes = (50, 4) if kind == "local" else (8, 3)
    place, table = place_of(kind), uuid.uuid4().hex
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_append, args=(place, table, number, count))
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    store = place.store(table)
    found = names(store, "_delta_log")
    assert found == [f"{version:020}.json" for version in range(count * processes)]
    contents = sorted(store.read(f"_delta_log/{name}").decode() for name in found)
    assert contents == sorted(f"{n}:{mine}" for n in range(processes) for mine in range(count))


def walked(store: LogStore, folder: str = "") -> dict[str, int]:
    """Every file that a walk finds, with its size."""
    found = {}
    for one in store.walk(folder, lambda name: name.startswith("_")):
        prefix = f"{one.folder}/" if one.folder else ""
        paths = [prefix + name for name in one.names]
        sizes = one.sizes or [found[0] for found in store.look_at_files(paths) if found]
        assert not set(found) & set(paths), "a file came twice"
        found |= dict(zip(paths, sizes, strict=True))
    return found


NAMES = ["a", "p=1/x", "p=1/y/z", "p=1/_h/no", "p=a b%20/é+#?", "_h/no", "q/_no", "Z/a", "p=1_"]


def test_a_walk_finds_every_file_once_and_passes_hidden_ones_over(store: LogStore) -> None:
    for number, name in enumerate(NAMES):
        store.put(name, b"x" * number)
    visible = {n: i for i, n in enumerate(NAMES) if "/_" not in f"/{n}"}
    assert walked(store) == visible
    below = {name: size for name, size in visible.items() if name.startswith("p=1/")}
    assert walked(store, "p=1") == below
    pins = {(one.folder, pin) for one in store.walk("", lambda n: n[0] == "_") for pin in one.pins}
    assert pins == {("", "_h"), ("p=1", "_h"), ("q", "_no")}


def test_names_are_taken_as_they_are(store: LogStore) -> None:
    names = ["x", "x?", "x#", "x?versionid=1", "x#y?z", "x%3F", "d/y?z#"]
    for name in names:
        store.put(name, name.encode())
    for name in names:
        assert store.read(name) == name.encode()
        assert store.stat(name).size == len(name)
        with store.open(name) as file:
            assert file.read() == name.encode()
    store.delete("x?")
    assert store.delete_all(["x?versionid=1", "x#"]) == []
    assert set(walked(store)) == {"x", "x#y?z", "x%3F", "d/y?z#"}


def test_the_folders_below_come_with_a_folders_own_files(store: LogStore) -> None:
    for name in NAMES:
        store.put(name, b"x")
    below: list[str] = []
    found = [
        f"{one.folder}/{name}" if one.folder else name
        for one in store.walk_top("", lambda name: name.startswith("_"), below)
        for name in one.names
    ]
    assert (sorted(found), sorted(below)) == (["a", "p=1_"], ["Z", "p=1", "p=a b%20", "q"])
    deeper: list[str] = []
    inner = list(store.walk_top("p=1", lambda name: name.startswith("_"), deeper))
    assert [name for one in inner for name in one.names] == ["x"]
    assert deeper == ["p=1/y"]


def test_a_store_travels_to_other_machines(store: LogStore) -> None:
    if isinstance(store, MemoryStore):
        pytest.skip("it is one process's own")
    store.put("a/b", b"content")
    other = pickle.loads(pickle.dumps(store))
    assert (other.location, other.read("a/b")) == (store.location, b"content")


def test_a_walk_ages_files_by_the_storage(store: LogStore) -> None:
    if isinstance(store, MemoryStore):
        store.now_ms = int(time.time() * 1000)
    store.put("p/f", b"x")
    for one in store.walk("", lambda name: False):
        if one.names:
            stamps = one.modified_ms or [f[1] for f in store.look_at_files(["p/f"]) if f]
            assert stamps[0] is not None
            assert abs(stamps[0] - time.time() * 1000) < 60_000


def test_many_files_are_deleted_and_missing_ones_are_no_failure(store: LogStore) -> None:
    for name in NAMES:
        store.put(name, b"x")
    assert store.delete_all([*NAMES[:5], "never/there"]) == []
    kept = {name for name in NAMES[5:] if "/_" not in f"/{name}"}
    assert set(walked(store)) == kept
    assert store.look(NAMES[0]) is None
    assert store.look(NAMES[5]) is not None


@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_listing_and_deleting_take_more_than_a_page(kind: str, place_of: PlaceOf) -> None:
    store = place_of(kind).new()
    names = [f"{'p=1/' if number % 2 else ''}{number}" for number in range(2300)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: store.put(name, b"x"), names))
    assert set(walked(store)) == set(names)
    assert store.delete_all(names[1:]) == []
    assert set(walked(store)) == {names[0]}


@pytest.mark.parametrize("kind", ["s3", "gcs", "azure"])
def test_folder_markers_are_no_files(kind: str, place_of: PlaceOf) -> None:
    """V-30."""
    store = place_of(kind).new()
    store.put("p/f", b"x")
    for marker in ("p/", "empty/"):
        store.put(marker, b"")
    assert walked(store) == {"p/f": 1}
    assert {one.name for one in store.list_from("")} == {"p", "empty"}
    assert [one.name for one in store.list_from("p")] == ["f"]


@pytest.mark.parametrize("kind", on_places(*REMOTE))
def test_a_neighbour_with_a_longer_name_is_not_listed(kind: str, place_of: PlaceOf) -> None:
    place, name = place_of(kind), uuid.uuid4().hex
    store, neighbour = place.store(name), place.store(f"{name}2")
    for one in (store, neighbour):
        one.put("_delta_log/a", b"x")
        one.put("p=1/f", b"x")
    neighbour.put("top", b"x")
    assert names(store, "") == ["_delta_log", "p=1"]
    assert names(store, "_delta_log") == ["a"]
    assert set(walked(store)) == {"p=1/f"}
