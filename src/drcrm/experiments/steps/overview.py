"""Draw how far each algorithm of an experiment comes from CIPS to full supervision, and say what was found.

Reads   --metrics: csv from collect; --plan: JSON, as ``drcrm.reports.tables.plan.Plan`` has it.
Writes  each --output, in the format of its suffix (pdf, svg, png); --output-summary: the first page of the report, in
        reStructuredText, which takes in the svg and the table of the expected loss.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from drcrm.experiments.columns import COLUMNS
from drcrm.experiments.steps import add_shared, require
from drcrm.files import read_csv, write_bytes, write_text
from drcrm.reports.figures.experiment_figures import overview
from drcrm.reports.figures.figure_data import DatasetResults
from drcrm.reports.figures.image_files import render
from drcrm.reports.roles import BASELINE
from drcrm.reports.tables import markup
from drcrm.reports.tables import printed_tables as printed
from drcrm.reports.tables.plan import Plan
from drcrm.reports.tables.result_tables import loss_table
from drcrm.reports.tables.summary import format_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "metrics")
    parser.add_argument("--plan", type=Plan.parse, required=True, metavar="JSON", help="what is shown, and its names")
    parser.add_argument("--output", nargs="+", type=Path, required=True)
    parser.add_argument("--output-summary", type=Path)


def run(options: argparse.Namespace) -> None:
    plan, selection = options.plan, options.plan.selections[0]
    metrics = plan.of_algorithms(read_csv(options.metrics, COLUMNS))
    for dataset in plan.datasets:
        at = metrics[(metrics["dataset"] == dataset) & (metrics["selection"] == selection)]
        require(BASELINE in set(at["algorithm"]), f"{options.metrics}: no runs of {BASELINE} on data set {dataset!r}")
    results = [DatasetResults.of(metrics, metrics.iloc[:0], dataset, plan) for dataset in plan.datasets]
    for path, content in render(overview, results, options.output).items():
        write_bytes(path, content)
    if options.output_summary:
        picture = next((path for path in options.output if path.suffix == ".svg"), None)
        require(picture is not None, "--output-summary needs an svg among the --output")
        losses = loss_table(plan.of_runs(metrics), "expected_loss", plan)
        table = printed.format_losses(losses, "expected_loss", selection, replace(markup.HTML, names=plan.names))
        text = format_page(plan.title, results, table, picture.read_text(encoding="utf-8"))
        write_text(options.output_summary, text)
