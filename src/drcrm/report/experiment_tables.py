"""All tables of an experiment: from its metrics to frames, and from these to print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import pandas as pd

from ..core.names import SCORES
from ..errors import InputError
from ..roles import LOSSES, REFERENCE, ROLES
from . import markup
from . import printed_tables as printed
from .paper import Protocol, paper_comparison
from .tables import hyperparameter_table, loss_table, paired_differences


@dataclass(frozen=True)
class Plan:
    """Which runs enter an experiment's tables, and what they stand beside.

    Parameters
    ----------
    datasets, selections : sequences of str
        In the tables' order, the headline selection first.
    seeds : int
        How many each cell must have; others of the metrics enter the differences only.
    protocol : Protocol
        Its replay count is that of the tables.
    grids : algorithm → the values of its grid
    papers : data set → (the paper's data set that it stands for, how the data differ)
    """

    datasets: Sequence[str]
    selections: Sequence[str]
    seeds: int
    protocol: Protocol
    grids: Mapping[str, Sequence[float]]
    papers: Mapping[str, tuple[str, str]]


def require_runs(metrics: pd.DataFrame, plan: Plan) -> None:
    """Raise an InputError that names the first run of the plan that the metrics lack."""
    keys = ["dataset", "selection", "seed", "algorithm"]
    at = metrics[metrics["replay_count"] == plan.protocol.replay_count]
    runs = set(at[keys].itertuples(index=False, name=None))
    for run in product(plan.datasets, plan.selections, range(plan.seeds), [*plan.grids, *ROLES]):
        if run not in runs:
            raise InputError("no run of data set {!r} chosen by {}, seed {}, of {}".format(*run))


def all_tables(metrics: pd.DataFrame, plan: Plan, paper: pd.DataFrame, code: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The tables by name. ``paper`` and ``code`` are the cells of the paper and of the public code.

    InputError names a data set or selection of the plan without any run.
    """
    place = {name: i for i, name in enumerate(plan.datasets)}
    metrics = metrics.sort_values("dataset", key=lambda names: names.map(place), kind="stable")  # of no table: last
    differences = paired_differences(metrics, REFERENCE, plan.selections)
    metrics = metrics[(metrics["replay_count"] == plan.protocol.replay_count) & (metrics["seed"] < plan.seeds)]
    runs = set(zip(metrics["dataset"], metrics["selection"], strict=True))
    for name, selection in product(plan.datasets, plan.selections):
        if (name, selection) not in runs:
            raise InputError(f"no runs of data set {name!r} chosen by {selection}")
    axes = plan.datasets, plan.selections
    losses = {metric: loss_table(metrics, metric, *axes, plan.seeds) for metric in LOSSES}
    return {
        **losses,
        "hyperparameters": hyperparameter_table(metrics, plan.grids, *axes),
        "paper_comparison": paper_comparison(losses, paper, code, plan.papers, plan.protocol),
        "differences_to_poem": differences,
    }


def ablation_table(metrics: pd.DataFrame, plan: Plan, algorithms: Sequence[str], seeds: int) -> pd.DataFrame:
    """The expected losses of an ablation's algorithms by the headline selection, compared over its ``seeds``."""
    at = metrics[
        (metrics["replay_count"] == plan.protocol.replay_count)
        & (metrics["seed"] < seeds)
        & metrics["algorithm"].isin(algorithms)
    ]
    return loss_table(at, "expected_loss", plan.datasets, plan.selections[:1], seeds)


def in_print(tables: Mapping[str, pd.DataFrame], plan: Plan, to: markup.Markup) -> dict[str, str]:
    """The tables of ``all_tables`` in a markup, by name."""
    texts = {
        metric: "\n".join(
            part(tables[metric], metric, by, to) for part in (printed.losses, printed.details) for by in plan.selections
        )
        for metric in LOSSES
    }
    texts["hyperparameters"] = printed.hyperparameters(tables["hyperparameters"], plan.datasets, to)
    texts["paper_comparison"] = printed.comparison(tables["paper_comparison"], to)
    texts["differences_to_poem"] = printed.differences(tables["differences_to_poem"], to)
    return texts


def pages(tables: Mapping[str, pd.DataFrame], plan: Plan, to: markup.Markup) -> dict[str, str]:
    """The tables of ``all_tables`` one by one, by title: those by each selection, and of the headline all the rest.

    What is empty is left out: no grids, no data set that stands for one of the paper's, nothing beside POEM. Titles are
    of letters, hyphens and spaces: the report has them in data URIs, whose head a comma would end.
    """
    headline, texts = plan.selections[0], {}
    for metric, title in LOSSES.items():
        for by in plan.selections:
            texts[f"{title} by {SCORES[by]}"] = printed.losses(tables[metric], metric, by, to)
        texts[f"{title} in detail"] = printed.details(tables[metric], metric, headline, to)
    if len(tables["hyperparameters"]):
        texts["Chosen hyper-parameters"] = printed.hyperparameters(tables["hyperparameters"], plan.datasets, to)
    for metric in dict.fromkeys(tables["paper_comparison"]["metric"]):
        texts[f"{LOSSES[metric]} beside the paper"] = printed.comparison_of(tables["paper_comparison"], metric, to)
    to_poem = tables["differences_to_poem"]
    for metric in dict.fromkeys(to_poem["metric"]):
        texts[f"{LOSSES[metric]} beside POEM"] = printed.differences_by_count(to_poem, metric, headline, to)
    return texts
