"""Turn an experiment's metrics into the paper's tables.

Reads   --metrics: csv from collect; --plan: JSON, as ``drcrm.reports.tables.plan.Plan`` has it.
Writes  in the folder --output, as .csv, .md and .tex: expected_loss, greedy_loss, hyperparameters and
        paper_comparison, where only runs with the plan's first count and its seeds enter, and differences_to_poem, of
        all runs. In the folder --pages each table as an html page, but those that would be empty.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from drcrm.errors import prefix_errors
from drcrm.experiments.columns import COLUMNS
from drcrm.experiments.steps import add_shared, require
from drcrm.files import atomic, read_csv, write_text
from drcrm.reports.tables import markup
from drcrm.reports.tables.plan import PROTOCOL, Plan
from drcrm.reports.tables.result_tables import all_tables, format_sections, format_tables, require_runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser, "metrics")
    parser.add_argument("--plan", type=Plan.parse, required=True, metavar="JSON", help="what is shown, and its names")
    parser.add_argument("--output", type=Path, required=True, help="folder")
    parser.add_argument("--pages", type=Path, help="folder of the html pages")


def run(options: argparse.Namespace) -> None:
    plan, metrics = options.plan, read_csv(options.metrics, COLUMNS)
    missing = set(PROTOCOL) - set(plan.protocol)
    require(not missing, f"--plan has no protocol's {', '.join(sorted(missing))}")
    with prefix_errors(options.metrics):
        require_runs(metrics, plan)
        tables = all_tables(metrics, plan)
    for name, frame in tables.items():
        with atomic(options.output / f"{name}.csv") as part:
            frame.to_csv(part, index=False, lineterminator="\n")
    for suffix, plain in {"md": markup.MARKDOWN, "tex": markup.LATEX}.items():
        to = replace(plain, names=plan.names)
        for name, text in format_tables(tables, plan, to).items():
            write_text(options.output / f"{name}.{suffix}", to.document(text))
    if options.pages:
        to = replace(markup.HTML, names=plan.names)
        pages = [page for texts in format_sections(tables, plan, to).values() for page in texts.items()]
        for number, (title, text) in enumerate(pages, start=1):
            write_text(options.pages / f"{number:02} {title}.html", to.document(text))
