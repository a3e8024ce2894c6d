"""Write the committed images and tables of the documentation: `python docs/build.py [EXPERIMENT ...]`.

First, copy the rows and the provenance of the named experiments from results/ to docs/results. A name is that of an
experiment, `theory`, `studies`, or NAME_study for one study. Then write from docs/results: the images in docs/figures,
and the generated blocks of README.md and of pages in docs. A block is the text between
<!-- KIND ARGUMENTS --> and <!-- end -->:

    losses EXPERIMENT METRIC SELECTION      table of a loss
    theory FIGURE                           figure of a lemma with its caption
    table NAME                              table of ``TABLES``
    study NAME                              summary of the table of a study
    study NAME FUNCTION                     another summary, by a function of the study's module
    study NAME FUNCTION MODULE              summary by a function of another module of studies

Options and names come from config.yaml and docs/EXPERIMENT.yaml.

The site's build calls `write_pages`, which writes docs/experiments/NAME.md for each experiment, pages of the
reference, and pages for README.md and similar files. These pages are not committed.
"""

from __future__ import annotations

import argparse
import gzip
import inspect
import json
import re
import runpy
import sys
import zlib
from collections.abc import Callable
from functools import cache, partial
from io import BytesIO
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from drcrm.errors import InputError, prefix_errors
from drcrm.files import atomic, read_csv, write_text
from drcrm.paper import CERTIFICATE, COLUMNS, GRID_COLUMNS
from drcrm.paper.config import project_config
from drcrm.paper.reports.dataset_results import DatasetResults
from drcrm.paper.reports.evaluation_results import FIGURES as EVALUATION_FIGURES
from drcrm.paper.reports.figures import FIGURES, draw_overview
from drcrm.paper.reports.markup import fill_caption
from drcrm.paper.reports.plan import RC
from drcrm.paper.reports.result_tables import all_tables
from drcrm.paper.runs import report_plan
from drcrm.selection.score_names import MODELLED

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "studies"))
from lemma_figures import FIGURES as THEORY_FIGURES
from lemma_tables import LEMMA_COLUMNS
from pages import experiment_pages, reference_pages
from pages.published import study
from pages.repository_pages import repository_documents
from pages.result_tables import TABLES as RESULT_TABLES
from pages.study_figures import FIGURES as STUDY_FIGURES
from theory import LEMMA_FIGURES

