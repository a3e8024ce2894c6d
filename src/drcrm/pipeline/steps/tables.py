"""Turn an experiment's metrics into the paper's tables.

Reads   --metrics: csv from collect.
Writes  in the folder --output, as .csv, .md, .tex and .html: expected_loss, greedy_loss, hyperparameters and
        paper_comparison, where only runs with --replay-count and seeds below --seeds enter, and differences_to_poem,
        of all runs.
"""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from importlib.resources import files
from itertools import product
from pathlib import Path

import pandas as pd

from ...registry import LOSSES, REFERENCE, SCORES
from ...report import markup
from ...report.paper import Protocol, paper_comparison
from ...report.style import Names
from ...report.tables import hyperparameter_table, loss_table, paired_differences
from ..columns import COLUMNS
from ..files import atomic, read_csv, write_text
from . import json_object, positive, require, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metrics", type=Path, required=True, help="csv from collect")
    parser.add_argument("--datasets", nargs="+", required=True, help="data sets, in the tables' order")
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


def run(options: argparse.Namespace) -> None:
    metrics = read_csv(options.metrics, COLUMNS)
    place = {name: i for i, name in enumerate(options.datasets)}
    metrics = metrics.sort_values("dataset", key=lambda names: names.map(place), kind="stable")  # of no table: last
    differences = paired_differences(metrics, REFERENCE, options.selection)
    metrics = metrics[(metrics["replay_count"] == options.replay_count) & (metrics["seed"] < options.seeds)]
    runs = set(zip(metrics["dataset"], metrics["selection"], strict=True))
    for name, selection in product(options.datasets, options.selection):
        require((name, selection) in runs, f"{options.metrics}: no runs of data set {name!r} chosen by {selection}")
    axes = options.datasets, options.selection
    losses = {metric: loss_table(metrics, metric, *axes, options.seeds) for metric in LOSSES}
    hyperparameters = hyperparameter_table(metrics, options.grids, *axes)
    known = files("drcrm.report") / "data"
    paper, code = (pd.read_csv(known / f"{name}.csv") for name in ("paper_tables", "reference_code"))
    protocol = Protocol(**{field.name: getattr(options, field.name) for field in fields(Protocol)})
    comparison = paper_comparison(losses, paper, code, options.papers, protocol)
    frames = {**losses, "hyperparameters": hyperparameters, "paper_comparison": comparison}
    for name, frame in {**frames, "differences_to_poem": differences}.items():
        with atomic(options.output / f"{name}.csv") as part:
            frame.to_csv(part, index=False, lineterminator="\n")
    names = Names(**options.names)
    for suffix, plain in {"md": markup.MARKDOWN, "tex": markup.LATEX, "html": markup.HTML}.items():
        to = replace(plain, names=names)
        texts = {
            metric: "\n".join(
                part(table, metric, by, to) for part in (markup.losses, markup.details) for by in options.selection
            )
            for metric, table in losses.items()
        }
        texts["hyperparameters"] = markup.hyperparameters(hyperparameters, options.datasets, to)
        texts["paper_comparison"] = markup.comparison(comparison, to)
        texts["differences_to_poem"] = markup.differences(differences, to)
        for name, text in texts.items():
            write_text(options.output / f"{name}.{suffix}", to.document(text))
