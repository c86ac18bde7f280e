"""What servers say went wrong, in any of their spellings, as errors of ours."""

from __future__ import annotations

import re
from typing import Any

from deltacli.delta import json_text
from deltacli.errors import DeltaCliError, NotFound, Refused, StorageError
from deltacli.sharing.client.http import Reply

_MOST_BYTES = 1 << 16
_MOST_CHARACTERS = 500


def message_of(reply: Reply) -> str:
    """What the body of an error says, in one line; empty if it says nothing."""
    reply.content.seek(0)
    text = reply.content.read(_MOST_BYTES)
    reply.content.seek(0)
    try:
        body: Any = json_text.load(text)
    except ValueError:
        # Proxies answer with pages; their markup tells a person nothing.
        body = None if text.lstrip()[:1] == b"<" else text.decode("utf-8", "replace")
    if isinstance(body, dict):
        code = _first(body, "errorCode", "error_code", "error")
        message = _first(body, "message", "error_description", "details")
        body = f"{code}: {message}" if code and message else message or code
    line = " ".join(body.split()) if isinstance(body, str) else ""
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


def _first(body: dict[str, Any], *names: str) -> str:
    return next((str(body[name]) for name in names if isinstance(body.get(name), str)), "")


# As our server and the reference's say it.
_NO_VERSION = re.compile(
    r"there is no version|no version (?:was|is) .*(?:at or before|that late)"
    r"|[Cc]annot (?:load|time travel).*version|startingVersion.*(?:greater|newer|later)",
)


def failure_of(reply: Reply, asked: str) -> DeltaCliError:
    """An answer that is none as an error. `asked` says of what, such as `table a.b.c`."""
    status, said = reply.status, message_of(reply)
    because = f": {said}" if said else ""
    if status == 401:
        return StorageError(
            f"the server does not accept the credentials of the profile{because}",
            hint="they may have expired or been revoked; ask the provider for a new profile",
        )
    if status == 403:
        return StorageError(
            f"the server denies access to {asked}{because}",
            hint="ask the provider to allow it to this recipient, from this address",
        )
    is_page = "html" in reply.headers.get("content-type", "")
    if (status in (404, 405, 501) and is_page) or "there is nothing here" in said:
        return StorageError(
            f"what answers there is no Delta Sharing server{because}",
            hint="check the endpoint in the profile",
        )
    if status == 404:
        return NotFound(
            f"the server has no {asked} for this recipient{because}",
            hint="`deltacli share tables` lists what there is",
        )
    if 400 <= status < 500 and _NO_VERSION.search(said):
        return NotFound(
            f"the server has not what was asked of {asked}{because}",
            hint="`deltacli share version` tells the newest version",
        )
    if 400 <= status < 500:
        return Refused(
            f"the server refuses what was asked of {asked}{because}",
            hint="ask for something else, or ask the provider why",
        )
    return StorageError(
        f"the server failed with {status} when asked for {asked}{because}",
        hint="try again later; if it stays so, tell the provider",
    )
