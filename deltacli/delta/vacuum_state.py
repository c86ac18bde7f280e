"""`_last_vacuum_info`: how far the log has been vacuumed, for LITE (V-40, V-42)."""

from __future__ import annotations

from deltacli.delta import json_text
from deltacli.delta.paths import LOG
from deltacli.errors import FileMissing
from deltacli.storage import LogStore

_PATH = f"{LOG}/_last_vacuum_info"
_KEY = "latestCommitVersionOutsideOfRetentionWindow"


def read_vacuum_state(store: LogStore, newest: int) -> int | None:
    """The version up to which all removed files are gone; None if that is not known.

    A version that the table, at `newest`, does not have is no knowledge.
    """
    try:
        body = json_text.load(store.read(_PATH))
    except (FileMissing, ValueError):
        return None
    version = body.get(_KEY) if isinstance(body, dict) else None
    return version if type(version) is int and 0 <= version <= newest else None


def write_vacuum_state(store: LogStore, version: int) -> None:
    store.put(_PATH, json_text.dump({_KEY: version}))
