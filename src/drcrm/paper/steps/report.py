"""Draw the losses of an experiment, and write the first page of its report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drcrm.errors import prefix_errors
from drcrm.files import read_csv, write_text
from drcrm.paper.reports import experiment_figures
from drcrm.paper.reports.drawing import write_figure
from drcrm.paper.reports.figure_data import DatasetResults
from drcrm.paper.reports.markup import latex_figure
from drcrm.paper.reports.plan import Plan
from drcrm.paper.reports.printed_tables import print_losses
from drcrm.paper.reports.result_tables import loss_table, require_runs
from drcrm.paper.reports.roles import BASELINE, COLUMNS, GRID_COLUMNS
from drcrm.paper.reports.summary import format_page


def figure(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Draw a figure of one data set.

    Reads ``metrics`` and ``grids``. Writes the ``figures``, each in the format of its suffix (pdf, svg, png), and
    ``latex``, the figure with its caption. ``settings`` is a :class:`Plan`.
    """
    plan, metrics = Plan.parse(settings), read_csv(files["metrics"], COLUMNS)
    with prefix_errors(files["metrics"]):
        require_runs(metrics, dataset=plan.datasets, selection=plan.selections)
    results = DatasetResults.of(metrics, read_csv(files["grids"], GRID_COLUMNS), plan.datasets[0], plan)
    write_figure(experiment_figures.FIGURES[plan.figure], results, files["figures"])
    write_latex(files, plan, f"{plan.figure}-{results.dataset}")


def overview(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Draw how much of the gap between CIPS and full supervision each algorithm closes; write the report's first page.

    Reads ``metrics``. Writes the ``figures``, ``latex`` as for a figure, and the page, ``summary``. The page is
    reStructuredText with the svg and the table of the expected loss. ``settings`` is a :class:`Plan`.
    """
    plan = Plan.parse(settings)
    selection, metrics = plan.selections[0], plan.of_algorithms(read_csv(files["metrics"], COLUMNS))
    with prefix_errors(files["metrics"]):
        require_runs(metrics, dataset=plan.datasets, selection=[selection], algorithm=[BASELINE])
    results = [DatasetResults.of(metrics, metrics.iloc[:0], dataset, plan) for dataset in plan.datasets]
    write_figure(experiment_figures.overview, results, files["figures"])
    write_latex(files, plan, "overview")
    picture = next(Path(path) for path in files["figures"] if path.endswith(".svg"))
    losses = loss_table(plan.of_runs(metrics), "expected_loss", plan)
    table = print_losses(losses, "expected_loss", selection, plan.names)
    text = format_page(plan.title, results, table.html(), picture.read_text(encoding="utf-8"))
    write_text(files["summary"], text)


def write_latex(files: Mapping[str, Any], plan: Plan, name: str) -> None:
    """Write a LaTeX figure with the plan's caption, of the pdf with the same name."""
    picture = Path(files["latex"]).with_suffix(".pdf").name
    write_text(files["latex"], latex_figure(picture, plan.caption, f"{plan.title}-{name}"))
