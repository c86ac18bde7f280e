"""Profile files: what a recipient is given to reach a server (seed: Profile File Format)."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from deltacli.delta import json_text
from deltacli.errors import StorageError, UsageError
from deltacli.units import iso_time


@dataclass(frozen=True, slots=True)
class Profile:
    endpoint: str
    bearer_token: str
    expires_ms: int | None = None

    @property
    def text(self) -> str:
        """The file's content: version 1, which every client reads."""
        body: dict[str, str | int] = {
            "shareCredentialsVersion": 1,
            "endpoint": self.endpoint,
            "bearerToken": self.bearer_token,
        }
        if self.expires_ms is not None:
            body["expirationTime"] = iso_time(self.expires_ms) or ""
        return json_text.dump(body, indent=True).decode() + "\n"


def check_place(path: str, *, may_replace: bool) -> None:
    """Raise what would go wrong with writing a profile there."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if os.path.isdir(target) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise StorageError(
            f"cannot write {path}", hint="check the place and its permissions", location=path
        )
    if os.path.exists(target) and not (may_replace and _is_profile(target)):
        raise UsageError(f"{path} exists already", hint="name another file, or remove it")


def _is_profile(path: str) -> bool:
    """Whether a file may be replaced by a newer profile: it is one."""
    try:
        with open(path, "rb") as file:
            body = json_text.load(file.read(65_536))
    except (OSError, ValueError):
        return False
    return isinstance(body, dict) and "shareCredentialsVersion" in body


def write_private(path: str, content: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    target = os.path.realpath(path)
    temporary = f"{target}.{os.urandom(8).hex()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise StorageError(
            f"cannot write {path}: {error.strerror}",
            hint="check the place and the space there",
            location=path,
        ) from error
