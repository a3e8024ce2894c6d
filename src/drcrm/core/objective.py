"""The training objective: log × policy → log π → weight → estimate → risk → value, and back to its gradient in Θ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import reduce

import numpy as np

from ..data.chunked_log import Block, rows_of
from ..data.executors import Chunks
from ..data.listeners import passed
from ..errors import InputError
from .design import Design, ScoreMap
from .estimates import Estimate, estimate_class
from .numerics import compensated_sum
from .risks import Evaluation, Risk
from .weights import Clipped, Likelihood, Weight

MOST_KEPT = 2**25  # scores of a log whose probabilities are kept between the two halves of a pass: 256 MB
Slopes = np.ndarray | Callable[[np.ndarray, np.ndarray], np.ndarray]


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
        chunks = self._chunks()
        passed(len(design.log.Y))
        if self.estimate.is_of_rows:
            costs = ChunkedCosts(chunks, coef)
            value, worst, guess = self.risk.evaluate_chunks(costs, self.estimate.size, guess)
            return value, costs.gradient(worst).ravel(), guess
        log_prob, expected = design.gathered(chunks.map(ObjectiveChunk.forward, coef))
        value, by_row, by_context, guess = self.estimated(log_prob, expected, guess)
        of_rows, of_contexts = design.chunked.split_rows(by_row), design.chunked.split_contexts(by_context)
        slopes = [list(zip(*of_chunk, strict=True)) for of_chunk in zip(of_rows, of_contexts, strict=True)]
        gradients = chunks.map(ObjectiveChunk.backward, coef, by_chunk=slopes)
        return value, reduce(np.add, (gradient for of_chunk in gradients for gradient in of_chunk)).ravel(), guess

    def _chunks(self) -> Chunks:
        """Return the chunks of the log; objectives of the same estimate and weight share them."""
        design, key = self.design, (self.estimate, repr(self.weight))
        if design.objective_chunks[0] != key:
            keeps = design.log.X.shape[0] * np.prod(design.log.actions.shape) <= MOST_KEPT
            arguments = design.scores, self.weight, self.estimate, bool(keeps)
            design.objective_chunks = key, Chunks([ObjectiveChunk(b, *arguments) for b in design.chunked.chunks])
        return design.objective_chunks[1]

    def estimated(self, log_prob: np.ndarray, expected: np.ndarray | None, guess: object = None):
        """Return what the estimate makes of a pass forward: see ``Estimate.evaluate``."""
        weight = slope = None
        if self.estimate.uses_weights:
            weight, slope = self.weight(log_prob, self.design.log.log_propensity)
        return self.estimate.evaluate(self.risk, weight, slope, expected, guess)


class ObjectiveChunk:
    """A chunk of a log on the way of an objective: forward from Θ to costs z of its rows, and back to a gradient.

    Every method takes Θ, so that a chunk that was lost with its worker can be evaluated anew.

    Parameters
    ----------
    blocks : list of Block
    scores : ScoreMap
    weight : Weight
    estimate : Estimate
        Of the whole log.
    keeps : bool
        Whether what the gradient needs is kept from the pass forward, or else computed once more.
    """

    def __init__(self, blocks: list[Block], scores: ScoreMap, weight: Weight, estimate: Estimate, keeps: bool):
        self.blocks, self._scores, self._weight, self._keeps = blocks, scores, weight, keeps
        if estimate.is_of_rows:
            self._estimates = [estimate.part(block.rows, block.context) for block in blocks]
            self._share = estimate.share[rows_of(blocks)]
        self._coef, self._z, self._passes, self._forwards, self._buffers = None, None, {}, {}, {}

    def forward(self, coef: np.ndarray) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Return log π of the rows, and the expected modelled costs, of each block."""
        self._move_to(coef)
        return [self._forward(number)[:2] for number in range(len(self.blocks))]

    def backward(self, slopes: list[tuple], coef: np.ndarray) -> list[np.ndarray]:
        """Return the gradient of each block in Θ, from its gradients in log π and in the expected modelled costs."""
        self._move_to(coef)
        return [self._backward(number, *of_block) for number, of_block in enumerate(slopes)]

    def cost_range(self, coef: np.ndarray) -> tuple[float, float]:
        """Return the smallest and the largest z, NaN if any z is."""
        z, _ = self.costs(coef)
        return z.min(), z.max()

    def costs(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z of the rows, and the share of each row in the log."""
        self._move_to(coef)
        if self._z is None:
            self._z = _joined([self._estimated(number)[0] for number in range(len(self.blocks))])
        return self._z, self._share

    def sums(self, coef: np.ndarray, function: Callable[..., np.ndarray], *arguments) -> np.ndarray:
        """Return ``function(z, share, *arguments)``."""
        return function(*self.costs(coef), *arguments)

    def gradients(self, worst: Slopes, coef: np.ndarray) -> list[np.ndarray]:
        """Return the gradient of each block in Θ, from the gradient in z, or from a function of z and share."""
        z, share = self.costs(coef)
        worst = worst(z, share) if callable(worst) else worst
        gradients, start = [], 0
        for number, estimate in enumerate(self._estimates):
            stop = start + len(estimate.share)
            _, slope, expected = self._passes.get(number) or self._estimated(number)
            by_row, by_context = estimate.slopes(worst[start:stop], slope, expected)
            gradients.append(self._backward(number, by_row, by_context))
            start = stop
        return gradients

    def _move_to(self, coef: np.ndarray) -> None:
        """Forget what was kept for another Θ."""
        if self._coef is None or not np.array_equal(coef, self._coef):
            self._coef, self._z = coef, None
            self._passes.clear()
            self._forwards.clear()

    def _estimated(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return z of a block's rows, ∂w/∂log π, and the expected modelled costs."""
        block = self.blocks[number]
        log_prob, expected, _ = self._forward(number)
        weight, slope = self._weight(log_prob, block.log.log_propensity)
        estimated = self._estimates[number].z(weight, expected), slope, expected
        if self._keeps:
            self._passes[number] = estimated
        return estimated

    def _forward(self, number: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        block, buffers = self.blocks[number], None
        if self._scores.trains:
            buffers = [self._buffer(number if self._keeps else "mean", block), self._buffer("spare", block)]
        found = self._scores.forward(block, self._coef, buffers)
        if not self._keeps:
            self._forwards.clear()
        self._forwards[number] = found[1:]
        return found

    def _backward(self, number: int, by_row: np.ndarray | None, by_context: np.ndarray | None) -> np.ndarray:
        if number not in self._forwards:
            self._forward(number)
        block = self.blocks[number]
        spare = self._buffer("spare", block) if self._scores.trains else None
        expected, mean = self._forwards[number]
        return self._scores.backward(block, mean, by_row, by_context, expected, spare)

    def _buffer(self, name: object, block: Block) -> np.ndarray:
        """Return an array of the scores' shape that every pass overwrites."""
        shape = block.log.X.shape[0], *block.log.actions.shape
        if (name, shape) not in self._buffers:
            self._buffers[name, shape] = np.empty(shape, order=block.log.actions.order)
        return self._buffers[name, shape]


class ChunkedCosts:
    """The costs z of all rows at Θ, chunk by chunk: what a risk is evaluated on.

    Parameters
    ----------
    chunks : Chunks of ObjectiveChunk
    coef : array (d, …)
    """

    def __init__(self, chunks: Chunks, coef: np.ndarray):
        self._chunks, self._coef = chunks, coef

    def __len__(self) -> int:
        """Return the number of blocks."""
        return sum(len(chunk.blocks) for chunk in self._chunks)

    def range(self) -> tuple[float, float]:
        """Return the smallest and the largest z, NaN if any z is."""
        low, high = zip(*self._chunks.map(ObjectiveChunk.cost_range, self._coef), strict=True)
        return float(np.min(low)), float(np.max(high))

    def sum(self, function: Callable[..., np.ndarray], *arguments) -> np.ndarray:
        """Return Σ function(z, share, *arguments) over the chunks."""
        return compensated_sum(self._chunks.map(ObjectiveChunk.sums, self._coef, function, *arguments))

    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all z and shares, (n,): 16 bytes a row."""
        z, share = zip(*self._chunks.map(ObjectiveChunk.costs, self._coef), strict=True)
        self._ends = np.cumsum([len(of_chunk) for of_chunk in z])[:-1]
        return _joined(z), _joined(share)

    def gradient(self, worst: Slopes) -> np.ndarray:
        """Return the gradient in Θ, (d, …), from that in z: of the rows as ``gather`` orders them, or a function."""
        by_chunk = [worst] * len(self._chunks) if callable(worst) else np.split(worst, self._ends)
        gradients = self._chunks.map(ObjectiveChunk.gradients, self._coef, by_chunk=by_chunk)
        return compensated_sum(gradient for of_chunk in gradients for gradient in of_chunk)


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
