"""The command tree as plain values: what completions, man page and reference are made from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Parameter:
    """An option or argument. `choices` are the values of a closed set."""

    names: tuple[str, ...]
    metavar: str
    help: str
    is_argument: bool
    takes_value: bool
    choices: tuple[str, ...]
    default: str
    envvar: str
    panel: str
    required: bool


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    panel: str
    summary: str
    description: str
    examples: tuple[tuple[str, str], ...]
    parameters: tuple[Parameter, ...]

    @property
    def options(self) -> tuple[Parameter, ...]:
        return tuple(one for one in self.parameters if not one.is_argument)

    @property
    def arguments(self) -> tuple[Parameter, ...]:
        return tuple(one for one in self.parameters if one.is_argument)


def command_tree() -> tuple[Command, ...]:
    """All commands, imported and read from what Typer made of them."""
    from inspect import cleandoc

    from deltacli.cli.group import load_command
    from deltacli.cli.registry import COMMANDS

    commands = []
    for row in COMMANDS:
        module = import_module(f"deltacli.cli.commands.{row.module}")
        built = load_command(row)
        commands.append(
            Command(
                row.name,
                row.panel,
                row.help,
                cleandoc(getattr(module, row.module).__doc__ or ""),
                tuple(module.EXAMPLES),
                (*(_parameter(one) for one in built.params), _HELP),
            )
        )
    return tuple(commands)


_HELP = Parameter(
    ("--help", "-h"), "", "Show this message and exit.", False, False, (), "", "", "Options", False
)


def _parameter(built: Any) -> Parameter:
    is_argument = built.param_type_name == "argument"
    takes_value = is_argument or not built.is_flag
    names = (*built.opts, *built.secondary_opts)
    choices = tuple(str(getattr(one, "value", one)) for one in getattr(built.type, "choices", ()))
    default = built.default
    shows = takes_value and default not in (None, (), []) and not callable(default)
    return Parameter(
        tuple(sorted(names, key=len, reverse=True)) if not is_argument else (built.name,),
        (built.metavar or built.name.upper()) if takes_value else "",
        re.sub(r"\s+", " ", built.help or ""),
        is_argument,
        takes_value,
        choices,
        str(getattr(default, "value", default)) if shows else "",
        built.envvar or "",
        getattr(built, "rich_help_panel", None) or "Options",
        bool(built.required),
    )
