"""The Typer tree, each command imported only when it is run."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deltacli import __version__
from deltacli.cli import help as help_text
from deltacli.cli.registry import CommandRow, GroupRow, below
from deltacli.errors import EXIT_CODES


class LazyGroup(TyperGroup):
    """Lists the commands from the registry; a command's module is imported to run it."""

    path = ""

    @property
    def _rows(self) -> dict[str, CommandRow | GroupRow]:
        return {row.name.split()[-1]: row for row in below(self.path)}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._rows)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        row = self._rows.get(cmd_name)
        if row is None:
            return None
        return load_group(row) if isinstance(row, GroupRow) else load_command(row)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # Typer proposes names only from its own table of commands.
        if args and args[0] not in self._rows and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], self._rows, n=1)
            suggestion = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{suggestion}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        help_text.write_parameters(self, ctx, formatter)
        widest = max(map(len, self._rows))
        # Within a group, what all its commands have in common says nothing.
        rows = [
            ("Commands" if self.path else row.panel, name.ljust(widest), row.help)
            for name, row in self._rows.items()
        ]
        if not self.path:
            rows += [("Exit codes", f"{code:3}", meaning) for code, meaning in EXIT_CODES]
        help_text.write_sections(formatter, rows)


@cache
def load_group(row: GroupRow) -> Any:
    """A group of commands, as lazy as the root."""
    kind = type("Group", (LazyGroup,), {"path": row.name})
    app = typer.Typer(
        cls=kind,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=help_text.SETTINGS,
    )

    @app.callback(help=row.help)
    def group() -> None:
        pass

    built = typer.main.get_command(app)
    built.name = row.name.split()[-1]
    return built


@cache
def load_command(row: CommandRow) -> Any:
    """The command of a registry row, as Typer builds it."""
    from deltacli.cli.options import ALL_COMMON, with_common_options
    from deltacli.render.formats import Format

    module = import_module(f"deltacli.cli.commands.{row.module}")
    common = getattr(module, "COMMON", ALL_COMMON)
    formats = getattr(module, "FORMATS", Format)
    callback = with_common_options(getattr(module, row.module), common, formats)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    word = row.name.split()[-1]
    single.command(
        word,
        cls=help_text.Command,
        help=_help_text(callback.__doc__ or "", getattr(module, "EXAMPLES", ())),
        short_help=row.help,
        context_settings=help_text.SETTINGS,
        rich_help_panel=row.panel,
    )(callback)
    command: Any = typer.main.get_command(single)
    command.name = word
    for parameter in command.params:
        if parameter.param_type_name == "option":
            # The reference lists the variables; in --help they would drown the text.
            parameter.show_envvar = False
            long_name = max(parameter.opts, key=len).removeprefix("--")
            own = f"DELTACLI_{row.name}_{long_name}".upper().replace("-", "_").replace(" ", "_")
            parameter.envvar = parameter.envvar or own
    return command


def _help_text(docstring: str, examples: tuple[tuple[str, str], ...]) -> str:
    """The docstring with its examples, one a line."""
    from inspect import cleandoc

    paragraphs = cleandoc(docstring).split("\n\n")
    text = "\n\n".join(" ".join(one.split()) for one in paragraphs)
    if examples:
        text += "\n\n\b\nExamples:"
        for line, note in examples:
            text += (f"\n  # {note}" if note else "") + f"\n  {line}"
    return text


def _show_version(asked: bool) -> None:
    if asked:
        print(f"deltacli {__version__}")
        raise typer.Exit


@cache
def application() -> Any:
    """The root command."""
    app = typer.Typer(
        cls=LazyGroup,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=help_text.SETTINGS,
    )

    @app.callback(help="Look after Delta Lake tables from the command line.")
    def root(
        version: Annotated[
            bool,
            typer.Option(
                "--version",
                "-V",
                callback=_show_version,
                is_eager=True,
                help="Show the version.",
            ),
        ] = False,
    ) -> None:
        pass

    return typer.main.get_command(app)
