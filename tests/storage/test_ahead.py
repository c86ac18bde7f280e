"""A local walk that another process begins: it finds what a walk finds, or says that it failed."""

from __future__ import annotations

import json
import marshal
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltacli.delta.hidden import HiddenNames
from deltacli.delta.paths import HIDDEN_LETTERS, HIDDEN_WORDS
from deltacli.errors import FileMissing, StorageError
from deltacli.storage import Walked, ahead
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, metadata, protocol

SPAWNED = ahead.WalkAhead.__init__


@pytest.fixture
def tree(tmp_path: Path) -> LocalStore:
    """Many files, and everything that a walk has to decide on."""
    root = tmp_path / "t"
    rng = random.Random(5)
    for number in range(3000):
        folder = root / "/".join(rng.choices(["p=1", "p=2", "_p=3", ".h", "metadata", "é b"], k=2))
        folder.mkdir(parents=True, exist_ok=True)
        prefix = rng.choice(["", "", "_", "."])
        (folder / f"{prefix}{number}").write_bytes(b"x" * (number % 7))
    for name in (b"\xff\xfe", b"p=1/\xff"):
        with open(os.fsencode(root) + b"/" + name, "wb"):
            pass
    (root / "empty" / "deep").mkdir(parents=True)
    (root / "p=1" / "_delta_log").mkdir()
    (root / "link").symlink_to(root / "p=1")
    (root / "p=1" / "_link").symlink_to(root / "p=2")
    os.mkfifo(root / "p=2" / "pipe")
    return LocalStore(str(root))


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The processes that were started; none is left in the end."""
    pids: list[int] = []

    def start(self: ahead.WalkAhead, *arguments: object) -> None:
        SPAWNED(self, *arguments)  # type: ignore[arg-type]
        pids.append(self._process)

    monkeypatch.setattr(ahead.WalkAhead, "__init__", start)
    yield pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def seen(store: LocalStore, walked: Iterator[Walked]) -> set[str]:
    """Everything that is told of a walk; what it tells of sizes and times is checked."""
    found: set[str] = set()
    for one in walked:
        below = f"{one.folder}/" if one.folder else ""
        found |= {f"folder {one.folder}", *(f"pin {below}{name}" for name in one.pins)}
        found |= {f"link {below}{name}" for name in one.links}
        paths = [below + name for name in one.names]
        assert not found.intersection(paths), "a file came twice"
        found.update(paths)
        if one.sizes is not None:
            assert one.modified_ms is not None
            told = list(zip(one.sizes, one.modified_ms, strict=True))
            assert told == store.look_at_files(paths)
    return found


@pytest.mark.parametrize("head_start", [0.0, 1.0])
@pytest.mark.parametrize("hides", [HiddenNames(("p=", "_p="), True), HiddenNames((), False)])
def test_a_walk_that_began_early_finds_the_same(
    tree: LocalStore, spawned: list[int], head_start: float, hides: HiddenNames
) -> None:
    expected = seen(tree, tree.walk("", hides))
    with tree.walk_soon(HIDDEN_LETTERS, HIDDEN_WORDS):
        time.sleep(head_start)
        walked = list(tree.walk("", hides))
    assert seen(tree, iter(walked)) == expected
    assert len(spawned) == 1
    if head_start:
        assert sum(len(one.sizes or ()) for one in walked) > 300


def test_the_walk_of_one_folder_does_not_take_the_other(tree: LocalStore) -> None:
    def hides(name: str) -> bool:
        return False

    expected = seen(tree, tree.walk("p=1", hides))
    with tree.walk_soon(HIDDEN_LETTERS, HIDDEN_WORDS):
        assert seen(tree, tree.walk("p=1", hides)) == expected
        assert len(seen(tree, tree.walk("", hides))) > len(expected)


@pytest.mark.parametrize("cut", [0, 3, 9])
def test_a_listing_that_breaks_off_is_an_error(
    tree: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """After a message, within the next one's length, and within its text."""
    message = marshal.dumps(("empty",))
    content = (len(message).to_bytes(8, "little") + message) * 2
    lister = tmp_path / "lister.py"
    lister.write_text(f"import os; os.write(1, {content[: len(content) // 2 + cut]!r})")
    monkeypatch.setattr(ahead, "_LISTER", str(lister))
    with tree.walk_soon(HIDDEN_LETTERS, HIDDEN_WORDS):
        time.sleep(0.5)  # the script knows no signals
        walked = tree.walk("", HiddenNames((), False))
        assert next(walked).folder == "empty"
        with pytest.raises(StorageError, match="ended before it was complete"):
            next(walked)


