"""Every target with what Hypothesis thinks of. FUZZ=5000 thinks longer."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

COUNT = int(os.environ.get("FUZZ", "60"))
# Those that run whole commands take longer.
SLOW = ("log", "schema", "checkpoint", "paimon")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_ends_as_it_should_not(name: str) -> None:
    @settings(
        max_examples=COUNT if name in SLOW else 20 * COUNT,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(min_size=1, max_size=200))
    def check(content: bytes) -> None:
        TARGETS[name](content)

    check()
