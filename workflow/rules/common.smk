"""The configuration, checked, and what rules look up in it."""

import os
import sys
from shlex import quote

import yaml

SOURCE = Path(workflow.basedir) / "src"
sys.path.insert(0, str(SOURCE))

from drcrm.pipeline.config import complete
from drcrm.errors import InputError
from drcrm.pipeline.dependencies import source_files
from drcrm.report.style import FIGURES, SELECTIONS, dataset_label

SCHEMA = Path(workflow.basedir) / "workflow/schemas/config.schema.yaml"


configfile: Path(workflow.basedir) / "config.yaml"


try:
    config.update(complete(config, yaml.safe_load(SCHEMA.read_text())))
except InputError as error:
    sys.exit(str(error))

environment = {
    "PYTHONPATH": quote(str(SOURCE)),
    # The mirror is no parameter of a rule: the data are the same from anywhere, and fetched files stay.
    "DRCRM_MIRROR": quote(config["mirror"] or ""),
    # Memory of arrays is kept for the next ones (by glibc), not returned to the system after each.
    "MALLOC_MMAP_THRESHOLD_": 2**25,
    "MALLOC_TRIM_THRESHOLD_": 2**30,
}
exports = " ".join(f"{name}={value}" for name, value in environment.items())
shell.prefix(f"set -euo pipefail; export {exports}; ")

RUN = "results/{experiment}/runs/{dataset}/seed{seed}"


def code(step):
    """The source files a step runs, from the working folder: where both move, nothing is run again."""
    return [os.path.relpath(path) for path in source_files(step, SOURCE / "drcrm")]


def of(key):
    """A lookup of an option in the experiment of a job."""
    return lambda wildcards: config["experiments"][wildcards.experiment][key]
