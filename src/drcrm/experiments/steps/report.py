"""Turn the losses of an experiment into tables, figures and the first page of its report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drcrm.errors import prefix_errors
from drcrm.files import atomic, read_csv, write_text
from drcrm.reports import experiment_figures
from drcrm.reports.drawing import write_figure
from drcrm.reports.figure_data import DatasetResults
from drcrm.reports.plan import Plan
from drcrm.reports.printed_tables import HEAD, print_losses, printed_tables, report_tables
from drcrm.reports.result_tables import all_tables, loss_table, require_all_runs, require_runs
from drcrm.reports.roles import BASELINE, COLUMNS, GRID_COLUMNS
from drcrm.reports.summary import format_page


def figure(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Draw a figure of one data set.

    Reads ``metrics`` and ``grids``. Writes the ``figures``, each in the format of its suffix (pdf, svg, png).
    ``settings`` is a :class:`Plan`.
    """
    plan, metrics = Plan.parse(settings), read_csv(files["metrics"], COLUMNS)
    with prefix_errors(files["metrics"]):
        require_runs(metrics, dataset=plan.datasets, selection=plan.selections)
    results = DatasetResults.of(metrics, read_csv(files["grids"], GRID_COLUMNS), plan.datasets[0], plan)
    write_figure(experiment_figures.FIGURES[plan.figure], results, files["figures"])


def overview(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Draw how much of the gap between CIPS and full supervision each algorithm closes; write the report's first page.

    Reads ``metrics``. Writes the ``figures`` and the page, ``summary``. The page is reStructuredText with the svg and
    the table of the expected loss. ``settings`` is a :class:`Plan`.
    """
    plan = Plan.parse(settings)
    selection, metrics = plan.selections[0], plan.of_algorithms(read_csv(files["metrics"], COLUMNS))
    with prefix_errors(files["metrics"]):
        require_runs(metrics, dataset=plan.datasets, selection=[selection], algorithm=[BASELINE])
    results = [DatasetResults.of(metrics, metrics.iloc[:0], dataset, plan) for dataset in plan.datasets]
    write_figure(experiment_figures.overview, results, files["figures"])
    picture = next(Path(path) for path in files["figures"] if path.endswith(".svg"))
    losses = loss_table(plan.of_runs(metrics), "expected_loss", plan)
    table = print_losses(losses, "expected_loss", selection, plan.names)
    text = format_page(plan.title, results, table.html(), picture.read_text(encoding="utf-8"))
    write_text(files["summary"], text)


def tables(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Write the tables of an experiment as csv, Markdown, LaTeX and html.

    Reads ``metrics``. Writes the ``tables``, all in one folder, and an html page for each table that is not empty, in
    the folder ``pages``. The table ``differences_to_poem`` uses all runs. The other tables use the runs with the plan's
    seeds and its first replay count. ``settings`` is a :class:`Plan`.
    """
    plan, metrics = Plan.parse(settings), read_csv(files["metrics"], COLUMNS)
    with prefix_errors(files["metrics"]):
        require_all_runs(metrics, plan)
        frames = all_tables(metrics, plan)
    folder, pages = Path(files["tables"][0]).parent, Path(files["pages"])
    for name, frame in frames.items():
        with atomic(folder / f"{name}.csv") as part:
            frame.to_csv(part, index=False, lineterminator="\n")
    for name, printed in printed_tables(frames, plan).items():
        write_text(folder / f"{name}.md", "\n".join(table.markdown() for table in printed))
        write_text(folder / f"{name}.tex", "\n".join(table.latex() for table in printed))
    texts = [page for section in report_tables(frames, plan).values() for page in section.items()]
    for index, (title, table) in enumerate(texts, start=1):
        write_text(pages / f"{index:02} {title}.html", HEAD + table.html())
