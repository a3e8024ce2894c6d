"""Markdown page of a finished experiment, from its tables, options and provenance."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pandas as pd
import yaml

from drcrm.errors import InputError
from drcrm.paper.reports.plan import FIGURE_TITLES, Names, Plan
from drcrm.paper.reports.printed_tables import print_losses, report_tables
from drcrm.paper.reports.roles import LOSSES

TERMS = "The [glossary](../reference/glossary.md) explains the terms, the [protocol](../paper/protocol.md) a run."
DEFAULTS = {
    "logging_sharpness": 1,
    "click_rates": [1, 0],
    "test_shift": None,
    "start": None,
}  # shown only if they differ


@dataclass(frozen=True)
class Picture:
    """A figure of some data sets: its key, the link to the image of each data set, and the caption."""

    figure: str
    links: Mapping[str, str]
    caption: str


@dataclass(frozen=True)
class Experiment:
    """A finished experiment.

    Parameters
    ----------
    name, about : str
        ``about`` is a one-line description.
    options : mapping
        The completed options of the configuration.
    provenance : mapping
        The record of the step ``provenance``. Unknown values are null; ``note`` may add a sentence.
    plan : Plan
    tables : mapping from a name to a frame
        Those of ``drcrm.paper.reports.result_tables.all_tables``.
    rows : mapping from a description of a file of rows to its link
    pictures : iterable of Picture
    overview : str
        Markdown of the picture at the top of the page, if there is one.
    """

    name: str
    about: str
    options: Mapping
    provenance: Mapping
    plan: Plan
    tables: Mapping[str, pd.DataFrame]
    rows: Mapping[str, str] = field(default_factory=dict)
    pictures: Iterable[Picture] = ()
    overview: str = ""


def format_page(experiment: Experiment) -> str:
    """Return the page of an experiment."""
    sections = report_tables(experiment.tables, experiment.plan).items()
    parts = {
        "What was run": format_run(experiment),
        **{title: "\n".join(table.markdown() for table in tables.values()) for title, tables in sections},
        "Figures": "\n".join(format_picture(picture, experiment.plan.names) for picture in experiment.pictures),
    }
    texts = [f"## {title}\n\n{text}" for title, text in parts.items() if text]
    title = f"# {experiment.name}\n\n{experiment.about} {TERMS}\n"
    return "\n".join(filter(None, [title, experiment.overview, *texts]))


def format_index(descriptions: Mapping[str, str]) -> str:
    """Return the index of the pages, from the description of each."""
    rows = "".join(f"| [{name}]({name}.md) | {text} |\n" for name, text in descriptions.items())
    contents = "\n".join(descriptions)
    return (
        "# Results of all experiments\n\n"
        "Every page shows the options, the tables and the figures of a finished experiment.\n"
        "[Experiments](../reference/configuration.md) shows how to run it, and what a mirror is. The\n"
        "[glossary](../reference/glossary.md) explains the terms.\n\n"
        f"| experiment | what was run |\n| --- | --- |\n{rows}\n"
        f"```{{toctree}}\n:hidden:\n\n{contents}\n```\n"
    )


def format_run(experiment: Experiment) -> str:
    """Return the options, the provenance and links to the rows."""
    options = _check_options(experiment.options, experiment.provenance.get("options"))
    options = {key: value for key, value in options.items() if (key, value) not in DEFAULTS.items()}
    text = yaml.safe_dump(
        {experiment.name: options}, default_flow_style=None, sort_keys=False, allow_unicode=True, width=110
    )
    links = ", ".join(f"[{title}]({link})" for title, link in experiment.rows.items())
    footer = f"Rows: {links}. `make site` writes this page from them.\n"
    return f"```yaml\n{text}```\n\n{format_provenance(experiment.provenance)}\n{footer}"


def _check_options(options: Mapping, recorded: Mapping | None) -> Mapping:
    """Return the options if they are those of the recorded run."""
    for name, value in (recorded or {}).items():
        if options.get(name) != value:
            raise InputError(f"{name} was {value} in the run, but is {options.get(name)} in the configuration")
    return options


def format_provenance(record: Mapping) -> str:
    """Return the known code, packages and machine of a run as a list."""
    versions = {name: version for name, version in (record.get("versions") or {}).items() if version}
    known = {
        "commit": _format_commit(record),
        "source": f"sha256 `{record['source'][:12]}`" if record.get("source") and not record.get("commit") else "",
        "packages": ", ".join(map(" ".join, versions.items())),
        "BLAS": ", ".join(" ".join(filter(None, library.values())) for library in record.get("blas") or []),
        "machine": record.get("machine"),
    }
    lines = "".join(f"- {key}: {text}\n" for key, text in known.items() if text)
    parts = [f"{record['note']}\n" if record.get("note") else "", lines]
    return "\n".join(filter(None, parts)) or "The code, the packages and the machine were not recorded.\n"


def _format_commit(record: Mapping) -> str:
    """Return the commit, and whether the working tree was clean."""
    if not record.get("commit"):
        return ""
    state = {True: ", clean", False: ", with changes", None: ""}[record.get("clean")]
    if record.get("untracked") and not record.get("changed"):
        state = ", with untracked files"
    return f"`{record['commit'][:7]}`{state}"


def format_picture(picture: Picture, names: Names) -> str:
    """Return the images of a figure with their caption."""
    images = [
        f'<img src="{link}" alt="{FIGURE_TITLES[picture.figure]}: {names.dataset(dataset)}" width="400">\n'
        for dataset, link in picture.links.items()
    ]
    return f"{''.join(images)}\n{picture.caption}\n"


def format_losses(experiment: Experiment, metric: str, selection: str) -> str:
    """Return the table of a loss by one selection criterion."""
    if metric not in LOSSES or selection not in experiment.plan.selections:
        known = f"{', '.join(LOSSES)} by {', '.join(experiment.plan.selections)}"
        raise InputError(f"{experiment.name} has no table of {metric} by {selection}, only of {known}")
    return print_losses(experiment.tables[metric], metric, selection, experiment.plan.names).markdown()
