"""The protocol as checks: rules, what they look at, and the run that brings both together."""
