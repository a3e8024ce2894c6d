"""The configuration, the environment of the jobs, and functions that several rules use."""

import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import yaml
from snakemake.utils import update_config

import drcrm.errors
from drcrm.paper import BASELINE, LOSSES, runs
from drcrm.paper.config import SCHEMA, complete, read_config
from drcrm.paper.sources import code_digest, local_files, source_digest
from drcrm.paper.reports.markup import fill_caption
from drcrm.paper.reports.plan import FIGURE_TITLES

PROJECT = Path(os.path.abspath(str(workflow.current_basedir))).parents[1]
SOURCE = PROJECT / "src/drcrm"
RUN = "results/{experiment}/runs/{dataset}/seed{seed}"
LOG = f"{RUN}/replay{{replay_count}}"
TABLES = [*LOSSES, "hyperparameters"]
TABLE_KINDS = ["csv", "md", "tex"]
FIGURE_KINDS = ["pdf", "svg", "png"]
LEMMA_FIGURES = yaml.safe_load((PROJECT / "studies/theory.yaml").read_text(encoding="utf-8"))
LEMMAS = sorted({figure["lemma"] for figure in LEMMA_FIGURES.values()})

# Snakemake does not read config.yaml if this workflow is a module with a config of its own.
if workflow.modifier.skip_configfile:
    outer_config, config = config, read_config(PROJECT / "config.yaml")
    update_config(config, outer_config)
try:
    for path in workflow.overwrite_configfiles:
        read_config(path)  # refuses repeated keys, which Snakemake does not see
    config = complete(config, PROJECT / SCHEMA)
except drcrm.errors.InputError as error:
    raise WorkflowError(str(error)) from None

# Jobs run the code of this folder, on a cluster too. In a module, the environment belongs to the other workflow.
if workflow.modifier.is_main_snakefile():
    os.environ |= {"PYTHONPATH": str(PROJECT / "src")}
if not shutil.which("drcrm"):  # the virtual environment is not activated
    os.environ |= {"PATH": os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])}


def targets(name):
    """Return the files of an experiment except the report."""
    experiment = config["experiments"][name]
    figures = [f"{figure}_{dataset}" for figure, of in runs.figure_datasets(experiment).items() for dataset in of]
    overview = ["overview"] if BASELINE in experiment["algorithms"] else []
    files = ["metrics.csv", "grids.csv", "provenance.json", "pages", *("summary.rst" for _ in overview)]
    files += expand("tables/{table}.{kind}", table=TABLES, kind=TABLE_KINDS)
    files += expand("figures/{figure}.{kind}", figure=[*figures, *overview], kind=[*FIGURE_KINDS, "tex"])
    return [f"results/{name}/{file}" for file in files]


def evaluation_targets(name):
    """Return the files of an evaluation except the report."""
    entry = config["evaluations"][name]
    simulators = [*runs.entries(entry.get("simulators", [])), *entry.get("datasets", [])]
    measures = ["rmse", "coverage", "distribution"]
    figures = expand("figures/{measure}_{simulator}.{kind}", measure=measures, simulator=simulators, kind=FIGURE_KINDS)
    tables = expand("tables/{measure}.{kind}", measure=["relative", "rmse", "coverage"], kind=TABLE_KINDS)
    return [f"results/{name}/{file}" for file in ["metrics.csv", "provenance.json", *tables, *figures]]


STUDY_TARGETS = {
    name: [f"results/studies/{name}.csv", f"results/studies/{name}/provenance.json"] for name in config["studies"]
}
TARGETS = {
    **STUDY_TARGETS,  # unless an experiment or a log has the name of the study
    **{name: targets(name) for name in config["experiments"]},
    **{name: evaluation_targets(name) for name in config["evaluations"]},
    **{name: multiext(f"results/{name}/", "policy.npz", "answer.json", "report.html") for name in config["logs"]},
    "theory": [
        "results/theory/provenance.json",
        *expand(
            "results/theory/figures/{figure}_{dataset}.{kind}",
            figure=LEMMA_FIGURES,
            dataset=config["theory"]["datasets"],
            kind=FIGURE_KINDS,
        ),
    ],
    **{f"{name}_study": files for name, files in STUDY_TARGETS.items()},
    "studies": [file for files in STUDY_TARGETS.values() for file in files],
}


def library_code(wildcards):
    """Return the digests of the code that fits and evaluates. Snakemake runs a job again if one changes."""
    return code_digest(SOURCE, "logs", "paper/reports")


def pipeline_code(wildcards):
    """Return the digest of the code of the pipeline and its reports."""
    return code_digest(SOURCE, "logs")


def user_files(paths):
    """Return a user's files in the working folder as inputs."""
    return [local(os.path.relpath(path)) for path in paths]


def unchecked(value):
    """Return a function to a parameter that Snakemake does not compare between runs, because it may use outputs."""
    return lambda wildcards, output: value


def shared(file):
    """Return a function to the split, the skyline or the π0 of a run, which variants of an experiment share."""
    home = lambda wildcards: runs.home_of(config, wildcards.experiment, file)
    return lambda wildcards: f"{RUN}/{file}.npz".format(**{**wildcards, "experiment": home(wildcards)})


def settings(*options, has_algorithm=False):
    """Return a function from the wildcards to the settings of a step as JSON.

    They are the wildcards, these options of the experiment, and the entry of the algorithm of a step that learns.
    """

    def lookup(wildcards):
        experiment = config["experiments"][wildcards.experiment]
        axes = {name: int(value) if name in ("seed", "replay_count") else value for name, value in wildcards.items()}
        entry = runs.algorithm_entry(config, wildcards) if has_algorithm else {}
        return json.dumps({**axes, **{option: experiment[option] for option in options}, **entry}, sort_keys=True)

    return lookup


# Of steps that learn or evaluate: the profile's memory, and time that grows with the log. Others take the profile's.
DATA_RESOURCES = {
    "mem_mb": lambda wildcards, input, attempt: attempt * (1000 + 50 * input.size_mb),
    "runtime": lambda wildcards, input, attempt: attempt * (10 + 5 * input.size_mb),
}
STUDY_RESOURCES = {
    "mem_mb": lambda wildcards, attempt: 2000 * attempt,
    "runtime": lambda wildcards, attempt: 600 * attempt,
}
