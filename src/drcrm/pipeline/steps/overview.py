"""Draw how far each algorithm of an experiment comes from CIPS to full supervision, and say what was found.

Reads   --metrics: csv from collect.
Writes  each --output, in the format of its suffix (pdf, svg, png); --output-summary: the first page of the report, in
        reStructuredText, which takes in the svg and the table of the expected loss.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from ...core.scores import SCORES
from ...report import markup
from ...report import printed_tables as printed
from ...report.comparisons import of_algorithms
from ...report.figure_data import DatasetResults
from ...report.figures import overview
from ...report.pictures import check_formats, pictures
from ...report.style import Names
from ...report.summary import restructured_text
from ...report.tables import loss_table
from ...roles import BASELINE
from ..columns import COLUMNS
from ..files import read_csv, write_bytes, write_text
from . import json_object, require, whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metrics", type=Path, required=True, help="csv from collect")
    parser.add_argument("--datasets", nargs="+", required=True, help="data sets, in the figure's order")
    parser.add_argument("--algorithms", nargs="+", help="those shown, beside π0; by default all")
    parser.add_argument("--selection", choices=SCORES, required=True, help="score that chooses")
    parser.add_argument("--seeds", type=whole(1), required=True, help="number of seeds that each mean must have")
    parser.add_argument("--replay-count", type=whole(1), required=True)
    parser.add_argument("--names", type=json_object, default={}, metavar="JSON", help="labels, colours and markers")
    parser.add_argument("--title", default="", help="of the summary")
    parser.add_argument("--output", nargs="+", type=Path, required=True)
    parser.add_argument("--output-summary", type=Path)


def run(options: argparse.Namespace) -> None:
    check_formats(options.output)
    metrics = of_algorithms(read_csv(options.metrics, COLUMNS), options.algorithms)
    for dataset in options.datasets:
        at = metrics[(metrics["dataset"] == dataset) & (metrics["selection"] == options.selection)]
        require(BASELINE in set(at["algorithm"]), f"{options.metrics}: no runs of {BASELINE} on data set {dataset!r}")
    shared = {"seeds": options.seeds, "selections": [options.selection], "counts": [options.replay_count]}
    names = Names(**options.names)
    results = [
        DatasetResults.of(metrics, metrics.iloc[:0], dataset, labels=0, names=names, **shared)
        for dataset in options.datasets
    ]
    for path, content in pictures(overview, results, options.output).items():
        write_bytes(path, content)
    if options.output_summary:
        picture = next((path for path in options.output if path.suffix == ".svg"), None)
        require(picture is not None, "--output-summary needs an svg among the --output")
        asked = options.datasets, [options.selection], options.seeds
        at = metrics[(metrics["replay_count"] == options.replay_count) & (metrics["seed"] < options.seeds)]
        to = replace(markup.HTML, names=names)
        table = printed.losses(loss_table(at, "expected_loss", *asked), "expected_loss", options.selection, to)
        text = restructured_text(options.title, results, table, picture.read_text(encoding="utf-8"))
        write_text(options.output_summary, text)
