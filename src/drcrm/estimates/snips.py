"""Self-normalised inverse propensity scoring (SNIPS), and its exact worst case under a monotone risk.

SNIPS estimates the ratio E[wc]/E[w] by v̂ = Σ w c / Σ w. The value depends on the risk R:

environment      R of the costs c, each with the multiplicity w
monotone risks   the smallest v with R(w (c − v)) ≤ 0, which is the worst case of the ratio
other risks      R(z) with z_i = v̂ + w_i (c_i − v̂)/w̄, where w̄ is the mean weight
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from drcrm.estimates.base import Estimate, Evaluation
from drcrm.risks import Risk

BALANCE = 1e-3  # a root v is accepted only if R(w (c − v)) is at most this share of Σ (∂R/∂z) |w (c − v)|
MAX_NEWTON_STEPS = 50  # after this many steps, the search halves its bracket
TOLERANCE = 1e-11  # error of the root, relative to the range of costs


class SelfNormalised(Estimate):
    """Self-normalised estimate; its value is NaN, with gradient 0, unless the mean weight is positive and finite.

    Source: Swaminathan & Joachims 2015.
    """

    is_ratio = is_translation_equivariant = True

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest cost."""
        return self.cost.min(), self.cost.max()

    def evaluate(self, risk: Risk, weight: Any, slope: Any, expected: Any, guess: Any) -> Evaluation:
        mean = self.share @ weight
        if not 0 < mean < np.inf:
            return np.nan, np.zeros(len(weight)), None, None
        if risk.is_shift:
            ball: Any = risk
            value, in_weight, guess = ball.evaluate_weighted(self.cost, weight, self.share, self.size, guess)
            return value, in_weight * slope, None, guess
        if not risk.monotone:
            return self._linearised(risk, weight, slope, mean)
        value, in_z, total, guess = self._find_root(risk, weight, mean, guess)
        in_log_prob = in_z * (self.cost - value)
        in_log_prob *= slope
        return value, in_log_prob / total if total > 0 else np.zeros(len(weight)), None, guess

    def mean(self, weight: Any, expected: Any = None) -> float:
        """Return v̂ = Σ w c / Σ w."""
        return self.share @ (weight * self.cost) / (self.share @ weight)

    def model_and_residual(self, weight: Any, expected: Any = None) -> tuple[Any, Any]:
        """Return v̂ and c − v̂ of each row: the doubly robust m and e with the constant model v̂."""
        ratio = self.mean(weight)
        return ratio, self.cost - ratio

    def _find_root(
        self, risk: Risk, weight: np.ndarray, mean: float, guess: Any
    ) -> tuple[float, np.ndarray, float, Any]:
        """Return the root v of R(w (c − v)), s = ∂R/∂z at the root, Σ s w, and a guess for the next search.

        R(w (c − v)) is convex and decreasing in v, with slope −Σ s w. So Newton's steps from below never pass the root,
        and a step from above ends below it. Steps stay inside a bracket, which starts as the range of costs.

        The search ends after a step below ``TOLERANCE`` if costs above and below v balance. If they do not, a small
        step does not show that the root is near: if a few rows have nearly all the weight, the slope is steep until v
        passes their costs.
        """
        low, high = self.bounds
        tolerance = TOLERANCE * max(high - low, abs(high), abs(low))
        value, inner_guess = (self.mean(weight), None) if guess is None else guess
        value, steps = min(max(value, low), high), 0
        while True:
            steps += 1
            z = self.cost - value
            z *= weight
            excess, in_z, inner_guess = risk.evaluate(z, self.share, self.size, inner_guess)
            total = in_z @ weight
            low, high = (value, high) if excess > 0 else (low, value)
            following = value + excess / total if total > 0 else low
            if steps > MAX_NEWTON_STEPS or not low <= following <= high:
                following = (low + high) / 2
            if abs(following - value) <= tolerance:
                is_balanced = excess <= BALANCE * (in_z @ np.abs(z))
                if is_balanced or following + tolerance >= high:
                    return following, in_z, total, None if inner_guess is None else (following, inner_guess)
                following += tolerance  # step past the kink
            value = following

    def _linearised(self, risk: Risk, weight: np.ndarray, slope: np.ndarray, mean: float) -> Evaluation:
        """Return the evaluation of R(v̂ + w (c − v̂)/w̄)."""
        ratio = self.mean(weight)
        centred = self.cost - ratio
        value, in_z, _ = risk.evaluate(ratio + weight * centred / mean, self.share, self.size)
        through_ratio = in_z.sum() - in_z @ weight / mean
        through_mean = in_z @ (weight * centred) / mean
        in_weight = (in_z * centred + self.share * (centred * through_ratio - through_mean)) / mean
        return value, in_weight * slope, None, None
