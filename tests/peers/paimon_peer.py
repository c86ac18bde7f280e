"""The real pypaimon, driven as a process of its own: a job a line in, an answer out.

Runs with the Python that has pypaimon, not with that of the tests.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any


def catalog_of(warehouse: str) -> Any:
    from pypaimon import CatalogFactory

    catalog = CatalogFactory.create({"warehouse": warehouse})
    catalog.create_database("db", ignore_if_exists=True)
    return catalog


def rows_of(table: Any) -> list[dict[str, Any]]:
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    found = builder.new_read().to_arrow(splits)
    rows = [] if found is None else found.to_pylist()
    return sorted(rows, key=lambda row: json.dumps(row, default=str, sort_keys=True))


def do(job: dict[str, Any]) -> Any:
    catalog = catalog_of(job["warehouse"])
    name = f"db.{job['table']}"
    if job["do"] == "create":
        import pyarrow as pa
        from pypaimon import Schema

        columns = [pa.field(one, getattr(pa, kind)()) for one, kind in job["columns"]]
        schema = Schema.from_pyarrow_schema(
            pa.schema(columns), primary_keys=job.get("keys"), options=job.get("options") or {}
        )
        return catalog.create_table(name, schema, ignore_if_exists=False)
    table = catalog.get_table(name)
    if job["do"] == "rows":
        return rows_of(table)
    if job["do"] == "fields":
        return [[one.id, one.name, str(one.type)] for one in table.table_schema.fields]
    if job["do"] == "write":
        import pyarrow as pa
        from pypaimon.schema.data_types import PyarrowFieldParser

        wanted = PyarrowFieldParser.from_paimon_schema(table.table_schema.fields)
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(pa.Table.from_pylist(job["rows"], schema=wanted))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()
        return len(job["rows"])
    if job["do"] == "alter":
        from pypaimon.schema.schema_change import SchemaChange

        kind, *arguments = job["change"]
        return catalog.alter_table(name, [getattr(SchemaChange, kind)(*arguments)], False)
    raise ValueError(job["do"])


def main() -> None:
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        try:
            answer = {"ok": do(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
