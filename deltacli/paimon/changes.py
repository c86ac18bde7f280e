"""A batch of changes, one after the other, as Paimon makes a new version of it (facts 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from deltacli.errors import Refused
from deltacli.paimon import options as option_rules
from deltacli.paimon.change import Change, Situation, State
from deltacli.paimon.schema_file import NEWEST_VERSION, TableSchema
from deltacli.paimon.types import as_nullable


def next_schema(
    old: TableSchema, changes: Sequence[Change], *, has_snapshots: bool, now_ms: int
) -> tuple[TableSchema, Situation]:
    """The version that a batch makes of another, and what there is to say of it.

    Raises Refused or NotFound. Whether the result keeps Paimon's rules is not asked here.
    """
    at = Situation(old, has_snapshots)
    state = State(
        old.fields,
        old.highest_field_id,
        old.partition_keys,
        old.primary_keys,
        old.effective_options,
        old.comment,
    )
    for one in changes:
        state = one.apply(state, at)
    state = _normalized(state)
    return TableSchema(
        version=NEWEST_VERSION,
        id=old.id + 1,
        fields=state.fields,
        highest_field_id=state.highest_field_id,
        partition_keys=state.partition_keys,
        primary_keys=state.primary_keys,
        options=state.options,
        comment=state.comment,
        time_ms=now_ms,
    ), at


def _normalized(state: State) -> State:
    """Keys out of options and into their lists, and key columns as nullable as they may be."""
    options = dict(state.options)
    lists = {"primary-key": state.primary_keys, "partition": state.partition_keys}
    for key, names in lists.items():
        if key not in options:
            continue
        if names:
            raise Refused(
                f"the option {key} is set, and the table has such keys already",
                hint=f"unset option {key}",
            )
        lists[key] = tuple(option_rules.trimmed_names(options.pop(key)))
    keys = lists["primary-key"]
    may_be_null = option_rules.Options(options)["primary-key.nullable"]
    fields = tuple(
        replace(one, type=as_nullable(one.type, may_be_null)) if one.name in keys else one
        for one in state.fields
    )
    return replace(
        state, fields=fields, primary_keys=keys, partition_keys=lists["partition"], options=options
    )


def is_same(old: TableSchema, new: TableSchema) -> bool:
    """Whether two versions say the same of a table."""

    def said(one: TableSchema) -> tuple[Any, ...]:
        return (
            one.fields,
            one.partition_keys,
            one.primary_keys,
            one.effective_options,
            one.comment,
        )

    return said(old) == said(new)
