"""The program: a lazy Typer group, and the one place where errors become text and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from deltacli import __version__
from deltacli.errors import DeltaCliError, UsageError

INTERRUPTED = 130
BUG = 70


def main() -> NoReturn:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing is raised."""
    arguments = list(arguments)
    if arguments in (["--version"], ["-V"]):
        print(f"deltacli {__version__}")
        return 0
    try:
        try:
            return _run_command(arguments)
        finally:
            # Here, not at interpreter exit, so that a closed pipe is seen.
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader has all it wanted (`| head`).
        _silence(sys.stdout)
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except DeltaCliError as error:
        return _report(error, arguments)
    except Exception as error:
        bug = DeltaCliError(
            f"{type(error).__name__}: {error}",
            hint="this is a bug in deltacli; --debug shows where. Please report it",
        )
        bug.__cause__ = error
        return _report(bug, arguments)


def _run_command(arguments: list[str]) -> int:
    from typer._click.exceptions import ClickException, NoArgsIsHelpError
    from typer.exceptions import Abort, Exit

    from deltacli.cli.group import application

    try:
        with application().make_context("deltacli", _rearranged(arguments)) as context:
            context.command.invoke(context)
    except NoArgsIsHelpError as error:
        print(error.format_message())
        return 2
    except ClickException as error:
        raise _usage_error(error) from error
    except Exit as error:
        return int(error.exit_code)
    except (Abort, EOFError):
        raise KeyboardInterrupt from None
    return 0


def _rearranged(arguments: list[str]) -> list[str]:
    """`help CMD` as `CMD --help`, and common options before the command moved behind it."""
    from deltacli.cli.registry import BY_NAME

    if arguments[:1] == ["help"]:
        return [*arguments[1:], "--help"]
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        takes_value = arguments[position] in _VALUE_OPTIONS
        position += 2 if takes_value else 1
    if 0 < position < len(arguments) and arguments[position] in BY_NAME:
        command, before, after = arguments[position], arguments[:position], arguments[position + 1 :]
        return [command, *before, *after]
    return arguments


_VALUE_OPTIONS = ("-o", "--output", "--output-file", "--fields", "--tz", "--storage-option")


def _usage_error(error: Any) -> UsageError:
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "deltacli"
    return UsageError(error.format_message(), hint=f"see `{where} --help`")


def _report(error: DeltaCliError, arguments: Sequence[str]) -> int:
    from deltacli.cli.session import printable

    if _asks_for(arguments, "--debug", env="DELTACLI_DEBUG"):
        import traceback

        traceback.print_exception(error)
    if _wants_json(arguments):
        from deltacli.delta import json_text

        body = {
            "error": type(error).__name__,
            "message": error.message,
            "hint": error.hint,
            "exitCode": error.exit_code,
            "location": error.location,
        }
        print(json_text.dump(body).decode("utf-8", "replace"), file=sys.stderr)
    else:
        print(f"error: {printable(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"hint: {printable(error.hint)}", file=sys.stderr)
    return error.exit_code


def _asks_for(arguments: Sequence[str], flag: str, *, env: str) -> bool:
    before_end = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return flag in before_end or os.environ.get(env, "").lower() in ("1", "true", "yes")


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, told without parsing it: it may not parse."""
    formats = [os.environ.get("DELTACLI_OUTPUT", "")]
    for position, one in enumerate(arguments):
        if one in ("-o", "--output") and position + 1 < len(arguments):
            formats.append(arguments[position + 1])
        elif one.startswith("--output="):
            formats.append(one.removeprefix("--output="))
        elif one.startswith("-o") and len(one) > 2:
            formats.append(one[2:])
    return formats[-1] in ("json", "jsonl")


def _silence(stream: Any) -> None:
    """Let the interpreter's last flush go nowhere."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream.fileno())
    except (OSError, ValueError):
        pass
