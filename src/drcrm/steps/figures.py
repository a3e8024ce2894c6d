"""Draw a figure of an experiment.

Reads   --metrics: csv from collect.
Writes  each --output, in the format of its suffix (pdf, svg, png).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

from ..figures import FIGURES
from ..files import atomic, read_csv
from ..scores import SCORES
from ..style import RC
from . import require, whole
from .evaluate import COLUMNS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--metrics", type=Path, required=True, help="csv from collect")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--selection", choices=SCORES, required=True, help="score that chose the hyper-parameters")
    parser.add_argument("--seeds", type=whole(1), required=True, help="number of seeds that each point must have")
    parser.add_argument("--replay-counts", nargs="+", type=whole(1), required=True, help="points on the axis")
    parser.add_argument("--output", nargs="+", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    for path in options.output:
        require(path.suffix in (".pdf", ".svg", ".png"), f"{path}: expected a name that ends in .pdf, .svg or .png")
    metrics = read_csv(options.metrics, COLUMNS)
    require(
        bool(((metrics["dataset"] == options.dataset) & (metrics["selection"] == options.selection)).any()),
        f"{options.metrics}: no runs of data set {options.dataset!r} chosen by {options.selection}",
    )
    with matplotlib.rc_context(RC):
        figure = FIGURES[options.figure](
            metrics, options.dataset, options.selection, options.seeds, sorted(options.replay_counts)
        )
        for path in options.output:
            with atomic(path) as part:
                date = {"pdf": "CreationDate", "svg": "Date"}.get(path.suffix[1:])
                figure.savefig(part, metadata={date: None} if date else None)
