"""Columns of a log: places in time, row numbers, names of actions, and the range of the costs."""

from __future__ import annotations

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.data.folds import ranks


def time_order(log: BanditLog) -> np.ndarray:
    """Return the place of each row in the order of time, (n,); without times, rows are in order."""
    time = log.column("time")
    return np.arange(len(log.Y)) if time is None else ranks(time)


def row_numbers(log: BanditLog) -> np.ndarray:
    """Return the number of each row in its file, (n,)."""
    numbers = log.column("number")
    return np.arange(len(log.Y)) if numbers is None else numbers


def action_names(log: BanditLog) -> list:
    """Return the names of the actions or labels; their numbers without an encoding; none for lists."""
    if log.encoding is not None:
        return log.encoding.names
    return [*range(*log.actions.shape)] if log.actions.are_shared else []


def infer_cost_range(
    known: tuple[float, float] | None, cost: np.ndarray, is_reward: bool
) -> tuple[float, float] | None:
    """Return the range of the costs, which outcomes of 0 and 1, or 0 and −1, reveal; None if it is unknown."""
    usual = -1.0 if is_reward else 0.0  # of the least cost; it decides if all costs are 0
    for least in (usual, -1 - usual):
        if known is None and np.isin(cost, (least, least + 1)).all():
            return least, least + 1
    return known
