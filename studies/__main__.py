"""Run one study, by hand or from a Snakemake rule: python studies NAME --option …

A study of finished runs measures one run at a time and then joins the rows of all runs. The other studies write their
table at once: from samples that they draw, or from the files of a log in a folder.

    python studies support --run RUN --resources RESOURCES --dataset scene --seed 0 --options JSON --output ROWS
    python studies support --rows ROWS … --output TABLE
    python studies coverage --options '{"repetitions": 2000}' --output TABLE
    python studies obd --resources resources/studies/obd --options JSON --output TABLE

RUN is the folder of a run (results/sharpness/runs/scene/seed0), RESOURCES that of its data set (resources/scene). The
options are the study's entry in config.yaml, with the entries of its algorithms. The command prints the summary of the
table. The docstring of studies/NAME.py describes the study and its columns.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path

from drcrm.errors import InputError

STUDIES = (
    "anytime",
    "audit_power",
    "behaghel",
    "business_logs",
    "click_logs",
    "coverage",
    "epsilon_greedy",
    "estimate_coverage",
    "estimated_propensities",
    "guardrails",
    "heavy_tails",
    "kinds",
    "late_outcomes",
    "loop",
    "null_verdicts",
    "obd",
    "policy_coverage",
    "pooled_rounds",
    "sharp_coverage",
    "shift_accuracy",
    "shift_coverage",
    "shift_learning",
    "small_logs",
    "support",
    "unlogged_rules",
    "verdicts",
)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "studies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=STUDIES)
    parser.add_argument("--run", type=Path, help="folder of a finished run, with its logging policy")
    parser.add_argument("--resources", type=Path, help="folder of the run's data set, or of the files of a log")
    parser.add_argument("--dataset", help="name of the data set")
    parser.add_argument("--seed", type=int, help="number of the run")
    parser.add_argument("--rows", type=Path, nargs="+", metavar="CSV", help="tables of all runs, to be joined")
    parser.add_argument("--options", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("--output", type=Path, required=True, metavar="CSV")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    # numpy reads these variables when it is imported. A small fit is several times slower with two BLAS threads.
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    options = parse_arguments(arguments)
    study = import_module(options.name)
    import pandas as pd

    from drcrm.files import atomic, read_csv, write_csv, write_text

    if options.run:
        finished = import_module("finished")  # imported here, since only these studies depend on it
        run = finished.read_run(options.run, options.resources, options.dataset, options.seed)
        rows = pd.DataFrame(study.rows(run, **options.options))
        write_csv(options.output, list(rows.columns), rows.to_dict("records"))
        return
    if options.rows:
        write_text(options.output, join_tables([path.read_text(encoding="utf-8") for path in options.rows]))
    else:
        files = {"resources": options.resources} if options.resources else {}
        with atomic(options.output) as part:
            study.table(**files, **options.options).to_csv(part, index=False, float_format="%.6g")
    print(study.summary(read_csv(options.output, [])))


def join_tables(tables: list[str]) -> str:
    """Return the rows of all tables below one header; InputError if the headers differ."""
    headers, bodies = zip(*(table.split("\n", 1) for table in tables), strict=True)
    if len({*headers}) > 1:
        raise InputError(f"all tables must have the same columns, got {'; '.join(dict.fromkeys(headers))}")
    return "\n".join([headers[0], "".join(bodies)])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (InputError, OSError) as error:
        sys.exit(f"studies: {error}")
