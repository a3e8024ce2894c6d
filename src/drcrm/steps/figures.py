"""Draw a figure of an experiment.

Reads   --metrics: csv from collect.
Writes  each --output, in the format of its suffix (pdf, svg, png).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import pandas as pd

from ..figures import FIGURES
from ..files import atomic
from ..scores import SCORES
from ..style import RC
from . import require, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--metrics", type=Path, required=True, help="csv from collect")
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--selection", choices=SCORES, required=True, help="score that chose the hyper-parameters")
    parser.add_argument("--seeds", type=whole(1), required=True, help="number of seeds that each point must have")
    parser.add_argument("--replay-counts", nargs="+", type=whole(1), required=True, help="points on the axis")
    parser.add_argument("--output", nargs="+", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    metrics = pd.read_csv(options.metrics)
    require(options.dataset in set(metrics["dataset"]), f"{options.metrics}: no runs of data set {options.dataset!r}")
    with matplotlib.rc_context(RC):
        figure = FIGURES[options.figure](
            metrics, options.dataset, options.selection, options.seeds, sorted(options.replay_counts)
        )
        for path in options.output:
            with atomic(path) as part:
                date = {"pdf": "CreationDate", "svg": "Date"}.get(path.suffix[1:])
                figure.savefig(part, metadata={date: None} if date else None)