def test_without_another_process_the_walk_is_made_here(
    tree: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    hides = HiddenNames((), False)
    expected = seen(tree, tree.walk("", hides))
    for executable in ("", "/not/there", "/bin/false"):
        monkeypatch.setattr(sys, "executable", executable)
        with tree.walk_soon(HIDDEN_LETTERS, HIDDEN_WORDS):
            assert seen(tree, tree.walk("", hides)) == expected


def test_a_folder_that_is_not_there_is_told_by_the_walk(tmp_path: Path, spawned: list[int]) -> None:
    store = LocalStore(str(tmp_path / "none"))
    with store.walk_soon(HIDDEN_LETTERS, HIDDEN_WORDS), pytest.raises(FileMissing):
        list(store.walk("", HiddenNames((), False)))


def test_nothing_is_left_when_no_walk_follows(tree: LocalStore, spawned: list[int]) -> None:
    with tree.walk_soon(HIDDEN_LETTERS, HIDDEN_WORDS):
        pass
    assert len(spawned) == 1


def test_a_folder_that_breaks_off_ends_the_listing(
    tree: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of it is told already: telling it again would be telling it twice."""
    lister = tmp_path / "lister.py"
    text = Path(ahead._LISTER).read_text()
    fault = "names, looked = _look_at("
    assert fault in text
    broken = text.replace("_FILES_AT_ONCE = 8_000", "_FILES_AT_ONCE = 40").replace(
        fault, "self.told = getattr(self, 'told', 0) + 1; 1 / (self.told < 3); " + fault
    )
    lister.write_text(broken)
    monkeypatch.setattr(ahead, "_LISTER", str(lister))
    hides = HiddenNames((), False)
    expected = seen(tree, tree.walk("", hides))
    with tree.walk_soon(HIDDEN_LETTERS, HIDDEN_WORDS):
        time.sleep(0.5)
        try:
            found = seen(tree, tree.walk("", hides))
        except StorageError as error:
            assert "ended before it was complete" in error.message  # noqa: PT017
        else:
            assert found == expected


def test_children_that_nobody_waits_for_are_no_error(tree: LocalStore) -> None:
    """A supervisor may hand on that the system itself clears up after children."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with tree.walk_soon(HIDDEN_LETTERS, HIDDEN_WORDS):
            time.sleep(0.5)
            assert len(list(tree.walk("", HiddenNames((), False)))) > 5
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("settings", [{"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONUTF8": "1"}])
def test_names_are_utf8_whatever_the_locale(tmp_path: Path, settings: dict[str, str]) -> None:
    """A live file must not look like another one."""
    name = "p=Österreich/part.parquet"
    table = TableBuilder(LocalStore(str(tmp_path)))
    table.commit(protocol(), metadata(), add(name))
    (tmp_path / name).parent.mkdir()
    for path in (name, "orphan"):
        (tmp_path / path).write_bytes(b"x")
        os.utime(tmp_path / path, (1_600_000_000, 1_600_000_000))
    command = [sys.executable, "-m", "deltacli", "vacuum", tmp_path, "--dry-run", "-o", "json"]
    environment = {**os.environ, "PYTHONCOERCECLOCALE": "0", **settings}
    done = subprocess.run(command, capture_output=True, env=environment, check=True)
    assert [one["path"] for one in json.loads(done.stdout)["files"]] == ["orphan"]


def test_a_python_with_other_names_opens_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "getfilesystemencoding", lambda: "iso8859-1")
    with pytest.raises(StorageError, match="iso8859-1"):
        LocalStore(str(tmp_path))
