"""Statistics of files: what they say, and whether it is true (ST-1 … ST-9)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from operator import gt
from typing import Any

from deltacli.checking.model import DATA, ERROR, FOOTERS, WARNING, Finding, rule
from deltacli.delta.schema import DataType, Primitive, Struct
from deltacli.delta.stats_schema import has_min_max
from deltacli.validate.adds import STATISTICS, Adds, LiveAdds
from deltacli.validate.data_files import DataFile
from deltacli.validate.definition import Path, dotted
from deltacli.validate.rows import FileRows

_CUT = 32


@rule("STA001", ERROR, "Files with deletion vectors count their rows", of=Adds)
def files_with_vectors_count_their_rows(adds: Adds) -> Iterator[Finding]:
    """A file with a deletion vector has numRecords in its statistics.

    Why: without it nobody knows how many rows are left.
    Fix: rewrite the file, or compute its statistics anew with an engine.
    """
    for n, _ in adds.vectors:
        if adds.records[n] is None:
            yield adds.finding(n, "a deletion vector without numRecords")


@rule("STA002", WARNING, "Files count their rows", of=Adds)
def files_count_their_rows(adds: Adds) -> Iterator[Finding]:
    """A file has numRecords in its statistics.

    Why: without it files cannot be skipped, and counts need the files themselves.
    Fix: compute the statistics anew with an engine.
    """
    if adds.are_changes:
        return
    if None not in adds.records:
        return
    having = {n for n, _ in adds.vectors}
    without = [n for n, one in enumerate(adds.records) if one is None and n not in having]
    yield from adds.findings(without, "no numRecords")


@rule("STA003", ERROR, "Counts are possible", of=Adds)
def counts_are_possible(adds: Adds) -> Iterator[Finding]:
    """numRecords and nullCount are whole numbers from 0 on, and no nullCount exceeds numRecords.

    Why: readers that skip files, or answer from statistics, give wrong answers.
    Fix: compute the statistics anew with an engine.
    """
    records = adds.records
    are_sound = _are_counts(records)
    if not are_sound:
        for n, one in enumerate(records):
            if one is not None and (type(one) is not int or one < 0):
                yield adds.finding(n, f"numRecords is {one!r}")
    for leaf in adds.leaves:
        # Nearly always nothing is odd, which is quickly told.
        if are_sound and _are_counts(leaf.nulls) and not any(map(gt, leaf.nulls, records)):
            continue
        name = dotted(leaf.path)
        for n, nulls in enumerate(leaf.nulls):
            if nulls is None:
                continue
            if type(nulls) is not int or nulls < 0:
                yield adds.finding(n, f"nullCount of {name} is {str(nulls)[:60]}")
            elif type(records[n]) is int and nulls > records[n] >= 0:
                yield adds.finding(n, f"nullCount of {name} is {nulls:,} of {records[n]:,} rows")


def _are_counts(values: Sequence[Any]) -> bool:
    """Whether all are whole numbers from 0 on, and none is missing."""
    return set(map(type, values)) == {int} and min(values) >= 0


@rule("STA004", ERROR, "The least is not more than the greatest", of=Adds)
def least_is_not_more_than_greatest(adds: Adds) -> Iterator[Finding]:
    """minValues are not greater than maxValues.

    Why: readers skip the file though it has the rows they look for.
    Fix: compute the statistics anew with an engine.
    """
    for leaf in adds.leaves:
        lows, highs = leaf.lows.values, leaf.highs.values
        if not (leaf.lows.has_gaps or leaf.highs.has_gaps) and not any(map(gt, lows, highs)):
            continue
        message = f"the minimum of {dotted(leaf.path)} is above the maximum"
        wrong = [
            n
            for n, (low, high) in enumerate(zip(lows, highs, strict=True))
            if low is not None and high is not None and low > high
        ]
        yield from adds.findings(wrong, message)


@rule("STA005", WARNING, "Statistics are of columns", of=Adds)
def statistics_are_of_columns(adds: Adds) -> Iterator[Finding]:
    """Statistics name only columns that the table has.

    Why: a column was renamed or dropped without column mapping, or the writer erred.
    Fix: compute the statistics anew with an engine.
    """
    definition = adds.definition
    # A dropped column that was mapped leaves its statistics behind, and that is fine.
    if adds.schema is None or definition is None or definition.is_mapped:
        return
    for kind, path in _unknown(adds):
        yield adds.finding(
            adds.first_with((kind, *path)), f"{kind} has {dotted(path)}, which is no column"
        )


def _unknown(adds: Adds) -> Iterator[tuple[str, Path]]:
    """What statistics name and the table does not have; a column once."""
    seen: set[Path] = set()
    for kind in STATISTICS:
        for path in _unknown_in(adds, kind, adds.schema, ()):
            if path not in seen:
                seen.add(path)
                yield kind, path


def _unknown_in(adds: Adds, kind: str, schema: Any, above: Path) -> Iterator[Path]:
    known = {one.physical_name: one for one in schema.fields}
    own = adds.definition.partitions if adds.definition and not above else {}
    for name in sorted(adds.names((kind, *above))):
        if name not in known:
            if name not in own:
                yield (*above, name)
        elif isinstance(known[name].type, Struct):
            yield from _unknown_in(adds, kind, known[name].type, (*above, name))


@rule("STA006", ERROR, "Bounds have their column's type", of=Adds)
def bounds_have_their_columns_type(adds: Adds) -> Iterator[Finding]:
    """minValues and maxValues can be read as values of their columns.

    Why: readers that skip files by them fail, or compare what does not compare.
    Fix: compute the statistics anew with an engine.
    """
    for leaf in adds.leaves:
        for kind, found in (("minValues", leaf.lows), ("maxValues", leaf.highs)):
            for n in found.bad:
                value = adds.values((kind, *leaf.path))[n]
                yield adds.finding(
                    n, f"{kind} of {dotted(leaf.path)} is {str(value)[:60]!r}, no {leaf.type}"
                )


@rule("STA007", WARNING, "Only what has an order has bounds", of=Adds)
def only_what_has_an_order_has_bounds(adds: Adds) -> Iterator[Finding]:
    """Binary, array, map and interval columns have neither minValues nor maxValues.

    Why: the protocol gives them no order; readers that use such bounds skip wrongly.
    Fix: compute the statistics anew with an engine.
    """
    for leaf in adds.leaves:
        if (
            has_min_max(leaf.field.type)
            or leaf.type.startswith(("boolean", "geo", "variant"))
            or (leaf.type.startswith(("char(", "varchar(", "string", "void", "timestamp")))
        ):
            continue
        for kind in ("minValues", "maxValues"):
            path = (kind, *leaf.path)
            if any(one is not None for one in adds.values(path)):
                yield adds.finding(
                    adds.first_with(path), f"{kind} of {dotted(leaf.path)}, which has no order"
                )


@rule("STA008", ERROR, "Statistics go by physical names", of=Adds)
def statistics_go_by_physical_names(adds: Adds) -> Iterator[Finding]:
    """With column mapping statistics name columns by their physical names.

    Why: readers find no statistics, or those of another column.
    Fix: compute the statistics anew with an engine.
    """
    definition = adds.definition
    if adds.schema is None or definition is None or not definition.has_own_physical_names:
        return
    logical = dict(_logical(definition.schema, ()))
    for kind, path in _unknown(adds):
        if path in logical:
            yield adds.finding(
                adds.first_with((kind, *path)), f"{kind} has {dotted(path)}, a logical name"
            )


def _logical(kind: DataType | None, above: Path) -> Iterator[tuple[Path, bool]]:
    """Paths whose last name is the logical one of a field, below physical names."""
    for one in kind.fields if isinstance(kind, Struct) else ():
        if one.name != one.physical_name:
            yield (*above, one.name), True
        yield from _logical(one.type, (*above, one.physical_name))


@rule("STA009", ERROR, "Clustering columns have statistics in each file", of=LiveAdds)
def clustering_columns_have_statistics(adds: LiveAdds) -> Iterator[Finding]:
    """A file that was clustered has statistics of each clustering column.

    Why: the protocol requires them; readers and the next clustering go by them.
    Fix: compute the statistics anew with an engine.
    """
    definition = adds.definition
    if definition is None or not definition.clustering or adds.schema is None:
        return
    providers = adds.column("clusteringProvider")
    for path in definition.clustering:
        kind = _type_at(adds.schema, path)
        if kind is None or not has_min_max(kind):
            continue
        nulls = adds.values(("nullCount", *path))
        lows = adds.values(("minValues", *path))
        for n, provider in enumerate(providers):
            records = adds.records[n]
            if provider and nulls[n] is None and lows[n] is None and records != 0:
                yield adds.finding(n, f"no statistics of the clustering column {dotted(path)}")


def _type_at(schema: Struct, path: Path) -> DataType | None:
    kind: DataType = schema
    for step in path:
        found = next(
            (
                one
                for one in (kind.fields if isinstance(kind, Struct) else ())
                if one.physical_name == step
            ),
            None,
        )
        if found is None:
            return None
        kind = found.type
    return kind


@rule("STA010", ERROR, "numRecords is the file's", of=DataFile, level=FOOTERS)
def num_records_is_the_files(one: DataFile) -> Iterator[Finding]:
    """numRecords is the number of rows that the file has, deleted ones included.

    Why: counts that are answered from the log are wrong.
    Fix: compute the statistics anew with an engine.
    """
    if one.footer.error is None and one.records is not None and one.records != one.footer.rows:
        yield Finding(
            f"numRecords is {one.records:,}, the file has {one.footer.rows:,} rows", path=one.path
        )


@rule("STA011", ERROR, "Tight bounds are the real ones", of=FileRows, level=DATA)
def tight_bounds_are_the_real_ones(one: FileRows) -> Iterator[Finding]:
    """Tight minValues and maxValues are the least and the greatest value of the file.

    Why: readers skip the file though it has the rows they look for, or answer from bounds.
    Fix: compute the statistics anew with an engine.
    """
    if one.is_tight:
        for kind, path, said, real in _bounds(one):
            if not (_agrees_low if kind == "minValues" else _agrees_high)(said, real):
                yield Finding(
                    f"{kind} of {dotted(path)} is {_shown(said)}, it should be {_shown(real)}",
                    path=one.path,
                )


@rule("STA012", ERROR, "Wide bounds hold all values", of=FileRows, level=DATA)
def wide_bounds_hold_all_values(one: FileRows) -> Iterator[Finding]:
    """Wide minValues and maxValues enclose every value that is not deleted.

    Why: readers skip the file though it has the rows they look for.
    Fix: compute the statistics anew with an engine.
    """
    if not one.is_tight:
        for kind, path, said, real in _bounds(one):
            if not (_is_below if kind == "minValues" else _is_above)(said, real):
                yield Finding(
                    f"{kind} of {dotted(path)} is {_shown(said)}, there is {_shown(real)}",
                    path=one.path,
                )


@rule("STA013", ERROR, "nullCount is true", of=FileRows, level=DATA)
def null_count_is_true(one: FileRows) -> Iterator[Finding]:
    """nullCount is the number of nulls; with wide bounds only 0 and all are promises.

    Why: readers that look for nulls skip the file, or answer from counts.
    Fix: compute the statistics anew with an engine.
    """
    for path, _, facts in one.columns():
        said = one.stated("nullCount", path)
        if type(said) is not int or one.facts is None:
            continue
        if one.is_tight and not one.add.get("deletionVector"):
            is_true = said == facts.nulls
        elif said == 0:
            is_true = facts.nulls == 0
        else:
            is_true = said != one.records or facts.nulls == one.facts.rows
        if not is_true:
            yield Finding(
                f"nullCount of {dotted(path)} is {said:,}, there are {facts.nulls:,}", path=one.path
            )


@rule("STA014", WARNING, "Bounds of files with deleted rows are wide", of=Adds)
def bounds_of_files_with_deleted_rows_are_wide(adds: Adds) -> Iterator[Finding]:
    """A file with a deletion vector that deletes rows has tightBounds false.

    Why: the least or greatest value may be among the deleted ones; readers trust tight bounds.
    Fix: compute the statistics anew with an engine.
    """
    for n, vector in adds.vectors:
        stats = adds.stats[n] or {}
        has_bounds = any(stats.get(kind) for kind in ("minValues", "maxValues"))
        if has_bounds and vector.get("cardinality") and stats.get("tightBounds") is not False:
            yield adds.finding(n, "tight bounds beside a deletion vector")


@rule("STA015", ERROR, "No more rows are deleted than there are", of=Adds)
def no_more_rows_are_deleted_than_there_are(adds: Adds) -> Iterator[Finding]:
    """The cardinality of a deletion vector is not more than numRecords.

    Why: the number of rows left would be negative.
    Fix: rewrite the file.
    """
    for n, vector in adds.vectors:
        records, cardinality = adds.records_of(n), vector.get("cardinality")
        if records is not None and type(cardinality) is int and cardinality > records:
            yield adds.finding(n, f"{cardinality:,} of {records:,} rows are deleted")


@rule("STA016", WARNING, "Iceberg tables count their rows", of=LiveAdds)
def iceberg_tables_count_their_rows(adds: LiveAdds) -> Iterator[Finding]:
    """In a table with Iceberg compatibility each file has numRecords.

    Why: Iceberg's metadata needs the count, and cannot be written without it.
    Fix: compute the statistics anew with an engine.
    """
    definition = adds.definition
    if definition is None or not definition.is_iceberg:
        return
    for n, records in enumerate(adds.records):
        if records is None:
            yield adds.finding(n, "no numRecords in a table that is one of Iceberg too")


# -- the truth about rows ----------------------------------------------------------------


def _bounds(one: FileRows) -> Iterator[tuple[str, Path, Any, Any]]:
    """Each stated bound beside the real one, as values that compare."""
    for path, field, facts in one.columns():
        if not isinstance(field.type, Primitive):
            continue
        for kind, real in (("minValues", facts.low), ("maxValues", facts.high)):
            if real is None or (kind == "maxValues" and facts.nans):
                continue  # no value, or NaN among them: what is stated may be that (ST-3)
            said = _value(one.stated(kind, path), field.type.name)
            own = _value(real, field.type.name)
            if said is not None and own is not None:
                yield kind, path, said, own


def _value(value: Any, kind: str) -> Any:
    """A bound as text, date, time or number; None if it is none of the type."""
    try:
        if kind in ("date", "timestamp", "timestamp_ntz"):
            return _moment(value)
        if kind == "string":
            return value if isinstance(value, str) else None
        if kind in ("float", "double"):
            number = float(value)
            return None if math.isnan(number) else number
        exact = Decimal(str(value)) if value is not None and not isinstance(value, bool) else None
        return exact if exact is not None and exact.is_finite() else None
    except (ValueError, TypeError, InvalidOperation, OverflowError):
        return None


def _moment(value: Any) -> datetime | None:
    if isinstance(value, str):
        value = datetime.fromisoformat(value.removesuffix(" UTC"))
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return None


def _leeway(value: Any) -> float:
    """Times are cut to milliseconds; older writers lost seconds of odd zones (ST-2)."""
    return 60.0 if value.microsecond == 0 and value.year < 1970 else 0.001


def _agrees_low(said: Any, real: Any) -> Any:
    if isinstance(said, str):
        return (
            said == real
            or (len(said) >= _CUT and real.startswith(said))
            or (len(said) >= 8 and said < real and real.startswith(said))
        )
    if isinstance(said, datetime):
        return 0 <= (real - said).total_seconds() < _leeway(said)
    return _near(said, real)


def _agrees_high(said: Any, real: Any) -> Any:
    if isinstance(said, str):
        return said == real or (len(said) >= 8 and said > real and _shares(said, real))
    if isinstance(said, datetime):
        return abs((real - said).total_seconds()) < _leeway(said)
    return _near(said, real)


def _shares(said: str, real: str) -> bool:
    """A cut maximum is the beginning of the real one, its last sign made greater."""
    return real.startswith(said[:-1]) or said[: _CUT // 2] == real[: _CUT // 2]


def _is_below(said: Any, real: Any) -> Any:
    if isinstance(said, datetime):
        return (said - real).total_seconds() < _leeway(said)
    return bool(said <= real) or _near(said, real)


def _is_above(said: Any, real: Any) -> Any:
    if isinstance(said, str):
        return said >= real or real.startswith(said)
    if isinstance(said, datetime):
        return (real - said).total_seconds() < _leeway(said)
    return bool(said >= real) or _near(said, real)


def _near(said: Any, real: Any) -> Any:
    """Equal, or as near as a double or float that went through text."""
    if said == real:
        return True
    if isinstance(said, float):
        return math.isclose(said, real, rel_tol=1e-6)
    if isinstance(said, Decimal) and isinstance(real, Decimal):
        is_whole = all(one == one.to_integral_value() for one in (said, real))
        return abs(said - real) <= abs(real) * Decimal("1e-15") and not is_whole
    return False


def _shown(value: Any) -> str:
    return repr(value[:60]) if isinstance(value, str) else str(value)
