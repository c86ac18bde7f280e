"""A log replayed in the plainest way, by other code than the product's, and by every route."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

State = dict[str, Any]
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(\.[0-9a-f-]{36})?\.(parquet|json)")
# What rewriting makes up.
_NEW = re.compile(r"part-\d{5}-[0-9a-f-]{36}")


def replayed(table: Path) -> State:
    """The newest state; all routes to it agree, and commits have no gap."""
    log = table / "_delta_log"
    commits = {int(m[1]): one for one in log.iterdir() if (m := _COMMIT.fullmatch(one.name))}
    bases = {one: int(m[1]) for one in log.iterdir() if (m := _CHECKPOINT.fullmatch(one.name))}
    newest = max([*commits, *bases.values()])
    assert sorted(commits) == list(range(min(commits), newest + 1)), "the commits have a gap"
    routes = []
    if 0 in commits:
        routes.append(_after(_empty(), commits, range(newest + 1)))
    for base, version in bases.items():
        if all(one in commits for one in range(version + 1, newest + 1)):
            routes.append(_after(_at(base), commits, range(version + 1, newest + 1)))
    assert routes, "no version can be read"
    assert all(one == routes[0] for one in routes), "the routes disagree"
    return {**routes[0], "version": newest}


def rows_of(table: Path, state: State) -> int:
    """How many rows its files have; every one of them is there."""
    return sum(pq.ParquetFile(table / path).metadata.num_rows for path, _ in state["files"])


def named_alike(state: State) -> State:
    """The state with made-up names and statistics that are free left out."""
    files = sorted(
        (_NEW.sub("new", path), vector, value["dataChange"] and None, str(value["partitionValues"]))
        for (path, vector), value in state["files"].items()
    )
    return {**state, "files": files}


def _empty() -> State:
    return {"files": {}, "metaData": None, "protocol": None, "txn": {}, "domainMetadata": {}}


def _at(base: Path) -> State:
    rows = _rows(base)
    for sidecar in [row["sidecar"]["path"] for row in rows if row.get("sidecar")]:
        rows += _rows(base.parent / "_sidecars" / sidecar)
    state = _empty()
    for row in rows:
        if not row.get("remove"):
            _apply(state, row)
    return state


def _rows(path: Path) -> list[State]:
    if path.suffix == ".json":
        return [json.loads(line) for line in path.read_text().splitlines() if line]
    return pq.read_table(path).to_pylist(maps_as_pydicts="strict")


def _after(state: State, commits: dict[int, Path], versions: range) -> State:
    for version in versions:
        for line in commits[version].read_text().splitlines():
            _apply(state, json.loads(line))
    return state


def _apply(state: State, action: State) -> None:
    for kind, body in action.items():
        if not body:
            continue
        body = _without_nulls(body)
        if kind in ("add", "remove"):
            vector = body.get("deletionVector")
            key = (body["path"], vector and (vector["storageType"], vector["pathOrInlineDv"]))
            state["files"].pop(key, None)
            if kind == "add":
                state["files"][key] = {
                    "size": body["size"],
                    "partitionValues": body.get("partitionValues") or {},
                    "dataChange": False,
                    "baseRowId": body.get("baseRowId"),
                }
        elif kind == "txn":
            state["txn"][body["appId"]] = body["version"]
        elif kind == "domainMetadata":
            state["domainMetadata"].pop(body["domain"], None)
            if not body["removed"]:
                state["domainMetadata"][body["domain"]] = body["configuration"]
        elif kind == "protocol":
            state["protocol"] = {
                key: sorted(value) if isinstance(value, list) else value
                for key, value in body.items()
            }
        elif kind == "metaData":
            body = {**body, "schemaString": json.loads(body["schemaString"])}
            body["format"] = body["format"]["provider"]
            state["metaData"] = {"configuration": {}, "partitionColumns": [], **body}


def _without_nulls(body: State) -> State:
    return {key: value for key, value in body.items() if value is not None}
