"""What a table's life depends on, tried out on the storage: exclusive creation, and its clock."""

from __future__ import annotations

import os
from collections.abc import Callable

from deltacli.errors import AlreadyExists, Busy, Refused, StorageError
from deltacli.storage import LogStore
from deltacli.units import human_span

# Clocks of machines differ by so much at most, if they are set at all.
SKEW_MS = 300_000
_PROBE = ".deltacli_probe_"


def prove_put_if_absent(store: LogStore, folder: str = "_delta_log") -> None:
    """Return if the store really refuses to overwrite; raise Refused otherwise (rule ST-11).

    Some backends ignore the request for exclusive creation. Committing through one of
    them would destroy other writers' commits.
    """
    probe = _probe(folder)
    try:
        put_own(store, probe, b"first", lambda found: found == b"first")
    except StorageError as error:
        # It is the folder that cannot be written to.
        error.message = error.message.replace(probe, folder)
        raise
    try:
        store.put_if_absent(probe, b"second")
    except AlreadyExists:
        proven = store.read(probe) == b"first"
    else:
        proven = False
    finally:
        store.delete(probe)
    if not proven:
        raise Refused(
            "this storage overwrites existing files where it was asked not to",
            hint="commits need put-if-absent; use a storage (or a newer driver) that has it",
            location=store.location,
        )


def prove_clock(store: LogStore, folder: str, now_ms: Callable[[], int]) -> None:
    """Raise Refused if this clock is ahead of the storage's: young files would look old."""
    probe = _probe(folder)
    store.put(probe, b"clock")
    try:
        stamp = store.stat(probe).modified_ms
    finally:
        store.delete(probe)
    ahead_ms = now_ms() - stamp if stamp is not None else 0
    if ahead_ms > SKEW_MS:
        raise Refused(
            f"this machine's clock is {human_span(ahead_ms)} ahead of the storage's: files would "
            "be taken for older than they are",
            hint="set the clock",
            location=store.location,
        )


def _probe(folder: str) -> str:
    return f"{folder}/{_PROBE}{os.urandom(16).hex()}"


def put_own(store: LogStore, path: str, content: bytes, is_own: Callable[[bytes], bool]) -> bool:
    """Create a file; whether it is ours now.

    After an unknown outcome the storage is asked (ST-12): `is_own` tells our file from others,
    and may raise ValueError for what is none of either.
    """

    def asked() -> bool | None:
        try:
            return is_own(store.read(path))
        except (StorageError, ValueError):
            return None

    try:
        store.put_if_absent(path, content)
        return True
    except AlreadyExists:
        # It may be our own first attempt, repeated by the driver.
        return asked() is True
    except Busy:
        return False
    except StorageError as failure:
        own = asked()
        if own is None:
            raise failure
        return own
