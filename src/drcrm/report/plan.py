"""What tables, figures and the overview show of an experiment: one plan, which steps are given as a JSON object."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields

import pandas as pd

from ..core.names import SCORES
from ..roles import ROLES
from .style import Names

PROTOCOL = ("split_unit", "logging_c", "absent_label_score", "variance_penalty_scale")


@dataclass(frozen=True)
class Plan:
    """What is shown of an experiment's results. It holds what is used and no more: a change runs a step again.

    Parameters
    ----------
    datasets, selections : sequences of str
        In their order, the headline selection first.
    seeds : int
        How many each mean must have: those from 0.
    counts : sequence of int
        Replay counts; what is shown of a single one takes the first.
    algorithms : sequence of str, optional
        Those shown beside π0 and the skyline; by default all.
    title : str
        The experiment's name.
    names : Names
    labels : data set → its number of labels
        Translated costs are Hamming losses less that.
    protocol : mapping from those of ``PROTOCOL`` to values
        The options, beside the replay count, in which the paper's text and the public code differ.
    grids : algorithm → the values of its grid
    papers : data set → (the paper's data set that it stands for, in words how the data differ)
    """

    datasets: Sequence[str]
    selections: Sequence[str]
    seeds: int
    counts: Sequence[int]
    algorithms: Sequence[str] | None = None
    title: str = ""
    names: Names = field(default_factory=Names)
    labels: Mapping[str, int] = field(default_factory=dict)
    protocol: Mapping[str, object] = field(default_factory=dict)
    grids: Mapping[str, Sequence[float]] = field(default_factory=dict)
    papers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self):
        if not (self.datasets and self.counts and min(self.seeds, *self.counts) >= 1):
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
        return rows[(rows["replay_count"] == self.counts[0]) & (rows["seed"] < self.seeds)]
