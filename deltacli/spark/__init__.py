"""The Spark engine: rows, and tables that outgrow one machine. The only room with PySpark."""
