"""Which table of which profile: `profile#share.schema.table`, as all clients write it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from deltacli.errors import UsageError


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A shared table by its names."""

    share: str
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.share}.{self.schema}.{self.table}"

    @property
    def path(self) -> str:
        """The path below an endpoint."""
        share, schema, table = (quote(one, safe="") for one in self.names)
        return f"/shares/{share}/schemas/{schema}/tables/{table}"

    @property
    def names(self) -> tuple[str, str, str]:
        return self.share, self.schema, self.table


def split_address(text: str) -> tuple[str | None, str]:
    """The profile before the last `#`, if there is one, and the name after it."""
    profile, mark, name = text.rpartition("#")
    return (profile or None if mark else None), name


def parse_table(name: str) -> TableAddress:
    """`share.schema.table`; a share's name may have dots."""
    parts = name.rsplit(".", 2)
    if len(parts) != 3 or not all(parts):
        raise UsageError(
            f"{name!r} is no shared table",
            hint="write it as share.schema.table; `deltacli share tables` lists them",
        )
    return TableAddress(*parts)