ROOT = Path(__file__).resolve().parents[1]
STUDIES = runpy.run_path(str(ROOT / "studies/__main__.py"))
BLOCK = re.compile(r"(<!-- (?!end )([^\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)
ROWS = {"metrics": "every run, algorithm and selection", "grids": "every fit"}
LATER_COLUMNS = ("tilt", *CERTIFICATE, *MODELLED, "snips_bound", "ls_bound")  # missing in older files
THEORY = "theory"
STUDY_FILES = {".csv": ".csv", "_provenance.json": "/provenance.json"}  # in docs/results, in results/studies
LEMMA_DATA = "digits"  # the data set of the lemmas' figures


def kept_files(name: str) -> dict[str, str]:
    """Return the committed files of a name: path in docs/results → path in results/."""
    if name == "studies":
        studies = shipped_configuration()[name]
        return {target: source for study in studies for target, source in kept_files(f"{study}_study").items()}
    if name.endswith("_study"):
        study = name.removesuffix("_study")
        return {f"{study}{end}": f"studies/{study}{source}" for end, source in STUDY_FILES.items()}
    if name in shipped_configuration()["evaluations"]:
        return {f"{name}.csv": f"{name}/metrics.csv", f"{name}_provenance.json": f"{name}/provenance.json"}
    tables = list(ROWS)
    if name == THEORY:
        datasets = shipped_configuration()[THEORY]["datasets"]
        tables = [f"{lemma}_{dataset}" for dataset in datasets for lemma in LEMMA_COLUMNS]
    rows = {f"{name}_{table}.csv.gz": f"{name}/{table}.csv" for table in tables}
    return {**rows, f"{name}_provenance.json": f"{name}/provenance.json"}


def take(name: str) -> None:
    """Copy the rows and the provenance of a name from results/ to docs/results, all of them or none."""
    contents = {}
    for target, source in kept_files(name).items():
        path = ROOT / f"results/{source}"
        if not path.exists():
            option = f" --configfile docs/{name}.yaml" if own_configuration(name).exists() else ""
            raise InputError(f"{path.relative_to(ROOT)} does not exist. Run `snakemake {name}{option}` first.")
        content = path.read_bytes()
        contents[target] = gzip.compress(content, mtime=0) if target.endswith(".gz") else content
    for target, content in contents.items():
        with atomic(ROOT / f"docs/results/{target}") as part:
            part.write_bytes(content)


def finished() -> list[str]:
    """Return the experiments in docs/results."""
    paths = (ROOT / "docs/results").glob("*_metrics.csv.gz")
    return sorted(path.name.removesuffix("_metrics.csv.gz") for path in paths)


def own_configuration(name: str) -> Path:
    """Return the path of the file that would add an experiment to config.yaml."""
    return ROOT / f"docs/{name}.yaml"


@cache
def shipped_configuration(*paths: Path) -> dict:
    """Return the completed configuration, updated from files."""
    return project_config(ROOT, paths)


def configured(name: str) -> dict:
    """Return the completed configuration with an experiment."""
    path = own_configuration(name)
    config = shipped_configuration(*([path] if path.exists() else []))
    if name not in config["experiments"]:
        raise InputError(f"no experiment {name!r} in config.yaml or docs/{name}.yaml")
    return config


@cache
def rows(name: str, table: str) -> pd.DataFrame:
    """Return the rows of an experiment in docs/results. The rows of its fits may be missing."""
    path, columns = ROOT / f"docs/results/{name}_{table}.csv.gz", {"metrics": COLUMNS, "grids": GRID_COLUMNS}[table]
    if table == "grids" and not path.exists():
        return pd.DataFrame(columns=columns)
    required = [column for column in columns if column not in LATER_COLUMNS]
    try:
        return read_csv(path, required).reindex(columns=columns)
    except (EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a readable csv file ({error})") from None


def read_provenance(name: str) -> dict:
    """Return the record of an experiment's run."""
    path = ROOT / f"docs/results/{name}_provenance.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no readable provenance ({error})") from None
    if not isinstance(record, dict):
        raise InputError(f"{path}: no readable provenance (not a JSON object)")
    return record


@cache
def experiment(name: str) -> experiment_pages.Experiment:
    """Return an experiment of docs/results."""
    config = configured(name)
    plan = report_plan(config, name, "tables")
    with prefix_errors(f"docs/results/{name}_metrics.csv.gz"):
        tables = all_tables(rows(name, "metrics"), plan)
    return experiment_pages.Experiment(name, config["experiments"][name], plan, tables)


def results(name: str, figure: str, dataset: str) -> DatasetResults:
    """Return the data of a figure."""
    plan = report_plan(configured(name), name, figure, [dataset])
    return DatasetResults.of(rows(name, "metrics"), rows(name, "grids"), dataset, plan)


def write_figure(draw: Callable[..., Figure], data: object, file: str) -> None:
    """Draw a figure, and save it in docs/figures with few colours, which takes a third of the bytes."""
    drawn = BytesIO()
    with matplotlib.rc_context(RC):
        draw(data).savefig(drawn, format="png")
    image = Image.open(drawn).convert("RGB").quantize(dither=Image.Dither.NONE)
    with atomic(ROOT / "docs/figures" / file) as part:
        image.save(part, optimize=True)


def drawn_figures() -> dict[str, tuple[Callable[..., Figure], Callable[[], object]]]:
    """Return how to draw the figures of the pages, and their data, by file."""
    drawn: dict[str, tuple[Callable, Callable]] = {
        "beyond_overview.png": (
            draw_overview,
            lambda: [results("beyond", "overview", data) for data in ("scene", "yeast")],
        ),
    }
    for name, figure in (("sample", "replay_count"), ("certified", "certificates")):
        drawn[f"{name}_{figure}_scene.png"] = FIGURES[figure], partial(results, name, figure, "scene")
    for name, draw in STUDY_FIGURES.items():
        drawn[f"{name}.png"] = draw, partial(study, name)
    for measure, draw in EVALUATION_FIGURES.items():
        drawn[f"interval_coverage_{measure}.png"] = draw, partial(study, "interval_coverage")
    for figure, draw in THEORY_FIGURES.items():
        table = ROOT / f"docs/results/theory_{LEMMA_FIGURES[figure]['lemma']}_{LEMMA_DATA}.csv.gz"
        drawn[f"theory_{figure}_{LEMMA_DATA}.png"] = draw, partial(read_csv, table, [])
    return drawn


def losses_block(name: str, metric: str, selection: str) -> str:
    """Return the table of a loss."""
    return experiment_pages.format_losses(experiment(name), metric, selection)


def theory_block(figure: str) -> str:
    """Return a figure of a lemma with its caption, that of the workflow's report."""
    config, title = shipped_configuration(), LEMMA_FIGURES[figure]["title"]
    words = {"data": config["datasets"][LEMMA_DATA]["label"], "repetitions": config[THEORY]["repetitions"]}
    template = (ROOT / "workflow/report/theory.rst").read_text(encoding="utf-8")
    text = fill_caption(template, words, lemma_figure=figure)
    return f'<img src="../figures/theory_{figure}_{LEMMA_DATA}.png" alt="{title}" width="700">\n\n{text}\n'


def table_block(name: str) -> str:
    """Return a table without arguments."""
    return TABLES[name]()


def study_block(name: str, function: str = "summary", module: str = "") -> str:
    """Return a summary of a published table by a function of a study's module."""
    summary = STUDIES["summarise"](module or name, study(name), function)
    return reference_pages.format_table(summary.columns, summary.to_numpy())


def studies_table() -> str:
    """Return the question of each study."""
    questions = [(f"`{name}`", question) for name, question in STUDIES["questions"]().items()]
    return reference_pages.format_table(("study", "question"), questions)


TABLES = {
    **RESULT_TABLES,
    "studies": studies_table,
    "mapping": reference_pages.mapping_keys,
    "configuration": reference_pages.config_keys,
}
BLOCKS = {"losses": losses_block, "theory": theory_block, "study": study_block, "table": table_block}


def fill(text: str) -> str:
    """Return a text with its blocks written again."""

    def write_block(block: re.Match) -> str:
        kind, *arguments = block[2].split()
        try:
            return f"{block[1]}\n{BLOCKS[kind](*arguments)}\n{block[3]}"
        except (KeyError, TypeError) as error:
            known = [" ".join([name, *inspect.signature(write).parameters]) for name, write in BLOCKS.items()]
            raise InputError(f"no block {block[2]!r} ({error}): expected {' or '.join(known)}") from error

    return BLOCK.sub(write_block, text)


def hand_written_pages() -> list[Path]:
    """Return the paths of the pages with generated blocks."""
    folders = (path for name in ("paper", "user-guide", "reference") for path in (ROOT / "docs" / name).glob("*.md"))
    return sorted([ROOT / "README.md", ROOT / "studies/README.md", *folders])


def filled_documents() -> dict[Path, str]:
    """Return the documents with generated blocks by path."""
    documents = {}
    for path in hand_written_pages():
        with prefix_errors(path.name):
            documents[path] = fill(path.read_text(encoding="utf-8"))
    return documents


def experiment_page(name: str) -> str:
    """Return the page of an experiment."""
    links = {title: f"../results/{name}_{table}.csv.gz" for table, title in ROWS.items() if not rows(name, table).empty}
    recorded = read_provenance(name).get("options") or {}
    return experiment_pages.format_page(experiment(name), recorded, links)


def experiment_documents() -> dict[Path, str]:
    """Return the pages of all experiments and their index by path."""
    pages = {name: experiment_page(name) for name in finished()} | {"index": experiment_pages.INDEX}
    return {ROOT / f"docs/experiments/{name}.md": text for name, text in pages.items()}


def write_pages() -> None:
    """Write the pages that are not committed, if their text changed."""
    commands = {ROOT / "docs/reference/commands.md": reference_pages.format_commands()}
    documents = {**experiment_documents(), **commands, **repository_documents(ROOT)}
    for path, text in documents.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            write_text(path, text)


def main(arguments: list[str]) -> None:
    """Copy the named results, then write the images and the generated blocks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="copied from results/ first")
    for name in parser.parse_args(arguments).experiments:
        take(name)
    documents = filled_documents()
    for file, (draw, read) in drawn_figures().items():
        write_figure(draw, read(), file)
    for path, text in documents.items():
        write_text(path, text)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.exit(f"docs: {error}")
