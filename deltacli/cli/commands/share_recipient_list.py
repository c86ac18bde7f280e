"""`deltacli share recipient list`."""

from __future__ import annotations

from deltacli.cli.options import ALL_COMMON, CommonOptions
from deltacli.cli.session import Session
from deltacli.cli.sharing import ConfigOpt

COMMON = tuple(one for one in ALL_COMMON if one != "storage_option")
EXAMPLES = (("deltacli share recipient list -c shares.yaml", ""),)


def share_recipient_list(options: CommonOptions, config: ConfigOpt) -> None:
    """List the recipients with what was granted to them and when their tokens end.

    Of a token, its last four characters are known.
    """
    from deltacli.operations.share_recipients import list_recipients, open_registry
    from deltacli.sharing.server.config import load_config

    session = Session(options)
    session.show(list_recipients(open_registry(load_config(config), session.now_ms)))
