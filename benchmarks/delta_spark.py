"""A job by Delta Spark as a whole process: `python delta_spark.py JARS JOB TABLE`.

Runs with the Python that has PySpark; `run.py --spark DIR` starts it.
"""

from __future__ import annotations

import glob
import sys
from typing import Any


def session(jars: str) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "10g",
        "spark.driver.extraClassPath": ":".join(sorted(glob.glob(f"{jars}/*.jar"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        # What is usual for one machine; the default of 50 is for clusters.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> None:
    jars, job, table = sys.argv[1:]
    spark = session(jars)
    if job == "history":
        spark.sql(f"DESCRIBE HISTORY delta.`{table}` LIMIT 10").collect()
    elif job == "detail":
        spark.sql(f"DESCRIBE DETAIL delta.`{table}`").collect()
    elif job == "vacuum":
        spark.sql(f"VACUUM delta.`{table}` DRY RUN").collect()
    else:
        log_type = spark._jvm.org.apache.spark.sql.delta.DeltaLog
        log = log_type.forTable(spark._jsparkSession, table)
        none = spark._jvm.scala.Option.empty()
        snapshot = log.update(False, none, none)
        if job == "checkpoint":
            log.checkpoint(snapshot, none)
        else:
            snapshot.allFiles().toDF().write().format("noop").mode("overwrite").save()


if __name__ == "__main__":
    main()
