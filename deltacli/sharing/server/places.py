"""Where files of shared tables may lie."""

from __future__ import annotations


def is_servable(name: str) -> bool:
    """Whether a name can be that of a data file: not in the log, hidden, or outside."""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    parts = name.split("/")
    return "\0" not in name and not any(
        part in ("", "_delta_log") or part.startswith(".") for part in parts
    )


class Place:
    """A file below one of a table's roots: which root, and its name there."""

    __slots__ = ("name", "root")

    def __init__(self, root: int, name: str):
        self.root = root
        self.name = name
