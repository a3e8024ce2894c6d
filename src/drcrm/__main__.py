"""drcrm STEP: one step of the pipeline, run by hand or by a Snakemake rule."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import NoReturn

from drcrm import __version__
from drcrm.errors import InputError, printable
from drcrm.kernels import choose_kernels
from drcrm.locks import hold

STEPS = {
    "check": "check a configuration, and that it has an experiment",
    "fetch": "fetch a data set's files, check their content and store them as arrays",
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
        self.exit(2, f"{self.prog}: {printable(message)}\n")


def parser(step: str) -> argparse.ArgumentParser:
    """The command line of a step: its module's docstring says what it reads and writes."""
    module = import_module(f"drcrm.pipeline.steps.{step}")
    made = Parser(
        prog=f"drcrm {step}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(made)
    return made


def main(arguments: list[str]) -> int:
    """Run a step; each input that cannot be used is a line on stderr, the exit status 1 (2 for wrong arguments)."""
    # Before numpy is imported: with two threads of BLAS a small fit takes several times as long as with one.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    choose_kernels(os.environ)
    width = max(map(len, STEPS))
    chooser = Parser(
        prog="drcrm",
        description="The steps of the pipeline, in order (drcrm STEP --help says what one reads and writes):",
        epilog="\n".join(f"  {name:{width}}  {summary}" for name, summary in STEPS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="drcrm STEP --option …",
    )
    chooser.add_argument("step", metavar="STEP", choices=STEPS, help="one of those below")
    chooser.add_argument("--version", action="version", version=f"drcrm {__version__}")
    step = chooser.parse_args(arguments[:1]).step
    try:
        options = parser(step).parse_args(arguments[1:])
        if lock := os.environ.get("DRCRM_LOCK"):  # of the run that this is a job of
            hold(lock)
        import_module(f"drcrm.pipeline.steps.{step}").run(options)
    except ModuleNotFoundError as error:
        if error.name.partition(".")[0] == "drcrm":
            raise
        chooser.error(f"{step} needs {error.name}: pip install 'drcrm[pipeline]'")
    except (InputError, OSError, MemoryError) as error:
        for each in error.args if isinstance(error, InputError) else [error]:
            print(f"drcrm {step}: {printable(each) or 'out of memory'}", file=sys.stderr)
        return 1
    return 0


def command() -> NoReturn:
    """The installed command; a risk of one's own is found in the working folder, as by ``python -m drcrm``."""
    sys.path.insert(0, "")
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("drcrm: interrupted")


if __name__ == "__main__":
    command()
