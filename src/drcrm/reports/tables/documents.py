"""Pages on finished experiments: from their tables, options and provenance to Markdown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pandas as pd
import yaml
from jinja2 import Template

from drcrm.errors import InputError
from drcrm.reports.figures.style import FIGURE_TITLES, Names
from drcrm.reports.roles import LOSSES
from drcrm.reports.tables import markup
from drcrm.reports.tables import printed_tables as printed
from drcrm.reports.tables.plan import Plan
from drcrm.reports.tables.result_tables import sections

USUAL = {"logging_sharpness": 1, "click_rates": [1, 0]}  # options that a page has where they are others


@dataclass(frozen=True)
class Picture:
    """A figure: where a page has it from, for each data set, and its caption."""

    figure: str
    links: Mapping[str, str]
    caption: str


@dataclass(frozen=True)
class Experiment:
    """A finished experiment: its tables, and what is said of it.

    Parameters
    ----------
    name, about : str
        ``about`` says in a line what it is.
    options : mapping
        As the configuration completes them.
    provenance : mapping
        As the step provenance writes it; what is not known is null, and a ``note`` may say more.
    plan : Plan
    tables : mapping from a name to a frame
        Those of ``drcrm.reports.tables.result_tables.all_tables``, and perhaps an ``ablation``.
    rows : mapping from what they are to where a page links to them
    pictures : sequence of Picture
    overview : str
        Markdown of the picture that the page opens on, if there is one.
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

    @property
    def markdown(self) -> markup.Markup:
        """Markdown with this experiment's names."""
        return replace(markup.MARKDOWN, names=self.plan.names)


def page(experiment: Experiment) -> str:
    """The page of an experiment."""
    tables = sections(experiment.tables, experiment.plan, experiment.markdown)
    parts = {
        "What was run": what_was_run(experiment),
        **{title: "\n".join(texts.values()) for title, texts in tables.items()},
        "Figures": "\n".join(picture(each, experiment.plan.names) for each in experiment.pictures),
    }
    texts = [f"## {title}\n\n{text}" for title, text in parts.items() if text]
    return "\n".join(filter(None, [f"# {experiment.name}\n\n{experiment.about}\n", experiment.overview, *texts]))


def what_was_run(experiment: Experiment) -> str:
    """What was run: options, what is known of the code and the machine, and where the rows are."""
    options = _agreed(experiment.options, experiment.provenance.get("options"))
    options = {experiment.name: {key: value for key, value in options.items() if (key, value) not in USUAL.items()}}
    text = yaml.safe_dump(options, default_flow_style=None, sort_keys=False, allow_unicode=True, width=110)
    links = ", ".join(f"[{what}]({link})" for what, link in experiment.rows.items())
    made = f"Rows: {links}. This page is made from them by `make docs`.\n"
    return f"```yaml\n{text}```\n\n{provenance(experiment.provenance)}\n{made}"


def provenance(record: Mapping) -> str:
    """Return what is known of the code, the packages and the machine, as a list."""
    versions = {name: version for name, version in (record.get("versions") or {}).items() if version}
    known = {
        "commit": _commit(record),
        "source": f"sha256 `{record['source'][:12]}`" if record.get("source") and not record.get("commit") else "",
        "packages": ", ".join(map(" ".join, versions.items())),
        "BLAS": ", ".join(" ".join(filter(None, each.values())) for each in record.get("blas") or []),
        "machine": record.get("machine"),
    }
    lines = "".join(f"- {what}: {text}\n" for what, text in known.items() if text)
    parts = [f"{record['note']}\n" if record.get("note") else "", lines]
    return "\n".join(filter(None, parts)) or "The code, the packages and the machine were not recorded.\n"


def picture(each: Picture, names: Names) -> str:
    """A figure of each data set, with their caption."""
    images = [
        f'<img src="{link}" alt="{FIGURE_TITLES[each.figure]}: {names.dataset(dataset)}" width="400">\n'
        for dataset, link in each.links.items()
    ]
    return f"{''.join(images)}\n{each.caption}\n"


def caption(template: str, figure: str, words: Mapping) -> str:
    """The caption that the report gives a figure, in a line: its template is filled as Snakemake does."""
    job = {"wildcards": {"figure": figure}, "params": {"words": words}}
    return " ".join(Template(template).render(snakemake=job).split())


def headline(experiment: Experiment, metric: str, selection: str) -> str:
    """The table of a loss by one selection, as a page has it."""
    if metric not in LOSSES or selection not in experiment.plan.selections:
        known = f"{', '.join(LOSSES)} by {', '.join(experiment.plan.selections)}"
        raise InputError(f"{experiment.name} has no table of {metric} by {selection}, only of {known}")
    return printed.losses(experiment.tables[metric], metric, selection, experiment.markdown)


def _commit(record: Mapping) -> str:
    """The commit, and whether the code was as committed."""
    if not record.get("commit"):
        return ""
    state = {True: ", clean", False: ", with changes", None: ""}
    return f"`{record['commit'][:7]}`{state[record.get('clean')]}"


def _agreed(options: Mapping, recorded: Mapping | None) -> Mapping:
    """The options, if they are those that were recorded; InputError names the first that is not."""
    for name, value in (recorded or {}).items():
        if options.get(name) != value:
            raise InputError(f"{name} was {value} in the run, and is {options.get(name)} in the configuration")
    return options
