"""The training objective: log × policy → log π → weight → estimate → risk → value, and back to its gradient in Θ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import reduce
from threading import local

import numpy as np

from drcrm.arrays.numerics import compensated_sum
from drcrm.data.chunked_log import Block
from drcrm.data.executors import Chunks
from drcrm.data.listeners import report_pass
from drcrm.errors import InputError
from drcrm.estimates import Estimate, find_estimate
from drcrm.policies.linear_predictor import LinearPredictor, ScoreMap
from drcrm.risks import Risk
from drcrm.risks.base import Evaluation
from drcrm.weights import Clipped, Likelihood, Weight

MOST_KEPT = 2**25  # scores of a log whose probabilities are kept between the two halves of a pass: 256 MB
Slopes = np.ndarray | Callable[[np.ndarray, np.ndarray], np.ndarray]


class Objective:
    """Θ ↦ the estimate of a policy's risk, and its gradient.

    The gradient follows by the chain rule, once for all risks, estimates and weights: an estimate gives the slopes of
    each row's log π and of each context's expected modelled cost, a design what they are in Θ. Source: eq. 3 of the
    paper, and its Remark 1.

    Parameters
    ----------
    design : LinearPredictor
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
        design: LinearPredictor,
        risk: Risk,
        weight: Weight | None = None,
        estimate: str = "ips",
        cost: np.ndarray | None = None,
    ):
        kind = find_estimate(estimate)
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
        """Give the same objective on more and more contexts of a large log: see ``LinearPredictor.samples``.

        Each is as robust as the noise of so few rows asks for: see ``Risk.for_fewer_rows``.
        """
        for design, rows in self.design.samples:
            other = copy(self)
            other.design = design
            is_own = self.estimate.cost is self.design.log.cost
            other.estimate = design.estimate(type(self.estimate), None if is_own else self.estimate.cost[rows])
            other.risk = self.risk.for_fewer_rows(self.estimate.size / other.estimate.size)
            yield other
        del self.design.samples[1:]  # only the first is used again

    def __call__(self, coef: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient at Θ, given flat or of shape (d, …); the gradient comes flat.

        A self-normalised estimate is NaN, with gradient 0, where no row has a weight.
        """
        value, gradient, _ = self.evaluate(coef)
        return value, gradient

    def evaluate(self, coef: np.ndarray, guess: object = None) -> Evaluation:
        """As a call, with where searches inside begin, and a guess for those at the next Θ: see ``Risk``."""
        design, coef = self.design, coef.reshape(self.design.shape)
        blocks = self._blocks()
        report_pass(len(design.log.Y))
        if self.estimate.is_rowwise:
            costs = ChunkedCosts(blocks, coef)
            value, worst, guess = self.risk.evaluate_chunks(costs, self.estimate.size, guess)
            return value, costs.gradient(worst).ravel(), guess
        log_prob, expected = design.gather(blocks.map(ObjectiveBlock.forward, coef))
        value, by_row, by_context, guess = self.estimated(log_prob, expected, guess)
        slopes = [
            (None if by_row is None else by_row[block.rows], None if by_context is None else by_context[block.contexts])
            for block in design.chunked.blocks
        ]
        return value, reduce(np.add, blocks.map(ObjectiveBlock.backward, coef, by_chunk=slopes)).ravel(), guess

    def _blocks(self) -> Chunks:
        """Return the blocks of the log; objectives of the same estimate and weight share them."""
        design, key = self.design, (self.estimate, repr(self.weight))
        if design.objective_blocks[0] != key:
            keeps = bool(design.log.X.shape[0] * np.prod(design.log.actions.shape) <= MOST_KEPT)
            arguments, blocks = (design.scores, self.weight, self.estimate, keeps), design.chunked.blocks
            design.objective_blocks = key, Chunks([ObjectiveBlock(block, *arguments) for block in blocks], blocks.group)
        return design.objective_blocks[1]

    def estimated(self, log_prob: np.ndarray, expected: np.ndarray | None, guess: object = None):
        """Return what the estimate makes of a pass forward: see ``Estimate.evaluate``."""
        weight = slope = None
        if self.estimate.uses_weights:
            weight, slope = self.weight(log_prob, self.design.log.log_propensity)
        return self.estimate.evaluate(self.risk, weight, slope, expected, guess)


class ObjectiveBlock:
    """A block of a log on the way of an objective: forward from Θ to costs z of its rows, and back to a gradient.

    Every method takes Θ, so that a block that was lost with its worker is evaluated anew.

    Parameters
    ----------
    block : Block
    scores : ScoreMap
    weight : Weight
    estimate : Estimate
        Of the whole log.
    keeps : bool
        Whether what the gradient needs is kept from the pass forward, or else computed once more.
    """

    def __init__(self, block: Block, scores: ScoreMap, weight: Weight, estimate: Estimate, keeps: bool):
        self._block, self._scores, self._weight, self._keeps = block, scores, weight, keeps
        self._estimate = estimate.restrict_to_rows(block.rows, block.context) if estimate.is_rowwise else None
        self._coef, self._z, self._kept, self._mean = None, None, None, None

    def forward(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π of the rows, and the expected modelled costs of the contexts."""
        passed_forward = self._forward(coef)
        self._coef, self._kept = coef, passed_forward[1:] if self._keeps else None
        return passed_forward[:2]

    def backward(self, slopes: tuple, coef: np.ndarray) -> np.ndarray:
        """Return the gradient in Θ, from the gradients in log π and in the expected modelled costs."""
        is_kept = self._kept is not None and np.array_equal(coef, self._coef)
        return self._backward(*slopes, *(self._kept if is_kept else self._forward(coef)[1:]))

    def costs(self, coef: np.ndarray) -> np.ndarray:
        """Return z of the rows, (n,)."""
        if self._coef is None or not np.array_equal(coef, self._coef):
            estimated = self._estimated(coef)
            self._coef, self._z, self._kept = coef, estimated[0], estimated[1:] if self._keeps else None
        return self._z

    def cost_range(self, coef: np.ndarray) -> tuple[float, float]:
        """Return the smallest and the largest z, NaN if any z is."""
        z = self.costs(coef)
        return z.min(), z.max()

    def gradient(self, worst: Slopes, coef: np.ndarray) -> np.ndarray:
        """Return the gradient in Θ, from the gradient in z, or from a function of z and share."""
        z = self.costs(coef)
        worst = worst(z, self._estimate.share) if callable(worst) else worst
        slope, expected, mean = self._kept or self._estimated(coef)[1:]
        return self._backward(*self._estimate.gradients(worst, slope, expected), expected, mean)

    def _estimated(self, coef: np.ndarray) -> tuple:
        """Return z, ∂w/∂log π, the expected modelled costs, and μ."""
        log_prob, expected, mean = self._forward(coef)
        weight, slope = self._weight(log_prob, self._block.log.log_propensity)
        return self._estimate.z(weight, expected), slope, expected, mean

    def _forward(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return the pass forward; μ is written over by the next pass."""
        buffers = None
        if self._scores.trains:
            if self._keeps and self._mean is None:
                self._mean = _scores_like(self._block)
            buffers = [_spare("mean", self._block) if self._mean is None else self._mean, _spare("other", self._block)]
        return self._scores.forward(self._block, coef, buffers)

    def _backward(self, by_row, by_context, expected: np.ndarray | None, mean: np.ndarray) -> np.ndarray:
        spare = _spare("other", self._block) if self._scores.trains else None
        return self._scores.backward(self._block, mean, by_row, by_context, expected, spare)


_SPARES = local()


def _spare(name: str, block: Block) -> np.ndarray:
    """Return an array of the scores' shape that belongs to this thread: its next block writes it over."""
    array, shape = getattr(_SPARES, name, None), (block.log.X.shape[0], *block.log.actions.shape)
    if array is None or array.shape != shape or array.flags.f_contiguous != (block.log.actions.order == "F"):
        array = _scores_like(block)
        setattr(_SPARES, name, array)
    return array


def _scores_like(block: Block) -> np.ndarray:
    return np.empty((block.log.X.shape[0], *block.log.actions.shape), order=block.log.actions.order)


class ChunkedCosts:
    """The costs z of all rows at Θ, block by block: what a risk is evaluated on.

    Parameters
    ----------
    blocks : Chunks of ObjectiveBlock
    coef : array (d, …)
    """

    def __init__(self, blocks: Chunks, coef: np.ndarray):
        self._blocks, self._coef = blocks, coef

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self._blocks)

    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest z, NaN if any z is."""
        low, high = zip(*self._blocks.map(ObjectiveBlock.cost_range, self._coef), strict=True)
        return float(np.min(low)), float(np.max(high))

    def sum(self, function: Callable[..., np.ndarray], *arguments) -> np.ndarray:
        """Return Σ function(z, share, *arguments) over groups of blocks."""
        return compensated_sum(self._blocks.map_groups(_group_sum, self._coef, function, *arguments))

    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all z and shares, (n,): 16 bytes a row."""
        costs = [*self._blocks.map(_costs_and_shares, self._coef)]
        self._ends = np.cumsum([len(z) for z, _ in costs])[:-1]
        z, share = zip(*costs, strict=True)
        return _joined(z), _joined(share)

    def gradient(self, worst: Slopes) -> np.ndarray:
        """Return the gradient in Θ, (d, …), from that in z: of the rows as ``gather`` orders them, or a function."""
        by_block = [worst] * len(self) if callable(worst) else np.split(worst, self._ends)
        return compensated_sum(self._blocks.map(ObjectiveBlock.gradient, self._coef, by_chunk=by_block))


def _costs_and_shares(block: ObjectiveBlock, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return block.costs(coef), block._estimate.share


def _group_sum(blocks: list[ObjectiveBlock], coef: np.ndarray, function: Callable, *arguments) -> np.ndarray:
    z, share = zip(*(_costs_and_shares(block, coef) for block in blocks), strict=True)
    return function(_joined(z), _joined(share), *arguments)


def _joined(arrays) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


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

    def objective(self, design: LinearPredictor, clip: float | None, cost: np.ndarray | None = None) -> Objective:
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
