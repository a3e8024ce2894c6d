"""Write the pages and pictures of finished experiments: `python docs/build.py [EXPERIMENT ...]`.

Experiments that are named, `theory`, `studies` or one of them, NAME_study, are first taken from results/: their rows
and provenance are put into docs/results. Then all is made of docs/results: a page docs/experiments/EXPERIMENT.md for
each, or for a family of them, its figures in docs/figures, and in README.md, docs/findings.md and docs/theory.md what
stands between <!-- KIND ARGUMENTS --> and <!-- end -->:

    losses EXPERIMENT METRIC SELECTION      the table of a loss
    figure EXPERIMENT FIGURE DATASET        a figure with its caption
    overview EXPERIMENT                     the overview with its caption
    theory FIGURE DATASET                   in docs/theory.md, a figure of the theory with its caption
    provenance EXPERIMENT                   what code, packages and machine it comes from

Options and names come from config.yaml, with docs/EXPERIMENT.yaml added where there is one; what an experiment is, from
the table of docs/configuration.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import zlib
from functools import cache
from io import BytesIO
from pathlib import Path

import matplotlib
import pandas as pd
from jinja2 import Template
from matplotlib.figure import Figure
from PIL import Image
from snakemake.utils import update_config

from drcrm.errors import InputError, located
from drcrm.experiments import lookups
from drcrm.experiments.columns import CERTIFICATE, COLUMNS, GRID_COLUMNS, LEMMA_COLUMNS
from drcrm.experiments.config import complete, read_config, shipped_config
from drcrm.experiments.lookups import caption_words, planned
from drcrm.files import atomic, read_csv, write_text
from drcrm.reports.figures.experiment_figures import FIGURES, overview
from drcrm.reports.figures.families import Family, loss_against_sharpness
from drcrm.reports.figures.families import page as family_page
from drcrm.reports.figures.figure_data import DatasetResults
from drcrm.reports.figures.study_figures import FIGURES as STUDY_FIGURES
from drcrm.reports.figures.style import LEMMA_FIGURES, RC
from drcrm.reports.figures.theory_figures import FIGURES as THEORY_FIGURES
from drcrm.reports.tables import documents
from drcrm.reports.tables.result_tables import ablation_table, all_tables
from drcrm.selection.score_names import MODELLED

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- (?!end )([^\n]+) -->\n).*?(<!-- end -->)", re.S)
ROWS = {"metrics": "every run, algorithm and selection", "grids": "every fit"}
ADDED = ("tilt", *CERTIFICATE, *MODELLED, "snips_bound", "ls_bound")  # columns that rows of before them lack
THEORY = "theory"
STUDY_FILES = {".csv": ".csv", "_provenance.json": "/provenance.json"}  # in docs/results, in results/studies
USUAL_FIGURES = ("replay_count", "ablation")  # of a page, where its experiment has them
FIGURES_OF = {"sample": tuple(FIGURES), "certified": ("certificates",)}  # of pages that have others
WITH_OVERVIEW = ("beyond", "beyond_large", "made", "unseen", "unseen_sharp")  # pages that open on the overview
FAMILIES = {  # pages of several experiments, NAME and each NAME_…, and the algorithms of their figure
    "single_choice": (
        *("cips", "dm", "dr", "kl_dro_dr_plain", "kl_dro_dr", "kl_dro_dr_map"),
        *("importance_weighted", "importance_weighted_trees"),
    ),
    "sharpness": (
        *("cips", "kl_dro", "norm_poem", "exponential_smoothing_anchored", "weighted_likelihood"),
        *("dm", "kl_dro_dr_plain", "kl_dro_dr", "kl_dro_dr_map"),
    ),
}


def kept(name: str) -> dict[str, str]:
    """The files in results/ that are kept, by what they are called in docs/results."""
    if name == "studies":
        return {target: source for each in shipped()[name] for target, source in kept(f"{each}_study").items()}
    if name.endswith("_study"):
        study = name.removesuffix("_study")
        return {f"{study}{end}": f"studies/{study}{of}" for end, of in STUDY_FILES.items()}
    tables = [f"{lemma}_{of}" for of in shipped()[THEORY]["datasets"] for lemma in LEMMA_COLUMNS]
    rows = {f"{name}_{table}.csv.gz": f"{name}/{table}.csv" for table in (tables if name == THEORY else ROWS)}
    return {**rows, f"{name}_provenance.json": f"{name}/provenance.json"}


def take(name: str) -> None:
    """Put the rows and the provenance of an experiment, the theory or studies from results/ into docs/results."""
    found = {}
    for target, source in kept(name).items():
        path = ROOT / f"results/{source}"
        if not path.exists():
            added = f" --configfile docs/{name}.yaml" if own_configuration(name).exists() else ""
            raise InputError(f"{path.relative_to(ROOT)}: no such file; `snakemake {name}{added}` makes it")
        content = path.read_bytes()
        found[target] = gzip.compress(content, mtime=0) if target.endswith(".gz") else content
    for target, content in found.items():
        with atomic(ROOT / f"docs/results/{target}") as part:
            part.write_bytes(content)


def finished() -> list[str]:
    """The experiments in docs/results."""
    found = (ROOT / "docs/results").glob("*_metrics.csv.gz")
    return sorted(path.name.removesuffix("_metrics.csv.gz") for path in found)


def page_of(name: str) -> str:
    """The page that an experiment is on: that of its family, or its own."""
    return next((family for family in FAMILIES if f"{name}_".startswith(f"{family}_")), name)


def families() -> dict[str, Family]:
    """The families of which there are experiments in docs/results."""
    names = {name: [each for each in finished() if page_of(each) == name] for name in FAMILIES}
    return {
        name: Family(name, about(name), list(map(experiment, each)), FAMILIES[name], f"../figures/{name}_sharpness.png")
        for name, each in names.items()
        if each
    }


def own_configuration(name: str) -> Path:
    """The file that adds an experiment to config.yaml, if there is one."""
    return ROOT / f"docs/{name}.yaml"


def shipped(*added: Path) -> dict:
    """The configuration with what files add to it, complete."""
    config = shipped_config(ROOT)
    schema, *more = map(read_config, [ROOT / "workflow/schemas/config.schema.yaml", *added])
    for each in more:
        update_config(config, each)
    return complete(config, schema)


def configured(name: str) -> dict:
    """The configuration with an experiment, complete."""
    own = own_configuration(name)
    config = shipped(*([own] if own.exists() else []))
    if name not in config["experiments"]:
        raise InputError(f"no experiment {name!r} in config.yaml or docs/{name}.yaml")
    return config


@cache
def rows(name: str, table: str) -> pd.DataFrame:
    """The rows of an experiment in docs/results; of fits there may be none."""
    path, columns = ROOT / f"docs/results/{name}_{table}.csv.gz", {"metrics": COLUMNS, "grids": GRID_COLUMNS}[table]
    if table == "grids" and not path.exists():
        return pd.DataFrame(columns=columns)
    try:
        return read_csv(path, [column for column in columns if column not in ADDED]).reindex(columns=columns)
    except (EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a readable csv file ({error})") from None


def provenance(name: str) -> dict:
    """What is known of an experiment's run."""
    path = ROOT / f"docs/results/{name}_provenance.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: no readable provenance ({error})") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: no readable provenance (not a JSON object)")
    return found


