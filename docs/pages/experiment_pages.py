"""Markdown page of a finished experiment, from its tables, options and provenance."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import yaml

from drcrm.errors import InputError
from drcrm.paper import LOSSES
from drcrm.paper.reports.plan import Plan
from drcrm.paper.reports.printed_tables import print_losses, report_tables

FORMER_OPTIONS = {"ablation"}  # of recorded runs; the experiments `starts` have taken its place
PAGE = """# {name}

The [configuration](../reference/configuration.md) describes all experiments, the [protocol](../paper/protocol.md)
a run, and the [glossary](../reference/glossary.md) the terms.

## What was run

```yaml
{options}```

Rows: {rows}. `make site` writes this page from them. The record of the run:

```{{literalinclude}} ../results/{name}_provenance.json
:language: json
```

{sections}"""
INDEX = """# Results of all experiments

Every page shows the options and the tables of a finished experiment. The report of a run has its figures, too.
[Experiments](../reference/configuration.md) describes each experiment and shows how to run it.

```{toctree}
:glob:
:maxdepth: 1

*
```
"""


@dataclass(frozen=True)
class Experiment:
    """A finished experiment: its completed options, its plan, and the tables of ``all_tables``."""

    name: str
    options: Mapping
    plan: Plan
    tables: Mapping[str, pd.DataFrame]


def format_page(experiment: Experiment, recorded: Mapping, links: Mapping[str, str]) -> str:
    """Return the page of an experiment.

    ``recorded`` are the options of its run. ``links`` are those to its files of rows, by description.
    """
    options = experiment.options
    for name, value in recorded.items():
        if name not in FORMER_OPTIONS and options.get(name) != value:
            raise InputError(f"{name} was {value} in the run, but is {options.get(name)} in the configuration")
    sections = report_tables(experiment.tables, experiment.plan).items()
    texts = [f"## {title}\n\n" + "\n".join(table.markdown() for table in tables.values()) for title, tables in sections]
    return PAGE.format(
        name=experiment.name,
        options=yaml.safe_dump(
            {experiment.name: dict(options)}, default_flow_style=None, sort_keys=False, allow_unicode=True, width=110
        ),
        rows=", ".join(f"[{title}]({link})" for title, link in links.items()),
        sections="\n".join(texts),
    )


def format_losses(experiment: Experiment, metric: str, selection: str) -> str:
    """Return the table of a loss by one selection criterion."""
    if metric not in LOSSES or selection not in experiment.plan.selections:
        known = f"{', '.join(LOSSES)} by {', '.join(experiment.plan.selections)}"
        raise InputError(f"{experiment.name} has no table of {metric} by {selection}, only of {known}")
    return print_losses(experiment.tables[metric], metric, selection, experiment.plan.names).markdown()
