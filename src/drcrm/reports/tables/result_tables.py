"""The tables of an experiment: from its metrics to tidy frames, and from these to print by ``printed_tables``."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from drcrm.errors import InputError
from drcrm.reports.roles import LOSSES, REFERENCE, ROLES
from drcrm.reports.tables import printed_tables as printed
from drcrm.reports.tables.comparisons import compare, interval, larger_p_value
from drcrm.reports.tables.markup import Markup
from drcrm.reports.tables.plan import Plan
from drcrm.reports.tables.published_results import paper_comparison
from drcrm.selection.score_names import SCORES

PAIRED = ["metric", "dataset", "replay_count", "selection", "algorithm", "difference", "standard_error"]
PAIRED += ["ci_low", "ci_high", "p_larger", "p_smaller", "n_seeds"]


def require_runs(metrics: pd.DataFrame, plan: Plan) -> None:
    """Raise an InputError that names the first run of the plan that the metrics lack."""
    keys = ["dataset", "selection", "seed", "algorithm"]
    runs = set(plan.of_runs(metrics)[keys].itertuples(index=False, name=None))
    for dataset in plan.datasets:
        for run in product([dataset], plan.selections, range(plan.seeds_of(dataset)), [*plan.grids, *ROLES]):
            if run not in runs:
                raise InputError("no run of data set {!r} chosen by {}, seed {}, of {}".format(*run))


def all_tables(metrics: pd.DataFrame, plan: Plan) -> dict[str, pd.DataFrame]:
    """The tables by name: of the runs of the plan, and the differences to POEM of all runs.

    InputError names a data set or selection of the plan without any run.
    """
    place = {name: i for i, name in enumerate(plan.datasets)}
    metrics = plan.of_algorithms(metrics)
    metrics = metrics.sort_values("dataset", key=lambda names: names.map(place), kind="stable")  # of no table: last
    differences = paired_differences(metrics, REFERENCE, plan.selections)
    metrics = plan.of_runs(metrics)
    runs = set(zip(metrics["dataset"], metrics["selection"], strict=True))
    for name, selection in product(plan.datasets, plan.selections):
        if (name, selection) not in runs:
            raise InputError(f"no runs of data set {name!r} chosen by {selection}")
    losses = {metric: loss_table(metrics, metric, plan) for metric in LOSSES}
    return {
        **losses,
        "hyperparameters": hyperparameter_table(metrics, plan.grids, plan.datasets, plan.selections),
        "paper_comparison": paper_comparison(losses, plan),
        "differences_to_poem": differences,
    }


def ablation_table(metrics: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """The expected losses of an ablation's algorithms, from each start, by the headline selection."""
    algorithms = [key for by_start in plan.names.starts.values() for key in by_start.values()]
    metrics = plan.of_runs(metrics[metrics["algorithm"].isin(algorithms)])
    return loss_table(metrics, "expected_loss", replace(plan, selections=plan.selections[:1]))


def in_print(tables: Mapping[str, pd.DataFrame], plan: Plan, to: Markup) -> dict[str, str]:
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


def sections(tables: Mapping[str, pd.DataFrame], plan: Plan, to: Markup) -> dict[str, dict[str, str]]:
    """The tables of ``all_tables``, and an ``ablation``, one by one, by section and title.

    Losses by each selection, and of the headline all the rest. What is empty is left out: no grids, no data set that
    stands for one of the paper's, nothing beside POEM. Titles are of letters, hyphens and spaces: the report has them
    in data URIs, whose head a comma would end.
    """
    headline, parts = plan.selections[0], {}
    titles = {metric: plan.names.title(metric, plan.datasets) for metric in LOSSES}
    for metric, title in titles.items():
        parts[f"{LOSSES[metric]} loss"] = {
            **{f"{title} by {SCORES[by]}": printed.losses(tables[metric], metric, by, to) for by in plan.selections},
            f"{title} in detail": printed.details(tables[metric], metric, headline, to),
        }
    if "ablation" in tables:
        of = tables["ablation"], "expected_loss", headline, to
        parts["Estimate, start and risk"] = {"Losses": printed.losses(*of), "Details": printed.details(*of)}
    if len(tables["hyperparameters"]):
        text = printed.hyperparameters(tables["hyperparameters"], plan.datasets, to)
        parts["Hyper-parameters"] = {"Chosen hyper-parameters": text}
    compared, to_poem = tables["paper_comparison"], tables["differences_to_poem"]
    parts["Beside the paper"] = {
        f"{titles[metric]} beside the paper": printed.comparison_of(compared, metric, to)
        for metric in dict.fromkeys(compared["metric"])
    }
    parts["Differences to POEM"] = {
        f"{titles[metric]} beside POEM": printed.differences_by_count(to_poem, metric, headline, to)
        for metric in dict.fromkeys(to_poem["metric"])
    }
    return parts


