"""One Spark for all tests that need one; they run in one worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    from deltacli.errors import StorageError
    from deltacli.spark.session import SparkSettings, open_session

    try:
        session = open_session(SparkSettings("local[2]"))
    except StorageError as error:
        pytest.skip(error.message)
    yield session
    session.stop()
