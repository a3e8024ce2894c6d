"""drcrm NAME: what is done with a log of one's own, or a step of the pipeline, as Snakemake's rules run it."""

import os
import sys

if __name__ == "__main__" and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]  # python -m drcrm: a json.py beside a log must not be imported in place of Python's

import argparse
from importlib import import_module
from inspect import cleandoc
from typing import NoReturn

from drcrm import __version__
from drcrm.errors import InputError, escape_unprintable
from drcrm.experiments.locks import hold
from drcrm.kernels import choose_kernels
from drcrm.progress import show_progress

PROGRESS = "If standard error is a terminal, the command shows there what it is doing and how much is left."
COMMANDS = {
    "learn": "learn a policy from a log, and say whether it is better than the one that logged",
    "evaluate_policy": "estimate what a policy would have cost, and whether a log can tell",
    "certify": "bound what a policy costs, with a stated probability",
    "diagnose": "say what is wrong with a log",
    "predict": "choose actions by a learned policy",
}
STEPS = {
    "check": "check a configuration, and that it has an experiment",
    "fetch": "fetch a data set's files, check their content and store them as arrays",
    "fetch_file": "fetch a file as it is, and check its digest",
    "split": "draw the contexts that train π0, and those held out",
    "log_crf": "train the logging policy π0 on its share of the contexts",
    "skyline": "train the skyline on full supervision",
    "replay": "log the actions of π0 on the training contexts: supervised data turned into bandit feedback",
    "cost_model": "fit a model of the cost to a log, for doubly robust estimates",
    "fit": "fit an algorithm along its grid and score every fit on the held-out part",
    "classify": "classify logged actions weighted by their rewards, in place of a fit, for one action of K",
    "evaluate": "measure the losses of all policies of one run on the test contexts",
    "collect": "gather the metrics of an experiment's runs in one table",
    "provenance": "note what code, packages and options an experiment's metrics come from",
    "tables": "turn an experiment's metrics into the paper's tables",
    "overview": "draw how far each algorithm comes from CIPS to full supervision",
    "figures": "draw the figures of an experiment",
    "theory": "tabulate what a lemma of the paper says of losses whose law is known",
    "theory_figure": "draw such a table",
}


class Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the arguments."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {escape_unprintable(message)}\n")


def home(name: str):
    """Return the module of a command or a step, whose ``run`` does the work; importing it takes a command a second."""
    if name in STEPS:
        return import_module(f"drcrm.experiments.steps.{name}")
    with show_progress() as tell:
        tell(f"loading {name}")
        return import_module(f"drcrm.cli.{name}")


def parser(step: str) -> argparse.ArgumentParser:
    """Return the parser of a command or a step, without importing what only the work of a command needs."""
    if step in COMMANDS:
        declare = getattr(import_module("drcrm.cli.arguments"), step)
        description, epilog = cleandoc(declare.__doc__ or ""), PROGRESS
    else:
        declare, description, epilog = home(step).add_arguments, home(step).__doc__, None
    made = Parser(f"drcrm {step}", None, description, epilog, formatter_class=argparse.RawDescriptionHelpFormatter)
    declare(made)
    return made


def _listed(summaries: dict[str, str]) -> str:
    width = max(map(len, [*COMMANDS, *STEPS]))
    return "\n".join(f"  {name:{width}}  {summary}" for name, summary in summaries.items())


def main(arguments: list[str]) -> int:
    """Run a command or a step; what cannot be used is a line on stderr, the exit status 1 (2 for wrong arguments)."""
    # Before numpy is imported: with two threads of BLAS a small fit takes several times as long as with one.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    choose_kernels(os.environ)
    chooser = Parser(
        prog="drcrm",
        description="What is done with logs, and the pipeline's steps; NAME --help says what one reads and writes.",
        epilog=f"logs:\n{_listed(COMMANDS)}\n\nsteps of the pipeline, in order:\n{_listed(STEPS)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="drcrm NAME …",
    )
    chooser.add_argument("step", metavar="NAME", choices=[*COMMANDS, *STEPS], help="one of those below")
    chooser.add_argument("--version", action="version", version=f"drcrm {__version__}")
    step = chooser.parse_args(arguments[:1]).step
    try:
        options = parser(step).parse_args(arguments[1:])
        if lock := os.environ.get("DRCRM_LOCK"):  # of the run that this is a job of
            hold(lock)
        home(step).run(options)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] == "drcrm":
            raise
        chooser.error(f"{step} needs {error.name}: pip install 'drcrm[{'logs' if step in COMMANDS else 'pipeline'}]'")
    except (InputError, OSError, MemoryError) as error:
        for each in error.args if isinstance(error, InputError) else [error]:
            print(f"drcrm {step}: {escape_unprintable(each) or 'out of memory'}", file=sys.stderr)
        return 1
    return 0


def command() -> NoReturn:
    """Run the installed command."""
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("drcrm: interrupted")


if __name__ == "__main__":
    command()
