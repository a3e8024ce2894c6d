"""Tables of an experiment: tidy frames computed from its metrics, and their texts."""

from collections.abc import Iterable, Mapping, Sequence
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


def require_runs(metrics: pd.DataFrame, **values: Iterable) -> None:
    """Raise an InputError for the first combination of values of the columns that no row has."""
    runs = set(metrics[list(values)].itertuples(index=False, name=None))
    for run in product(*values.values()):
        if run not in runs:
            words = (f"{column} {value!r}" for column, value in zip(values, run, strict=True))
            raise InputError(f"no run with {', '.join(words)}")


def require_all_runs(metrics: pd.DataFrame, plan: Plan) -> None:
    """Raise an InputError for the first run of the plan without metrics."""
    runs, columns = plan.of_runs(metrics), {"selection": plan.selections, "algorithm": [*plan.grids, *ROLES]}
    for dataset in plan.datasets:
        require_runs(runs, dataset=[dataset], seed=range(plan.seeds_of(dataset)), **columns)


def all_tables(metrics: pd.DataFrame, plan: Plan) -> dict[str, pd.DataFrame]:
    """Return the tables by name. All are about the plan's runs, but the differences to POEM are about all runs.

    Raises
    ------
    InputError
        If a data set or a selection criterion of the plan has no runs.
    """
    order = {name: index for index, name in enumerate(plan.datasets)}
    metrics = plan.of_algorithms(metrics)
    metrics = metrics.sort_values("dataset", key=lambda names: names.map(order), kind="stable")  # unknown ones last
    differences = paired_differences(metrics, REFERENCE, plan.selections)
    metrics = plan.of_runs(metrics)
    require_runs(metrics, dataset=plan.datasets, selection=plan.selections)
    losses = {metric: loss_table(metrics, metric, plan) for metric in LOSSES}
    return {
        **losses,
        "hyperparameters": hyperparameter_table(metrics, plan.grids, plan.datasets, plan.selections),
        "paper_comparison": paper_comparison(losses, plan),
        "differences_to_poem": differences,
    }


def ablation_table(metrics: pd.DataFrame, plan: Plan) -> pd.DataFrame:
    """Return the expected losses of an ablation's algorithms from each start, by the headline criterion."""
    algorithms = [key for keys in plan.names.starts.values() for key in keys.values()]
    metrics = plan.of_runs(metrics[metrics["algorithm"].isin(algorithms)])
    return loss_table(metrics, "expected_loss", replace(plan, selections=plan.selections[:1]))


def loss_table(metrics: pd.DataFrame, metric: str, plan: Plan) -> pd.DataFrame:
    """Summarise one metric: one row per data set, selection criterion and algorithm of a plan.

    A missing run makes its algorithm's mean missing. ``converged`` is the share of chosen fits that converged.
    """
    frames = []
    for dataset, selection in product(plan.datasets, plan.selections):
        cell = metrics[(metrics["dataset"] == dataset) & (metrics["selection"] == selection)]
        losses = cell.pivot(index="seed", columns="algorithm", values=metric).reindex(range(plan.seeds_of(dataset)))
        compared = compare(losses[list(dict.fromkeys(cell["algorithm"]))])
        compared["converged"] = cell.groupby("algorithm")["converged"].mean()
        frames.append(compared.rename_axis("algorithm").reset_index().assign(dataset=dataset, selection=selection))
    table = pd.concat(frames, ignore_index=True)
    keys = ["dataset", "algorithm", "selection"]
    return table[[*keys, *table.columns.drop(keys)]]


def hyperparameter_table(
    metrics: pd.DataFrame, grids: Mapping[str, Sequence[float]], datasets: Sequence[str], selections: Sequence[str]
) -> pd.DataFrame:
    """Count how often each value of each grid was chosen."""
    rows = []
    for dataset, (algorithm, grid), selection in product(datasets, grids.items(), selections):
        key = {"dataset": dataset, "algorithm": algorithm, "selection": selection}
        chosen = metrics.loc[np.logical_and.reduce([metrics[name] == key[name] for name in key]), "hyperparameter"]
        rows += [{**key, "value": value, "times_chosen": int((chosen == value).sum())} for value in grid]
    return pd.DataFrame(rows, columns=["dataset", "algorithm", "selection", "value", "times_chosen"])


def paired_differences(metrics: pd.DataFrame, reference: str, selections: Sequence[str]) -> pd.DataFrame:
    """Compare every learned algorithm with a reference on the same seeds, at every replay count.

    ``difference`` is the mean loss minus the reference's. ``p_larger`` and ``p_smaller`` belong to one-tailed paired
    t-tests. A seed that lacks one of the two makes the row missing. The table is empty without the reference.
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


def format_tables(tables: Mapping[str, pd.DataFrame], plan: Plan, to: Markup) -> dict[str, str]:
    """Return the text of the tables of ``all_tables`` by name."""
    texts = {}
    for metric in LOSSES:
        parts = [
            (part, selection)
            for part in (printed.format_losses, printed.format_details)
            for selection in plan.selections
        ]
        texts[metric] = "\n".join(part(tables[metric], metric, selection, to) for part, selection in parts)
    texts["hyperparameters"] = printed.format_hyperparameters(tables["hyperparameters"], plan.datasets, to)
    texts["paper_comparison"] = printed.format_comparison(tables["paper_comparison"], to)
    texts["differences_to_poem"] = printed.format_differences(tables["differences_to_poem"], to)
    return texts


def format_sections(tables: Mapping[str, pd.DataFrame], plan: Plan, to: Markup) -> dict[str, dict[str, str]]:
    """Return the text of each table of ``all_tables``, and of an ``ablation``, by section and title.

    Losses are tabulated by each selection criterion, all other tables by the headline criterion. Empty tables are left
    out. Titles consist of letters, hyphens and spaces, because the report puts them into data URIs.
    """
    headline, parts = plan.selections[0], {}
    titles = {metric: plan.names.title(metric, plan.datasets) for metric in LOSSES}
    for metric, title in titles.items():
        losses = {
            f"{title} by {SCORES[by]}": printed.format_losses(tables[metric], metric, by, to) for by in plan.selections
        }
        losses[f"{title} in detail"] = printed.format_details(tables[metric], metric, headline, to)
        parts[f"{LOSSES[metric]} loss"] = losses
    if "ablation" in tables:
        arguments = tables["ablation"], "expected_loss", headline, to
        texts = {"Losses": printed.format_losses(*arguments), "Details": printed.format_details(*arguments)}
        parts["Estimate, start and risk"] = texts
    if len(tables["hyperparameters"]):
        text = printed.format_hyperparameters(tables["hyperparameters"], plan.datasets, to)
        parts["Hyper-parameters"] = {"Chosen hyper-parameters": text}
    published, paired = tables["paper_comparison"], tables["differences_to_poem"]
    parts["Comparison with the paper"] = {
        f"{titles[metric]} compared with the paper": printed.format_metric_comparison(published, metric, to)
        for metric in dict.fromkeys(published["metric"])
    }
    parts["Differences to POEM"] = {
        f"{titles[metric]} compared with POEM": printed.format_differences_by_count(paired, metric, headline, to)
        for metric in dict.fromkeys(paired["metric"])
    }
    return parts
