"""The commands: where each lives and what one line says of it. Nothing is imported here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command; the words of its name before the last are those of its group."""

    name: str
    module: str
    panel: str
    help: str


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Commands whose names begin alike."""

    name: str
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
    CommandRow("share serve", "share_serve", "Share", "Serve tables to recipients."),
    CommandRow("share check", "share_check", "Share", "Open every shared table."),
    CommandRow(
        "share recipient add", "share_recipient_add", "Share", "Give a new recipient a profile."
    ),
    CommandRow("share recipient list", "share_recipient_list", "Share", "List the recipients."),
    CommandRow(
        "share recipient rotate", "share_recipient_rotate", "Share", "Give a recipient a new token."
    ),
    CommandRow(
        "share recipient revoke",
        "share_recipient_revoke",
        "Share",
        "Void a recipient's tokens.",
    ),
    CommandRow(
        "share recipient grant",
        "share_recipient_grant",
        "Share",
        "Grant or take back shares.",
    ),
    CommandRow("share shares", "share_shares", "Share", "List the shares of a profile."),
    CommandRow("share schemas", "share_schemas", "Share", "List the schemas of a share."),
    CommandRow("share tables", "share_tables", "Share", "List the tables of a profile."),
    CommandRow("share version", "share_version", "Share", "Show a shared table's version."),
    CommandRow("share metadata", "share_metadata", "Share", "Show a shared table's schema."),
    CommandRow("share files", "share_files", "Share", "List a shared table's files."),
    CommandRow("share changes", "share_changes", "Share", "Show what commits changed."),
    CommandRow("share head", "share_head", "Share", "Show some rows of a shared table."),
    CommandRow("share download", "share_download", "Share", "Copy a shared table to a folder."),
    CommandRow("paimon list", "paimon_list", "Paimon", "List the versions of a schema."),
    CommandRow("paimon show", "paimon_show", "Paimon", "Show a version of a schema."),
    CommandRow("paimon diff", "paimon_diff", "Paimon", "Compare two versions of a schema."),
    CommandRow("paimon validate", "paimon_validate", "Paimon", "Check schemas and their history."),
    CommandRow("paimon alter", "paimon_alter", "Paimon", "Change a schema."),
    CommandRow("paimon expire", "paimon_expire", "Paimon", "Delete schema files nobody needs."),
    CommandRow("paimon convert", "paimon_convert", "Paimon", "Convert from Delta, or to Delta."),
    CommandRow("completion", "completion", "Set up", "Print the completion script of a shell."),
    CommandRow("doctor", "doctor", "Set up", "Show versions, engines and storage drivers."),
)
BY_NAME = {row.name: row for row in COMMANDS}
GROUPS: tuple[GroupRow, ...] = (
    GroupRow("share", "Share", "Share tables, and read those of others, by Delta Sharing."),
    GroupRow("paimon", "Paimon", "Look after the schemas of Apache Paimon tables."),
    GroupRow("share recipient", "Share", "Look after those who may read shared tables."),
)
GROUP_BY_NAME = {row.name: row for row in GROUPS}


def below(group: str) -> tuple[CommandRow | GroupRow, ...]:
    """The commands and groups right below a group, in order; the root's name is empty."""
    found: dict[str, CommandRow | GroupRow] = {}
    for row in COMMANDS:
        if group and not row.name.startswith(f"{group} "):
            continue
        word, *rest = row.name.removeprefix(group).split()
        name = f"{group} {word}".strip()
        found.setdefault(name, GROUP_BY_NAME[name] if rest else row)
    return tuple(found.values())