def about(name: str) -> str:
    """What an experiment is, as docs/configuration.md has it."""
    table = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| `{name}` \| (.+) \|$", table, re.M)
    if not found:
        raise InputError(f"docs/configuration.md: its table of experiments has no {name!r}")
    return f"{found[1][0].upper()}{found[1][1:]}."


@cache
def experiment(name: str) -> documents.Experiment:
    """An experiment of docs/results, with links as its page has them."""
    config = configured(name)
    options = config["experiments"][name]
    kept = [table for table in ROWS if not rows(name, table).empty]
    plan = planned(config, name, "tables")
    with located(f"docs/results/{name}_metrics.csv.gz"):
        tables = all_tables(rows(name, "metrics"), plan)
        if "ablation" in options:
            tables["ablation"] = ablation_table(rows(name, "metrics"), planned(config, name, "ablation"))
    return documents.Experiment(
        name,
        about(page_of(name)),
        options,
        provenance(name),
        plan,
        tables,
        rows={ROWS[table]: f"../results/{name}_{table}.csv.gz" for table in kept},
        pictures=[
            picture(config, name, figure, datasets, "../figures")
            for figure, datasets in pictured(name, options).items()
        ],
        overview=overview_in(config, name, "../figures") if name in WITH_OVERVIEW else "",
    )


