"""What footers tell by their bytes, beside what Arrow tells of them."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.local.raw_footer import FirstCodecs, read_raw_footer
from deltacli.storage.local import LocalStore
from deltacli.storage.memory import MemoryStore
from tests.test_golden import GOLDEN

CODECS = ("NONE", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4")
KINDS = st.sampled_from(
    [pa.int32(), pa.string(), pa.list_(pa.int8()), pa.map_(pa.string(), pa.bool_()),
     pa.struct({"a": pa.float64(), "b": pa.list_(pa.date32())})]
)  # fmt: skip
FILES = st.tuples(
    st.lists(KINDS, max_size=30),
    st.sampled_from(CODECS),
    st.integers(0, 3),
    st.dictionaries(st.text(max_size=3), st.sampled_from(["", "long" * 20_000]), max_size=2),
)


def file_of(kinds: list[Any], codec: str, groups: int, notes: dict[str, str]) -> bytes:
    schema = pa.schema({f"c{number}": kind for number, kind in enumerate(kinds)}, metadata=notes)
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema, compression=codec) as writer:
        for _ in range(groups):
            writer.write_table(schema.empty_table())
            rows = [pa.nulls(2, kind) for kind in kinds]
            writer.write_table(pa.Table.from_arrays(rows, schema=schema))
    return sink.getvalue()


def told_by_arrow(tail: bytes) -> str | None:
    metadata = pq.ParquetFile(pa.BufferReader(tail)).metadata
    if not metadata.num_row_groups or not metadata.num_columns:
        return None
    return str(metadata.row_group(0).column(0).compression)


def spelled(codec: str | None) -> str | None:
    """As Arrow does, which calls both kinds of LZ4 one."""
    return "LZ4" if codec == "LZ4_RAW" else codec


@given(st.lists(FILES, min_size=1, max_size=4))
def test_the_codec_is_what_arrow_says(files: list[Any]) -> None:
    store, codecs = MemoryStore(), FirstCodecs()
    for number, one in enumerate(files):
        content = file_of(*one)
        store.put(str(number), content)
        size, tail = read_raw_footer(store, str(number))
        assert size == len(content)
        assert content.endswith(tail)
        assert spelled(codecs.of(tail)) == told_by_arrow(tail)


def test_the_codecs_of_other_writers() -> None:
    if not GOLDEN.is_dir():
        pytest.skip("the tables of other writers are not here")
    codecs, store = FirstCodecs(), LocalStore(str(GOLDEN))
    found = set()
    for path in sorted(GOLDEN.rglob("*.parquet")):
        tail = read_raw_footer(store, str(path.relative_to(GOLDEN)))[1]
        try:
            expected = told_by_arrow(tail)
        except (pa.ArrowException, OSError):
            continue
        assert spelled(codecs.of(tail)) == expected, path
        found.add(expected)
    assert len(found) > 2


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 255)), min_size=1, max_size=8))
def test_bytes_that_mean_nothing_are_no_accident(changes: list[tuple[int, int]]) -> None:
    content = bytearray(file_of([pa.int32(), pa.string()], "ZSTD", 1, {}))
    for place, value in changes:
        content[-8 - place] = value
    assert isinstance(FirstCodecs().of(bytes(content)), (str, type(None)))


def test_a_codec_out_of_use_has_a_name() -> None:
    content = file_of([pa.int32()], "NONE", 1, {})
    path_and_codec = b"\x19\x18\x02c0\x15"
    assert content.count(path_and_codec + b"\0") == 2
    for coded, name in ((6, "LZO"), (100, "50")):
        changed = content.replace(path_and_codec + b"\0", path_and_codec + bytes([coded]))
        assert FirstCodecs().of(changed) == name


def field(kind: int, number: int, content: bytes = b"") -> bytes:
    """A field of Thrift's compact protocol, in its long form."""
    return bytes([kind, 2 * number if number >= 0 else -2 * number - 1]) + content


@pytest.mark.parametrize(
    "unknown",
    [
        field(1, 50), field(3, 50, b"\x15"), field(6, 50, b"\xff\x01"), field(7, 50, b"\x15" * 8),
        field(8, 50, b"\x02\x15\x15"), field(9, 50, b"\x21\x01\x02"), field(10, 50, b"\x13\x15"),
        field(9, 50, b"\xf5\x02\x15\x17"), field(11, 50, b"\x00"), field(12, 50, b"\x15\x02\x00"),
        field(11, 50, b"\x02\x13\x01\x15\x02\x15"),
        b"".join(field(5, number, b"\x0e") for number in (-5, -4, -3, -2)),
    ],
)  # fmt: skip
def test_fields_of_other_writers_are_passed_over(unknown: bytes) -> None:
    meta_data = unknown + field(5, 4, b"\x0c\x00")
    chunk = unknown + field(12, 3, meta_data + b"\x00")
    group = unknown + field(9, 1, b"\x1c" + chunk + b"\x00")
    footer = unknown + field(9, 2, b"\x0c") + unknown + field(9, 4, b"\x1c" + group + b"\x00")
    tail = footer + len(footer).to_bytes(4, "little") + b"PAR1"
    assert FirstCodecs().of(tail) == "ZSTD"
