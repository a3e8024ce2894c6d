"""The paper's tables from an experiment's metrics, as tidy frames; ``markup`` prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ..registry import LOSSES, ROLES
from .comparisons import compare, interval, larger_p_value


def loss_table(metrics: pd.DataFrame, metric: str, datasets: Sequence[str], selections: Sequence[str], seeds: int):
    """Summarise one metric for every data set and selection: a row per (dataset, selection, algorithm).

    A run that is missing among the seeds 0 … seeds − 1 makes its algorithm's mean missing. ``converged`` is the share
    of the chosen fits that converged.
    """
    frames = []
    for dataset in datasets:
        for selection in selections:
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
    for dataset in datasets:
        for algorithm, grid in grids.items():
            for selection in selections:
                at = [
                    metrics[name] == value
                    for name, value in {"dataset": dataset, "algorithm": algorithm, "selection": selection}.items()
                ]
                chosen = metrics.loc[np.logical_and.reduce(at), "hyperparameter"]
                key = {"dataset": dataset, "algorithm": algorithm, "selection": selection}
                rows += [{**key, "value": value, "times_chosen": int((chosen == value).sum())} for value in grid]
    return pd.DataFrame(rows, columns=["dataset", "algorithm", "selection", "value", "times_chosen"])


def paired_differences(metrics: pd.DataFrame, reference: str, selections: Sequence[str]) -> pd.DataFrame:
    """Compare every learned algorithm with one of them, seed by seed: a row per (metric, dataset, replay count, …).

    ``difference`` is the mean of its loss less the reference's; ``p_larger`` and ``p_smaller`` are of one-tailed paired
    t-tests. A seed that lacks one of the two makes the row missing. Empty where the reference was not run.
    """
    rows = []
    for metric in LOSSES:
        cells = metrics[metrics["selection"].isin(selections)].groupby(
            ["dataset", "replay_count", "selection"], sort=False
        )
        for (dataset, count, selection), cell in cells:
            losses = cell.pivot(index="seed", columns="algorithm", values=metric)
            for algorithm in dict.fromkeys(cell["algorithm"]):
                if reference not in losses or algorithm in (reference, *ROLES):
                    continue
                summary = interval(losses[algorithm] - losses[reference])
                rows.append(
                    {
                        "metric": metric,
                        "dataset": dataset,
                        "replay_count": count,
                        "selection": selection,
                        "algorithm": algorithm,
                        "difference": summary.mean,
                        "standard_error": summary.standard_error,
                        "ci_low": summary.low,
                        "ci_high": summary.high,
                        "p_larger": larger_p_value(losses[algorithm], losses[reference]),
                        "p_smaller": larger_p_value(losses[reference], losses[algorithm]),
                        "n_seeds": int((losses[algorithm] - losses[reference]).notna().sum()),
                    }
                )
    return pd.DataFrame(rows, columns=PAIRED)


PAIRED = ["metric", "dataset", "replay_count", "selection", "algorithm", "difference", "standard_error"]
PAIRED += ["ci_low", "ci_high", "p_larger", "p_smaller", "n_seeds"]
