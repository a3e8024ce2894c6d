"""Training objective: policy × log → log π → weight → estimate → risk → value, and its gradient in Θ.

An objective is evaluated by passes over the blocks of a log: forward to log π or to the costs z of the rows, and back
to a gradient. A pass keeps what its gradient needs, so nothing depends on what was evaluated before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import reduce
from threading import local
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from drcrm.arrays.validation import check_nonnegative
from drcrm.data.chunked_log import Block, Chunks
from drcrm.errors import InputError
from drcrm.estimates import find_estimate
from drcrm.policies.prepared_log import PreparedLog, ScoreMap
from drcrm.progress import report_pass
from drcrm.risks import MeanRisk, Risk
from drcrm.risks.base import Evaluation
from drcrm.weights import Clipped, Likelihood, Weight

GradientInZ = np.ndarray | Callable[[np.ndarray, np.ndarray], np.ndarray]  # an array, or a function of z and share
Part = tuple[Block, Any]  # a block, and the estimate on its rows
MAX_KEPT_SCORES = 2**25  # up to this number of scores, probabilities (256 MB) are kept for the backward pass
MAX_EXPONENT = 100  # the largest weight of the weighted likelihood is e to this power; e^710 would overflow


class BlockPass:
    """Forward pass over a block, with its adjoint.

    Parameters
    ----------
    part : Part
    scores : ScoreMap
    coef : array (d, …)
        Θ.
    keeps : bool
        Whether to keep μ for the gradient. If not, the backward pass computes it again.

    Attributes
    ----------
    expected : array (m,) or None
        Expected modelled costs of the contexts.
    """

    def __init__(self, part: Part, scores: ScoreMap, coef: np.ndarray, keeps: bool):
        (self._block, self._estimate), self._scores, self._coef = part, scores, coef
        kept = _SPARE.pop(self._block, None) if keeps else None
        if keeps and kept is None:
            kept = _empty_scores(self._block)
        self._log_prob, self.expected, _ = self._forward(kept)
        self._mean = kept

    def results(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π of the rows, and the expected modelled costs of the contexts."""
        return self._log_prob, self.expected

    def backward(self, gradients: tuple[Any, Any]) -> np.ndarray:
        """Return the gradient in Θ, from the gradients in log π and in the expected modelled costs."""
        mean = self._forward(None)[2] if self._mean is None else self._mean
        buffer = _thread_buffer("scores", self._block)
        gradient = self._scores.backward(self._block, mean, *gradients, self.expected, buffer)
        if self._mean is not None:
            _SPARE[self._block], self._mean = self._mean, None
        return gradient

    def _forward(self, mean: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return log π, the expected modelled costs and μ, in the array ``mean`` or one that the thread reuses."""
        mean = _thread_buffer("mean", self._block) if mean is None else mean
        return self._scores.forward(self._block, self._coef, [mean, _thread_buffer("scores", self._block)])


class CostPass(BlockPass):
    """Forward pass to the costs z of the rows of a block.

    Attributes
    ----------
    z, share : array (n,)
        Cost of each row, and its share of the whole log.
    """

    def __init__(self, part: Part, scores: ScoreMap, coef: np.ndarray, keeps: bool, weight: Weight):
        super().__init__(part, scores, coef, keeps)
        value, self._slope = weight(self._log_prob, self._block.log.log_propensity)
        self.z, self.share = self._estimate.z(value, self.expected), self._estimate.share
        del self._log_prob

    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest z; both are NaN if any z is."""
        return self.z.min(), self.z.max()

    def costs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return z and share."""
        return self.z, self.share

    def sum(self, function: Callable, *arguments: Any) -> np.ndarray:
        """Return ``function(z, share, *arguments)``, a sum over the rows."""
        return function(self.z, self.share, *arguments)

    def gradient(self, in_z: GradientInZ) -> np.ndarray:
        """Return the gradient in Θ, from the gradient in z."""
        in_z = in_z(self.z, self.share) if callable(in_z) else in_z
        return self.backward(self._estimate.gradients(in_z, self._slope, self.expected))


class BlockCosts:
    """The costs z of all rows at one Θ, block by block, on which a risk is evaluated.

    Parameters
    ----------
    passes : Chunks of CostPass
    """

    def __init__(self, passes: Chunks):
        self._passes = passes

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._passes)

    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest z; both are NaN if any z is."""
        low, high = zip(*self._passes.map(CostPass.range), strict=True)
        return float(np.min(low)), float(np.max(high))

    def sum(self, function: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
        """Return Σ function(z, share, *arguments) over blocks."""
        return sum(self._passes.map(CostPass.sum, function, *arguments))

    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        """Return z and share of all rows, (n,): 16 bytes a row."""
        costs = [*self._passes.map(CostPass.costs)]
        self._ends = np.cumsum([len(z) for z, _ in costs])[:-1]
        z, share = map(np.concatenate, zip(*costs, strict=True))
        return z, share

    def gradient(self, in_z: GradientInZ) -> np.ndarray:
        """Return the gradient in Θ, (d, …), from the gradient in z; an array has the order of ``gather``."""
        by_block = [in_z] * len(self) if callable(in_z) else np.split(in_z, self._ends)
        return sum(self._passes.map(CostPass.gradient, by_chunk=by_block))


_BUFFERS = local()
_SPARE: WeakKeyDictionary[Block, np.ndarray] = WeakKeyDictionary()  # memory of passes that have ended, for the next one


def _thread_buffer(name: str, block: Block) -> np.ndarray:
    """Return an array of the scores' shape that belongs to this thread; the thread's next block overwrites it."""
    array, shape = getattr(_BUFFERS, name, None), (block.log.X.shape[0], *block.log.actions.shape)
    if array is None or array.shape != shape or array.flags.f_contiguous != (block.log.actions.order == "F"):
        array = _empty_scores(block)
        setattr(_BUFFERS, name, array)
    return array


def _empty_scores(block: Block) -> np.ndarray:
    return np.empty((block.log.X.shape[0], *block.log.actions.shape), order=block.log.actions.order)


class Objective:
    """The estimate of a policy's risk as a function of Θ, with its gradient.

    The chain rule is applied once for all risks, estimates and weights. The estimate gives the gradients in log π of
    the rows and in the expected modelled costs of the contexts; the prepared log maps them to Θ. Source: eq. 3 and
    Remark 1 of the paper.

    Parameters
    ----------
    prepared : PreparedLog
        The log, with the effects of a cost model for "dr" and "dm".
    risk : Risk
    weight : Weight, optional
        By default π/p without clipping.
    estimate : "ips", "snips", "dr" or "dm"
    cost : array (n,), optional
        Costs to use in place of the log's costs.

    Raises
    ------
    InputError
        If the estimate is unknown, or needs a cost model and has none.
    """

    def __init__(
        self,
        prepared: PreparedLog,
        risk: Risk,
        weight: Weight | None = None,
        estimate: str = "ips",
        cost: np.ndarray | None = None,
    ):
        kind = find_estimate(estimate)
        if kind.uses_model and prepared.effects is None:
            raise InputError(f"the estimate {estimate!r} needs a cost model")
        self.prepared, self.risk, self.weight = prepared, risk, weight or Clipped(None)
        self.estimate = prepared.make_estimate(kind, cost)

    def of_present_features(self) -> Objective:
        """Return the objective in the coefficients of the features that are not 0 in all contexts."""
        narrow = copy(self)
        narrow.prepared = self.prepared.of_present_features
        return narrow

    def samples(self) -> Iterator[Objective]:
        """Yield the objective on larger and larger samples of a large log: see ``PreparedLog.samples``.

        The risk of a sample is adapted to its noise: see ``Risk.for_fewer_rows``.
        """
        for prepared, rows in self.prepared.samples():
            sample = copy(self)
            sample.prepared = prepared
            has_log_costs = self.estimate.cost is self.prepared.log.cost
            sample.estimate = prepared.make_estimate(
                type(self.estimate), None if has_log_costs else self.estimate.cost[rows]
            )
            sample.risk = self.risk.for_fewer_rows(self.estimate.size / sample.estimate.size)
            yield sample

    def __call__(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the flat gradient at Θ, which is flat or has shape (d, …).

        A self-normalised estimate is NaN, with gradient 0, if no row has a weight.
        """
        value, gradient, _ = self.evaluate(coef)
        return value, gradient

    def evaluate(self, coef: np.ndarray, guess: object = None) -> Evaluation:
        """Return the value, the gradient, and a guess for the evaluation at the next Θ: see ``Risk.evaluate``."""
        prepared, coef = self.prepared, coef.reshape(self.prepared.shape)
        parts, estimate = prepared.parts_of(self.estimate), self.estimate
        keeps = bool(prepared.log.X.shape[0] * np.prod(prepared.log.actions.shape) <= MAX_KEPT_SCORES)
        report_pass(len(prepared.log.Y))
        if estimate.is_rowwise:
            costs = BlockCosts(parts.transform(CostPass, prepared.scores, coef, keeps, self.weight))
            value, in_z, guess = self.risk.evaluate_chunks(costs, estimate.size, guess)
            return value, costs.gradient(in_z).ravel(), guess
        passes = parts.transform(BlockPass, prepared.scores, coef, keeps)
        log_prob, expected = prepared.gather(passes.map(BlockPass.results))
        weight = slope = None
        if estimate.uses_weights:
            weight, slope = self.weight(log_prob, prepared.log.log_propensity)
        value, by_row, by_context, guess = estimate.evaluate(self.risk, weight, slope, expected, guess)
        gradients = [
            (None if by_row is None else by_row[block.rows], None if by_context is None else by_context[block.contexts])
            for block in prepared.chunked.blocks
        ]
        return value, reduce(np.add, passes.map(BlockPass.backward, by_chunk=gradients)).ravel(), guess


class WeightedLikelihoodRisk(MeanRisk):
    """Mean of −e^{−βc} log π, a weighted log-likelihood of the actions. It has no importance weight.

    If the largest factor e^{−βc} exceeds e¹⁰⁰, all are rescaled so that it is e¹⁰⁰. Source: Aouali & Sakhi 2025.

    Parameters
    ----------
    sharpness : float ≥ 0
        β, in the inverse unit of the cost.
    """

    robust_end = "low"
    estimates = ("ips",)

    def __init__(self, sharpness: float):
        self.sharpness = check_nonnegative(sharpness, "sharpness")

    def factors(self, cost: np.ndarray) -> np.ndarray:
        """Return −e^{−βc} of each row, (n,); InputError if an exponent is beyond the range of numbers."""
        with np.errstate(over="ignore"):
            exponent = -self.sharpness * cost
        if not np.isfinite(exponent).all():
            raise InputError(f"sharpness {self.sharpness:.6g} is too large for a cost of {cost.min():.6g}")
        return -np.exp(exponent - max(exponent.max() - MAX_EXPONENT, 0))


def make_objective(
    prepared: PreparedLog, risk: Risk, weight: Weight | None = None, estimate: str = "ips", clip: float | None = None
) -> Objective:
    """Return the objective on a log; the default weight is min(M, π/p) with M = ``clip``."""
    weight = weight or Clipped(clip)
    if isinstance(risk, WeightedLikelihoodRisk):
        return Objective(prepared, risk, Likelihood(), cost=risk.factors(prepared.log.cost))
    return Objective(prepared, risk, weight, estimate)
