"""Evaluation of an objective on blocks of a log: forward from Θ to the costs z of the rows, and back to a gradient."""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Any

import numpy as np

from drcrm.data.chunked_log import Block
from drcrm.data.executors import Chunks
from drcrm.policies.prepared_log import ScoreMap
from drcrm.weights import Weight

GradientInZ = np.ndarray | Callable[[np.ndarray, np.ndarray], np.ndarray]  # an array, or a function of z and share


class ObjectiveBlock:
    """One block of a log, with the weight and the estimate of an objective.

    Every method takes Θ, so that a block that was lost with its worker can be evaluated again.

    Parameters
    ----------
    block : Block
    scores : ScoreMap
    weight : Weight
    estimate : Estimate or RowwiseEstimate
        The estimate on the whole log.
    keeps : bool
        Whether to keep the arrays that the gradient needs. If not, the backward pass computes them again.
    """

    def __init__(self, block: Block, scores: ScoreMap, weight: Weight, estimate: Any, keeps: bool):
        self._block, self._scores, self._weight, self._keeps = block, scores, weight, keeps
        self._estimate: Any = None
        if estimate.is_rowwise:
            self._estimate = estimate.restrict_to_rows(block.rows, block.context)
        self._coef: Any = None
        self._z: Any = None
        self._kept: Any = None  # values at the last Θ that the backward pass needs
        self._mean: np.ndarray | None = None

    @property
    def share(self) -> np.ndarray:
        """Share of each row in the whole log."""
        return self._estimate.share

    def forward(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return log π of the rows, and the expected modelled costs of the contexts."""
        log_prob, expected, mean = self._forward(coef)
        self._coef, self._kept = coef, (expected, mean) if self._keeps else None
        return log_prob, expected

    def backward(self, gradients: tuple[Any, Any], coef: np.ndarray) -> np.ndarray:
        """Return the gradient in Θ, from the gradients in log π and in the expected modelled costs."""
        is_kept = self._kept is not None and np.array_equal(coef, self._coef)
        return self._backward(*gradients, *(self._kept if is_kept else self._forward(coef)[1:]))

    def costs(self, coef: np.ndarray) -> np.ndarray:
        """Return z of the rows, (n,)."""
        if self._coef is None or not np.array_equal(coef, self._coef):
            self._z, *rest = self._evaluate(coef)
            self._coef, self._kept = coef, rest if self._keeps else None
        return self._z

    def cost_range(self, coef: np.ndarray) -> tuple[float, float]:
        """Return the smallest and the largest z; both are NaN if any z is."""
        z = self.costs(coef)
        return z.min(), z.max()

    def gradient(self, in_z: GradientInZ, coef: np.ndarray) -> np.ndarray:
        """Return the gradient in Θ, from the gradient in z."""
        z = self.costs(coef)
        in_z = in_z(z, self.share) if callable(in_z) else in_z
        slope, expected, mean = self._kept or self._evaluate(coef)[1:]
        in_log_prob, in_expected = self._estimate.gradients(in_z, slope, expected)
        return self._backward(in_log_prob, in_expected, expected, mean)

    def _evaluate(self, coef: np.ndarray) -> tuple:
        """Return z, ∂w/∂log π, the expected modelled costs, and μ."""
        log_prob, expected, mean = self._forward(coef)
        weight, slope = self._weight(log_prob, self._block.log.log_propensity)
        return self._estimate.z(weight, expected), slope, expected, mean

    def _forward(self, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return log π, the expected modelled costs, and μ, which the next pass may overwrite."""
        if self._keeps and self._mean is None:
            self._mean = _empty_scores(self._block)
        mean = _thread_buffer("mean", self._block) if self._mean is None else self._mean
        return self._scores.forward(self._block, coef, [mean, _thread_buffer("scores", self._block)])

    def _backward(self, by_row: Any, by_context: Any, expected: Any, mean: np.ndarray) -> np.ndarray:
        buffer = _thread_buffer("scores", self._block)
        return self._scores.backward(self._block, mean, by_row, by_context, expected, buffer)


class BlockCosts:
    """The costs z of all rows at Θ, block by block, on which a risk is evaluated.

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
        """Return the smallest and the largest z; both are NaN if any z is."""
        low, high = zip(*self._blocks.map(ObjectiveBlock.cost_range, self._coef), strict=True)
        return float(np.min(low)), float(np.max(high))

    def sum(self, function: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
        """Return Σ function(z, share, *arguments) over blocks."""
        return sum(self._blocks.map(_block_sum, self._coef, function, *arguments))

    def gather(self) -> tuple[np.ndarray, np.ndarray]:
        """Return z and share of all rows, (n,): 16 bytes a row."""
        costs = [*self._blocks.map(_costs_and_shares, self._coef)]
        self._ends = np.cumsum([len(z) for z, _ in costs])[:-1]
        z, share = map(np.concatenate, zip(*costs, strict=True))
        return z, share

    def gradient(self, in_z: GradientInZ) -> np.ndarray:
        """Return the gradient in Θ, (d, …), from the gradient in z; an array has the order of ``gather``."""
        by_block = [in_z] * len(self) if callable(in_z) else np.split(in_z, self._ends)
        return sum(self._blocks.map(ObjectiveBlock.gradient, self._coef, by_chunk=by_block))


def _costs_and_shares(block: ObjectiveBlock, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return block.costs(coef), block.share


def _block_sum(block: ObjectiveBlock, coef: np.ndarray, function: Callable, *arguments: Any) -> np.ndarray:
    return function(*_costs_and_shares(block, coef), *arguments)


_BUFFERS = local()


def _thread_buffer(name: str, block: Block) -> np.ndarray:
    """Return an array of the scores' shape that belongs to this thread; the thread's next block overwrites it."""
    array, shape = getattr(_BUFFERS, name, None), (block.log.X.shape[0], *block.log.actions.shape)
    if array is None or array.shape != shape or array.flags.f_contiguous != (block.log.actions.order == "F"):
        array = _empty_scores(block)
        setattr(_BUFFERS, name, array)
    return array


def _empty_scores(block: Block) -> np.ndarray:
    return np.empty((block.log.X.shape[0], *block.log.actions.shape), order=block.log.actions.order)
