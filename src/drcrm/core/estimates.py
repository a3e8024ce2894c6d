"""Estimates of a policy's risk from a log: how importance weights and modelled costs become what a risk is taken of.

ips   R(z), z_i = w_i c_i
snips for monotone risks the smallest v with R(w · (c − v)) ≤ 0, the worst case of the ratio E[wc]/E[w]; for others
      R(z), z_i = v̂ + w_i (c_i − v̂)/w̄, v̂ = Σ w c / Σ w, w̄ the mean weight
dr    R(z), z_i = m(x_i) + w_i (c_i − ĉ(x_i, y_i)), m(x) the policy's expectation of the modelled cost ĉ
dm    R(z), z_i = m(x_i)
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from .log import BanditLog
from .risks import Risk

KINK = 1e-3  # of Σ s |w (c − v)|: while R is more, the search is not over
CLOSE = 1e-11  # a step of the ratio's search, in units of the range of costs, that is the last


class Estimate(ABC):
    """What all estimates share, bound to a log in which every row occurs.

    ``moves_with_costs`` says whether a constant added to all costs, and to the cost model's, is added to the value of
    every risk that it may be under, and changes no slope.

    Parameters
    ----------
    log : BanditLog
    modelled : array (n,), optional
        ĉ(x_i, y_i) of each row, for those that use a cost model.
    """

    uses_weights = True
    uses_model = False
    moves_with_costs = False

    def __init__(self, log: BanditLog, modelled: np.ndarray | None = None):
        self.cost = log.cost
        self.size = float(log.size)
        self.share = log.count / self.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.cost)} rows)"

    @abstractmethod
    def evaluate(
        self, risk: Risk, weight: np.ndarray, slope: np.ndarray, expected: np.ndarray | None, start: object
    ) -> tuple[float, np.ndarray | None, np.ndarray | None, object]:
        """Return the value, and its slopes in log π of each row, and in the expected modelled cost of each context.

        ``weight`` and ``slope`` are w and ∂w/∂log π of each row, ``expected`` is m(x) of each context; ``start``, and
        the fourth result, are where searches inside begin: see ``Risk.evaluate``.
        """


class InversePropensity(Estimate):
    """ips."""

    def evaluate(self, risk, weight, slope, expected, start):
        value, worst, start = risk.evaluate(self.cost * weight, self.share, self.size, start)
        return value, worst * (self.cost * slope), None, start


class SelfNormalised(Estimate):
    """snips. Without a row of positive weight the value is NaN, and the slope 0."""

    moves_with_costs = True

    def __init__(self, log, modelled=None):
        super().__init__(log)
        self.bounds = self.cost.min(), self.cost.max()

    def evaluate(self, risk, weight, slope, expected, start):
        mean = self.share @ weight
        if not mean > 0:
            return np.nan, np.zeros(len(weight)), None, None
        if not risk.monotone:
            return self._about_the_ratio(risk, weight, slope, mean)
        value, worst, total, start = self._ratio(risk, weight, mean, start)
        worst = worst * (self.cost - value)
        worst *= slope
        return value, worst / total if total > 0 else np.zeros(len(weight)), None, start

    def _ratio(self, risk: Risk, weight: np.ndarray, mean: float, start) -> tuple[float, np.ndarray, float, object]:
        """Return the smallest v with R(w (c − v)) ≤ 0, s = ∂R/∂z there, Σ s w, and where a next search may start.

        R(w (c − v)) is convex in v and falls: Newton's steps from below never pass the root, and one from above ends
        below it. They stay between the least and the largest cost; after 50 the bracket is halved. Where few rows have
        nearly all the weight and their costs pass v, the slope drops to that of the others: a step that is small by
        their weight is not the last, unless costs above and below v have come to balance.
        """
        low, high = self.bounds
        close = CLOSE * max(high - low, abs(high), abs(low))
        value, inner = (self.share @ (weight * self.cost) / mean, None) if start is None else start
        value, rounds = min(max(value, low), high), 0
        while True:
            rounds += 1
            z = self.cost - value
            z *= weight
            excess, worst, inner = risk.evaluate(z, self.share, self.size, inner)
            total = worst @ weight
            if excess > 0:
                low = value
            else:
                high = value
            following = value + excess / total if total > 0 else low
            if not low <= following <= high or rounds > 50:
                following = (low + high) / 2
            if abs(following - value) <= close:
                if following + close >= high or excess <= KINK * (worst @ np.abs(z)):
                    return following, worst, total, None if inner is None else (following, inner)
                following += close  # past the kink
            value = following

    def _about_the_ratio(self, risk: Risk, weight: np.ndarray, slope: np.ndarray, mean: float):
        ratio = self.share @ (weight * self.cost) / mean
        centred = self.cost - ratio
        value, worst, _ = risk.evaluate(ratio + weight * centred / mean, self.share, self.size)
        through_ratio = worst.sum() - worst @ weight / mean
        through_mean = worst @ (weight * centred) / mean
        in_weight = (worst * centred + self.share * (centred * through_ratio - through_mean)) / mean
        return value, in_weight * slope, None, None


class DoublyRobust(Estimate):
    """dr."""

    uses_model = moves_with_costs = True

    def __init__(self, log, modelled=None):
        super().__init__(log)
        self.residual = log.cost - modelled
        self.context = log.context

    def evaluate(self, risk, weight, slope, expected, start):
        z = expected[self.context]
        z += weight * self.residual
        value, worst, start = risk.evaluate(z, self.share, self.size, start)
        return value, worst * (self.residual * slope), np.bincount(self.context, worst, len(expected)), start


class DirectMethod(Estimate):
    """dm. Rows of one context are equal: the risk is taken over contexts."""

    uses_weights = False
    uses_model = True

    def __init__(self, log, modelled=None):
        super().__init__(log)
        self.share = np.bincount(log.context, self.share, log.X.shape[0])

    def evaluate(self, risk, weight, slope, expected, start):
        value, worst, start = risk.evaluate(expected, self.share, self.size, start)
        return value, None, worst, start


ESTIMATES = {"ips": InversePropensity, "snips": SelfNormalised, "dr": DoublyRobust, "dm": DirectMethod}
