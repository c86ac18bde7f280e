"""Real Delta Spark, driven as a process of its own: a job a line in, an answer a line out.

Runs with the Python that has PySpark, not with that of the tests.
"""

from __future__ import annotations

import glob
import json
import os
import re
import sys
from typing import Any

# A full code cache is reported on stdout, which carries the answers.
JVM = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+DisplayVMOutputToStderr "
    "-XX:+UseSerialGC -Duser.timezone=UTC -Xlog:disable"
)


def open_session(jars: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.master": "local[2]",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.extraClassPath": ":".join(
            path for folder in jars.split(":") for path in sorted(glob.glob(f"{folder}/*.jar"))
        ),
        "spark.driver.extraJavaOptions": JVM,
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.databricks.delta.snapshotPartitions": "1",
        # Vacuum would list with ten thousand tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        # Small data: interpreting is faster than compiling.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # Rows are counted from the files, not from statistics.
        "spark.databricks.delta.optimizeMetadataQuery.enabled": "false",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def state(spark: Any, path: str) -> dict[str, Any]:
    """The snapshot as Delta Spark sees it, and the rows it reads."""
    jvm = spark._jvm
    none = jvm.scala.Option.empty()
    log_type = jvm.org.apache.spark.sql.delta.DeltaLog
    log_type.invalidateCache(spark._jsparkSession, jvm.org.apache.hadoop.fs.Path(path))
    snapshot = log_type.forTable(spark._jsparkSession, path).update(False, none, none)
    lines = snapshot.allFiles().toJSON().collectAsList()
    adds = [json.loads(line) for line in lines]
    apps, domains = snapshot.setTransactions(), snapshot.domainMetadata()
    found = {
        "version": snapshot.version(),
        "protocol": json.loads(snapshot.protocol().json()),
        "metadata": json.loads(snapshot.metadata().json()),
        "files": sorted(json.dumps(one, sort_keys=True) for one in adds),
        "tombstones": sorted(
            json.loads(line)["path"] for line in snapshot.tombstones().toJSON().collectAsList()
        ),
        "txns": sorted(apps.apply(i).json() for i in range(apps.size())),
        "domains": sorted(domains.apply(i).json() for i in range(domains.size())),
    }
    try:
        found["rows"] = spark.read.format("delta").load(path).count()
    except Exception as error:
        found["rows"] = reason(error)
    return found


def reason(error: Exception) -> str:
    """Why Spark could not do it, without the names of this run's objects."""
    return re.sub(r"\bo[0-9]+\.", "", str(error).split("\n")[0])[:60]


def sql(spark: Any, *statements: str) -> None:
    for statement in statements:
        spark.sql(statement)


def query(spark: Any, text: str) -> list[str]:
    """The rows of an answer as JSON, sorted."""
    return sorted(spark.sql(text).toJSON().collect())


def read(spark: Any, path: str, **options: str) -> list[str]:
    """The rows of a shared table as JSON."""
    frame = spark.read.format("deltaSharing").options(**options).load(path)
    return list(frame.toJSON().collect())


def stream(spark: Any, path: str, folder: str, **options: str) -> list[str]:
    """All that a stream of a shared table brought into a folder so far, with what is new."""
    frame = spark.readStream.format("deltaSharing").options(**options).load(path)
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/sink")
    )
    query.awaitTermination()
    return list(spark.read.schema(frame.schema).parquet(f"{folder}/sink").toJSON().collect())


def main() -> None:
    spark = open_session(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        try:
            if job["op"] == "state":
                answer: Any = state(spark, job["path"])
            elif job["op"] == "query":
                answer = query(spark, job["text"])
            elif job["op"] == "read":
                answer = read(spark, job["path"], **job["options"])
            elif job["op"] == "stream":
                answer = stream(spark, job["path"], job["folder"], **job["options"])
            else:
                answer = sql(spark, *job["statements"])
        except Exception as error:
            answer = {"error": reason(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
