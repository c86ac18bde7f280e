"""`deltacli completion`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from deltacli.cli.options import CommonOptions

COMMON = ("output_file", "debug")
EXAMPLES = (
    ("source <(deltacli completion bash)", "in ~/.bashrc"),
    ("source <(deltacli completion zsh)", "in ~/.zshrc, after compinit"),
    ("deltacli completion fish | source", "in ~/.config/fish/config.fish"),
)


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    options: CommonOptions,
    shell: Annotated[
        Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)
    ],
) -> None:
    """Print the completion script of a shell.

    The script is static: pressing TAB starts no Python. The package installs the same
    scripts below share/ of its prefix.
    """
    from deltacli.cli.completions import script
    from deltacli.cli.session import Session
    from deltacli.cli.tree import command_tree

    Session(options).show_text(script(shell.value, command_tree()))
