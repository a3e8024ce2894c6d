"""The command ``drcrm NAME``: run a command for logs (``drcrm.cli``), or check experiments."""

import os
import sys

if __name__ == "__main__" and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]  # python -m drcrm: a json.py next to a log must not replace Python's

import argparse
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from drcrm import __version__
from drcrm.cli.arguments import COMMANDS
from drcrm.errors import InputError, escape_unprintable
from drcrm.kernels import choose_kernels
from drcrm.progress import show_progress

THREAD_VARIABLES = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"
PROGRESS = "On a terminal, the command shows on standard error what it is doing and how much is left."
CHECK = {"check": "check the configuration of experiments before they run"}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are a single line."""

    def error(self, message: str) -> NoReturn:
        """Print a message and exit with status 2."""
        self.exit(2, f"{self.prog}: {escape_unprintable(message)}\n")


def import_command(name: str) -> ModuleType:
    """Import the module of a command, whose ``run`` does the work. A command takes about a second."""
    if name in CHECK:
        return import_module(f"drcrm.experiments.{name}")
    with show_progress() as report:
        report(f"loading {name}")
        return import_module(f"drcrm.cli.{name}")


def command_parser(name: str) -> Parser:
    """Return the parser of a command. For a command on logs, nothing heavy is imported."""
    if name in COMMANDS:
        add_arguments, description, epilog = COMMANDS[name].add_arguments, COMMANDS[name].description, PROGRESS
    else:
        step = import_command(name)
        add_arguments, description, epilog = step.add_arguments, step.__doc__ or "", ""
    parser = Parser(f"drcrm {name}", None, description, epilog, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    return parser


def main_parser() -> Parser:
    """Return the parser of the name of a command."""
    parser = Parser(
        prog="drcrm",
        description="Learn and evaluate policies from logs, and check experiments. NAME --help describes a command.",
        epilog=f"commands for logs:\n{_list_names({name: command.summary for name, command in COMMANDS.items()})}\n\n"
        f"experiments:\n{_list_names(CHECK)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="drcrm NAME …",
    )
    parser.add_argument("name", metavar="NAME", choices=[*COMMANDS, *CHECK], help="a name from the lists below")
    parser.add_argument("--version", action="version", version=f"drcrm {__version__}")
    return parser


def _list_names(summaries: Mapping[str, str]) -> str:
    width = max(map(len, [*COMMANDS, *CHECK]))
    return "\n".join(f"  {name:{width}}  {summary}" for name, summary in summaries.items())


def main(arguments: list[str]) -> int:
    """Run a command and return the exit status.

    Invalid input is reported in one line on standard error with status 1, or 2 for invalid arguments.
    """
    for variable in THREAD_VARIABLES:  # before numpy is imported: small fits are several times faster with one thread
        os.environ.setdefault(variable, "1")
    choose_kernels(os.environ)
    parser = main_parser()
    name = parser.parse_args(arguments[:1]).name
    try:
        options = command_parser(name).parse_args(arguments[1:])
        import_command(name).run(options)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "drcrm":
            raise
        extra = "logs" if name in COMMANDS else "pipeline"
        parser.error(f"{name} needs {error.name}: pip install 'drcrm[{extra}]'")
    except (InputError, OSError, MemoryError) as error:
        for message in error.args if isinstance(error, InputError) else [error]:
            print(f"drcrm {name}: {escape_unprintable(message) or 'out of memory'}", file=sys.stderr)
        return 1
    return 0


def command() -> NoReturn:
    """Run the installed command ``drcrm``."""
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("drcrm: interrupted")


if __name__ == "__main__":
    command()
