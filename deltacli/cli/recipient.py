"""What the commands of a recipient have in common: the profile, and how a server is asked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.session import Session
from deltacli.errors import UsageError
from deltacli.units import iso_time, parse_instant

if TYPE_CHECKING:
    from deltacli.sharing.client.address import TableAddress
    from deltacli.sharing.client.server import At, SharingServer

SharedTableArg = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="share.schema.table, or with its profile: me.share#share.schema.table.",
        show_default=False,
    ),
]
# Whoever waits for so long is told why.
_LONG_SECONDS = 1.0


@dataclass(frozen=True)
class Asking:
    """With whose profile a server is asked, and how patiently."""

    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            envvar="DELTACLI_PROFILE",
            metavar="FILE",
            help="The profile that the provider gave: a file, a URL, or - for standard input.",
            show_default=False,
        ),
    ] = None
    allow_http: Annotated[
        bool,
        typer.Option("--allow-http", help="Send the profile's credentials without TLS."),
    ] = False
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="How long to wait for a silent server, and to go on asking one that fails.",
        ),
    ] = "2m"


class ResponseFormat(StrEnum):
    AUTO = "auto"
    PARQUET = "parquet"
    DELTA = "delta"


ResponseFormatOpt = Annotated[
    ResponseFormat,
    typer.Option("--format", help="The response format to ask for; auto lets the server choose."),
]
PageSizeOpt = Annotated[
    int | None,
    typer.Option(
        "--page-size",
        metavar="N",
        min=1,
        max=2**31 - 1,
        help="Ask for the files in pages of so many.",
        show_default=False,
    ),
]
SharedAtOpt = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="V|TIME",
        help="A version (42), a time (2026-01-31, 2026-01-31T10:00+01:00) or an age "
        "(3 days ago, 12h, yesterday), where history is shared.",
        show_default=False,
    ),
]
WhereOpt = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help="Only rows for which this is true; the server is told what it can use of it.",
        show_default=False,
    ),
]


def open_server(
    session: Session,
    asking: Asking,
    address: str,
    response_format: ResponseFormat = ResponseFormat.AUTO,
    page_size: int | None = None,
) -> tuple[SharingServer, str]:
    """The server of a profile, and the name in an address, whose own profile comes first.

    What is to be said of the profile is said.
    """
    from deltacli.sharing.client.address import split_address
    from deltacli.sharing.client.http import Http, parse_patience
    from deltacli.sharing.client.server import BOTH, SharingServer
    from deltacli.sharing.profile import load_profile, profile_warnings

    own, name = split_address(address)
    profile = own or asking.profile
    if not profile:
        raise UsageError(
            "no profile is named",
            hint="--profile FILE, DELTACLI_PROFILE, or FILE#share.schema.table",
        )
    patience = parse_patience(asking.timeout)
    loaded = load_profile(profile, session.storage_options, allow_http=asking.allow_http)
    session.warn(profile_warnings(loaded, profile, session.now_ms))
    session.explain(f"the server is at {loaded.endpoint}")

    def on_wait(message: str, seconds: float) -> None:
        (session.note if seconds >= _LONG_SECONDS else session.explain)(message)

    formats = BOTH if response_format is ResponseFormat.AUTO else (response_format.value,)
    http = Http(patience, on_wait=on_wait)
    return SharingServer(loaded, http, formats=formats, page_size=page_size), name


def open_table(
    session: Session,
    asking: Asking,
    address: str,
    response_format: ResponseFormat = ResponseFormat.AUTO,
    page_size: int | None = None,
) -> tuple[SharingServer, TableAddress]:
    """The same for the address of a table."""
    from deltacli.sharing.client.address import parse_table, split_address

    table = parse_table(split_address(address)[1])
    server, _ = open_server(session, asking, address, response_format, page_size)
    return server, table


def shared_at(session: Session, text: str | None, option: str = "--at") -> At:
    """A version or a time as a server takes it."""
    from deltacli.sharing.client.server import NEWEST, At

    if text is None:
        return NEWEST
    if re.fullmatch(r"v?[0-9]{1,19}", text):
        version = int(text.removeprefix("v"))
        if version >= 2**63:
            raise UsageError(f"{option} {text} is no version", hint="versions have 63 bits")
        return At(version=version)
    instant = parse_instant(text, zone=session.zone, now_ms=session.now_ms)
    return At(timestamp=iso_time(instant))
