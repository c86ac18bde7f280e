"""The end of a Parquet file as it lies there, and what Arrow does not tell of it safely.

A chunk's codec comes from Arrow only with all else of the chunk, and what Arrow cannot make of
that ends the process. So it is read from the bytes, which are Thrift's compact protocol.
"""

from __future__ import annotations

import os

from deltacli.storage import DataStore

_AT_FIRST = 1 << 16
_MAGIC = b"PAR1"
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
# The fields on the way from a footer to the codec of its first chunk.
_SCHEMA = 2
_ROW_GROUPS = 4
_COLUMNS = 1
_META_DATA = 3
_CODEC = 4
# Thrift's types.
_BOOLEANS = (1, 2)
_BYTE = 3
_NUMBERS = (4, 5, 6)
_DOUBLE = 7
_BINARY = 8
_LISTS = (9, 10)
_MAP = 11
_STRUCT = 12


def read_raw_footer(store: DataStore, path: str) -> tuple[int, bytes]:
    """How large a file is, and its last bytes with all of its footer."""
    with store.open(path) as file:
        size = file.seek(0, os.SEEK_END)
        start = file.seek(max(0, size - _AT_FIRST))
        tail = file.read(size - start)
        if tail[-4:] != _MAGIC:
            return size, tail  # Arrow knows what to say
        needed = int.from_bytes(tail[-8:-4], "little") + 8
        if needed > size:
            raise ValueError(f"its footer is told to have {needed - 8} bytes, it has {size} itself")
        if needed > len(tail):
            file.seek(size - needed)
            tail = file.read(needed - len(tail)) + tail
        return size, tail


class FirstCodecs:
    """The codecs of files' first chunks; the last schema is known again by its bytes."""

    def __init__(self) -> None:
        self._schema = b"\0"

    def of(self, tail: bytes) -> str | None:
        """The codec, of a tail that Arrow has read; None where there is no chunk."""
        length = int.from_bytes(tail[-8:-4], "little")
        footer = _Thrift(tail[len(tail) - 8 - length : -8])
        try:
            codec = self._codec(footer)
        except (IndexError, RecursionError):
            return None
        if codec is None:
            return None
        return _CODECS[codec] if 0 <= codec < len(_CODECS) else str(codec)

    def _codec(self, footer: _Thrift) -> int | None:
        last = 0
        known = self._schema  # other threads may put another one
        if footer.data.startswith(known):
            footer.at = len(known)
            last = _SCHEMA
        elif footer.find(_SCHEMA, 0):
            footer.skip(_LISTS[0])
            self._schema = footer.data[: footer.at]
            last = _SCHEMA
        if not footer.find(_ROW_GROUPS, last) or not footer.count():
            return None
        if not footer.find(_COLUMNS, 0) or not footer.count():
            return None
        if not footer.find(_META_DATA, 0) or not footer.find(_CODEC, 0):
            return None
        return footer.number()


class _Thrift:
    """A place in a struct of the compact protocol. IndexError tells of an end too soon."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def find(self, wanted: int, last: int) -> bool:
        """Go on to the content of a field of this struct, from behind the field `last`."""
        while True:
            kind, last = self._field(last)
            if not kind:
                return False
            if last == wanted:
                return True
            self.skip(kind)

    def count(self) -> int:
        """How many elements the list here has; its first one comes next."""
        return self._list()[0]

    def number(self) -> int:
        coded = self._varint()
        return (coded >> 1) ^ -(coded & 1)

    def skip(self, kind: int, *, in_list: bool = False) -> None:
        if kind in _BOOLEANS:
            self.at += in_list  # a field's own value is in its type
        elif kind == _BYTE:
            self.at += 1
        elif kind in _NUMBERS:
            self._varint()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self._varint()
            self.at += length
        elif kind in _LISTS:
            count, inner = self._list()
            for _ in range(count):
                self.skip(inner, in_list=True)
        elif kind == _MAP:
            self._skip_map()
        elif kind == _STRUCT:
            last = 0
            while True:
                inner, last = self._field(last)
                if not inner:
                    return
                self.skip(inner)
        else:
            raise IndexError
        if self.at > len(self.data):
            raise IndexError

    def _skip_map(self) -> None:
        count = self._varint()
        kinds = self._byte() if count else 0
        for _ in range(count):
            self.skip(kinds >> 4, in_list=True)
            self.skip(kinds & 15, in_list=True)

    def _field(self, last: int) -> tuple[int, int]:
        """The type and the id of the next field; the type 0 is the struct's end."""
        head = self._byte()
        kind, step = head & 15, head >> 4
        if not kind:
            return 0, last
        return kind, last + step if step else self.number()

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        return self._varint() if count == 15 else count, head & 15

    def _varint(self) -> int:
        value = shift = 0
        while True:
            one = self._byte()
            value |= (one & 127) << shift
            if one < 128:
                return value
            shift += 7

    def _byte(self) -> int:
        one = self.data[self.at]
        self.at += 1
        return one
