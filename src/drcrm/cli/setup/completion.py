"""``drcrm completion``: print a script that completes commands, options and their choices in a shell."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

from drcrm.cli.arguments import COMMANDS, Command

BASH = """\
_drcrm() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} words=
    case "$COMP_CWORD ${{COMP_WORDS[1]}} $previous" in
        "1 "*) words={commands} ;;
{choices}
        *) case "${{COMP_WORDS[1]}} $word" in
{options}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _drcrm drcrm
"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def run(options: argparse.Namespace) -> None:
    """Run the command."""
    print(FORMATS[options.shell](), end="")


def _flags(command: Command) -> dict[str, dict]:
    """Return the settings of a command's options for argparse, without the positional arguments."""
    return {flag: settings for flag, settings in command.options if flag.startswith("-")}


def _choices() -> Iterator[tuple[str, str, list[str]]]:
    """Yield a command, one of its arguments and the choices of the argument."""
    for name, command in COMMANDS.items():
        for argument, settings in command.options:
            if choices := settings.get("choices"):
                yield name, argument, list(choices)


def _bash() -> str:
    """Return the script for bash. If no word fits, bash completes file names."""
    choices = []
    for name, argument, values in _choices():
        previous = argument if argument.startswith("-") else name
        choices.append(f'        *" {name} {previous}") words={shlex.quote(" ".join(values))} ;;')
    flags = {name: shlex.quote(" ".join(_flags(command))) for name, command in COMMANDS.items()}
    options = [f'            "{name} -"*) words={words} ;;' for name, words in flags.items()]
    commands = shlex.quote(" ".join(COMMANDS))
    return BASH.format(commands=commands, choices="\n".join(choices), options="\n".join(options))


def _fish() -> str:
    """Return the script for fish."""
    lines = []
    for name, command in COMMANDS.items():
        lines.append(f"-f -n __fish_use_subcommand -a {name} -d {shlex.quote(command.summary)}")
        for flag, settings in _flags(command).items():
            value = "" if settings.get("action") == "store_true" else "-r "
            lines.append(_fish_line(name, f"-l {flag[2:]} {value}-d {shlex.quote(settings['help'])}"))
    for name, argument, values in _choices():
        option = f"-x -l {argument[2:]}" if argument.startswith("-") else "-f"
        lines.append(_fish_line(name, f"{option} -a {shlex.quote(' '.join(values))}"))
    return "".join(f"complete -c drcrm {line}\n" for line in lines)


def _fish_line(name: str, rest: str) -> str:
    return f"-n '__fish_seen_subcommand_from {name}' {rest}"


FORMATS = {"bash": _bash, "zsh": lambda: ZSH + _bash(), "fish": _fish}
