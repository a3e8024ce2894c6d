"""The configuration, checked, and what rules look up in it."""

import json
import os
import subprocess
import sys
from shlex import quote

# As a module of another workflow, the project is not where workflow.basedir says.
PROJECT = Path(os.path.abspath(str(workflow.current_basedir))).parents[1]
SOURCE = PROJECT / "src"
sys.path.insert(0, str(SOURCE))
sys.path.insert(0, os.getcwd())  # one's own risks, as `python -m` finds them in a job

from drcrm.pipeline import lookups
from drcrm.errors import InputError
from drcrm.locks import hold
from drcrm.pipeline.config import left_out, unknown_experiment
from drcrm.pipeline.config_files import completed
from drcrm.pipeline.dependencies import source_files
from drcrm.pipeline.records import made_otherwise
from drcrm.pipeline.screen import headline, install, unusable
from drcrm.pipeline.sources import Source, local_contents, read_record
from drcrm.registry import BASELINE, LOSSES, find_estimator
from drcrm.report.style import FIGURE_TITLES, LEMMA_FIGURES

LOCK = ".snakemake/drcrm.lock"  # of a run and of its jobs, in the working folder

# Not by configfile, which is passed over in a module that is given its config.
try:
    merged, config = completed(PROJECT, config, workflow.overwrite_configfiles)
except InputError as error:
    sys.exit(str(error))

environment = {
    "PYTHONPATH": quote(str(SOURCE)),
    "DRCRM_MIRROR": quote(config["mirror"] or ""),
    "DRCRM_LOCK": LOCK,
    # Memory of arrays is kept for the next ones (by glibc), not returned to the system after each.
    "MALLOC_MMAP_THRESHOLD_": 2**25,
    "MALLOC_TRIM_THRESHOLD_": 2**30,
}
ORIGIN = str(workflow.modifier.modify_path("resources/{dataset}/origin.json"))  # in a module, under its prefix
REPORT = str(workflow.modifier.modify_path("results/{experiment}/report.html"))
FOR_REPORT = any(each.partition("=")[0] == "--report" for each in sys.argv)
RUN = "results/{experiment}/runs/{dataset}/seed{seed}"


def drcrm(wildcards, output):
    """The command before a step's name. What asks for the output is not compared between runs: the mirror may change.

    A report has it beside each caption, as a person would write it.
    """
    given = {} if FOR_REPORT else environment
    return " ".join([*(f"{name}={value}" for name, value in given.items()), "python -m drcrm"])


def local_path(path):
    """A file of the project as an input, from the working folder: where both move, nothing is run again."""
    return local(os.path.relpath(path))


def drcrm_anew(wildcards, output):
    """The command of a step that changes what an experiment's report shows: an old report does not stay beside it."""
    removal = "" if FOR_REPORT else f"rm -f {quote(REPORT.format(experiment=wildcards.experiment))} && "
    return removal + drcrm(wildcards, output)


def code(step):
    """The source files a step runs."""
    return [local_path(path) for path in source_files(step, SOURCE / "drcrm")]


def option(key):
    """A lookup of an option in the experiment of a job."""
    return lambda wildcards: config["experiments"][wildcards.experiment][key]


def report_command(name):
    """How the report of an experiment is asked for."""
    given = " ".join(quote(os.path.relpath(path)) for path in workflow.overwrite_configfiles)
    return f"make report EXPERIMENT={name}" + (f" CONFIG={quote(given)}" if given else "")


def succeeds(*command):
    """Whether a command succeeds; what it says is dropped."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.run(command, **quiet, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
