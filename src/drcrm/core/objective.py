"""The training objective: log × policy → log π → weight → estimate → risk → value, and back to its gradient in Θ."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .cluster import pieces_of
from .design import Design
from .estimates import estimate_class
from .risks import Evaluation, Risk
from .weights import Clipped, Likelihood, Weight


class Objective:
    """Θ ↦ the estimate of a policy's risk, and its gradient.

    The gradient follows by the chain rule, once for all risks, estimates and weights: an estimate gives the slopes of
    each row's log π and of each context's expected modelled cost, a design what they are in Θ. Source: eq. 3 of the
    paper, and its Remark 1.

    Parameters
    ----------
    design : Design
        The log; with the effects of a cost model for "dr" and "dm".
    risk : Risk
    weight : Weight, optional
        By default π/p, not clipped.
    estimate : "ips", "snips", "dr" or "dm"
    cost : array (n,), optional
        In place of the log's costs.

    Raises
    ------
    InputError
        An unknown estimate, or one that lacks its cost model.
    """

    def __init__(
        self,
        design: Design,
        risk: Risk,
        weight: Weight | None = None,
        estimate: str = "ips",
        cost: np.ndarray | None = None,
    ):
        kind = estimate_class(estimate)
        if kind.uses_model and design.effects is None:
            raise InputError(f"the estimate {estimate!r} needs a cost model")
        self.design, self.risk, self.weight = design, risk, weight or Clipped(None)
        self.estimate = design.estimate(kind, cost)

    def with_features(self, features: np.ndarray) -> Objective:
        """The same objective in the coefficients of some features, the others being 0 in all contexts."""
        other = copy(self)
        other.design = self.design.with_features(features)
        return other

    def samples(self) -> Iterator[Objective]:
        """Give the same objective on more and more contexts of a large log: see ``Design.samples``.

        Each is as robust as the noise of so few rows asks for: see ``Risk.of_fewer_rows``.
        """
        for design, rows in self.design.samples:
            other = copy(self)
            other.design = design
            is_own = self.estimate.cost is self.design.log.cost
            other.estimate = design.estimate(type(self.estimate), None if is_own else self.estimate.cost[rows])
            other.risk = self.risk.of_fewer_rows(self.estimate.size / other.estimate.size)
            yield other

    def __call__(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient at Θ, given flat or of shape (d, …); the gradient comes flat.

        A self-normalised estimate is NaN, with gradient 0, where no row has a weight.
        """
        value, gradient, _ = self.evaluate(coef)
        return value, gradient

    def evaluate(self, coef: np.ndarray, guess: object = None) -> Evaluation:
        """As a call, with where searches inside begin, and a guess for those at the next Θ: see ``Risk``."""
        if len(self.design.parts) > 1 and self.estimate.is_of_rows:
            pieces = pieces_of(self.design, self.weight, self.estimate)
            ends = pieces.forward(coef)
            value, worst, guess = self.risk.over(pieces, ends, self.estimate.size, guess)
            return value, pieces.backward(worst), guess
        value, by_row, by_context, guess = self.estimated(*self.design.forward(coef), guess)
        return value, self.design.backward(by_row, by_context), guess

    def estimated(self, log_prob: np.ndarray, expected: np.ndarray | None, guess: object = None):
        """Return what the estimate makes of a pass forward: see ``Estimate.evaluate``."""
        weight = slope = None
        if self.estimate.uses_weights:
            weight, slope = self.weight(log_prob, self.design.log.log_propensity)
        return self.estimate.evaluate(self.risk, weight, slope, expected, guess)


MOST_EXPONENT = 100  # of a weight of the likelihood: e^700 would be beyond the range of numbers


@dataclass(frozen=True)
class Criterion:
    """What is minimised, whatever the log: an objective but for its design.

    Parameters
    ----------
    risk : Risk
    weight : Weight, optional
        By default min(M, π/p).
    estimate : "ips", "snips", "dr" or "dm"
    sharpness : float, optional
        β: where given, the objective is the weighted log-likelihood, the mean of −e^{−βc} log π. Source: Aouali & Sakhi
        2025. Where the largest of these weights is above e¹⁰⁰, they are divided by what makes it e¹⁰⁰.
    """

    risk: Risk
    weight: Weight | None = None
    estimate: str = "ips"
    sharpness: float | None = None

    def objective(self, design: Design, clip: float | None, cost: np.ndarray | None = None) -> Objective:
        """Return the objective on a log, clipped at M; with costs (n,) in place of the log's."""
        if self.sharpness is None:
            return Objective(design, self.risk, self.weight or Clipped(clip), self.estimate, cost)
        with np.errstate(over="ignore"):
            exponent = -self.sharpness * design.log.cost
        if not np.isfinite(exponent).all():
            least = design.log.cost.min()
            raise InputError(f"sharpness {self.sharpness:.6g} is too large for a cost of {least:.6g}")
        return Objective(
            design, self.risk, Likelihood(), cost=-np.exp(exponent - max(exponent.max() - MOST_EXPONENT, 0))
        )
