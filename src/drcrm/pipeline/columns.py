"""The columns of the tables that runs leave."""

from __future__ import annotations

from ..registry import LOSSES, SCORES

COLUMNS = [
    "dataset",
    "replay_count",
    "seed",
    "algorithm",
    "selection",
    *LOSSES,
    "hyperparameter",
    "score",
    "iterations",
    "converged",
    "tilt",
]

GRID_COLUMNS = [
    "dataset",
    "replay_count",
    "seed",
    "algorithm",
    "hyperparameter",
    *SCORES,
    *LOSSES,
    "iterations",
    "converged",
]
