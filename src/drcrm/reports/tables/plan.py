"""What tables, figures and the overview show of an experiment: one plan, which steps are given as a JSON object."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

import pandas as pd

from drcrm.reports.figures.style import Names
from drcrm.reports.roles import ROLES
from drcrm.selection.score_names import SCORES

PROTOCOL = ("split_unit", "logging_c", "absent_label_score", "variance_penalty_scale")


@dataclass(frozen=True)
class Plan:
    """What is shown of an experiment's results. It holds what is used and no more: a change runs a step again.

    Parameters
    ----------
    datasets, selections : sequences of str
        In their order, the headline selection first.
    seeds : int, or data set → int
        How many each mean must have: those from 0.
    counts : sequence of int
        Replay counts; what is shown of a single one takes the first.
    algorithms : sequence of str, optional
        Those shown beside π0 and the skyline; by default all.
    title : str
        The experiment's name.
    names : Names
    translations : data set → (unit, offset)
        An expected logged cost is unit · loss − offset.
    protocol : mapping from those of ``PROTOCOL`` to values
        The options, beside the replay count, in which the paper's text and the public code differ.
    grids : algorithm → the values of its grid
    papers : data set → (the paper's data set that it stands for, in words how the data differ)
    log : str
        In words what is unusual about the log.
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

    def __post_init__(self):
        if isinstance(self.seeds, Mapping) and (lacking := set(self.datasets) - set(self.seeds)):
            raise ValueError(f"no number of seeds of {', '.join(sorted(lacking))}")
        seeds = self.seeds_by_dataset.values()
        if not (self.datasets and self.counts and min(*seeds, *self.counts) >= 1):
            raise ValueError("expected data sets, and seeds and counts from 1")
        if not self.selections or set(self.selections) - set(SCORES):
            raise ValueError(f"selections are {self.selections}, expected some of {', '.join(SCORES)}")

    def json(self) -> str:
        """Itself as ``parse`` reads it."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def parse(cls, text: str) -> Plan:
        """An argument type: a plan as JSON."""
        try:
            given = json.loads(text)
            if unknown := set(given) - {each.name for each in fields(cls)}:
                raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
            return cls(**{**given, "names": Names(**given.get("names", {}))})
        except (ValueError, TypeError, RecursionError) as error:
            raise argparse.ArgumentTypeError(f"not a plan ({error})") from None

    def of_algorithms(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of the algorithms that are shown, of π0 and of the skyline."""
        return rows[rows["algorithm"].isin([*self.algorithms, *ROLES])] if self.algorithms else rows

    def of_runs(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of the first replay count and of the seeds that are shown."""
        return self.of_seeds(rows[rows["replay_count"] == self.counts[0]])

    def of_seeds(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of the seeds that are shown."""
        return rows[rows["seed"] < rows["dataset"].map(self.seeds_of).astype(float)]

    def seeds_of(self, dataset: str) -> int:
        """How many seeds a data set has; one that is not shown has none, if data sets differ."""
        return self.seeds.get(dataset, 0) if isinstance(self.seeds, Mapping) else self.seeds

    @property
    def seeds_by_dataset(self) -> dict[str, int]:
        """How many seeds each data set has."""
        return {each: self.seeds_of(each) for each in self.datasets}

    @property
    def seeds_in_words(self) -> str:
        """How many seeds the data sets have, in words."""
        return self.names.seeds(self.seeds_by_dataset)
