"""Changes of a schema, one after the other, as Paimon makes them (facts 4).

A change gives the next state, or raises Refused with the reason. Every step of a path is
checked; the key of a MAP is never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from deltacli.errors import NotFound, Refused
from deltacli.paimon import options as option_rules
from deltacli.paimon.casts import Cast, cast_of, changes_rendering, loss_of, type_steps
from deltacli.paimon.defaults import default_problem
from deltacli.paimon.directives import parse_directive
from deltacli.paimon.numbering import Numbers
from deltacli.paimon.schema_file import NEWEST_VERSION, TableSchema
from deltacli.paimon.types import (
    Array,
    Atomic,
    DataType,
    Field,
    Map,
    Row,
    as_nullable,
    is_blank,
    sql_text,
)

Path = tuple[str, ...]


class Place(StrEnum):
    FIRST = "FIRST"
    LAST = "LAST"
    AFTER = "AFTER"
    BEFORE = "BEFORE"


@dataclass(frozen=True, slots=True)
class Move:
    """Where a column goes; `reference` is the column that it goes before or after."""

    place: Place
    reference: str | None = None


@dataclass(frozen=True)
class State:
    """A schema on its way from one version to the next."""

    fields: tuple[Field, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None


@dataclass
class Situation:
    """What a change has to know besides, and what it has to say."""

    old: TableSchema
    has_snapshots: bool
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def is_set(self, key: str, default: bool) -> bool:
        """A switch of the table, as it was before the batch."""
        return option_rules.is_true(self.old.effective_options, key, default)


@dataclass(frozen=True)
class Change:
    """One change of a batch."""

    def apply(self, state: State, at: Situation) -> State:
        raise NotImplementedError


def dotted(path: Path) -> str:
    return ".".join(path)


def _no_column(path: Path) -> NotFound:
    return NotFound(
        f"there is no column {dotted(path)!r}",
        hint="see `deltacli paimon show TABLE`; a name with a dot stands in backticks",
    )


def _taken(path: Path) -> Refused:
    return Refused(f"the column {dotted(path)!r} already exists", hint="choose another name")


def _check_name(name: str) -> None:
    if is_blank(name):
        raise Refused(f"the name {name!r} is blank", hint="choose another name")


# -- going down a path -------------------------------------------------------------------

Siblings = tuple[Field, ...]


def _in_siblings(fields: Siblings, path: Path, edit: Callable[[Siblings], Siblings]) -> Siblings:
    """The fields, with those among which the last step of a path stands changed."""
    if len(path) == 1:
        return edit(fields)

    def within(kind: DataType) -> DataType:
        if not isinstance(kind, Row):
            raise _no_fields(path, path[-1:], kind)
        return replace(kind, fields=edit(kind.fields))

    return _edit_type(fields, path[:-1], within)[0]


def _through(
    kind: DataType, whole: Path, rest: Path, edit: Callable[[DataType, Path], DataType]
) -> DataType:
    """A type that is no ROW, with the one within that the next step names changed."""
    step, left = rest[0], rest[1:]
    if isinstance(kind, Map) and step == "value":
        return replace(kind, value=edit(kind.value, left))
    if isinstance(kind, Map) and step == "key":
        raise Refused(
            f"{dotted(whole)}: the key of a MAP cannot be changed",
            hint="Paimon would change the value instead; only `value` can be changed",
        )
    if isinstance(kind, Array) and step == "element":
        return replace(kind, element=edit(kind.element, left))
    raise _no_fields(whole, rest, kind)


def _no_fields(whole: Path, rest: Path, kind: DataType) -> NotFound:
    above = whole[: len(whole) - len(rest)]
    within = {"ARRAY": "it has `element`", "MAP": "it has `value`"}.get(kind.root)
    return NotFound(
        f"{dotted(above)} is {sql_text(kind)}: there is no {rest[0]!r} in it",
        hint=within or "only fields of a ROW, elements and values can be named",
    )


def _edit_field(fields: Siblings, path: Path, edit: Callable[[Field], Field]) -> Siblings:
    def one_of(siblings: Siblings) -> Siblings:
        if path[-1] not in [one.name for one in siblings]:
            raise _no_column(path)
        return tuple(edit(one) if one.name == path[-1] else one for one in siblings)

    return _in_siblings(fields, path, one_of)


def _edit_type(
    fields: Siblings, path: Path, edit: Callable[[DataType], DataType]
) -> tuple[Siblings, Field]:
    """The fields with one type in them changed, and the field that it is in by then."""
    holders: list[Field] = []

    def descend(kind: DataType, rest: Path) -> DataType:
        if not rest:
            return edit(kind)
        if isinstance(kind, Row):
            return replace(kind, fields=in_fields(kind.fields, rest))
        return _through(kind, path, rest, descend)

    def in_fields(siblings: Siblings, rest: Path) -> Siblings:
        if rest[0] not in [one.name for one in siblings]:
            raise _no_column(path[: len(path) - len(rest) + 1])
        return tuple(in_field(one, rest[1:]) if one.name == rest[0] else one for one in siblings)

    def in_field(one: Field, rest: Path) -> Field:
        changed = replace(one, type=descend(one.type, rest))
        # The innermost one is done first.
        holders.append(changed)
        return changed

    return in_fields(fields, path), holders[0]


# -- columns -----------------------------------------------------------------------------


@dataclass(frozen=True)
class AddColumn(Change):
    path: Path
    type: DataType
    comment: str | None = None
    move: Move | None = None

    def apply(self, state: State, at: Situation) -> State:
        if not self.type.nullable:
            raise Refused(
                f"the new column {dotted(self.path)} cannot be NOT NULL: old rows have no value",
                hint="leave NOT NULL out",
            )
        kind, comment, options = self.type, self.comment, state.options
        directive = parse_directive(comment)
        if directive is not None:
            if len(self.path) > 1:
                raise Refused(
                    f"the directive {comment!r} cannot be used on a nested column",
                    hint="use it on a column of the table",
                )
            kind, comment = directive.type_of(self.path[0], kind), directive.comment
            options = option_rules.with_column(options, directive.option, self.path[0])
        numbers = Numbers(state.highest_field_id)
        added = numbers.column(Field(0, self.path[-1], kind, comment))
        before = at.is_set(option_rules.BEFORE_PARTITION, False) and len(self.path) == 1
        keys = state.partition_keys if before else ()

        _check_name(added.name)

        def put(siblings: Siblings) -> Siblings:
            names = [one.name for one in siblings]
            if added.name in names:
                raise _taken(self.path)
            return _placed(siblings, added, self.move, keys)

        return replace(
            state,
            fields=_in_siblings(state.fields, self.path, put),
            highest_field_id=numbers.last,
            options=options,
        )


def _placed(
    siblings: Siblings, added: Field, move: Move | None, before: tuple[str, ...]
) -> Siblings:
    found = list(siblings)
    names = [one.name for one in siblings]
    if move is None:
        index = next((at for at, name in enumerate(names) if name in before), len(names))
    elif move.place is Place.FIRST:
        index = 0
    elif move.place is Place.LAST:
        index = len(names)
    else:
        if move.reference not in names:
            raise _no_column((move.reference or "",))
        index = names.index(move.reference) + (move.place is Place.AFTER)
    found.insert(index, added)
    return tuple(found)


@dataclass(frozen=True)
class RenameColumn(Change):
    path: Path
    new_name: str

    def apply(self, state: State, at: Situation) -> State:
        name = self.path[-1]
        top = len(self.path) == 1
        if top and name in state.partition_keys:
            raise Refused(f"cannot rename the partition column {name}", hint=_FOR_GOOD)
        if top:
            _check_indexed(state, name, "rename")
            kind = next((one.type for one in state.fields if one.name == name), None)
            if kind is not None and _is_blob(kind):
                raise Refused(f"cannot rename the BLOB column {name}", hint=_FOR_GOOD)

        _check_name(self.new_name)

        def rename(siblings: Siblings) -> Siblings:
            names = [one.name for one in siblings]
            if name not in names:
                raise _no_column(self.path)
            if self.new_name in names:
                raise _taken((*self.path[:-1], self.new_name))
            return tuple(
                replace(one, name=self.new_name) if one.name == name else one for one in siblings
            )

        fields = _in_siblings(state.fields, self.path, rename)
        if not top:
            return replace(state, fields=fields)
        keys = tuple(self.new_name if one == name else one for one in state.primary_keys)
        options = option_rules.renamed(state.options, name, self.new_name)
        return replace(state, fields=fields, primary_keys=keys, options=options)


_FOR_GOOD = "add a new column, and copy the values with a query"


def _check_indexed(state: State, name: str, what: str) -> None:
    for key in state.options:
        is_index = key.startswith("pk-") and key.endswith(".index.columns")
        if is_index and name in option_rules.Options(state.options).trimmed_columns(key):
            raise Refused(
                f"cannot {what} {name}, a column of {key}", hint=f"remove the option {key} first"
            )


def _is_blob(kind: DataType) -> bool:
    """Whether the values of a column lie in files of their own."""
    inner = kind.element if isinstance(kind, Array) else kind
    inner = kind.value if isinstance(kind, Map) else inner
    return inner.root == "BLOB"


@dataclass(frozen=True)
class DropColumn(Change):
    path: Path

    def apply(self, state: State, at: Situation) -> State:
        name, options = self.path[-1], state.options
        if len(self.path) == 1:
            if name in (*state.partition_keys, *state.primary_keys):
                raise Refused(
                    f"cannot drop {name}, a partition or primary key",
                    hint="keys stay for the life of a table",
                )
            _check_indexed(state, name, "drop")
            kind = next((one.type for one in state.fields if one.name == name), None)
            if kind is not None:
                root = "BLOB" if _is_blob(kind) else kind.root
                options = option_rules.without_column(options, name, root)

        def drop(siblings: Siblings) -> Siblings:
            if name not in [one.name for one in siblings]:
                raise _no_column(self.path)
            left = tuple(one for one in siblings if one.name != name)
            if not left:
                where = dotted(self.path[:-1]) or "the table"
                raise Refused(f"cannot drop all columns of {where}", hint="keep one of them")
            return left

        fields = _in_siblings(state.fields, self.path, drop)
        return replace(state, fields=fields, options=options)


@dataclass(frozen=True)
class UpdateType(Change):
    """Without `keeps_nullability` the new type says itself whether it may be null."""

    path: Path
    type: DataType
    keeps_nullability: bool = True

    def apply(self, state: State, at: Situation) -> State:
        if len(self.path) == 1:
            name = self.path[0]
            if name in state.partition_keys:
                raise Refused(f"cannot change the partition column {name}", hint=_FOR_GOOD)
            if name in state.primary_keys:
                raise Refused(f"cannot change the primary key column {name}", hint=_FOR_GOOD)
            _check_indexed(state, name, "change the type of")

        def retype(old: DataType) -> DataType:
            new = as_nullable(self.type, old.nullable) if self.keeps_nullability else self.type
            if sql_text(old) == sql_text(new):
                at.notes.append(f"{dotted(self.path)} is {sql_text(old)} already")
                return old
            _check_null(at, old.nullable, new.nullable, self.path)
            if sql_text(as_nullable(old)) == sql_text(as_nullable(new)):
                return as_nullable(old, new.nullable)
            self._check_cast(at, old, new)
            return new

        fields, holder = _edit_type(state.fields, self.path, retype)
        problem = default_problem(holder.type, holder.default)
        if problem:
            raise Refused(
                f"{dotted(self.path)}: {problem}", hint="change or drop the default first"
            )
        return replace(state, fields=fields)

    def _check_cast(self, at: Situation, old: DataType, new: DataType) -> None:
        place, step = dotted(self.path), f"{sql_text(old)} cannot become {sql_text(new)}"
        if _is_blob(old) or _is_blob(new):
            raise Refused(f"{place}: {step}: no BLOB changes its type", hint=_FOR_GOOD)
        cast = cast_of(old, new)
        if cast is None:
            hint = _FOR_GOOD
            if old.root == new.root and not isinstance(old, Atomic):
                inner = next(type_steps(old, new, self.path), None)
                hint = f"change what is in it: {inner[0]}" if inner else hint
            if cast_of(old, as_nullable(new)) is not None:
                hint = f"make it nullable: {sql_text(as_nullable(new))} NULL"
            raise Refused(f"{place}: {step}", hint=hint)
        if cast is Cast.EXPLICIT and at.is_set(option_rules.NO_EXPLICIT_CASTS, False):
            raise Refused(
                f"{place}: {step} without losing information, and the table's option "
                f"{option_rules.NO_EXPLICIT_CASTS} is true",
                hint="set it to false first, in a version of its own",
            )
        loss = loss_of(old, new)
        if loss:
            at.losses.append(f"{place}: {sql_text(old)} to {sql_text(new)}: {loss}")
        elif changes_rendering(old, new):
            at.notes.append(f"{place}: values become text as Paimon writes them")


def _check_null(at: Situation, old: bool, new: bool, path: Path) -> None:
    if old and not new and at.is_set(option_rules.NULL_TO_NOT_NULL, True):
        raise Refused(
            f"{dotted(path)} is nullable and cannot become NOT NULL: rows may hold nulls",
            hint=f"set option {option_rules.NULL_TO_NOT_NULL} = false first, in a version of its "
            "own",
        )


@dataclass(frozen=True)
class UpdateNullability(Change):
    path: Path
    nullable: bool

    def apply(self, state: State, at: Situation) -> State:
        if self.nullable and len(self.path) == 1 and self.path[0] in state.primary_keys:
            raise Refused(
                f"cannot make the primary key column {self.path[0]} nullable",
                hint="keys stay NOT NULL",
            )

        def change(old: DataType) -> DataType:
            _check_null(at, old.nullable, self.nullable, self.path)
            return as_nullable(old, self.nullable)

        return replace(state, fields=_edit_type(state.fields, self.path, change)[0])


@dataclass(frozen=True)
class UpdateColumnComment(Change):
    path: Path
    comment: str | None

    def apply(self, state: State, at: Situation) -> State:
        if parse_directive(self.comment) is not None:
            raise Refused(
                f"the directive {self.comment!r} cannot change a column that is there",
                hint="it is for new columns",
            )
        fields = _edit_field(
            state.fields, self.path, lambda one: replace(one, description=self.comment)
        )
        return replace(state, fields=fields)


@dataclass(frozen=True)
class UpdateDefault(Change):
    path: Path
    default: str | None

    def apply(self, state: State, at: Situation) -> State:
        def change(one: Field) -> Field:
            problem = default_problem(one.type, self.default)
            if problem:
                raise Refused(f"{dotted(self.path)}: {problem}", hint="write a value of the type")
            return replace(one, default=self.default)

        return replace(state, fields=_edit_field(state.fields, self.path, change))


@dataclass(frozen=True)
class MoveColumn(Change):
    name: str
    move: Move

    def apply(self, state: State, at: Situation) -> State:
        names = [one.name for one in state.fields]
        if self.name not in names:
            raise _no_column((self.name,))
        index = names.index(self.name)
        if self.move.place is Place.FIRST:
            target = 0
        elif self.move.place is Place.LAST:
            target = len(names) - 1
        elif self.move.reference in names:
            target = names.index(self.move.reference)
        else:
            raise _no_column((self.move.reference or "",))
        if target == index:
            raise Refused(f"cannot move {self.name} to where it is", hint="leave the move out")
        if self.move.place is Place.AFTER and index > target:
            target += 1
        elif self.move.place is Place.BEFORE and index < target:
            target -= 1
        found = list(state.fields)
        found.insert(target, found.pop(index))
        return replace(state, fields=tuple(found))


# -- the table ---------------------------------------------------------------------------


@dataclass(frozen=True)
class SetOption(Change):
    key: str
    value: str

    def apply(self, state: State, at: Situation) -> State:
        old = state.options.get(self.key)
        keys = {"primary-key": state.primary_keys, "partition": state.partition_keys}
        if self.key == "type":
            is_same = self.value.lower() == (old or "table").lower()
        elif old is None and self.key in keys:
            names = tuple(one.strip() for one in self.value.split(",") if one.strip())
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
class RemoveOption(Change):
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
        is_modifiable = option_rules.is_true(options, "deletion-vectors.modifiable", False)
        if not is_modifiable and _is_true(old) != _is_true(new):
            raise refused(
                f"from {str(_is_true(old)).lower()} to {new}",
                "set option deletion-vectors.modifiable = true first, after a full compaction",
            )
    if key in ("ignore-delete", "ignore-update-before") and _is_true(old) and not _is_true(new):
        raise refused("from true to false", "what was ignored is not there any more")
    if key == "clustering.columns" and "pk-clustering-override" in options:
        raise refused("while pk-clustering-override is set", "make the table anew")


def _bucket(text: str | None) -> int | None:
    try:
        return -1 if text is None else int(text)
    except ValueError:
        # That it is no number is told when the result is checked.
        return None


def _is_true(text: str | None) -> bool:
    return (text or "false").lower() == "true"


@dataclass(frozen=True)
class UpdateComment(Change):
    comment: str | None

    def apply(self, state: State, at: Situation) -> State:
        return replace(state, comment=self.comment)


@dataclass(frozen=True)
class DropPrimaryKey(Change):
    def apply(self, state: State, at: Situation) -> State:
        if at.has_snapshots:
            raise Refused(
                "the primary key of a table with data cannot be dropped",
                hint="keys stay for the life of a table",
            )
        return replace(state, primary_keys=())


# -- a batch -----------------------------------------------------------------------------


def next_schema(
    old: TableSchema, changes: list[Change], *, has_snapshots: bool, now_ms: int
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
        lists[key] = tuple(one.strip() for one in options.pop(key).split(",") if one.strip())
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
            one.highest_field_id,
            one.partition_keys,
            one.primary_keys,
            one.effective_options,
            one.comment,
        )

    return said(old) == said(new)
