"""Paimon tables: schema files, their evolution, and what still needs them."""
