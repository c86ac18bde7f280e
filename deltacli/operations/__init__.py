"""Use cases: each takes values and gives a value; none prints."""
