"""`share head` and `share changes --rows`: rows of shared tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltacli.delta.arrow_types import NoArrowType, arrow_type
from deltacli.delta.scan import chosen_columns
from deltacli.delta.schema import Struct
from deltacli.local.scan import read_rows
from deltacli.operations.head import HeadPlan, HeadRequest, plan_head, rows_of, show_head
from deltacli.operations.records import Listing
from deltacli.operations.share_client import Wish, open_wished
from deltacli.sharing.client.address import TableAddress
from deltacli.sharing.client.rows import SharedVersion, open_changes
from deltacli.sharing.client.server import At, Range, SharingServer
from deltacli.sharing.source.parts import with_changes

if TYPE_CHECKING:
    from deltacli.spark.session import SparkSettings


@dataclass(frozen=True)
class SharedHeadPlan:
    """Which rows of a shared version are read, by whom and why."""

    version: SharedVersion
    plan: HeadPlan

    @property
    def engine(self) -> str:
        return self.plan.engine

    @property
    def reason(self) -> str:
        return self.plan.reason


def plan_shared_head(
    server: SharingServer, table: TableAddress, at: At, request: HeadRequest, engine: str
) -> SharedHeadPlan:
    version, _ = open_wished(server, table, at, Wish(request.where, request.limit))
    for field in chosen_columns(version.schema, request.columns).fields:
        # Rows come through Arrow, whoever reads them.
        arrow_type(field.type)
    return SharedHeadPlan(version, plan_head(version, request, engine, {}))


def show_shared_head(plan: SharedHeadPlan, settings: Callable[[], SparkSettings]) -> Listing:
    def frame(spark: Any, _: HeadPlan) -> Any:
        from deltacli.sharing.datasource import read_version

        return read_version(spark, plan.version, _readable(plan.version.schema))

    return show_head(plan.plan, settings, frame)


def _readable(schema: Struct) -> Struct:
    """The columns that have an Arrow type: a condition of Spark's may look at any of them."""
    found = []
    for field in schema.fields:
        with contextlib.suppress(NoArrowType):
            arrow_type(field.type)
            found.append(field)
    return Struct(tuple(found))


def show_changed_rows(server: SharingServer, table: TableAddress, asked: Range) -> Listing:
    """The rows that commits changed, by the newest columns."""
    changes = open_changes(server, table, asked)
    wanted = with_changes(changes.schema)
    names = tuple(one.name for one in wanted.fields)

    def batches() -> Iterator[Any]:
        for files, one in changes.scan():
            yield from read_rows(files, [one], wanted)

    return Listing(rows_of(batches()), names, names, "changes", is_data=True)


__all__ = ["plan_shared_head", "show_changed_rows", "show_shared_head"]
