"""The columns of the tables that runs leave."""

from __future__ import annotations

SCORES = ("ips", "clipped_ips", "snips", "clipped_snips")

COLUMNS = [
    "dataset",
    "replay_count",
    "seed",
    "algorithm",
    "selection",
    "expected_loss",
    "greedy_loss",
    "hyperparameter",
    "score",
    "iterations",
    "converged",
]

GRID_COLUMNS = [
    "dataset",
    "replay_count",
    "seed",
    "algorithm",
    "hyperparameter",
    *SCORES,
    "expected_loss",
    "greedy_loss",
    "iterations",
    "converged",
]
