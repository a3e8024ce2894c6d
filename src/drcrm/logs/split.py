"""Split of a log into training and held-out rows, which keeps dependent rows together."""

from __future__ import annotations

import numpy as np

from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError
from drcrm.rows.folds import ranks

MOST = 2**19  # held-out units; a verdict does not need more


def held_out(log: BanditLog, seed: int = 0) -> np.ndarray:
    """Return the held-out rows, a mask (n,): a share of the units, at least one, not all, and at most 2¹⁹.

    A unit is a group, or a context if the log has no groups. "last 25 %" holds out the units that appear last, by
    time or in the file.

    Parameters
    ----------
    log : BanditLog
        Log of a reader.
    seed : int
        Seed of the draw.

    Raises
    ------
    InputError
        If the log has a single unit.
    """
    kind, share = log.description.mapping.split_rule
    first, unit = _units(log)
    if len(first) < 2:
        name = "context" if log.column("groups") is None else "group"
        raise InputError(f"the log has a single {name}, expected at least two: one is held out")
    if kind == "last" and (time := log.column("time")) is not None:
        first = np.full(len(first), len(log.Y))
        np.minimum.at(first, unit, ranks(time))
    order = np.argsort(first) if kind == "last" else np.random.default_rng(seed).permutation(len(first))
    n_heldout = int(np.clip(round(share * len(first)), 1, min(len(first) - 1, MOST)))
    is_heldout = np.zeros(len(first), dtype=bool)
    is_heldout[order[-n_heldout:]] = True
    return is_heldout[unit]


def _units(log: BanditLog) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each unit, and the unit of each row."""
    units = log.units
    if units is log.context and log.is_paired:
        return units, units
    _, first, unit = np.unique(units, return_index=True, return_inverse=True)
    return first, unit
