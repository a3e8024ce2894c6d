"""Estimates of a policy's cost: how importance weights and modelled costs of a log become the input of a risk.

An estimate maps the weights w_i of the rows, and the expected modelled costs m(x) of the contexts, to one number z_i
for each row. The value of the estimate is the risk R(z). The estimate also maps the gradient of R to gradients in log π
and in m(x).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np

from drcrm.arrays.validation import check_choice
from drcrm.risks import Risk

Gradient = np.ndarray | None
Evaluation = tuple[float, Gradient, Gradient, Any]

BALANCE = 1e-3  # a root v is accepted only if R(w (c − v)) is at most this share of Σ (∂R/∂z) |w (c − v)|
MAX_NEWTON_STEPS = 50  # after this many steps, the search halves its bracket
TOLERANCE = 1e-11  # error of the root, relative to the range of costs


class Estimate(ABC):
    """An estimate of a policy's risk from the costs of a log without rows of count 0.

    Parameters
    ----------
    cost : array (n,)
    count : array (n,)
        Multiplicity of each row.
    modelled : array (n,), optional
        ĉ(x_i, y_i) of each row, for estimates with ``uses_model``.
    context : integer array (n,), optional
        Context of each row, from 0 to m − 1, for estimates with ``uses_model``.

    Attributes
    ----------
    residual : array (n,) or None
        c − ĉ.
    uses_weights, uses_model : bool
        Whether the estimate needs importance weights, and a cost model.
    is_ratio : bool
        Whether the estimate divides by the mean weight.
    is_translation_equivariant : bool
        Whether a constant that is added to all costs and to the cost model is added to the value too, and leaves the
        gradients unchanged.
    is_rowwise : bool
        Whether z_i depends only on row i, so that the log can be evaluated in chunks. Only such estimates have ``z``,
        ``gradients`` and ``restrict_to_rows``.
    """

    uses_weights = True
    uses_model = False
    is_ratio = False
    is_translation_equivariant = False
    is_rowwise = False

    def __init__(
        self,
        cost: np.ndarray,
        count: np.ndarray,
        modelled: np.ndarray | None = None,
        context: np.ndarray | None = None,
    ):
        self.cost, self.context = cost, context
        self.residual: Any = None if modelled is None else cost - modelled
        self.size = float(count.sum())
        self.share: np.ndarray = count / self.size

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.cost)} rows)"

    @abstractmethod
    def evaluate(
        self,
        risk: Risk,
        weight: np.ndarray | None,
        slope: np.ndarray | None,
        expected: np.ndarray | None,
        guess: Any,
    ) -> Evaluation:
        """Return the risk, its gradient in each row's log π and in each context's expected modelled cost, and a guess.

        Parameters
        ----------
        risk : Risk
        weight, slope : array (n,)
            w and ∂w/∂log π of each row.
        expected : array (m,), optional
            m(x) of each context.
        guess : Any
            Start of inner searches: the guess that an evaluation at a nearby policy returned, or None.
        """

    @abstractmethod
    def model_and_residual(self, weight: Any, expected: Any) -> tuple[Any, Any]:
        """Return m and e of each row, (n,) or a number: the estimate is the mean of the terms z = m + w e."""

    @np.errstate(divide="ignore", invalid="ignore")
    def terms(self, weight: Any, expected: Any = None) -> np.ndarray:
        """Return one term for each row, (n,). Their mean is the estimate, and their variance gives its standard error.

        The terms of a ratio are linearised, m + w e/w̄ with the mean weight w̄; they are NaN if every weight is 0.
        """
        modelled, residual = self.model_and_residual(weight, expected)
        return modelled + (weight / (self.share @ weight) if self.is_ratio else weight) * residual

    def mean(self, weight: Any, expected: Any = None) -> float:
        """Return the estimate of the mean cost."""
        return self.share @ self.terms(weight, expected)


class RowwiseEstimate(Estimate):
    """Base of the estimates whose z_i = m(x_i) + w_i e_i depends only on row i: e is fixed, and m is 0 or modelled."""

    is_rowwise = True

    def evaluate(
        self,
        risk: Risk,
        weight: np.ndarray | None,
        slope: np.ndarray | None,
        expected: np.ndarray | None,
        guess: Any,
    ) -> Evaluation:
        value, in_z, guess = risk.evaluate(self.z(weight, expected), self.share, self.size, guess)
        return value, *self.gradients(in_z, slope, expected), guess

    def restrict_to_rows(self, rows: slice | np.ndarray, context: np.ndarray | None) -> Self:
        """Return the estimate on a subset of the rows, whose shares still refer to the whole log.

        ``context`` has the context of each remaining row, or is None if row i belongs to context i.
        """
        part = copy(self)
        part.cost, part.share, part.context = self.cost[rows], self.share[rows], context
        part.residual = None if self.residual is None else self.residual[rows]
        return part

    def z(self, weight: Any, expected: Any = None) -> np.ndarray:
        """Return z = m + w e of each row, (n,)."""
        modelled, residual = self.model_and_residual(weight, expected)
        z = weight * residual
        z += modelled
        return z

    def gradients(self, in_z: np.ndarray, slope: Any, expected: Any) -> tuple[Gradient, Gradient]:
        """Return the gradients in log π and in the expected modelled costs, from the gradient in z."""
        in_log_prob = in_z * (self.model_and_residual(slope, expected)[1] * slope)
        if not self.uses_model:
            return in_log_prob, None
        by_context = in_z if self.context is None else np.bincount(self.context, in_z, len(expected))
        return in_log_prob, by_context


class InversePropensity(RowwiseEstimate):
    """Risk of the importance-weighted costs z_i = w_i c_i. Source: Horvitz & Thompson 1952; eq. 2 of the paper."""

    def model_and_residual(self, weight: Any, expected: Any) -> tuple[Any, Any]:
        return 0.0, self.cost


class SelfNormalised(Estimate):
    """Self-normalised inverse propensity scoring, an estimate of the ratio E[wc]/E[w] by v̂ = Σ w c / Σ w.

    The value is NaN, with gradient 0, unless the mean weight is positive and finite. It depends on the risk R:

    environment      R of the costs c, each with the multiplicity w
    monotone risks   the smallest v with R(w (c − v)) ≤ 0, which is the worst case of the ratio
    other risks      R(z) with z_i = v̂ + w_i (c_i − v̂)/w̄, where w̄ is the mean weight

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


