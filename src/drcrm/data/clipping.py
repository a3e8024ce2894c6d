"""Clipping constant M of a log's importance weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.arrays.validation import to_float
from drcrm.data.bandit_log import BanditLog
from drcrm.errors import InputError


def clipping_constant(log: BanditLog) -> float:
    """Return M, the 90th over the 10th percentile of the logged propensities, at least e.

    Both percentiles are rounded to logged values, the 90th down and the 10th up, like in the public code of POEM. If
    the ratio is beyond the range of floats, M is infinite and no weight is clipped.
    """
    order = np.argsort(log.log_propensity)
    last = np.cumsum(log.count[order])
    steps = log.size - 1
    low, high = log.log_propensity[order[np.searchsorted(last, [-(-steps // 10), 9 * steps // 10], side="right")]]
    with np.errstate(over="ignore"):
        return float(np.exp(max(high - low, 1)))


def as_clip(clip: Any, log: BanditLog) -> float | None:
    """Return M: the clipping constant of the log if ``clip`` is "auto", else ``clip``, a number ≥ 1 or None."""
    if clip is None:
        return None
    if isinstance(clip, str) and clip == "auto":
        return clipping_constant(log)
    if to_float(clip) >= 1:
        return float(clip)
    raise InputError(f"clip is {clip!r}, expected 'auto', a number ≥ 1, or None")
