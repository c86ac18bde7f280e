"""A client for tests: one that gives up soon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deltacli.delta.scan import Files
from deltacli.local.scan import read_rows
from deltacli.sharing.client.address import TableAddress, parse_table
from deltacli.sharing.client.http import Http, Patience
from deltacli.sharing.client.server import BOTH, SharingServer
from deltacli.sharing.profile import Bearer, Profile
from tests.sharing.serving import Server

SOON = Patience(silence_s=5.0, again_s=2.0)


def client(server: Server | str, formats: Sequence[str] = BOTH, **more: Any) -> SharingServer:
    """Of a server of ours, or of any URL."""
    url = server if isinstance(server, str) else server.url
    token = "token" if isinstance(server, str) else server.token
    return SharingServer(Profile(url, Bearer(token)), Http(SOON), formats=formats, **more)


def table(name: str) -> TableAddress:
    return parse_table(name if "." in name else f"share.schema.{name}")


def rows_of(version: Any, columns: Any = None) -> list[dict[str, Any]]:
    """All rows of a version, shared or not."""
    files = Files(version)
    found = []
    for batch in read_rows(files, files.live(), columns or files.schema):
        found += batch.to_pylist()
    return found
