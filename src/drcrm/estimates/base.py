"""Estimates of a policy's risk from a log: how importance weights and modelled costs become what a risk is taken of.

ips   R(z), z_i = w_i c_i
snips for monotone risks the smallest v with R(w · (c − v)) ≤ 0, the worst case of the ratio E[wc]/E[w]; for others
      R(z), z_i = v̂ + w_i (c_i − v̂)/w̄, v̂ = Σ w c / Σ w, w̄ the mean weight
dr    R(z), z_i = m(x_i) + w_i (c_i − ĉ(x_i, y_i)), m(x) the policy's expectation of the modelled cost ĉ
dm    R(z), z_i = m(x_i)
"""

from abc import ABC, abstractmethod
from copy import copy

import numpy as np

from drcrm.arrays.validation import one_of
from drcrm.risks.base import Risk

KINK = 1e-3  # of Σ s |w (c − v)|: while R is more, the search is not over
PATIENCE = 50  # rounds of the ratio's search after which the bracket is halved
CLOSE = 1e-11  # a step of the ratio's search, in units of the range of costs, that is the last


class Estimate(ABC):
    """What all estimates share, of a log's costs, of which each occurs.

    ``moves_with_costs`` says whether a constant added to all costs, and to the cost model's, is added to the value of
    every risk that it may be under, and changes no slope; ``is_of_rows`` whether each z is of its row alone, so that
    they may be taken part by part: of these there are ``part``, ``z`` and ``slopes``.

    Parameters
    ----------
    cost : array (n,)
    count : array (n,)
        How often each row occurs.
    modelled : array (n,), optional
        ĉ(x_i, y_i) of each row, for those that use a cost model.
    context : integer array (n,), optional
        Which of the m contexts a row belongs to, for the same.
    """

    uses_weights = True
    uses_model = False
    moves_with_costs = False
    is_of_rows = False

    def __init__(self, cost: np.ndarray, count: np.ndarray, modelled=None, context=None):
        self.cost = cost
        self.size = float(count.sum())
        self.share = count / self.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.cost)} rows)"

    @abstractmethod
    def evaluate(
        self, risk: Risk, weight: np.ndarray, slope: np.ndarray, expected: np.ndarray | None, guess: object
    ) -> tuple[float, np.ndarray | None, np.ndarray | None, object]:
        """Return the value, and its slopes in log π of each row, and in the expected modelled cost of each context.

        ``weight`` and ``slope`` are w and ∂w/∂log π of each row, ``expected`` is m(x) of each context; ``guess``, and
        the fourth result, are where searches inside begin: see ``Risk.evaluate``.
        """


class _OfRows(Estimate):
    """What estimates share of which each z is of its row."""

    is_of_rows = True

    def evaluate(self, risk, weight, slope, expected, guess):
        value, worst, guess = risk.evaluate(self.z(weight, expected), self.share, self.size, guess)
        return value, *self.slopes(worst, slope, expected), guess

    def part(self, rows, context: np.ndarray | None) -> Estimate:
        """Return the estimate of some rows, with their shares of all, of contexts with other numbers: see ``Part``."""
        other = copy(self)
        other.cost, other.share = self.cost[rows], self.share[rows]
        return other

    @abstractmethod
    def z(self, weight: np.ndarray, expected: np.ndarray | None) -> np.ndarray:
        """Return z of each row, (n,)."""

    @abstractmethod
    def slopes(self, worst: np.ndarray, slope: np.ndarray, expected: np.ndarray | None) -> tuple:
        """Return the slopes in log π and in the expected modelled cost, from those in z."""


class InversePropensity(_OfRows):
    """ips."""

    def slopes(self, worst, slope, expected):
        return worst * (self.cost * slope), None

    def z(self, weight, expected):
        """Return z of each row, (n,), whose mean is the estimate: of two policies, their difference is a paired one."""
        return self.cost * weight


