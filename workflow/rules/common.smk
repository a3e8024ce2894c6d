"""The configuration, the environment of the jobs, and functions that several rules use."""

import ast
import hashlib
import json
import os
import shutil
import sys
from functools import cache
from modulefinder import ModuleFinder
from pathlib import Path

import yaml
from snakemake.utils import update_config

import drcrm.errors
from drcrm.experiments.config import SCHEMA, complete, read_config
from drcrm.experiments.runs import (
    all_runs,
    caption_words,
    fetch_parameters,
    figure_datasets,
    fit_parameters,
    is_classifier,
    mapping_of,
    provenance_parameters,
    report_plan,
    run_algorithms,
    study_options,
    study_runs,
    uses_cost_model,
)
from drcrm.experiments.sources import Source, local_digests, read_record
from drcrm.experiments.steps import PACKAGES, STEPS
from drcrm.reports.plan import FIGURE_TITLES
from drcrm.reports.roles import BASELINE, LOSSES

PROJECT = Path(os.path.abspath(str(workflow.current_basedir))).parents[1]
SOURCE = PROJECT / "src/drcrm"
STUDIES = os.path.relpath(PROJECT / "studies")
RUN = "results/{experiment}/runs/{dataset}/seed{seed}"
LOG = f"{RUN}/replay{{replays}}"
TABLES = [*LOSSES, "hyperparameters", "paper_comparison", "differences_to_poem"]
TABLE_KINDS = ["csv", "md", "tex"]
FIGURE_KINDS = ["pdf", "svg", "png"]
LEMMA_FIGURES = yaml.safe_load((PROJECT / "studies/theory.yaml").read_text(encoding="utf-8"))
LEMMAS = sorted({figure["lemma"] for figure in LEMMA_FIGURES.values()})
ORIGIN = str(workflow.modifier.modify_path("resources/{dataset}/origin.json"))  # with the prefix of a module

# Snakemake does not read config.yaml if this workflow is a module with a config of its own.
if workflow.modifier.skip_configfile:
    outer_config, config = config, read_config(PROJECT / "config.yaml")
    update_config(config, outer_config)
try:
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
    folder, experiment = f"results/{name}", config["experiments"][name]
    figures = [f"{figure}_{dataset}" for figure, of in figure_datasets(experiment).items() for dataset in of]
    files = ["metrics.csv", "grids.csv", "provenance.json", "pages"]
    files += expand("tables/{table}.{kind}", table=TABLES, kind=TABLE_KINDS)
    if BASELINE in experiment["algorithms"]:
        files += ["summary.rst"]
        figures += ["overview"]
    return [
        f"{folder}/{file}" for file in [*files, *expand("figures/{figure}.{kind}", figure=figures, kind=FIGURE_KINDS)]
    ]


TARGETS = {
    **{name: targets(name) for name in config["experiments"]},
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
    **{
        f"{name}_study": [f"results/studies/{name}.csv", f"results/studies/{name}/provenance.json"]
        for name in config["studies"]
    },
}
TARGETS["studies"] = [file for name in config["studies"] for file in TARGETS[f"{name}_study"]]


def local_path(path):
    """Return a file of the project as an input. Its path is relative, so that project and working folder can move."""
    return local(os.path.relpath(path))


@cache
def version(path):
    """Return a digest of the names and code in a file or folder, without comments and docstrings, and of its data."""
    digest = hashlib.sha256()
    for file in sorted(path.rglob("[!.]*.*")) if path.is_dir() else [path]:
        digest.update(str(file.relative_to(path.parent)).encode())
        if file.suffix == ".py":
            tree = ast.parse(file.read_bytes())
            for node in ast.walk(tree):
                if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                    node.value.value = None  # a docstring
            digest.update(ast.dump(tree).encode())
        elif file.suffix != ".pyc":
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def code(step):
    """Return a function to the version of each package that a step runs. Snakemake runs the step if one changes."""
    names = [*PACKAGES[STEPS[step]], f"experiments/steps/{STEPS[step]}.py"]
    return lambda wildcards: {name: version(SOURCE / name) for name in names}


def whole_package(without=()):
    """Return the versions of all packages, for jobs that run commands or scripts."""
    names = {path.name for path in SOURCE.iterdir()} - {"__pycache__", *without}
    return {name: version(SOURCE / name) for name in sorted(names)}


def shell_command(step):
    """Return the shell command of a step, see drcrm.experiments.steps.

    The step reads files and settings from standard input. Snakemake runs a command that exceeds one argument, such as
    that of a table of 3 000 runs, as a temporary script.
    """
    lines = "{params.files}\n{params.settings}"
    return f"python -P -m drcrm.experiments.steps {step} 2> {{log}} <<'JSON'\n{lines}\nJSON"


def named(files):
    """Return the named files of a job as a dict of paths and lists of paths."""
    return {name: path if isinstance(path, str) else [*path] for name, path in files.items()}


def job_files(wildcards, input, output):
    """Return the named files of a job as JSON. Snakemake does not compare such parameters between runs."""
    return json.dumps({"input": named(input), "output": named(output)})


def mirror_files(wildcards, output):
    """Return the mirror and the outputs of a fetch as JSON. Another mirror does not make the fetch run again."""
    return json.dumps({"input": {"mirror": config["mirror"]}, "output": named(output)})


def settings(*options, **parameters):
    """Return a function from the wildcards to a step's parameters as JSON.

    The parameters are ``options`` of the experiment, and ``parameters``, whose values are functions of the wildcards.
    """

    def lookup(wildcards):
        values = {option: config["experiments"][wildcards.experiment][option] for option in options}
        for name, value in parameters.items():
            values[name] = value(wildcards)
        return json.dumps(values, sort_keys=True)

    return lookup


AXES = {"dataset": lambda wildcards: wildcards.dataset, "seed": lambda wildcards: int(wildcards.seed)}
REPLAY_COUNT = {"replay_count": lambda wildcards: int(wildcards.replays)}
# Of steps that learn or evaluate: the profile's memory, and time that grows with the log. Others take the profile's.
DATA_RESOURCES = {
    "mem_mb": lambda wildcards, input, attempt: attempt * (1000 + 50 * input.size_mb),
    "runtime": lambda wildcards, input, attempt: attempt * (10 + 5 * input.size_mb),
}
STUDY_RESOURCES = {
    "mem_mb": lambda wildcards, attempt: 2000 * attempt,
    "runtime": lambda wildcards, attempt: 600 * attempt,
}
