"""Put the numbers and pictures of finished runs into the documents: `make docs`.

A block between <!-- KIND ARGUMENTS --> and <!-- end --> is replaced by what KIND makes of results/; prose stays. Kinds:

    losses EXPERIMENT METRIC SELECTION         Table 1 or 2 of the paper
    details EXPERIMENT METRIC SELECTION        the same, with intervals, p-values, seeds and convergence
    hyperparameters EXPERIMENT                 Table 3
    comparison EXPERIMENT METRIC               our cells beside the paper's and the public code's
    differences EXPERIMENT METRIC SELECTION ALGORITHM,… COUNT,…    to POEM, by replay count
    figure EXPERIMENT FIGURE DATA              a figure, copied to docs/figures, with the report's caption
    run EXPERIMENT                             what was run: configuration, commit, versions
    rows EXPERIMENT                            links to the rows of all runs and of all fits, copied to docs/results
"""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import yaml
from jinja2 import Template
from snakemake.utils import update_config

from drcrm.errors import InputError
from drcrm.pipeline.config import complete
from drcrm.pipeline.files import write_text
from drcrm.registry import LOSSES, SCORES
from drcrm.report import markup
from drcrm.report.style import FIGURES, Names

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "docs/reproduction.md", ROOT / "README.md"]
BLOCK = re.compile(r"(<!-- (\w+)((?: [\w.,]+)+) -->\n).*?(<!-- end -->)", re.S)
PACKAGES = ("numpy", "scipy", "scikit-learn", "sklearn-crfsuite", "python-crfsuite", "statsmodels", "snakemake")


def result(experiment: str, name: str) -> Path:
    """A file that an experiment leaves."""
    path = ROOT / f"results/{experiment}/{name}"
    if not path.exists():
        command = " --configfile ".join([f"snakemake {experiment}", *own_configuration(experiment)])
        raise InputError(f"{path.relative_to(ROOT)}: no such file; `{command}` makes it")
    return path


def read(experiment: str, table: str) -> pd.DataFrame:
    return pd.read_csv(result(experiment, f"tables/{table}.csv"), keep_default_na=False, na_values=[""])


def losses(document: Path, experiment: str, metric: str, selection: str) -> str:
    return markup.losses(read(experiment, metric), metric, selection, markup.MARKDOWN)


def details(document: Path, experiment: str, metric: str, selection: str) -> str:
    return markup.details(read(experiment, metric), metric, selection, markup.MARKDOWN)


def hyperparameters(document: Path, experiment: str) -> str:
    table = read(experiment, "hyperparameters")
    return markup.hyperparameters(table, list(dict.fromkeys(table["dataset"])), markup.MARKDOWN)


def comparison(document: Path, experiment: str, metric: str) -> str:
    table = read(experiment, "paper_comparison").fillna({"differs": ""})
    return markup.comparison(table[table["metric"] == metric], markup.MARKDOWN)


def differences(document: Path, experiment: str, metric: str, selection: str, algorithms: str, counts: str) -> str:
    table = read(experiment, "differences_to_poem")
    chosen = (table["metric"] == metric) & (table["selection"] == selection)
    at = table[chosen].set_index(["dataset", "replay_count", "algorithm"])
    names, rows = algorithms.split(","), []
    for data, count in dict.fromkeys(index[:2] for index in at.index):
        if str(count) not in counts.split(","):
            continue
        of = [at.loc[data, count, name] for name in names]
        cells = [f"{row['difference']:+.3f} ± {row['standard_error']:.3f} ({row['p_smaller']:.2g})" for row in of]
        rows.append([Names().dataset(data), str(count), str(int(of[0]["n_seeds"])), *cells])
    said = (
        f"{LOSSES[metric]} less POEM's on the same seed, chosen by {SCORES[selection].label}: mean ± standard error; "
        "in brackets the p-value of a one-tailed paired t-test that it is smaller.\n\n"
    )
    return said + markup.MARKDOWN.table(["Data", "Δ", "Seeds", *(Names().label(name) for name in names)], rows)


def figure(document: Path, experiment: str, name: str, data: str) -> str:
    source = result(experiment, f"figures/{name}_{data}.png")
    target = ROOT / f"docs/figures/{experiment}_{name}_{data}.png"
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(source, target)
    options = configured(experiment)
    tables = {"counts": [options["replay_count"]], "seeds": options["seeds"]}
    shown = options["replay_curve"] if name == "replay_count" else tables
    named = {"data": Names().dataset(data), "selection": [SCORES[each].label for each in options["selection"]]}
    job = {"wildcards": {"figure": name}, "params": {"named": named, "shown": shown}}
    caption = Template((ROOT / "workflow/report/figures.rst").read_text(encoding="utf-8")).render(snakemake=job)
    picture = target.relative_to(document.parent)
    return f'<img src="{picture}" alt="{FIGURES[name]}: {Names().dataset(data)}" width="400">\n\n{caption}\n'


def configured(experiment: str) -> dict:
    """The options of an experiment of config.yaml, or of a file of its own beside this one, complete."""
    schema, config, *added = (
        yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
        for name in ("workflow/schemas/config.schema.yaml", "config.yaml", *own_configuration(experiment))
    )
    for each in added:
        update_config(config, each)
    return complete(config, schema)["experiments"][experiment]


def own_configuration(experiment: str) -> list[str]:
    """The file that adds an experiment to config.yaml, if it has one."""
    name = f"docs/{experiment}.yaml"
    return [name] if (ROOT / name).exists() else []


def run(document: Path, experiment: str) -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    options = yaml.safe_dump({experiment: configured(experiment)}, default_flow_style=None, sort_keys=False, width=110)
    return f"Filled in at commit {commit.stdout.strip()}, with {versions}.\n\n```yaml\n{options}```\n"


def rows(document: Path, experiment: str) -> str:
    links = []
    for name, what in {"metrics": "every run, algorithm and selection", "grids": "every fit"}.items():
        source = result(experiment, f"{name}.csv")
        target = ROOT / f"docs/results/{experiment}_{name}.csv.gz"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(gzip.compress(source.read_bytes(), mtime=0))
        links.append(f"[{what}]({target.relative_to(document.parent)})")
    return f"The rows behind the numbers: {', '.join(links)}.\n"


KINDS = {each.__name__: each for each in (losses, details, hyperparameters, comparison, differences, figure, run, rows)}


def filled(document: Path) -> str:
    """The text of a document with its blocks made anew."""

    def fill(block: re.Match) -> str:
        opening, kind, arguments, end = block.groups()
        if kind not in KINDS:
            raise InputError(f"{document.name}: unknown block {kind!r}, expected one of {', '.join(KINDS)}")
        return f"{opening}\n{KINDS[kind](document, *arguments.split())}\n{end}"

    return BLOCK.sub(fill, document.read_text(encoding="utf-8"))


if __name__ == "__main__":
    try:
        texts = {document: filled(document) for document in DOCUMENTS}
    except (InputError, KeyError, TypeError) as error:
        sys.exit(f"docs: {error}")
    for document, text in texts.items():
        write_text(document, text)
