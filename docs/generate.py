"""Writes what is made from the program, and the README's screens; `--check` only compares."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deltacli import __version__
from deltacli.cli.completions import script
from deltacli.cli.tree import Command, Parameter, command_tree
from deltacli.errors import EXIT_CODES
from deltacli.operations.any_table import BOOK

ROOT = Path(__file__).resolve().parent.parent


def generated(tree: Sequence[Command]) -> dict[Path, str]:
    """Each generated file with its content."""
    return {
        ROOT / "completions/deltacli.bash": script("bash", tree),
        ROOT / "completions/_deltacli": script("zsh", tree),
        ROOT / "completions/deltacli.fish": script("fish", tree),
        ROOT / "docs/deltacli.1": man_page(tree),
        ROOT / "docs/commands.md": reference(tree),
        ROOT / "docs/rules.md": rule_reference(),
        ROOT / "README.md": with_screens((ROOT / "README.md").read_text(encoding="utf-8")),
    }


_SCREEN = re.compile(r"(<!-- screen -->\n```text\n\$ deltacli (.+)\n)(?:.*\n)*?(```)")


def with_screens(text: str) -> str:
    """A text with what its screens show on a terminal of 80 columns."""
    return _SCREEN.sub(lambda one: f"{one[1]}{screen(one[2])}{one[3]}", text)


def screen(command: str) -> str:
    words = [sys.executable, "-m", "deltacli", *shlex.split(command), "-q", "-o", "table"]
    env = {**os.environ, "COLUMNS": "80", "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    # Where lines end depends on how long the place is, so it is always as long as another one.
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        shutil.copytree(ROOT / "examples", Path(place) / "examples")
        done = subprocess.run(words, cwd=place, env=env, capture_output=True, check=True)
        shown = done.stdout.decode().replace(place, "/home/ada/tables")
    return "".join(f"{line.rstrip()}\n" for line in shown.splitlines())


def reference(tree: Sequence[Command]) -> str:
    """The command reference in Markdown."""
    lines = ["# Commands", "", "Made from the program by `docs/generate.py`; do not edit.", ""]
    for command in tree:
        lines += [f"## deltacli {command.name}", "", f"    {_usage(command)}", ""]
        lines += [command.description, ""]
        lines += ["```sh"]
        lines += [f"{line}  # {note}" if note else line for line, note in command.examples]
        lines += ["```", ""]
        own = [one for one in command.parameters if one.panel != "Common options"]
        lines += _table(own)
        if command is tree[0]:
            lines += [
                "### Common options",
                "",
                "They stand on every command that has a use for them.",
                "",
            ]
            lines += _table([one for one in command.options if one.panel == "Common options"])
    lines += ["## Exit codes", "", "| code | meaning |", "| --- | --- |"]
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES]
    lines += ["", "Treat any other code as a failure.", ""]
    return "\n".join(lines)


def rule_reference() -> str:
    """The rules of `validate` in Markdown, family by family."""
    lines = [
        "# Rules",
        "",
        "What `deltacli validate` checks. Made from the program by `docs/generate.py`; do not",
        "edit. `deltacli validate --explain ID` shows the same page. An id is never given to",
        "another rule.",
        "",
        "| severity | means |",
        "| --- | --- |",
        "| error | the protocol is broken: readers fail, or return wrong rows |",
        "| warning | a recommendation is not kept, or there is a risk |",
        "| info | good to know |",
        "",
        "| level | looks at |",
        "| --- | --- |",
        "| log | the files of the log; all of a Paimon table |",
        "| files | what lies on storage, too |",
        "| footers | the footers of data files, too |",
        "| data | rows and deletion vectors, too |",
        "",
    ]
    for family, about in BOOK.families.items():
        lines += [f"## {family}: {about}", ""]
        for rule in (one for one in BOOK.rules if one.id.startswith(family)):
            page = rule.page
            lines += [f"### {rule.id} {rule.title}", ""]
            lines += [f"{rule.severity.value.capitalize()}, level {rule.level.label}.", ""]
            lines += [page.holds, "", f"Why: {page.why}", "", f"Fix: {page.fix}", ""]
    return "\n".join(lines)


def _table(parameters: Sequence[Parameter]) -> list[str]:
    lines = ["| option | meaning | environment |", "| --- | --- | --- |"]
    for one in parameters:
        names = ", ".join(f"`{name}`" for name in one.names) if not one.is_argument else ""
        value = f" `{one.metavar}`" if one.metavar else ""
        choices = f" One of {', '.join(one.choices)}." if one.choices else ""
        default = f" Default: {one.default}." if one.default else ""
        text = f"{one.help}{choices}{default}".replace("|", "\\|")
        environment = f"`{one.envvar}`" if one.envvar else ""
        lines.append(f"| {names}{value.replace('|', chr(92) + '|')} | {text} | {environment} |")
    return [*lines, ""]


def _usage(command: Command) -> str:
    arguments = " ".join(one.metavar for one in command.arguments)
    return f"deltacli {command.name} [OPTIONS] {arguments}".rstrip()


def man_page(tree: Sequence[Command]) -> str:
    """The man page in roff."""
    lines = [
        f'.TH DELTACLI 1 "" "deltacli {__version__}" "User Commands"',
        ".SH NAME",
        "deltacli \\- look after Delta Lake tables from the command line",
        ".SH SYNOPSIS",
        ".B deltacli",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH DESCRIPTION",
        "Reads the transaction log of Delta Lake tables, wherever they are, and shows their",
        "history and the state of any version. A table on a terminal, plain tab\\-separated",
        "lines on a pipe; JSON, JSON lines and CSV where asked for. Standard output carries the",
        "result and nothing else.",
        ".SH COMMANDS",
    ]
    for command in tree:
        lines += [f".SS {_roff(_usage(command))}", _roff(command.description.replace("\n\n", " "))]
        for one in command.parameters:
            if one.panel != "Common options":
                lines += _man_parameter(one)
    lines += [".SH COMMON OPTIONS", "They stand on every command that has a use for them."]
    for one in tree[0].options:
        if one.panel == "Common options":
            lines += _man_parameter(one)
    lines += [".SH EXAMPLES"]
    for command in tree:
        for line, note in command.examples:
            lines += [".TP", f".B {_roff(line)}", _roff(note or command.summary)]
    lines += [".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES:
        lines += [".TP", f".B {code}", _roff(meaning)]
    lines += [
        ".SH ENVIRONMENT",
        "Each option can be set by the variable named with it in brackets. NO_COLOR and",
        "FORCE_COLOR are honoured. Credentials are those of each cloud's own tools.",
        "",
    ]
    return "\n".join(lines)


def _man_parameter(one: Parameter) -> list[str]:
    names = one.metavar if one.is_argument else ", ".join(one.names)
    value = f" {one.metavar}" if one.metavar and not one.is_argument else ""
    choices = f" One of {', '.join(one.choices)}." if one.choices else ""
    default = f" Default: {one.default}." if one.default else ""
    environment = f" [{one.envvar}]" if one.envvar else ""
    return [".TP", f".B {_roff(names + value)}", _roff(one.help + choices + default + environment)]


def _roff(text: str) -> str:
    escaped = text.replace("`", "").replace("\\", "\\e").replace("-", "\\-").replace("\n", " ")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = []
    for path, content in generated(command_tree()).items():
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            stale.append(path.relative_to(ROOT))
            if not check:
                path.write_text(content, encoding="utf-8")
    for path in stale:
        print(f"{path} {'is stale: run python docs/generate.py' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