def overview_in(config: dict, name: str, folder: str) -> str:
    """The overview of an experiment with its caption, in a folder as seen from a document."""
    template = Template((ROOT / "workflow/report/overview.rst").read_text(encoding="utf-8"))
    params = {"words": caption_words(config, name, "overview")}
    caption = " ".join(template.render(snakemake={"wildcards": {"experiment": name}, "params": params}).split())
    width = 700 if len(config["experiments"][name]["datasets"]) > 2 else 500
    return (
        f'<img src="{folder}/{name}_overview.png" alt="From CIPS to full supervision" width="{width}">\n\n{caption}\n'
    )


def pictured(name: str, options: dict) -> dict[str, list[str]]:
    """The figures of a page, and their data sets: without those that its rows are not enough for."""
    enough = {"grid": not rows(name, "grids").empty, "certificates": rows(name, "metrics")["bound"].notna().any()}
    chosen = set(FIGURES_OF.get(name, USUAL_FIGURES)) - {figure for figure, drawn in enough.items() if not drawn}
    drawn = {figure: each for figure, each in lookups.figure_datasets(options).items() if figure in chosen and each}
    return {figure: [each for each in lookups.all_datasets(options) if each in of] for figure, of in drawn.items()}


def picture(config: dict, name: str, figure: str, datasets: list[str], folder: str) -> documents.Picture:
    """A figure with its caption, in a folder as seen from a document."""
    template = (ROOT / "workflow/report/figures.rst").read_text(encoding="utf-8")
    caption = documents.caption(template, figure, caption_words(config, name, figure, datasets))
    return documents.Picture(figure, {each: f"{folder}/{name}_{figure}_{each}.png" for each in datasets}, caption)


def write_figures(name: str) -> None:
    """Draw the figures of an experiment's page."""
    with matplotlib.rc_context(RC):
        for each in experiment(name).pictures:
            for dataset, link in each.links.items():
                write_figure(FIGURES[each.figure](results(name, each.figure, dataset)), Path(link).name)
        if name in WITH_OVERVIEW:
            of = [results(name, "overview", each) for each in experiment(name).plan.datasets]
            write_figure(overview(of, across=len(of)), f"{name}_overview.png")


def write_family_figures() -> None:
    """Draw the figure of each family's page."""
    for family in families().values():
        with matplotlib.rc_context(RC):
            write_figure(loss_against_sharpness(family), Path(family.link).name, dpi=150)


