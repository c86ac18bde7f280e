"""Rows of shared tables are those of the tables, whatever the format and the way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.delta.snapshot import load_snapshot
from deltacli.errors import DeltaCliError, Refused
from deltacli.local.engine import LocalEngine
from deltacli.operations.share_download import apply_download, plan_download
from deltacli.sharing.client.rows import open_version
from deltacli.sharing.client.server import NEWEST, Query
from deltacli.storage.local import LocalStore
from tests.rows import multiset
from tests.sharing.client import client, rows_of, table
from tests.sharing.serving import Server, one_share, serving, shared
from tests.test_golden import GOLDEN, READABLE, load

pytestmark = pytest.mark.xdist_group("sharing_client")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """All tables of other writers, by names without what no name of a table has."""
    tables = [shared(called(one), GOLDEN / one) for one in READABLE if isinstance(one, str)]
    with serving(one_share(*tables)) as server:
        yield server


def called(name: str) -> str:
    return re.sub("[^A-Za-z0-9_-]", "_", name)


@pytest.mark.parametrize("name", READABLE)
def test_rows_of_other_writers_tables_are_the_same_shared(
    name: str, server: Server, tmp_path: Path
) -> None:
    """In both formats, one after the other and in pages, read at once and downloaded."""
    expected = expected_rows(name)
    refused = []
    for formats in (("parquet",), ("delta",)):
        asking = client(server, formats, page_size=2)
        try:
            version = open_version(asking, table(called(name)), Query(NEWEST))
        except Refused:
            # What the parquet format cannot tell is refused; the delta format tells all.
            refused.append(formats)
            continue
        if not isinstance(expected, dict):
            with pytest.raises(DeltaCliError):
                rows_of(version)
            continue
        assert multiset(rows_of(version)) == expected
        for kind in ("delta", "parquet"):
            target = tmp_path / f"{formats[0]}-{kind}"
            plan = plan_download(asking, table(called(name)), NEWEST, str(target), kind)
            apply_download(plan, 0)
            assert multiset(downloaded(target, kind)) == expected
    assert not isinstance(expected, dict) or ("delta",) not in refused


def expected_rows(name: str) -> Any:
    """The rows of a table read directly, or the kind of error that this is."""
    try:
        return multiset(rows_of(load(name)))
    except DeltaCliError as error:
        return type(error)


def downloaded(target: Path, kind: str) -> list[dict[str, Any]]:
    if kind == "delta":
        return rows_of(load_snapshot(LocalStore(str(target)), LocalEngine))
    from pyarrow import parquet

    found = []
    for path in target.iterdir():
        found += parquet.read_table(path).to_pylist()
    return found
