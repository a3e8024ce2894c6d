"""Turn an experiment's metrics into the paper's tables.

Reads   --metrics: csv from collect.
Writes  in the folder --output, as .csv, .md and .tex: expected_loss, greedy_loss, hyperparameters and
        paper_comparison, where only runs with --replay-count and seeds below --seeds enter, and differences_to_poem,
        of all runs. In the folder --pages each table as an html page, but those that would be empty.
"""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path

import pandas as pd

from ...core.scores import SCORES
from ...errors import located
from ...report import markup
from ...report.comparisons import of_algorithms
from ...report.experiment_tables import Plan, all_tables, in_print, pages, require_runs
from ...report.paper import Protocol
from ...report.style import Names
from ..columns import COLUMNS
from ..files import atomic, read_csv, write_text
from . import json_object, positive, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metrics", type=Path, required=True, help="csv from collect")
    parser.add_argument("--datasets", nargs="+", required=True, help="data sets, in the tables' order")
    parser.add_argument(
        "--algorithms", nargs="+", help="those of the tables, beside π0 and the skyline; by default all"
    )
    parser.add_argument("--selection", nargs="+", choices=SCORES, required=True, help="selections, headline first")
    parser.add_argument("--seeds", type=whole(1), required=True, help="number of seeds that each cell must have")
    parser.add_argument("--replay-count", type=whole(1), required=True)
    parser.add_argument("--grids", type=json_object, default={}, metavar="JSON", help="each algorithm's grid, a list")
    parser.add_argument(
        "--papers",
        type=json_object,
        default={},
        metavar="JSON",
        help="for data sets that stand for one of the paper's: its name, and in words how the data differ",
    )
    parser.add_argument("--names", type=json_object, default={}, metavar="JSON", help="labels, colours and markers")
    parser.add_argument("--split-unit", choices=("row", "context"), required=True, help="what was held out")
    parser.add_argument("--logging-c", type=positive, required=True, help="π0's inverse regularisation")
    parser.add_argument("--absent-label-score", choices=("logged", "half"), required=True, help="see evaluate")
    parser.add_argument(
        "--variance-penalty-scale", choices=("calibrated", "unit"), required=True, help="of POEM's grid"
    )
    parser.add_argument("--output", type=Path, required=True, help="folder")
    parser.add_argument("--pages", type=Path, help="folder of the html pages")


def run(options: argparse.Namespace) -> None:
    protocol = Protocol(**{field.name: getattr(options, field.name) for field in fields(Protocol)})
    asked = options.datasets, options.selection, options.seeds
    plan = Plan(*asked, protocol, grids=options.grids, papers=options.papers)
    metrics = of_algorithms(read_csv(options.metrics, COLUMNS), options.algorithms)
    with located(options.metrics):
        require_runs(metrics, plan)
        tables = all_tables(metrics, plan, *published())
    for name, frame in tables.items():
        with atomic(options.output / f"{name}.csv") as part:
            frame.to_csv(part, index=False, lineterminator="\n")
    names = Names(**options.names)
    for suffix, plain in {"md": markup.MARKDOWN, "tex": markup.LATEX}.items():
        to = replace(plain, names=names)
        for name, text in in_print(tables, plan, to).items():
            write_text(options.output / f"{name}.{suffix}", to.document(text))
    if options.pages:
        to = replace(markup.HTML, names=names)
        for number, (title, text) in enumerate(pages(tables, plan, to).items(), start=1):
            write_text(options.pages / f"{number:02} {title}.html", to.document(text))


def published() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells of the paper, and of the public code, run elsewhere."""
    known = files("drcrm.report") / "data"
    paper, code = (pd.read_csv(known / f"{name}.csv") for name in ("paper_tables", "reference_code"))
    return paper, code
