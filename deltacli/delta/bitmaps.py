"""Deletion vectors as sets of row positions: read, checked and taken apart.

A vector is a 64-bit roaring bitmap in its portable form (PROTOCOL "Deletion Vector Format").
In memory it is a bit set per 65,536 rows, the shape in which masks, Spark's joins and
differences want it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltacli.delta.vectors import z85_decode
from deltacli.errors import CorruptLog

BLOCK_ROWS = 1 << 16
BLOCK_BYTES = BLOCK_ROWS // 8
_MAGIC = 1681511377
_FILE_FORMAT = 1
_NO_RUNS, _RUNS = 12346, 12347
_SMALL = 4096
# The protocol has 32 bits for it.
_MOST_BYTES = (1 << 31) - 1


@dataclass(slots=True)
class RowSet:
    """Row positions: for each block of 65,536 rows that has any, its bits, lowest first."""

    blocks: dict[int, bytearray] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(int.from_bytes(bits, "little").bit_count() for bits in self.blocks.values())

    @property
    def greatest(self) -> int | None:
        """The last of the positions."""
        number = max(self.blocks, default=None)
        if number is None:
            return None
        bits = int.from_bytes(self.blocks[number], "little")
        return number * BLOCK_ROWS + bits.bit_length() - 1

    def __iter__(self) -> Iterator[int]:
        for number in sorted(self.blocks):
            bits = self.blocks[number]
            base = number * BLOCK_ROWS
            for position, byte in enumerate(bits):
                while byte:
                    low = byte & -byte
                    yield base + position * 8 + low.bit_length() - 1
                    byte ^= low

    def __sub__(self, other: RowSet) -> RowSet:
        left = RowSet()
        for number, bits in self.blocks.items():
            mine = int.from_bytes(bits, "little")
            theirs = int.from_bytes(other.blocks.get(number, b""), "little")
            rest = mine & ~theirs
            if rest:
                left.blocks[number] = bytearray(rest.to_bytes(BLOCK_BYTES, "little"))
        return left


def parse_rows(data: bytes) -> RowSet:
    """The positions of a serialized vector. Raises ValueError if it is none."""
    try:
        return _parse(memoryview(data))
    except (struct.error, IndexError) as error:
        raise ValueError(f"the bitmap is cut off ({error})") from None


def _parse(data: memoryview) -> RowSet:
    (magic,) = struct.unpack_from("<i", data)
    if magic != _MAGIC:
        raise ValueError(f"the bitmap begins with {magic}, not {_MAGIC}")
    (count,) = struct.unpack_from("<q", data, 4)
    if not 0 <= count <= 1 << 31:
        raise ValueError(f"the bitmap claims {count} parts")
    rows, position, before = RowSet(), 12, -1
    for _ in range(count):
        (key,) = struct.unpack_from("<I", data, position)
        if key <= before:
            raise ValueError("the parts of the bitmap are not in order")
        before = key
        position = _parse_part(data, position + 4, key, rows)
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes are left behind the bitmap")
    return rows


def _parse_part(data: memoryview, position: int, key: int, rows: RowSet) -> int:
    """One 32-bit roaring bitmap; the position behind it comes back."""
    start = position
    (cookie,) = struct.unpack_from("<I", data, position)
    position += 4
    if cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", data, position)
        position += 4
        runs = b""
    elif cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        runs = bytes(data[position : position + (count + 7) // 8])
        position += (count + 7) // 8
    else:
        raise ValueError(f"{cookie} begins no roaring bitmap")
    if count > 1 << 16:
        raise ValueError(f"a roaring bitmap claims {count} containers")
    heads = struct.unpack_from(f"<{2 * count}H", data, position)
    position += 4 * count
    if not runs or count >= 4:
        position += 4 * count  # where each container begins: they follow one another
    for number in range(count):
        block = (key << 16) | heads[2 * number]
        if block in rows.blocks:
            raise ValueError("a container of the bitmap comes twice")
        is_run = bool(runs) and bool(runs[number // 8] >> (number % 8) & 1)
        bits, position = _container(data, position, heads[2 * number + 1] + 1, is_run)
        rows.blocks[block] = bits
    if position <= start:
        raise ValueError("an empty part")
    return position


def _container(data: memoryview, position: int, count: int, is_run: bool) -> tuple[bytearray, int]:
    if is_run:
        (runs,) = struct.unpack_from("<H", data, position)
        if not runs:
            # A few bytes each, they would fill the memory.
            raise ValueError("a container of the bitmap is empty")
        pairs = struct.unpack_from(f"<{2 * runs}H", data, position + 2)
        whole = 0
        for first, more in zip(pairs[::2], pairs[1::2], strict=True):
            if first + more >= BLOCK_ROWS:
                raise ValueError("a run leaves its container")
            whole |= ((1 << (more + 1)) - 1) << first
        return bytearray(whole.to_bytes(BLOCK_BYTES, "little")), position + 2 + 4 * runs
    if count > _SMALL:
        end = position + BLOCK_BYTES
        if end > len(data):
            raise ValueError("the bitmap is cut off")
        return bytearray(data[position:end]), end
    bits = bytearray(BLOCK_BYTES)
    for value in struct.unpack_from(f"<{count}H", data, position):
        bits[value >> 3] |= 1 << (value & 7)
    return bits, position + 2 * count


def vector_rows(descriptor: Mapping[str, Any], read: Callable[[int, int], bytes]) -> RowSet:
    """The deleted rows of a descriptor; `read(offset, size)` reads from the vector's file.

    Raises CorruptLog if the vector does not keep what its descriptor and checksum promise.
    """
    rows = stored_rows(descriptor, read)
    cardinality = descriptor.get("cardinality")
    if cardinality != len(rows):
        raise CorruptLog(f"a deletion vector has {len(rows)} rows, its action says {cardinality}")
    return rows


def stored_rows(descriptor: Mapping[str, Any], read: Callable[[int, int], bytes]) -> RowSet:
    """The rows of a descriptor's bitmap, however many it promises. Raises CorruptLog."""
    try:
        return parse_rows(_content(descriptor, read))
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptLog(f"a deletion vector cannot be read: {error}") from None


def _content(descriptor: Mapping[str, Any], read: Callable[[int, int], bytes]) -> bytes:
    size = descriptor["sizeInBytes"]
    if not 0 <= size <= _MOST_BYTES:
        raise ValueError(f"its size is {size}")
    if descriptor.get("storageType") == "i":
        content = z85_decode(descriptor["pathOrInlineDv"])
        if not size <= len(content) < size + 4:
            raise ValueError(f"it has {len(content)} bytes, its action says {size}")
        return content[:size]
    offset = descriptor.get("offset")
    if offset is None:
        if read(0, 1) != bytes((_FILE_FORMAT,)):
            raise ValueError("its file is of an unknown format")
        offset = 1
    if type(offset) is not int or offset < 0:
        raise ValueError(f"its offset is {offset!r}")
    framed = read(offset, size + 8)
    if len(framed) != size + 8:
        raise ValueError("its file is too short")
    said, content, checksum = framed[:4], framed[4:-4], framed[-4:]
    if int.from_bytes(said, "big") != size:
        raise ValueError(f"its file says {int.from_bytes(said, 'big')} bytes, its action {size}")
    if int.from_bytes(checksum, "big") != zlib.crc32(content):
        raise ValueError("its checksum is wrong")
    return content
