"""What a run's steps asked for and used: python benchmarks/needs.py results/EXPERIMENT [--configfile FILE] [--cost]

Prints as Markdown, for each data set and step, the memory and time that its rule asks for beside the most that a job
of a finished or unfinished run used, from the benchmark files that Snakemake leaves beside the results. With --cost,
what the experiment costs on a cluster, where a run (data set, seed) is one job: jobs, core-hours, the longest job.

On a cluster a job holds its step and the two Snakemakes around it (AROUND_MB, AROUND_S): a ratio is what is asked over
both. Seconds are of CPU, as the machine may have had other work. `floor` marks what asks for the least that a step of a
run does, or that tables and figures do.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

PROJECT = Path(__file__).resolve().parents[1]
AROUND_MB = 250  # measured: the two Snakemakes around a step, what they share counted once (if twice: 336)
AROUND_S = 4  # measured: their start, and srun
RESULTS = "tables and figures"
LEAST, MOST = 1.3, 3  # between which the ratio is to be


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="results/EXPERIMENT")
    parser.add_argument("--configfile", type=Path, action="append", default=[], help="as given to snakemake")
    parser.add_argument("--experiment", help="another's jobs, measured by the folder's")
    parser.add_argument("--cost", action="store_true", help="jobs, core-hours and the longest job on a cluster")
    options = parser.parse_args(arguments)
    found = used(options.folder)
    if found.empty:
        sys.exit(f"{options.folder}: no benchmark files of a run")
    jobs = asked(options.experiment or options.folder.resolve().name, options.configfile).join(found)
    print(markdown(cost(jobs) if options.cost else needs(jobs)))


def asked(experiment: str, configfiles: list[Path] = (), attempt: int = 1) -> pd.DataFrame:
    """What the jobs of an experiment ask for, run from nothing, by the path of their benchmark under its folder."""
    from snakemake.api import SnakemakeApi
    from snakemake.logging import logger
    from snakemake.settings.types import (
        ConfigSettings,
        DAGSettings,
        ExecutionSettings,
        OutputSettings,
        Quietness,
        ResourceSettings,
    )

    rows = {}

    def note(record: logging.LogRecord) -> bool:
        if getattr(record, "benchmark", None):
            resources = record.resources
            rows[record.benchmark] = {
                "step": record.rule_name,
                "data": record.wildcards.get("dataset", ""),
                "run": record.wildcards.get("seed", ""),
                "asked_mb": resources.get("mem_mb"),
                "asked_min": resources.get("runtime"),
            }
        return False

    logger.addFilter(note)
    try:
        with tempfile.TemporaryDirectory() as empty, SnakemakeApi(OutputSettings(quiet={Quietness.ALL})) as api:
            workflow = api.workflow(
                snakefile=PROJECT / "Snakefile",
                workdir=Path(empty),
                resource_settings=ResourceSettings(cores=1),
                config_settings=ConfigSettings(configfiles=[path.resolve() for path in configfiles]),
            )
            dag = workflow.dag(dag_settings=DAGSettings(targets={experiment}))
            dag.execute_workflow(executor="dryrun", execution_settings=ExecutionSettings(attempt=attempt))
    finally:
        logger.removeFilter(note)
    table = pd.DataFrame.from_dict(rows, orient="index").sort_index()
    table.index = table.index.str.removeprefix(f"results/{experiment}/")
    return table[~table.index.str.startswith("resources/")]  # fetch is not submitted


def used(folder: Path) -> pd.DataFrame:
    """Memory, seconds of CPU and of the clock of the jobs of a run, by the path of their benchmark under its folder."""
    columns = {"max_rss": "used_mb", "cpu_time": "cpu_s", "s": "clock_s"}
    paths = sorted(folder.rglob("benchmarks/*.tsv"))
    rows = [pd.read_csv(path, sep="\t", na_values="-", usecols=list(columns)).iloc[-1] for path in paths]
    index = [path.relative_to(folder).as_posix() for path in paths]
    return pd.DataFrame(rows, index=index, columns=list(columns), dtype=float).rename(columns=columns)


def needs(jobs: pd.DataFrame) -> pd.DataFrame:
    """What each step of each data set asks for beside the most that it used."""
    jobs = jobs.dropna(subset=["used_mb"])
    by_step = jobs.groupby(["data", "step"])
    table = by_step[["asked_mb", "used_mb", "asked_min", "cpu_s"]].max().assign(jobs=by_step.size())
    ratios = {
        "asked_mb": table["asked_mb"] / (table["used_mb"] + AROUND_MB),
        "asked_min": 60 * table["asked_min"] / (table["cpu_s"] + AROUND_S),
    }
    of_run = jobs["run"] != ""
    floors = jobs.groupby(of_run)[list(ratios)].transform("min").groupby([jobs["data"], jobs["step"]]).max()
    for name, ratio in ratios.items():
        least = table[name] == floors[name]
        kinds = np.select([ratio.between(LEAST, MOST), (ratio > MOST) & least], ["", "floor"], "WRONG")
        what = name.removeprefix("asked_")
        table[f"{what}_ratio"], table[f"{what}_note"] = ratio, kinds
    return table


def cost(jobs: pd.DataFrame) -> pd.DataFrame:
    """What an experiment costs where each run is one job on one core, and so are its tables and figures.

    A step without a benchmark file counts as the mean of its like: of its data set and replay count, or its data set.
    """
    jobs = jobs.assign(replays=jobs.index.str.extract(r"/replay(\d+)/", expand=False).fillna(""))
    seconds = jobs["cpu_s"]
    for alike in (["step", "data", "replays"], ["step", "data"], ["step"]):
        seconds = seconds.fillna(jobs.groupby(alike)["cpu_s"].transform("mean"))
    jobs = jobs.assign(
        hours=(seconds + AROUND_S) / 3600,
        asked_h=jobs["asked_min"] / 60,
        measured=jobs["cpu_s"].notna(),
        data=jobs["data"].where(jobs["run"] != "", RESULTS),
        run=jobs["run"],
    )
    by_job = jobs.groupby(["data", "run"]).agg(
        steps=("hours", "size"), hours=("hours", "sum"), asked_h=("asked_h", "sum"), measured=("measured", "sum")
    )
    table = by_job.groupby("data").agg(
        jobs=("steps", "size"),
        steps=("steps", "sum"),
        measured=("measured", "sum"),
        core_hours=("hours", "sum"),
        longest_h=("hours", "max"),
        asked_h=("asked_h", "max"),
    )
    chain = table["longest_h"].drop(RESULTS).max() + table["longest_h"][RESULTS]
    table.loc["all"] = {**table.sum(), "longest_h": chain, "asked_h": table["asked_h"].max()}
    return table.astype(dict.fromkeys(["jobs", "steps", "measured"], int))


def markdown(table: pd.DataFrame) -> str:
    """A table as Markdown, numbers with three digits."""
    rows = table.reset_index().astype(object)
    text = [
        [f"{cell:.3g}" if isinstance(cell, float) else f"{cell}" for cell in row]
        for row in rows.itertuples(index=False)
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [list(rows.columns), ["---"] * rows.shape[1], *text])


if __name__ == "__main__":
    main(sys.argv[1:])
