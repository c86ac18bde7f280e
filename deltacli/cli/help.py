"""Help as plain text: the same on a terminal, on a pipe and in a log, and no name is cut."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand

# A name that is longer has its help on the line below.
_NAMES = 22
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Command(TyperCommand):
    """A command whose help has its options by panels."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        # What must be there stands there by its name alone.
        return [one.strip("{}") for one in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_parameters(self, ctx, formatter)


def write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    """The arguments and options of a command."""
    rows = []
    for one in command.get_params(ctx):
        record = one.get_help_record(ctx)
        if record is not None:
            own = "Arguments" if one.param_type_name == "argument" else "Options"
            rows.append((getattr(one, "rich_help_panel", None) or own, *record))
    write_sections(formatter, rows)


def write_sections(formatter: Any, rows: Iterable[tuple[str, str, str]]) -> None:
    """Rows of a panel, a name and a text, each panel under its title."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for panel, name, text in rows:
        sections.setdefault(panel, []).append((name, text))
    for panel, lines in sections.items():
        with formatter.section(panel):
            formatter.write_dl(lines, col_max=_NAMES)
