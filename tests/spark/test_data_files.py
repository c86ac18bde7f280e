"""Data files by both engines: what footers tell, files written anew, and the truth about rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltacli.delta.actions import Json
from deltacli.delta.arrow_types import NoArrowType, arrow_type, type_name
from deltacli.delta.commit import Change, commit
from deltacli.delta.data_files import new_names, replacement, rewrite_target
from deltacli.delta.engine import Engine, FileBatch
from deltacli.delta.paths import decode_path, file_location
from deltacli.delta.scan import FIELDS, Files
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.delta.stats import parse_stats
from deltacli.errors import CorruptLog, Refused
from deltacli.local.engine import LocalEngine
from deltacli.local.scan import read_rows
from deltacli.storage.local import LocalStore
from tests.builder import NOW_MS, TableBuilder, add, column, features, metadata
from tests.conftest import Result
from tests.delta.test_bitmaps import inline
from tests.operations.test_narrow import check_rewriting
from tests.operations.test_narrow import widened as made_narrow
from tests.rows import multiset, with_rows
from tests.spark.test_engine import engine
from tests.test_golden import GOLDEN

pytest.importorskip("pyspark", reason="PySpark is not installed")
from deltacli.spark.verify import leaves_of, look_into_rows

__all__ = ["engine"]


def load(place: Path, made: Callable[[], Engine] = LocalEngine) -> Snapshot:
    return load_snapshot(LocalStore(str(place)), made, allow_catalog_managed=True)


def live(snapshot: Snapshot) -> list[Json]:
    """The adds, whole."""
    fields = (*FIELDS, "tags", "clusteringProvider")
    found: list[Json] = []
    for item in snapshot.files("add", fields):
        bodies = item.columns.to_pylist() if isinstance(item, FileBatch) else [dict(item)]
        found += [{k: v for k, v in body.items() if v is not None} for body in bodies]
    return found


def rows_of(snapshot: Snapshot) -> list[dict[str, Any]]:
    files = Files(snapshot)
    batches = read_rows(files, files.live(), files.schema)
    return [row for batch in batches for row in batch.to_pylist()]


def rewrite(snapshot: Snapshot, engine: Engine) -> list[Json]:
    """Write all live files anew and commit it; the new adds."""
    adds = live(snapshot)
    written = engine.rewrite_files(
        snapshot.store, Files(snapshot).places, rewrite_target(snapshot), adds
    )
    actions: list[Any] = []
    for old, new in zip(adds, written, strict=True):
        actions += replacement(old, new, NOW_MS)
    commit(snapshot, Change("REORG", {}, lambda _: actions, is_blind_append=False))
    return [one["add"] for one in actions if "add" in one]


def check_rewritten(place: Path, before: list[dict[str, Any]], adds: Sequence[Json]) -> None:
    after = load(place)
    assert multiset(rows_of(after)) == multiset(before)
    types = dict(leaves(after))
    for one in adds:
        (footer,) = LocalEngine().read_footers(Files(after).places, [location(after, one)])
        assert footer.error is None
        assert footer.size == one["size"]
        stats = parse_stats(one["stats"])
        assert stats is not None
        assert stats["numRecords"] == footer.rows
        for told in footer.columns:
            assert told.type == types[told.path], told
        assert not one["dataChange"]


def leaves(snapshot: Snapshot) -> Iterator[tuple[tuple[str, ...], str]]:
    """The types that files should have, by the names that they should have."""
    target = rewrite_target(snapshot)

    def inside(kind: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
        if pa.types.is_struct(kind):
            for one in kind:
                yield from inside(one.type, (*path, one.name))
        elif pa.types.is_list(kind):
            yield from inside(kind.value_type, (*path, "element"))
        elif pa.types.is_map(kind):
            yield from inside(kind.key_type, (*path, "key"))
            yield from inside(kind.item_type, (*path, "value"))
        else:
            yield path, type_name(kind)

    for field in target.schema.fields:
        yield from inside(arrow_type(field.type), (field.name,))


def location(snapshot: Snapshot, body: Json) -> str:
    return file_location(snapshot.store.location, body["path"])


# -- files written anew ------------------------------------------------------------------


@pytest.mark.parametrize("name", with_rows())
def test_tables_of_others_are_the_same_when_all_files_are_written_anew(
    name: str, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    shutil.copytree(GOLDEN / name, place, symlinks=True)
    snapshot = load(place)
    try:
        before = rows_of(snapshot)
        adds = rewrite(snapshot, LocalEngine())
    except (NoArrowType, Refused) as refused:
        known = (
            "variant",
            "not read here",
            "tracks rows",
            "not written",
            "feature",
            "missing",
            "icebergCompat",
        )
        if not any(word in refused.message for word in known):
            raise
        pytest.skip(refused.message)
    check_rewritten(place, before, adds)


ROWS = pa.table(
    {
        "id": pa.array(range(1000), pa.int32()),
        "amount": pa.array([n / 4 if n % 11 else None for n in range(1000)], pa.float32()),
        "text": [f"{'é' * (n % 40)}{n}" for n in range(1000)],
        "when": pa.array([n * 1001 for n in range(1000)], pa.timestamp("us", "UTC")),
        "inner": [{"a": n % 7, "b": [n, None]} if n % 5 else None for n in range(1000)],
        "gone": list(range(1000)),
    }
)


@pytest.fixture
def widened(tmp_path: Path) -> Path:
    """Narrow files of a table whose columns are wider by now, some rows deleted."""
    place = tmp_path / "widened"
    table = TableBuilder(LocalStore(str(place)))
    inner = {"type": "struct", "fields": [
        column("a", "decimal(22,2)"),
        column("b", {"type": "array", "elementType": "long", "containsNull": True}),
    ]}  # fmt: skip
    columns = {"id": "long", "amount": "double", "text": "string", "when": "timestamp",
               "inner": inner, "new": "date"}  # fmt: skip
    schema = [column(name, kind) for name, kind in columns.items()]
    paths = ["p=1/a.parquet", "x%20y.parquet", "whole.parquet"]
    vectors = [inline(range(0, 1000, 3)), None, inline(range(1000))]
    actions = []
    for path, vector in zip(paths, vectors, strict=True):
        target = place / decode_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(ROWS, target, row_group_size=300, compression="gzip")
        more = {"deletionVector": vector} if vector else {}
        actions.append(add(path, target.stat().st_size, 1000, **more))
    table.commit(features("deletionVectors", "typeWidening"), metadata(*schema), *actions)
    return place


def test_narrow_files_get_the_tables_types(widened: Path, engine: Callable[[], Engine]) -> None:
    snapshot = load(widened, engine)
    before = rows_of(snapshot)
    adds = rewrite(snapshot, engine())
    assert len(adds) == 2
    check_rewritten(widened, before, adds)
    first = next(one for one in adds if one["path"].startswith("p=1/"))
    written = pq.ParquetFile(widened / first["path"])
    assert written.schema_arrow.names == ["id", "amount", "text", "when", "inner"]
    assert written.read().column("id").to_pylist() == [n for n in range(1000) if n % 3]
    assert written.metadata.row_group(0).column(0).compression == "GZIP"
    stats = parse_stats(first["stats"])
    assert stats is not None
    assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (1, 998)
    assert stats["nullCount"]["inner"]["a"] == sum(1 for n in range(1000) if n % 3 and not n % 5)
    assert stats["tightBounds"] is True
    kept = [one for one in rows_of(load(widened)) if one["text"] > "ééééééééé"]
    assert kept
    for row in kept:
        assert stats["minValues"]["text"] <= row["text"] <= stats["maxValues"]["text"]
        assert stats["minValues"]["when"] <= row["when"].isoformat(timespec="microseconds")


def test_ids_of_columns_are_kept(tmp_path: Path, engine: Callable[[], Engine]) -> None:
    name = "delta-golden/table-with-columnmapping-mode-id"
    if not (GOLDEN / name).exists():
        pytest.skip(f"no tables in {GOLDEN}")
    shutil.copytree(GOLDEN / name, tmp_path / "t")
    snapshot = load(tmp_path / "t", engine)
    places = Files(snapshot).places
    old = [location(snapshot, one) for one in live(snapshot)]
    before = {one.columns for one in engine().read_footers(places, old)}
    adds = rewrite(snapshot, engine())
    after = list(engine().read_footers(places, [location(snapshot, one) for one in adds]))
    assert after
    for footer in after:
        assert {(c.path, c.field_id) for c in footer.columns} in [
            {(c.path, c.field_id) for c in columns} for columns in before
        ]


def test_a_file_that_cannot_be_read_leaves_nothing_behind(
    widened: Path, engine: Callable[[], Engine]
) -> None:
    snapshot = load(widened, engine)
    (widened / "x y.parquet").write_bytes(b"PAR1 no PAR1")
    before = sorted(widened.rglob("*"))
    with pytest.raises(CorruptLog, match="cannot be rewritten"):
        rewrite(snapshot, engine())
    assert sorted(widened.rglob("*")) == before


def test_a_vector_that_does_not_add_up_is_an_error(
    widened: Path, engine: Callable[[], Engine]
) -> None:
    snapshot = load(widened, engine)
    adds = live(snapshot)
    vector = dict(adds[0]["deletionVector"], cardinality=5)
    broken = [{**adds[0], "deletionVector": vector}]
    with pytest.raises(CorruptLog):
        engine().rewrite_files(
            snapshot.store, Files(snapshot).places, rewrite_target(snapshot), broken
        )


def test_a_new_name_lies_beside_the_old_one(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    (tmp_path / "p=a b").mkdir()
    (tmp_path / "link").symlink_to("p=a b")
    old = ["p=a%20b/x.parquet", "s3://other/x.parquet", "../p=a b/x", "link/x", "gone/x"]
    beside, *others = new_names(store, old)
    assert beside.startswith("p=a b/part-")
    assert all(one.startswith("part-") for one in others)


def test_the_command_rewrites_by_spark(
    tmp_path: Path, deltacli: Callable[..., Result], spark: Any
) -> None:
    made_narrow(tmp_path / "t")
    check_rewriting(tmp_path / "t", deltacli, "spark")


# -- footers -----------------------------------------------------------------------------


def test_footers_tell_types_rows_and_what_is_wrong(
    widened: Path, engine: Callable[[], Engine]
) -> None:
    snapshot = load(widened, engine)
    (widened / "bad").write_bytes(b"no parquet")
    root = snapshot.store.location
    names = ["p=1/a.parquet", "bad", "none", "whole.parquet"]
    found = list(engine().read_footers(Files(snapshot).places, [f"{root}/{one}" for one in names]))
    assert [one.location for one in found] == [f"{root}/{one}" for one in names]
    assert [one.rows for one in found] == [1000, 0, 0, 1000]
    assert [one.error is None for one in found] == [True, False, False, True]
    types = {told.path: told.type for told in found[0].columns}
    assert types == {
        ("id",): "integer", ("amount",): "float", ("text",): "string", ("when",): "timestamp",
        ("inner", "a"): "long", ("inner", "b", "element"): "long", ("gone",): "long",
    }  # fmt: skip


# -- rows --------------------------------------------------------------------------------


def truth(files: Files) -> Iterator[dict[tuple[str, ...], tuple[int, Any, Any]]]:
    """Null counts and bounds of each file, by Arrow."""
    for one in files.live():
        batches = list(read_rows(files, [one], files.schema))
        found = {}
        for path, _ in leaves_of(files.schema):
            columns = [inside(batch, path) for batch in batches]
            values = pa.concat_arrays(columns) if columns else pa.nulls(0)
            nulls = values.null_count
            if pa.types.is_floating(values.type):
                values = values.filter(pc.invert(pc.fill_null(pc.is_nan(values), True)))
            try:
                ends = pc.min_max(values).as_py()
            except pa.ArrowNotImplementedError:
                ends = {"min": None, "max": None}
            found[path] = (nulls, ends["min"], ends["max"])
        yield found


def inside(batch: Any, path: tuple[str, ...]) -> Any:
    value = batch.column(path[0])
    return pc.struct_field(value, list(path[1:])) if path[1:] else value


READ = [
    name
    for name in with_rows()
    if isinstance(name, str) and "variant" not in name and "geometry" not in name
]


@pytest.mark.parametrize("name", READ[::6] or with_rows())
def test_rows_are_counted_and_bounded_as_they_are(name: str, spark: Any) -> None:
    files = Files(load(GOLDEN / name))
    chosen = list(files.live())
    facts = list(look_into_rows(spark, files, chosen))
    assert [one.file.location for one in facts] == [one.location for one in chosen]
    for one, expected in zip(facts, truth(files), strict=True):
        for path, (nulls, low, high) in expected.items():
            mine = one.columns[path]
            assert mine.nulls == nulls, path
            if mine.low is not None or mine.high is not None:
                assert (mine.low, mine.high) == (low, high), path


def test_conditions_are_counted_by_file(widened: Path, spark: Any) -> None:
    files = Files(load(widened))
    tests = {"even": "id % 2 = 0", "odd name": "amount >= 0", "all": "id is not null"}
    chosen = list(files.live())
    found = look_into_rows(spark, files, chosen, columns=(), expressions=tests)
    facts = {one.file.path: one for one in found}
    whole = facts["x%20y.parquet"]
    assert (whole.rows, whole.broken["even"].false, whole.broken["even"].null) == (1000, 500, 0)
    assert whole.broken["odd name"].null == sum(1 for n in range(1000) if not n % 11)
    assert whole.broken["all"] == type(whole.broken["all"])(0, 0)
    assert facts["p=1/a.parquet"].rows == 666
    assert facts["whole.parquet"].rows == 0
