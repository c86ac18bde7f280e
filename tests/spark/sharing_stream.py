"""Reads a shared table as a stream into a folder, again and again, until it is told to stop.

python sharing_stream.py ADDRESS FOLDER OPTIONS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from deltacli.sharing import datasource
from deltacli.spark.session import SparkSettings, open_session


def main(address: str, folder: Path, options: dict[str, str]) -> None:
    spark = open_session(SparkSettings("local[2]"))
    datasource.register(spark)
    while True:
        is_last = (folder / "stop").exists()
        stream = spark.readStream.format(datasource.NAME).options(**options).load(address)
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / "sink"))
        )
        query.awaitTermination()
        if is_last:
            return


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))
