"""Changes of what is not a column: options, the comment, the primary key (facts 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deltacli.errors import Refused
from deltacli.paimon import options as option_rules
from deltacli.paimon.change import Situation, State
from deltacli.paimon.options import is_true


@dataclass(frozen=True)
class SetOption:
    key: str
    value: str

    def apply(self, state: State, at: Situation) -> State:
        old = state.options.get(self.key)
        keys = {"primary-key": state.primary_keys, "partition": state.partition_keys}
        if self.key == "type":
            is_same = self.value.lower() == (old or "table").lower()
        elif old is None and self.key in keys:
            names = tuple(option_rules.trimmed_names(self.value))
            is_same = names == keys[self.key]
        else:
            is_same = old == self.value
        if is_same:
            at.notes.append(f"{self.key} is {self.value} already")
            return state
        _check_key(self.key)
        if at.has_snapshots:
            _check_option(at.old.effective_options, self.key, self.value)
        if self.key == "file.format":
            at.notes.append("files that are there keep their format")
        if self.key == "bucket" and at.has_snapshots:
            at.notes.append("data that is there has to be rewritten for the new number of buckets")
        return replace(state, options={**state.options, self.key: self.value})


@dataclass(frozen=True)
class RemoveOption:
    key: str

    def apply(self, state: State, at: Situation) -> State:
        _check_key(self.key)
        if self.key not in state.options:
            at.notes.append(f"{self.key} is not set")
        if at.has_snapshots:
            if self.key == "bucket":
                raise Refused("the option bucket cannot be removed", hint="set another number")
            default = "false" if self.key == "deletion-vectors.enabled" else None
            _check_option(at.old.effective_options, self.key, default)
        left = {key: value for key, value in state.options.items() if key != self.key}
        return replace(state, options=left)


def _check_key(key: str) -> None:
    if key in ("type", "path"):
        raise Refused(
            f"the option {key} cannot be changed", hint="it belongs to the catalog, not the schema"
        )


def _check_option(options: Mapping[str, str], key: str, new: str | None) -> None:
    """What may not change once there is data; `options` are those before the batch.

    Raises Refused.
    """
    old = options.get(key)

    def refused(reason: str, hint: str) -> Refused:
        return Refused(f"the option {key} cannot be changed {reason}", hint=hint)

    if key in option_rules.IMMUTABLE:
        raise refused("once there is data", "make the table anew with the other value")
    if new is None and key not in ("clustering.columns", "sink.clustering.by-columns"):
        return
    if key == "bucket" and -1 in (_bucket(old), _bucket(new)):
        raise refused(f"from {_bucket(old)} to {new}", "make the table anew with the other value")
    if key == "deletion-vectors.enabled":
        is_modifiable = is_true(options.get("deletion-vectors.modifiable"))
        if not is_modifiable and is_true(old) != is_true(new):
            raise refused(
                f"from {str(is_true(old)).lower()} to {new}",
                "set option deletion-vectors.modifiable = true first, after a full compaction",
            )
    if key in ("ignore-delete", "ignore-update-before") and is_true(old) and not is_true(new):
        raise refused("from true to false", "what was ignored is not there any more")
    if key == "clustering.columns" and "pk-clustering-override" in options:
        raise refused("while pk-clustering-override is set", "make the table anew")


def _bucket(text: str | None) -> int | None:
    try:
        return -1 if text is None else int(text)
    except ValueError:
        # That it is no number is told when the result is checked.
        return None


@dataclass(frozen=True)
class UpdateComment:
    comment: str | None

    def apply(self, state: State, at: Situation) -> State:
        return replace(state, comment=self.comment)


@dataclass(frozen=True)
class DropPrimaryKey:
    def apply(self, state: State, at: Situation) -> State:
        if at.has_snapshots:
            raise Refused(
                "the primary key of a table with data cannot be dropped",
                hint="keys stay for the life of a table",
            )
        return replace(state, primary_keys=())
