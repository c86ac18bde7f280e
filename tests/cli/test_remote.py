"""The same commands on tables that are not local."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltacli.storage import LogStore, open_store
from tests.conftest import ROOT, Result
from tests.s3 import S3_OPTIONS, s3_store

ORDERS = ROOT / "examples" / "orders"
# What depends on the place and on the files' times.
OF_THE_PLACE = ("location", "lastModified")


def upload(store: LogStore) -> None:
    for path in sorted(ORDERS.rglob("*")):
        if path.is_file():
            store.put(str(path.relative_to(ORDERS)), path.read_bytes())


@pytest.fixture(params=["s3", "fsspec"])
def remote(request: pytest.FixtureRequest) -> list[str]:
    """The URL of the sample table on a store, with the options to reach it."""
    if request.param == "fsspec":
        store = open_store(f"memory://{uuid.uuid4().hex}")
        upload(store)
        return [store.location]
    endpoint = request.getfixturevalue("s3_endpoint")
    store = s3_store(endpoint, uuid.uuid4().hex)
    upload(store)
    options = {**S3_OPTIONS, "endpoint_url": endpoint}
    flags = [word for pair in options.items() for word in ("--storage-option", "=".join(pair))]
    return [store.location, *flags]


def without_place(value: Any) -> Any:
    if isinstance(value, list):
        return [without_place(one) for one in value]
    if isinstance(value, dict):
        return {k: without_place(v) for k, v in value.items() if k not in OF_THE_PLACE}
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        ["snapshot"],
        ["snapshot", "--at", "9"],
        ["snapshot", "--at", "2026-03-09"],
        ["snapshot", "--files"],
        ["snapshot", "--partitions"],
        ["snapshot", "--diff", "4"],
        ["history"],
        ["history", "--limit", "3", "--chart"],
    ],
)
def test_a_remote_table_reads_like_the_local_one(
    deltacli: Callable[..., Result], remote: list[str], arguments: list[str]
) -> None:
    command, *more = arguments
    here = deltacli(command, ORDERS, *more, "-q", "-o", "json")
    there = deltacli(command, *remote, *more, "-q", "-o", "json")
    assert (here.code, there.code) == (0, 0)
    assert without_place(there.json) == without_place(here.json)


def test_what_is_not_there_is_no_table(
    deltacli: Callable[..., Result], remote: list[str], tmp_path: Path
) -> None:
    url, *flags = remote
    result = deltacli("snapshot", f"{url}/nothing", *flags)
    assert result.code == 3
    assert "not a Delta table" in result.stderr


def test_wrong_credentials_or_buckets_are_storage_errors(
    deltacli: Callable[..., Result], s3_endpoint: str
) -> None:
    flags = [
        word
        for pair in {**S3_OPTIONS, "endpoint_url": s3_endpoint}.items()
        for word in ("--storage-option", "=".join(pair))
    ]
    result = deltacli("snapshot", "s3://no-such-bucket/t", *flags)
    assert result.code in (3, 7)
    assert result.stderr.startswith("error: ")
    result = deltacli("snapshot", "s3://tables/t", *flags, "--storage-option", "bogus=1")
    assert result.code == 2
