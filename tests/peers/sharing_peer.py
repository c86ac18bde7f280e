"""The real delta-sharing client, driven as a process of its own: a job a line in, an answer out.

Runs with the Python that has the client, not with that of the tests.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any


def rows_of(frame: Any) -> list[str]:
    """The rows as sorted texts, so that their order does not count."""
    text = frame.to_json(orient="records", date_format="iso", date_unit="us", default_handler=str)
    return sorted(json.dumps(row, sort_keys=True) for row in json.loads(text))


def do(job: dict[str, Any]) -> Any:
    import delta_sharing

    url = f"{job['profile']}#{job['table']}"
    options = job.get("options", {})
    kind = job["do"]
    if kind == "direct":
        from deltalake import DeltaTable

        return rows_of(DeltaTable(options["path"], version=options["version"]).to_pandas())
    if kind == "list":
        client = delta_sharing.SharingClient(job["profile"])
        return sorted(f"{one.share}.{one.schema}.{one.name}" for one in client.list_all_tables())
    if kind == "names":
        client = delta_sharing.SharingClient(job["profile"])
        shares = client.list_shares()
        schemas = [one for share in shares for one in client.list_schemas(share)]
        tables = [one for schema in schemas for one in client.list_tables(schema)]
        return [len(shares), len(schemas), len(tables)]
    if kind == "version":
        return delta_sharing.get_table_version(url, **options)
    if kind == "metadata":
        return delta_sharing.get_table_metadata(url, **options).schema_string
    if kind == "changes":
        return rows_of(delta_sharing.load_table_changes_as_pandas(url, **options))
    frame = delta_sharing.load_as_pandas(url, **options)
    return len(frame) if kind == "count" else rows_of(frame)


def main() -> None:
    warnings.simplefilter("ignore")
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        try:
            answer = {"found": do(json.loads(line))}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:600]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
