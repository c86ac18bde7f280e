"""The rules of Paimon tables, one module a family."""