class SelfNormalised(Estimate):
    """snips. Without a row of positive weight, or with one beyond numbers, the value is NaN, and the slope 0."""

    moves_with_costs = True

    def __init__(self, cost, count, modelled=None, context=None):
        super().__init__(cost, count)
        self.bounds = cost.min(), cost.max()

    def evaluate(self, risk, weight, slope, expected, guess):
        mean = self.share @ weight
        if not 0 < mean < np.inf:
            return np.nan, np.zeros(len(weight)), None, None
        if not risk.monotone:
            return self._about_the_ratio(risk, weight, slope, mean)
        value, worst, total, guess = self._worst_ratio(risk, weight, mean, guess)
        worst = worst * (self.cost - value)
        worst *= slope
        return value, worst / total if total > 0 else np.zeros(len(weight)), None, guess

    def z(self, weight, expected):
        """v̂ + w (c − v̂): that of dr with a model that says v̂ of every action, which ``evaluate`` divides by w̄."""
        ratio = self.share @ (weight * self.cost) / (self.share @ weight)
        return ratio + weight * (self.cost - ratio)

    def _worst_ratio(
        self, risk: Risk, weight: np.ndarray, mean: float, guess
    ) -> tuple[float, np.ndarray, float, object]:
        """Return the smallest v with R(w (c − v)) ≤ 0, s = ∂R/∂z there, Σ s w, and a guess for a next search.

        R(w (c − v)) is convex in v and falls, with the slope −Σ s w. Newton's steps from below never pass the root, and
        one from above ends below it; they stay between the least and the largest cost, and after 50 the bracket is
        halved. The last step is one smaller than ``CLOSE``, but for a kink: where few rows have nearly all the weight
        and their costs pass v, the slope drops to that of the others, and a step that is small by their weight is not
        the last unless costs above and below v have come to balance.
        """
        low, high = self.bounds
        close = CLOSE * max(high - low, abs(high), abs(low))
        value, inner = (self.share @ (weight * self.cost) / mean, None) if guess is None else guess
        value, rounds = min(max(value, low), high), 0
        while True:
            rounds += 1
            z = self.cost - value
            z *= weight
            excess, worst, inner = risk.evaluate(z, self.share, self.size, inner)
            total = worst @ weight
            low, high = (value, high) if excess > 0 else (low, value)
            following = value + excess / total if total > 0 else low
            if rounds > PATIENCE or not low <= following <= high:
                following = (low + high) / 2
            if abs(following - value) <= close:
                is_balanced = excess <= KINK * (worst @ np.abs(z))
                if is_balanced or following + close >= high:
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


class DoublyRobust(_OfRows):
    """dr."""

    uses_model = moves_with_costs = True

    def __init__(self, cost, count, modelled=None, context=None):
        super().__init__(cost, count)
        self.residual = cost - modelled
        self.context = context

    def part(self, rows, context):
        other = super().part(rows, context)
        other.residual, other.context = self.residual[rows], context
        return other

    def slopes(self, worst, slope, expected):
        by_context = worst if self.context is None else np.bincount(self.context, worst, len(expected))
        return worst * (self.residual * slope), by_context

    def z(self, weight, expected):
        z = weight * self.residual
        z += expected if self.context is None else expected[self.context]
        return z


class DirectMethod(Estimate):
    """dm. Rows of one context are equal: the risk is taken over contexts."""

    uses_weights = False
    uses_model = True

    def __init__(self, cost, count, modelled=None, context=None):
        super().__init__(cost, count)
        self.share = np.bincount(context, self.share)

    def evaluate(self, risk, weight, slope, expected, guess):
        value, worst, guess = risk.evaluate(expected, self.share, self.size, guess)
        return value, None, worst, guess


ESTIMATES = {"ips": InversePropensity, "snips": SelfNormalised, "dr": DoublyRobust, "dm": DirectMethod}


def estimate_class(name: str) -> type[Estimate]:
    """Return the class of an estimate; InputError for a name that there is not."""
    return ESTIMATES[one_of(ESTIMATES, name, "estimate")]
