"""Draw a figure of an experiment.

Reads   --metrics and --grids: csv from collect; --plan: JSON, as ``drcrm.reports.tables.plan.Plan`` has it.
Writes  each --output, in the format of its suffix (pdf, svg, png).
"""

import argparse
from pathlib import Path

from drcrm.experiments.columns import COLUMNS, GRID_COLUMNS
from drcrm.experiments.steps import add_shared, require
from drcrm.files import read_csv, write_bytes
from drcrm.reports.figures.experiment_figures import FIGURES
from drcrm.reports.figures.figure_data import DatasetResults
from drcrm.reports.figures.image_files import render
from drcrm.reports.tables.plan import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "metrics")
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--grids", type=Path, required=True, help="csv from collect")
    parser.add_argument("--plan", type=Plan.parse, required=True, metavar="JSON", help="of one data set, and its names")
    parser.add_argument("--output", nargs="+", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    metrics, dataset = read_csv(options.metrics, COLUMNS), options.plan.datasets[0]
    for selection in options.plan.selections:
        require(
            bool(((metrics["dataset"] == dataset) & (metrics["selection"] == selection)).any()),
            f"{options.metrics}: no runs of data set {dataset!r} chosen by {selection}",
        )
    grids = read_csv(options.grids, GRID_COLUMNS)
    require(dataset in options.plan.translations, f"--plan has no translation of {dataset!r}")
    results = DatasetResults.of(metrics, grids, dataset, options.plan)
    for path, content in render(FIGURES[options.figure], results, options.output).items():
        write_bytes(path, content)
