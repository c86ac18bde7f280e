"""All rules, in the order of their ids, family by family."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from deltacli.errors import UsageError
from deltacli.validate.model import AnyRule, Level, Rule
from deltacli.validate.rules import (
    actions,
    checkpoints,
    checksums,
    conflicts,
    features_in_use,
    files,
    hint,
    json_lines,
    log,
    mapping,
    metadata,
    partitions,
    protocol,
    stats,
    storage,
    vectors,
    widening,
)

FAMILIES: dict[str, str] = {
    "LOG": "the files of the log",
    "JSN": "the lines of commits",
    "ACT": "actions",
    "CFL": "what must not stand together",
    "PRT": "protocol and features",
    "MET": "schema and properties",
    "CMP": "column mapping",
    "PAR": "partition values",
    "STA": "statistics",
    "CKP": "checkpoints",
    "LCP": "the last checkpoint hint",
    "CRC": "version checksums",
    "DVX": "deletion vectors",
    "DAT": "data files",
    "TYW": "type widening",
    "CDF": "the change data feed",
    "ROW": "row tracking",
    "ICT": "in-commit timestamps",
    "STO": "storage",
    "DOM": "domains",
    "TXN": "transactions",
    "CAT": "catalogs",
    "RUN": "the checks themselves",
}
_MODULES = (
    actions, checkpoints, checksums, conflicts, features_in_use, files, hint, json_lines, log,
    mapping, metadata, partitions, protocol, stats, storage, vectors, widening,
)  # fmt: skip
# That a rule failed is told whatever was chosen.
_ALWAYS = "RUN"
_ORDER = {family: position for position, family in enumerate(FAMILIES)}

RULES: tuple[AnyRule, ...] = tuple(
    sorted(
        (one for module in _MODULES for one in vars(module).values() if isinstance(one, Rule)),
        key=lambda one: (_ORDER[one.id[:3]], one.id),
    )
)
BY_ID = {one.id: one for one in RULES}


def find_rule(rule_id: str) -> AnyRule:
    """The rule of an id. Raises UsageError with the nearest one."""
    found = BY_ID.get(rule_id.upper())
    if found is None:
        close = get_close_matches(rule_id.upper(), BY_ID, n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(
            f"there is no rule {rule_id!r}{meant}", hint="see `deltacli validate --list-rules`"
        )
    return found


def chosen_rules(
    level: Level, select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> tuple[AnyRule, ...]:
    """The rules of a level and those below it, by the beginnings of their ids.

    Of two beginnings that fit, the longer one counts. Raises UsageError for one that fits
    no rule.
    """
    for prefix in (*select, *ignore):
        _check_prefix(prefix)

    def is_chosen(one: AnyRule) -> bool:
        if one.id.startswith(_ALWAYS):
            return _longest(ignore, one.id) is None
        wanted = _longest(select, one.id) if select else 0
        unwanted = _longest(ignore, one.id)
        return wanted is not None and (unwanted is None or wanted > unwanted)

    chosen = tuple(one for one in RULES if is_chosen(one))
    found = tuple(one for one in chosen if one.level <= level)
    if all(one.id.startswith(_ALWAYS) for one in found):
        deeper = [one for one in chosen if one.level > level]
        raise UsageError(
            f"no rule is left at level {level.label}",
            hint=f"{deeper[0].id} needs --level {deeper[0].level.label}"
            if deeper
            else "select more, or ignore less",
        )
    return found


def _longest(prefixes: Iterable[str], rule_id: str) -> int | None:
    fitting = [len(one) for one in prefixes if rule_id.startswith(one.upper())]
    return max(fitting, default=None)


def _check_prefix(prefix: str) -> None:
    if not prefix or not any(one.startswith(prefix.upper()) for one in BY_ID):
        raise UsageError(
            f"no rule begins with {prefix!r}",
            hint="name a rule such as LOG002, or a family such as CKP; "
            "see `deltacli validate --list-rules`",
        )
