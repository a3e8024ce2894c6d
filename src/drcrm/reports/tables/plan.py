"""Plan of a table or figure: the data sets, seeds, algorithms and names that it shows. Steps get it as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from drcrm.reports.figures.style import Names
from drcrm.reports.roles import ROLES

if TYPE_CHECKING:  # the workflow makes plans while Snakemake reads it
    import pandas as pd

PROTOCOL = (
    *("split_unit", "logging_fraction", "logging_c", "logging_sharpness", "heldout_fraction"),
    *("absent_label_score", "variance_penalty_scale", "stopping"),
)


@dataclass(frozen=True)
class Plan:
    """The part of an experiment's results that a table or figure shows.

    A plan contains only what a step uses, so that other changes of the configuration do not run the step again.

    Parameters
    ----------
    datasets, selections : sequences of str
        In order; the first selection criterion is the headline.
    seeds : int, or mapping from a data set to int
        The number of seeds, which start at 0. A mean over fewer seeds is missing.
    counts : sequence of int
        Replay counts. The first is used if only one is shown.
    algorithms : sequence of str, optional
        Algorithms in addition to π0 and the skyline; by default all.
    title : str
        The experiment's name.
    names : Names
    translations : mapping from a data set to (unit, offset)
        An expected logged cost is unit · loss − offset.
    protocol : mapping from the options in ``PROTOCOL`` to values
        Options in which an experiment can differ from the paper's text or the public code.
    grids : mapping from an algorithm to the values of its grid
    papers : mapping from a data set to (data set of the paper, differences in words)
    log : str
        What differs from an ordinary log, in words; empty for an ordinary log.
    """

    datasets: Sequence[str]
    selections: Sequence[str]
    seeds: int | Mapping[str, int]
    counts: Sequence[int]
    algorithms: Sequence[str] | None = None
    title: str = ""
    names: Names = field(default_factory=Names)
    translations: Mapping[str, Sequence[float]] = field(default_factory=dict)
    protocol: Mapping[str, object] = field(default_factory=dict)
    grids: Mapping[str, Sequence[float]] = field(default_factory=dict)
    papers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    log: str = ""

    def json(self) -> str:
        """Return the plan as JSON, for ``parse``."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> Plan:
        """Return a plan from the JSON object that ``json`` wrote."""
        return cls(**{**values, "names": Names(**values["names"])})

    def of_algorithms(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the plan's algorithms, π0 and the skyline."""
        return rows[rows["algorithm"].isin([*self.algorithms, *ROLES])] if self.algorithms else rows

    def of_runs(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the first replay count and the plan's seeds."""
        return self.of_seeds(rows[rows["replay_count"] == self.counts[0]])

    def of_seeds(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the plan's seeds."""
        return rows[rows["seed"] < rows["dataset"].map(self.seeds_of).astype(float)]

    def seeds_of(self, dataset: str) -> int:
        """Return the number of seeds of a data set, 0 if ``seeds`` is a mapping without this data set."""
        return self.seeds.get(dataset, 0) if isinstance(self.seeds, Mapping) else self.seeds

    @property
    def seeds_in_words(self) -> str:
        """The numbers of seeds, in words."""
        return self.names.seeds({dataset: self.seeds_of(dataset) for dataset in self.datasets})
