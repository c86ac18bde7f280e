"""Static completion scripts: pressing TAB starts no Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from deltacli.cli.registry import GROUP_BY_NAME, GroupRow, below
from deltacli.cli.tree import Command, Parameter

_NOTE = "Made from the command tree by docs/generate.py; do not edit."
# What is completed by names of files and folders, by how it is called in usage lines.
_PLACES = ("TABLE", "FOLDER", "FILE")


def script(shell: str, tree: Sequence[Command]) -> str:
    """The completion script of bash, zsh or fish."""
    return _SCRIPTS[shell](tree)


def bash(tree: Sequence[Command]) -> str:
    lines = [f"# {_NOTE}", "_deltacli() {"]
    names = [*GROUP_BY_NAME, *(one.name for one in tree)]
    lines += [
        '    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
        '    local command="" word',
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        f'        case "${{command:+$command }}$word" in {"|".join(map(_bash_word, names))}) '
        'command="${command:+$command }$word";; esac',
        "    done",
        '    case "$command:$prev" in',
    ]
    for command in tree:
        for option in command.options:
            if option.takes_value:
                own = "|".join(_bash_word(f"{command.name}:{name}") for name in option.names)
                lines.append(f"        {own}) {_bash_values(option)} return;;")
    lines += ["    esac", '    case "$command" in']
    for group in ("", *GROUP_BY_NAME):
        words = [one.name.split()[-1] for one in below(group)]
        words += ["--help"] if group else ["--help", "--version"]
        lines.append(f"        {_bash_word(group)}) {_words(' '.join(words))};;")
    for command in tree:
        lines.append(f"        {_bash_word(command.name)})")
        options = " ".join(name for one in command.options for name in one.names)
        lines.append(f'            if [[ "$cur" == -* ]]; then {_words(options)}')
        choices = " ".join(word for one in command.arguments for word in one.choices)
        has_place = any(map(_is_place, command.arguments))
        rest = _words(choices) if choices else _BASH_FILES if has_place else _BASH_NOTHING
        lines.append(f"            else {rest}; fi;;")
    lines += ["    esac", "}", "complete -o filenames -F _deltacli deltacli", ""]
    return "\n".join(lines)


def _bash_word(text: str) -> str:
    return f'"{text}"' if " " in text or not text else text


_BASH_NOTHING = "COMPREPLY=()"
_BASH_FILES = 'mapfile -t COMPREPLY < <(compgen -f -- "$cur")'


def _words(words: str) -> str:
    return f'COMPREPLY=($(compgen -W "{words}" -- "$cur"))'


def _bash_values(option: Parameter) -> str:
    if option.choices:
        return f"{_words(' '.join(option.choices))};"
    if _is_place(option):
        return f"{_BASH_FILES};"
    return f"{_BASH_NOTHING};"


def _is_place(parameter: Parameter) -> bool:
    return parameter.metavar.strip("[].") in _PLACES


def zsh(tree: Sequence[Command]) -> str:
    lines = ["#compdef deltacli", f"# {_NOTE}", ""]
    by_name = {one.name: one for one in tree}
    for group in (*reversed(GROUP_BY_NAME), ""):
        lines += _zsh_group(group, by_name)
    lines += ['if [ "$funcstack[1]" = "_deltacli" ]; then']
    lines += ['  _deltacli "$@"', "else", "  compdef _deltacli deltacli", "fi", ""]
    return "\n".join(lines)


def _zsh_group(group: str, tree: Mapping[str, Command]) -> list[str]:
    """The function that completes the commands of a group; the root's name is empty."""
    rows = below(group)
    lines = [f"{_zsh_function(group)}() {{", "  local -a commands", "  commands=("]
    lines += [f"    {_zsh_quote(f'{one.name.split()[-1]}:{one.help}')}" for one in rows]
    lines += [
        "  )",
        "  local context state state_descr line",
        "  typeset -A opt_args",
        "  _arguments -C \\",
        "    '(- *)'{-h,--help}'[Show this message and exit.]' \\",
    ]
    lines += [] if group else ["    '(- *)'{-V,--version}'[Show the version.]' \\"]
    lines += [
        "    '1: :->command' \\",
        "    '*:: :->arguments'",
        "  case $state in",
        "    command) _describe -t commands 'deltacli command' commands ;;",
        "    arguments)",
        "      case $words[1] in",
    ]
    for row in rows:
        lines.append(f"        {row.name.split()[-1]})")
        if isinstance(row, GroupRow):
            lines.append(f"          {_zsh_function(row.name)} ;;")
            continue
        command = tree[row.name]
        lines.append("          _arguments -s \\")
        specs = [spec for option in command.options for spec in _zsh_option(option)]
        specs += map(_zsh_argument, count(1), command.arguments)
        lines += [f"            {spec} \\" for spec in specs[:-1]]
        lines += [f"            {specs[-1]} ;;"]
    return [*lines, "      esac ;;", "  esac", "}", ""]


def _zsh_function(group: str) -> str:
    return "_".join(["_deltacli", *group.split()])


def _zsh_option(option: Parameter) -> list[str]:
    star = "*" if "repeated" in option.help else f"({' '.join(option.names)})"
    value = ""
    if option.takes_value:
        action = f"({' '.join(option.choices)})" if option.choices else ""
        action = "_files" if _is_place(option) else action
        value = f":{option.metavar.lower().replace(':', ' ')}:{action or ' '}"
    text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    return [_zsh_quote(f"{star}{name}[{text}]{value}") for name in option.names]


def _zsh_argument(position: int, argument: Parameter) -> str:
    action = " "
    if argument.choices:
        action = f"({' '.join(argument.choices)})"
    elif _is_place(argument):
        action = "_files"
    where = "*" if argument.metavar.endswith("...") else str(position)
    return _zsh_quote(f"{where}:{argument.metavar.lower()}:{action}")


def _zsh_quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def fish(tree: Sequence[Command]) -> str:
    lines = [f"# {_NOTE}", "complete -c deltacli -f"]
    for group in ("", *GROUP_BY_NAME):
        words = " ".join(one.name.split()[-1] for one in below(group))
        within = _fish_seen(group)
        within += f"{'; and ' if within else ''}not __fish_seen_subcommand_from {words}"
        for row in below(group):
            lines.append(
                f"complete -c deltacli -n '{within}' -a {row.name.split()[-1]} "
                f"-d {_fish_quote(row.help)}"
            )
        if not group:
            lines.append(
                f"complete -c deltacli -n '{within}' -l version -s V -d 'Show the version.'"
            )
    for command in tree:
        seen = f"complete -c deltacli -n '{_fish_seen(command.name)}'"
        lines += [f"{seen} {_fish_option(option)}" for option in command.options]
        for argument in command.arguments:
            choices = " ".join(argument.choices)
            if choices:
                lines.append(f"{seen} -a '{choices}'")
            elif _is_place(argument):
                lines.append(f"{seen} -F")
    return "\n".join([*lines, ""])


def _fish_seen(name: str) -> str:
    """The condition that all words of a name were typed."""
    return "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())


def _fish_option(option: Parameter) -> str:
    parts = []
    for name in option.names:
        parts.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
    if option.takes_value:
        parts.append("-r -F" if _is_place(option) else "-x")
        if option.choices:
            parts.append(f"-a '{' '.join(option.choices)}'")
    parts.append(f"-d {_fish_quote(option.help)}")
    return " ".join(parts)


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: dict[str, Callable[[Sequence[Command]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
