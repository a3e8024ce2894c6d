"""The command ``drcrm NAME``: run a command for logs."""

import os
import sys

if __name__ == "__main__" and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]  # the working folder, with python -m drcrm: a json.py in it must not replace Python's module

import argparse
from collections.abc import Callable
from importlib import import_module
from io import TextIOWrapper
from typing import NoReturn

from drcrm import __version__
from drcrm.errors import InputError, escape_unprintable
from drcrm.logs.cli.arguments import COMMANDS
from drcrm.progress import show_progress

THREAD_VARIABLES = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are a single line."""

    def error(self, message: str) -> NoReturn:
        """Print a message and exit with status 2."""
        self.exit(2, f"{self.prog}: {escape_unprintable(message)}\n")


def main_parser() -> Parser:
    """Return the parser of all commands. It imports nothing heavy, so that --help is fast."""
    parser = Parser(
        prog="drcrm",
        description="Learn and evaluate policies from logs. `drcrm NAME --help` describes a command.",
        usage="drcrm NAME …",
    )
    parser.add_argument("--version", action="version", version=f"drcrm {__version__}")
    commands = parser.add_subparsers(title="commands", dest="name", metavar="NAME", required=True, prog="drcrm")
    for name, command in COMMANDS.items():
        of_command = commands.add_parser(
            name,
            help=command.description.partition("\n")[0],
            description=command.description,
            epilog=command.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for flag, settings in command.options:
            of_command.add_argument(flag, **settings)
    return parser


def import_command(name: str) -> Callable[..., int | None]:
    """Return the function of a command. The import of its module takes about a second."""
    with show_progress() as report:
        report(f"loading {name}")
        return getattr(import_module(f"drcrm.logs.cli.{COMMANDS[name].module}"), name)


def main(arguments: list[str]) -> int:
    """Run a command and return the exit status.

    Invalid input is reported in one line on standard error with status 1, or 2 for invalid arguments. Commands with
    --fail-unless may return 3 or 4.
    """
    for variable in THREAD_VARIABLES:  # before numpy is imported: small fits are several times faster with one thread
        os.environ.setdefault(variable, "1")
    parser = main_parser()
    options = vars(parser.parse_args(arguments))
    name = options.pop("name")
    try:
        return import_command(name)(**options) or 0
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "drcrm":
            raise
        parser.error(f"{name} needs {error.name}: pip install 'drcrm[logs]'")
    except (InputError, OSError, MemoryError) as error:
        for message in error.args if isinstance(error, InputError) else [error]:
            print(f"drcrm {name}: {escape_unprintable(message) or 'out of memory'}", file=sys.stderr)
        return 1


def command() -> NoReturn:
    """Run the installed command ``drcrm``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # escape what another encoding than UTF-8 lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("drcrm: interrupted")


if __name__ == "__main__":
    command()
