"""Static completion scripts: pressing TAB starts no Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deltacli.cli.tree import Command, Parameter

_NOTE = "Made from the command tree by docs/generate.py; do not edit."
_FILE_OPTIONS = ("--output-file",)


def script(shell: str, tree: Sequence[Command]) -> str:
    """The completion script of bash, zsh or fish."""
    return _SCRIPTS[shell](tree)


def bash(tree: Sequence[Command]) -> str:
    lines = [f"# {_NOTE}", "_deltacli() {"]
    lines += [
        '    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
        '    local command="" word',
        '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
        f'        case "$word" in {"|".join(one.name for one in tree)}) '
        'command="$word"; break;; esac',
        "    done",
        '    case "$command:$prev" in',
    ]
    for command in tree:
        for option in command.options:
            if option.takes_value:
                names = "|".join(f"{command.name}:{name}" for name in option.names)
                lines.append(f"        {names}) {_bash_values(option)} return;;")
    lines += ["    esac", '    case "$command" in']
    top = " ".join([*(one.name for one in tree), "--help", "--version"])
    lines.append(f'        "") {_words(top)};;')
    for command in tree:
        lines.append(f"        {command.name})")
        options = " ".join(name for one in command.options for name in one.names)
        lines.append(f'            if [[ "$cur" == -* ]]; then {_words(options)}')
        choices = " ".join(word for one in command.arguments for word in one.choices)
        rest = _words(choices) if choices else _BASH_FILES
        lines.append(f"            else {rest}; fi;;")
    lines += ["    esac", "}", "complete -o filenames -F _deltacli deltacli", ""]
    return "\n".join(lines)


_BASH_FILES = 'mapfile -t COMPREPLY < <(compgen -f -- "$cur")'


def _words(words: str) -> str:
    return f'COMPREPLY=($(compgen -W "{words}" -- "$cur"))'


def _bash_values(option: Parameter) -> str:
    if option.choices:
        return f"{_words(' '.join(option.choices))};"
    if _is_file(option):
        return f"{_BASH_FILES};"
    return "COMPREPLY=();"


def _is_file(option: Parameter) -> bool:
    return any(name in _FILE_OPTIONS for name in option.names)


def zsh(tree: Sequence[Command]) -> str:
    lines = ["#compdef deltacli", f"# {_NOTE}", "", "_deltacli() {", "  local -a commands"]
    lines.append("  commands=(")
    lines += [f"    {_zsh_quote(f'{one.name}:{one.summary}')}" for one in tree]
    lines += [
        "  )",
        "  local context state state_descr line",
        "  typeset -A opt_args",
        "  _arguments -C \\",
        "    '(- *)'{-h,--help}'[Show this message and exit.]' \\",
        "    '(- *)'{-V,--version}'[Show the version.]' \\",
        "    '1: :->command' \\",
        "    '*:: :->arguments'",
        "  case $state in",
        "    command) _describe -t commands 'deltacli command' commands ;;",
        "    arguments)",
        "      case $words[1] in",
    ]
    for command in tree:
        lines.append(f"        {command.name})")
        lines.append("          _arguments -s \\")
        specs = [spec for option in command.options for spec in _zsh_option(option)]
        specs += [_zsh_argument(argument) for argument in command.arguments]
        lines += [f"            {spec} \\" for spec in specs[:-1]]
        lines += [f"            {specs[-1]} ;;"]
    lines += ["      esac ;;", "  esac", "}", "", 'if [ "$funcstack[1]" = "_deltacli" ]; then']
    lines += ['  _deltacli "$@"', "else", "  compdef _deltacli deltacli", "fi", ""]
    return "\n".join(lines)


def _zsh_option(option: Parameter) -> list[str]:
    star = "*" if "repeated" in option.help else f"({' '.join(option.names)})"
    value = ""
    if option.takes_value:
        action = f"({' '.join(option.choices)})" if option.choices else ""
        action = "_files" if _is_file(option) else action
        value = f":{option.metavar.lower().replace(':', ' ')}:{action or ' '}"
    text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
    return [_zsh_quote(f"{star}{name}[{text}]{value}") for name in option.names]


def _zsh_argument(argument: Parameter) -> str:
    action = f"({' '.join(argument.choices)})" if argument.choices else "_files"
    return _zsh_quote(f"1:{argument.metavar.lower()}:{action}")


def _zsh_quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def fish(tree: Sequence[Command]) -> str:
    names = " ".join(one.name for one in tree)
    lines = [f"# {_NOTE}", "complete -c deltacli -f"]
    for command in tree:
        lines.append(
            f"complete -c deltacli -n '__fish_use_subcommand' -a {command.name} "
            f"-d {_fish_quote(command.summary)}"
        )
    lines.append(
        f"complete -c deltacli -n 'not __fish_seen_subcommand_from {names}' "
        "-l version -s V -d 'Show the version.'"
    )
    for command in tree:
        seen = f"complete -c deltacli -n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{seen} {_fish_option(option)}" for option in command.options]
        for argument in command.arguments:
            choices = " ".join(argument.choices)
            lines.append(f"{seen} -a '{choices}'" if choices else f"{seen} -F")
    return "\n".join([*lines, ""])


def _fish_option(option: Parameter) -> str:
    parts = []
    for name in option.names:
        parts.append(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}")
    if option.takes_value:
        parts.append("-r -F" if _is_file(option) else "-x")
        if option.choices:
            parts.append(f"-a '{' '.join(option.choices)}'")
    parts.append(f"-d {_fish_quote(option.help)}")
    return " ".join(parts)


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: dict[str, Callable[[Sequence[Command]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}
