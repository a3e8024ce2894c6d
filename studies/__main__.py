"""One study beside the experiments, by hand or by a Snakemake rule: python studies NAME --option …

A study of finished runs measures one at a time, then gathers the rows of all; one of samples makes its table at once,
and so does one of logs, of the files in a folder:

    python studies support --run RUN --resources RESOURCES --dataset scene --seed 0 --options JSON --output ROWS
    python studies support --rows ROWS … --output TABLE
    python studies coverage --options '{"repetitions": 2000}' --output TABLE
    python studies obd --resources resources/studies/obd --options JSON --output TABLE

RUN is the folder of a run (results/sharpness/runs/scene/seed0), RESOURCES that of its data set (resources/scene). The
options are those of config.yaml, with its entries of the algorithms that are fitted. What a table shows is printed.
What a study does, and its columns, the docstring of studies/NAME.py says.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path

from drcrm.errors import InputError
from drcrm.kernels import choose_kernels

OF_RUNS = "small_logs", "support"
OF_SAMPLES = (
    "audit_power",
    "coverage",
    "heavy_tails",
    "kinds",
    "null_verdicts",
    "policy_coverage",
    "sharp_coverage",
    "verdicts",
)
OF_LOGS = ("obd",)


def parser() -> argparse.ArgumentParser:
    from drcrm.experiments.steps import json_object, whole

    made = argparse.ArgumentParser("studies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("name", choices=OF_RUNS + OF_SAMPLES + OF_LOGS)
    made.add_argument("--run", type=Path, help="folder of a run, which has its π0")
    made.add_argument("--resources", type=Path, help="folder of its data set, or of a log's files")
    made.add_argument("--dataset", help="name of the data set")
    made.add_argument("--seed", type=whole(0), help="number of the run")
    made.add_argument("--rows", type=Path, nargs="+", metavar="CSV", help="of all runs, to be gathered")
    made.add_argument("--options", type=json_object, default={}, metavar="JSON")
    made.add_argument("--output", type=Path, required=True, metavar="CSV")
    return made


def main(arguments: list[str]) -> None:
    # Before numpy is imported: one thread, and the kernels of the pipeline's steps.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    choose_kernels(os.environ)
    given = parser().parse_args(arguments)
    study = import_module(given.name)
    import pandas as pd

    from drcrm.files import atomic, read_csv, write_csv, write_text

    if given.run:
        finished = import_module("finished")  # not imported by name: studies of samples do not depend on it
        run = finished.read_run(given.run, given.resources, given.dataset, given.seed)
        rows = pd.DataFrame(study.rows(run, **given.options))
        write_csv(given.output, list(rows.columns), rows.to_dict("records"))
        return
    if given.rows:
        write_text(given.output, gathered([path.read_text(encoding="utf-8") for path in given.rows]))
    else:
        files = {"resources": given.resources} if given.resources else {}
        with atomic(given.output) as part:
            study.table(**files, **given.options).to_csv(part, index=False, float_format="%.6g")
    print(study.summary(read_csv(given.output, [])))


def gathered(tables: list[str]) -> str:
    """Tables one below the other; InputError unless they have the same columns."""
    heads, bodies = zip(*(table.split("\n", 1) for table in tables), strict=True)
    if len({*heads}) > 1:
        raise InputError(f"rows of different columns: {'; '.join(dict.fromkeys(heads))}")
    return "\n".join([heads[0], "".join(bodies)])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (InputError, OSError) as error:
        sys.exit(f"studies: {error}")
