"""A rule about rules: one that fails says nothing about the table."""

from __future__ import annotations

from collections.abc import Iterator

from deltacli.checking.model import ERROR, Failure, Finding, rule
from deltacli.errors import DeltaCliError


@rule("RUN001", ERROR, "Every check can be made", of=Failure)
def every_check_can_be_made(failure: Failure) -> Iterator[Finding]:
    """Each rule comes to an end on this table.

    Why: what the rule would have found is not known.
    Fix: mend what other rules found; if nothing else is wrong, report it as a bug.
    """
    error = failure.error
    text = error.message if isinstance(error, DeltaCliError) else f"{type(error).__name__}: {error}"
    reason = text.splitlines()[0] if text else type(error).__name__
    yield Finding(f"{failure.rule_id} could not be decided: {reason}")
