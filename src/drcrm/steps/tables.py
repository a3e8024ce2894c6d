"""Turn an experiment's metrics into the paper's tables.

Reads   --metrics: csv from collect.
Writes  in the folder --output: expected_hamming, greedy_hamming, hyperparameters (.csv, .md, .tex) and
        paper_comparison (.csv, .md). Only runs with --replay-count and seeds below --seeds enter.
"""

from __future__ import annotations

import argparse
from importlib.resources import files
from itertools import product
from pathlib import Path

import pandas as pd

from .. import tables
from ..files import atomic, read_csv, write_text
from ..scores import SCORES
from ..style import METRICS
from . import assignment, require, whole
from .evaluate import COLUMNS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metrics", type=Path, required=True, help="csv from collect")
    parser.add_argument("--datasets", nargs="+", required=True, help="data sets, in the tables' order")
    parser.add_argument("--selection", nargs="+", choices=SCORES, required=True, help="selections, headline first")
    parser.add_argument("--seeds", type=whole(1), required=True, help="number of seeds that each cell must have")
    parser.add_argument("--replay-count", type=whole(1), required=True)
    parser.add_argument(
        "--grid", nargs="+", type=assignment, default=[], metavar="NAME=VALUE,VALUE", help="each algorithm's grid"
    )
    parser.add_argument(
        "--paper",
        nargs="*",
        type=assignment,
        default=[],
        metavar="NAME=PAPER:DIFFERS",
        help="the paper's data set that one stands for, and in words how the data differ",
    )
    parser.add_argument("--output", type=Path, required=True, help="folder")


def run(options: argparse.Namespace) -> None:
    metrics = read_csv(options.metrics, COLUMNS)
    metrics = metrics[(metrics["replay_count"] == options.replay_count) & (metrics["seed"] < options.seeds)]
    runs = set(zip(metrics["dataset"], metrics["selection"], strict=True))
    for name, selection in product(options.datasets, options.selection):
        require((name, selection) in runs, f"{options.metrics}: no runs of data set {name!r} chosen by {selection}")
    axes = options.datasets, options.selection
    losses = {metric: tables.loss_table(metrics, metric, *axes, options.seeds) for metric in METRICS}
    for metric, table in losses.items():
        _write_csv(options.output / f"{metric}.csv", table)
        write_text(options.output / f"{metric}.md", tables.loss_markdown(table, metric, *axes))
        write_text(options.output / f"{metric}.tex", tables.loss_latex(table, metric, *axes))
    grids = {name: [float(value) for value in values.split(",") if value] for name, values in options.grid}
    hyperparameters = tables.hyperparameter_table(metrics, grids, *axes)
    _write_csv(options.output / "hyperparameters.csv", hyperparameters)
    write_text(options.output / "hyperparameters.md", tables.hyperparameter_markdown(hyperparameters, options.datasets))
    write_text(options.output / "hyperparameters.tex", tables.hyperparameter_latex(hyperparameters, options.datasets))
    paper = pd.read_csv(files("drcrm") / "data/paper_tables.csv")
    stands_for = {name: value.partition(":")[::2] for name, value in options.paper}
    comparison = tables.paper_comparison(losses, paper, stands_for)
    _write_csv(options.output / "paper_comparison.csv", comparison)
    write_text(options.output / "paper_comparison.md", tables.comparison_markdown(comparison))


def _write_csv(path: Path, table: pd.DataFrame) -> None:
    with atomic(path) as part:
        table.to_csv(part, index=False, lineterminator="\n")
