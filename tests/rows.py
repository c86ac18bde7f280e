"""Rows that compare with another reader's, and the tables that have some."""

from __future__ import annotations

import datetime
import math
from collections import Counter
from typing import Any

import pytest

from tests.test_golden import GOLDEN, expectations


def canonical(value: Any) -> Any:
    """A value that compares with another reader's."""
    if isinstance(value, dict):
        return tuple(sorted((key, repr(canonical(one))) for key, one in value.items()))
    if isinstance(value, list | tuple):
        return tuple(canonical(one) for one in value)
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return value


def multiset(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(repr([(key, canonical(row[key])) for key in sorted(row)]) for row in rows)


def with_rows() -> list[Any]:
    found = [name for name, one in expectations().items() if one.get("rows") is not None]
    return found or [pytest.param("none", marks=pytest.mark.skip(reason=f"no tables in {GOLDEN}"))]


# The reader of the comparison takes mapped columns for missing ones, and Spark's Arrow
# conversion stumbles over nulls in arrays of variants.
NOT_COMPARED = {
    "delta-golden/data-skipping-basic-stats-all-types-columnmapping-name",
    "delta-golden/table-with-columnmapping-mode-id",
    "delta-golden/table-with-icebegCompatV2Enabled",
    "delta-kernel/data-reader-primitives-column-mapping-name",
    "delta-kernel/spark-shredded-variant-preview-delta",
    "delta-rs/spark-shredded-variant-preview-delta",
    "kernel-rs-golden/table-with-columnmapping-mode-id",
    "kernel-rs/cdf-column-mapping-id-mode",
}
