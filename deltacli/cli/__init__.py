"""Typer shells: parse, call, show."""
