"""The embedded engine: pyarrow and a few threads."""
