"""The column chunks of a footer, tried before they are asked for one by one.

What Arrow cannot make of them is an error where it reads them all, and the end of the process
where it is asked for one.
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


class _Asked(Exception):
    """Arrow wants a page: it has made all chunks by then."""


class _NoPages(io.RawIOBase):
    """A file that tells nothing but that it is large."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return 1 << 60

    def tell(self) -> int:
        return 1 << 60

    def read(self, size: int | None = -1) -> bytes:
        raise _Asked


def check_chunks(metadata: Any) -> None:
    """Raise OSError or pa.ArrowException if the chunks of a footer cannot be."""
    source = pa.PythonFile(_NoPages(), mode="r")
    file = pq.ParquetFile(source, metadata=metadata, pre_buffer=True)
    try:
        next(file.iter_batches(1, use_threads=False), None)
    except _Asked:
        return
