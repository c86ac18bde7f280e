"""The Spark engine: rows, and tables that outgrow one machine. The only room with PySpark.

from deltacli.spark import read, read_changes

read(spark, "s3://bucket/orders", at=42)
read_changes(spark, "s3://bucket/orders", 40, 42)
"""

from deltacli.spark.scan import read, read_changes

__all__ = ["read", "read_changes"]
