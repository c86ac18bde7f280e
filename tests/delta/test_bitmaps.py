"""Deletion vectors: bitmaps of every shape, and what is wrong with broken ones."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltacli.delta.bitmaps import RowSet, parse_rows, vector_rows
from deltacli.delta.vectors import vector_path
from deltacli.errors import CorruptLog

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def z85(data: bytes) -> str:
    text = ""
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4].ljust(4, b"\0"), "big")
        text += "".join(_Z85[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def serialized(positions: Iterable[int], *, runs: bool = False) -> bytes:
    """Positions in the portable form, written independently of the reader."""
    blocks: dict[int, list[int]] = {}
    for position in sorted(set(positions)):
        blocks.setdefault(position >> 16, []).append(position & 0xFFFF)
    parts: dict[int, list[int]] = {}
    for block in blocks:
        parts.setdefault(block >> 16, []).append(block)
    out = struct.pack("<iq", 1681511377, len(parts))
    for key, numbers in parts.items():
        heads = b"".join(
            struct.pack("<HH", number & 0xFFFF, len(blocks[number]) - 1) for number in numbers
        )
        bodies = [run_body(blocks[n]) if runs else plain_body(blocks[n]) for n in numbers]
        flags = bytes(
            sum(1 << bit for bit in range(8) if start + bit < len(numbers))
            for start in range(0, len(numbers), 8)
        )
        if runs:
            start = struct.pack("<I", 12347 | (len(numbers) - 1) << 16) + flags + heads
            has_offsets = len(numbers) >= 4
        else:
            start = struct.pack("<II", 12346, len(numbers)) + heads
            has_offsets = True
        offsets, place = b"", len(start) + 4 * len(numbers)
        for body in bodies:
            offsets += struct.pack("<I", place)
            place += len(body)
        out += struct.pack("<I", key) + start + (offsets if has_offsets else b"") + b"".join(bodies)
    return out


def plain_body(values: list[int]) -> bytes:
    if len(values) <= 4096:
        return struct.pack(f"<{len(values)}H", *values)
    return sum(1 << value for value in values).to_bytes(8192, "little")


def run_body(values: list[int]) -> bytes:
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][0] + runs[-1][1] + 1:
            runs[-1][1] += 1
        else:
            runs.append([value, 0])
    return struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", *one) for one in runs)


def inline(positions: Iterable[int]) -> dict[str, Any]:
    data = serialized(positions)
    return {
        "storageType": "i",
        "pathOrInlineDv": z85(data),
        "sizeInBytes": len(data),
        "cardinality": len(set(positions)),
    }


def stored(
    folder: Path, positions: Iterable[int], *, absolute: bool = False, offset: bool = True
) -> dict[str, Any]:
    """A vector in a file of its own, behind another one."""
    data, first = serialized(positions), serialized([5])
    descriptor: dict[str, Any] = {
        "storageType": "u",
        "pathOrInlineDv": z85(uuid.uuid4().bytes),
        "sizeInBytes": len(data),
        "cardinality": len(set(positions)),
    }
    name = vector_path(descriptor) or ""
    before = b"\x01" + (framed(first) if offset else b"")
    (folder / name).write_bytes(before + framed(data))
    if offset:
        descriptor["offset"] = len(before)
    if absolute:
        descriptor |= {"storageType": "p", "pathOrInlineDv": f"file://{folder}/{name}"}
    return descriptor


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")


positions = st.one_of(
    st.sets(st.integers(0, 300_000), max_size=50),
    st.sets(st.integers(0, 2**40), max_size=20),
    st.tuples(st.integers(0, 200_000), st.integers(1, 70_000)).map(
        lambda pair: set(range(pair[0], pair[0] + pair[1]))
    ),
)


@settings(max_examples=60, deadline=None)
@given(rows=positions, others=positions, runs=st.booleans())
def test_positions_come_back(rows: set[int], others: set[int], runs: bool) -> None:
    found = parse_rows(serialized(rows, runs=runs))
    assert list(found) == sorted(rows)
    assert len(found) == len(rows)
    assert set(found - parse_rows(serialized(others))) == rows - others


@settings(max_examples=200, deadline=None)
@given(rows=st.sets(st.integers(0, 200_000), max_size=30), data=st.data())
def test_broken_bitmaps_raise_a_value_error_and_nothing_else(
    rows: set[int], data: st.DataObject
) -> None:
    content = bytearray(serialized(rows, runs=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    for broken in (bytes(content), bytes(content[:cut])):
        try:
            found = parse_rows(broken)
        except ValueError:
            continue
        assert isinstance(found, RowSet)


def nothing(offset: int, size: int) -> bytes:
    raise AssertionError("an inline vector has no file")


def test_a_vector_is_checked_against_its_action_and_its_checksum(tmp_path: Path) -> None:
    rows = [1, 70_000, 2**33]
    assert list(vector_rows(inline(rows), nothing)) == rows
    for offset in (True, False):
        descriptor = stored(tmp_path, rows, offset=offset)
        place = tmp_path / (vector_path(descriptor) or "")
        whole = place.read_bytes()

        def read(offset: int, size: int, place: Path = place) -> bytes:
            return place.read_bytes()[offset : offset + size]

        assert list(vector_rows(descriptor, read)) == rows
        for change in (
            {"cardinality": 2},
            {"sizeInBytes": 3},
            {"sizeInBytes": None},
            {"offset": -9},
        ):
            with pytest.raises(CorruptLog):
                vector_rows({**descriptor, **change}, read)
        for broken in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-5], b""):
            place.write_bytes(broken)
            with pytest.raises(CorruptLog):
                vector_rows(descriptor, read)
    with pytest.raises(CorruptLog):
        vector_rows({**inline(rows), "pathOrInlineDv": "~~~~~"}, nothing)
