"""Passes over a block of a log at one Θ: forward to log π or to the costs z of its rows, and back to a gradient.

A pass keeps what its gradient needs, so nothing depends on what was evaluated before.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from drcrm.data.chunked_log import Block
from drcrm.data.executors import Chunks
from drcrm.policies.prepared_log import ScoreMap
from drcrm.weights import Weight

GradientInZ = np.ndarray | Callable[[np.ndarray, np.ndarray], np.ndarray]  # an array, or a function of z and share
Part = tuple[Block, Any]  # a block, and the estimate on its rows


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
