"""Write the tables and figures of an experiment of the kind ``evaluation``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drcrm.files import atomic, read_csv, write_text
from drcrm.paper.evaluation_results import COLUMNS, FIGURES, print_table, tabulate
from drcrm.paper.reports.drawing import write_figure
from drcrm.paper.reports.markup import HEAD


def tables(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Write the ``tables`` of ``metrics``, each in the format of its suffix: csv, md, tex or html.

    The name of a file is that of its measure, and ``settings`` has the ``title`` of the experiment.
    """
    metrics, title = read_csv(files["metrics"], COLUMNS), settings["title"]
    for path in map(Path, files["tables"]):
        if path.suffix == ".csv":
            with atomic(path) as part:
                tabulate(metrics, path.stem).to_csv(part, index=False, lineterminator="\n")
            continue
        table = print_table(metrics, path.stem, title)
        if path.suffix == ".tex":
            write_text(path, table.latex(f"{title}-{path.stem}"))
        else:
            write_text(path, table.markdown() if path.suffix == ".md" else HEAD + table.html())


def figure(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Draw the ``figures`` of ``metrics``: ``settings`` names the ``measure``, rmse or coverage, and the simulator."""
    metrics = read_csv(files["metrics"], COLUMNS)
    of_simulator = metrics[metrics["simulator"] == settings["simulator"]]
    write_figure(FIGURES[settings["measure"]], of_simulator, files["figures"])
