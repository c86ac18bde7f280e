"""Rules by their ids, family by family, and how some of them are chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from types import ModuleType

from deltacli.checking import failed
from deltacli.checking.model import AnyRule, Level, Rule
from deltacli.errors import UsageError

# That a rule failed is told whatever was chosen.
_ALWAYS = "RUN"


class RuleBook:
    """The rules in a number of modules; `families` are the beginnings of their ids, in order."""

    def __init__(self, families: Mapping[str, str], modules: Sequence[ModuleType]):
        self.families = families
        self._modules = modules
        order = {family: position for position, family in enumerate(families)}
        found = {
            one.id: one
            for module in (*modules, failed)
            for one in vars(module).values()
            if isinstance(one, Rule)
        }
        self.rules: tuple[AnyRule, ...] = tuple(
            sorted(found.values(), key=lambda one: (order[one.id[:3]], one.id))
        )

    def __or__(self, other: RuleBook) -> RuleBook:
        """The rules of both, each family once."""
        return RuleBook({**self.families, **other.families}, (*self._modules, *other._modules))

    @cached_property
    def by_id(self) -> Mapping[str, AnyRule]:
        return {one.id: one for one in self.rules}

    def find(self, rule_id: str) -> AnyRule:
        """The rule of an id. Raises UsageError with the nearest one."""
        found = self.by_id.get(rule_id.upper())
        if found is None:
            close = get_close_matches(rule_id.upper(), self.by_id, n=1)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(
                f"there is no rule {rule_id!r}{meant}", hint="see `deltacli validate --list-rules`"
            )
        return found

    def chosen(
        self, level: Level, select: Sequence[str] = (), ignore: Sequence[str] = ()
    ) -> tuple[AnyRule, ...]:
        """The rules of a level and those below it, by the beginnings of their ids.

        Of two beginnings that fit, the longer one counts. Raises UsageError for one that fits
        no rule.
        """
        for prefix in (*select, *ignore):
            self._check_prefix(prefix)

        def is_chosen(one: AnyRule) -> bool:
            if one.id.startswith(_ALWAYS):
                return _longest(ignore, one.id) is None
            wanted = _longest(select, one.id) if select else 0
            unwanted = _longest(ignore, one.id)
            return wanted is not None and (unwanted is None or wanted > unwanted)

        chosen = tuple(one for one in self.rules if is_chosen(one))
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

    def _check_prefix(self, prefix: str) -> None:
        if not prefix or not any(one.startswith(prefix.upper()) for one in self.by_id):
            raise UsageError(
                f"no rule begins with {prefix!r}",
                hint=f"name a rule such as {self.rules[0].id}, or a family such as "
                f"{next(iter(self.families))}; see `deltacli validate --list-rules`",
            )


def _longest(prefixes: Iterable[str], rule_id: str) -> int | None:
    fitting = [len(one) for one in prefixes if rule_id.startswith(one.upper())]
    return max(fitting, default=None)
