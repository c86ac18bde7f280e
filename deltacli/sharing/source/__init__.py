"""What a Spark source of shared tables decides: options, offsets, files. It knows no PySpark."""
