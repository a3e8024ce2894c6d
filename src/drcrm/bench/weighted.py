"""Estimators that are estimates of :mod:`drcrm.estimates` with a weight of :mod:`drcrm.weights`."""

from __future__ import annotations

from typing import Any

import numpy as np

from drcrm.arrays.numerics import constructor_repr
from drcrm.data.bandit_log import BanditLog
from drcrm.estimates import EVALUATIONS
from drcrm.evaluation.evaluation import Evaluation
from drcrm.risks.closed_forms import LogSmoothingRisk
from drcrm.weights import Weight


class Weighted:
    """Estimate by name, with its default weight or another one.

    Parameters
    ----------
    estimate : str
        Name of an estimate of :func:`drcrm.off_policy_value`.
    weight : Weight, optional
        Weight for an estimate that does not clip.
    clip : float ≥ 1, optional
        Limit of the weights for an estimate that clips; by default the clipping constant of the log.
    """

    __repr__ = constructor_repr

    def __init__(self, estimate: str, weight: Weight | None = None, clip: float | None = None):
        self.estimate, self.weight, self.clip = estimate, weight, clip
        self.uses_model = EVALUATIONS[estimate].kind.uses_model

    def terms(self, log: BanditLog, policy: Any, model: Any = None) -> np.ndarray:
        """Return one term for each row, (n,), whose mean is the estimate; those of a ratio are linearised."""
        evaluation = Evaluation.of(policy, log, cost_model=model if self.uses_model else None)
        return evaluation.by(self.estimate, weight=self.weight, clip=self.clip).terms.linear


class LogarithmicSmoothing:
    """Logarithmic smoothing z = −log(1 − λ w c)/λ, for costs of at most 0.

    Its bias is towards 0, and below λ E (w c)². Source: Sakhi, Aouali, Alquier & Chopin 2024.

    Parameters
    ----------
    smoothing : float > 0, optional
        Strength λ, by default 1/√n, which vanishes as n grows.
    """

    uses_model = False
    __repr__ = constructor_repr

    def __init__(self, smoothing: float | None = None):
        self.smoothing = smoothing

    def terms(self, log: BanditLog, policy: Any, model: Any = None) -> np.ndarray:
        """Return one term for each row, (n,); InputError if a weighted cost is 1/λ or more."""
        risk = LogSmoothingRisk(log.size**-0.5 if self.smoothing is None else self.smoothing)
        return risk.smooth(Weighted("ips").terms(log, policy))
