"""An error as the text that a person or a program reads on stderr."""

from __future__ import annotations

import os

from deltacli.errors import DeltaCliError, Interrupted, StorageError
from deltacli.units import escaped, without_secrets

_MOST = 2000


def failure_text(error: DeltaCliError, *, as_json: bool) -> str:
    """One `error:` line and a `hint:` line, or one JSON object."""
    if as_json:
        from deltacli.delta import json_text

        body = {
            "error": type(error).__name__,
            "message": without_secrets(error.message),
            "hint": without_secrets(error.hint) if error.hint else None,
            "exitCode": error.exit_code,
            "location": _url(error.location or _absolute(error.table)),
        }
        return json_text.dump(body).decode("utf-8", "replace")
    if isinstance(error, Interrupted):
        return escaped(error.message)
    text = f"error: {escaped(_shortened(_with_table(error)))}"
    return f"{text}\nhint: {escaped(_shortened(error.hint))}" if error.hint else text


def _shortened(text: str) -> str:
    """A line that somebody can read, whatever names a table has."""
    text = without_secrets(text)
    return text if len(text) <= _MOST else f"{text[: _MOST // 2]} … {text[-_MOST // 2 :]}"


def _url(place: str | None) -> str | None:
    """A place as results tell it; what is relative to a table stays so."""
    if place and place.startswith("/"):
        return f"file://{place}"
    return without_secrets(place) if place else place


def _absolute(table: str | None) -> str | None:
    if not table or "://" in table or folder_is_gone():
        return table
    return os.path.abspath(table)


def folder_is_gone() -> bool:
    """Whether this process stands in a folder that was deleted."""
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def _with_table(error: DeltaCliError) -> str:
    """The message, and the table where it does not name it: logs hold the errors of many."""
    table = error.table
    if not table:
        return error.message
    named = [_absolute(table), repr(table)]
    if error.location and "://" in error.location:
        named.append(error.location)
    is_named = any(one in error.message for one in named if one)
    return error.message if is_named else f"{error.message} ({table})"


def failure_of(error: BaseException) -> DeltaCliError:
    """Any error as one of ours; what nobody expected is a bug."""
    if isinstance(error, DeltaCliError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return Interrupted("interrupted")
    if isinstance(error, FileNotFoundError) and folder_is_gone():
        return StorageError("the current folder is gone", hint="go to one that exists: cd /")
    if isinstance(error, MemoryError):
        return StorageError(
            "there is not enough memory for this", hint="try --engine spark, or a larger machine"
        )
    bug = DeltaCliError(
        f"{type(error).__name__}: {error}",
        hint="this is a bug in deltacli; --debug shows where. Please report it",
    )
    bug.__cause__ = error
    return bug
