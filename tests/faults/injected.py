"""The local storage's operations counted; at one of them it fails, or the process dies."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from deltacli.errors import StorageError
from deltacli.storage.local import LocalStore

_READING = ("read", "open", "stat", "look", "look_at_files")
_LISTING = ("list_from", "walk", "walk_top")
CHANGING = ("put_if_absent", "put", "put_file", "delete", "delete_all", "remove_folder")


class Count:
    """How many operations there were, and which."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._lock = threading.Lock()

    def next(self, name: str) -> int:
        with self._lock:
            self.names.append(name)
            return len(self.names) - 1


@contextlib.contextmanager
def injected(at: int = -1, mode: str = "before", *, kill: bool = False) -> Iterator[Count]:
    """Every LocalStore, with a fault at operation `at`: `before` it, `after` it, or `halfway`."""
    count = Count()

    def fail() -> None:
        if kill:
            os.kill(os.getpid(), signal.SIGKILL)
        raise StorageError("injected failure")

    def wrapped(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(self: LocalStore, *arguments: Any) -> Any:
            # An iterator is one operation: it is read to its end.
            def done() -> Any:
                found = real(self, *arguments)
                return iter(list(found)) if name in _LISTING else found

            if count.next(name) != at:
                return done()
            if mode == "halfway":
                _do_half(self, name, arguments)
            elif mode == "after":
                done()
            return fail()

        return operation

    names = (*_READING, *_LISTING, *CHANGING)
    real = {name: getattr(LocalStore, name) for name in (*names, "file_path")}
    try:
        for name in names:
            setattr(LocalStore, name, wrapped(name, real[name]))
        # Parquet is read through `open`, so that these reads fail as well.
        LocalStore.file_path = lambda self, path: None if path else self.root  # type: ignore[method-assign,assign]
        yield count
    finally:
        for name, one in real.items():
            setattr(LocalStore, name, one)


def _do_half(store: LocalStore, name: str, arguments: Sequence[Any]) -> None:
    if name in ("put", "put_if_absent"):
        path, content = arguments
        with open(store.scratch(path), "wb") as file:
            file.write(content[: len(content) // 2])
    elif name == "delete_all":
        for path in arguments[0][: len(arguments[0]) // 2]:
            os.unlink(os.path.join(store.root, path))


def run_dying(arguments: Sequence[str], at: int, mode: str) -> int:
    """The exit code of a command in a process of its own that dies at an operation."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.faults.injected", "deltacli.cli.app", "pyarrow.parquet"])
    process = context.Process(target=_dying, args=(list(arguments), at, mode))
    process.start()
    process.join(60)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("it hangs")
    return process.exitcode


def _dying(arguments: Sequence[str], at: int, mode: str) -> None:
    from deltacli.cli.app import run

    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    with injected(at, mode, kill=True):
        os._exit(run(list(arguments)))
