"""Turn an experiment's metrics into the paper's tables.

Reads   --metrics: csv from collect; --plan: JSON, as ``drcrm.pipeline.plan.Plan`` has it.
Writes  in the folder --output, as .csv, .md and .tex: expected_loss, greedy_loss, hyperparameters and
        paper_comparison, where only runs with the plan's first count and its seeds enter, and differences_to_poem, of
        all runs. In the folder --pages each table as an html page, but those that would be empty.
"""

from __future__ import annotations

import argparse
from dataclasses import fields, replace
from importlib.resources import files
from pathlib import Path

import pandas as pd

from ...errors import located
from ...report import markup
from ...report.comparisons import of_algorithms
from ...report.experiment_tables import Plan as TablesPlan
from ...report.experiment_tables import all_tables, in_print, pages, require_runs
from ...report.paper import Protocol
from ...report.style import Names
from ..columns import COLUMNS
from ..files import atomic, read_csv, write_text
from ..plan import Plan
from . import require


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--metrics", type=Path, required=True, help="csv from collect")
    parser.add_argument("--plan", type=Plan.parse, required=True, metavar="JSON", help="what is shown, and its names")
    parser.add_argument("--output", type=Path, required=True, help="folder")
    parser.add_argument("--pages", type=Path, help="folder of the html pages")


def run(options: argparse.Namespace) -> None:
    plan = tables_plan(options.plan)
    metrics = of_algorithms(read_csv(options.metrics, COLUMNS), options.plan.algorithms)
    with located(options.metrics):
        require_runs(metrics, plan)
        tables = all_tables(metrics, plan, *published())
    for name, frame in tables.items():
        with atomic(options.output / f"{name}.csv") as part:
            frame.to_csv(part, index=False, lineterminator="\n")
    names = Names(**options.plan.names)
    for suffix, plain in {"md": markup.MARKDOWN, "tex": markup.LATEX}.items():
        to = replace(plain, names=names)
        for name, text in in_print(tables, plan, to).items():
            write_text(options.output / f"{name}.{suffix}", to.document(text))
    if options.pages:
        to = replace(markup.HTML, names=names)
        for number, (title, text) in enumerate(pages(tables, plan, to).items(), start=1):
            write_text(options.pages / f"{number:02} {title}.html", to.document(text))


def tables_plan(plan: Plan) -> TablesPlan:
    """A plan as tables are made by it."""
    missing = {each.name for each in fields(Protocol)} - {"replay_count", *plan.protocol}
    require(not missing, f"--plan has no protocol's {', '.join(sorted(missing))}")
    protocol = Protocol(plan.counts[0], **plan.protocol)
    return TablesPlan(plan.datasets, plan.selections, plan.seeds, protocol, grids=plan.grids, papers=plan.papers)


def published() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The cells of the paper, and of the public code, run elsewhere."""
    known = files("drcrm.report") / "data"
    paper, code = (pd.read_csv(known / f"{name}.csv") for name in ("paper_tables", "reference_code"))
    return paper, code
