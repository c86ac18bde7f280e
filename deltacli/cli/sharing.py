"""What the commands of `share` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.session import Session
from deltacli.errors import UsageError
from deltacli.units import parse_duration

if TYPE_CHECKING:
    from deltacli.sharing.profile import Profile

CONFIG_VARIABLE = "DELTACLI_SHARE_CONFIG"
ConfigOpt = Annotated[
    str,
    typer.Option(
        "-c",
        "--config",
        envvar=CONFIG_VARIABLE,
        metavar="FILE",
        help="The server's YAML.",
        show_default=False,
    ),
]
ProfileOutOpt = Annotated[
    str | None,
    typer.Option(
        "--profile-out",
        metavar="FILE",
        help="Write the profile there, readable by you only, instead of showing it. Only a "
        "profile is replaced.",
        show_default=False,
    ),
]
ExpiresOpt = Annotated[
    str,
    typer.Option(
        "--expires", metavar="DURATION", help="How long the token is good: 90d, 12h, or never."
    ),
]
RecipientArg = Annotated[
    str, typer.Argument(metavar="NAME", help="The recipient.", show_default=False)
]
DEFAULT_EXPIRY = "90d"
_MOST_MS = 100 * 365 * 86_400_000


def expiry(text: str, now_ms: int) -> int | None:
    """When a new token ends; None for never."""
    if text.strip().lower() == "never":
        return None
    try:
        duration_ms = parse_duration(text)
    except UsageError as error:
        raise UsageError(error.message, hint="write it as 90d, 12h or never") from None
    if not 1000 <= duration_ms <= _MOST_MS:
        raise UsageError(
            "--expires is between a second and a hundred years",
            hint="write it as 90d, 12h or never",
        )
    return now_ms + duration_ms


def give(session: Session, profile: Profile, path: str | None) -> None:
    """Write a profile to its file, or show it."""
    from deltacli.sharing.profile import write_private

    if path is None:
        session.show_text(profile.text)
        return
    write_private(path, profile.text)
    session.note(f"the profile is in {path}; its token is not shown again")
