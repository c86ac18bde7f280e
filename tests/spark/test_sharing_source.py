"""Shared tables in Spark: batches, changes and streams, from a server of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")
from pyspark.errors import PySparkException

from deltacli.delta.scan import Files
from deltacli.errors import DeltaCliError
from deltacli.sharing import datasource
from deltacli.spark.scan import read
from tests.rows import multiset
from tests.sharing.serving import Server, one_share, serving, shared
from tests.sharing.test_client_tables import called, expected_rows
from tests.test_golden import GOLDEN, READABLE


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The beginning of addresses of all tables of other writers."""
    tables = [shared(called(one), GOLDEN / one) for one in READABLE if isinstance(one, str)]
    with serving(one_share(*tables)) as server:
        profile = server.profile(tmp_path_factory.mktemp("profile") / "me.share")
        yield f"{profile}#share.schema."


@pytest.fixture
def source(spark: Any) -> Any:
    datasource.register(spark)
    return lambda: spark.read.format(datasource.NAME)


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("answers", ["auto", "delta"])
def test_rows_of_other_writers_tables_are_the_same_in_spark(
    name: str, answers: str, golden: str, source: Any
) -> None:
    expected = expected_rows(name)
    reader = source().option("responseFormat", answers)
    if not isinstance(expected, dict):
        with pytest.raises(PySparkException):
            reader.load(golden + called(name)).toArrow()
        return
    assert multiset(reader.load(golden + called(name)).toArrow().to_pylist()) == expected


__all__ = ["DeltaCliError", "Files", "Path", "Server", "read"]
