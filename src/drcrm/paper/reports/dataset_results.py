"""Results of an experiment on one data set: tidy frames for its figures, and findings for the report's first page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import product
from textwrap import indent

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from drcrm.paper import BASELINE, ENOUGH_SEEDS, LOGGING, ROLES, SKYLINE
from drcrm.paper.reports.markup import number, with_error
from drcrm.paper.reports.plan import Plan, join
from drcrm.paper.reports.result_tables import LEVEL, compare, interval

LOSS, GREEDY = "expected_loss", "greedy_loss"
LEVELS = tuple(product((LOGGING, SKYLINE), (LOSS, GREEDY)))  # reference lines, the same in every figure
SUMMARY = ["mean", "low", "high"]


@dataclass(frozen=True)
class DatasetResults:
    """Results of an experiment on one data set. A seed of the plan without rows is a missing run.

    Attributes
    ----------
    metrics : DataFrame
        One row per replay count, seed, algorithm and selection criterion.
    grids : DataFrame
        One row per replay count, seed, algorithm and value of its grid.
    """

    metrics: pd.DataFrame
    grids: pd.DataFrame
    dataset: str
    plan: Plan

    @classmethod
    def of(cls, metrics: pd.DataFrame, grids: pd.DataFrame, dataset: str, plan: Plan) -> DatasetResults:
        """Select the rows of one data set, and of the algorithms and seeds of the plan."""
        tables = plan.of_algorithms(metrics), grids
        metrics, grids = (plan.of_seeds(table[table["dataset"] == dataset]) for table in tables)
        return cls(metrics, grids, dataset, plan)

    @property
    def counts(self) -> list[int]:
        """Replay counts. A figure that shows only one of them shows the first."""
        return sorted(self.plan.counts)

    @property
    def seeds(self) -> int:
        """Number of seeds of this data set."""
        return self.plan.seeds_of(self.dataset)

    def runs(self, algorithm: str, selection: str, column: str) -> pd.DataFrame:
        """Return a column of the metrics, seeds × replay counts."""
        is_run = (self.metrics["algorithm"] == algorithm) & (self.metrics["selection"] == selection)
        table = self.metrics[is_run].pivot(index="seed", columns="replay_count", values=column)
        return table.reindex(index=range(self.seeds), columns=self.counts)

    def losses(self, algorithm: str, selection: str | None = None, loss: str = LOSS) -> np.ndarray:
        """Return a loss, or another column, of each seed at the first replay count."""
        return self.runs(algorithm, selection or self.plan.selections[0], loss)[self.counts[0]].to_numpy(dtype=float)

    @property
    def algorithms(self) -> list[str]:
        """All algorithms with π0 and the skyline, in the order of the metrics."""
        return list(dict.fromkeys(self.metrics.loc[self.metrics["replay_count"].isin(self.counts), "algorithm"]))

    @property
    def learned(self) -> list[str]:
        """All algorithms except π0 and the skyline, by group."""
        families = self.plan.names.grouped(name for name in self.algorithms if name not in ROLES)
        return [name for members in families.values() for name in members]

    @property
    def scored(self) -> list[str]:
        """Learned algorithms with a selection criterion. Classifiers have none, and no certificate either."""
        scored = set(self.metrics.loc[self.metrics["score"].notna(), "algorithm"])
        return [name for name in self.learned if name in scored]

    @property
    def has_few_seeds(self) -> bool:
        """Whether a figure shows single seeds, because an interval of so few would say little."""
        return self.seeds < ENOUGH_SEEDS

    def loss_axis(self, better: str) -> str:
        """Return the label of an axis of expected losses. ``better`` points to better ones."""
        loss, unit = self.plan.names.loss(LOSS, [self.dataset]), self.plan.names.word("unit", [self.dataset])
        return f"{loss}\n{unit} ({better})"

    @property
    def label(self) -> str:
        """Printed name of the data set."""
        return self.plan.names.dataset(self.dataset)


def summarize(samples: Iterable[tuple[Mapping, ArrayLike]], *keys: str) -> pd.DataFrame:
    """Return the mean and the 95 % interval of each sample, next to its keys."""
    return pd.DataFrame([{**key, **interval(values)} for key, values in samples], columns=[*keys, *SUMMARY])


def loss_by_count(results: DatasetResults) -> pd.DataFrame:
    """Return the expected loss of learned algorithms and the ``LEVELS``, for each replay count.

    With few seeds, ``low`` and ``high`` are the smallest and the largest loss of a seed.
    """
    samples = [
        ({"algorithm": name, "loss": loss, "replay_count": count}, losses)
        for name, loss in [*((name, LOSS) for name in results.learned), *LEVELS]
        for count, losses in results.runs(name, results.plan.selections[0], loss).items()
    ]
    frame = summarize(samples, "algorithm", "loss", "replay_count")
    if results.has_few_seeds:
        frame["low"], frame["high"] = zip(*((losses.min(), losses.max()) for _, losses in samples), strict=True)
    return frame


def loss_along_grids(results: DatasetResults) -> pd.DataFrame:
    """Return the expected loss of the fits along each grid, from the lowest to the highest value.

    A safe algorithm has further candidates after the fits of its grid. They are left out.
    """
    is_fit = (results.grids["replay_count"] == results.counts[0]) & results.grids["hyperparameter"].notna()
    fits = results.grids[is_fit].drop_duplicates(["algorithm", "seed", "hyperparameter"])
    samples = []
    for name in results.learned:
        losses = fits[fits["algorithm"] == name].pivot(index="seed", columns="hyperparameter", values=LOSS)
        by_value = losses.reindex(range(results.seeds)).items()
        samples += [({"algorithm": name, "value": value}, column) for value, column in by_value]
    return summarize(samples, "algorithm", "value")


def choices(results: DatasetResults) -> pd.DataFrame:
    """Return the share of seeds in which each criterion chose each value of a grid."""
    rows = []
    for name, selection in product(results.learned, results.plan.selections):
        counts = results.runs(name, selection, "hyperparameter")[results.counts[0]].value_counts()
        rows += [(name, selection, value, count / results.seeds) for value, count in counts.items()]
    return pd.DataFrame(rows, columns=["algorithm", "selection", "value", "share"])


def certified(results: DatasetResults) -> pd.DataFrame:
    """Return the bound and the expected loss of each policy that the headline criterion chose, with intervals."""
    with np.errstate(invalid="ignore"):  # an infinite bound has no interval
        return summarize(
            (
                ({"algorithm": name, "column": column}, results.losses(name, loss=column))
                for name, column in product(results.scored, ("bound", LOSS))
            ),
            "algorithm",
            "column",
        )


def closed_gap(results: DatasetResults) -> pd.DataFrame:
    """Return the percentage of the gap between CIPS and full supervision that π0 and each learned policy close.

    The gap is in greedy losses: CIPS is at 0 %, the skyline at 100 %. In expected losses the gap can be small, because
    the skyline is not near-deterministic.
    """
    bottom, top = (results.losses(name, loss=GREEDY).mean() for name in (BASELINE, SKYLINE))
    samples = (
        ({"algorithm": name}, 100 * (bottom - results.losses(name, loss=GREEDY)) / (bottom - top))
        for name in [LOGGING, *results.learned]
    )
    return summarize(samples, "algorithm")


def format_page(title: str, all_results: Sequence[DatasetResults], table: str, svg: str) -> str:
    """Return the page in reStructuredText.

    Parameters
    ----------
    title : str
    all_results : sequence of DatasetResults
        Results on each data set. If there are several, the findings become a list with one item for each. The caption
        of their plan is that of the overview.
    table : str
        The main table, in HTML.
    svg : str
        Content of the overview's svg file.
    """
    columns = f"{svg[svg.index('<svg') :]}<p>{escape(all_results[0].plan.caption)}</p>\n", table
    cells = "".join(f"<div>\n{column}</div>\n" for column in columns)
    raw = indent(f'<div class="beside">\n{cells}</div>\n', "   ")
    texts = findings(all_results[0])
    if len(all_results) > 1:
        texts = [f"- {' '.join(findings(results))}" for results in all_results]
    parts = [f"{title}\n{'=' * len(title)}", *texts, f".. raw:: html\n\n{raw}", comparison(all_results)]
    return "\n\n".join(parts)


def comparison(all_results: Sequence[DatasetResults]) -> str:
    """Return which algorithms were compared on which logs."""
    first = all_results[0]
    names = [_plain(first.plan.names.label(name)) for name in first.learned]
    data = join(_plain(results.plan.names.dataset(results.dataset)) for results in all_results)
    log = f" The log: {_plain(first.plan.log)}." if first.plan.log else ""
    count = first.counts[0]
    learners = f"{len(names)} algorithm{'' if len(names) == 1 else 's'}"
    return (
        f"{learners} learned a policy from the log of the logging policy π0 "
        f"on {data}: {join(names)}. The log contains the actions of π0 and their costs in {count} "
        f"pass{'' if count == 1 else 'es'} over the training contexts.{log} Everything was run with "
        f"{_plain(first.plan.seeds_in_words)}."
    )


def findings(results: DatasetResults) -> list[str]:
    """Return how good the best algorithm is, how far from full supervision, and which algorithms it beats."""
    table = compare(pd.DataFrame({name: results.losses(name) for name in results.algorithms}))
    means = table["mean"].drop(list(ROLES), errors="ignore").dropna()
    data = _plain(results.plan.names.dataset(results.dataset))
    if means.empty:
        return [f"On {data} every algorithm lacks a seed, so nothing can be compared."]
    best = str(means.idxmin())
    wrong, supervised = (results.plan.names.word(key, [results.dataset]) for key in ("wrong", "supervised"))
    loss = with_error(number(means[best]), table["standard_error"][best])
    label = _plain(results.plan.names.label(best))
    expected = table["mean"].reindex([LOGGING, BASELINE, SKYLINE]).map(number)
    texts = [
        f"On {data} **{label}** is best: {loss} {wrong}. "
        f"Expected losses for comparison: π0 {expected[LOGGING]}, CIPS (the plain estimate) {expected[BASELINE]}, full "
        f"supervision ({supervised}) {expected[SKYLINE]}.",
        _algorithms_beaten(results, table, best, label),
    ]
    return [*filter(None, texts)]


def _algorithms_beaten(results: DatasetResults, table: pd.DataFrame, best: str, label: str) -> str:
    """Return how many other algorithms are significantly worse; warn if seeds are too few to show small differences.

    The text is empty for one seed, which allows no test.
    """
    rivals = [name for name in results.learned if name != best]
    n_worse = int((table.loc[rivals, "p_holm"] < LEVEL).sum())
    if not rivals:
        return "There is no other algorithm to compare with."
    if results.seeds < 2:
        return ""
    seeds = results.plan.names.seeds({results.dataset: results.seeds})
    has_little_power = results.seeds <= ENOUGH_SEEDS and n_worse < len(rivals)
    warning = f" With {seeds}, only large differences can be significant." if has_little_power else ""
    return (
        f"Paired t-tests over seeds compare {label} with {len(rivals)} other algorithms (level {LEVEL:g}, adjusted by "
        f"Holm). {label} is significantly better than {n_worse or 'none'} of them.{warning}"
    )


def _plain(text: str) -> str:
    """Escape the characters of a name that are markup in reStructuredText."""
    return re.sub(r"([\\*`|_])", r"\\\1", text)
