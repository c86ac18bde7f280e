"""Changes of columns, as Paimon makes them (facts 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from deltacli.errors import Refused
from deltacli.paimon import options as option_rules
from deltacli.paimon.casts import Cast, cast_of, changes_rendering, loss_of, type_steps
from deltacli.paimon.change import Situation, State
from deltacli.paimon.defaults import default_problem
from deltacli.paimon.directives import parse_directive
from deltacli.paimon.field_paths import (
    Path,
    Siblings,
    dotted,
    edit_field,
    edit_type,
    in_siblings,
    no_column,
)
from deltacli.paimon.numbering import Numbers
from deltacli.paimon.types import (
    Atomic,
    DataType,
    Field,
    as_nullable,
    holds_blobs,
    is_blank,
    sql_text,
)

_FOR_GOOD = "add a new column, and copy the values with a query"


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


def _taken(path: Path) -> Refused:
    return Refused(f"the column {dotted(path)!r} already exists", hint="choose another name")


def _check_name(name: str) -> None:
    if is_blank(name):
        raise Refused(f"the name {name!r} is blank", hint="choose another name")


@dataclass(frozen=True)
class AddColumn:
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
            fields=in_siblings(state.fields, self.path, put),
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
            raise no_column((move.reference or "",))
        index = names.index(move.reference) + (move.place is Place.AFTER)
    found.insert(index, added)
    return tuple(found)


@dataclass(frozen=True)
class RenameColumn:
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
            if kind is not None and holds_blobs(kind):
                raise Refused(f"cannot rename the BLOB column {name}", hint=_FOR_GOOD)

        _check_name(self.new_name)

        def rename(siblings: Siblings) -> Siblings:
            names = [one.name for one in siblings]
            if name not in names:
                raise no_column(self.path)
            if self.new_name in names:
                raise _taken((*self.path[:-1], self.new_name))
            return tuple(
                replace(one, name=self.new_name) if one.name == name else one for one in siblings
            )

        fields = in_siblings(state.fields, self.path, rename)
        if not top:
            return replace(state, fields=fields)
        keys = tuple(self.new_name if one == name else one for one in state.primary_keys)
        options = option_rules.renamed(state.options, name, self.new_name)
        return replace(state, fields=fields, primary_keys=keys, options=options)


def _check_indexed(state: State, name: str, what: str) -> None:
    options = option_rules.Options(state.options)
    for key in options.index_keys():
        if name in options.trimmed_columns(key):
            raise Refused(
                f"cannot {what} {name}, a column of {key}", hint=f"remove the option {key} first"
            )


@dataclass(frozen=True)
class DropColumn:
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
                root = "BLOB" if holds_blobs(kind) else kind.root
                options = option_rules.without_column(options, name, root)

        def drop(siblings: Siblings) -> Siblings:
            if name not in [one.name for one in siblings]:
                raise no_column(self.path)
            left = tuple(one for one in siblings if one.name != name)
            if not left:
                where = dotted(self.path[:-1]) or "the table"
                raise Refused(f"cannot drop all columns of {where}", hint="keep one of them")
            return left

        fields = in_siblings(state.fields, self.path, drop)
        return replace(state, fields=fields, options=options)


@dataclass(frozen=True)
class UpdateType:
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

        fields, holder = edit_type(state.fields, self.path, retype)
        problem = default_problem(holder.type, holder.default)
        if problem:
            raise Refused(
                f"{dotted(self.path)}: {problem}", hint="change or drop the default first"
            )
        return replace(state, fields=fields)

    def _check_cast(self, at: Situation, old: DataType, new: DataType) -> None:
        place, step = dotted(self.path), f"{sql_text(old)} cannot become {sql_text(new)}"
        if holds_blobs(old) or holds_blobs(new):
            raise Refused(f"{place}: {step}: no BLOB changes its type", hint=_FOR_GOOD)
        cast = cast_of(old, new)
        if cast is None:
            hint = _FOR_GOOD
            if old.root == new.root and not isinstance(old, Atomic):
                name = self.path[-1]
                inner = next(type_steps([Field(0, name, old)], [Field(0, name, new)]), None)
                if inner is not None:
                    hint = f"change what is in it: {dotted((*self.path, *inner.path[1:]))}"
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
class UpdateNullability:
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

        return replace(state, fields=edit_type(state.fields, self.path, change)[0])


@dataclass(frozen=True)
class UpdateColumnComment:
    path: Path
    comment: str | None

    def apply(self, state: State, at: Situation) -> State:
        if parse_directive(self.comment) is not None:
            raise Refused(
                f"the directive {self.comment!r} cannot change a column that is there",
                hint="it is for new columns",
            )
        fields = edit_field(
            state.fields, self.path, lambda one: replace(one, description=self.comment)
        )
        return replace(state, fields=fields)


@dataclass(frozen=True)
class UpdateDefault:
    path: Path
    default: str | None

    def apply(self, state: State, at: Situation) -> State:
        def change(one: Field) -> Field:
            problem = default_problem(one.type, self.default)
            if problem:
                raise Refused(f"{dotted(self.path)}: {problem}", hint="write a value of the type")
            return replace(one, default=self.default)

        return replace(state, fields=edit_field(state.fields, self.path, change))


@dataclass(frozen=True)
class MoveColumn:
    name: str
    move: Move

    def apply(self, state: State, at: Situation) -> State:
        names = [one.name for one in state.fields]
        if self.name not in names:
            raise no_column((self.name,))
        ends = {Place.FIRST: names[0], Place.LAST: names[-1]}
        if self.name == ends.get(self.move.place, self.move.reference):
            raise Refused(f"cannot move {self.name} to where it is", hint="leave the move out")
        others = list(state.fields)
        own = others.pop(names.index(self.name))
        return replace(state, fields=_placed(tuple(others), own, self.move, ()))
