"""Published results: losses of the experiments and tables of the studies, in docs/results."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd

STARTS = {"zero": "starts", "logging": "starts_logging", "model": "starts_model"}  # start: experiment
ROOT = Path(__file__).resolve().parents[2]


@cache
def metrics(experiment: str, count: int = 4) -> pd.DataFrame:
    """Return the rows of an experiment at a replay count."""
    rows = pd.read_csv(ROOT / f"docs/results/{experiment}_metrics.csv.gz")
    return rows[rows["replay_count"] == count]


@cache
def study(name: str) -> pd.DataFrame:
    """Return the table of a study or a benchmark."""
    return pd.read_csv(ROOT / f"docs/results/{name}.csv")


def losses(
    experiment: str,
    data: str,
    algorithm: str,
    selection: str = "dr_bound",
    metric: str = "expected_loss",
    count: int = 4,
) -> pd.Series:
    """Return the losses of an algorithm by seed."""
    rows = metrics(experiment, count)
    keep = (rows["dataset"] == data) & (rows["algorithm"] == algorithm) & (rows["selection"] == selection)
    return rows[keep].set_index("seed")[metric].sort_index()


def gain(data: str, algorithm: str, reference: str, experiment: str = "beyond") -> pd.Series:
    """Return by how much less an algorithm loses than a reference, by seed."""
    return losses(experiment, data, reference) - losses(experiment, data, algorithm)


def share_closed(
    data: str, algorithm: str, experiment: str = "beyond", selection: str = "dr_bound", seeds: int = 20
) -> int:
    """Return the share of the gap from CIPS to full supervision that greedy losses of the first seeds close, in %.

    The gap of a variant of `starts` is that of `beyond`.
    """

    def mean(experiment: str, name: str) -> float:
        by_seed = losses(experiment, data, name, selection, "greedy_loss")
        assert len(by_seed) >= seeds
        return by_seed.iloc[:seeds].mean()

    ends = "beyond" if experiment in STARTS.values() else experiment
    cips, full = mean(ends, "cips"), mean(ends, "skyline")
    return round(100 * (cips - mean(experiment, algorithm)) / (cips - full))
