"""Tables of any kind, each checked by the rules for its own."""

from __future__ import annotations

from dataclasses import replace

from deltacli.checking.model import Level
from deltacli.checking.tally import Checked
from deltacli.paimon import book as paimon_rules
from deltacli.paimon.check import check_table as check_paimon
from deltacli.storage import LogStore
from deltacli.storage.patterns import DELTA, bears, is_paimon_table
from deltacli.validate import registry as delta_rules
from deltacli.validate.check import Means, Request
from deltacli.validate.check import check_table as check_delta

BOOK = delta_rules.BOOK | paimon_rules.BOOK
_NO_FILES = "it is a Paimon table: its schemas were checked, its data files were not looked at"

_NEITHER = "nor is it a Paimon table: it has no schema/schema-N"


def check_any_table(store: LogStore, request: Request, means: Means) -> Checked:
    """What is wrong with a table. Of Paimon tables there are rules of the first level only."""
    if is_paimon_table(store):
        checked = check_paimon(
            store,
            [one for one in request.rules if one.id in paimon_rules.BOOK.by_id],
            most=request.most,
            known=request.known,
            tells_each=request.tells_each,
            on_progress=means.on_progress,
        )
        if request.level is Level.LOG:
            return checked
        return replace(checked, notes=(*checked.notes, _NO_FILES))
    if request.level is Level.DATA:
        from deltacli.spark.session import check_installed

        # What is not there is told before anything is read.
        check_installed()
    rules = [one for one in request.rules if one.id in delta_rules.BOOK.by_id]
    checked = check_delta(store, replace(request, rules=rules), means)
    if checked.version is None and not bears(store, DELTA):
        return replace(checked, notes=(*checked.notes, _NEITHER))
    return checked
