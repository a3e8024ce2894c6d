"""Random folds of the rows or contexts of a log, drawn with a fixed seed."""

from __future__ import annotations

import numpy as np

from drcrm.data.bandit_log import BanditLog


def draw_folds(units: np.ndarray, folds: int) -> np.ndarray:
    """Return a random fold for each row, (n,); all rows of a unit are in the same fold.

    Parameters
    ----------
    units : array (n,)
        Unit of each row.
    folds : int
        Number of folds; at most the number of units.
    """
    _, unit = np.unique(units, return_inverse=True)
    return (np.random.default_rng(0).permutation(unit.max() + 1) % folds)[unit]


def context_folds(log: BanditLog, units: np.ndarray | None, folds: int) -> np.ndarray:
    """Return a random fold for each context, (m,).

    Parameters
    ----------
    log : BanditLog
    units : array (n,), optional
        Ids of units that a fold keeps together; by default contexts. The first row of a context decides on its fold.
    folds : int
        Number of folds.
    """
    fold = np.zeros(log.n_contexts, dtype=int)
    fold[log.context[::-1]] = draw_folds(log.context if units is None else units, folds)[::-1]
    return fold
