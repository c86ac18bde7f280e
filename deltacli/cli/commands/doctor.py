"""`deltacli doctor`."""

from __future__ import annotations

from deltacli.cli.options import CommonOptions

COMMON = ("output", "output_file", "fields", "quiet", "debug", "no_color")
EXAMPLES = (("deltacli doctor", "what to send along with a bug report"),)


def doctor(options: CommonOptions) -> None:
    """Show versions, engines and storage drivers as deltacli sees them.

    Credentials are named, never shown.
    """
    from deltacli.cli.session import Session
    from deltacli.operations.doctor import examine

    session = Session(options)
    session.show(examine())
