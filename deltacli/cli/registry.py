"""The commands: where each lives and what one line says of it. Nothing is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandRow:
    name: str
    module: str
    panel: str
    help: str


COMMANDS: tuple[CommandRow, ...] = (
    CommandRow("history", "history", "Inspect", "Show a table's commits, newest first."),
    CommandRow("snapshot", "snapshot", "Inspect", "Show the state of a table at a version."),
    CommandRow("validate", "validate", "Inspect", "Check tables against the whole protocol."),
    CommandRow("head", "head", "Inspect", "Show some rows of a table at a version."),
    CommandRow("checkpoint", "checkpoint", "Maintain", "Write a checkpoint; clean up the log."),
    CommandRow("vacuum", "vacuum", "Maintain", "Delete files that no kept version needs."),
    CommandRow("widen-type", "widen_type", "Change", "Widen the types of columns."),
    CommandRow("completion", "completion", "Set up", "Print the completion script of a shell."),
    CommandRow("doctor", "doctor", "Set up", "Show versions, engines and storage drivers."),
)
BY_NAME = {row.name: row for row in COMMANDS}
