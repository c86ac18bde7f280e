"""How a table's columns are found in its files, and the keys by which it says so."""

from __future__ import annotations

import re
from enum import StrEnum

MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"
# In the metadata of a field.
ID = "delta.columnMapping.id"
PHYSICAL = "delta.columnMapping.physicalName"
NESTED_IDS = "delta.columnMapping.nested.ids"

# What a name has only in tables with column mapping.
SPECIAL = re.compile(r"[ ,;{}()\n\t=]")


class ColumnMapping(StrEnum):
    """By what columns are found; without mapping by the names that users know."""

    NAME = "name"
    ID = "id"
    NONE = "none"