def write_figure(figure: Figure, file: str, dpi: int | None = None) -> None:
    """Save a figure in docs/figures, with few colours: a third of the bytes."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    image = Image.open(drawn).convert("RGB").quantize(dither=Image.Dither.NONE)
    with atomic(ROOT / "docs/figures" / file) as part:
        image.save(part, optimize=True)


def results(name: str, figure: str, dataset: str) -> DatasetResults:
    """What a figure is drawn of."""
    plan = planned(configured(name), name, figure, [dataset])
    return DatasetResults.of(rows(name, "metrics"), rows(name, "grids"), dataset, plan)


def losses(name: str, metric: str, selection: str) -> str:
    return documents.headline(experiment(name), metric, selection)


def figure(name: str, kind: str, dataset: str) -> str:
    of = experiment(name)
    if not any(each.figure == kind and dataset in each.links for each in of.pictures):
        raise InputError(f"the page of {name} has no figure {kind} of {dataset}")
    return documents.picture(picture(configured(name), name, kind, [dataset], "docs/figures"), of.plan.names)


def overview_block(name: str) -> str:
    if name not in WITH_OVERVIEW:
        raise InputError(f"the page of {name} has no overview")
    return overview_in(configured(name), name, "docs/figures")


def theory_block(shown: str, dataset: str) -> str:
    """A figure of the theory with its caption."""
    if shown not in LEMMA_FIGURES:
        raise InputError(f"no figure {shown!r} of the theory, only {', '.join(LEMMA_FIGURES)}")
    config = shipped()
    if dataset not in config["theory"]["datasets"]:
        raise InputError(f"the theory has no data set {dataset!r}")
    template = Template((ROOT / "workflow/report/theory.rst").read_text(encoding="utf-8"))
    params = {"data": lookups.label(config, dataset), "repetitions": config["theory"]["repetitions"]}
    caption = " ".join(template.render(snakemake={"wildcards": {"shown": shown}, "params": params}).split())
    title = LEMMA_FIGURES[shown].title
    return f'<img src="figures/theory_{shown}_{dataset}.png" alt="{title}" width="700">\n\n{caption}\n'


def theory_figures() -> dict[str, tuple[str, str]]:
    """The figures that docs/theory.md shows, by their files."""
    text = (ROOT / "docs/theory.md").read_text(encoding="utf-8")
    shown = re.findall(r"<!-- theory (\w+) (\w+) -->", text)
    return {f"theory_{figure}_{dataset}.png": (figure, dataset) for figure, dataset in shown}


def write_theory_figures() -> None:
    """Draw the figures of docs/theory.md."""
    for file, (shown, dataset) in theory_figures().items():
        lemma = LEMMA_FIGURES[shown].lemma
        table = read_csv(ROOT / f"docs/results/theory_{lemma}_{dataset}.csv.gz", LEMMA_COLUMNS[lemma])
        with matplotlib.rc_context(RC):
            write_figure(THEORY_FIGURES[shown](table), file)


def write_study_figures() -> None:
    """Draw the figures of studies, from their tables."""
    for name, draw in STUDY_FIGURES.items():
        with matplotlib.rc_context(RC):
            write_figure(draw(read_csv(ROOT / f"docs/results/{name}.csv", [])), f"{name}.png")


def provenance_block(name: str) -> str:
    return documents.provenance(provenance(name))


KINDS = {
    "losses": (losses, 3),
    "figure": (figure, 3),
    "overview": (overview_block, 1),
    "theory": (theory_block, 2),
    "provenance": (provenance_block, 1),
}


def filled(text: str) -> str:
    """A text with its blocks made anew."""

    def fill(block: re.Match) -> str:
        kind, *arguments = block[2].split()
        make, expected = KINDS.get(kind, (None, -1))
        if len(arguments) != expected:
            known = " or ".join(f"{name} with {n} arguments" for name, (_, n) in KINDS.items())
            raise InputError(f"no block {block[2]!r}: expected {known}")
        return f"{block[1]}\n{make(*arguments)}\n{block[3]}"

    return BLOCK.sub(fill, text)


def texts() -> dict[Path, str]:
    """All documents that are made of docs/results."""
    single = [name for name in finished() if page_of(name) not in FAMILIES]
    pages = {name: documents.page(experiment(name)) for name in single}
    pages |= {name: family_page(family) for name, family in families().items()}
    pages = {ROOT / f"docs/experiments/{name}.md": text for name, text in sorted(pages.items())}
    for name in ("README.md", "docs/findings.md", "docs/theory.md"):
        with located(name):
            pages[ROOT / name] = filled((ROOT / name).read_text(encoding="utf-8"))
    return pages


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="taken from results/ first")
    for name in parser.parse_args(arguments).experiments:
        take(name)
    made = texts()
    for name in finished():
        write_figures(name)
    write_family_figures()
    write_theory_figures()
    write_study_figures()
    for path, text in made.items():
        write_text(path, text)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except InputError as error:
        sys.exit(f"docs: {error}")
