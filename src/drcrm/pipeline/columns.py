"""The columns of the tables that runs leave."""

from __future__ import annotations

from ..registry import LOSSES, SCORES

CERTIFICATE = ["estimate", "bound", "effective_size"]  # what the held-out part of the log says of a policy

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
    *CERTIFICATE,
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
