"""Collect the losses of all runs of an experiment, and turn them into tables. These steps import no matplotlib."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from drcrm.errors import prefix_errors
from drcrm.files import atomic, read_csv, write_text
from drcrm.paper.reports.markup import HEAD
from drcrm.paper.reports.plan import Plan
from drcrm.paper.reports.printed_tables import printed_tables, report_tables
from drcrm.paper.reports.result_tables import OPTIONAL, all_tables, require_all_runs
from drcrm.paper.reports.roles import COLUMNS, GRID_COLUMNS


def collect(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Write one ``table`` with the rows of all ``runs``, csv files from ``evaluate``, in the order of the files.

    The name of the table, ``metrics`` or ``grids``, determines its columns.
    """
    columns = {"metrics": COLUMNS, "grids": GRID_COLUMNS}[Path(files["table"]).stem]
    rows = pd.concat([read_csv(path, columns, dtype=str) for path in files["runs"]])  # text keeps all digits
    with atomic(files["table"]) as part:
        rows.to_csv(part, columns=columns, index=False, lineterminator="\n")


def tables(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Write the tables of an experiment as csv, Markdown, LaTeX and html.

    Reads ``metrics``. Writes the ``tables``, all in one folder, and an html page for each table, in the folder
    ``pages``. A LaTeX file has one table. If a Markdown file has several, the folder ``more`` has the LaTeX files of
    the others. An experiment may lack ``paper_comparison``, ``average_ranks`` and ``differences_to_REFERENCE``:
    Snakemake does not know them, and old ones are removed. Differences to the reference use all runs. The other tables
    use the runs with the plan's seeds and its first replay count. ``settings`` is a :class:`Plan`.
    """
    plan, metrics = Plan.parse(settings), read_csv(files["metrics"], COLUMNS)
    with prefix_errors(files["metrics"]):
        require_all_runs(metrics, plan)
        frames = all_tables(metrics, plan)
    folder, pages, more = Path(files["tables"][0]).parent, Path(files["pages"]), Path(files["more"])
    for path in [path for name in OPTIONAL for path in folder.glob(f"{name}.*")]:
        path.unlink()
    for name, frame in frames.items():
        with atomic(folder / f"{name}.csv") as part:
            frame.to_csv(part, index=False, lineterminator="\n")
    for name, printed in printed_tables(frames, plan).items():
        write_text(folder / f"{name}.md", "\n".join(table.markdown() for table in printed.values()))
        for file, table in printed.items():
            write_text((folder if file == name else more) / f"{file}.tex", table.latex(f"{plan.title}-{file}"))
    texts = [page for section in report_tables(frames, plan).values() for page in section.items()]
    for index, (title, table) in enumerate(texts, start=1):
        write_text(pages / f"{index:02} {title}.html", HEAD + table.html())
