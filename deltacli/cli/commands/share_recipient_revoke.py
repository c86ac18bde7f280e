"""`deltacli share recipient revoke`."""

from __future__ import annotations

from deltacli.cli.options import ALL_COMMON, CommonOptions
from deltacli.cli.session import Session
from deltacli.cli.sharing import ConfigOpt, RecipientArg

COMMON = tuple(one for one in ALL_COMMON if one != "storage_option")
EXAMPLES = (("deltacli share recipient revoke acme -c shares.yaml", "at once"),)


def share_recipient_revoke(options: CommonOptions, name: RecipientArg, config: ConfigOpt) -> None:
    """Make all tokens of a recipient void.

    A running server refuses them at once, and its own file URLs with them; URLs that an
    object store signed go on until they expire. What was granted is kept: rotate lets the
    recipient in again.
    """
    from deltacli.operations.share_recipients import open_registry, revoke_recipient
    from deltacli.sharing.server.config import load_config

    session = Session(options)
    registry = open_registry(load_config(config), session.now_ms)
    session.show_done(revoke_recipient(registry, name))
