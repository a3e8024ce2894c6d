"""Turn the losses of an experiment into the paper's tables."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drcrm.errors import prefix_errors
from drcrm.experiments.columns import COLUMNS
from drcrm.files import atomic, read_csv, write_text
from drcrm.reports.tables.plan import Plan
from drcrm.reports.tables.printed_tables import HEAD, printed_tables, report_tables
from drcrm.reports.tables.result_tables import all_tables, require_all_runs


def tables(inputs: Mapping[str, str], outputs: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """Write the tables of an experiment as csv, Markdown, LaTeX and html.

    Reads ``metrics``. Writes the ``tables``, all in one folder, and an html page for each table that is not empty, in
    the folder ``pages``. The table ``differences_to_poem`` uses all runs. The other tables use the runs with the plan's
    seeds and its first replay count. ``parameters`` is a :class:`Plan`.
    """
    plan, metrics = Plan.parse(parameters), read_csv(inputs["metrics"], COLUMNS)
    with prefix_errors(inputs["metrics"]):
        require_all_runs(metrics, plan)
        frames = all_tables(metrics, plan)
    folder, pages = Path(outputs["tables"][0]).parent, Path(outputs["pages"])
    for name, frame in frames.items():
        with atomic(folder / f"{name}.csv") as part:
            frame.to_csv(part, index=False, lineterminator="\n")
    for name, printed in printed_tables(frames, plan).items():
        write_text(folder / f"{name}.md", "\n".join(table.markdown() for table in printed))
        write_text(folder / f"{name}.tex", "\n".join(table.latex() for table in printed))
    texts = [page for section in report_tables(frames, plan).values() for page in section.items()]
    for index, (title, table) in enumerate(texts, start=1):
        write_text(pages / f"{index:02} {title}.html", HEAD + table.html())
