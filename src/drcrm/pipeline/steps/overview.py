"""Draw how far each algorithm of an experiment comes from CIPS to full supervision, on all its data sets.

Reads   --metrics: csv from collect.
Writes  each --output, in the format of its suffix (pdf, svg, png).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

from ...registry import BASELINE, SCORES
from ...report.figure_data import DatasetResults
from ...report.figures import overview
from ...report.style import RC, Names
from ..columns import COLUMNS
from ..files import read_csv
from ..pictures import check_formats, save
from . import json_object, require, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metrics", type=Path, required=True, help="csv from collect")
    parser.add_argument("--datasets", nargs="+", required=True, help="data sets, in the figure's order")
    parser.add_argument("--selection", choices=SCORES, required=True, help="score that chooses")
    parser.add_argument("--seeds", type=whole(1), required=True, help="number of seeds that each mean must have")
    parser.add_argument("--replay-count", type=whole(1), required=True)
    parser.add_argument("--names", type=json_object, default={}, metavar="JSON", help="labels, colours and markers")
    parser.add_argument("--output", nargs="+", type=Path, required=True)


def run(options: argparse.Namespace) -> None:
    check_formats(options.output)
    metrics = read_csv(options.metrics, COLUMNS)
    for dataset in options.datasets:
        at = metrics[(metrics["dataset"] == dataset) & (metrics["selection"] == options.selection)]
        require(BASELINE in set(at["algorithm"]), f"{options.metrics}: no runs of {BASELINE} on data set {dataset!r}")
    shared = {"seeds": options.seeds, "selections": [options.selection], "counts": [options.replay_count]}
    names = Names(**options.names)
    results = [
        DatasetResults.of(metrics, metrics.iloc[:0], dataset, labels=0, names=names, **shared)
        for dataset in options.datasets
    ]
    with matplotlib.rc_context(RC):
        save(overview(results), options.output)
