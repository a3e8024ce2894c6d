"""The paper's tables from an experiment's metrics, as tidy frames; ``printed_tables`` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pandas as pd

from ..roles import LOSSES, ROLES
from .comparisons import compare, interval, larger_p_value


def loss_table(metrics: pd.DataFrame, metric: str, datasets: Sequence[str], selections: Sequence[str], seeds: int):
    """Summarise one metric for every data set and selection: a row per (dataset, selection, algorithm).

    A run that is missing among the seeds 0 … seeds − 1 makes its algorithm's mean missing. ``converged`` is the share
    of the chosen fits that converged.
    """
    frames = []
    for dataset, selection in product(datasets, selections):
        cell = metrics[(metrics["dataset"] == dataset) & (metrics["selection"] == selection)]
        losses = cell.pivot(index="seed", columns="algorithm", values=metric).reindex(range(seeds))
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


PAIRED = ["metric", "dataset", "replay_count", "selection", "algorithm", "difference", "standard_error"]
PAIRED += ["ci_low", "ci_high", "p_larger", "p_smaller", "n_seeds"]
