"""Rules that look into rows, with a real Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.checking.model import Level
from deltacli.validate.registry import BOOK
from tests.validate.bench import TWINS
from tests.validate.test_rules import compare_twins

pytestmark = pytest.mark.xdist_group("spark")
ABOUT_ROWS = [one.id for one in BOOK.rules if one.id in TWINS and one.level is Level.DATA]


@pytest.mark.parametrize("rule_id", ABOUT_ROWS)
def test_a_rule_about_rows_speaks_of_what_breaks_it_and_of_nothing_else(
    rule_id: str, tmp_path: Path, spark: Any
) -> None:
    compare_twins(rule_id, tmp_path, lambda: spark)
