"""Draw a figure of an experiment.

Reads   --metrics and --grids: csv from collect.
Writes  each --output, in the format of its suffix (pdf, svg, png).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...core.scores import SCORES
from ...report.comparisons import of_algorithms
from ...report.figure_data import DatasetResults
from ...report.figures import FIGURES
from ...report.pictures import check_formats, pictures
from ...report.style import Names
from ..columns import COLUMNS, GRID_COLUMNS
from ..files import read_csv, write_bytes
from . import json_object, require, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--metrics", type=Path, required=True, help="csv from collect")
    parser.add_argument("--grids", type=Path, required=True, help="csv from collect")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--labels", type=whole(1), required=True, help="number of the data set's labels")
    parser.add_argument("--selection", nargs="+", choices=SCORES, required=True, help="selections, headline first")
    parser.add_argument("--seeds", type=whole(1), required=True, help="number of seeds that each point must have")
    parser.add_argument("--algorithms", nargs="+", help="those shown, beside π0 and the skyline; by default all")
    parser.add_argument("--replay-counts", nargs="+", type=whole(1), required=True, help="those shown")
    parser.add_argument("--split-unit", choices=("row", "context"), default="context", help="what was held out")
    parser.add_argument("--names", type=json_object, default={}, metavar="JSON", help="labels, colours and markers")
    parser.add_argument("--output", nargs="+", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    check_formats(options.output)
    metrics = of_algorithms(read_csv(options.metrics, COLUMNS), options.algorithms)
    grids = read_csv(options.grids, GRID_COLUMNS)
    for selection in options.selection:
        require(
            bool(((metrics["dataset"] == options.dataset) & (metrics["selection"] == selection)).any()),
            f"{options.metrics}: no runs of data set {options.dataset!r} chosen by {selection}",
        )
    results = DatasetResults.of(
        metrics,
        grids,
        options.dataset,
        seeds=options.seeds,
        selections=options.selection,
        counts=sorted(options.replay_counts),
        labels=options.labels,
        names=Names(**options.names),
        held_out=options.split_unit,
    )
    for path, content in pictures(FIGURES[options.figure], results, options.output).items():
        write_bytes(path, content)