def loss_table(metrics: pd.DataFrame, metric: str, plan: Plan) -> pd.DataFrame:
    """Summarise one metric for every data set and selection of a plan: a row per (dataset, selection, algorithm).

    A run that is missing among a data set's seeds, from 0, makes its algorithm's mean missing. ``converged`` is the
    share of the chosen fits that converged.
    """
    frames = []
    for dataset, selection in product(plan.datasets, plan.selections):
        cell = metrics[(metrics["dataset"] == dataset) & (metrics["selection"] == selection)]
        losses = cell.pivot(index="seed", columns="algorithm", values=metric).reindex(range(plan.seeds_of(dataset)))
        compared = compare(losses[list(dict.fromkeys(cell["algorithm"]))])
        compared["converged"] = cell.groupby("algorithm")["converged"].mean()
        compared.insert(0, "dataset", dataset)
        compared.insert(1, "selection", selection)
        frames.append(compared.rename_axis("algorithm").reset_index())
    table = pd.concat(frames, ignore_index=True)
    return table[["dataset", "algorithm", "selection", *table.columns[3:]]]


def hyperparameter_table(metrics: pd.DataFrame, grids: Mapping[str, Sequence[float]], datasets, selections):
    """Count how often each value of each grid was chosen: a row per (dataset, algorithm, selection, value)."""
    rows = []
    for dataset, (algorithm, grid), selection in product(datasets, grids.items(), selections):
        key = {"dataset": dataset, "algorithm": algorithm, "selection": selection}
        chosen = metrics.loc[np.logical_and.reduce([metrics[name] == key[name] for name in key]), "hyperparameter"]
        rows += [{**key, "value": value, "times_chosen": int((chosen == value).sum())} for value in grid]
    return pd.DataFrame(rows, columns=["dataset", "algorithm", "selection", "value", "times_chosen"])


def paired_differences(metrics: pd.DataFrame, reference: str, selections: Sequence[str]) -> pd.DataFrame:
    """Compare every learned algorithm with one of them, seed by seed: a row per (metric, dataset, replay count, …).

    ``difference`` is the mean of its loss less the reference's; ``p_larger`` and ``p_smaller`` are of one-tailed paired
    t-tests. A seed that lacks one of the two makes the row missing. Empty where the reference was not run.
    """
    rows = []
    runs = metrics[metrics["selection"].isin(selections)]
    for metric in LOSSES:
        for key, cell in runs.groupby(["dataset", "replay_count", "selection"], sort=False):
            losses = cell.pivot(index="seed", columns="algorithm", values=metric)
            for algorithm in dict.fromkeys(cell["algorithm"]):
                if reference not in losses or algorithm in (reference, *ROLES):
                    continue
                ours, theirs = losses[algorithm], losses[reference]
                p_values = larger_p_value(ours, theirs), larger_p_value(theirs, ours)
                n_seeds = int((ours - theirs).notna().sum())
                rows.append((metric, *key, algorithm, *interval(ours - theirs), *p_values, n_seeds))
    return pd.DataFrame(rows, columns=PAIRED)
