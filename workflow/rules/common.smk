"""The configuration, checked, the environment of jobs, and what every rule looks up."""

import json
import os
import shutil
import sys
from math import ceil

# As a module of another workflow, the project is not where workflow.basedir says.
PROJECT = Path(os.path.abspath(str(workflow.current_basedir))).parents[1]
SOURCE = PROJECT / "src"
IS_MODULE = PROJECT != Path(os.path.abspath(workflow.basedir))
sys.path.insert(0, str(SOURCE))

from drcrm.errors import InputError
from drcrm.experiments import lookups, needs
from drcrm.experiments.config import project_config
from drcrm.experiments.dependencies import script_files, source_files
from drcrm.experiments.datasets.sources import Source, local_contents, read_record
from drcrm.reports.roles import BASELINE, LOSSES
from drcrm.reports.figures.style import FIGURE_TITLES, LEMMA_FIGURES

LOCK = ".snakemake/drcrm.lock"  # of a run and of its jobs, in the working folder
RUN = "results/{experiment}/runs/{dataset}/seed{seed}"
LOG = f"{RUN}/replay{{replays}}"

# Not by configfile, which is passed over in a module that is given its config.
try:
    merged, config = project_config(PROJECT, config, workflow.overwrite_configfiles)
except InputError as error:
    sys.exit(str(error))

# Jobs inherit it; those on a cluster set it again as they read this. In a module the environment is the other
# workflow's: there the command and its code are those that are installed.
if not IS_MODULE:
    os.environ |= {
        "PYTHONPATH": str(SOURCE),
        "DRCRM_LOCK": LOCK,
        # Memory of arrays is kept for the next ones (by glibc), not returned to the system after each.
        "MALLOC_MMAP_THRESHOLD_": str(2**25),
        "MALLOC_TRIM_THRESHOLD_": str(2**30),
    }
if not shutil.which("drcrm"):  # as where the virtual environment is not activated
    os.environ |= {"PATH": os.pathsep.join([*os.get_exec_path(), str(Path(sys.executable).parent)])}


def local_path(path):
    """A file of the project as an input, from the working folder: where both move, nothing is run again."""
    return local(os.path.relpath(path))


def code(step, package="experiments.steps"):
    """The source files that a step, or a command, runs."""
    return [local_path(path) for path in source_files(step, SOURCE / "drcrm", package)]


def option(key):
    """A lookup of an option in the experiment of a job."""
    return lambda wildcards: config["experiments"][wildcards.experiment][key]


def asked(step):
    """The memory and run time that a step's rule asks for, once more with each attempt."""

    def lookup(number):
        return lambda wildcards, attempt: needs.asked(config, step, wildcards, attempt)[number]

    return {"mem_mb": lookup(0), "runtime": lookup(1)}
