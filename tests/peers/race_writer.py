"""Writes to a table by deltalake until a moment: batches come, and some go; a line tells each.

python race_writer.py TABLE NUMBER SECONDS
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    table, number, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    end = time.monotonic() + seconds
    batch, mine = number, []
    while time.monotonic() < end:
        batch += 10
        rows = {
            "n": pa.array([batch * 100 + one for one in range(10)], pa.int64()),
            **{f"c{one}": pa.array([batch % 100] * 10, pa.int32()) for one in range(8)},
            "batch": pa.array([batch] * 10, pa.int64()),
        }
        job = {"op": "add", "batch": batch}
        try:
            write_deltalake(table, pa.table(rows), mode="append")
            mine.append(batch)
        except Exception as error:
            job["error"] = str(error)[:200]
        print(json.dumps(job), flush=True)
        if len(mine) > 3 and batch // 10 % 3 == 0:
            gone = mine.pop(0)
            job = {"op": "delete", "batch": gone}
            try:
                DeltaTable(table).delete(f"batch = {gone}")
            except Exception as error:
                job["error"] = str(error)[:200]
            print(json.dumps(job), flush=True)


if __name__ == "__main__":
    main()
