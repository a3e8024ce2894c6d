"""What figures show of one data set, as tidy frames: means over seeds with 95 % intervals, before anything is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from drcrm.reports.roles import BASELINE, LOGGING, ROLES, SKYLINE
from drcrm.reports.tables.comparisons import interval
from drcrm.reports.tables.plan import Plan
from drcrm.selection.score_names import SCORES

LOSS, GREEDY = "expected_loss", "greedy_loss"
LEVELS = tuple(product((LOGGING, SKYLINE), (LOSS, GREEDY)))  # what algorithms are compared with, in every figure


@dataclass(frozen=True)
class DatasetResults:
    """An experiment on one data set: a row per (replay count, seed, algorithm, selection), and per grid value.

    A seed of the plan that a frame lacks is a missing run, and is shown as missing.
    """

    metrics: pd.DataFrame
    grids: pd.DataFrame
    dataset: str
    plan: Plan

    @classmethod
    def of(cls, metrics: pd.DataFrame, grids: pd.DataFrame, dataset: str, plan: Plan) -> DatasetResults:
        """Take one data set's rows, of the plan's algorithms and seeds, from those of an experiment."""
        tables = plan.of_algorithms(metrics), grids
        rows = (plan.of_seeds(table[table["dataset"] == dataset]) for table in tables)
        return cls(*rows, dataset, plan)

    @property
    def counts(self) -> list[int]:
        """The replay counts; figures of a single one take the first."""
        return sorted(self.plan.counts)

    def runs(self, algorithm: str, selection: str, column: str) -> pd.DataFrame:
        """Values of a column of the metrics, seeds × replay counts."""
        at = self.metrics[(self.metrics["algorithm"] == algorithm) & (self.metrics["selection"] == selection)]
        table = at.pivot(index="seed", columns="replay_count", values=column)
        return table.reindex(index=range(self.seeds), columns=self.counts)

    def losses(self, algorithm: str, selection: str | None = None, loss: str = LOSS) -> np.ndarray:
        """Losses, or what another column has, at the first replay count, for each seed."""
        return self.runs(algorithm, selection or self.plan.selections[0], loss)[self.counts[0]].to_numpy(dtype=float)

    @property
    def algorithms(self) -> list[str]:
        """All algorithms, π0 and the skyline among them, in the order of the metrics at these replay counts."""
        return list(dict.fromkeys(self.metrics.loc[self.metrics["replay_count"].isin(self.counts), "algorithm"]))

    @property
    def learned(self) -> list[str]:
        """All but π0 and the skyline, by their groups."""
        groups = self.plan.names.grouped(name for name in self.algorithms if name not in ROLES)
        return [name for members in groups.values() for name in members]

    @property
    def scored(self) -> list[str]:
        """Those of the learned that a held-out score was taken of: a classifier has none, and no certificate."""
        scored = set(self.metrics.loc[self.metrics["score"].notna(), "algorithm"])
        return [name for name in self.learned if name in scored]

    @property
    def seeds(self) -> int:
        """How many seeds this data set has."""
        return self.plan.seeds_of(self.dataset)

    def loss_name(self, metric: str = LOSS) -> str:
        """What a loss is called on this data set."""
        return self.plan.names.loss(metric, [self.dataset])

    @property
    def title(self) -> str:
        return f"{self.plan.names.dataset(self.dataset)}: {self.plan.names.seeds({self.dataset: self.seeds})}"

    @property
    def title_of_chosen(self) -> str:
        """The title of a figure of what the headline score chose."""
        return f"{self.title}, chosen by {SCORES[self.plan.selections[0]]}"


def loss_by_count(results: DatasetResults) -> pd.DataFrame:
    """The loss at each replay count, chosen by the headline score: (algorithm, loss, replay_count, mean, low, high).

    The expected loss of each learned algorithm, and the losses of ``LEVELS``.
    """
    rows = [
        {"algorithm": name, "loss": loss, "replay_count": count, **interval(losses)._asdict()}
        for name, loss in [*((name, LOSS) for name in results.learned), *LEVELS]
        for count, losses in results.runs(name, results.plan.selections[0], loss).items()
    ]
    return pd.DataFrame(rows, columns=["algorithm", "loss", "replay_count", "mean", "low", "high"])


def loss_along_grids(results: DatasetResults) -> pd.DataFrame:
    """The loss of each fit at the first replay count: (algorithm, value, mean, low, high), values rising.

    Of a safe algorithm the fits of its grid alone, which come before its other candidates.
    """
    at = results.grids[(results.grids["replay_count"] == results.counts[0]) & results.grids["hyperparameter"].notna()]
    at = at.drop_duplicates(["algorithm", "seed", "hyperparameter"])
    rows = []
    for name in results.learned:
        losses = at[at["algorithm"] == name].pivot(index="seed", columns="hyperparameter", values=LOSS)
        for value, column in losses.reindex(range(results.seeds)).items():
            rows.append({"algorithm": name, "value": value, **interval(column)._asdict()})
    return pd.DataFrame(rows, columns=["algorithm", "value", "mean", "low", "high"])


def choices(results: DatasetResults) -> pd.DataFrame:
    """How often each score chose each value at the first replay count: (algorithm, selection, value, share)."""
    rows = []
    for name, selection in product(results.learned, results.plan.selections):
        chosen = results.runs(name, selection, "hyperparameter")[results.counts[0]].value_counts()
        key = {"algorithm": name, "selection": selection}
        rows += [{**key, "value": value, "share": times / results.seeds} for value, times in chosen.items()]
    return pd.DataFrame(rows, columns=["algorithm", "selection", "value", "share"])


def by_start(results: DatasetResults) -> pd.DataFrame:
    """The loss of each algorithm of the ablation from each start: (algorithm, start, mean, low, high)."""
    rows = [
        {"algorithm": name, "start": start, **interval(results.losses(key))._asdict()}
        for name, keys in results.plan.names.starts.items()
        for start, key in keys.items()
    ]
    return pd.DataFrame(rows, columns=["algorithm", "start", "mean", "low", "high"])


def surprises(results: DatasetResults) -> pd.DataFrame:
    """Estimated less true risk of what each score chose, in logged costs: (algorithm, selection, mean, low, high)."""
    unit, offset = results.plan.translations[results.dataset]
    rows = []
    for name, selection in product(results.scored, results.plan.selections):
        true = unit * results.losses(name, selection) - offset
        estimated = results.losses(name, selection, "score")
        rows.append({"algorithm": name, "selection": selection, **interval(estimated - true)._asdict()})
    return pd.DataFrame(rows, columns=["algorithm", "selection", "mean", "low", "high"])


def certified(results: DatasetResults) -> pd.DataFrame:
    """Certificate and true loss of what the headline score chose at the first replay count, a row for each algorithm.

    (algorithm, mean, low, high, loss, loss_low, loss_high, held, given): the mean bound and the mean expected loss with
    their intervals, and in how many of the seeds that have a bound it is not below the loss.
    """
    rows = []
    for name in results.scored:
        loss, bound = results.losses(name), results.losses(name, loss="bound")
        with np.errstate(invalid="ignore"):  # an infinite bound has no interval
            of_bound, of_loss = interval(bound), interval(loss)
        of_loss = {"loss": of_loss.mean, "loss_low": of_loss.low, "loss_high": of_loss.high}
        counts = {"held": int((bound >= loss).sum()), "given": int((~np.isnan(bound - loss)).sum())}
        rows.append({"algorithm": name, **of_bound._asdict(), **of_loss, **counts})
    columns = ["algorithm", "mean", "low", "high", "loss", "loss_low", "loss_high", "held", "given"]
    return pd.DataFrame(rows, columns=columns)


def closed_gap(results: DatasetResults) -> pd.DataFrame:
    """Return how far π0 and each learned policy come from CIPS to full supervision, in percent.

    All losses are greedy ones at the first replay count: 0 is the mean of CIPS, 100 that of the skyline. The skyline's
    probabilities are not sharp: its expected loss can be close to that of CIPS. Columns: algorithm, mean, low, high.
    """
    bottom, top = (results.losses(name, loss=GREEDY).mean() for name in (BASELINE, SKYLINE))
    rows = []
    for name in [LOGGING, *results.learned]:
        share = 100 * (bottom - results.losses(name, loss=GREEDY)) / (bottom - top)
        rows.append({"algorithm": name, **interval(share)._asdict()})
    return pd.DataFrame(rows, columns=["algorithm", "mean", "low", "high"])


def differences(results: DatasetResults, reference: str) -> pd.DataFrame:
    """Losses less those of a reference on the same seed: (algorithm, seed, difference, mean, low, high)."""
    rows = []
    for name in results.learned:
        if name != reference:
            difference = results.losses(name) - results.losses(reference)
            of_all = {"algorithm": name, **interval(difference)._asdict()}
            rows += [{**of_all, "seed": seed, "difference": value} for seed, value in enumerate(difference)]
    return pd.DataFrame(rows, columns=["algorithm", "seed", "difference", "mean", "low", "high"])
