"""The program: a lazy Typer group, and the one place where errors become text and exit codes."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any, NoReturn

from deltacli import __version__
from deltacli.errors import DeltaCliError, StorageError, UsageError


def main() -> NoReturn:
    """The console script."""
    if sys.getfilesystemencoding().lower() != "utf-8" and "utf8" not in sys._xoptions:
        # Whatever the locale says, the log's names of files are UTF-8.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    # Nearly all that is made stays until the end: looking for garbage all the time is in vain.
    gc.set_threshold(100_000, 50, 100)
    if isinstance(sys.stdout, TextIOWrapper):
        # As all results are written, whatever the environment says.
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    # systemd and Kubernetes stop a job so; it ends as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run(sys.argv[1:])
    # Nothing is worth taking apart at the end either.
    gc.freeze()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing is raised."""
    arguments = list(arguments)
    # Streams that the caller closed: talk goes nowhere, and never to the other stream.
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        closed = StorageError(
            "standard output is closed", hint="name a place: > FILE, or > /dev/null"
        )
        return _report(closed, arguments)
    try:
        try:
            return _run_command(arguments)
        finally:
            # Here, not at interpreter exit, so that failures to write are seen.
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # The reader has all it wanted (`| head`); rich ends the program itself then.
        _silence(sys.stdout)
        return 0
    except DeltaCliError as error:
        return _report(error, arguments)
    except OSError as error:
        _silence(sys.stdout)
        from deltacli.cli.failure import failure_of, folder_is_gone

        if folder_is_gone():
            return _report(failure_of(error), arguments)
        failure = StorageError(
            f"cannot write standard output: {error.strerror}",
            hint="check the place and the space there",
        )
        failure.__cause__ = error
        return _report(failure, arguments)
    except (Exception, KeyboardInterrupt) as error:
        from deltacli.cli.failure import failure_of

        return _report(failure_of(error), arguments)


def _run_command(arguments: list[str]) -> int:
    if arguments in (["--version"], ["-V"]):
        print(f"deltacli {__version__}")
        return 0
    from typer import Abort, Exit
    from typer._click.exceptions import ClickException, NoArgsIsHelpError

    from deltacli.cli.group import application

    try:
        with application().make_context("deltacli", _rearranged(arguments)) as context:
            context.command.invoke(context)
    except NoArgsIsHelpError as error:
        print(error.format_message())
        return 2
    except ClickException as error:
        raise _usage_error(error, _rearranged(arguments)) from error
    except Exit as error:
        return int(error.exit_code)
    except (Abort, EOFError):
        raise KeyboardInterrupt from None
    return 0


def _rearranged(arguments: list[str]) -> list[str]:
    """`help CMD` as `CMD --help`, and common options before the command moved behind it."""
    from deltacli.cli.registry import BY_NAME, GROUP_BY_NAME

    if arguments[:1] == ["help"]:
        return [*arguments[1:], "--help"]
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        takes_value = arguments[position] in _VALUE_OPTIONS
        position += 2 if takes_value else 1
    before, end = arguments[:position], position
    while " ".join(arguments[position:end]) in ("", *GROUP_BY_NAME) and end < len(arguments):
        end += 1
    if before and " ".join(arguments[position:end]) in BY_NAME:
        return [*arguments[position:end], *before, *arguments[end:]]
    return arguments


_VALUE_OPTIONS = ("-o", "--output", "--output-file", "--fields", "--tz", "--storage-option")


# What the option parser says, for people who do not write Python.
_WORDS = {
    "is not a valid int range": "is no whole number",
    "is not a valid int": "is no whole number",
    "values: , ": "values: ",
}


def _command_in(arguments: list[str]) -> str:
    """The program with the command that a line names; the parser does not always tell."""
    from deltacli.cli.registry import BY_NAME, GROUP_BY_NAME

    words: list[str] = []
    for one in arguments:
        if " ".join((*words, one)) not in (*BY_NAME, *GROUP_BY_NAME):
            break
        words.append(one)
    return " ".join(("deltacli", *words))


def _usage_error(error: Any, arguments: list[str]) -> UsageError:
    context = getattr(error, "ctx", None)
    where = context.command_path if context else _command_in(arguments)
    # As our own messages are written.
    message = " ".join(error.format_message().split()).removesuffix(".")
    message = message[:1].lower() + message[1:]
    for theirs, ours in _WORDS.items():
        message = message.replace(theirs, ours)
    param = getattr(error, "param", None)
    if context and param is not None and param.name in context.params:
        param = None
    variable = getattr(param, "envvar", None)
    if variable and os.environ.get(variable):
        message = f"the environment variable {variable}: {message}"
    return UsageError(message, hint=f"see `{where} --help`")


def _report(error: DeltaCliError, arguments: Sequence[str]) -> int:
    if _asks_for(arguments, "--debug", env="DELTACLI_DEBUG"):
        import traceback

        from deltacli.units import without_secrets

        print(without_secrets("".join(traceback.format_exception(error))), file=sys.stderr)
    from deltacli.cli.failure import failure_text

    text = failure_text(error, as_json=_wants_json(arguments))
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr)
    return error.exit_code


def _asks_for(arguments: Sequence[str], flag: str, *, env: str) -> bool:
    before_end = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return flag in before_end or os.environ.get(env, "").lower() in ("1", "true", "yes")


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether the command line asks for JSON, told without parsing it: it may not parse."""
    formats = [os.environ.get("DELTACLI_OUTPUT", "")]
    for position, one in enumerate(arguments):
        if one == "--output" and position + 1 < len(arguments):
            formats.append(arguments[position + 1])
        elif one.startswith("--output="):
            formats.append(one.removeprefix("--output="))
        elif bundle := re.fullmatch(r"-[a-zA-Z]*?o(.*)", one):
            following = arguments[position + 1 : position + 2]
            formats.append(bundle[1] or "".join(following))
    return formats[-1] in ("json", "jsonl")


def _silence(stream: Any) -> None:
    """Let the interpreter's last flush go nowhere."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, stream.fileno())
    except (OSError, ValueError):
        pass
