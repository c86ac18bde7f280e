"""The Delta transaction log protocol: values, and functions over a store and an engine."""
