"""Results of an experiment: its collected losses, tables, figures, first page of the report, and provenance.

Steps import what they use: pandas and matplotlib take most of the time of a small job.
"""

import hashlib
import json
import platform
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from drcrm.errors import prefix_errors
from drcrm.files import atomic, read_csv, write_json, write_text
from drcrm.paper import BASELINE, COLUMNS, GRID_COLUMNS
from drcrm.paper.reports.plan import Plan

ARCHIVE = ".git_archival.txt"
PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "sklearn-crfsuite", "python-crfsuite"),
    *("pandas", "matplotlib", "snakemake"),
)


def collect(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Write one ``table`` with the rows of all ``runs``, csv files from ``evaluate``, in the order of the files.

    The name of the table, ``metrics`` or ``grids``, determines its columns.
    """
    import pandas as pd

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
    from drcrm.paper.reports.markup import HEAD
    from drcrm.paper.reports.printed_tables import printed_tables, report_tables
    from drcrm.paper.reports.result_tables import OPTIONAL, all_tables, require_all_runs

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


def figure(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Draw a figure of one data set.

    Reads ``metrics`` and ``grids``. Writes the ``figures``, each in the format of its suffix (pdf, svg, png), and
    ``latex``, the figure with its caption. ``settings`` is a :class:`Plan`.
    """
    from drcrm.paper.reports.dataset_results import DatasetResults
    from drcrm.paper.reports.result_tables import require_runs

    plan, metrics = Plan.parse(settings), read_csv(files["metrics"], COLUMNS)
    with prefix_errors(files["metrics"]):
        require_runs(metrics, dataset=plan.datasets, selection=plan.selections)
    results = DatasetResults.of(metrics, read_csv(files["grids"], GRID_COLUMNS), plan.datasets[0], plan)
    from drcrm.paper.reports.figures import (  # imported here: steps without figures skip matplotlib
        FIGURES,
        write_figure,
    )

    write_figure(FIGURES[plan.figure], results, files["figures"])
    write_latex(files, plan, f"{plan.figure}-{results.dataset}")


def overview(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Draw how much of the gap between CIPS and full supervision each algorithm closes; write the report's first page.

    Reads ``metrics``. Writes the ``figures``, ``latex`` as for a figure, and the page, ``summary``. The page is
    reStructuredText with the svg and the table of the expected loss. ``settings`` is a :class:`Plan`.
    """
    from drcrm.paper.reports.dataset_results import DatasetResults, format_page
    from drcrm.paper.reports.printed_tables import print_losses
    from drcrm.paper.reports.result_tables import loss_table, require_runs

    plan = Plan.parse(settings)
    selection, metrics = plan.selections[0], plan.of_algorithms(read_csv(files["metrics"], COLUMNS))
    with prefix_errors(files["metrics"]):
        require_runs(metrics, dataset=plan.datasets, selection=[selection], algorithm=[BASELINE])
    results = [DatasetResults.of(metrics, metrics.iloc[:0], dataset, plan) for dataset in plan.datasets]
    from drcrm.paper.reports.figures import draw_overview, write_figure

    write_figure(draw_overview, results, files["figures"])
    write_latex(files, plan, "overview")
    picture = next(Path(path) for path in files["figures"] if path.endswith(".svg"))
    losses = loss_table(plan.of_runs(metrics), "expected_loss", plan)
    table = print_losses(losses, "expected_loss", selection, plan.names)
    text = format_page(plan.title, results, table.html(), picture.read_text(encoding="utf-8"))
    write_text(files["summary"], text)


def write_latex(files: Mapping[str, Any], plan: Plan, name: str) -> None:
    """Write a LaTeX figure with the plan's caption, of the pdf with the same name."""
    from drcrm.paper.reports.markup import latex_figure

    picture = Path(files["latex"]).with_suffix(".pdf").name
    write_text(files["latex"], latex_figure(picture, plan.caption, f"{plan.title}-{name}"))


def evaluation_tables(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Write the ``tables`` of ``metrics``, each in the format of its suffix: csv, md, tex or html.

    The name of a file is that of its measure, and ``settings`` has the ``title`` of the experiment.
    """
    from drcrm.paper.reports.evaluation_results import COLUMNS, print_table, tabulate
    from drcrm.paper.reports.markup import HEAD

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


def evaluation_figure(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Draw the ``figures`` of ``metrics``: ``settings`` names the ``measure``, rmse or coverage, and the simulator."""
    from drcrm.paper.reports.evaluation_results import COLUMNS, FIGURES
    from drcrm.paper.reports.figures import write_figure

    metrics = read_csv(files["metrics"], COLUMNS)
    of_simulator = metrics[metrics["simulator"] == settings["simulator"]]
    write_figure(FIGURES[settings["measure"]], of_simulator, files["figures"])


def provenance(files: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Write ``provenance``: JSON with the experiment's options and a digest of its whole configuration.

    ``project`` is the folder of the code. ``settings`` is the configuration of the experiment, its
    data sets and its algorithms. The commit comes from the git repository in the folder, or from a file that
    ``git archive`` writes. ``changed`` has the tracked files that differ from the commit. The digest of the source
    files identifies the code if the folder has neither.
    """
    project = Path(files["project"])
    status = _git(project, "status", "--porcelain")
    lines = None if status is None else status.splitlines()
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    record = {
        "commit": _git(project, "rev-parse", "HEAD") or _archived(project / ARCHIVE),
        "clean": None if lines is None else not lines,
        "changed": None if lines is None else [line[3:] for line in lines if line[:2] != "??"],
        "untracked": None if lines is None else [line[3:] for line in lines if line[:2] == "??"],
        "source": _source(project / "src"),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "config": hashlib.sha256(canonical.encode()).hexdigest(),
        "options": settings["experiment"],
        "blas": _blas(),
        "machine": platform.machine(),
    }
    write_json(files["provenance"], record)


def _git(project: Path, *command: str) -> str | None:
    """Return the output of git for the repository in this folder, not in a parent; None without git or a commit."""
    place = ["git", "--no-optional-locks", f"--git-dir={project / '.git'}", f"--work-tree={project}"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run([*place, *command], capture_output=True, text=True, check=True).stdout.rstrip()
    return None


def _archived(path: Path) -> str | None:
    """Return the commit that ``git archive`` wrote into a file; None in a checkout."""
    text = path.read_text(encoding="utf-8").strip() if path.exists() else ""
    return text if re.fullmatch("[0-9a-f]{40,64}", text) else None


def _source(folder: Path) -> str | None:
    """Return the SHA-256 of the names and contents of Python and YAML files in a folder; None if there are none."""
    paths = sorted(path for suffix in ("py", "yaml") for path in folder.rglob(f"*.{suffix}"))
    digests = [[path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()] for path in paths]
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest() if digests else None


def _version(package: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


def _blas() -> list[dict[str, str | None]]:
    """Return the BLAS libraries of numpy and scipy. The last digits of results may depend on them."""
    import numpy  # noqa: F401  loads its BLAS library, so that threadpool_info lists it
    import scipy.linalg  # noqa: F401  loads another BLAS library
    from threadpoolctl import threadpool_info

    keys = {"name": "internal_api", "version": "version", "architecture": "architecture"}
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    described = [{name: library.get(key) for name, key in keys.items()} for library in libraries]
    return sorted({json.dumps(entry): entry for entry in described}.values(), key=json.dumps)
