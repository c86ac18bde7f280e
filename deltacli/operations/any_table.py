"""Tables of any kind, each checked by the rules for its own."""

from __future__ import annotations

from dataclasses import replace

from deltacli.checking.tally import Checked
from deltacli.paimon import book as paimon_rules
from deltacli.paimon.check import check_table as check_paimon
from deltacli.storage import LogStore
from deltacli.storage.patterns import DELTA, PAIMON, bears
from deltacli.validate import registry as delta_rules
from deltacli.validate.check import Means, Request
from deltacli.validate.check import check_table as check_delta

BOOK = delta_rules.BOOK | paimon_rules.BOOK


def check_any_table(store: LogStore, request: Request, means: Means) -> Checked:
    """What is wrong with a table; one with a Delta log is a Delta table."""
    if not bears(store, DELTA) and bears(store, PAIMON):
        return check_paimon(
            store,
            [one for one in request.rules if one.id in paimon_rules.BOOK.by_id],
            level=request.level,
            most=request.most,
            known=request.known,
            on_progress=means.on_progress,
        )
    rules = [one for one in request.rules if one.id in delta_rules.BOOK.by_id]
    return check_delta(store, replace(request, rules=rules), means)
