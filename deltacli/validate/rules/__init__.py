"""The rules, a module for each family of ids."""