class DoublyRobust(RowwiseEstimate):
    """Risk of z_i = m(x_i) + w_i (c_i − ĉ(x_i, y_i)), where ĉ is the modelled cost and m its mean under the policy.

    Source: Dudík, Langford & Li 2011.
    """

    uses_model = is_translation_equivariant = True

    def model_and_residual(self, weight: Any, expected: Any) -> tuple[Any, Any]:
        return expected if self.context is None else expected[self.context], self.residual


class SelfNormalisedDoublyRobust(Estimate):
    """Mean of m(x) plus Σ w (c − ĉ)/Σ w, or another risk of the linearised terms. It has no gradient.

    Source: Thomas & Brunskill 2016.
    """

    uses_model = is_ratio = True

    def evaluate(self, risk: Risk, weight: Any, slope: Any, expected: Any, guess: Any) -> Evaluation:
        return risk.evaluate(self.terms(weight, expected), self.share, self.size)[0], None, None, None

    def model_and_residual(self, weight: Any, expected: Any) -> tuple[Any, Any]:
        ratio, centred = SelfNormalised(self.residual, self.share).model_and_residual(weight)
        return expected[self.context] + ratio, centred


class DirectMethod(Estimate):
    """Risk of z_k = m(x_k), the expected modelled cost of context k. It uses neither weights nor logged costs.

    Each context has the share of its rows in the log.
    """

    uses_weights = False
    uses_model = True

    @cached_property
    def context_share(self) -> np.ndarray:
        """Share of the rows of each context, (m,)."""
        return np.bincount(np.asarray(self.context), self.share)

    def evaluate(self, risk: Risk, weight: Any, slope: Any, expected: Any, guess: Any) -> Evaluation:
        value, in_expected, guess = risk.evaluate(expected, self.context_share, self.size, guess)
        return value, None, in_expected, guess

    def model_and_residual(self, weight: Any, expected: Any) -> tuple[Any, Any]:
        return expected[self.context], np.zeros(len(self.cost))


# Estimates that an algorithm can minimise. The algorithm chooses the weight.
ESTIMATES: dict[str, type[Estimate]] = {
    "ips": InversePropensity,
    "snips": SelfNormalised,
    "dr": DoublyRobust,
    "dm": DirectMethod,
}


def find_estimate(name: str) -> type[Estimate]:
    """Return the class of an estimate by its name; raise InputError if there is no such name."""
    return ESTIMATES[check_choice(ESTIMATES, name, "estimate")]
